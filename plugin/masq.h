/* plugin/masq.h - ipMasq: pods reach other networks by the node's address */
#ifndef PLUGIN_MASQ_H
#define PLUGIN_MASQ_H

#include "plugin/result.h"
#include "plugin/rules.h"

/*
 * What comes from an address of r on interface number ifindex and goes out of
 * its subnet, but for multicast, gets the address of the node's interface that
 * it leaves by. The same as the reference bridge plugin's ipMasq.
 */
int pl_masq_rules(const struct pl_result *res, int ifindex, struct pl_rules *r,
		  struct pl_err *err);

#endif
