/* bench/gnuplot.h - pictures by gnuplot */
#ifndef BENCH_GNUPLOT_H
#define BENCH_GNUPLOT_H

#include "common/err.h"

/* -ENOENT: there is no gnuplot; the message says how to get it. */
int gnuplot_check(struct pl_err *err);

/*
 * Run a script, which draws into the file png, and put that to path when it is
 * whole. script_fd is read from its beginning.
 */
int gnuplot_draw(int script_fd, const char *png, const char *path,
		 struct pl_err *err);

#endif
