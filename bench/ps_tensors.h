/*
 * bench/ps_tensors.h - a model of the user's own, as a file of tensors
 *
 * One tensor a line, in forward order: its size, as a number of elements or as
 * dimensions with an x between them, behind a name if it has one. What follows
 * a # is a comment, empty lines are nothing.
 *
 *	# weights and biases
 *	conv1/kernel 7x7x3x64
 *	conv1/bias   64
 *	2048x1000
 */
#ifndef BENCH_PS_TENSORS_H
#define BENCH_PS_TENSORS_H

#include "common/err.h"
#include "bench/ps_models.h"

#define PS_TENSORS_MAX 65536

/*
 * *out is named as the file is, without its folder. -EINVAL names the line;
 * also when there is no tensor. ps_tensors_free frees; NULL is nothing.
 */
int ps_tensors_load(const char *path, struct ps_model **out,
		    struct pl_err *err);
void ps_tensors_free(struct ps_model *model);

#endif
