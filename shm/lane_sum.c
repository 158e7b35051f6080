/* shm/lane_sum.c - checksums of a lane's bytes, see sum.h */
#include "shm/crc32c.h"
#include "shm/lane.h"
#include "shm/sum.h"

void pl_tx_sum_start(struct pl_lane *l)
{
	l->tx.sums = true;
	atomic_store_explicit(&l->own->sum, pl_sum_make(0, 0),
			      memory_order_release);
}

void pl_tx_sum(struct pl_lane *l, uint64_t len)
{
	l->tx.crc = pl_crc32c(l->tx.crc,
			      l->tx.ring + (l->tx.head & (l->tx.size - 1)),
			      len);
	/* Before the head; pairs with the acquire in pl_rx_sum. */
	atomic_store_explicit(&l->own->sum,
			      pl_sum_make(l->tx.head + len, l->tx.crc),
			      memory_order_release);
}

static int mismatch(struct pl_lane *l)
{
	pl_count(&l->own->rx_count.bad_sums, 1);
	return pl_lane_break(l, -EBADMSG);
}

int pl_rx_sum(struct pl_lane *l, uint64_t *head)
{
	/* Pairs with the release in pl_tx_sum, or the agent's. */
	uint64_t sum = atomic_load_explicit(&l->peer->sum,
					    memory_order_acquire);
	uint64_t upto;

	if (!l->rx.sums) {
		/* An agent that has learnt of them carries on with it. */
		if (l->rx.head)
			return 0;
		l->rx.sums = true;
	}
	if (!(sum & PL_SUM_ON))
		return mismatch(l);
	upto = pl_sum_head(sum, l->rx.summed);
	if (upto - l->rx.tail > l->rx.size)
		return mismatch(l);
	l->rx.crc = pl_crc32c(l->rx.crc,
			      l->rx.ring + (l->rx.summed & (l->rx.size - 1)),
			      upto - l->rx.summed);
	if (l->rx.crc != (uint32_t)sum)
		return mismatch(l);
	l->rx.summed = upto;
	atomic_store_explicit(&l->own->rx_sum, pl_sum_make(upto, l->rx.crc),
			      memory_order_relaxed);
	if (*head - l->rx.tail > upto - l->rx.tail)
		*head = upto;
	return 0;
}
