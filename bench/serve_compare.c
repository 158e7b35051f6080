/*
 * bench/serve_compare.c - pod_serve on a cluster of network namespaces
 *
 * Everything that can be checked is checked first, so that nothing fails at the
 * end of a long run. Signals are blocked from then on and looked at between and
 * within the runs, so that everything that was made is undone.
 */
#include "bench/serve.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "common/json.h"
#include "common/process.h"
#include "common/util.h"
#include "bench/ps_cluster.h"
#include "bench/ps_machine.h"
#include "bench/ps_output.h"
#include "bench/ps_stats.h"

#define EXIT_USAGE 2
#define EXIT_SIGNALLED 130
#define RUN_MS 150000		/* and 11 times --duration */
#define ARGS_MAX 24
#define ARG_BYTES 128
#define PROBES_MAX 12u
#define NEAR 1.05		/* the search ends within 5 % */

struct bench {
	struct sv_opts o;
	struct ps_watch watch;
	struct ps_machine machine;
	struct ps_cluster cluster;
	struct ps_pod *client, *server[LP_PLACES];
	cJSON *doc, *rows;
};

/* Where, over what, and which scenario. */
struct cell {
	enum lp_place place;
	enum sv_transport transport;
	enum sv_scenario scenario;
	double rate;
};

struct args {
	unsigned int n;
	char text[ARGS_MAX][ARG_BYTES];
	char *argv[ARGS_MAX + 3];
};

/* --- one run -------------------------------------------------------------- */

__attribute__((format(printf, 2, 3)))
static void arg(struct args *a, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(a->text[a->n], ARG_BYTES, fmt, ap);
	va_end(ap);
	a->argv[a->n] = a->text[a->n];
	a->argv[++a->n] = NULL;
}

static const char *addr_of(const struct bench *b, const struct cell *c)
{
	return c->transport == SV_HOST ? ps_cluster_node_addr(2) :
					 b->server[c->place]->addr;
}

static void args_of(const struct bench *b, const struct cell *c, bool server,
		    struct args *a)
{
	const struct sv_opts *o = &b->o;

	memset(a, 0, sizeof(*a));
	arg(a, "pod_serve");
	arg(a, "%s", server ? "server" : "client");
	arg(a, "--transport=%s", sv_transport_name(c->transport));
	arg(a, "--service=%s", sv_service_name(o->service));
	arg(a, "--service-us=%u", o->service_us);
	arg(a, "--sample-bytes=%u", o->sample_bytes);
	arg(a, "--%s=%s", server ? "bind" : "server", addr_of(b, c));
	if (server)
		return;
	arg(a, "--scenario=%s", sv_scenario_name(c->scenario));
	arg(a, "--samples=%u", o->samples);
	arg(a, "--latency-bound=%u", o->bound_us);
	arg(a, "--duration=%u", o->duration_ms);
	arg(a, "--offline-samples=%u", o->offline_samples);
	arg(a, "--seed=%llu", (unsigned long long)o->seed);
	if (o->queries)
		arg(a, "--min-queries=%u", o->queries);
	if (o->percentile)
		arg(a, "--percentile=%g", o->percentile / 10.0);
	if (c->scenario == SV_SERVER)
		arg(a, "--rate=%.3f", c->rate);
}

static int start(struct bench *b, const struct cell *c, struct ps_child *child,
		 struct pl_err *err)
{
	const bool host = c->transport == SV_HOST;
	struct args a;
	int rc;

	args_of(b, c, true, &a);
	rc = ps_child_start(&child[1], "server", host ?
			    b->cluster.node[1].netns :
			    b->server[c->place]->ns.netns, a.argv, err);
	if (rc < 0)
		return rc;
	args_of(b, c, false, &a);
	return ps_child_start(&child[0], "client", host ?
			      b->cluster.node[0].netns : b->client->ns.netns,
			      a.argv, err);
}

static int report_of(const struct ps_child *c, cJSON **out, struct pl_err *err)
{
	if (c->report.text && pl_json_parse(c->report.text, c->report.len, out,
					    NULL) == 0 && cJSON_IsObject(*out))
		return 0;
	return pl_err_set(err, EPROTO, "the %s did not report", c->name);
}

static double field(const cJSON *o, const char *key)
{
	return cJSON_GetNumberValue(cJSON_GetObjectItem(o, key));
}

static int join(const struct cell *c, const struct ps_child *child,
		uint64_t busy_ns, cJSON **row, struct pl_err *err)
{
	pl_auto_json *server = NULL;
	int rc = report_of(&child[0], row, err);

	if (rc == 0)
		rc = report_of(&child[1], &server, err);
	if (rc < 0)
		return rc;
	if (field(server, "samples") < field(*row, "samples"))
		return pl_err_set(err, EBADMSG, "more answers than the server "
				  "gave");
	cJSON_AddStringToObject(*row, "placement", lp_place_name(c->place));
	cJSON_AddStringToObject(*row, "transport",
				sv_transport_name(c->transport));
	cJSON_AddStringToObject(*row, "server_path", cJSON_GetStringValue(
				cJSON_GetObjectItem(server, "path")));
	cJSON_AddNumberToObject(*row, "server_cpu_s", field(server, "cpu_s"));
	cJSON_AddNumberToObject(*row, "cpu_us_per_sample", (double)busy_ns /
				1e3 / PL_MAX(field(*row, "samples"), 1.0));
	return 0;
}

/* *row is the caller's. */
static int run_once(struct bench *b, const struct cell *c, cJSON **row,
		    struct pl_err *err)
{
	struct ps_child child[2] = { { .pid = 0 } };
	uint64_t busy;
	int rc;

	*row = NULL;
	if (ps_watch_interrupted(&b->watch))
		return pl_err_set(err, EINTR, "interrupted");
	busy = ps_machine_busy_ns();
	rc = start(b, c, child, err);
	if (rc == 0)
		rc = ps_cluster_wait(&b->cluster, child, 2, &b->watch,
				     (int)(RUN_MS + 11 * b->o.duration_ms),
				     err);
	if (rc == 0)
		rc = join(c, child, ps_machine_busy_ns() - busy, row, err);
	ps_children_end(child, 2);
	if (rc == 0)
		return 0;
	cJSON_Delete(*row);
	*row = NULL;
	pl_err_prefix(err, "%s, %s, %s", sv_scenario_name(c->scenario),
		      lp_place_name(c->place),
		      sv_transport_name(c->transport));
	return rc;
}

/* --- the highest rate that holds ------------------------------------------ */

static void progress(const struct cell *c, const cJSON *row)
{
	fprintf(stderr, "%s %s server: %.0f queries/s %s\n",
		lp_place_name(c->place), sv_transport_name(c->transport),
		c->rate, cJSON_IsTrue(cJSON_GetObjectItem(row, "valid")) ?
		"hold" : "do not hold");
}

/*
 * Half of what offline reached, half of that until one holds, then between what
 * held and what did not. *best stays NULL when no rate held; *last is then the
 * lowest one that was tried.
 */
static int search(struct bench *b, struct cell *c, double high, cJSON **best,
		  cJSON **last, struct pl_err *err)
{
	double low = 0;
	int rc = 0;

	for (unsigned int i = 0; rc == 0 && i < PROBES_MAX &&
	     !(low > 0 && high / low < NEAR); i++) {
		c->rate = PL_MAX(low > 0 ? (low + high) / 2 : high / 2, 1.0);
		cJSON_Delete(*last);
		rc = run_once(b, c, last, err);
		if (rc < 0)
			break;
		progress(c, *last);
		if (!cJSON_IsTrue(cJSON_GetObjectItem(*last, "valid"))) {
			high = c->rate;
			if (c->rate <= 1)
				break;
			continue;
		}
		low = c->rate;
		cJSON_Delete(*best);
		*best = *last;
		*last = NULL;
	}
	return rc;
}

static int run_server(struct bench *b, const struct cell *cell, cJSON **row,
		      struct pl_err *err)
{
	struct cell c = *cell;
	cJSON *best = NULL, *last = NULL;
	int rc;

	c.rate = b->o.rate;
	if (c.rate > 0)
		return run_once(b, &c, row, err);
	c.scenario = SV_OFFLINE;
	rc = run_once(b, &c, &last, err);
	c.scenario = SV_SERVER;
	if (rc == 0)
		rc = search(b, &c, field(last, "samples_per_s"), &best, &last,
			    err);
	*row = best ? best : last;
	if (best)
		cJSON_Delete(last);
	if (rc < 0) {
		cJSON_Delete(*row);
		*row = NULL;
	}
	return rc;
}

/* --- all ------------------------------------------------------------------ */

static bool has(const struct bench *b, const struct cell *c)
{
	/* Within a node that is loopback. */
	if (c->transport == SV_HOST && c->place == LP_SAME_NODE)
		return false;
	return b->o.places >> c->place & 1 &&
	       b->o.transports >> c->transport & 1 &&
	       b->o.scenarios >> c->scenario & 1;
}

static int run_cell(struct bench *b, const struct cell *c, unsigned int round,
		    struct pl_err *err)
{
	cJSON *row;
	int rc = c->scenario == SV_SERVER ? run_server(b, c, &row, err) :
					    run_once(b, c, &row, err);

	if (rc < 0)
		return rc;
	cJSON_AddNumberToObject(row, "repeat", round + 1);
	cJSON_AddItemToArray(b->rows, row);
	sv_summary(row, stdout);
	printf("\n");
	fflush(stdout);
	return 0;
}

static int run_all(struct bench *b, struct pl_err *err)
{
	const unsigned int n = SV_SCENARIOS * SV_TRANSPORTS;
	int rc = 0;

	for (unsigned int p = 0; p < LP_PLACES; p++)
		for (unsigned int r = 0; r < b->o.repeat; r++)
			for (unsigned int i = 0; rc == 0 && i < n; i++) {
				struct cell c = {
					.place = p,
					.scenario = i / SV_TRANSPORTS,
					.transport = i % SV_TRANSPORTS,
				};

				if (has(b, &c))
					rc = run_cell(b, &c, r, err);
			}
	return rc;
}

/* --- the repeats of a cell ------------------------------------------------ */

static bool same(const cJSON *a, const cJSON *b, const char *key)
{
	const char *x = cJSON_GetStringValue(cJSON_GetObjectItem(a, key));
	const char *y = cJSON_GetStringValue(cJSON_GetObjectItem(b, key));

	return x && y && !strcmp(x, y);
}

/* To each row, what all of its kind say. */
static void add_spread(cJSON *rows, cJSON *row)
{
	double v[100];
	const cJSON *other;
	size_t n = 0;
	cJSON *s;

	cJSON_ArrayForEach(other, rows)
		if (n < PL_ARRAY_SIZE(v) && same(row, other, "placement") &&
		    same(row, other, "transport") &&
		    same(row, other, "scenario"))
			v[n++] = field(other, "value");
	s = cJSON_AddObjectToObject(row, "of_repeats");
	cJSON_AddNumberToObject(s, "n", (double)n);
	cJSON_AddNumberToObject(s, "median", ps_median(v, n));
	cJSON_AddNumberToObject(s, "min", ps_quantile(v, n, 0));
	cJSON_AddNumberToObject(s, "max", ps_quantile(v, n, 1));
}

static void add_head(struct bench *b)
{
	ps_machine_head(&b->machine, "pod_serve", b->doc);
	cJSON_AddStringToObject(b->doc, "note", "not a result of MLPerf");
}

/* --- before and after ----------------------------------------------------- */

static int check_all(struct bench *b, struct pl_err *err)
{
	int rc = 0;

	if (geteuid() != 0)
		rc = pl_err_set(err, EPERM, "pod_serve compare makes network "
				"namespaces and needs root; try: sudo "
				"pod_serve compare");
	if (rc == 0)
		rc = ps_output_check(b->o.json, NULL, NULL, err);
	return rc < 0 ? rc : ps_programs_find(&b->cluster.programs,
					      b->o.cni_bin, b->o.podlaned,
					      err);
}

static int add_pods(struct bench *b, struct pl_err *err)
{
	struct ps_cluster *c = &b->cluster;
	int rc = ps_cluster_pod_add(c, 1, "client", &b->client, err);

	if (rc == 0)
		rc = ps_cluster_pod_add(c, 1, "server",
					&b->server[LP_SAME_NODE], err);
	if (rc == 0)
		rc = ps_cluster_pod_add(c, 2, "far",
					&b->server[LP_CROSS_NODE], err);
	if (rc == 0)
		rc = ps_cluster_facts(c, &b->machine, err);
	return rc;
}

static int run(struct bench *b, struct pl_err *err)
{
	int rc = ps_cluster_init(&b->cluster, b->o.run_dir, &b->watch, err);
	cJSON *row;

	if (rc == 0)
		rc = add_pods(b, err);
	if (rc == 0)
		rc = run_all(b, err);
	if (rc < 0)
		return rc;
	add_head(b);
	cJSON_ArrayForEach(row, b->rows)
		add_spread(b->rows, row);
	sv_table(b->rows, stdout);
	return b->o.json ? pl_json_save(b->o.json, b->doc, 0644, err) : 0;
}

static int bench_main(struct bench *b, struct pl_err *err)
{
	int rc = check_all(b, err), r;

	if (rc == 0)
		rc = ps_watch_init(&b->watch, err);
	if (rc < 0)
		return rc;
	ps_machine_probe(&b->machine);
	b->cluster.congestion = b->o.congestion;
	b->cluster.security = b->o.security;
	b->doc = cJSON_CreateObject();
	b->rows = cJSON_AddArrayToObject(b->doc, "results");
	rc = b->rows ? run(b, err) : pl_err_set(err, ENOMEM, "out of memory");
	cJSON_Delete(b->doc);
	r = ps_cluster_fini(&b->cluster, rc < 0 ? NULL : err);
	pl_close_fd(&b->watch.signal_fd);
	return rc < 0 ? rc : r;
}

int sv_compare_main(int argc, char **argv)
{
	struct pl_err err = { .code = 0 };
	struct bench *b = calloc(1, sizeof(*b));
	int rc;

	/* The children are /proc/self/exe: that is no name. */
	prctl(PR_SET_NAME, "pod_serve");
	rc = b ? sv_opts_parse(SV_COMPARE, argc, argv, &b->o, &err) :
		 pl_err_set(&err, ENOMEM, "out of memory");
	if (rc) {
		if (rc < 0)
			fprintf(stderr, "pod_serve: %s\n", err.msg);
		free(b);
		return rc < 0 ? EXIT_USAGE : 0;
	}
	rc = bench_main(b, &err);
	if (rc >= 0 && pl_stdout_end(&err) < 0)
		rc = -err.code;
	if (rc < 0)
		fprintf(stderr, "pod_serve: %s\n", err.msg);
	free(b);
	return rc == -EINTR ? EXIT_SIGNALLED : rc < 0;
}
