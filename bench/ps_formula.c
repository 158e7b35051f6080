/* bench/ps_formula.c - what a strategy must move over the wire */
#include "bench/ps_formula.h"

#include <math.h>

#include "common/util.h"
#include "bench/ps_pace.h"

/* Of n that are spread, how many are on a node (from 0). */
static unsigned int spread_on(unsigned int n, unsigned int node)
{
	unsigned int on = 0;

	for (unsigned int i = 0; i < n; i++)
		on += ps_spread(i, n) == node;
	return on;
}

/* What leaves one of two nodes, in models. */
static double leaves(const struct ps_opts *o, unsigned int node, bool once)
{
	unsigned int here = spread_on(o->workers, node);
	unsigned int there = spread_on(o->workers, !node);
	double served_here = spread_on(o->servers, node);
	double served_there = spread_on(o->servers, !node);

	if (once) {
		here = PL_MIN(here, 1u);
		there = PL_MIN(there, 1u);
	}
	return (here * served_there + there * served_here) / o->servers;
}

/* A ring of those nodes that have workers. */
static double ring_of_nodes(const struct ps_opts *o)
{
	double n = PL_MIN(o->workers, (unsigned int)PS_NODES);

	return 2 * (n - 1) / n;
}

double ps_formula_bytes(const struct ps_opts *o, const struct ps_case *c,
			bool once)
{
	double model = (double)c->model->elems * sizeof(float);
	double n = o->workers;

	if (c->placement == PS_SAME_NODE || c->strategy == PS_INDEPENDENT)
		return 0;
	if (c->strategy == PS_RING)
		return 2 * (n - 1) / n * model;
	if (c->strategy == PS_HIERARCHICAL)
		return ring_of_nodes(o) * model;
	if (c->placement == PS_CROSS_NODE)
		return (once ? 1 : n) * model;
	return PL_MAX(leaves(o, 0, once), leaves(o, 1, once)) * model;
}

/* Seconds of a step, given those of computing and of the whole model's way. */
static double overlapped(const struct ps_model *m, double compute_s,
			 double wire_s)
{
	double backward_s = compute_s * (1 - PS_FORWARD_SHARE), end_s = 0;
	uint64_t left = 0;		/* elements up to this tensor */

	for (uint32_t t = 0; t < m->n_tensors; t++) {
		left += m->tensors[t];
		end_s = PL_MAX(end_s, backward_s * ps_pace_share(m, t) +
			       wire_s * (double)left / (double)m->elems);
	}
	return compute_s * PS_FORWARD_SHARE + end_s;
}

double ps_formula_images(const struct ps_opts *o, const struct ps_case *c,
			 bool once, double bytes_per_s)
{
	unsigned int batch = ps_opts_batch(o, c->model);
	double s = (double)ps_model_compute_ns(c->model, o->compute, batch) /
		   1e9;
	double wire_s = ps_formula_bytes(o, c, once) / bytes_per_s;

	s = o->overlap ? overlapped(c->model, s, wire_s) : s + wire_s;
	return s > 0 ? batch * o->workers / s : INFINITY;
}
