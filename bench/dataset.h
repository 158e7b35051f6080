/*
 * bench/dataset.h - Fashion-MNIST, as Debian's dataset-fashion-mnist has it
 *
 * 60000 images to train with and 10000 to test with, of 28 x 28 grey pixels
 * and ten classes (Xiao, Rasul and Vollgraf, 2017), in the format of MNIST:
 * big-endian magic, counts, bytes; gzip.
 */
#ifndef BENCH_DATASET_H
#define BENCH_DATASET_H

#include <stdint.h>

#include "common/err.h"

#define DATASET_DIR "/usr/share/datasets/fashion-mnist"
#define DATASET_SIDE 28
#define DATASET_PIXELS (DATASET_SIDE * DATASET_SIDE)
#define DATASET_CLASSES 10

struct dataset {
	uint32_t n;
	uint8_t *pixels;		/* n x DATASET_PIXELS */
	uint8_t *labels;		/* n, below DATASET_CLASSES */
};

/*
 * dir NULL: DATASET_DIR. -ENOENT names the package; -EINVAL: no such data.
 * free frees, also what is zeroed.
 */
int dataset_load_train(const char *dir, struct dataset *out,
		       struct pl_err *err);
int dataset_load_test(const char *dir, struct dataset *out,
		      struct pl_err *err);
void dataset_free(struct dataset *d);

/* Image i as floats about 0, at x: DATASET_PIXELS of them. */
void dataset_image(const struct dataset *d, uint32_t i, float *x);

#endif
