/*
 * bench/lane_bench.h - one run of lane_perf: its options, cluster and results
 *
 * Results are rows in one JSON document from the start: each part of it is a
 * list of objects, and tables, bars and the picture look rows up there.
 */
#ifndef BENCH_LANE_BENCH_H
#define BENCH_LANE_BENCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <cjson/cJSON.h>

#include "common/err.h"
#include "bench/lane_perf.h"
#include "bench/ps_cluster.h"
#include "bench/ps_machine.h"

#define LP_COUNTS_MAX 8
#define LP_PAIRS 2		/* of processes, where cores are short */

struct lp_opts {
	unsigned int n_sizes, n_counts;
	uint32_t sizes[LP_SIZES_MAX];
	uint32_t counts[LP_COUNTS_MAX];	/* numbers of lanes */
	bool place[LP_PLACES];
	unsigned int ms;		/* of each measurement */
	unsigned int repeat;		/* of all of them, in turn */
	bool check;			/* a bar that is missed is a failure */
	const char *json, *plot, *run_dir, *cni_bin, *podlaned;
	const char *congestion, *security;
};

struct lp_bench {
	struct lp_opts o;
	struct ps_watch watch;
	struct ps_machine machine;
	struct ps_cluster cluster;
	struct ps_pod *client[LP_PAIRS];
	/* By placement; only the first pair has one on the other node. */
	struct ps_pod *server[LP_PAIRS], *far;
	struct lp_limits limits;
	cJSON *doc;
};

/* --- lane_options.c --- */

/* 1: --help was printed. */
int lp_opts_parse(int argc, char **argv, struct lp_opts *o, struct pl_err *err);

/* --- lane_run.c --- */

/* All that was asked for. */
int lp_bench_run(struct lp_bench *b, struct pl_err *err);

/* --- lane_result.c --- */

/* A row is looked for by what is not NULL or 0. */
struct lp_key {
	const char *placement, *transport, *wait, *way;
	double size, lanes;
};

const cJSON *lp_find(const cJSON *doc, const char *part,
		     const struct lp_key *key);
/* NAN: there is no such row or field. */
double lp_value(const cJSON *doc, const char *part, const struct lp_key *key,
		const char *field);

/* Rows of a kind become one: numbers are medians, truths hold for all. */
int lp_merge(cJSON *doc);

/* Bars of the document: filled in, and how many are missed. */
unsigned int lp_bars_add(struct lp_bench *b);
void lp_head_add(struct lp_bench *b);
void lp_table(const struct lp_bench *b, FILE *out);
int lp_plot_write(const struct lp_bench *b, const char *path,
		  struct pl_err *err);

#endif
