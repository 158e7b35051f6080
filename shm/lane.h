/*
 * shm/lane.h - one end of a lane
 *
 * Theory of operation
 *
 * layout.h says what stands in the two segments. This end keeps copies of all
 * four counters: its own two are exact, the peer's two are what was last read
 * and found right. The peer's head is only read again when the copy says that
 * too little is there to read, its tail when the copy says that there is too
 * little space; so a cache line moves between cores only when it must.
 *
 * What sends is in `tx`, what receives is in `rx`, each for one thread at a
 * time. What both use is atomic:
 *
 *   error    a rule was broken by the peer: -EPROTO for ever; or its bytes came
 *            here as others: -EBADMSG;
 *   hung_up  the peer's end of the doorbell is gone.
 *
 * Orders (the partner is the same code in the peer):
 *
 *   head   stored with release after the bytes; loaded with acquire before the
 *          bytes are read (pl_tx_publish, pl_rx_refresh).
 *   tail   stored with release after the bytes were read; loaded with acquire
 *          before they are overwritten (pl_rx_release, pl_tx_refresh).
 *   state  stored with release after the last head; loaded with acquire, and
 *          then head is loaded once more (pl_lane_raise, rx_finish).
 *   head, tail or state, then fence, then wait word; against wait word, then
 *          fence, then head, tail and state (ring_if_waiting, pl_lane_arm).
 *
 * One doorbell serves both directions. Only who has taken it (bell_taken) polls
 * or drains it; another thread that wants to sleep waits until it is given. A
 * drained byte may have been for the other thread, so `turn` moves with each
 * drain, and nobody polls whose turn is not the one from before it armed.
 *
 * A lane to another node may have its agent exchanged (lane_resume.c). Then its
 * doorbell has hung up without a final state, `link` is odd, nobody polls the
 * doorbell, and who has to wait sleeps on `turn`. Nothing of the above looks at
 * that: the peer's segment and the doorbell are replaced where they are.
 *
 * A child of fork has copies of all that is not in segments. lane_fork.c says
 * how it goes on with a lane, and its parent after it.
 *
 * tests/model has models of all this; they change with it.
 */
#ifndef SHM_LANE_H
#define SHM_LANE_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/util.h"
#include "shm/conn.h"
#include "shm/fence.h"
#include "shm/podlane.h"
#include "shm/segment.h"
#include "shm/spin.h"
#include "shm/sum.h"

#define PL_HOT __attribute__((aligned(PL_CACHELINE)))
#define pl_likely(x) __builtin_expect(!!(x), 1)
#define pl_unlikely(x) __builtin_expect(!!(x), 0)

struct pl_lane_tx {
	char *ring;
	uint64_t size;
	uint64_t head;		/* published */
	uint64_t tail;		/* the peer's, as last seen */
	uint64_t peer_state;	/* as last seen */
	uint64_t reserved;	/* what pl_lane_commit may still commit */
	bool sums;		/* with checksums, of which this is the last */
	uint32_t crc;
	uint32_t rung;		/* rx_wait that the bell was rung for last */
	int end;		/* -EPIPE: no more can be sent */
	struct pl_spin spin;
};

struct pl_lane_rx {
	const char *ring;
	uint64_t size;
	uint64_t tail;		/* published */
	uint64_t head;		/* the peer's, as last seen; final with end */
	uint32_t rung;		/* tx_wait that the bell was rung for last */
	int end;		/* 1: the stream ended, -ECONNRESET: it broke */
	uint32_t armed;		/* our rx_wait, if it is set (lane_fd.c) */
	uint64_t armed_head;	/* head at that time */
	bool sums;		/* the peer sends checksums; up to here they */
	uint64_t summed;	/* were right, with this one */
	uint32_t crc;
	struct pl_spin spin;
};

struct pl_lane {
	/* Constant, or as good as. */
	struct pl_lane_seg *own;
	const struct pl_lane_seg *peer;
	int bell;
	_Atomic int timeout_ms;
	_Atomic bool never_spins;
	_Atomic bool slices;		/* the doorbell has a timeout */
	_Atomic int error;
	_Atomic bool hung_up;
	_Atomic uint64_t probed_ns;	/* when it was asked for a hang-up */
	_Atomic bool has_fd;		/* pl_lane_fd was called */
	_Atomic bool signalled;		/* event_fd is readable */
	int event_fd, epoll_fd;
	/* Of two sleeping threads. */
	_Atomic uint32_t bell_taken;	/* enum in lane_wait.c */
	_Atomic uint32_t turn;

	struct pl_lane_tx tx PL_HOT;
	struct pl_lane_rx rx PL_HOT;

	struct pl_seg own_seg PL_HOT;
	struct pl_seg peer_seg;
	_Atomic pid_t pid;		/* whose memory this is (lane_fork.c) */
	bool is_heir;			/* not that of who made the lane */
	struct pl_conn_obj obj;
	struct pl_lane_info info;	/* but counters and id */
	_Atomic uint64_t id;		/* the agent's; 0: it has none */
	char self[PL_WIRE_ADDR];
	uint8_t uid[PL_WIRE_UID];
	bool is_opener;			/* connected, not accepted */
	bool is_carried;		/* by agents: its path is not "shm" */
	bool resumes;			/* another agent can go on with it */
	_Atomic uint32_t link;		/* odd: no agent has it */
	pthread_mutex_t fd_lock;	/* of epoll_fd's members */
};

/* The parts of a lane; pl_lane_attach takes all of them, also when it fails. */
struct pl_lane_parts {
	struct pl_seg own;		/* fresh: counters 0 */
	struct pl_seg peer;		/* opened, or borrowed */
	int bell;
	const struct pl_lane_info *info;	/* id, path, peer, service */
	/* What the agent said, and when; NULL: it has no agent. */
	struct pl_conn *conn;
	uint32_t epoch;
	const struct pl_msg_lane *msg;
	bool is_opener;
	bool sums;			/* checksum what is sent */
};

/* -EPROTO: bell is no connected Unix socket. -ENOMEM. */
int pl_lane_attach(const struct pl_lane_parts *parts, struct pl_lane **out,
		   struct pl_err *err);

/* End the lane with this error. Returns it. */
int pl_lane_break(struct pl_lane *l, int code);
/* The peer broke the rules: -EPROTO. */
int pl_lane_fail(struct pl_lane *l);

/* Our state is now at least this. */
void pl_lane_raise(struct pl_lane *l, uint64_t state);

/* Write a byte into the doorbell. */
void pl_lane_ring(struct pl_lane *l);

/* One more of what the calling thread alone counts; a plain store. */
static inline void pl_count(_Atomic uint64_t *n, uint64_t more)
{
	atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) +
				      more, memory_order_relaxed);
}

/* Ring if the wait word asks for it and that was not done yet. */
static inline void pl_lane_ring_if_waiting(struct pl_lane *l,
					   const _Atomic uint32_t *wait,
					   uint32_t *rung,
					   struct pl_lane_count *count,
					   struct pl_lane_wake *wake)
{
	uint32_t no;

	/* Dekker; pairs with the fence in pl_lane_arm. */
	pl_fence();
	no = atomic_load_explicit(wait, memory_order_relaxed);
	if (pl_unlikely(no && no != *rung)) {
		*rung = no;
		pl_count(&count->rings, 1);
		atomic_store_explicit(&wake->rung_ns, pl_now_ns(),
				      memory_order_relaxed);
		pl_lane_ring(l);
	}
}

/* Bytes copied before they are shown: the peer copies while we go on. */
#define PL_LANE_STEP_MAX (256u << 10)

static inline uint64_t pl_lane_step(uint64_t ring_bytes)
{
	return PL_MIN(ring_bytes / 4, (uint64_t)PL_LANE_STEP_MAX);
}

/* --- a child of fork, and its parent (lane_fork.c) ----------------------- */

/*
 * Before anything that two processes can't have in common is used. Returns
 * whether this process is one that has only now been forked.
 */
bool pl_lane_adopt(struct pl_lane *l);

/* Another process has gone on with it: take up where that has stopped. */
void pl_tx_catch_up(struct pl_lane *l);
void pl_rx_catch_up(struct pl_lane *l);

static inline void pl_rx_sync(struct pl_lane *l)
{
	if (pl_unlikely(atomic_load_explicit(&l->own->tail,
					     memory_order_relaxed) !=
			l->rx.tail))
		pl_rx_catch_up(l);
}

/* --- sending ------------------------------------------------------------ */

static inline uint64_t pl_tx_space(const struct pl_lane *l)
{
	return l->tx.size - (l->tx.head - l->tx.tail);
}

static inline int pl_tx_refresh(struct pl_lane *l)
{
	/* Pairs with the release in pl_rx_release. */
	uint64_t tail = atomic_load_explicit(&l->peer->tail,
					     memory_order_acquire);

	if (pl_unlikely(!pl_ring_tail_valid(tail, l->tx.tail, l->tx.head)))
		return pl_lane_fail(l);
	l->tx.tail = tail;
	return 0;
}

/* --- checksums (lane_sum.c) --- */

void pl_tx_sum_start(struct pl_lane *l);
/* Of so many bytes, which are about to be published. */
void pl_tx_sum(struct pl_lane *l, uint64_t len);
/* Compare what has come; *head goes back to what could be. -EBADMSG. */
int pl_rx_sum(struct pl_lane *l, uint64_t *head);

static inline void pl_tx_publish(struct pl_lane *l, uint64_t len)
{
	if (pl_unlikely(l->tx.sums))
		pl_tx_sum(l, len);
	l->tx.head += len;
	/* Pairs with the acquire in pl_rx_refresh. */
	atomic_store_explicit(&l->own->head, l->tx.head, memory_order_release);
	pl_count(&l->own->tx_count.calls, 1);
	pl_lane_ring_if_waiting(l, &l->peer->rx_wait, &l->tx.rung,
				&l->own->tx_count, &l->own->tx_wake);
}

static inline void pl_tx_sync(struct pl_lane *l)
{
	const struct pl_lane_seg *s = l->own;

	if (pl_unlikely(atomic_load_explicit(&s->head, memory_order_relaxed) !=
				l->tx.head ||
			(atomic_load_explicit(&s->state,
					      memory_order_relaxed) !=
				 PL_STATE_OPEN && !l->tx.end) ||
			(l->tx.sums &&
			 atomic_load_explicit(&s->sum, memory_order_relaxed) !=
				 pl_sum_make(l->tx.head, l->tx.crc))))
		pl_tx_catch_up(l);
}

/* The state of the peer changed, or something else did: what is it now? */
int pl_tx_check_slow(struct pl_lane *l);

/* 0, or why nothing can be sent. */
static inline int pl_tx_check(struct pl_lane *l)
{
	uint64_t state = atomic_load_explicit(&l->peer->state,
					      memory_order_relaxed);

	if (pl_likely(state == PL_STATE_OPEN && l->tx.end == 0 &&
		      l->tx.peer_state == PL_STATE_OPEN &&
		      !atomic_load_explicit(&l->error, memory_order_relaxed) &&
		      !atomic_load_explicit(&l->hung_up,
					    memory_order_relaxed)))
		return 0;
	return pl_tx_check_slow(l);
}

/* --- receiving ---------------------------------------------------------- */

static inline uint64_t pl_rx_bytes(const struct pl_lane *l)
{
	return l->rx.head - l->rx.tail;
}

static inline int pl_rx_refresh(struct pl_lane *l)
{
	/* Pairs with the release in pl_tx_publish. */
	uint64_t head = atomic_load_explicit(&l->peer->head,
					     memory_order_acquire);

	if (pl_unlikely(!pl_ring_head_valid(head, l->rx.head, l->rx.tail,
					    l->rx.size)))
		return pl_lane_fail(l);
	if (pl_unlikely(l->rx.sums ||
			atomic_load_explicit(&l->peer->sum,
					     memory_order_relaxed))) {
		int rc = pl_rx_sum(l, &head);

		if (rc < 0)
			return rc;
	}
	l->rx.head = head;
	return 0;
}

static inline void pl_rx_release(struct pl_lane *l, uint64_t len)
{
	l->rx.tail += len;
	/* Pairs with the acquire in pl_tx_refresh. */
	atomic_store_explicit(&l->own->tail, l->rx.tail, memory_order_release);
	pl_count(&l->own->rx_count.calls, 1);
	pl_lane_ring_if_waiting(l, &l->peer->tx_wait, &l->rx.rung,
				&l->own->rx_count, &l->own->rx_wake);
}

/* --- waiting (lane_wait.c) ---------------------------------------------- */

/* Is there so much, or an end or error? They have to be told apart then. */
bool pl_rx_look(struct pl_lane *l, uint64_t want);
bool pl_tx_look(struct pl_lane *l, uint64_t want);

/* How long a call may wait; end_ns is made up at the first wait. */
struct pl_limit {
	int ms;			/* -1: for ever */
	uint64_t end_ns;	/* 0: not made up yet */
};

/* Of a call that begins; it holds for all of it, however often it waits. */
struct pl_limit pl_lane_limit(const struct pl_lane *l);

/* pl_lane_reserve and pl_lane_peek, as parts of calls. */
ssize_t pl_tx_reserve(struct pl_lane *l, size_t want, void **ptr, int flags,
		      struct pl_limit *limit);
ssize_t pl_rx_peek(struct pl_lane *l, size_t want, const void **ptr, int flags,
		   struct pl_limit *limit);

/* Which events, how many bytes to read, how much space to write. */
struct pl_want {
	int events;		/* PL_IN, PL_OUT */
	uint64_t in, out;
};

/*
 * Wait until one of the wanted events holds. Returns those that do, or
 * -ETIMEDOUT.
 */
int pl_lane_sleep(struct pl_lane *l, const struct pl_want *want,
		  struct pl_limit *limit);

/*
 * Tell the peer to ring when something happens. Whoever calls it must look once
 * more afterwards.
 */
void pl_lane_arm(struct pl_lane *l, int events);
void pl_lane_disarm(struct pl_lane *l, int events);

/* A new doorbell: its calls block where they do not say otherwise. */
void pl_lane_bell_ready(struct pl_lane *l);

/* Empty the doorbell, unless another thread has it. Was something in it? */
bool pl_lane_drain(struct pl_lane *l);

/* See whether the peer hung up, if that was not done a moment ago. */
void pl_lane_probe(struct pl_lane *l);

/* --- the descriptor for poll (lane_fd.c) -------------------------------- */

static inline bool pl_lane_has_fd(const struct pl_lane *l)
{
	/* Pairs with the release in pl_lane_fd. */
	return pl_unlikely(atomic_load_explicit(&l->has_fd,
						memory_order_acquire));
}

/* Make it tell the truth, after whatever the receiving side did. */
void pl_lane_fd_update(struct pl_lane *l);

/* Make it readable. */
void pl_lane_fd_signal(struct pl_lane *l);

void pl_lane_fd_close(struct pl_lane *l);

/* Another one in the place of the parent's; without it when there is none. */
void pl_lane_fd_inherited(struct pl_lane *l);

/* The doorbell is about to be replaced, or was. */
void pl_lane_fd_unbell(struct pl_lane *l);
void pl_lane_fd_bell(struct pl_lane *l);

/* --- another agent (lane_resume.c) ---------------------------------------- */

/* Whether the doorbell may be polled; and to say when it hung up. */
static inline uint32_t pl_lane_link(const struct pl_lane *l)
{
	return atomic_load(&l->link);
}

static inline bool pl_link_is_away(uint32_t link)
{
	return link & 1;
}

/* The doorbell hung up, of a lane that resumes. link: from before that. */
void pl_lane_away(struct pl_lane *l, uint32_t link);

/* Hang it into the connection of the parts, if they have one. */
void pl_lane_join(struct pl_lane *l, const struct pl_lane_parts *p);

/*
 * Its state is PL_STATE_CLOSED: wait until all that was sent is at the peer's
 * node, whichever agents that takes, and tell the agent of its end.
 */
void pl_lane_part(struct pl_lane *l);

/* Wake who sleeps, as the doorbell was replaced or given up. */
void pl_lane_stir(struct pl_lane *l);

/*
 * Sleep until the doorbell rings or something was stirred since l->turn was
 * turn; left_ns 0: for ever.
 */
void pl_lane_doze(struct pl_lane *l, uint32_t turn, uint64_t left_ns);

#endif
