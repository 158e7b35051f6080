/* bench/cni_figures.c - what cni_latency found, as tables and as JSON */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "bench/cni_latency.h"
#include "bench/ps_stats.h"
#include "common/json.h"
#include "common/util.h"

static const struct {
	const char *title, *key;
} whats[CNI_WHATS] = {
	[CNI_ADD] = { "ADD", "add_ms" },
	[CNI_DEL] = { "DEL", "del_ms" },
	[CNI_TOTAL] = { "ADD + DEL", "add_del_ms" },
	[CNI_SETTLED] = { "DEL, settled", "del_settled_ms" },
	[CNI_PEAK] = { "memory", "peak_mb" },
};

/* The figures that have a goal: so many times the reference, or at most. */
static const struct {
	const char *key;
	enum cni_scenario scenario;
	enum cni_what what;
	double times, at_most;
} goals[] = {
	{ "add_del_empty", CNI_EMPTY, CNI_TOTAL, 5, 0 },
	{ "add_del_reserved", CNI_RESERVED, CNI_TOTAL, 50, 0 },
	{ "parallel_add", CNI_PARALLEL, CNI_ADD, 5, 0 },
	{ "peak_memory", CNI_EMPTY, CNI_PEAK, 0, 4 },
	{ "peak_memory_reserved", CNI_RESERVED, CNI_PEAK, 0, 4 },
};

static void name_goal(const struct cni_bench *b, size_t i, char *buf,
		      size_t size)
{
	char more[48] = "";

	if (goals[i].scenario == CNI_PARALLEL) {
		snprintf(buf, size, "%u ADDs at once, ms", b->o.parallel);
		return;
	}
	if (goals[i].scenario == CNI_RESERVED)
		snprintf(more, sizeof(more), ", %u reserved", b->o.reserved);
	snprintf(buf, size, "%s%s, %s", goals[i].what == CNI_PEAK ?
		 "peak memory" : "ADD + DEL", more,
		 goals[i].what == CNI_PEAK ? "MB" : "ms");
}

static const struct cni_series *series(const struct cni_bench *b, int s,
				       int who, int what)
{
	return &b->series[s][who][what];
}

static double quantile(const struct cni_series *e, double q)
{
	return ps_quantile(e->v, e->n, q);
}

/* The median of the rounds' own ratios. */
static double times_of(const struct cni_bench *b, int s, int what)
{
	const struct cni_series *ours = series(b, s, CNI_PODLANE, what);
	const struct cni_series *theirs = series(b, s, CNI_REFERENCE, what);
	double r[CNI_ROUNDS_MAX];

	for (unsigned int i = 0; i < ours->n; i++)
		r[i] = theirs->v[i] / ours->v[i];
	return ps_median(r, ours->n);
}

static void print_details(const struct cni_bench *b, int s, const char *title)
{
	printf("\n%-21s", title);
	for (int k = 0; k < CNI_PEAK; k++)
		printf("  %16s", whats[k].title);
	printf("\n%-21s", "");
	for (int k = 0; k < CNI_PEAK; k++)
		printf("  %8s %7s", "median", "p99");
	printf("\n");
	for (int i = CNI_CONTESTANTS - 1; i >= 0; i--) {
		printf("  %-19s", cni_names[i]);
		for (int k = 0; k < CNI_PEAK; k++)
			printf("  %8.2f %7.2f",
			       quantile(series(b, s, i, k), 0.5),
			       quantile(series(b, s, i, k), 0.99));
		printf("\n");
	}
}

static void print_goals(const struct cni_bench *b)
{
	printf("%-32s %10s %10s %8s  %s\n", "medians of rounds in turn",
	       "reference", "podlane", "times", "goal");
	for (size_t i = 0; i < PL_ARRAY_SIZE(goals); i++) {
		int s = goals[i].scenario, w = goals[i].what;
		char name[80];

		if (!cni_rounds(&b->o, s))
			continue;
		name_goal(b, i, name, sizeof(name));
		printf("%-32s %10.2f %10.2f %8.2f  ", name,
		       quantile(series(b, s, CNI_REFERENCE, w), 0.5),
		       quantile(series(b, s, CNI_PODLANE, w), 0.5),
		       times_of(b, s, w));
		if (goals[i].times > 0)
			printf("%.0f times\n", goals[i].times);
		else
			printf("%.0f MB\n", goals[i].at_most);
	}
}

static void print_tables(const struct cni_bench *b)
{
	const int folder = (int)(strrchr(b->node.dir, '/') - b->node.dir);
	char title[64];

	print_goals(b);
	print_details(b, CNI_EMPTY, "ms, empty range");
	snprintf(title, sizeof(title), "ms, %u reserved", b->o.reserved);
	if (cni_rounds(&b->o, CNI_RESERVED))
		print_details(b, CNI_RESERVED, title);
	snprintf(title, sizeof(title), "ms, %u at once", b->o.parallel);
	if (cni_rounds(&b->o, CNI_PARALLEL))
		print_details(b, CNI_PARALLEL, title);
	printf("\n%u rounds%s; reference: %s; files in %.*s\n", b->o.rounds,
	       b->node.agent ? "" : ", without an agent",
	       cni_names[CNI_REFERENCE], folder, b->node.dir);
	printf("settled: and until no process of the plugin is left, which "
	       "nobody waits for\n");
}

static void add_goals(cJSON *list, const struct cni_bench *b)
{
	for (size_t i = 0; i < PL_ARRAY_SIZE(goals); i++) {
		int s = goals[i].scenario, w = goals[i].what;
		cJSON *j;

		if (!cni_rounds(&b->o, s))
			continue;
		j = cJSON_CreateObject();
		cJSON_AddItemToArray(list, j);
		cJSON_AddStringToObject(j, "figure", goals[i].key);
		cJSON_AddNumberToObject(j, "reference", quantile(
				series(b, s, CNI_REFERENCE, w), 0.5));
		cJSON_AddNumberToObject(j, "podlane", quantile(
				series(b, s, CNI_PODLANE, w), 0.5));
		cJSON_AddNumberToObject(j, "times", times_of(b, s, w));
		if (goals[i].times > 0)
			cJSON_AddNumberToObject(j, "goal_times",
						goals[i].times);
		else
			cJSON_AddNumberToObject(j, "goal_at_most",
						goals[i].at_most);
	}
}

static cJSON *details(const struct cni_bench *b, int s, int who)
{
	static const char *const keys[CNI_SCENARIOS] = {
		"empty", "reserved", "parallel",
	};
	cJSON *j = cJSON_CreateObject();

	cJSON_AddStringToObject(j, "scenario", keys[s]);
	cJSON_AddStringToObject(j, "plugin", cni_names[who]);
	for (int k = 0; k < CNI_WHATS; k++) {
		const struct cni_series *e = series(b, s, who, k);
		cJSON *t;

		if (!e->n)
			continue;
		t = cJSON_AddObjectToObject(j, whats[k].key);
		cJSON_AddNumberToObject(t, "p50", quantile(e, 0.5));
		cJSON_AddNumberToObject(t, "p99", quantile(e, 0.99));
	}
	return j;
}

static int write_json(const struct cni_bench *b, struct pl_err *err)
{
	pl_auto_json *j = cJSON_CreateObject();
	struct utsname u;
	cJSON *m;

	uname(&u);
	cJSON_AddStringToObject(j, "version", PL_VERSION);
	m = cJSON_AddObjectToObject(j, "machine");
	cJSON_AddStringToObject(m, "kernel", u.release);
	cJSON_AddStringToObject(m, "arch", u.machine);
	cJSON_AddNumberToObject(m, "cpus",
				(double)sysconf(_SC_NPROCESSORS_ONLN));
	cJSON_AddNumberToObject(j, "rounds", b->o.rounds);
	cJSON_AddNumberToObject(j, "reservations", b->o.reserved);
	cJSON_AddNumberToObject(j, "parallel", b->o.parallel);
	cJSON_AddBoolToObject(j, "agent", b->node.agent != 0);
	add_goals(cJSON_AddArrayToObject(j, "figures"), b);
	m = cJSON_AddArrayToObject(j, "details");
	for (int s = 0; s < CNI_SCENARIOS; s++)
		for (int i = 0; cni_rounds(&b->o, s) && i < CNI_CONTESTANTS;
		     i++)
			cJSON_AddItemToArray(m, details(b, s, i));
	return pl_json_save(b->o.json, j, 0644, err);
}

int cni_figures(const struct cni_bench *b, struct pl_err *err)
{
	print_tables(b);
	return b->o.json ? write_json(b, err) : 0;
}
