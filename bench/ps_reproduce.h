/*
 * bench/ps_reproduce.h - published facts beside what is measured here
 *
 * reproduce is a comparison of jobs on two nodes. Besides, the first node's
 * share of the workers is run alone, with one server and regions: what one
 * node is worth, whatever network lies between nodes.
 */
#ifndef BENCH_PS_REPRODUCE_H
#define BENCH_PS_REPRODUCE_H

#include <stdio.h>
#include <cjson/cJSON.h>

#include "common/err.h"
#include "bench/ps_result.h"

/* Images per second of one node: the median of --repeat runs. */
int ps_reproduce_node(struct ps_bench *b, const struct ps_model *m,
		      double *images_per_s, struct pl_err *err);
/* All of these runs, in the progress of a comparison. */
unsigned int ps_reproduce_weight(const struct ps_bench *b);

void ps_reproduce_table(const struct ps_bench *b, const struct ps_result *r,
			unsigned int n, FILE *out);
/* Adds "reproduce" and "published" to the document of ps_result_json. */
void ps_reproduce_json(const struct ps_bench *b, const struct ps_result *r,
		       unsigned int n, cJSON *doc);

#endif
