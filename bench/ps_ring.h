/* bench/ps_ring.h - which part of the model goes where in a ring all-reduce */
#ifndef BENCH_PS_RING_H
#define BENCH_PS_RING_H

#include <stdint.h>

#include "bench/ps_plan.h"

/* Of a step; 0 for one worker. */
uint32_t ps_ring_rounds(uint32_t workers);

/* What this worker sends in a round. There are two workers at least. */
uint32_t ps_ring_part(uint32_t workers, uint32_t rank, uint32_t round);

/* Chunks of a part; its i-th is chunk i * workers + part. */
uint32_t ps_ring_chunks(const struct ps_plan *plan, uint32_t workers,
			uint32_t part);

#endif
