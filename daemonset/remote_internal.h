/*
 * daemonset/remote_internal.h - what the files of the remote part share
 *
 * remote.c       the calls of remote.h that concern all of it, the carrier
 * remote_node.c  other nodes: up, down, lost; messages to them
 * remote_lane.c  lanes: opened, ended
 * remote_resume.c  lanes: connections lost, other agents
 * remote_pump.c  lanes: bytes and counters
 * remote_read.c  regions of other nodes that pods here read
 * remote_own.c   regions of this node that other nodes follow
 */
#ifndef DAEMONSET_REMOTE_INTERNAL_H
#define DAEMONSET_REMOTE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <event2/event.h>
#include <uthash.h>
#include <utlist.h>

#include "daemonset/broker.h"
#include "daemonset/peer_wire.h"
#include "daemonset/remote.h"
#include "rdma/carrier.h"
#include "shm/segment.h"

/* A request waits so long for a node that is not connected. */
#define PL_REMOTE_REACH_MS 4000
/* A region of a node that was connected before is waited for so long. */
#define PL_REMOTE_AGAIN_MS 20000
/* A node answers a REGION_FIND within this time. */
#define PL_REMOTE_FIND_MS 5000
/* A lane that is closing waits so long for an agent that was started anew. */
#define PL_REMOTE_LAST_MS 10000
/* Bytes of one put of ring or region data. */
#define PL_REMOTE_CHUNK (256u << 10)
/* Puts of one lane, or of one subscription, that the carrier has. */
#define PL_REMOTE_LANE_PUTS 16
#define PL_REMOTE_SUB_PUTS 12

struct pl_rnode;

/* What a key of ours was given out for. */
struct pl_rsink {
	void (*notify)(struct pl_rsink *s);
};

/* A message that the carrier had no room for. */
struct pl_rmsg {
	struct pl_rmsg *next;
	uint64_t after;
	size_t len;
	uint8_t data[];
};

enum pl_rlane_state {
	PL_RLANE_WAITING,		/* opener: for the node */
	PL_RLANE_ASKED,			/* opener: LANE_OPEN is sent */
	PL_RLANE_INCOMING,		/* acceptor: for the broker */
	PL_RLANE_OPEN,
};

struct pl_rlane {
	struct pl_rsink sink;		/* first: of the replica */
	UT_hash_handle hh;		/* in node->lanes, by key */
	UT_hash_handle hh_id;		/* in remote->lanes, while id */
	struct pl_rnode *node;
	uint64_t id;			/* the broker's; 0: ended for it */
	uint64_t no, key;		/* key: no and opener */
	bool opener;
	enum pl_rlane_state state;
	pl_remote_lane_done *done;	/* opener, before OPEN */
	void *arg;
	struct pl_peer_lane_open ask;	/* resumed: addresses and uid only */
	uint64_t give_up_ns;		/* opener: when to, before OPEN */
	struct pl_seg own, rep;		/* the pod's; the peer's replica */
	uint64_t in_key;		/* of rep, exposed to the node */
	uint64_t out_key;		/* of the replica there; 0: not known */
	uint64_t source;		/* of own */
	int bell;			/* our end */
	struct event *ev_bell;
	struct event *ev_timer;		/* time to open; then the tail's tick */
	struct event *ev_pump;		/* pump in the next turn */

	/* what the node knows of own, and what was seen of it */
	uint64_t sent;			/* bytes of the ring */
	uint64_t sent_max;		/* before a loss; see again_bytes */
	uint64_t goal, goal_sum;	/* what is being sent, its checksum */
	uint64_t summed, summed_sum;	/* what was said last */
	uint64_t tail_sent, state_sent;
	unsigned int n_puts;		/* whose done has not run */
	bool blocked;			/* more to send than n_puts allows */
	bool stale;			/* counters must be sent in any case */
	bool resumes;			/* both pods show it to other agents */
	bool paused;			/* until the node's LANE_SYNC */
	uint64_t paused_ns;		/* since when */
	bool resumed;			/* sent is not known until then */
	bool closing;			/* the pod's end is over */
	bool died;			/* ... without having closed */
	bool end_sent;
	/* sleeping: what stands in rep's wait words, and what rang for */
	uint32_t wait_no;
	bool rx_armed, tx_armed;
	bool tick;			/* report the tail in any case */
	bool tx_quiet;			/* the reader was, when tx was armed */
	uint64_t tail_step;		/* reported in this run of the pump */
	uint32_t rang_rx, rang_tx;	/* the pod's wait words, rung for */
};

/* What this agent counts of an open lane; it alone writes there. */
static inline struct pl_lane_carry *pl_rlane_carry(const struct pl_rlane *l)
{
	return &((struct pl_lane_seg *)l->rep.base)->carry;
}

static inline void pl_carry_add(_Atomic uint64_t *n, uint64_t more)
{
	atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) +
				      more, memory_order_relaxed);
}

/* The replica of a region of another node, for all its readers here. */
struct pl_rrep {
	struct pl_rsink sink;		/* first */
	UT_hash_handle hh;		/* in node->reps, by no */
	struct pl_rnode *node;
	uint64_t no;
	uint8_t uid[PL_PEER_UID];
	struct pl_seg seg;		/* with parts, if it has grown */
	struct pl_broker_part parts[PL_REGION_PARTS - 1];
	unsigned int n_parts;
	uint64_t max_size;		/* that the region may grow to */
	uint64_t key;
	bool closing;			/* REGION_UNSUB is sent */
	bool paused;			/* nobody follows for it */
	uint64_t paused_ns;		/* since when */
	struct event *ev_again;		/* ask again after REGION_LATER */
	struct pl_rread *reads;
};

/* One opening of such a region. */
struct pl_rread {
	UT_hash_handle hh;		/* in remote->reads, by id */
	struct pl_rread *prev, *next;	/* of rep, or of node->finds */
	struct pl_rnode *node;
	struct pl_rrep *rep;		/* NULL: not found yet */
	uint64_t id, no, max_bytes, room_bytes;
	uint8_t uid[PL_PEER_UID];	/* this region and no other; 0: any */
	bool asked;
	uint64_t give_up_ns;		/* UINT64_MAX: not before others do */
	struct pl_peer_region_find find;
	pl_remote_region_done *done;
	void *arg;
	struct event *ev_timer;
};

/* A region of this node that others follow. */
struct pl_rown {
	UT_hash_handle hh;		/* in remote->owns, by id, until gone */
	struct pl_remote *r;
	uint64_t id;
	struct pl_seg seg;		/* with parts */
	struct pl_broker_part parts[PL_REGION_PARTS - 1];
	unsigned int n_parts;
	uint64_t max_size;
	struct event *ev_bell;
	struct pl_region_watch *watch;	/* the broker's; NULL: gone */
	int bell_fd;			/* the broker's */
	uint32_t wait_no;
	bool armed;
	bool gone, died;
	struct pl_rsub *subs;
};

struct pl_rrange {
	uint64_t off, len;
};

#define PL_RSUB_RANGES 64

/* One node that follows it. */
struct pl_rsub {
	UT_hash_handle hh;		/* in node->subs, by no */
	struct pl_rsub *prev, *next;	/* of own */
	struct pl_rnode *node;
	struct pl_rown *own;
	uint64_t no, key;
	uint64_t source[PL_REGION_PARTS];	/* of each segment */
	unsigned int n_sources;
	uint64_t room, filled;		/* of the replica, bytes of data */
	uint64_t version;		/* whose counters were put */
	uint64_t job_version;		/* that the present job leads to, */
	uint64_t job_size, job_filled;	/* and size, and filled */
	bool has_job, broken;
	bool ended;			/* REGION_END is sent */
	struct pl_rrange job[PL_RSUB_RANGES];	/* sorted, apart */
	unsigned int n_job, at_job;
	unsigned int n_puts;
	bool blocked;
	struct event *ev_pump;
};

struct pl_rnode {
	UT_hash_handle hh;
	struct pl_remote *r;
	char name[PL_NODE_NAME_BYTES];
	struct pl_carrier_peer *peer;	/* NULL: never wanted nor seen */
	bool is_up;
	uint64_t instance;
	int reason;			/* of being down */
	struct event *ev_watch;
	struct event *ev_backlog;
	struct pl_rmsg *backlog;
	struct pl_rlane *lanes;
	struct pl_rread *finds;
	struct pl_rrep *reps;
	struct pl_rsub *subs;
	uint64_t log_window_ns;		/* see pl_rnode_complain */
	unsigned int log_count;
};

struct pl_remote {
	struct event_base *base;
	struct pl_broker *broker;
	const char *node;
	const struct pl_carrier_ops *ops;
	uint16_t port;
	int connections;
	const char *congestion;
	struct pl_carrier_verbs verbs;
	struct pl_carrier_security security;
	int dead_ms;
	uint64_t resume_ns;
	const struct pl_registry *registry;
	struct pl_node self;
	struct pl_carrier *carrier;	/* NULL: the registry lacks us */
	struct pl_numa *numa;
	bool ending;			/* no callbacks any more */
	struct pl_rnode *nodes;
	struct pl_rlane *lanes;
	struct pl_rread *reads;
	struct pl_rown *owns;
	struct pl_rfind *pod_finds;
	struct pl_carry_sum carried;	/* for lanes that are gone */
	uint64_t last_no;
};

/* --- remote_node.c ------------------------------------------------------- */

struct pl_rnode *pl_rnode_get(struct pl_remote *r, const char *name);
/* Try to connect. -EHOSTUNREACH. */
int pl_rnode_want(struct pl_rnode *n, struct pl_err *err);
/* Both: the node of that name, which is wanted from now on. */
int pl_rnode_reach(struct pl_remote *r, const char *name, struct pl_rnode **n,
		   struct pl_err *err);
void pl_rnode_up(struct pl_rnode *n, struct pl_carrier_peer *peer);
void pl_rnode_down(struct pl_rnode *n, int reason);
/* What is paused ends after resume_ms: see to that. */
void pl_rnode_watch(struct pl_rnode *n);
/* Also its carrier peer, and itself. */
void pl_rnode_free(struct pl_rnode *n);
/* Never fails as long as there is memory; dropped when the node is down. */
void pl_rnode_send(struct pl_rnode *n, const void *msg, size_t len,
		   uint64_t after);
/*
 * May this node speak for the pod? Not where the registry says that its address
 * is another node's. -EACCES.
 */
int pl_rnode_speaks_for(const struct pl_rnode *n, const struct pl_addr *pod,
			struct pl_err *err);
/* What a pod of that node, or its agent, may not; a few of them a minute. */
void pl_rnode_complain(struct pl_rnode *n, const struct pl_peer_addr *pod,
		       const char *text);
struct pl_peer_hdr pl_peer_head(enum pl_peer_type type, size_t len,
				uint64_t no, uint32_t flags);
void pl_peer_refuse_send(struct pl_rnode *n, enum pl_peer_type type,
			 uint64_t no, int code, const char *text);
/* A text of a peer: NUL terminated, printable. */
void pl_peer_text(char out[PL_PEER_TEXT], const char *in);
void pl_peer_addr_make(struct pl_peer_addr *out, const struct pl_addr *a);
/* -EINVAL */
int pl_peer_addr_take(const struct pl_peer_addr *in, struct pl_addr *out);
/* All of it filled in; -EINVAL when a name does not fit. */
int pl_peer_name_make(char *out, size_t size, const char *in);
bool pl_peer_name_ok(const char *name, size_t size, bool may_be_empty);
void pl_rtimer(struct event *ev, int ms);

/* --- remote_lane.c ------------------------------------------------------- */

void pl_rlane_on_open(struct pl_rnode *n, const void *msg);
void pl_rlane_on_accept(struct pl_rnode *n, const void *msg);
void pl_rlane_on_refuse(struct pl_rnode *n, const void *msg);
void pl_rlane_on_ready(struct pl_rnode *n, const void *msg);
void pl_rlane_on_end(struct pl_rnode *n, const void *msg);
/* Nothing more will be put: say so. Frees nothing. */
void pl_rlane_end_send(struct pl_rlane *l);
/* Say that there is no such lane, or no more. */
void pl_rlane_end_answer(struct pl_rnode *n, uint64_t no, uint32_t flags);
/* Whether the pod has hung up its doorbell. */
void pl_rlane_hangup(struct pl_rlane *l);

uint64_t pl_rlane_no(const uint8_t uid[PL_PEER_UID]);
struct pl_rlane *pl_rlane_find(struct pl_rnode *n, uint64_t no, bool opener);
/* The lane that a message is about: its sender is the other side. */
struct pl_rlane *pl_rlane_of(struct pl_rnode *n, const struct pl_peer_hdr *h);
struct pl_rlane *pl_rlane_new(struct pl_rnode *n, uint64_t no, bool opener,
			      enum pl_rlane_state state);
void pl_rlane_free(struct pl_rlane *l);
void pl_rlane_id_set(struct pl_rlane *l, uint64_t id);
/* Replica, its key, doorbell. *theirs: the pod's end, the caller's. */
int pl_rlane_equip(struct pl_rlane *l, uint32_t ring_bytes, int *theirs,
		   struct pl_err *err);
int pl_rlane_own_open(struct pl_rlane *l, int seg_fd, uint32_t ring_bytes,
		      struct pl_err *err);
/* It is open on both sides. */
int pl_rlane_start(struct pl_rlane *l, struct pl_err *err);
/* The other side is over: tell pod and broker, and forget the lane. */
void pl_rlane_over(struct pl_rlane *l);
/* Ask the node's agent for it, or wait for the agent. */
void pl_rlane_ask(struct pl_rlane *l);
void pl_rlane_unreachable(struct pl_rlane *l);

/* --- remote_resume.c ----------------------------------------------------- */

void pl_rlane_on_sync(struct pl_rnode *n, const void *msg);
void pl_rlane_up(struct pl_rlane *l);
/* Is it worth while to wait for the node's agent? */
bool pl_rlane_may_come(const struct pl_rlane *l);
/* The connection broke, or could not be made; may free l. */
void pl_rlane_down(struct pl_rlane *l);
/* The node has another agent, which knows no lane yet; may free l. */
void pl_rlane_restarted(struct pl_rlane *l);
/* It will not come back; frees l. */
void pl_rlane_lost(struct pl_rlane *l);
/* How long it may still be paused; UINT64_MAX: it is not. */
uint64_t pl_rlane_left_ns(const struct pl_rlane *l, uint64_t now);

/*
 * How much the pod has published; *sum: the checksum of just that, or 0 if it
 * makes none. More than any ring is beyond l->sent: it is of no head.
 */
uint64_t pl_rlane_head(const struct pl_rlane *l, uint64_t *sum);

/* --- remote_pump.c ------------------------------------------------------- */

/* An open lane starts or goes on: send what is there, then sleep. */
void pl_rlane_pump(struct pl_rlane *l);
void pl_rlane_bell_cb(evutil_socket_t fd, short what, void *arg);
void pl_rlane_pump_cb(evutil_socket_t fd, short what, void *arg);
/* A put has landed in the replica: wake the pod. */
void pl_rlane_notify(struct pl_rsink *s);
/* Wake the pod unless it was woken for the number that it waits with. */
void pl_rlane_wake(struct pl_rlane *l);
void pl_rlane_ring(struct pl_rlane *l);

/* --- remote_read.c ------------------------------------------------------- */

void pl_rread_on_found(struct pl_rnode *n, const void *msg);
void pl_rread_on_refuse(struct pl_rnode *n, const void *msg);
void pl_rread_on_end(struct pl_rnode *n, const void *msg);
void pl_rread_up(struct pl_rnode *n);
void pl_rread_down(struct pl_rnode *n);
void pl_rread_lost(struct pl_rnode *n);
void pl_rread_on_later(struct pl_rnode *n, const void *msg);
/* End what is paused for too long; returns how long the rest may be. */
uint64_t pl_rread_expire(struct pl_rnode *n, uint64_t now);

/* --- remote_own.c -------------------------------------------------------- */

void pl_rown_on_find(struct pl_rnode *n, const void *msg);
void pl_rown_on_sub(struct pl_rnode *n, const void *msg);
void pl_rown_on_unsub(struct pl_rnode *n, const void *msg);
void pl_rown_on_more(struct pl_rnode *n, const void *msg);
void pl_rown_down(struct pl_rnode *n);
/* Without a word to other nodes. */
void pl_rown_free(struct pl_rown *own);

/* --- remote_find.c ------------------------------------------------------- */

void pl_rfind_on_find(struct pl_rnode *n, const void *msg);
void pl_rfind_on_found(struct pl_rnode *n, const void *msg);
/* The node can be asked now. */
void pl_rfind_up(struct pl_rnode *n);
/* Without a word. */
void pl_rfind_free_all(struct pl_remote *r);

/* --- remote_dirty.c ------------------------------------------------------ */

/*
 * Add a range to n sorted ones that are apart, merging what touches; beyond
 * PL_RSUB_RANGES the two that are nearest become one. Returns the new n.
 */
unsigned int pl_rrange_add(struct pl_rrange *v, unsigned int n, uint64_t off,
			   uint64_t len);
uint64_t pl_rrange_bytes(const struct pl_rrange *v, unsigned int n);

#endif
