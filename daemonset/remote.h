/*
 * daemonset/remote.h - lanes and regions whose other end is on another node
 *
 * Theory of operation
 *
 * The broker (broker.h) knows the pods of this node, their listeners, lanes and
 * regions, checks policy and quotas, and talks to the pods' libraries. The
 * remote part knows the other nodes' agents, keeps replicas, and moves bytes
 * with a carrier (rdma/carrier.h). They meet in this header and in "for the
 * remote part" of broker.h. Both name things by 64-bit ids that the broker
 * gives out: unique on this node while it runs, never 0.
 *
 * A lane to another node, as seen on the connecting side:
 *
 *   broker                            remote part
 *   pl_remote_connect(id, ...)  --->  asks the agent of dst's node, which calls
 *                                     its own pl_broker_incoming
 *   done(0, fds)                <---  replica of the peer's segment, doorbell
 *   pl_remote_lane_close(id)    --->  the pod closed its end, or died
 *   pl_broker_lane_ended(id)    <---  the peer ended it, or its node was lost
 *
 * Whichever of the last two calls comes first ends the id between the two:
 * the other one does not follow. The accepting side is the same from
 * pl_broker_incoming on. The remote part goes on by itself until what the pod
 * had sent has reached the peer, and then tells the peer.
 *
 * A region of another node: pl_remote_region_open once for each opening by a
 * pod of this node (that is what policy is checked for), however many openings
 * share one replica. On the owner's node the remote part finds the region by
 * pl_broker_region_lookup and uses what that returns until the broker calls
 * pl_remote_region_gone.
 *
 * Descriptors in arguments are borrowed for the duration of the call: whoever
 * wants to keep one duplicates it (close-on-exec). Text arguments too.
 *
 * All calls are made on the event loop's thread. A request function returns 0,
 * and then done runs exactly once, later (never before it has returned), unless
 * the id was closed first; or it returns -errno with err filled, and done never
 * runs. Within done, and within the calls of broker.h that say that something
 * ended, no other id may be closed. A status given to done is 0 or -errno, and
 * then text says why and what to do; it is shown to the user of the pod.
 */
#ifndef DAEMONSET_REMOTE_H
#define DAEMONSET_REMOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/inet.h"
#include "daemonset/registry.h"
#include "daemonset/stats.h"
#include "rdma/carrier.h"

struct event_base;
struct pl_broker;
struct pl_remote;

struct pl_remote_config {
	struct event_base *base;
	struct pl_broker *broker;
	const char *node;		/* own name; outlives the remote part */
	const char *carrier;		/* "auto" */
	uint16_t port;			/* to listen on; 0: the registry's */
	int connections;		/* per pair of nodes; 0: default */
	/* See struct pl_carrier_config; outlives the remote part, or NULL. */
	const char *congestion;
	struct pl_carrier_verbs verbs;	/* its texts outlive it, too */
	struct pl_carrier_security security;	/* its paths outlive it, too */
	int resume_ms;			/* 0: default; see pl_remote_resume */
	int dead_ms;			/* silent so long: lost; 0: default */
	/* Never NULL; valid until the next pl_remote_update has returned. */
	const struct pl_registry *registry;
};

#define PL_REMOTE_RESUME_MS 60000
#define PL_REMOTE_DEAD_MS 10000

/*
 * A node that the registry doesn't have (yet) can't be reached and reaches
 * nobody; that is no error. -EADDRINUSE: somebody else has the port.
 */
int pl_remote_create(const struct pl_remote_config *cfg, struct pl_remote **out,
		     struct pl_err *err);
/*
 * After this no callback runs any more. Lanes and replicas are left as they
 * are, for the next agent.
 */
void pl_remote_destroy(struct pl_remote *r);

/* Another registry holds: nodes may have come, gone, or moved. */
void pl_remote_update(struct pl_remote *r, const struct pl_registry *now);

/* Files of keys have changed. */
void pl_remote_refresh(struct pl_remote *r);

/* --- lanes ---------------------------------------------------------------- */

struct pl_remote_lane {
	uint64_t id;			/* the broker's */
	const struct pl_node *node;	/* where dst is; copy what is kept */
	struct pl_addr src, dst;	/* pods */
	const char *src_ns;		/* Kubernetes namespace of src, or "" */
	const char *service;
	uint32_t ring_bytes;		/* of seg_fd, which has been checked */
	int seg_fd;			/* the pod's own segment */
	int timeout_ms;			/* -1: none */
	const uint8_t *uid;		/* PL_WIRE_UID bytes */
	bool resumes;			/* the pod shows it to another agent */
};

struct pl_remote_lane_up {
	int replica_fd;			/* of the peer's segment; sealed */
	int bell_fd;			/* the pod's end of its doorbell */
	uint32_t ring_bytes;		/* of the peer's segment */
	const char *path;		/* "tcp+tls" */
};

/* up is NULL when status is not 0. */
typedef void pl_remote_lane_done(void *arg, int status, const char *text,
				 const struct pl_remote_lane_up *up);

/* The remote part keeps the time: -ETIMEDOUT by done. */
int pl_remote_connect(struct pl_remote *r, const struct pl_remote_lane *lane,
		      pl_remote_lane_done *done, void *arg,
		      struct pl_err *err);

struct pl_remote_resume {
	uint64_t id;			/* the broker's */
	const struct pl_node *node;	/* where the other pod is */
	bool opener;			/* the pod here has connected */
	struct pl_addr src, dst;	/* pods: who connected, who accepted */
	const uint8_t *uid;
	uint32_t ring_bytes, peer_ring_bytes;
	int seg_fd, replica_fd;		/* checked, but not what is in */
};

/*
 * A pod shows a lane that an agent before this one had. up->replica_fd is a
 * fresh replica that has all of the old one, to be put in its place; up has the
 * remote part's own descriptor of it, and a doorbell that the caller closes.
 * When the other side is not heard of within resume_ms: pl_broker_lane_ended.
 * -EEXIST: the lane is there. -EPROTO: it can't be one.
 */
int pl_remote_lane_resume(struct pl_remote *r,
			  const struct pl_remote_resume *in,
			  struct pl_remote_lane_up *up, struct pl_err *err);

/*
 * The pod has no more to do with this lane, made by pl_remote_connect,
 * pl_remote_lane_resume or pl_broker_incoming; before done it cancels. died:
 * without having closed it, so that the peer gets PL_STATE_DEAD once all bytes
 * have arrived.
 */
void pl_remote_lane_close(struct pl_remote *r, uint64_t id, bool died);

/* --- regions -------------------------------------------------------------- */

struct pl_remote_open {
	uint64_t id;			/* the broker's, for this opening */
	const struct pl_node *node;	/* where owner is; copy what is kept */
	struct pl_addr owner, reader;	/* pods */
	const char *reader_ns;		/* Kubernetes namespace, or "" */
	const char *name;
	uint64_t max_bytes;		/* larger: -EDQUOT */
	uint64_t room_bytes;		/* that the pod may ever have */
	const uint8_t *uid;		/* another one: -ESTALE; 0: any */
	int timeout_ms;			/* -1: as long as may be */
};

struct pl_remote_region_up {
	const uint8_t *uid;
	int replica_fd;			/* sealed */
	uint64_t size;			/* bytes of data */
	uint64_t max_size;		/* that the region may grow to */
	const char *path;		/* "tcp+tls" */
};

typedef void pl_remote_region_done(void *arg, int status, const char *text,
				   const struct pl_remote_region_up *up);

/*
 * Answered within some seconds, or timeout_ms where that is less: -ENOENT,
 * -EACCES, -EHOSTUNREACH, -EDQUOT, -ESTALE by done; -EAGAIN: it may be there in
 * a moment. A node that was connected before and is not now is waited for a
 * little longer, up to timeout_ms. With a uid nothing is waited for but the
 * owner's agent: a node that is not connected is -EAGAIN at once. When the
 * owner's region ends later: pl_broker_region_ended(id).
 */
int pl_remote_region_open(struct pl_remote *r, const struct pl_remote_open *o,
			  pl_remote_region_done *done, void *arg,
			  struct pl_err *err);

/*
 * A reader of a replica has found that the region has grown and has what is
 * before this offset: the replica grows, unless another reader has made it
 * already. out is the remote part's. What is in it comes later: `filled` of the
 * replica says so. -EDQUOT: more than max_bytes, or than there is room for;
 * -ENOMEM; -EAGAIN: the region has not grown, as far as is known here; -ESTALE:
 * it has ended.
 */
struct pl_broker_part;
int pl_remote_region_more(struct pl_remote *r, uint64_t id, uint64_t offset,
			  uint64_t max_bytes, struct pl_broker_part *out,
			  struct pl_err *err);

/*
 * A region of this node has grown by a part, which is checked, before anybody
 * is told: called for every one, whether the remote part knows it or not.
 */
int pl_remote_region_grew(struct pl_remote *r, uint64_t region_id,
			  const struct pl_broker_part *part,
			  struct pl_err *err);

/* The pod closed this opening; before done it cancels. */
void pl_remote_region_put(struct pl_remote *r, uint64_t id);

/*
 * A region of this node has ended: called for every one, whether the remote
 * part knows it or not. Its descriptors, mapping and id are not to be used any
 * more. died: the owner did not close it.
 */
void pl_remote_region_gone(struct pl_remote *r, uint64_t region_id, bool died);

/* --- pods ----------------------------------------------------------------- */

#define PL_REMOTE_FIND_NODES_MAX 64

/* node NULL: none of them has it, or has said so in time. */
typedef void pl_remote_pod_found(void *arg, const char *node);

/*
 * Ask all other nodes whether they have a pod of this address; they are
 * connected for that. The first that says so counts. -E2BIG: the registry has
 * more than PL_REMOTE_FIND_NODES_MAX nodes; -ENOENT: it has no other.
 */
int pl_remote_pod_find(struct pl_remote *r, const struct pl_addr *pod,
		       pl_remote_pod_found *done, void *arg, uint64_t *id,
		       struct pl_err *err);
void pl_remote_pod_find_cancel(struct pl_remote *r, uint64_t id);

/* --- for podlanectl ------------------------------------------------------ */

struct pl_remote_node {
	const char *name;
	const char *carrier;		/* as lanes are shown to use it */
	const char *security;		/* "tls", "psk", "none" */
	const char *congestion;		/* of the carrier; "": none */
	const char *state;		/* "up", "down: REASON", "idle" */
	uint32_t lanes;
	uint32_t replicas;		/* of regions of that node, here */
	uint64_t sent_bytes, received_bytes;
	/* Of what was sent: by RDMA, of that copied first; what it took. */
	uint64_t rdma_bytes, rdma_copied_bytes;
	uint64_t work_requests, completions, doorbells, wakeups;
	uint64_t completion_errors, fallbacks;
	uint32_t queue_pairs, memory_regions;	/* now */
};

/* What was done for lanes, those that are gone included. */
void pl_remote_carried(const struct pl_remote *r, struct pl_carry_sum *sum);

/*
 * How bytes go between this node and that one at present, "verbs" or "tcp+tls";
 * while they are not connected, how they went. NULL: they never did. Valid
 * until the loop turns.
 */
const char *pl_remote_path(const struct pl_remote *r, const char *node);

/* Each node of the registry but our own. */
void pl_remote_nodes(struct pl_remote *r,
		     void (*fn)(const struct pl_remote_node *n, void *arg),
		     void *arg);

#endif
