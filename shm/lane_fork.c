/*
 * shm/lane_fork.c - a child of fork goes on with a lane, its parent after it
 *
 * Theory of operation
 *
 * After fork both processes have the segments in common, and copies of struct
 * pl_lane. One at a time uses the lane; that it is not both at once is the
 * program's affair, as with threads. So there are two things to bring about.
 *
 * Who goes on must start where the other one has stopped. All that this takes
 * is in our own segment, which nobody else can write: head, tail and state; the
 * checksum of what was sent (sum), from which another process may have died on
 * its way to the head; that of what was received (rx_sum); and the numbers in
 * the wait words. Each call compares them with its copy, which costs a few
 * loads from lines that it writes anyway (pl_tx_sync, pl_rx_sync).
 *
 * What they can't have in common is dealt with by a child when it first needs
 * it (pl_lane_adopt): it takes a descriptor for poll of its own, for the
 * parent's would be cleared by it. It has no keeper, and what that exchanges is
 * exchanged in the parent only: in the child the lane ends with its agent. What
 * a child closes ends nothing, says nothing and waits for nothing, in
 * particular for no lock, which a thread that it does not have may hold.
 */
#include <sched.h>
#include <unistd.h>

#include "common/util.h"
#include "shm/lane.h"

#define ADOPTING ((pid_t)-1)

static void adopt(struct pl_lane *l)
{
	l->is_heir = true;
	/* Threads that the child does not have can't give them back. */
	pthread_mutex_init(&l->fd_lock, NULL);
	atomic_store(&l->bell_taken, 0);
	l->resumes = false;
	if (pl_link_is_away(pl_lane_link(l)))
		atomic_store(&l->hung_up, true);
	l->rx.armed = 0;
	pl_lane_fd_inherited(l);
}

bool pl_lane_adopt(struct pl_lane *l)
{
	const pid_t me = getpid();
	/* Pairs with the release below. */
	pid_t was = atomic_load_explicit(&l->pid, memory_order_acquire);

	if (pl_likely(was == me))
		return false;
	if (was != ADOPTING &&
	    atomic_compare_exchange_strong(&l->pid, &was, ADOPTING)) {
		adopt(l);
		atomic_store_explicit(&l->pid, me, memory_order_release);
		return true;
	}
	while (atomic_load_explicit(&l->pid, memory_order_acquire) != me)
		sched_yield();
	return true;
}

/*
 * Bytes that have a checksum can be read, whether the head says so or not: it
 * comes right after that.
 */
static uint64_t head_of_sum(struct pl_lane *l, uint64_t head, uint64_t tail)
{
	uint64_t sum = atomic_load_explicit(&l->own->sum, memory_order_relaxed);
	uint64_t at = pl_sum_head(sum, head);

	if (!(sum & PL_SUM_ON) || at - tail > l->tx.size)
		return head;
	l->tx.crc = (uint32_t)sum;
	/* Pairs with the acquire in pl_rx_refresh. */
	atomic_store_explicit(&l->own->head, at, memory_order_release);
	return at;
}

void pl_tx_catch_up(struct pl_lane *l)
{
	uint64_t head = atomic_load_explicit(&l->own->head,
					     memory_order_relaxed);
	/* Pairs with the release in pl_rx_release. */
	uint64_t tail = atomic_load_explicit(&l->peer->tail,
					     memory_order_acquire);

	if (atomic_load_explicit(&l->own->state, memory_order_relaxed) !=
	    PL_STATE_OPEN)
		l->tx.end = -EPIPE;
	l->tx.reserved = 0;
	if (atomic_load_explicit(&l->error, memory_order_relaxed))
		return;
	if (l->tx.sums)
		head = head_of_sum(l, head, tail);
	if (!pl_ring_tail_valid(tail, l->tx.tail, head) ||
	    head - tail > l->tx.size) {
		pl_lane_fail(l);
		return;
	}
	l->tx.head = head;
	l->tx.tail = tail;
}

void pl_rx_catch_up(struct pl_lane *l)
{
	uint64_t tail = atomic_load_explicit(&l->own->tail,
					     memory_order_relaxed);
	uint64_t sum = atomic_load_explicit(&l->own->rx_sum,
					    memory_order_relaxed);

	l->rx.tail = tail;
	if (l->rx.head - tail > l->rx.size)
		l->rx.head = tail;
	if (!(sum & PL_SUM_ON))
		return;
	l->rx.sums = true;
	l->rx.summed = pl_sum_head(sum, tail);
	l->rx.crc = (uint32_t)sum;
}
