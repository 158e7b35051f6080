/*
 * shm/lane.h - the inside of a lane
 *
 * Theory of operation
 *
 * What layout.h says of rings and wait words is done here. Each side keeps its
 * own counters in private memory and stores them to its segment; it caches what
 * it last saw of the peer's and looks again only when the cached value says
 * "full" or "empty". Every value of the peer is loaded once, checked against
 * what was seen before, and only then used; a peer that breaks the rules makes
 * the lane broken (-EPROTO from then on).
 *
 * Sleeping. A thread that has to wait draws a fresh number, stores it to its
 * wait word, fences, looks again and then sleeps on the doorbell. A sending and
 * a receiving thread share one doorbell: the first becomes the reader (it polls
 * and drains), the other waits for it on a condition variable. Each drain moves
 * `gen`, and nobody goes to sleep whose gen is not the one that it read before
 * it armed: so a byte that the reader drained for the other is not lost.
 *
 * Poll mode (after pl_lane_fd). The epoll descriptor watches the doorbell and
 * an eventfd of ours, `self`. Bytes stay in the doorbell until a call finds the
 * ring empty; that call drains, arms a fresh number, looks again. When bytes
 * remain after a call, self is set; a call that finds nothing clears it.
 */
#ifndef SHM_LANE_H
#define SHM_LANE_H

#include <pthread.h>
#include <stdalign.h>

#include "shm/podlane.h"
#include "shm/segment.h"

struct pl_conn;

struct pl_lane {
	/* constant after attach */
	struct pl_seg own_seg, peer_seg;
	struct pl_lane_seg *own;
	struct pl_lane_seg *peer;	/* mapped read-only */
	char *tx;
	const char *rx;
	uint32_t tx_bytes, rx_bytes;
	int bell;
	int timeout_ms;
	struct pl_conn *conn;		/* NULL in tests */
	struct pl_lane_info info;

	/* the sending thread's */
	alignas(PL_CACHELINE) uint64_t head;
	uint64_t tail_seen;		/* peer's: how much it consumed */
	uint64_t reserved;
	uint32_t rang_rx;		/* the number that we rang for last */
	uint32_t tx_seq;
	unsigned int tx_spin;

	/* the receiving thread's */
	alignas(PL_CACHELINE) uint64_t tail;
	uint64_t head_seen;		/* peer's */
	uint32_t rang_tx;
	uint32_t rx_seq;
	unsigned int rx_spin;

	/* either's */
	alignas(PL_CACHELINE) _Atomic uint64_t peer_state;	/* moves up */
	_Atomic bool hup;		/* the doorbell's other end is gone */
	_Atomic bool broken;
	_Atomic bool shut;		/* we said that we send no more */
	int spin_max;
	int epfd, self;			/* poll mode, else -1 */
	_Atomic bool self_is_set;	/* written with the lock held */
	pthread_mutex_t lock;
	pthread_cond_t drained;
	uint64_t gen;
	bool reading;			/* a thread polls the doorbell */
};

/*
 * Take the two segments and the doorbell, also on failure, and make a lane.
 * info is copied.
 */
int pl_lane_attach(struct pl_seg *own, struct pl_seg *peer, int bell,
		   const struct pl_lane_info *info, struct pl_conn *conn,
		   struct pl_lane **out, struct pl_err *err);
/* Release memory and descriptors; says nothing to anybody. */
void pl_lane_free(struct pl_lane *l);

/* --- lane_wait.c ---------------------------------------------------------- */

/* Bytes to read / space to write; looks at the peer when `want` isn't there. */
uint64_t pl_lane_readable(struct pl_lane *l, uint64_t want);
uint64_t pl_lane_writable(struct pl_lane *l, uint64_t want);
/* The peer's state as of now. */
uint64_t pl_lane_peer_state(struct pl_lane *l);
/* Nothing will come beyond what a look after this call finds. */
bool pl_lane_rx_final(struct pl_lane *l);
/* Has it ended, and with what result? Only once nothing is left to read. */
bool pl_lane_rx_ended(struct pl_lane *l, int *result);
bool pl_lane_tx_ended(struct pl_lane *l, int *result);

/*
 * Sleep until `want` bytes can be read (PL_IN) or written (PL_OUT), or that
 * direction has ended. 0 or -ETIMEDOUT.
 */
int pl_lane_block(struct pl_lane *l, int events, uint64_t want,
		  int timeout_ms);

/* After a store to our counters or state: wake the peer if it sleeps. */
void pl_lane_wake_rx(struct pl_lane *l);
void pl_lane_wake_tx(struct pl_lane *l);
void pl_lane_ring(struct pl_lane *l);
/* Move our state up, and ring. */
void pl_lane_own_state(struct pl_lane *l, uint64_t state);

/* Poll mode: see the head of this file. */
void pl_lane_poll_idle(struct pl_lane *l);
void pl_lane_poll_left(struct pl_lane *l);

#endif
