/*
 * bench/train_alone.h - all workers of a training in one thread
 *
 * What the workers of a job would compute, in turn, with their messages handed
 * over in memory: the reference for what carries them, to the bit.
 */
#ifndef BENCH_TRAIN_ALONE_H
#define BENCH_TRAIN_ALONE_H

#include "common/err.h"
#include "bench/compress.h"
#include "bench/dataset.h"
#include "bench/learner.h"

struct train_alone {
	struct learner_conf learner;	/* rank is of no meaning */
	struct codec_conf codec;
	uint32_t steps;			/* 0: all epochs */
};

struct train_result {
	double accuracy;		/* of the test set, at the end */
	double loss;			/* of the last step, of all workers */
	uint64_t bytes;			/* of all messages to the combiner */
	uint64_t checksum;		/* of the parameters, ps_checksum */
};

int train_alone(const struct train_alone *conf, const struct dataset *train,
		const struct dataset *test, struct train_result *out,
		struct pl_err *err);

#endif
