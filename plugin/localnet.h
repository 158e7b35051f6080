/*
 * plugin/localnet.h - the node's 127.0.0.1, which leads to pods
 *
 * The kernel routes no packet that says 127.0.0.1 out of the node or into it,
 * unless route_localnet of the interface is set. What our nftables then let
 * through are only those that the node itself sends to a pod's port.
 *
 * Any number but 0 sets it. Ours is 2: so the setting itself says whose it is,
 * even when somebody has deleted all rules, and one that was made by somebody
 * else stays as it is.
 */
#ifndef PLUGIN_LOCALNET_H
#define PLUGIN_LOCALNET_H

#include <stdbool.h>

#include "common/inet.h"
#include "common/nl.h"

struct pl_localnet {
	int index;			/* 0: the node has no way to the pod */
	char name[PL_IFNAME_BYTES];
	bool on;
};

/*
 * The interface by which the node reaches the address; not by a router, since
 * that would open the interface to the whole network behind it.
 */
int pl_localnet_find(const struct pl_addr *pod, struct pl_localnet *l,
		     struct pl_err *err);

/* If it is off. */
int pl_localnet_open(const struct pl_localnet *l, struct pl_err *err);

/* All that we opened. Best effort; says so in the log. */
void pl_localnet_close_all(void);

#endif
