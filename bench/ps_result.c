/*
 * bench/ps_result.c - from runs to one result, and the document of it
 */
#include "bench/ps_result.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/util.h"
#include "bench/ps_formula.h"
#include "bench/ps_role.h"
#include "bench/ps_stats.h"

static double field(const struct ps_run *run, size_t at)
{
	return *(const double *)((const char *)run + at);
}

/* Median of one field of the runs; divided by one of others, if given. */
static double median_of(const struct ps_run *runs, size_t at, unsigned int n,
			const struct ps_run *by, size_t by_at)
{
	pl_auto_free double *v = calloc(n, sizeof(*v));

	for (unsigned int i = 0; v && i < n; i++)
		v[i] = field(&runs[i], at) / (by ? field(&by[i], by_at) : 1);
	return v ? ps_median(v, n) : NAN;
}

#define AT(f) offsetof(struct ps_run, f)
#define MEDIAN(f) median_of(runs, AT(f), n, NULL, 0)
#define RATIO(f, by, g) median_of(runs, AT(f), n, by, AT(g))

double ps_roofline_bytes(enum ps_strategy s, unsigned int k, double model_bytes)
{
	double models = 2.0 * k;

	models += s == PS_SERVER || s == PS_HIERARCHICAL ? 2.0 : 2.0 * k;
	models += s == PS_RING ? 4.0 * (k - 1) : 0;
	return models * model_bytes;
}

/*
 * Known where something crosses a wire whose rate is known. Plain streams tell
 * it where all of them cross the wire: in a spread placement some stay within a
 * node.
 */
static double formula_share(const struct ps_bench *b,
			    const struct ps_result *r)
{
	double plain = r->c.placement == PS_CROSS_NODE ?
		       r->limits.raw_one_way : 0;
	double rate = b->o.wire.bytes_per_s ? (double)b->o.wire.bytes_per_s :
					      plain;

	/* Formulas are of whole gradients. */
	if (b->o.raw || rate <= 0 || r->c.compression ||
	    ps_formula_bytes(&b->o, &r->c, r->local_sum) <= 0)
		return NAN;
	return r->images_per_s /
	       ps_formula_images(&b->o, &r->c, r->local_sum, rate);
}

void ps_result_make(const struct ps_bench *b, const struct ps_case *c,
		    const struct ps_run *runs, const struct ps_run *overlay,
		    unsigned int n, double solo_s, struct ps_result *out)
{
	double model = (double)c->model->elems * sizeof(float);
	double must = ps_roofline_bytes(c->strategy, b->o.workers, model) /
		      (b->o.workers * model);

	memset(out, 0, sizeof(*out));
	out->c = *c;
	out->repeat = n;
	out->images_per_s = MEDIAN(images_per_s);
	out->images_min = out->images_max = runs->images_per_s;
	out->step_p50_ms = MEDIAN(step_p50_ms);
	out->step_p99_ms = MEDIAN(step_p99_ms);
	out->grad_bytes_per_s = MEDIAN(grad_bytes_per_s);
	out->bytes_per_s = MEDIAN(bytes_per_s);
	out->cpu_s_per_gb = MEDIAN(cpu_s_per_gb);
	out->speedup_vs_overlay = overlay ?
		RATIO(grad_bytes_per_s, overlay, grad_bytes_per_s) : NAN;
	out->limits.memory_bytes_per_s = MEDIAN(limits.memory_bytes_per_s);
	out->limits.raw_one_way = MEDIAN(limits.raw_one_way);
	out->limits.raw_both_ways = MEDIAN(limits.raw_both_ways);
	/* With --raw nobody fills or sums: there is nothing to compare to. */
	out->roofline_share = b->o.raw || c->compression ? NAN : must *
		RATIO(grad_bytes_per_s, runs, limits.memory_bytes_per_s);
	out->raw_share = c->transport != PS_OVERLAY || c->compression ||
			 runs->limits.raw_both_ways <= 0 ? NAN :
		RATIO(bytes_per_s, runs, limits.raw_both_ways);
	out->scaling_efficiency = b->o.raw ? NAN : out->images_per_s /
		(b->o.workers * ps_opts_batch(&b->o, c->model) / solo_s);
	out->sent_bytes = MEDIAN(sent_bytes);
	out->stale_mean = MEDIAN(stale_mean);
	out->stale_max = runs->stale_max;
	out->local_sum = runs[n - 1].local_sum;
	out->formula_share = formula_share(b, out);
	out->verified = true;
	for (unsigned int i = 0; i < n; i++) {
		out->verified &= runs[i].verified;
		out->images_min = PL_MIN(out->images_min,
					 runs[i].images_per_s);
		out->images_max = PL_MAX(out->images_max,
					 runs[i].images_per_s);
		out->stale_max = PL_MAX(out->stale_max, runs[i].stale_max);
	}
	snprintf(out->path, sizeof(out->path), "%s", runs[n - 1].path);
	snprintf(out->grad_path, sizeof(out->grad_path), "%s",
		 runs[n - 1].grad_path);
	snprintf(out->param_path, sizeof(out->param_path), "%s",
		 runs[n - 1].param_path);
	out->nic = runs[n - 1].nic;
	for (unsigned int i = 0; i < PS_COUNTERS; i++)
		out->used[i] = MEDIAN(used[i]) / b->o.steps;
}

const char *ps_result_transport(const struct ps_result *r)
{
	return r->c.strategy == PS_INDEPENDENT ? "none" :
	       ps_transport_name(r->c.transport);
}

/* --- JSON --- */

static void add(cJSON *obj, const char *key, double v)
{
	char text[32];

	snprintf(text, sizeof(text), "%.6g", v);
	if (isfinite(v))
		cJSON_AddRawToObject(obj, key, text);
	else
		cJSON_AddNullToObject(obj, key);
}

static void add_limit(cJSON *obj, const char *key, double v)
{
	add(obj, key, v > 0 ? v : NAN);
}

static void add_machine(cJSON *doc, const struct ps_bench *b)
{
	const struct ps_machine *m = &b->machine;
	cJSON *o = cJSON_AddObjectToObject(doc, "machine");
	cJSON *tcp;

	cJSON_AddStringToObject(o, "kernel", m->kernel);
	cJSON_AddStringToObject(o, "cpu", m->cpu);
	add(o, "cores", m->cores);
	tcp = cJSON_AddObjectToObject(o, "congestion_control");
	pl_json_add_text(tcp, "sysctl", m->congestion);
	pl_json_add_text(tcp, "overlay_sockets", m->overlay_congestion);
	pl_json_add_text(tcp, "carrier", m->carrier_congestion);
	pl_json_add_text(o, "default_qdisc", m->qdisc);
	pl_json_add_text(o, "carrier", m->carrier);
	ps_nic_add(o, "wire", &m->wire);
}

/* What was run, and how. */
static void add_job(cJSON *o, const struct ps_bench *b,
		    const struct ps_result *r)
{
	cJSON_AddStringToObject(o, "model", r->c.model->name);
	cJSON_AddStringToObject(o, "placement",
				ps_placement_name(r->c.placement));
	cJSON_AddStringToObject(o, "variable_update",
				ps_strategy_name(r->c.strategy));
	cJSON_AddStringToObject(o, "transport", ps_result_transport(r));
	cJSON_AddStringToObject(o, "compression",
				codec_name(r->c.compression));
	add(o, "sent_bytes_per_step", r->sent_bytes);
	add(o, "workers", b->o.workers);
	add(o, "servers", r->c.strategy == PS_SERVER ? b->o.servers : 0);
	add(o, "steps", b->o.steps);
	add(o, "repeat", r->repeat);
	cJSON_AddStringToObject(o, "gpu", ps_gpu_name(b->o.compute));
	add(o, "batch", ps_opts_batch(&b->o, r->c.model));
	cJSON_AddBoolToObject(o, "async", b->o.async);
	cJSON_AddBoolToObject(o, "overlap", b->o.overlap);
	add_limit(o, "link_bytes_per_s", (double)b->o.wire.bytes_per_s);
}

static void add_paths(cJSON *o, const struct ps_result *r)
{
	cJSON *paths;

	cJSON_AddStringToObject(o, "path", r->path);
	paths = cJSON_AddObjectToObject(o, "paths");
	pl_json_add_text(paths, "gradients", r->grad_path);
	pl_json_add_text(paths, "parameters", r->param_path);
	ps_nic_add(o, "nic", &r->nic);
}

/* Of one step. */
static void add_used(cJSON *o, const struct ps_result *r)
{
	cJSON *cpu = cJSON_AddObjectToObject(o, "cpu_s_per_step");
	cJSON *wire = cJSON_AddObjectToObject(o, "wire_bytes_per_step");

	add(cpu, "machine", r->used[PS_BUSY] / 1e9);
	add(cpu, "servers", r->used[PS_CPU_SERVERS] / 1e9);
	add(cpu, "workers", r->used[PS_CPU_WORKERS] / 1e9);
	add(cpu, "agents", r->used[PS_CPU_AGENTS] / 1e9);
	add(wire, "from_first_node", r->used[PS_WIRE_OUT]);
	add(wire, "to_first_node", r->used[PS_WIRE_BACK]);
}

static cJSON *result_json(const struct ps_bench *b, const struct ps_result *r)
{
	cJSON *o = cJSON_CreateObject(), *range, *ms, *raw, *stale;

	add_job(o, b, r);
	add(o, "images_per_s", r->images_per_s);
	range = cJSON_AddObjectToObject(o, "images_per_s_range");
	add(range, "min", r->images_min);
	add(range, "max", r->images_max);
	ms = cJSON_AddObjectToObject(o, "step_ms");
	add(ms, "p50", r->step_p50_ms);
	add(ms, "p99", r->step_p99_ms);
	stale = cJSON_AddObjectToObject(o, "staleness");
	add(stale, "mean", r->stale_mean);
	add(stale, "max", r->stale_max);
	add(o, "gradient_bytes_per_s", r->grad_bytes_per_s);
	add(o, "cpu_s_per_gb", r->cpu_s_per_gb);
	add(o, "speedup_vs_overlay", r->speedup_vs_overlay);
	add(o, "scaling_efficiency", r->scaling_efficiency);
	add(o, "roofline_share", r->roofline_share);
	add(o, "formula_share", r->formula_share);
	add_paths(o, r);
	add_used(o, r);
	cJSON_AddBoolToObject(o, "local_sum", r->local_sum);
	cJSON_AddBoolToObject(o, "verified", r->verified);
	add_limit(o, "memory_bytes_per_s", r->limits.memory_bytes_per_s);
	raw = cJSON_AddObjectToObject(o, "raw_bytes_per_s");
	add_limit(raw, "one_way", r->limits.raw_one_way);
	add_limit(raw, "both_ways", r->limits.raw_both_ways);
	add(o, "raw_share", r->raw_share);
	return o;
}

/* Cases that were not run. */
static void add_left(cJSON *doc, const struct ps_bench *b)
{
	cJSON *list = cJSON_AddArrayToObject(doc, "left_out"), *o;

	for (unsigned int i = 0; i < b->n_left; i++) {
		const struct ps_left *l = &b->left[i];

		o = cJSON_CreateObject();
		cJSON_AddStringToObject(o, "model", l->c.model->name);
		cJSON_AddStringToObject(o, "placement",
					ps_placement_name(l->c.placement));
		cJSON_AddStringToObject(o, "variable_update",
					ps_strategy_name(l->c.strategy));
		cJSON_AddStringToObject(o, "why", l->why);
		cJSON_AddItemToArray(list, o);
	}
}

cJSON *ps_result_json(const struct ps_bench *b, const struct ps_result *r,
		      unsigned int n)
{
	cJSON *doc = cJSON_CreateObject(), *list;

	cJSON_AddStringToObject(doc, "version", PL_VERSION);
	add_machine(doc, b);
	list = cJSON_AddArrayToObject(doc, "results");
	for (unsigned int i = 0; i < n; i++)
		cJSON_AddItemToArray(list, result_json(b, &r[i]));
	add_left(doc, b);
	return doc;
}
