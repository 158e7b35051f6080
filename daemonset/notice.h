/*
 * daemonset/notice.h - what the cluster's operators must know of a node
 *
 * Looked at every few seconds, and said as Events of the Node (kube_event.h)
 * for as long as it holds:
 *
 *   Shadowed             another file sorts before our list, pods get no lanes
 *   AddressesExhausted   a range of podlane-ipam has no address left
 *   PeerUnreachable      the agent of a node is wanted and has been away for
 *                        PL_NOTICE_PEER_S
 *   FellBackToTCP        lanes to a node went over RDMA and don't any more
 *
 * The log has all of it in any case.
 */
#ifndef DAEMONSET_NOTICE_H
#define DAEMONSET_NOTICE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "ipam/ipam.h"

struct pl_agent;
struct pl_notices;
struct pl_remote_node;

#define PL_NOTICE_PEER_S 15

/* The agent's registry must be the Kubernetes API's. */
int pl_notices_create(struct pl_agent *a, struct pl_notices **out,
		      struct pl_err *err);
/* NULL is none. */
void pl_notices_destroy(struct pl_notices *n);

/*
 * How many addresses of each range of standalone mode are taken. Returns how
 * many ranges; 0 where addresses come from elsewhere.
 */
int pl_notice_addresses(const struct pl_agent *a,
			struct pl_ipam_usage out[PL_IPAM_MAX_RANGES]);

/* What is remembered of another node. */
struct pl_notice_peer {
	uint64_t down_ns;		/* since then; 0: it is not down */
	bool had_verbs;			/* and has not been told of since */
};

/*
 * A node as it is now. Returns the reason of an Event, with its text, or NULL:
 * there is nothing to say.
 */
const char *pl_notice_peer(struct pl_notice_peer *p,
			   const struct pl_remote_node *n, uint64_t now_ns,
			   char text[256]);

#endif
