/*
 * tests/unit/lane_pair.h - two ends of a lane without an agent
 *
 * What the broker does, done in the test: two segments, a doorbell, and each
 * end attached to its own and to the other's segment.
 */
#ifndef TESTS_LANE_PAIR_H
#define TESTS_LANE_PAIR_H

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shm/lane.h"

struct lane_parts {
	struct pl_seg seg[2];
	int bell[2];
};

static inline void lane_parts_make(struct lane_parts *p, uint32_t ring)
{
	for (int i = 0; i < 2; i++)
		if (pl_seg_lane_create(ring, &p->seg[i], NULL) < 0)
			abort();
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p->bell) < 0)
		abort();
}

/* End i; the other doorbell is closed if `alone`, as in a process of its own. */
static inline struct pl_lane *lane_end(struct lane_parts *p, int i, int alone)
{
	struct pl_lane_info info = { .id = 1 };
	struct pl_seg peer = PL_SEG_NONE;
	struct pl_seg own = p->seg[i];
	struct pl_lane *l;

	if (pl_seg_lane_open(dup(p->seg[!i].fd),
			     (uint32_t)p->seg[!i].data_bytes, &peer, NULL) < 0)
		abort();
	if (pl_lane_attach(&own, &peer, p->bell[i], &info, NULL, &l, NULL) < 0)
		abort();
	if (alone) {
		close(p->bell[!i]);
		pl_seg_close(&p->seg[!i]);
	}
	return l;
}

#endif
