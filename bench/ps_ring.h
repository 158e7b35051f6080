/* bench/ps_ring.h - which part of the model goes where in a ring all-reduce */
#ifndef BENCH_PS_RING_H
#define BENCH_PS_RING_H

#include <stdint.h>

#include "bench/ps_plan.h"

/* Of a step; 0 for one worker. */
uint32_t ps_ring_rounds(uint32_t workers);

/* What this worker sends in a round. There are two workers at least. */
uint32_t ps_ring_part(uint32_t workers, uint32_t rank, uint32_t round);

/* Of n_chunks in a bucket, those of a part; its i-th is i * workers + part. */
uint32_t ps_ring_chunks(uint32_t n_chunks, uint32_t workers, uint32_t part);

/* Chunks that go around together, a multiple of the workers. */
uint32_t ps_ring_bucket(const struct ps_plan *plan, uint32_t workers);

#endif
