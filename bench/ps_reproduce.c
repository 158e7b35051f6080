/* bench/ps_reproduce.c - published facts beside what is measured here */
#include "bench/ps_reproduce.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "bench/ps_cases.h"
#include "bench/ps_formula.h"
#include "bench/ps_stats.h"

#define MICROSOFT "Microsoft, TensorFlow with parameter servers on " \
	"Kubernetes, nodes with K80s"
#define HOROVOD "Horovod's README of 2017, distributed TensorFlow on 16 GPUs"

enum what { NODES, LINEAR };

static const char *const whats[] = { "of one node, on two", "of linear" };

static const struct fact {
	const char *model;
	enum what what;
	const char *relation;
	double value;
	const char *source;
} facts[] = {
	{ "googlenet", NODES, "=", 1.86, MICROSOFT },
	{ "vgg16", NODES, "<", 1, MICROSOFT },
	{ "vgg16", LINEAR, "=", 0.6, HOROVOD },
};

/* --- one node --- */

static unsigned int node_workers(const struct ps_bench *b)
{
	unsigned int n = 0;

	while (n < b->o.workers && ps_spread(n, b->o.workers) == 0)
		n++;
	return n;
}

static int node_runs(struct ps_bench *b, const struct ps_case *c, double *v,
		     struct pl_err *err)
{
	struct ps_run run;
	int rc = 0;

	for (unsigned int i = 0; i < b->o.repeat && rc == 0; i++) {
		ps_progress_say(&b->progress, "%s, one node, run %u of %u",
				c->model->name, i + 1, b->o.repeat);
		rc = ps_run_case(b, c, &run, err);
		v[i] = run.images_per_s;
		ps_progress_add(&b->progress, ps_cases_run_weight(c->model));
	}
	return rc;
}

int ps_reproduce_node(struct ps_bench *b, const struct ps_model *m,
		      double *images_per_s, struct pl_err *err)
{
	const struct ps_case c = { m, PS_SAME_NODE, PS_SERVER, PS_PODLANE,
				   CODEC_NONE };
	const unsigned int workers = b->o.workers, servers = b->o.servers;
	pl_auto_free double *v = calloc(b->o.repeat, sizeof(*v));
	int rc;

	if (!v)
		return pl_err_set(err, ENOMEM, "out of memory");
	b->o.workers = node_workers(b);
	b->o.servers = 1;
	rc = node_runs(b, &c, v, err);
	b->o.workers = workers;
	b->o.servers = servers;
	*images_per_s = ps_median(v, b->o.repeat);
	return rc;
}

unsigned int ps_reproduce_weight(const struct ps_bench *b)
{
	unsigned int all = 0;

	for (unsigned int i = 0; i < b->o.n_models; i++)
		all += b->o.repeat * ps_cases_run_weight(b->o.models[i]);
	return all;
}

/* --- what was measured, and what formulas say --- */

static double node_images(const struct ps_bench *b, const struct ps_model *m)
{
	for (unsigned int i = 0; i < b->o.n_models; i++)
		if (b->o.models[i] == m)
			return b->node_images[i];
	return NAN;
}

static double times_node(const struct ps_bench *b, const struct ps_result *r)
{
	return r->images_per_s / node_images(b, r->c.model);
}

static double compute_s(const struct ps_bench *b, const struct ps_model *m)
{
	return (double)ps_model_compute_ns(m, b->o.compute,
					   ps_opts_batch(&b->o, m)) / 1e9;
}

/* A node that only computes, against both with the wire between them. */
static double times_formula(const struct ps_bench *b,
			    const struct ps_result *r)
{
	double node = node_workers(b) * ps_opts_batch(&b->o, r->c.model) /
		      compute_s(b, r->c.model);

	return ps_formula_images(&b->o, &r->c, r->local_sum,
				 (double)b->o.wire.bytes_per_s) / node;
}

/* Seconds on the wire of a step, each role with a wire of its own. */
static double wire_s(const struct ps_bench *b, const struct ps_model *m,
		     enum ps_strategy s)
{
	double once = (double)m->elems * sizeof(float) /
		      (double)b->o.wire.bytes_per_s;
	double n = b->o.workers, k = b->o.servers;

	return s == PS_RING ? 2 * (n - 1) / n * once :
			      PL_MAX(once, n / k * once);
}

static double of_fact(const struct ps_bench *b, const struct fact *f,
		      const struct ps_result *r)
{
	return f->what == NODES ? times_node(b, r) : r->scaling_efficiency;
}

/* As published: parameter servers over the overlay. NAN: was not run. */
static double measured(const struct ps_bench *b, const struct fact *f,
		       const struct ps_result *r, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (!strcmp(r[i].c.model->name, f->model) &&
		    r[i].c.strategy == PS_SERVER && !r[i].c.compression &&
		    r[i].c.transport == PS_OVERLAY)
			return of_fact(b, f, &r[i]);
	return NAN;
}

/* Of podlane, whatever strategy that exchanges anything. */
static double best(const struct ps_bench *b, const struct fact *f,
		   const struct ps_result *r, unsigned int n)
{
	double v = NAN;

	for (unsigned int i = 0; i < n; i++)
		if (!strcmp(r[i].c.model->name, f->model) &&
		    r[i].c.strategy != PS_INDEPENDENT &&
		    !r[i].c.compression && r[i].c.transport == PS_PODLANE)
			v = fmax(v, of_fact(b, f, &r[i]));
	return v;
}

/* --- for people --- */

static const char *number(char *buf, size_t size, const char *relation,
			  double v)
{
	if (isfinite(v))
		snprintf(buf, size, "%s%.2f x", relation, v);
	else
		snprintf(buf, size, "-");
	return buf;
}

static void model_table(const struct ps_bench *b, const struct ps_model *m,
			const struct ps_result *r, unsigned int n, FILE *out)
{
	char t[3][24];

	fprintf(out, "\n%s: one node (%u workers, regions) %.1f images/s\n",
		m->name, node_workers(b), node_images(b, m));
	fprintf(out, "  a step by formula: computing %.0f ms; then servers "
		"max(S/B, nS/(kB)) %.0f ms, ring 2(n-1)S/(nB) %.0f ms\n",
		1e3 * compute_s(b, m), 1e3 * wire_s(b, m, PS_SERVER),
		1e3 * wire_s(b, m, PS_RING));
	fprintf(out, "  %-17s %-9s %9s %11s %11s %10s\n", "strategy",
		"transport", "images/s", "of one node", "by formula",
		"of linear");
	for (unsigned int i = 0; i < n; i++) {
		if (r[i].c.model != m)
			continue;
		fprintf(out, "  %-17s %-9s %9.1f %11s %11s %10s\n",
			ps_strategy_name(r[i].c.strategy),
			ps_result_transport(&r[i]), r[i].images_per_s,
			number(t[0], sizeof(t[0]), "", times_node(b, &r[i])),
			number(t[1], sizeof(t[1]), "",
			       times_formula(b, &r[i])),
			number(t[2], sizeof(t[2]), "",
			       r[i].scaling_efficiency));
	}
}

void ps_reproduce_table(const struct ps_bench *b, const struct ps_result *r,
			unsigned int n, FILE *out)
{
	char t[3][24];

	fprintf(out, "\nPublished, and measured here: %u workers and %u "
		"server%s on two nodes, %s emulated, %g Gb/s between them\n",
		b->o.workers, b->o.servers, b->o.servers > 1 ? "s" : "",
		ps_gpu_name(b->o.compute),
		(double)b->o.wire.bytes_per_s * 8 / 1e9);
	fprintf(out, "  %-10s %-20s %12s %13s %14s\n", "model", "images/s",
		"published", "here, overlay", "podlane's best");
	for (size_t i = 0; i < PL_ARRAY_SIZE(facts); i++) {
		const struct fact *f = &facts[i];

		fprintf(out, "  %-10s %-20s %12s %13s %14s\n    %s\n", f->model,
			whats[f->what],
			number(t[0], sizeof(t[0]), *f->relation == '<' ?
			       "below " : "", f->value),
			number(t[1], sizeof(t[1]), "",
			       measured(b, f, r, n)),
			number(t[2], sizeof(t[2]), "", best(b, f, r, n)),
			f->source);
	}
	for (unsigned int i = 0; i < b->o.n_models; i++)
		model_table(b, b->o.models[i], r, n, out);
	fprintf(out, "\nof one node: over images/s of the first node's workers "
		"alone, with one server and regions;\nby formula: what this "
		"strategy could reach here, where several roles share the "
		"wire of their node,\nover a node that only computes; of "
		"linear: over as many workers that exchange nothing\n");
}

/* --- JSON --- */

static void add(cJSON *o, const char *key, double v)
{
	if (isfinite(v))
		cJSON_AddNumberToObject(o, key, v);
	else
		cJSON_AddNullToObject(o, key);
}

static void add_rows(cJSON *o, const struct ps_bench *b,
		     const struct ps_model *m, const struct ps_result *r,
		     unsigned int n)
{
	cJSON *list = cJSON_AddArrayToObject(o, "rows"), *row;

	for (unsigned int i = 0; i < n; i++) {
		if (r[i].c.model != m)
			continue;
		row = cJSON_CreateObject();
		cJSON_AddStringToObject(row, "variable_update",
					ps_strategy_name(r[i].c.strategy));
		cJSON_AddStringToObject(row, "transport",
					ps_result_transport(&r[i]));
		add(row, "images_per_s", r[i].images_per_s);
		add(row, "times_one_node", times_node(b, &r[i]));
		add(row, "formula_times_one_node", times_formula(b, &r[i]));
		add(row, "scaling_efficiency", r[i].scaling_efficiency);
		cJSON_AddItemToArray(list, row);
	}
}

static cJSON *model_json(const struct ps_bench *b, const struct ps_model *m,
			 const struct ps_result *r, unsigned int n)
{
	cJSON *o = cJSON_CreateObject(), *node, *step;

	cJSON_AddStringToObject(o, "model", m->name);
	node = cJSON_AddObjectToObject(o, "one_node");
	add(node, "workers", node_workers(b));
	add(node, "images_per_s", node_images(b, m));
	step = cJSON_AddObjectToObject(o, "formula_s");
	add(step, "computing", compute_s(b, m));
	add(step, "parameter_server", wire_s(b, m, PS_SERVER));
	add(step, "ring", wire_s(b, m, PS_RING));
	add_rows(o, b, m, r, n);
	return o;
}

void ps_reproduce_json(const struct ps_bench *b, const struct ps_result *r,
		       unsigned int n, cJSON *doc)
{
	cJSON *list = cJSON_AddArrayToObject(doc, "reproduce"), *o;

	for (unsigned int i = 0; i < b->o.n_models; i++)
		cJSON_AddItemToArray(list, model_json(b, b->o.models[i], r,
						      n));
	list = cJSON_AddArrayToObject(doc, "published");
	for (size_t i = 0; i < PL_ARRAY_SIZE(facts); i++) {
		const struct fact *f = &facts[i];

		o = cJSON_CreateObject();
		cJSON_AddStringToObject(o, "model", f->model);
		cJSON_AddStringToObject(o, "what", whats[f->what]);
		cJSON_AddStringToObject(o, "relation", f->relation);
		add(o, "value", f->value);
		cJSON_AddStringToObject(o, "source", f->source);
		add(o, "overlay", measured(b, f, r, n));
		add(o, "podlane", best(b, f, r, n));
		cJSON_AddItemToArray(list, o);
	}
}
