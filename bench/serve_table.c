/* bench/serve_table.c - rows of pod_serve for people */
#include "bench/serve.h"

#include <string.h>

#include "common/util.h"

static double get(const cJSON *o, const char *key)
{
	return cJSON_GetNumberValue(cJSON_GetObjectItem(o, key));
}

static const char *text(const cJSON *o, const char *key)
{
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItem(o, key));

	return s ? s : "-";
}

static bool is(const cJSON *o, const char *key)
{
	return cJSON_IsTrue(cJSON_GetObjectItem(o, key));
}

static void line(FILE *out, const char *key, const char *value)
{
	fprintf(out, "%-31s : %s\n", key, value);
}

static void number(FILE *out, const char *key, double v, int digits)
{
	char t[32];

	snprintf(t, sizeof(t), "%.*f", digits, v);
	line(out, key, t);
}

static void result(const cJSON *row, FILE *out)
{
	const bool latency = !strcmp(text(row, "unit"), "ns");
	const cJSON *reason;
	char key[64];

	snprintf(key, sizeof(key), "%s%s%s", text(row, "metric"),
		 latency ? " (ns)" : "", "");
	if (latency)
		snprintf(key, sizeof(key), "%.1fth percentile latency (ns)",
			 get(row, "percentile"));
	number(out, key, get(row, "value"), latency ? 0 : 2);
	fprintf(out, "Result is : %s\n", is(row, "valid") ? "VALID" :
							    "INVALID");
	fprintf(out, "  Min duration satisfied : %s\n",
		is(row, "min_duration_satisfied") ? "Yes" : "NO");
	fprintf(out, "  Min queries satisfied : %s\n",
		is(row, "min_queries_satisfied") ? "Yes" : "NO");
	fprintf(out, "  Early stopping satisfied : %s\n",
		is(row, "early_stopping_satisfied") ? "Yes" : "NO");
	cJSON_ArrayForEach(reason, cJSON_GetObjectItem(row, "reasons"))
		fprintf(out, "  Because : %s\n", cJSON_GetStringValue(reason));
}

static void early_stopping(const cJSON *row, FILE *out)
{
	if (!strcmp(text(row, "scenario"), "offline"))
		return;
	fprintf(out, "Early Stopping Result:\n");
	if (get(row, "early_stopping_discard") < 0) {
		fprintf(out, " * Too few queries (%.0f).\n",
			get(row, "queries"));
		return;
	}
	fprintf(out, " * Processed %.0f queries, of which the %.0f slowest may "
		"be left out.\n * Early stopping %.1fth percentile estimate: "
		"%.0f\n", get(row, "queries"),
		get(row, "early_stopping_discard"), get(row, "percentile"),
		get(row, "early_stopping_ns"));
}

static void additional(const cJSON *row, FILE *out)
{
	static const struct {
		const char *name, *key;
	} lines[] = {
		{ "Min latency (ns)", "min" },
		{ "Max latency (ns)", "max" },
		{ "Mean latency (ns)", "mean" },
		{ "50.00 percentile latency (ns)", "p50" },
		{ "90.00 percentile latency (ns)", "p90" },
		{ "95.00 percentile latency (ns)", "p95" },
		{ "97.00 percentile latency (ns)", "p97" },
		{ "99.00 percentile latency (ns)", "p99" },
		{ "99.90 percentile latency (ns)", "p99.9" },
	};
	const cJSON *l = cJSON_GetObjectItem(row, "latency_ns");
	const cJSON *slip = cJSON_GetObjectItem(row, "slip_ns");

	fprintf(out, "\nAdditional Stats\n");
	number(out, "QPS w/ loadgen overhead", get(row, "qps_with_overhead"),
	       2);
	number(out, "QPS w/o loadgen overhead",
	       get(row, "qps_without_overhead"), 2);
	for (size_t i = 0; i < PL_ARRAY_SIZE(lines); i++)
		number(out, lines[i].name, get(l, lines[i].key), 0);
	number(out, "Own share of the time (%)", 100 * get(row, "own_share"),
	       2);
	if (!slip)
		return;
	number(out, "Schedule slip, median (ns)", get(slip, "p50"), 0);
	number(out, "Schedule slip, p99 (ns)", get(slip, "p99"), 0);
	number(out, "Queries over the latency bound", get(row, "over_bound"),
	       0);
}

static void parameters(const cJSON *row, FILE *out)
{
	const cJSON *p;

	fprintf(out, "\nTest Parameters Used\n");
	cJSON_ArrayForEach(p, cJSON_GetObjectItem(row, "parameters")) {
		if (cJSON_IsString(p))
			fprintf(out, "%s : %s\n", p->string, p->valuestring);
		else
			fprintf(out, "%s : %.10g\n", p->string,
				p->valuedouble);
	}
	if (get(row, "wrong") > 0)
		fprintf(out, "\n%.0f errors encountered during test.\n",
			get(row, "wrong"));
	else
		fprintf(out, "\nNo errors encountered during test.\n");
}

void sv_summary(const cJSON *row, FILE *out)
{
	fprintf(out, "pod_serve results summary (not a result of MLPerf)\n");
	line(out, "SUT name", text(row, "path"));
	line(out, "Scenario", text(row, "scenario"));
	line(out, "Mode", "PerformanceOnly, answers verified");
	result(row, out);
	early_stopping(row, out);
	additional(row, out);
	parameters(row, out);
}

/* --- table ---------------------------------------------------------------- */

static void table_row(const cJSON *row, FILE *out)
{
	const cJSON *l = cJSON_GetObjectItem(row, "latency_ns");
	const bool latency = !strcmp(text(row, "unit"), "ns");
	char value[48];

	snprintf(value, sizeof(value), latency ? "%.1f us" : "%.0f /s",
		 get(row, "value") / (latency ? 1e3 : 1));
	fprintf(out, "  %-13s %-8s %14s %10.1f %10.1f %10.1f %8.1f  %-11s %s\n",
		text(row, "scenario"), text(row, "transport"), value,
		get(l, "p50") / 1e3, get(l, "p99") / 1e3, get(l, "max") / 1e3,
		get(row, "cpu_us_per_sample"), text(row, "path"),
		is(row, "valid") ? "valid" : "INVALID");
}

void sv_table(const cJSON *rows, FILE *out)
{
	const char *place = "";
	const cJSON *row;

	cJSON_ArrayForEach(row, rows) {
		if (strcmp(place, text(row, "placement"))) {
			place = text(row, "placement");
			fprintf(out, "\n%s\n  %-13s %-8s %14s %10s %10s %10s "
				"%8s  %-11s %s\n", place, "scenario",
				"transport", "result", "p50 us", "p99 us",
				"max us", "CPU us", "path", "");
		}
		table_row(row, out);
	}
	fprintf(out, "\nresult      single and multi stream: what early "
		"stopping vouches for (99 %%), of the\n            percentile; "
		"server: the highest rate that held; offline: samples\n"
		"CPU us      busy time of the whole machine per sample\n"
		"None of this is a result of MLPerf.\n");
}
