/*
 * rdma/verbs.h - what the files of the verbs carrier share; see verbs.c
 */
#ifndef RDMA_VERBS_H
#define RDMA_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <event2/event.h>

/* A table that can't grow refuses the element: hh.tbl stays NULL. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

#include "rdma/carrier.h"
#include "rdma/verbs_calls.h"
#include "rdma/verbs_wire.h"
#include "shm/spin.h"

#define PL_VERBS_QPS_DEFAULT 2u
/* Queue pairs have to be made within this time; then tcp does. */
#define PL_VERBS_ATTEMPT_MS 3000
/* After a failure the next attempt follows, later and later. */
#define PL_VERBS_RETRY_FIRST_MS 1000u
#define PL_VERBS_RETRY_MAX_MS 30000u
/* A peer says within this time that it puts no more of a key. */
#define PL_VERBS_REVOKE_MS 2000
/* Work requests under way on one queue pair, and bytes of them. */
#define PL_VERBS_DEPTH 128u
#define PL_VERBS_WINDOW_BYTES (1u << 20)
/* Kept for what returns credits. */
#define PL_VERBS_DEPTH_SPARE 2u
/* At most this much of a put is one work request. */
#define PL_VERBS_CHUNK (128u << 10)
/* Work requests that are handed over in one call. */
#define PL_VERBS_BATCH 32u
/* GRANTs need no credit. */
#define PL_VERBS_RECV_SPARE 8u
/* Backlog of one key. An empty queue takes a put of any size. */
#define PL_VERBS_KEY_BYTES_MAX (4u << 20)
#define PL_VERBS_KEY_OPS_MAX 512u
/* Messages that wait for their barriers. */
#define PL_VERBS_HELD_MAX 4096u
/* 4.096 us << 17: half a second, seven times. */
#define PL_VERBS_ACK_TIMEOUT 17
#define PL_VERBS_RETRIES 7
/* RoCE, InfiniBand: wait for a receive buffer as long as it takes. */
#define PL_VERBS_RNR_RETRIES 7
/* In the id of a receive request; those of send requests are numbers. */
#define PL_VERBS_RECV_ID (UINT64_C(1) << 63)

struct pl_verbs_peer;
struct pl_verbs_link;
struct pl_verbs_carrier;

/* A registration; queues of work requests hold it, too. */
struct pl_verbs_mr {
	struct pl_verbs_peer *peer;
	struct ibv_mr *mr;
	unsigned int refs;
	struct pl_verbs_mr *older;	/* of a key that was extended */
};

/* Memory that puts read from. */
struct pl_verbs_source {
	UT_hash_handle hh;		/* in peer->sources */
	uint64_t id;			/* also the tcp carrier's */
	const uint8_t *map;
	size_t len;
	struct pl_verbs_mr *mr;		/* NULL: not needed yet, or refused */
	bool refused;			/* is copied */
};

/* Memory that the peer may put into. */
struct pl_verbs_key {
	UT_hash_handle hh;		/* in peer->keys */
	struct pl_verbs_key *prev, *next;	/* in peer->dying */
	uint64_t key;			/* the tcp carrier's */
	uint8_t *map;			/* NULL: revoked */
	size_t len;
	void *user;
	struct pl_verbs_mr *mr;
	bool refused;			/* tcp does it */
	uint64_t until_ns;		/* revoked: ends then */
};

enum pl_verbs_op_type {
	PL_VERBS_OP_WRITE,
	PL_VERBS_OP_WORDS,
	PL_VERBS_OP_BARRIER,
};

struct pl_verbs_op {
	struct pl_verbs_op *prev, *next;
	struct pl_verbs_out *q;
	enum pl_verbs_op_type type;
	unsigned int flags;
	const uint8_t *data;
	size_t len, cut;		/* cut: of it in work requests */
	uint64_t offset, source;
	struct pl_verbs_source *from;	/* of a large one */
	pl_put_done done;
	void *user;
	struct pl_verbs_after *text;	/* of a BARRIER: ours */
	uint64_t words[PL_PUT_WORDS_MAX / 8];
};

/* The peer's memory under one key, and what waits to be put there. */
struct pl_verbs_out {
	UT_hash_handle hh;		/* in peer->outs */
	struct pl_verbs_out *prev, *next;	/* in qp->active */
	struct pl_verbs_peer *peer;
	uint64_t key;
	uint64_t addr, len;
	uint32_t rkey;
	bool by_tcp;			/* not ours, until `down` */
	bool revoked;			/* the peer wants no more puts */
	struct pl_verbs_qp *qp;
	struct pl_verbs_op *ops;	/* not done */
	struct pl_verbs_op *uncut;	/* first that is not all under way */
	size_t bytes;			/* not under way */
	size_t turn;			/* bytes of its present turn */
	unsigned int n_ops;
};

/* A work request under way. */
struct pl_verbs_slot {
	struct pl_verbs_op *op;		/* ends with it; NULL: of no op */
	struct pl_verbs_mr *mr;
	size_t bytes;
	bool bounced;			/* it has a chunk of qp->bounce */
};

struct pl_verbs_qp {
	struct pl_verbs_link *link;
	unsigned int index;
	struct rdma_cm_id *id;
	uint32_t num;
	bool established;
	uint32_t inline_max;
	unsigned int depth;
	uint64_t posted, completed;	/* work requests */
	size_t under_way;		/* bytes */
	struct pl_verbs_slot slots[PL_VERBS_DEPTH];
	struct pl_verbs_send *stage;	/* PL_VERBS_DEPTH of them */
	struct ibv_mr *stage_mr;
	uint8_t *bounce;		/* PL_VERBS_WINDOW_BYTES, or NULL */
	struct ibv_mr *bounce_mr;
	uint64_t bounced, unbounced;	/* chunks: taken, given back */
	struct pl_verbs_out *active;	/* have something to be cut */
	uint32_t sent, peer_got;	/* SENDs that need credit */
	uint32_t got, got_told;
	uint32_t wrote;
	uint32_t barrier, barrier_seen;
};

/* A message that waits for its barrier. */
struct pl_verbs_held {
	struct pl_verbs_held *prev, *next;
	uint32_t qp, barrier;
	size_t len;
	uint8_t data[];
};

/* The queue pairs to one peer, and what only they use. */
struct pl_verbs_link {
	struct pl_verbs_link *prev, *next;	/* in carrier->polled */
	struct pl_verbs_peer *peer;
	unsigned int count, established;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct pl_verbs_send *recv;
	unsigned int n_recv;
	struct ibv_mr *recv_mr;
	bool polled;			/* it is in the list, not armed */
	unsigned int round;		/* of polling, that it had */
	uint64_t last_ns;		/* of a completion */
	bool waits, spins;		/* for the next one; and how */
	uint64_t settled_ns;		/* when its ids may be closed */
	struct pl_verbs_qp qp[PL_VERBS_QPS_MAX];
};

enum pl_verbs_state {
	PL_VERBS_IDLE,			/* no queue pairs, nobody makes them */
	PL_VERBS_OFFERED,		/* waits for the other's offer */
	PL_VERBS_MAKING,		/* queue pairs are being made */
	PL_VERBS_HALF,			/* made here; waits for READY */
	PL_VERBS_UP,
};

struct pl_verbs_peer {
	struct pl_carrier_peer base;
	struct pl_verbs_peer *prev, *next;	/* carrier's, or forgotten */
	struct pl_verbs_carrier *c;
	struct pl_carrier_peer *tcp;
	bool forgotten;
	bool tcp_up;
	bool in_use;			/* `up` was called with verbs */
	bool told;			/* that it can't be reached */
	bool there;			/* the other side is ready */
	bool proven;			/* they were made: begin with them */
	bool failed;			/* the peer was not told yet */
	bool was_verbs;			/* the last `up` was with them */
	enum pl_verbs_state state;
	unsigned int fails;		/* in a row */
	uint64_t up_ns;			/* since when they are in use */
	struct event *ev_timer;		/* of an attempt, or to the next */
	struct event *ev_flush, *ev_revoke;
	uint8_t token[PL_VERBS_TOKEN];	/* offered */
	uint8_t theirs[PL_VERBS_TOKEN];
	struct ibv_pd *pd;
	struct pl_verbs_link *link;
	struct pl_verbs_key *keys, *dying;
	struct pl_verbs_out *outs;
	struct pl_verbs_source *sources;
	struct pl_verbs_held *held;
	unsigned int n_held, n_after, next_qp;
	size_t queued;
	struct pl_carrier_stats stats;
};

struct pl_verbs_carrier {
	struct pl_carrier base;
	const struct pl_verbs_calls *v;
	struct pl_carrier *tcp;
	bool only;			/* never tcp for puts */
	enum pl_polling polling;
	unsigned int qps, retry_ms;
	char node[PL_CARRIER_NODE_BYTES];
	struct pl_rdma_want want;	/* of devices */
	bool own_addr;			/* one had this node's address */
	bool had_device;
	struct pl_addr addr;		/* of the device */
	struct event_base *loop;
	struct pl_carrier_cb cb;
	void *arg;

	struct rdma_event_channel *cm;
	struct event *ev_cm;
	struct rdma_cm_id *listen;
	uint16_t port;
	struct ibv_context *ctx;	/* NULL: no device */
	struct ibv_device_attr attr;
	struct ibv_comp_channel *channel;
	struct event *ev_channel, *ev_async;
	struct event *ev_poll, *ev_reap, *ev_reopen;
	unsigned int reopens;
	bool lost;			/* the device is: closed in a moment */
	bool memlock_said, bounce_said;
	struct pl_verbs_link *polled, *dead_links;
	unsigned int round;
	struct pl_spin spin;
	struct pl_verbs_peer *peers, *forgotten;
};

static inline struct pl_verbs_peer *
pl_verbs_peer_of(const struct pl_carrier_peer *p)
{
	return (struct pl_verbs_peer *)(uintptr_t)p;
}

static inline struct pl_verbs_carrier *
pl_verbs_carrier_of(const struct pl_carrier *c)
{
	return (struct pl_verbs_carrier *)(uintptr_t)c;
}

/* --- verbs.c */

/* The connection to the peer is usable: say so, unless it was said. */
void pl_verbs_tell_up(struct pl_verbs_peer *p, bool verbs);
/* So many milliseconds from now, on average. */
void pl_verbs_timer(struct event *ev, unsigned int ms);

/* --- verbs_dev.c: the device */

/* -ENODEV and the reason: there is none at this node's address. */
int pl_verbs_dev_open(struct pl_verbs_carrier *c, struct pl_err *err);
/* Begin to connect; an event of rdma_cm says what became of it. */
int pl_verbs_resolve(struct pl_verbs_carrier *c, struct rdma_cm_id *id,
		     const struct pl_addr *to, uint16_t port);
/* Every link and registration must be gone. */
void pl_verbs_dev_close(struct pl_verbs_carrier *c);
/* The device is not to be used any more; closed in the next turn. */
void pl_verbs_dev_lost(struct pl_verbs_carrier *c, const char *why);
/* Look again after a while. */
void pl_verbs_dev_later(struct pl_verbs_carrier *c);
void pl_verbs_dev_reopen_cb(evutil_socket_t fd, short what, void *arg);
/* Why no memory can be locked, and what to set; returns out. */
#define PL_VERBS_MEMLOCK_BYTES 160
const char *pl_verbs_memlock(char *out, size_t size);
/* NULL: refused, and said why. */
struct pl_verbs_mr *pl_verbs_mr_new(struct pl_verbs_peer *p, const void *map,
				    size_t len, int access, int *why);
void pl_verbs_mr_put(struct pl_verbs_mr *mr);

/* --- verbs_link.c: who makes queue pairs when, and loses them */

/* tcp has connected, or lost, the peer. */
void pl_verbs_link_start(struct pl_verbs_peer *p);
/* Without a word to the peer. */
void pl_verbs_link_end(struct pl_verbs_peer *p);
/*
 * Something went wrong: an attempt is over, or what was in use is lost and the
 * peer is connected anew. May call back, and forget the peer.
 */
void pl_verbs_link_fail(struct pl_verbs_peer *p, int reason, const char *what);
/* All queue pairs are made, here. */
void pl_verbs_link_made(struct pl_verbs_peer *p);
/* What is in use is lost: all of the peer is connected anew. */
void pl_verbs_link_lose(struct pl_verbs_peer *p, int reason);
/* This node's name is lower than the peer's. */
bool pl_verbs_is_lower(const struct pl_verbs_peer *p);
void pl_verbs_link_timer_cb(evutil_socket_t fd, short what, void *arg);
/* What the other side's carrier says. */
void pl_verbs_link_heard(struct pl_verbs_peer *p, const void *data, size_t len);
/* The device is there (again), or was lost. */
void pl_verbs_link_device(struct pl_verbs_carrier *c, bool there);
struct pl_verbs_hdr pl_verbs_head(enum pl_verbs_type type, size_t len);

/* --- verbs_cm.c: rdma_cm connects the queue pairs */

/* To whom this offer is from. */
void pl_verbs_cm_begin(struct pl_verbs_peer *p, const struct pl_verbs_offer *m);
void pl_verbs_cm_cb(evutil_socket_t fd, short what, void *arg);

/* --- verbs_qp.c: queue pairs and what belongs to them */

int pl_verbs_qps_open(struct pl_verbs_peer *p, unsigned int count,
		      struct pl_err *err);
int pl_verbs_qp_open(struct pl_verbs_qp *q, struct rdma_cm_id *id,
		     struct pl_err *err);
void pl_verbs_qps_close(struct pl_verbs_peer *p);
/* Free links that have ended, but for those whose ids have to wait. */
void pl_verbs_links_reap(struct pl_verbs_carrier *c, bool all);
int pl_verbs_recv_post(struct pl_verbs_link *l, unsigned int i);

/* --- verbs_poll.c */

void pl_verbs_poll_start(struct pl_verbs_link *l);
void pl_verbs_poll_stop(struct pl_verbs_link *l);
void pl_verbs_poll_cb(evutil_socket_t fd, short what, void *arg);
void pl_verbs_channel_cb(evutil_socket_t fd, short what, void *arg);

/* --- verbs_put.c */

int pl_verbs_put(struct pl_carrier_peer *p, uint64_t source, uint64_t key,
		 uint64_t offset, const void *local, size_t len,
		 unsigned int flags, pl_put_done done, void *user);
int pl_verbs_message(struct pl_carrier_peer *p, const void *data, size_t len,
		     uint64_t after);
int pl_verbs_source(struct pl_carrier_peer *p, int fd, const void *map,
		    size_t len, uint64_t *source);
void pl_verbs_source_end(struct pl_carrier_peer *p, uint64_t source);
/* Sources' registrations end with the device. */
void pl_verbs_send_unregister(struct pl_verbs_peer *p);

/* --- verbs_queue.c */

/* NULL: the peer has told of no such key; of no memory. */
struct pl_verbs_out *pl_verbs_out_find(struct pl_verbs_peer *p, uint64_t key);
struct pl_verbs_out *pl_verbs_out_new(struct pl_verbs_peer *p, uint64_t key);
struct pl_verbs_op *pl_verbs_op_new(enum pl_verbs_op_type type, size_t len);
/* The queue owns it from now on; soon it is flushed. */
void pl_verbs_out_append(struct pl_verbs_out *o, struct pl_verbs_op *op);
/* So many of its bytes are under way, or not wanted any more. */
void pl_verbs_out_cut(struct pl_verbs_out *o, size_t n);
/* Takes an op out of its queue and says what became of it. May call back. */
void pl_verbs_op_end(struct pl_verbs_op *op, int status);
/* No slot speaks for it any more. */
void pl_verbs_slots_forget(struct pl_verbs_qp *q,
			   const struct pl_verbs_op *op);
/* The queue pairs end; what is queued waits for pl_verbs_send_drop. */
void pl_verbs_send_detach(struct pl_verbs_peer *p);
/* What is queued is done with status; then keys of the peer are forgotten. */
void pl_verbs_send_drop(struct pl_verbs_peer *p, int status);
void pl_verbs_on_keys(struct pl_verbs_peer *p, const void *msg, size_t len);
void pl_verbs_on_revoke(struct pl_verbs_peer *p, uint64_t key);

/* --- verbs_send.c */

void pl_verbs_flush_cb(evutil_socket_t fd, short what, void *arg);
/* Everything up to this work request is done. May call back. */
void pl_verbs_sent(struct pl_verbs_qp *q, uint64_t upto);
/* Give room back to the peer, if it needs it. */
void pl_verbs_grant(struct pl_verbs_qp *q);
/* What the peer has room for is said anew: go on. */
void pl_verbs_flush(struct pl_verbs_peer *p);

/* --- verbs_recv.c */

int pl_verbs_extend(struct pl_carrier_peer *p, uint64_t key, int fd,
		    size_t len);
int pl_verbs_expose(struct pl_carrier_peer *p, int fd, void *map, size_t len,
		    void *user, uint64_t *key);
void pl_verbs_revoke(struct pl_carrier_peer *p, uint64_t key);
/* A SEND has arrived. NULL, or what is wrong with it. May call back. */
const char *pl_verbs_arrived(struct pl_verbs_qp *q,
			     const struct pl_verbs_send *m, size_t len);
/* Tell the peer all keys. */
int pl_verbs_keys_send(struct pl_verbs_peer *p);
void pl_verbs_on_revoked(struct pl_verbs_peer *p, uint64_t key);
const char *pl_verbs_on_after(struct pl_verbs_peer *p, const void *msg,
			      size_t len);
void pl_verbs_held_drop(struct pl_verbs_peer *p);
/* Keys that are revoked end now: nobody can write there any more. */
void pl_verbs_keys_bury(struct pl_verbs_peer *p);
void pl_verbs_keys_unregister(struct pl_verbs_peer *p);
/* Every key. */
void pl_verbs_recv_free(struct pl_verbs_peer *p);
void pl_verbs_revoke_cb(evutil_socket_t fd, short what, void *arg);

#endif
