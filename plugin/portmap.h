/*
 * plugin/portmap.h - runtimeConfig.portMappings: ports of the node that lead
 * into the pod
 *
 * The same as the reference portmap plugin: TCP, UDP or SCTP to a port of any
 * address of the node, or of hostIP, goes to the first IPv4 and IPv6 address
 * of the pod. With "snat" (the default) also from the pod itself, from its
 * subnet and from 127.0.0.1 of the node; those are then masqueraded, because
 * their answers would not come back by the node otherwise. "masqAll" does that
 * to everybody.
 */
#ifndef PLUGIN_PORTMAP_H
#define PLUGIN_PORTMAP_H

#include "plugin/conf.h"
#include "plugin/result.h"
#include "plugin/rules.h"

/* Whether there are any. */
bool pl_portmap_wanted(const struct pl_conf *c);

/* Their form. */
int pl_portmap_check(const struct pl_conf *c, struct pl_err *err);

/* For the addresses of res on interface number ifindex, or on none. */
int pl_portmap_rules(const struct pl_conf *c, const struct pl_result *res,
		     int ifindex, struct pl_rules *r, struct pl_err *err);

#endif
