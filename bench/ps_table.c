/*
 * bench/ps_table.c - the results for people
 *
 * One block for each model and placement, then what the numbers mean.
 */
#include "bench/ps_result.h"

#include <math.h>
#include <string.h>

#include "common/util.h"
#include "bench/ps_role.h"

/* A number that is not known is a dash. */
static const char *cell(char *buf, size_t size, const char *fmt, double v)
{
	snprintf(buf, size, "-");
	if (!isfinite(v))
		return buf;
	if (!strcmp(fmt, "%"))
		snprintf(buf, size, "%.0f %%", 100 * v);
	else if (!strcmp(fmt, "x"))
		snprintf(buf, size, "%.2f x", v);
	else if (!strcmp(fmt, "0"))
		snprintf(buf, size, "%.0f", v);
	else if (!strcmp(fmt, "1"))
		snprintf(buf, size, "%.1f", v);
	else
		snprintf(buf, size, "%.2f", v);
	return buf;
}

static void row(const struct ps_result *r, FILE *out)
{
	char t[10][24], path[128];
	double spread = r->repeat > 1 ? (r->images_max - r->images_min) /
				       r->images_per_s : NAN;
	int len = snprintf(path, sizeof(path), "%s%s", r->path,
			   r->local_sum ? " (local sum)" : "");

	if (r->c.compression)
		snprintf(path + len, sizeof(path) - (size_t)len,
			 ", %s: %.2f MB", codec_name(r->c.compression),
			 r->sent_bytes / 1e6);
	fprintf(out, "  %-9s %9s %6s %8s %8s %9s %8s %9s %10s %8s %8s  %s\n",
		ps_result_transport(r),
		cell(t[0], sizeof(t[0]), "1", r->images_per_s),
		cell(t[9], sizeof(t[9]), "%", spread),
		cell(t[1], sizeof(t[1]), "0", r->step_p50_ms),
		cell(t[2], sizeof(t[2]), "0", r->step_p99_ms),
		cell(t[3], sizeof(t[3]), "2", r->grad_bytes_per_s / 1e9),
		cell(t[4], sizeof(t[4]), "2", r->cpu_s_per_gb),
		cell(t[5], sizeof(t[5]), "x", r->speedup_vs_overlay),
		cell(t[6], sizeof(t[6]), "%", r->scaling_efficiency),
		cell(t[7], sizeof(t[7]), "%", r->roofline_share),
		cell(t[8], sizeof(t[8]), "%", r->formula_share), path);
}

/* What a step took, and which way its bytes went. */
static void used(const struct ps_result *r, FILE *out)
{
	fprintf(out, "  %-9s CPU ms/step: servers %.1f, workers %.1f, agents "
		"%.1f; wire MB/step: %.2f there, %.2f back; gradients %s, "
		"parameters %s\n", ps_result_transport(r),
		r->used[PS_CPU_SERVERS] / 1e6, r->used[PS_CPU_WORKERS] / 1e6,
		r->used[PS_CPU_AGENTS] / 1e6, r->used[PS_WIRE_OUT] / 1e6,
		r->used[PS_WIRE_BACK] / 1e6, r->grad_path[0] ? r->grad_path :
		"none", r->param_path[0] ? r->param_path : "none");
}

static void staleness(const struct ps_result *r, FILE *out)
{
	if (isfinite(r->stale_mean))
		fprintf(out, "  %-9s staleness: gradients missed %.2f updates "
			"of other workers (mean), %.0f at most\n",
			ps_result_transport(r), r->stale_mean, r->stale_max);
}

static void head(const struct ps_result *r, FILE *out)
{
	fprintf(out, "\n%s (%.0f MB), %s, %s\n", r->c.model->name,
		(double)r->c.model->elems * sizeof(float) / 1e6,
		ps_placement_name(r->c.placement),
		ps_strategy_name(r->c.strategy));
	fprintf(out, "  %-9s %9s %6s %8s %8s %9s %8s %9s %10s %8s %8s  %s\n",
		"transport", "images/s", "spread", "step ms", "p99 ms", "grad GB/s",
		"CPU s/GB", "speed-up", "efficiency", "roofline", "formula",
		"path");
}

/* The overlay beside the plain rate of the same path. */
static void raw_share(const struct ps_bench *b, const struct ps_result *r,
		      FILE *out)
{
	if (!isfinite(r->raw_share))
		return;
	fprintf(out, "  overlay moves %.2f GB/s of gradients and parameters, "
		"%.0f %% of plain TCP both ways (%.2f GB/s; one way %.2f)\n",
		r->bytes_per_s / 1e9, 100 * r->raw_share,
		r->limits.raw_both_ways / 1e9, r->limits.raw_one_way / 1e9);
	if (b->o.raw && r->raw_share < 0.8)
		fprintf(out, "  WARNING: below 80 %%, this baseline is "
			"defective\n");
}

static void tcp(const struct ps_machine *m, FILE *out)
{
	fprintf(out, "TCP         congestion control %s in all namespaces%s%s%s%s, "
		"default qdisc %s\n", m->congestion,
		m->overlay_congestion[0] ? ", of the overlay's sockets " : "",
		m->overlay_congestion,
		m->carrier_congestion[0] ? ", of the tcp carrier " : "",
		m->carrier_congestion, m->qdisc[0] ? m->qdisc : "unknown");
}

/* "tcp" says that it is plain text, as the overlay's is. */
static void carrier(const struct ps_machine *m, FILE *out)
{
	if (m->carrier[0])
		fprintf(out, "carrier     %s between the agents\n", m->carrier);
}

static void devices(const struct ps_bench *b, const struct ps_result *r,
		    unsigned int n, FILE *out)
{
	char text[160];

	ps_nic_text(&b->machine.wire, text, sizeof(text));
	fprintf(out, "wire        %s%s\n", text, b->o.wire.bytes_per_s ?
		", shaped by --link" : "");
	for (unsigned int i = 0; i < n; i++) {
		bool again = !r[i].nic.name[0];

		for (unsigned int k = 0; k < i; k++)
			again |= !memcmp(&r[k].nic, &r[i].nic,
					 sizeof(r[i].nic));
		if (again)
			continue;
		ps_nic_text(&r[i].nic, text, sizeof(text));
		fprintf(out, "workers' %s%s\n", r[i].c.transport == PS_HOST ?
			"node " : "pod ", text);
	}
}

static void memory(const struct ps_result *r, unsigned int n, FILE *out)
{
	double min = INFINITY, max = 0;

	for (unsigned int i = 0; i < n; i++) {
		min = PL_MIN(min, r[i].limits.memory_bytes_per_s);
		max = PL_MAX(max, r[i].limits.memory_bytes_per_s);
	}
	if (max > 0)
		fprintf(out, " (%.1f to %.1f GB/s)", min / 1e9, max / 1e9);
	fprintf(out, "\n");
}

static void roofline(const struct ps_opts *o, FILE *out)
{
	static const enum ps_strategy all[] = { PS_SERVER, PS_RING,
						PS_HIERARCHICAL,
						PS_INDEPENDENT };
	const char *sep = "";

	fprintf(out, "roofline    ");
	for (unsigned int i = 0; i < PL_ARRAY_SIZE(all); i++) {
		if (!(o->strategies & all[i]))
			continue;
		fprintf(out, "%s%.0f x (%s)", sep,
			ps_roofline_bytes(all[i], o->workers, 1),
			ps_strategy_name(all[i]));
		sep = ", ";
	}
	fprintf(out, " the model must cross memory per step (%u gradients\n"
		"            written and read, parameters read and written), as "
		"a share of what memory\n            moved on all cores before "
		"each turn", o->workers);
}

/* No GPU is used, and whose rate is taken. */
static void computing(const struct ps_opts *o, FILE *out)
{
	for (unsigned int i = 0; i < o->n_models; i++) {
		const struct ps_model *m = o->models[i];
		const struct ps_gpu_rate *g = &m->rates[o->compute];

		if (o->compute == PS_GPU_NONE || !g->batch)
			continue;
		fprintf(out, "computing   emulated: workers of %s sleep "
			"%.0f ms for %u images, as one %s does %g a second\n"
			"            (published with batch %u: %s)\n", m->name,
			ps_opts_batch(o, m) * 1e3 / g->images_per_s,
			ps_opts_batch(o, m), ps_gpu_name(o->compute),
			g->images_per_s, g->batch, g->source);
	}
	if (o->overlap)
		fprintf(out, "overlap     gradients travel while others are "
			"computed: from the last layer on, evenly over\n"
			"            the backward pass, two thirds of the "
			"computing\n");
}

static void notes(const struct ps_bench *b, const struct ps_result *r,
		  unsigned int n, FILE *out)
{
	const struct ps_opts *o = &b->o;
	bool verified = true;

	for (unsigned int i = 0; i < n; i++)
		verified &= r[i].verified;
	fprintf(out, "\n%u worker%s, %u server%s, %u steps after %u of "
		"warm-up, medians of %u run%s in turn; %s, %s\n", o->workers,
		o->workers > 1 ? "s" : "", o->servers,
		o->servers > 1 ? "s" : "", o->steps, o->warmup, o->repeat,
		o->repeat > 1 ? "s" : "",
		o->async ? "asynchronous" : "synchronous",
		!verified ? "nothing filled, summed or verified (--raw)" :
		o->compressions >> 1 ? "all parameters verified to the bit, "
		"those of compression against each other" :
		"all parameters verified to the bit");
	fprintf(out, "machine     %s, %u cores, %s\n", b->machine.cpu,
		b->machine.cores, b->machine.kernel);
	computing(o, out);
	tcp(&b->machine, out);
	carrier(&b->machine, out);
	devices(b, r, n, out);
	fprintf(out, "spread      from the slowest to the fastest run, as a share "
		"of the median\n");
	fprintf(out, "CPU s/GB    busy time of the whole machine (/proc/stat) "
		"per GB of gradients\n");
	fprintf(out, "speed-up    gradient GB/s over the overlay's, median of "
		"the pairs of runs\n");
	fprintf(out, "efficiency  images/s over %u times those of one worker "
		"that exchanges nothing\n", o->workers);
	roofline(o, out);
	memory(r, n, out);
	fprintf(out, "formula     images/s over those of the strategy's formula, "
		"with %s of a node's wire\n", o->wire.bytes_per_s ?
		"the rate of --link" : "the plain rate one way");
}

static bool is_same_block(const struct ps_result *a, const struct ps_result *b)
{
	return a->c.model == b->c.model && a->c.placement == b->c.placement &&
	       a->c.strategy == b->c.strategy;
}

/* Beside the same exchange without compression, if that was run. */
static void codec_gain(const struct ps_result *all, unsigned int n,
		       const struct ps_result *r, FILE *out)
{
	for (unsigned int i = 0; i < n && r->c.compression; i++) {
		const struct ps_result *o = &all[i];
		double gain = r->images_per_s / o->images_per_s;

		if (is_same_block(o, r) && !o->c.compression &&
		    o->c.transport == r->c.transport)
			fprintf(out, "  %s over %s: %.2f x the images/s of no "
				"compression%s\n",
				codec_name(r->c.compression),
				ps_transport_name(r->c.transport), gain,
				gain < 1 ? ", it loses" : "");
	}
}

static void left_out(const struct ps_bench *b, FILE *out)
{
	for (unsigned int i = 0; i < b->n_left; i++)
		fprintf(out, "%sleft out: %s, %s, %s: %s\n", i ? "" : "\n",
			b->left[i].c.model->name,
			ps_placement_name(b->left[i].c.placement),
			ps_strategy_name(b->left[i].c.strategy),
			b->left[i].why);
}

void ps_result_table(const struct ps_bench *b, const struct ps_result *r,
		     unsigned int n, FILE *out)
{
	for (unsigned int i = 0; i < n; i++) {
		if (i == 0 || !is_same_block(&r[i], &r[i - 1]))
			head(&r[i], out);
		row(&r[i], out);
		if (i + 1 < n && is_same_block(&r[i], &r[i + 1]))
			continue;
		for (unsigned int k = 0; k <= i; k++)
			if (is_same_block(&r[k], &r[i])) {
				used(&r[k], out);
				staleness(&r[k], out);
				raw_share(b, &r[k], out);
				codec_gain(r, n, &r[k], out);
			}
	}
	left_out(b, out);
	notes(b, r, n, out);
}
