/*
 * bench/compress_shape.h - matrices and vectors, of a list of sizes
 *
 * Models are lists of sizes, in forward order. What has the size of the outputs
 * of the tensor before it, so that this is a multiple, is a vector: a bias, a
 * scale or an offset. A tensor with such a vector behind it is a matrix with
 * as many columns, any other one is taken to be as square as its size allows.
 * Of BERT this calls the embedding of the two segments a vector, and the bias
 * of the words a matrix, which is 32 thousand of 110 million elements.
 */
#ifndef BENCH_COMPRESS_SHAPE_H
#define BENCH_COMPRESS_SHAPE_H

#include "bench/compress.h"

void codec_shapes(const uint32_t *sizes, uint32_t n,
		  struct codec_tensor *out);

#endif
