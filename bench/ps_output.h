/*
 * bench/ps_output.h - the files that a benchmark is to write at its end
 */
#ifndef BENCH_PS_OUTPUT_H
#define BENCH_PS_OUTPUT_H

#include "common/err.h"

/*
 * Whether --json and --plot (NULL: not given) can be done, so that nothing
 * fails at the end of a long run.
 */
int ps_output_check(const char *json, const char *csv, const char *plot,
		    struct pl_err *err);

#endif
