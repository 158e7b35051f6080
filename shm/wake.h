/*
 * shm/wake.h - how long threads took from the doorbell until they ran again
 *
 * Theory of operation
 *
 * Who rings stores when (rung_ns, CLOCK_MONOTONIC, which all pods of a node
 * have in common), then writes to the doorbell. Who slept on it and finds what
 * it waited for takes the difference. It counts only a time that is in its
 * sleep: a peer that does not store it, or whose clock is another one (a time
 * namespace), leaves nothing behind, and one that lies is bounded by the sleep.
 * Waits that end while they spin cost nothing and are not counted.
 */
#ifndef SHM_WAKE_H
#define SHM_WAKE_H

#include <stdbool.h>
#include <stddef.h>

#include "shm/layout.h"

/* Upper bounds of the buckets, inclusive; the last one has none. */
static const uint32_t pl_wake_bounds_us[PL_WAKE_BUCKETS - 1] = {
	2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 100000
};

static inline size_t pl_wake_bucket(uint64_t ns)
{
	size_t i = 0;

	while (i < PL_WAKE_BUCKETS - 1 && ns > pl_wake_bounds_us[i] * 1000ull)
		i++;
	return i;
}

/* from_ns: when the sleep began. Returns whether it was counted. */
static inline bool pl_wake_count(struct pl_lane_wake *w, uint64_t rung_ns,
				 uint64_t from_ns, uint64_t now_ns)
{
	_Atomic uint64_t *n;

	if (rung_ns < from_ns || rung_ns > now_ns)
		return false;
	/* One writer: no read-modify-write. */
	n = &w->n[pl_wake_bucket(now_ns - rung_ns)];
	atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) +
				      1, memory_order_relaxed);
	atomic_store_explicit(&w->ns,
			      atomic_load_explicit(&w->ns,
						   memory_order_relaxed) +
				      now_ns - rung_ns, memory_order_relaxed);
	return true;
}

#endif
