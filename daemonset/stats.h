/*
 * daemonset/stats.h - what pods say that they did, and what they were refused
 *
 * Theory of operation
 *
 * A pod's library counts in the segments of its lanes (shm/layout.h), where
 * nobody but the pod writes. So these numbers are a pod's word about itself:
 * each is read once, and nothing but lists and sums comes of it. All of them,
 * and all sums, stop at PL_STAT_MAX; JSON has their first 15 digits.
 *
 * What a lane's end had counted is added to its pod when the end goes
 * (pl_pod_counts); that, and what pods were refused, the agent counts itself,
 * in a file that outlives it (counts.h). A lane that goes on without its agent
 * is not added: it is shown to the next one, with all that it has counted.
 */
#ifndef DAEMONSET_STATS_H
#define DAEMONSET_STATS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "shm/layout.h"

#define PL_STAT_MAX (UINT64_C(1) << 62)

/* Of one direction of a lane, or of many. */
enum pl_flow_item {
	PL_FLOW_BYTES,
	PL_FLOW_MESSAGES,	/* calls that published, or gave back */
	PL_FLOW_DOORBELLS,
	PL_FLOW_WAITS,
	PL_FLOW_SLEEPS,
	PL_FLOW_WAIT_NS,
	PL_FLOW_REFUSALS,
	PL_FLOW_ERRORS,
	PL_FLOW_BAD_SUMS,
	PL_FLOW_ITEMS,
};

struct pl_flow {
	uint64_t n[PL_FLOW_ITEMS];
};

/* What the owner of a segment says: of the lane's two directions. */
struct pl_flows {
	bool has_counts;	/* else a library that does not count: bytes */
	struct pl_flow tx, rx;
};

/* How long threads took to run again after a doorbell; see shm/wake.h. */
struct pl_wakes {
	uint64_t ns;		/* all of them */
	uint64_t n[PL_WAKE_BUCKETS];
};

enum pl_pod_event {
	PL_POD_LANES,			/* ends that are gone */
	PL_POD_REFUSED_QUOTA,		/* what would have passed a limit */
	PL_POD_REFUSED_HALF_OPEN,	/* lanes, as too many wait for it */
	PL_POD_REFUSED_POLICY,		/* pods of other namespaces */
	PL_POD_COMPLAINTS,		/* log lines, also such not shown */
	PL_POD_EVENTS,
};

#define PL_POD_COUNTS_MAGIC 0x31444f502d4c50ull	/* "PL-POD1" */
#define PL_POD_COUNTS_VERSION 1u
#define PL_POD_COUNTS_BYTES 4096u

/* Of one pod, at the start of its file; the agent alone writes. */
struct pl_pod_counts {
	/* line 0: constant */
	uint64_t magic;
	uint32_t version;
	uint32_t pad0;
	uint64_t cookie;		/* of the pod's namespace */
	uint8_t pad1[40];
	/* of ends of lanes that are gone */
	_Atomic uint64_t tx[16];	/* by enum pl_flow_item */
	_Atomic uint64_t rx[16];
	_Atomic uint64_t events[16];	/* by enum pl_pod_event */
	/* NUL terminated, for people only: of the pod's first registration */
	char name[256];
	char ns[64];
	/* of ends of lanes that are gone: all ns, then the buckets */
	_Atomic uint64_t wakes[1 + PL_WAKE_BUCKETS];
	uint64_t pad2;
};
_Static_assert(offsetof(struct pl_pod_counts, cookie) == 16, "layout");
_Static_assert(offsetof(struct pl_pod_counts, tx) == 64, "layout");
_Static_assert(offsetof(struct pl_pod_counts, rx) == 192, "layout");
_Static_assert(offsetof(struct pl_pod_counts, events) == 320, "layout");
_Static_assert(offsetof(struct pl_pod_counts, name) == 448, "layout");
_Static_assert(offsetof(struct pl_pod_counts, wakes) == 768, "layout");
_Static_assert(sizeof(struct pl_pod_counts) == 896, "layout");
_Static_assert(PL_FLOW_ITEMS <= 16 && PL_POD_EVENTS <= 16, "layout");

static inline uint64_t pl_stat(uint64_t v)
{
	return v < PL_STAT_MAX ? v : PL_STAT_MAX;
}

static inline uint64_t pl_stat_read(const _Atomic uint64_t *v)
{
	return pl_stat(atomic_load_explicit(v, memory_order_relaxed));
}

/* ctl NULL: nothing is known, all is 0. */
void pl_flows_read(const struct pl_lane_seg *ctl, struct pl_flows *out);

void pl_flow_add(struct pl_flow *sum, const struct pl_flow *more);

/* Of both threads; ctl NULL, or such are not counted: adds nothing. */
void pl_wakes_add(struct pl_wakes *sum, const struct pl_lane_seg *ctl);

/* What is not counted is left out; NULL when there is no memory. */
cJSON *pl_flow_json(const struct pl_flow *f, bool has_counts);

/* What an agent did for lanes to other nodes, since they have these. */
enum pl_carry_item {
	PL_CARRY_PUTS,
	PL_CARRY_PUT_BYTES,
	PL_CARRY_AGAIN_BYTES,
	PL_CARRY_COUNTER_PUTS,
	PL_CARRY_NOTIFIES,
	PL_CARRY_RINGS,
	PL_CARRY_RUNG,
	PL_CARRY_RESUMES,
	PL_CARRY_ITEMS,
};

struct pl_carry_sum {
	uint64_t n[PL_CARRY_ITEMS];
};

/* ctl NULL, or no replica: adds nothing. */
void pl_carry_sum_add(struct pl_carry_sum *sum, const struct pl_lane_seg *ctl);

/* What the agent counted in a replica; NULL: it is none. */
cJSON *pl_carry_json(const struct pl_lane_seg *ctl);

/* An end of a lane of this pod is gone; ctl NULL: it never was one. */
void pl_pod_counts_end(struct pl_pod_counts *c, const struct pl_lane_seg *ctl);
void pl_pod_counts_event(struct pl_pod_counts *c, enum pl_pod_event e);
/* Of ends that are gone. */
void pl_pod_counts_flows(const struct pl_pod_counts *c, struct pl_flow *tx,
			 struct pl_flow *rx);
void pl_pod_counts_wakes(const struct pl_pod_counts *c, struct pl_wakes *out);

#endif
