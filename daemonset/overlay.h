/*
 * daemonset/overlay.h - the IP network between the pods of all nodes
 *
 * VXLAN, in the namespace of the calling thread. Everything is derived from
 * the registry: peers exchange nothing. sync may be called at any time, costs a
 * few dumps when nothing has changed, and does not care who made what is there
 * (an earlier run of the agent); other devices are never touched.
 *
 * In the configuration of the agent:
 *   "overlay": {"type": "vxlan" | "none", "device": "podlane.1", "vni": 1,
 *               "port": 8472, "mtu": 1450}
 * Each may be left out; mtu is then that of the underlay less the
 * encapsulation. "none": the network between pods is somebody else's.
 */
#ifndef DAEMONSET_OVERLAY_H
#define DAEMONSET_OVERLAY_H

#include <cjson/cJSON.h>

#include "common/err.h"
#include "common/nl.h"
#include "daemonset/registry.h"

enum pl_overlay_type { PL_OVERLAY_VXLAN, PL_OVERLAY_NONE };

struct pl_overlay_conf {
	enum pl_overlay_type type;
	char device[PL_IFNAME_BYTES];
	uint32_t vni;
	uint16_t port;
	uint32_t mtu;			/* 0: derived from the underlay */
};

#define PL_OVERLAY_STATE_BYTES 256

struct pl_overlay {
	struct pl_overlay_conf conf;
	char node[PL_NODE_NAME_BYTES];
	struct pl_nl nl;
	uint32_t mtu;
	char state[PL_OVERLAY_STATE_BYTES];
};

/* obj NULL: the defaults. where: the path for messages, such as "overlay". */
int pl_overlay_conf_parse(const cJSON *obj, const char *where,
			  struct pl_overlay_conf *out, struct pl_err *err);

/* node: our name in the registry. Makes nothing yet; state is "down: ...". */
int pl_overlay_init(struct pl_overlay *o, const struct pl_overlay_conf *conf,
		    const char *node, struct pl_err *err);
/* Closes what is open here. The device stays: pods go on without an agent. */
void pl_overlay_fini(struct pl_overlay *o);

/*
 * Make device, addresses, routes, neighbours and forwarding entries what the
 * registry asks for. Does as much as it can: a failure that concerns one peer
 * leaves the others right and the state "up"; the first failure is returned
 * (call again later), and every one of them is logged.
 */
int pl_overlay_sync(struct pl_overlay *o, const struct pl_registry *reg,
		    struct pl_err *err);

/* Remove the device and with it all the rest. 0 when there is none. */
int pl_overlay_teardown(struct pl_overlay *o, struct pl_err *err);

/* "up" or "down: REASON", as of the last sync; valid until the next. */
const char *pl_overlay_state(const struct pl_overlay *o);
/* Of pods' interfaces on this node; 0: not known before the first good sync. */
uint32_t pl_overlay_mtu(const struct pl_overlay *o);

/* The MAC that the overlay device of a node of this name has. */
void pl_overlay_mac(const char *node, uint8_t mac[6]);

#endif
