/* bench/ps_formula.c - what a strategy must move over the wire */
#include "bench/ps_formula.h"

#include <math.h>

#include "common/util.h"

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

double ps_formula_bytes(const struct ps_opts *o, const struct ps_case *c,
			bool once)
{
	double model = (double)c->model->elems * sizeof(float);
	double n = o->workers;

	if (c->placement == PS_SAME_NODE || c->strategy == PS_INDEPENDENT)
		return 0;
	if (c->strategy == PS_RING)
		return 2 * (n - 1) / n * model;
	if (c->placement == PS_CROSS_NODE)
		return (once ? 1 : n) * model;
	return PL_MAX(leaves(o, 0, once), leaves(o, 1, once)) * model;
}

double ps_formula_images(const struct ps_opts *o, const struct ps_case *c,
			 bool once, double bytes_per_s)
{
	unsigned int batch = ps_opts_batch(o, c->model);
	double s = (double)ps_model_compute_ns(c->model, o->compute, batch) /
		   1e9;

	s += ps_formula_bytes(o, c, once) / bytes_per_s;
	return s > 0 ? batch * o->workers / s : INFINITY;
}
