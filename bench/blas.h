/*
 * bench/blas.h - matrix products by the BLAS of the system
 *
 * OpenBLAS, or whatever provides libblas.so.3, is loaded when it is first
 * needed, so that nothing else of the benchmark depends on it. It uses one
 * thread: a worker is one, and sums must not depend on how many there are.
 */
#ifndef BENCH_BLAS_H
#define BENCH_BLAS_H

#include <stdbool.h>

#include "common/err.h"

/*
 * Before the first product, in a process of one thread. -ENOENT says what to
 * install.
 */
int blas_load(struct pl_err *err);

/* The file it was loaded from; "": not loaded. */
const char *blas_path(void);

/*
 * C (m x n) = A (m x k) B (k x n), or added to C; all row by row. With
 * a_transposed A is stored as k x m, with b_transposed B as n x k.
 */
struct blas_product {
	bool a_transposed, b_transposed, add;
	int m, n, k;
};
void blas_multiply(const struct blas_product *p, const float *a,
		   const float *b, float *c);

#endif
