/*
 * plugin/wire.h - the pod's ordinary network: bridge, veth pair, addresses
 *
 * Everything goes over netlink and /proc/sys; no program is executed. host is
 * a netlink socket of the node's namespace. Nothing here undoes anything: the
 * caller deletes the pod's link and with it goes all that is the pod's. The
 * bridge and its addresses are shared and stay.
 */
#ifndef PLUGIN_WIRE_H
#define PLUGIN_WIRE_H

#include "common/nl.h"
#include "plugin/conf.h"
#include "plugin/result.h"

/* A MAC of the locally administered ones. */
int pl_wire_random_mac(uint8_t *mac, struct pl_err *err);

/*
 * Find the bridge, or make it with a pinned MAC, and set it up. Several may do
 * so at once. mtu: of a new one; 0: the kernel's.
 */
int pl_wire_bridge(struct pl_nl *host, const struct pl_conf *c, uint32_t mtu,
		   struct pl_link *br, struct pl_err *err);

struct pl_wire_pair {
	const char *host_name;
	const char *pod_name;
	int netns_fd;
	uint32_t mtu;		/* 0: the kernel's */
};

/*
 * Make the pair in one request: the host's end in the bridge, the pod's in its
 * namespace, both down. *port is the host's end. -EEXIST: one of the names is
 * taken.
 */
int pl_wire_pair(struct pl_nl *host, const struct pl_conf *c,
		 const struct pl_wire_pair *pair, const struct pl_link *br,
		 struct pl_link *port, struct pl_err *err);

/*
 * In the pod's namespace: lo up, the interface up (not with
 * disableContainerInterface), then the host's end, addresses, routes. A route
 * without gw goes by the gateway of the first address of its family. *pod is
 * the interface; nl is opened in the namespace, to be closed by the caller.
 */
int pl_wire_pod(int netns_fd, const char *ifname, const struct pl_conf *c,
		const struct pl_result *r, struct pl_nl *host,
		const struct pl_link *port, struct pl_nl *nl,
		struct pl_link *pod, struct pl_err *err);

/*
 * Tell the neighbours where the pod's addresses are now: some may know another
 * MAC for them, of a pod that is gone. nl and pod as from pl_wire_pod. Best
 * effort; waits a little for the bridge to let frames through.
 */
void pl_wire_announce(struct pl_nl *host, const struct pl_link *port,
		      struct pl_nl *nl, const struct pl_link *pod);

/*
 * The bridge (or the link of its VLAN) gets r's gateways as its addresses;
 * forwarding is on; the node knows no old MAC for r's addresses.
 */
int pl_wire_gateway(struct pl_nl *host, const struct pl_conf *c,
		    const struct pl_link *br, const struct pl_result *r,
		    struct pl_err *err);

#endif
