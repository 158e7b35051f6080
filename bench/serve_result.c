/*
 * bench/serve_result.c - what a run says: verdict, row, summary, table
 *
 * The lines of the summary have the names that LoadGen gives them; none of it
 * is a result of MLPerf, and it says so.
 */
#include "bench/serve.h"

#include <stdarg.h>
#include <string.h>

#include "common/util.h"

#define OWN_SHARE 0.1		/* of the time, that is the client's own */
#define SLIP_SHARE 0.1		/* of the bound, by which it may be late */

static const struct {
	const char *key;
	double q;
} quantiles[] = {
	{ "p50", 0.5 }, { "p90", 0.9 }, { "p95", 0.95 }, { "p97", 0.97 },
	{ "p99", 0.99 }, { "p99.9", 0.999 },
};

/* --- verdict -------------------------------------------------------------- */

__attribute__((format(printf, 2, 3)))
static void because(struct sv_verdict *v, const char *fmt, ...)
{
	va_list ap;

	if (v->n_reasons == SV_REASONS_MAX)
		return;
	va_start(ap, fmt);
	vsnprintf(v->reason[v->n_reasons++], SV_REASON_BYTES, fmt, ap);
	va_end(ap);
}

static double seconds(const struct sv_run *r)
{
	return (double)r->duration_ns / 1e9;
}

static double mean_ns(const struct sv_run *r)
{
	double sum = 0;

	for (uint32_t i = 0; i < r->n; i++)
		sum += (double)r->latency_ns[i];
	return r->n ? sum / r->n : 0;
}

/* The latency that early stopping vouches for; 0: there are too few. */
static uint64_t estimate_ns(const struct sv_opts *o, enum sv_scenario s,
			    const struct sv_run *r)
{
	long over = sv_over_max(sv_percentile(o, s), r->n);

	return over < 0 || over >= (long)r->n ? 0 :
	       r->latency_ns[r->n - 1 - (uint32_t)over];
}

static void judge_stream(const struct sv_opts *o, enum sv_scenario s,
			 const struct sv_run *r, struct sv_verdict *v)
{
	double own = (double)r->own_ns / PL_MAX((double)r->duration_ns, 1.0);

	v->metric = (double)estimate_ns(o, s, r);
	v->unit = "ns";
	v->early = v->metric > 0;
	if (own > OWN_SHARE)
		because(v, "the client itself took %.0f %% of the time, more "
			"than %.0f %%", own * 100, OWN_SHARE * 100);
}

static void judge_server(const struct sv_opts *o, const struct sv_run *r,
			 struct sv_verdict *v)
{
	const double slip = (double)sv_sorted(r->slip_ns, r->n, 0.99) / 1e3;
	long most = sv_over_max(sv_percentile(o, SV_SERVER), r->n);

	while (v->over < r->n && r->latency_ns[r->n - 1 - v->over] >
	       o->bound_us * 1000ull)
		v->over++;
	v->metric = r->n / seconds(r);
	v->unit = "queries/s";
	v->early = most >= 0 && v->over <= (uint64_t)most;
	if (r->gave_up)
		because(v, "the service fell so far behind that the run was "
			"given up");
	else if (!v->early && most >= 0)
		because(v, "%llu of %u queries took longer than the bound of "
			"%u us; at most %ld may", (unsigned long long)v->over,
			r->n, o->bound_us, most);
	if (slip > SLIP_SHARE * o->bound_us)
		because(v, "the client itself was late: by %.0f us (p99), more "
			"than %.0f %% of the bound", slip, SLIP_SHARE * 100);
}

static void judge_path(enum sv_transport t, const char *path,
		       struct sv_verdict *v)
{
	static const char *const want[SV_TRANSPORTS] = {
		[SV_OVERLAY] = "overlay-tcp", [SV_HOST] = "host-tcp",
	};

	if (want[t] && strcmp(path, want[t]))
		because(v, "the path was %s, not %s", path, want[t]);
}

void sv_judge(const struct sv_opts *o, enum sv_transport t, const char *path,
	      const struct sv_run *r, struct sv_verdict *v)
{
	static const char *const names[SV_SCENARIOS] = {
		"percentile latency", "percentile latency",
		"Completed samples per second", "Samples per second",
	};
	enum sv_scenario s = sv_only(o->scenarios);
	uint32_t least = sv_queries_min(sv_percentile(o, s));

	memset(v, 0, sizeof(*v));
	v->name = names[s];
	least = s == SV_OFFLINE ? 1 : PL_MAX(least, o->queries);
	v->min_queries = r->n >= least;
	v->min_duration = r->duration_ns >= o->duration_ms * 1000000ull;
	v->early = true;
	if (s == SV_SERVER)
		judge_server(o, r, v);
	else if (s != SV_OFFLINE)
		judge_stream(o, s, r, v);
	if (s == SV_OFFLINE) {
		v->metric = (double)r->samples / seconds(r);
		v->unit = "samples/s";
	}
	if (!v->min_queries)
		because(v, "%u queries, which are less than %u", r->n, least);
	if (!v->min_duration)
		because(v, "%.0f ms, which is less than %u", seconds(r) * 1e3,
			o->duration_ms);
	if (r->wrong)
		because(v, "%llu answers are not what the service makes of the "
			"sample", (unsigned long long)r->wrong);
	judge_path(t, path, v);
}

/* --- row ------------------------------------------------------------------ */

static void num(cJSON *o, const char *key, double v)
{
	cJSON_AddNumberToObject(o, key, v);
}

static void add_latency(cJSON *row, const struct sv_run *r)
{
	cJSON *l = cJSON_AddObjectToObject(row, "latency_ns");

	num(l, "min", (double)sv_sorted(r->latency_ns, r->n, 0));
	num(l, "mean", mean_ns(r));
	num(l, "max", (double)sv_sorted(r->latency_ns, r->n, 1));
	for (size_t i = 0; i < PL_ARRAY_SIZE(quantiles); i++)
		num(l, quantiles[i].key, (double)sv_sorted(
			r->latency_ns, r->n, quantiles[i].q));
}

static void add_overhead(cJSON *row, enum sv_scenario s,
			 const struct sv_run *r)
{
	cJSON *o;

	num(row, "own_share", r->duration_ns ?
	    (double)r->own_ns / (double)r->duration_ns : 0);
	num(row, "sending_share", r->duration_ns ?
	    (double)r->send_ns / (double)r->duration_ns : 0);
	if (s != SV_SERVER)
		return;
	o = cJSON_AddObjectToObject(row, "slip_ns");
	num(o, "p50", (double)sv_sorted(r->slip_ns, r->n, 0.5));
	num(o, "p99", (double)sv_sorted(r->slip_ns, r->n, 0.99));
	num(o, "max", (double)sv_sorted(r->slip_ns, r->n, 1));
}

static void add_seed(cJSON *p, const char *key, const struct sv_opts *o,
		     enum sv_stream s)
{
	char text[24];

	/* As text: a double does not hold all of it. */
	snprintf(text, sizeof(text), "%llu",
		 (unsigned long long)sv_seed(o->seed, s));
	cJSON_AddStringToObject(p, key, text);
}

static void add_parameters(cJSON *row, const struct sv_opts *o,
			   enum sv_scenario s)
{
	cJSON *p = cJSON_AddObjectToObject(row, "parameters");

	num(p, "samples_per_query", s == SV_MULTI_STREAM ? SV_MULTI_SAMPLES :
	    s == SV_OFFLINE ? o->offline_samples : 1);
	num(p, "target_qps", s == SV_SERVER ? o->rate : 0);
	num(p, "target_latency_ns", s == SV_SERVER ? o->bound_us * 1e3 : 0);
	num(p, "min_duration_ms", o->duration_ms);
	num(p, "min_query_count", s == SV_OFFLINE ? 1 :
	    PL_MAX(sv_queries_min(sv_percentile(o, s)), o->queries));
	num(p, "performance_sample_count", o->samples);
	num(p, "sample_bytes", o->sample_bytes);
	cJSON_AddStringToObject(p, "service", sv_service_name(o->service));
	num(p, "service_us", o->service == SV_FIXED ? o->service_us : 0);
	add_seed(p, "qsl_rng_seed", o, SV_DATA);
	add_seed(p, "sample_index_rng_seed", o, SV_SAMPLES);
	add_seed(p, "schedule_rng_seed", o, SV_SCHEDULE);
}

cJSON *sv_row(const struct sv_opts *o, const char *path,
	      const struct sv_run *r, const struct sv_verdict *v)
{
	enum sv_scenario s = sv_only(o->scenarios);
	cJSON *row = cJSON_CreateObject(), *list;
	double mean = mean_ns(r);

	cJSON_AddStringToObject(row, "scenario", sv_scenario_name(s));
	cJSON_AddStringToObject(row, "path", path);
	num(row, "percentile", sv_percentile(o, s) / 10.0);
	cJSON_AddStringToObject(row, "metric", v->name);
	num(row, "value", v->metric);
	cJSON_AddStringToObject(row, "unit", v->unit);
	cJSON_AddBoolToObject(row, "valid", v->n_reasons == 0);
	list = cJSON_AddArrayToObject(row, "reasons");
	for (unsigned int i = 0; i < v->n_reasons; i++)
		cJSON_AddItemToArray(list,
				     cJSON_CreateString(v->reason[i]));
	cJSON_AddBoolToObject(row, "min_duration_satisfied", v->min_duration);
	cJSON_AddBoolToObject(row, "min_queries_satisfied", v->min_queries);
	cJSON_AddBoolToObject(row, "early_stopping_satisfied", v->early);
	num(row, "early_stopping_ns", (double)estimate_ns(o, s, r));
	num(row, "early_stopping_discard",
	    (double)sv_over_max(sv_percentile(o, s), r->n));
	num(row, "queries", r->n);
	num(row, "samples", (double)r->samples);
	num(row, "wrong", (double)r->wrong);
	num(row, "over_bound", (double)v->over);
	num(row, "duration_ms", seconds(r) * 1e3);
	num(row, "qps_with_overhead", r->n / seconds(r));
	num(row, "qps_without_overhead", mean > 0 ? 1e9 / mean : 0);
	num(row, "samples_per_s", (double)r->samples / seconds(r));
	add_latency(row, r);
	add_overhead(row, s, r);
	num(row, "sent_bytes", (double)r->sent_bytes);
	num(row, "received_bytes", (double)r->received_bytes);
	add_parameters(row, o, s);
	return row;
}
