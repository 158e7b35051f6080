/* bench/ps_train.c - the command train of ps_throughput */
#include "bench/ps_train.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/util.h"
#include "bench/blas.h"
#include "bench/dataset.h"
#include "bench/ps_bench.h"
#include "bench/ps_cases.h"
#include "bench/ps_output.h"
#include "bench/ps_stats.h"

#define EXIT_USAGE 2
#define EXIT_SIGNALLED 130
#define SEEDS_MAX 100

/* The runs of one case and batch, a seed each. */
struct group {
	struct ps_case c;
	unsigned int batch, n;
	double target_s[SEEDS_MAX];	/* NAN: not reached */
	double accuracy[SEEDS_MAX];	/* at the end */
	double images_per_s[SEEDS_MAX];
	uint64_t checksum[SEEDS_MAX];
	double sent_bytes;
	char path[64];
	cJSON *runs;			/* a curve each */
};

struct training {
	struct ps_bench b;
	struct group *groups;
	unsigned int n;
	unsigned int images;		/* of the training set */
};

/* --- one run -------------------------------------------------------------- */

static double seconds_to(const struct ps_run *run, double target)
{
	for (unsigned int i = 0; i < run->n_curve; i++)
		if (run->curve[i].accuracy >= target)
			return run->curve[i].seconds;
	return NAN;
}

static void number(cJSON *o, const char *key, double v)
{
	if (isfinite(v))
		cJSON_AddNumberToObject(o, key, v);
	else
		cJSON_AddNullToObject(o, key);
}

static void log_run(struct group *g, const struct ps_run *run,
		    unsigned int seed)
{
	cJSON *o = cJSON_CreateObject(), *list, *p;
	char hex[17];

	cJSON_AddNumberToObject(o, "seed", seed);
	number(o, "seconds_to_target", g->target_s[g->n - 1]);
	number(o, "accuracy", g->accuracy[g->n - 1]);
	number(o, "images_per_s", run->images_per_s);
	pl_format(hex, sizeof(hex), "%016llx",
		  (unsigned long long)run->checksum);
	cJSON_AddStringToObject(o, "checksum", hex);
	list = cJSON_AddArrayToObject(o, "curve");
	for (unsigned int i = 0; i < run->n_curve; i++) {
		p = cJSON_CreateObject();
		number(p, "seconds", run->curve[i].seconds);
		number(p, "accuracy", run->curve[i].accuracy);
		cJSON_AddItemToArray(list, p);
	}
	cJSON_AddItemToArray(g->runs, o);
}

/* The same computation over something else, or by another strategy. */
static int check_same(const struct training *t, const struct group *g,
		      struct pl_err *err)
{
	unsigned int i = g->n - 1;

	for (unsigned int k = 0; k < t->n; k++) {
		const struct group *o = &t->groups[k];

		if (o->n <= i || o->batch != g->batch ||
		    o->c.model != g->c.model ||
		    o->c.compression != g->c.compression ||
		    o->checksum[i] == g->checksum[i])
			continue;
		return pl_err_set(err, EBADMSG, "over %s and %s the same "
				  "training ended with different parameters",
				  ps_transport_name(o->c.transport),
				  ps_transport_name(g->c.transport));
	}
	return 0;
}

static int one_run(struct training *t, struct group *g, unsigned int seed,
		   struct pl_err *err)
{
	struct ps_bench *b = &t->b;
	struct ps_run run;
	int rc;

	b->o.seed = seed;
	b->o.batch = g->batch;
	b->o.steps = b->o.epochs * (t->images / (g->batch * b->o.workers));
	ps_progress_say(&b->progress, "%s, %s, %s, %s, batch %u, seed %u",
			g->c.model->name, ps_transport_name(g->c.transport),
			ps_strategy_name(g->c.strategy),
			codec_name(g->c.compression), g->batch, seed);
	rc = ps_run_case(b, &g->c, &run, err);
	ps_progress_add(&b->progress, 1);
	if (rc < 0)
		return rc;
	if (run.n_curve != b->o.epochs)
		return pl_err_set(err, EPROTO, "worker 0 tested %u times in "
				  "%u epochs", run.n_curve, b->o.epochs);
	g->n++;
	g->target_s[g->n - 1] = seconds_to(&run, t->b.o.target_ppm / 1e6);
	g->accuracy[g->n - 1] = run.curve[run.n_curve - 1].accuracy;
	g->images_per_s[g->n - 1] = run.images_per_s;
	g->checksum[g->n - 1] = run.checksum;
	g->sent_bytes = run.sent_bytes;
	pl_format(g->path, sizeof(g->path), "%s", run.path);
	log_run(g, &run, seed);
	return check_same(t, g, err);
}

/* --- all of them ---------------------------------------------------------- */

static void add_group(struct training *t, const struct ps_case *c,
		      unsigned int batch)
{
	if (t->groups)
		t->groups[t->n] = (struct group){ .c = *c, .batch = batch,
			.runs = cJSON_CreateArray() };
	t->n++;
}

static void add_transports(struct training *t, struct ps_case c,
			   unsigned int batch)
{
	for (unsigned int i = 0; i < PS_TRANSPORTS; i++) {
		c.transport = ps_cases_transports[i];
		if (t->b.o.transports & c.transport)
			add_group(t, &c, batch);
	}
}

static void add_codecs(struct training *t, struct ps_case c,
		       unsigned int batch)
{
	for (int k = 0; k < CODEC_KINDS; k++) {
		c.compression = (enum codec_kind)k;
		if (t->b.o.compressions & 1u << k)
			add_transports(t, c, batch);
	}
}

/* What differs in nothing but the transport stands together. */
static void add_groups(struct training *t)
{
	const struct ps_opts *o = &t->b.o;

	t->n = 0;
	for (unsigned int m = 0; m < o->n_models; m++)
		for (unsigned int i = 0; i < PS_PLACEMENTS * PS_STRATEGIES;
		     i++) {
			struct ps_case c = { .model = o->models[m],
				.placement = ps_cases_placements[i /
							PS_STRATEGIES],
				.strategy = ps_cases_strategies[i %
							PS_STRATEGIES] };

			if (!ps_cases_has(o, c.placement, c.strategy))
				continue;
			for (unsigned int k = 0; k < o->n_batches; k++)
				add_codecs(t, c, o->batches[k]);
		}
}

/* Seeds are the outer loop, so that all cases see the same machine. */
static int run_all(struct training *t, struct pl_err *err)
{
	int rc = ps_bench_cluster(&t->b, err);

	for (unsigned int s = 0; s < t->b.o.seeds && rc == 0; s++)
		for (unsigned int i = 0; i < t->n && rc == 0; i++)
			rc = one_run(t, &t->groups[i], t->b.o.seed_first + s,
				     err);
	return rc;
}

/* --- before --------------------------------------------------------------- */

static int check_data(struct training *t, struct pl_err *err)
{
	struct dataset d;
	int rc = dataset_load_train(t->b.o.data, &d, err);

	if (rc < 0)
		return rc;
	t->images = d.n;
	dataset_free(&d);
	for (unsigned int i = 0; i < t->b.o.n_batches; i++)
		if ((uint64_t)t->b.o.batches[i] * t->b.o.workers > t->images)
			return pl_err_set(err, EINVAL, "--batches: %u images "
					  "for each of %u workers are more "
					  "than the %u that there are",
					  t->b.o.batches[i], t->b.o.workers,
					  t->images);
	return 0;
}

static int check_all(struct training *t, struct pl_err *err)
{
	struct ps_bench *b = &t->b;
	int rc = 0;

	if (geteuid() != 0)
		rc = pl_err_set(err, EPERM, "this makes network namespaces and "
				"needs root; try it with sudo");
	if (rc == 0)
		rc = blas_load(err);
	if (rc == 0)
		rc = check_data(t, err);
	if (rc == 0)
		rc = ps_output_check(b->o.json, NULL, NULL, err);
	if (rc == 0)
		rc = ps_programs_find(&b->cluster.programs, b->o.cni_bin,
				      b->o.podlaned, err);
	if (rc < 0)
		return rc;
	add_groups(t);
	t->groups = calloc(t->n, sizeof(*t->groups));
	if (!t->groups)
		return pl_err_set(err, ENOMEM, "out of memory");
	add_groups(t);
	return ps_watch_init(&b->watch, err);
}

/* --- after ---------------------------------------------------------------- */

static double mean(const double *v, unsigned int n)
{
	double sum = 0;

	for (unsigned int i = 0; i < n; i++)
		sum += v[i];
	return n ? sum / n : NAN;
}

/* Runs that do not get there make it infinite: then there is no median. */
static double median_target(const struct group *g)
{
	double v[SEEDS_MAX];

	for (unsigned int i = 0; i < g->n; i++)
		v[i] = isnan(g->target_s[i]) ? INFINITY : g->target_s[i];
	return ps_quantile(v, g->n, 0.5);
}

static unsigned int reached(const struct group *g)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < g->n; i++)
		n += !isnan(g->target_s[i]);
	return n;
}

static void print_group(const struct group *g)
{
	double s = median_target(g);
	char target[24] = "-";

	if (isfinite(s))
		snprintf(target, sizeof(target), "%.1f", s);
	printf("  %-8s %-9s %-8s %5u %9.0f %9.1f %10s %5u/%-2u %9.2f  %s\n",
	       ps_transport_name(g->c.transport),
	       g->c.strategy == PS_RING ? "ring" : "server",
	       codec_name(g->c.compression), g->batch,
	       ps_median(g->images_per_s, g->n), g->sent_bytes / 1e3, target,
	       reached(g), g->n, 100 * mean(g->accuracy, g->n), g->path);
}

static void print_all(const struct training *t)
{
	const struct ps_opts *o = &t->b.o;

	for (unsigned int i = 0; i < t->n; i++) {
		const struct group *g = &t->groups[i];

		if (i == 0 || g->c.model != g[-1].c.model ||
		    g->c.placement != g[-1].c.placement)
			printf("\n%s on Fashion-MNIST, %s\n  %-8s %-9s %-8s %5s "
			       "%9s %9s %10s %8s %9s  %s\n", g->c.model->name,
			       ps_placement_name(g->c.placement), "transport",
			       "strategy", "codec", "batch", "images/s",
			       "kB/step", "s to goal", "reached", "accuracy",
			       "path");
		print_group(g);
	}
	printf("\n%u workers, %u epochs, %u seeds from %u on, goal %.2f %% of "
	       "the test set; learning rate %g along half a cosine, momentum "
	       "%g, batch of each worker\n", o->workers, o->epochs, o->seeds,
	       o->seed_first, o->target_ppm / 1e4, o->rate_ppm / 1e6,
	       (double)PS_MOMENTUM);
	printf("s to goal   median of the seeds, from first touching the data, "
	       "tests of each epoch included\naccuracy    after the last "
	       "epoch, mean of the seeds, in per cent\nkB/step     what a "
	       "worker sent, mean\nThe same seeds ended with the same "
	       "parameters over all transports, to the bit.\n");
	printf("machine     %s, %u cores, %s\nBLAS        %s, one thread\n",
	       t->b.machine.cpu, t->b.machine.cores, t->b.machine.kernel,
	       blas_path());
}

static cJSON *group_json(struct group *g)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "model", g->c.model->name);
	cJSON_AddStringToObject(o, "placement",
				ps_placement_name(g->c.placement));
	cJSON_AddStringToObject(o, "variable_update",
				ps_strategy_name(g->c.strategy));
	cJSON_AddStringToObject(o, "transport",
				ps_transport_name(g->c.transport));
	cJSON_AddStringToObject(o, "compression",
				codec_name(g->c.compression));
	cJSON_AddNumberToObject(o, "batch", g->batch);
	cJSON_AddStringToObject(o, "path", g->path);
	number(o, "sent_bytes_per_step", g->sent_bytes);
	number(o, "images_per_s", ps_median(g->images_per_s, g->n));
	number(o, "seconds_to_target", median_target(g));
	number(o, "accuracy", mean(g->accuracy, g->n));
	cJSON_AddItemToObject(o, "runs", g->runs);
	g->runs = NULL;
	return o;
}

static int write_json(struct training *t, struct pl_err *err)
{
	pl_auto_json *doc = cJSON_CreateObject();
	const struct ps_opts *o = &t->b.o;
	cJSON *list;

	cJSON_AddStringToObject(doc, "version", PL_VERSION);
	cJSON_AddStringToObject(doc, "kernel", t->b.machine.kernel);
	cJSON_AddStringToObject(doc, "cpu", t->b.machine.cpu);
	cJSON_AddStringToObject(doc, "blas", blas_path());
	cJSON_AddNumberToObject(doc, "workers", o->workers);
	cJSON_AddNumberToObject(doc, "epochs", o->epochs);
	cJSON_AddNumberToObject(doc, "target", o->target_ppm / 1e6);
	cJSON_AddNumberToObject(doc, "rate", o->rate_ppm / 1e6);
	cJSON_AddNumberToObject(doc, "sparsity", 1 - o->keep_ppm / 1e6);
	list = cJSON_AddArrayToObject(doc, "results");
	for (unsigned int i = 0; i < t->n; i++)
		cJSON_AddItemToArray(list, group_json(&t->groups[i]));
	return pl_json_save(o->json, doc, 0644, err);
}

static int train(struct training *t)
{
	struct pl_err err = { .code = 0 }, late = { .code = 0 };
	int rc, undo;

	ps_progress_init(&t->b.progress, t->n * t->b.o.seeds);
	rc = run_all(t, &err);
	undo = ps_cluster_fini(&t->b.cluster, &late);
	ps_progress_end(&t->b.progress);
	if (rc == 0)
		print_all(t);
	if (rc == 0 && t->b.o.json)
		rc = write_json(t, &err);
	if (rc < 0)
		fprintf(stderr, "ps_throughput: %s\n", err.msg);
	if (undo < 0)
		fprintf(stderr, "ps_throughput: %s\n", late.msg);
	return rc == -EINTR ? EXIT_SIGNALLED : rc < 0 || undo < 0;
}

int ps_train_main(int argc, char **argv)
{
	struct training *t = calloc(1, sizeof(*t));
	struct pl_err err = { .code = 0 };
	int rc;

	if (!t)
		return 1;
	rc = ps_opts_parse(PS_CMD_TRAIN, argc, argv, &t->b.o, &err);
	if (rc < 0)
		fprintf(stderr, "ps_throughput train: %s\n", err.msg);
	if (rc != 0) {
		free(t);
		return rc < 0 ? EXIT_USAGE : 0;
	}
	t->b.o.train = true;
	t->b.o.seed_first = t->b.o.seed;
	ps_machine_probe(&t->b.machine);
	rc = check_all(t, &err);
	if (rc < 0)
		fprintf(stderr, "ps_throughput train: %s\n", err.msg);
	rc = rc < 0 ? 1 : train(t);
	for (unsigned int i = 0; t->groups && i < t->n; i++)
		cJSON_Delete(t->groups[i].runs);
	free(t->groups);
	ps_opts_fini(&t->b.o);
	free(t);
	return rc;
}
