/* bench/gnuplot.h - pictures by gnuplot */
#ifndef BENCH_GNUPLOT_H
#define BENCH_GNUPLOT_H

#include <stdio.h>

#include "common/err.h"

/* -ENOENT: there is no gnuplot; the message says how to get it. */
int gnuplot_check(struct pl_err *err);

/* A script to be written, in memory. */
int gnuplot_open(FILE **script, struct pl_err *err);

/*
 * Run the script, which draws into the file png, and put that to path when it
 * is whole. script is closed, also after an error.
 */
int gnuplot_draw(FILE *script, const char *png, const char *path,
		 struct pl_err *err);

#endif
