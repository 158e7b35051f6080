/*
 * tests/unit/loop_util.h - turn an event loop until something holds
 *
 * Whoever includes it says how long that may take: WAIT_NS.
 */
#ifndef TESTS_LOOP_UTIL_H
#define TESTS_LOOP_UTIL_H

#include <event2/event.h>
#include <stdbool.h>
#include <sys/time.h>

#include "common/util.h"

/* Run the loop until cond holds; fails the test after WAIT_NS. */
#define RUN_UNTIL(base, cond) do {					\
	uint64_t end_ns = pl_now_ns() + WAIT_NS;			\
	bool ok_;							\
	while (!(ok_ = (cond)) && pl_now_ns() < end_ns)			\
		run_once(base);						\
	if (!ok_)							\
		fail_msg("line %d: in vain: %s", __LINE__, #cond);	\
} while (0)

static inline void run_once(struct event_base *base)
{
	struct timeval tick = { 0, 2000 };

	event_base_loopexit(base, &tick);
	event_base_loop(base, EVLOOP_ONCE);
}

static inline void run_ms(struct event_base *base, unsigned int ms)
{
	uint64_t end_ns = pl_now_ns() + ms * 1000000ull;

	while (pl_now_ns() < end_ns)
		run_once(base);
}

#endif
