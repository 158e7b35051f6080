/*
 * bench/ps_compare.c - the commands compare, matrix and reproduce
 *
 * A matrix is a comparison with other defaults: all models, strategies and
 * transports, in a limited time. What reproduce has besides is in
 * ps_reproduce.h.
 *
 * Checks first whatever can be checked, so that nothing fails at the end of a
 * long run. SIGINT, SIGTERM and their like are blocked from then on and looked
 * at between and within the steps, so that everything that was made is undone
 * whenever they come, and however often.
 */
#include "bench/ps_compare.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/util.h"
#include "bench/ps_bench.h"
#include "bench/ps_cases.h"
#include "bench/ps_csv.h"
#include "bench/ps_output.h"
#include "bench/ps_reproduce.h"
#include "bench/ps_result.h"
#include "bench/ps_role.h"
#include "bench/ps_stats.h"

#define EXIT_USAGE 2
#define EXIT_SIGNALLED 130
#define CASES_MAX (PS_MODELS_MAX * PS_PLACEMENTS * PS_STRATEGIES * \
		   PS_TRANSPORTS * CODEC_KINDS)

struct results {
	struct ps_result r[CASES_MAX];
	unsigned int n;
};

/* --- before --- */

static int check_memory(const struct ps_opts *o, struct pl_err *err)
{
	uint64_t need = ps_memory_need(o);
	const char *limit;
	uint64_t have = ps_machine_free_bytes("", &limit);

	if (have >= need)
		return 0;
	return pl_err_set(err, ENOMEM, "this needs %.1f GB of memory and %s "
			  "has %.1f GB left; take a smaller --model or fewer "
			  "--workers", (double)need / 1e9, limit,
			  (double)have / 1e9);
}

static int check_models(const struct ps_opts *o, struct pl_err *err)
{
	for (unsigned int i = 0; i < o->n_models; i++) {
		if (ps_model_batch(o->models[i], o->compute))
			continue;
		return pl_err_set(err, EINVAL, "no published rate of %s on a "
				  "%s; choose another --compute",
				  o->models[i]->name,
				  ps_gpu_name(o->compute));
	}
	return 0;
}

/* A matrix goes on without the models that this machine can't have. */
static int check_all(struct ps_bench *b, bool is_matrix, struct pl_err *err)
{
	int rc = is_matrix ? 0 : check_models(&b->o, err);

	if (rc == 0 && geteuid() != 0)
		rc = pl_err_set(err, EPERM, "this makes network namespaces and "
				"needs root; try it with sudo");
	if (rc == 0)
		rc = ps_output_check(b->o.json, b->o.csv, b->o.plot,
				     err);
	if (rc == 0)
		rc = ps_programs_find(&b->cluster.programs, b->o.cni_bin,
				      b->o.podlaned, err);
	return rc < 0 || is_matrix ? rc : check_memory(&b->o, err);
}

/* --- the cluster --- */

/* Those of rank from to n. */
static int add_pods(struct ps_bench *b, unsigned int node, const char *what,
		    unsigned int from, unsigned int n, struct ps_pod **pods,
		    struct pl_err *err)
{
	char name[PS_CHILD_NAME];
	int rc = 0;

	for (unsigned int i = from; i < n && rc == 0; i++) {
		if (ps_watch_interrupted(&b->watch))
			return pl_err_set(err, EINTR, "interrupted");
		snprintf(name, sizeof(name), "%s%u-node%u", what, i, node);
		rc = ps_cluster_pod_add(&b->cluster, node, name, &pods[i],
					err);
		if (rc < 0)
			pl_err_prefix(err, "pod %s", name);
	}
	return rc;
}

/* The first rank that a spread placement has on the second node. */
static unsigned int first_far(unsigned int n)
{
	unsigned int i = 0;

	while (i < n && ps_spread(i, n) == 0)
		i++;
	return i;
}

static int add_all_pods(struct ps_bench *b, struct pl_err *err)
{
	const struct ps_opts *o = &b->o;
	const bool servers = o->strategies & PS_SERVER;
	int rc = add_pods(b, 1, "worker", 0, o->workers, b->worker[0], err);

	if (rc == 0 && o->placements & PS_SPREAD)
		rc = add_pods(b, 2, "worker", first_far(o->workers),
			      o->workers, b->worker[1], err);
	if (rc == 0 && servers && o->placements & (PS_SAME_NODE | PS_SPREAD))
		rc = add_pods(b, 1, "server", 0, o->servers, b->server[0],
			      err);
	if (rc == 0 && servers && o->placements & PS_CROSS_NODE)
		rc = add_pods(b, 2, "server", 0, o->servers, b->server[1],
			      err);
	else if (rc == 0 && servers && o->placements & PS_SPREAD)
		rc = add_pods(b, 2, "server", first_far(o->servers),
			      o->servers, b->server[1], err);
	return rc;
}

int ps_bench_cluster(struct ps_bench *b, struct pl_err *err)
{
	const struct ps_opts *o = &b->o;
	int rc;

	b->cluster.congestion = o->congestion;
	b->cluster.security = o->security;
	b->cluster.wire = o->wire;
	rc = ps_cluster_init(&b->cluster, o->run_dir, &b->watch, err);
	if (rc == 0)
		rc = add_all_pods(b, err);
	if (rc == 0)
		rc = ps_cluster_facts(&b->cluster, &b->machine, err);
	return rc;
}

/* --- the runs --- */

/*
 * What a turn of runs is held against is measured just before it, so that
 * whatever else the machine has to do weighs on both.
 */
static int measure_limits(struct ps_bench *b, const struct ps_case *c,
			  struct ps_limits *l, struct pl_err *err)
{
	int rc = 0;

	memset(l, 0, sizeof(*l));
	if (!b->o.raw) {
		ps_progress_say(&b->progress, "memory bandwidth");
		l->memory_bytes_per_s = ps_memory_bandwidth();
	}
	if (b->o.transports & PS_OVERLAY && c->strategy == PS_SERVER) {
		ps_progress_say(&b->progress, "plain TCP, %s",
				ps_placement_name(c->placement));
		rc = ps_run_raw(b, c->placement, false, &l->raw_one_way, err);
		if (rc == 0)
			rc = ps_run_raw(b, c->placement, true,
					&l->raw_both_ways, err);
	}
	ps_progress_add(&b->progress, PS_WEIGHT_BASE);
	return rc;
}

/* Every run of a case ends with the same parameters, whatever carried them. */
static int check_same(const struct ps_bench *b, const struct ps_run *first,
		      const struct ps_run *run, struct pl_err *err)
{
	if (b->o.raw || first->checksum == run->checksum)
		return 0;
	return pl_err_set(err, EBADMSG, "two runs ended with different "
			  "parameters (checksums %016llx and %016llx)",
			  (unsigned long long)first->checksum,
			  (unsigned long long)run->checksum);
}

/* Every transport once. runs[t] has o.repeat places, this is the i-th. */
static int run_turn(struct ps_bench *b, struct ps_case *c, unsigned int i,
		    struct ps_run *const *runs, const struct ps_run **first,
		    struct pl_err *err)
{
	struct ps_limits limits;
	int rc = measure_limits(b, c, &limits, err);

	for (unsigned int t = 0; t < PS_TRANSPORTS && rc == 0; t++) {
		struct ps_run *run = &runs[t][i];

		c->transport = ps_cases_transports[t];
		if (!(ps_cases_kinds(&b->o, c->strategy) & c->transport))
			continue;
		ps_progress_say(&b->progress, "%s, %s, %s, %s, run %u of %u",
				c->model->name,
				ps_placement_name(c->placement),
				ps_strategy_name(c->strategy),
				ps_transport_name(c->transport), i + 1,
				b->o.repeat);
		rc = ps_run_case(b, c, run, err);
		run->limits = limits;
		*first = *first ? *first : run;
		if (rc == 0)
			rc = check_same(b, *first, run, err);
		ps_progress_add(&b->progress, ps_cases_run_weight(c->model));
	}
	return rc;
}

/* The transports take turns. */
static int run_turns(struct ps_bench *b, struct ps_case *c,
		     struct ps_run *const *runs, struct pl_err *err)
{
	const struct ps_run *first = NULL;
	int rc = 0;

	for (unsigned int i = 0; i < b->o.repeat && rc == 0; i++)
		rc = run_turn(b, c, i, runs, &first, err);
	return rc;
}

static int compare_case(struct ps_bench *b, struct ps_case *c, double solo_s,
			struct results *out, struct pl_err *err)
{
	unsigned int n = b->o.repeat, kinds;
	pl_auto_free struct ps_run *mem = calloc(PS_TRANSPORTS * (size_t)n,
						 sizeof(*mem));
	struct ps_run *runs[PS_TRANSPORTS] = { mem, mem + n, mem + 2 * n };
	const struct ps_run *overlay = NULL;
	int rc;

	if (!mem)
		return pl_err_set(err, ENOMEM, "out of memory");
	rc = run_turns(b, c, runs, err);
	kinds = ps_cases_kinds(&b->o, c->strategy);
	if (kinds & PS_OVERLAY && c->strategy != PS_INDEPENDENT)
		overlay = runs[0];
	for (unsigned int t = 0; t < PS_TRANSPORTS && rc == 0; t++) {
		c->transport = ps_cases_transports[t];
		if (kinds & c->transport)
			ps_result_make(b, c, runs[t], overlay, n, solo_s,
				       &out->r[out->n++]);
	}
	return rc;
}

static int compare_codecs(struct ps_bench *b, struct ps_case *c, double solo_s,
			  struct results *out, struct pl_err *err)
{
	unsigned int codecs = ps_cases_codecs(&b->o, c->strategy);
	int rc = 0;

	for (int k = 0; k < CODEC_KINDS && rc == 0; k++) {
		c->compression = (enum codec_kind)k;
		if (codecs & 1u << k)
			rc = compare_case(b, c, solo_s, out, err);
	}
	return rc;
}

/* Once for a model, when there is a case to hold against it. */
static int alone(struct ps_bench *b, const struct ps_model *m, double *solo_s,
		 struct pl_err *err)
{
	int rc = 0;

	if (isfinite(*solo_s) || b->o.raw)
		return 0;
	ps_progress_say(&b->progress, "%s, one worker alone", m->name);
	rc = ps_solo_step(b, m, solo_s, err);
	ps_progress_add(&b->progress, ps_cases_run_weight(m));
	return rc;
}

static int compare_model(struct ps_bench *b, const struct ps_model *m,
			 struct results *out, struct pl_err *err)
{
	struct ps_case c = { .model = m };
	double solo_s = NAN;
	int rc = 0;

	for (unsigned int i = 0; i < PS_PLACEMENTS * PS_STRATEGIES; i++) {
		c.placement = ps_cases_placements[i / PS_STRATEGIES];
		c.strategy = ps_cases_strategies[i % PS_STRATEGIES];
		if (rc < 0 || !ps_cases_has(&b->o, c.placement, c.strategy))
			continue;
		if (ps_cases_leave_out(b, &c)) {
			ps_progress_drop(&b->progress,
					 ps_cases_weight(&b->o, &c));
			continue;
		}
		rc = alone(b, m, &solo_s, err);
		if (rc == 0)
			rc = compare_codecs(b, &c, solo_s, out, err);
	}
	return rc;
}

static int measure(struct ps_bench *b, enum ps_cmd cmd, struct results *out,
		   struct pl_err *err)
{
	int rc;

	ps_progress_say(&b->progress, "two nodes and their pods");
	rc = ps_bench_cluster(b, err);
	ps_progress_add(&b->progress, PS_WEIGHT_BASE);
	for (unsigned int i = 0; i < b->o.n_models && rc == 0; i++) {
		if (cmd == PS_CMD_REPRODUCE)
			rc = ps_reproduce_node(b, b->o.models[i],
					       &b->node_images[i], err);
		if (rc == 0)
			rc = compare_model(b, b->o.models[i], out, err);
	}
	return rc;
}

/* --- after --- */

static int write_files(const struct ps_bench *b, enum ps_cmd cmd,
		       const struct results *res, struct pl_err *err)
{
	pl_auto_json *doc = NULL;
	int rc = 0;

	if (b->o.json || b->o.csv)
		doc = ps_result_json(b, res->r, res->n);
	if (doc && cmd == PS_CMD_REPRODUCE)
		ps_reproduce_json(b, res->r, res->n, doc);
	if (b->o.json)
		rc = pl_json_save(b->o.json, doc, 0644, err);
	if (rc == 0 && b->o.csv)
		rc = ps_csv_save(b->o.csv, doc, err);
	if (rc == 0 && b->o.plot)
		rc = ps_plot_write(b, res->r, res->n, b->o.plot, err);
	return rc;
}

static int compare(struct ps_bench *b, enum ps_cmd cmd)
{
	struct pl_err err = { .code = 0 }, late = { .code = 0 };
	static struct results res;
	int rc, undo;

	ps_progress_init(&b->progress, ps_cases_total(&b->o) +
			 (cmd == PS_CMD_REPRODUCE ? ps_reproduce_weight(b) :
						    0));
	b->progress.has_lines = cmd != PS_CMD_COMPARE;
	rc = measure(b, cmd, &res, &err);
	if (rc == 0)
		rc = write_files(b, cmd, &res, &err);
	ps_progress_say(&b->progress, "taking the cluster down");
	undo = ps_cluster_fini(&b->cluster, &late);
	ps_progress_end(&b->progress);
	if (rc == 0)
		ps_result_table(b, res.r, res.n, stdout);
	if (rc == 0 && cmd == PS_CMD_REPRODUCE)
		ps_reproduce_table(b, res.r, res.n, stdout);
	if (rc < 0)
		fprintf(stderr, "ps_throughput: %s\n", err.msg);
	if (undo < 0)
		fprintf(stderr, "ps_throughput: %s\n", late.msg);
	return rc == -EINTR ? EXIT_SIGNALLED : rc < 0 || undo < 0;
}

static int start(enum ps_cmd cmd, int argc, char **argv)
{
	const char *name = argv[0];
	struct ps_bench *b = calloc(1, sizeof(*b));
	struct pl_err err = { .code = 0 };
	int rc;

	if (!b)
		return 1;
	rc = ps_opts_parse(cmd, argc, argv, &b->o, &err);
	if (rc == 1) {
		free(b);
		return 0;
	}
	if (rc < 0) {
		fprintf(stderr, "ps_throughput %s: %s\n", name, err.msg);
		ps_opts_fini(&b->o);
		free(b);
		return EXIT_USAGE;
	}
	ps_machine_probe(&b->machine);
	rc = check_all(b, cmd == PS_CMD_MATRIX, &err);
	if (rc == 0)
		rc = ps_watch_init(&b->watch, &err);
	if (rc < 0)
		fprintf(stderr, "ps_throughput %s: %s\n", name, err.msg);
	rc = rc < 0 ? 1 : compare(b, cmd);
	ps_opts_fini(&b->o);
	free(b);
	return rc;
}

int ps_compare_main(int argc, char **argv)
{
	return start(PS_CMD_COMPARE, argc, argv);
}

int ps_matrix_main(int argc, char **argv)
{
	return start(PS_CMD_MATRIX, argc, argv);
}

int ps_reproduce_main(int argc, char **argv)
{
	return start(PS_CMD_REPRODUCE, argc, argv);
}
