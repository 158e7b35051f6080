/*
 * plugin/address.h - addresses, by our allocator or by another IPAM plugin
 *
 * With ipam.type "podlane-ipam" the allocator is called in this process; any
 * other type is executed from CNI_PATH. Without a type there are no addresses
 * and every call succeeds.
 */
#ifndef PLUGIN_ADDRESS_H
#define PLUGIN_ADDRESS_H

#include "plugin/plugin.h"
#include "plugin/result.h"

/* r gets ips, routes and dns. On failure nothing stays reserved. */
int pl_address_add(const struct pl_call *c, struct pl_result *r,
		   struct pl_err *err);

/*
 * What pl_address_del needs later, whatever the configuration then is; to be
 * deleted. NULL: out of memory, with err set.
 */
cJSON *pl_address_memo(const struct pl_call *c, struct pl_err *err);

/* memo NULL: from the configuration. */
int pl_address_del(const struct pl_call *c, const struct pl_attach *at,
		   const cJSON *memo, struct pl_err *err);

/* ips of r that lie on interface number ifindex are reserved. */
int pl_address_check(const struct pl_call *c, const struct pl_result *r,
		     int ifindex, struct pl_err *err);
int pl_address_status(const struct pl_call *c, struct pl_err *err);
/* valid: the list of GC, NULL: none. */
int pl_address_gc(const struct pl_call *c, const cJSON *valid,
		  struct pl_err *err);

#endif
