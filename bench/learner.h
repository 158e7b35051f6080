/*
 * bench/learner.h - one worker's part of a training: its batches, its model
 *
 * All workers begin with the same parameters and shuffle the data alike for
 * each epoch; in each step of the epoch worker r has the r-th of `workers`
 * batches. What is left of the data at the end of an epoch is not used in it.
 * Given equal sums, all workers have equal parameters after each step.
 */
#ifndef BENCH_LEARNER_H
#define BENCH_LEARNER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "bench/dataset.h"
#include "bench/net.h"

struct learner_conf {
	const char *net;		/* of net_create */
	uint32_t batch;			/* images of one worker and step */
	uint32_t workers, rank, epochs;
	uint64_t seed;
	float rate;			/* learning rate, at the start */
	float momentum;
	bool sum_has_momentum;		/* so that the update adds none */
};

struct learner;

/* data stays the caller's. -EINVAL: fewer images than one step needs. */
int learner_create(const struct learner_conf *conf,
		   const struct dataset *data, struct learner **out,
		   struct pl_err *err);
void learner_destroy(struct learner *l);

uint64_t learner_elems(const struct learner *l);
uint32_t learner_epoch_steps(const struct learner *l);

/* The gradient of this worker's batch of this step of the whole training. */
void learner_gradient(struct learner *l, uint32_t step, float *grad,
		      double *loss);

/*
 * The parameters after the step, from the sum of all workers' gradients. The
 * rate falls with the steps of the whole training, from conf.rate along half a
 * cosine to a hundredth of it.
 */
void learner_apply(struct learner *l, uint32_t step, const float *sum);

const float *learner_params(const struct learner *l);

/* The part of the images whose class is found, 0 to 1. */
double learner_accuracy(struct learner *l, const struct dataset *test);

#endif
