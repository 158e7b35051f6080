/*
 * bench/ps_stale.h - staleness: what an asynchronous gradient has missed
 *
 * A worker computes a gradient from its copy of the parameters. Until the
 * server applies it, others' gradients are applied: so many updates is it
 * stale. Counted for each chunk of each gradient, since chunks are copied and
 * updated one by one. The gradients of a synchronous job are never stale.
 *
 * Not locked: what is here belongs to one server, under a lock of its own.
 */
#ifndef BENCH_PS_STALE_H
#define BENCH_PS_STALE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* Of chunks of gradients that were applied in measured steps. */
struct ps_stale_sum {
	uint64_t chunks;
	uint64_t updates;		/* that they missed, all together */
	uint64_t most;			/* that one of them missed */
};

void ps_stale_merge(struct ps_stale_sum *to, const struct ps_stale_sum *s);

struct ps_stale {
	uint32_t chunks, workers;
	/* [worker][chunk]: updates of others that its copy lacks */
	uint32_t *behind;
	struct ps_stale_sum sum;

	/* Updates in order, from the first that some copy may lack. */
	struct ps_stale_update {
		uint32_t rank, chunk;
	} *log;
	uint64_t log_first, log_n;
	size_t log_room;
	uint64_t *version;		/* of each worker's copy */
};

/* -ENOMEM. All copies have version 0. fini frees, also after a failure. */
int ps_stale_init(struct ps_stale *s, uint32_t workers, uint32_t chunks,
		  struct pl_err *err);
void ps_stale_fini(struct ps_stale *s);

/* This worker's gradient is applied to this chunk; counts: into the sum. */
void ps_stale_apply(struct ps_stale *s, uint32_t rank, uint32_t chunk,
		    bool counts);

/* Its copy of this chunk has all updates. For copies of single chunks. */
void ps_stale_copied(struct ps_stale *s, uint32_t rank, uint32_t chunk);

/*
 * For copies of all chunks, that are as they were after some update: the number
 * of updates until then is their version. Each update is logged after it was
 * applied: -ENOMEM. A copy's version: -EPROTO if there are not so many updates,
 * or it had more.
 */
int ps_stale_log(struct ps_stale *s, uint32_t rank, uint32_t chunk);
int ps_stale_copied_all(struct ps_stale *s, uint32_t rank, uint64_t version);

#endif
