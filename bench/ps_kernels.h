/*
 * bench/ps_kernels.h - gradient values, sums, the update, the verification
 *
 * Every value is a small integer times a power of two, so that sums of floats
 * are exact and equal in every order, as long as they stay below 2^24 units:
 *
 *   gradient   g(worker, step, tensor, i) = (-8 .. 7) * PS_GRAD_UNIT
 *   parameter  p0(i) = (-256 .. 255) * PS_LR * PS_GRAD_UNIT
 *   step       p -= PS_LR * sum of the workers' g
 *
 * which allows PS_GRADS_MAX gradients. A value depends on all of worker, step,
 * tensor and place, so a chunk that is lost, doubled, stale or in a wrong
 * place gives wrong parameters.
 */
#ifndef BENCH_PS_KERNELS_H
#define BENCH_PS_KERNELS_H

#include <stdint.h>

#include "common/err.h"
#include "bench/ps_plan.h"

#define PS_GRAD_UNIT (1.0f / 256)
#define PS_LR (1.0f / 64)
#define PS_GRADS_MAX (1u << 20)		/* workers * steps */

/* dst[0 .. n of chunk c) = gradient of this worker and step. */
void ps_fill(const struct ps_plan *plan, uint32_t c, uint32_t worker,
	     uint32_t step, float *dst);

/* The same plus the same chunk of n_src others, in one pass over memory. */
void ps_fill_sum(const struct ps_plan *plan, uint32_t c, uint32_t worker,
		 uint32_t step, const float *const *src, uint32_t n_src,
		 float *dst);

void ps_add(float *dst, const float *src, uint32_t n);

/* p -= PS_LR * (sum of n_src gradients), in one pass over memory. */
void ps_update(float *p, const float *const *src, uint32_t n_src, uint32_t n);

/* The parameters before the first step: of a chunk, of all. */
void ps_params_init(const struct ps_plan *plan, uint32_t c, float *p);
void ps_params_init_all(const struct ps_plan *plan, float *params);

/* Chunk c of a worker with nobody else: gradients, update. Whole vectors. */
void ps_chunk_alone(const struct ps_plan *plan, uint32_t c, uint32_t worker,
		    uint32_t step, float *grads, float *params);

/*
 * Compare chunk c with what the parameters must be after `steps` steps of
 * `workers` workers from rank `first` on, to the last bit. -EBADMSG names
 * tensor and index.
 */
int ps_verify(const struct ps_plan *plan, uint32_t c, uint32_t first,
	      uint32_t workers, uint32_t steps, const float *p,
	      struct pl_err *err);

/*
 * A sum over elements whose first is element `first` of the vector. Sums of
 * parts add up to the sum of the whole.
 */
uint64_t ps_checksum(const float *p, uint32_t n, uint64_t first);

#endif
