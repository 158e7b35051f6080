/*
 * plugin/localnet.h - the node's 127.0.0.1, which leads to pods
 *
 * The kernel routes no packet that says 127.0.0.1 out of the node or into it,
 * unless route_localnet of the interface is set. What our nftables then let
 * through are only those that the node itself sends to a pod's port.
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

/* The interface by which the node reaches the address. */
int pl_localnet_find(const struct pl_addr *pod, struct pl_localnet *l,
		     struct pl_err *err);

int pl_localnet_set(const char *ifname, bool on, struct pl_err *err);

#endif
