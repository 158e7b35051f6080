/* bench/ps_near_impl.h - the two ways by which a leader reaches its members */
#ifndef BENCH_PS_NEAR_IMPL_H
#define BENCH_PS_NEAR_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "bench/ps_near.h"

struct ps_near;

struct ps_member {
	struct ps_near *near;
	struct ps_link link;
	uint32_t rank;
	struct pl_region *region;	/* podlane */
	float *grads;			/* TCP: what came last */
	uint64_t came;			/* chunks since the start */
	pthread_t receiver, sender;
	bool receives, sends;
};

struct ps_near {
	const struct ps_job *job;
	uint32_t n;
	struct ps_member *members;
	float *params;
	struct pl_conn *conn;		/* podlane */
	struct pl_region *region;
	atomic_bool stop;

	uint32_t *order;		/* TCP: chunks as they became ready */
	pthread_mutex_t lock;		/* of what follows, and of came */
	pthread_cond_t moved;
	uint64_t given;			/* chunks since the start */
	struct pl_err failure;		/* of any thread */
};

int ps_near_region_start(struct ps_near *near, struct pl_err *err);
int ps_near_region_take(struct ps_near *near, uint64_t version,
			const struct ps_chunk *k, const float **src,
			struct pl_err *err);

int ps_near_tcp_start(struct ps_near *near, struct pl_err *err);
int ps_near_tcp_take(struct ps_near *near, uint64_t chunks,
		     const struct ps_chunk *k, const float **src,
		     struct pl_err *err);
int ps_near_tcp_give(struct ps_near *near, uint32_t c, struct pl_err *err);
int ps_near_tcp_bye(struct ps_near *near, struct pl_err *err);
void ps_near_tcp_end(struct ps_near *near);

#endif
