/*
 * bench/ps_result.h - what a comparison found, and how it is shown
 */
#ifndef BENCH_PS_RESULT_H
#define BENCH_PS_RESULT_H

#include <stdbool.h>
#include <stdio.h>
#include <cjson/cJSON.h>

#include "common/err.h"
#include "bench/ps_bench.h"

/* Medians over the repeats. NAN: not known in this comparison. */
struct ps_result {
	struct ps_case c;
	unsigned int repeat;		/* runs that the medians are of */
	double images_per_s;
	double images_min, images_max;	/* of the runs */
	double step_p50_ms, step_p99_ms;
	double grad_bytes_per_s, bytes_per_s;
	double cpu_s_per_gb;
	double speedup_vs_overlay;	/* median of the pairs' ratios */
	double scaling_efficiency;
	double roofline_share;
	double raw_share;		/* of limits.raw_both_ways */
	double formula_share;		/* of ps_formula_images */
	struct ps_limits limits;
	char path[64], grad_path[64], param_path[64];
	struct ps_nic nic;
	double used[PS_COUNTERS];	/* in a step; CPU in ns */
	double sent_bytes;		/* of a worker and step */
	double stale_mean, stale_max;	/* max: of all runs */
	bool local_sum, verified;
};

/*
 * Of n runs of one case. overlay: the n runs that took turns with them, or
 * NULL. solo_s: of ps_solo_step.
 */
void ps_result_make(const struct ps_bench *b, const struct ps_case *c,
		    const struct ps_run *runs, const struct ps_run *overlay,
		    unsigned int n, double solo_s, struct ps_result *out);

/* What carried it, "none" without an exchange. */
const char *ps_result_transport(const struct ps_result *r);

/* The table for people, with what its numbers mean. */
void ps_result_table(const struct ps_bench *b, const struct ps_result *r,
		     unsigned int n, FILE *out);

/* The document of --json; NULL: no memory. */
cJSON *ps_result_json(const struct ps_bench *b, const struct ps_result *r,
		      unsigned int n);

/* A picture of the gradient rates. */
int ps_plot_write(const struct ps_bench *b, const struct ps_result *r,
		  unsigned int n, const char *path, struct pl_err *err);

#endif
