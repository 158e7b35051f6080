/*
 * bench/ps_pace.h - when gradients are there in a step that overlaps
 *
 * The time that a GPU takes for a batch is slept: a third of it forward, two
 * thirds backward, as a backward pass has about twice the operations. Without
 * --overlap all gradients are there at its end. With it they come one tensor
 * after the other, from the last layer to the first, evenly over the backward
 * pass: there are no published times of each layer. The plan's chunks go from
 * the back of the model to its front then, and a chunk is there when its first
 * tensor is.
 */
#ifndef BENCH_PS_PACE_H
#define BENCH_PS_PACE_H

#include <stdint.h>

#include "bench/ps_plan.h"

struct ps_job;

/* Of a worker; start before other threads wait for chunks of the step. */
struct ps_pace {
	uint64_t backward_at_ns;
};

/* The share of the computing that is over when gradients begin to come. */
#define PS_FORWARD_SHARE (1.0 / 3)

/* Of the backward pass, what is over when this tensor's gradients are there. */
double ps_pace_share(const struct ps_model *m, uint32_t tensor);

/* Compute, up to where the exchange may begin. */
void ps_pace_start(const struct ps_job *job, struct ps_pace *p);

/* Sleep until the gradients of chunk c are there. Any thread. */
void ps_pace_wait(const struct ps_job *job, uint32_t c);

/* A whole step of a worker with nobody else, computing included. */
void ps_pace_step_alone(const struct ps_job *job, uint32_t worker,
			uint32_t step, float *grads, float *params);

#endif
