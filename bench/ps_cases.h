/*
 * bench/ps_cases.h - which cases a comparison has, in which order, and which of
 * them it leaves out
 *
 * A case costs time in proportion to the model, about: its weight is what
 * progress and the time left are counted in.
 */
#ifndef BENCH_PS_CASES_H
#define BENCH_PS_CASES_H

#include <stdbool.h>

#include "bench/ps_bench.h"

/* Starting roles and reading reports weighs as much as a small model. */
#define PS_WEIGHT_BASE 60

/* The order in which they come, and in which transports take turns. */
extern const enum ps_placement ps_cases_placements[PS_PLACEMENTS];
extern const enum ps_strategy ps_cases_strategies[PS_STRATEGIES];
extern const enum ps_transport ps_cases_transports[PS_TRANSPORTS];

/* What this strategy is run over: without an exchange, the first is as good. */
unsigned int ps_cases_kinds(const struct ps_opts *o, enum ps_strategy s);

/* A ring has nobody to be apart from. */
bool ps_cases_has(const struct ps_opts *o, enum ps_placement p,
		  enum ps_strategy s);

/* Without an exchange there is nothing to compress. Bits: 1 << codec_kind. */
unsigned int ps_cases_codecs(const struct ps_opts *o, enum ps_strategy s);

/* Of one run of a model; of all turns of a case; of a whole comparison. */
unsigned int ps_cases_run_weight(const struct ps_model *m);
unsigned int ps_cases_weight(const struct ps_opts *o, const struct ps_case *c);
unsigned int ps_cases_total(const struct ps_opts *o);

/*
 * Whether this case must be left out: the memory, the GPU's rate or, by
 * --minutes, the time is not there. It stands in b->left then, with why; c's
 * transport does not matter.
 */
bool ps_cases_leave_out(struct ps_bench *b, const struct ps_case *c);

#endif
