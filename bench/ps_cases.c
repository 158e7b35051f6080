/* bench/ps_cases.c - which cases a comparison has, and in which order */
#include "bench/ps_cases.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/util.h"

#define MB 1000000

const enum ps_placement ps_cases_placements[PS_PLACEMENTS] = {
	PS_SAME_NODE, PS_CROSS_NODE, PS_SPREAD,
};
const enum ps_strategy ps_cases_strategies[PS_STRATEGIES] = {
	PS_INDEPENDENT, PS_SERVER, PS_RING, PS_HIERARCHICAL,
};
const enum ps_transport ps_cases_transports[PS_TRANSPORTS] = {
	PS_OVERLAY, PS_HOST, PS_PODLANE,
};

unsigned int ps_cases_kinds(const struct ps_opts *o, enum ps_strategy s)
{
	unsigned int lowest = o->transports & -o->transports;

	return s == PS_INDEPENDENT ? lowest : o->transports;
}

unsigned int ps_cases_codecs(const struct ps_opts *o, enum ps_strategy s)
{
	return s == PS_INDEPENDENT ? 1u << CODEC_NONE : o->compressions;
}

bool ps_cases_has(const struct ps_opts *o, enum ps_placement p,
		  enum ps_strategy s)
{
	return o->placements & p && o->strategies & s &&
	       (p != PS_CROSS_NODE || s == PS_SERVER);
}

unsigned int ps_cases_run_weight(const struct ps_model *m)
{
	return PS_WEIGHT_BASE + (unsigned int)(m->elems * sizeof(float) / MB);
}

unsigned int ps_cases_weight(const struct ps_opts *o, const struct ps_case *c)
{
	unsigned int kinds = ps_cases_kinds(o, c->strategy);
	unsigned int runs = (unsigned int)__builtin_popcount(kinds);

	/* The limits that are measured before each turn. */
	unsigned int codecs = ps_cases_codecs(o, c->strategy);
	unsigned int turns = o->repeat *
			     (unsigned int)__builtin_popcount(codecs);

	return turns * (PS_WEIGHT_BASE +
			runs * ps_cases_run_weight(c->model));
}

static unsigned int model_total(const struct ps_opts *o,
				const struct ps_model *m)
{
	unsigned int all = ps_cases_run_weight(m);	/* a worker alone */

	for (unsigned int p = 0; p < PS_PLACEMENTS; p++)
		for (unsigned int s = 0; s < PS_STRATEGIES; s++) {
			struct ps_case c = {
				.model = m,
				.placement = ps_cases_placements[p],
				.strategy = ps_cases_strategies[s],
			};

			if (ps_cases_has(o, c.placement, c.strategy))
				all += ps_cases_weight(o, &c);
		}
	return all;
}

unsigned int ps_cases_total(const struct ps_opts *o)
{
	unsigned int all = PS_WEIGHT_BASE;	/* the cluster */

	for (unsigned int i = 0; i < o->n_models; i++)
		all += model_total(o, o->models[i]);
	return all;
}

__attribute__((format(printf, 3, 4)))
static bool leave_out(struct ps_bench *b, const struct ps_case *c,
		      const char *fmt, ...)
{
	struct ps_left *l;
	va_list ap;

	if (b->n_left == PL_ARRAY_SIZE(b->left))
		return true;
	l = &b->left[b->n_left++];
	l->c = *c;
	va_start(ap, fmt);
	vsnprintf(l->why, sizeof(l->why), fmt, ap);
	va_end(ap);
	return true;
}

bool ps_cases_leave_out(struct ps_bench *b, const struct ps_case *c)
{
	struct ps_opts o = b->o;
	const char *limit;
	uint64_t need, have = ps_machine_free_bytes("", &limit);
	double s;

	o.models[0] = c->model;
	o.n_models = 1;
	need = ps_memory_need(&o);
	if (ps_opts_batch(&o, c->model) == 0)
		return leave_out(b, c, "no published rate on a %s",
				 ps_gpu_name(o.compute));
	if (have < need)
		return leave_out(b, c, "needs %.1f GB of memory, and %s has "
				 "%.1f GB left", (double)need / 1e9, limit,
				 (double)have / 1e9);
	s = ps_progress_seconds(&b->progress) +
	    ps_progress_estimate(&b->progress, ps_cases_weight(&o, c));
	if (o.minutes && s > 60.0 * o.minutes)
		return leave_out(b, c, "would end after %.0f s, beyond "
				 "--minutes %u", s, o.minutes);
	return false;
}
