/*
 * bench/ps_run.c - one run: roles in pods, from their start to their numbers
 */
#include "bench/ps_bench.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/util.h"
#include "bench/ps_outcome.h"
#include "bench/ps_usage.h"

#define ARGS_MAX 64

/* --- arguments of a role --- */

struct args {
	char *v[ARGS_MAX + 3];		/* with the room ps_child_start wants */
	unsigned int n;
	bool failed;
};

__attribute__((format(printf, 2, 3)))
static void arg(struct args *a, const char *fmt, ...)
{
	va_list ap;
	char *text = NULL;

	va_start(ap, fmt);
	if (a->n == ARGS_MAX || vasprintf(&text, fmt, ap) < 0)
		a->failed = true;
	else
		a->v[a->n++] = text;
	va_end(ap);
}

static void args_free(struct args *a)
{
	for (unsigned int i = 0; i < a->n; i++)
		free(a->v[i]);
}

/* Addresses with commas between them. */
struct addr_list {
	char text[PS_WORKERS_MAX * (PS_ADDR_BYTES + 1)];
	size_t len;
	unsigned int n;
};

static void list_add(struct addr_list *l, const char *addr)
{
	l->len += (size_t)snprintf(l->text + l->len, sizeof(l->text) - l->len,
				   "%s%s", l->n++ ? "," : "", addr);
}

static void job_args(struct args *a, const char *role, const struct ps_opts *o,
		     const struct ps_case *c, unsigned int rank)
{
	arg(a, "ps_throughput");
	arg(a, "%s", role);
	arg(a, "--transport=%s", ps_transport_name(c->transport));
	arg(a, "--variable-update=%s", ps_strategy_name(c->strategy));
	if (o->tensors)
		arg(a, "--tensors=%s", o->tensors);
	else
		arg(a, "--model=%s", c->model->name);
	arg(a, "--workers=%u", o->workers);
	arg(a, "--servers=%u", o->servers);
	arg(a, "--steps=%u", o->steps);
	arg(a, "--warmup=%u", o->warmup);
	arg(a, "--compute=%s", ps_gpu_name(o->compute));
	arg(a, "--local-sum=%s", ps_local_sum_name(o->local_sum));
	arg(a, "--rank=%u", rank);
	arg(a, "--compression=%s", codec_name(c->compression));
	arg(a, "--sparsity=%.4f", 100 - o->keep_ppm / 1e4);
	arg(a, o->async ? "--async" : "--sync");
	if (o->batch)
		arg(a, "--batch=%u", o->batch);
	if (o->raw)
		arg(a, "--raw");
	if (o->overlap)
		arg(a, "--overlap");
}

/* Of the server, too, so that it can tell who does not fit. */
static void train_args(struct args *a, const struct ps_opts *o,
		       const char *role)
{
	if (!o->train)
		return;
	arg(a, "--train");
	arg(a, "--epochs=%u", o->epochs);
	arg(a, "--seed=%u", o->seed);
	arg(a, "--rate=%.6f", o->rate_ppm / 1e6);
	if (o->data && !strcmp(role, "worker"))
		arg(a, "--data=%s", o->data);
}

static int start_role(struct ps_child *c, const struct args *a,
		      const char *role, unsigned int rank, const char *netns,
		      struct pl_err *err)
{
	char name[PS_CHILD_NAME];
	char *v[ARGS_MAX + 3];

	if (a->failed)
		return pl_err_set(err, ENOMEM, "out of memory");
	memcpy(v, a->v, sizeof(v));
	v[a->n] = NULL;
	snprintf(name, sizeof(name), "%s %u", role, rank);
	return ps_child_start(c, name, netns, v, err);
}

/* --- where roles are --- */

unsigned int ps_spread(unsigned int rank, unsigned int n)
{
	return rank * PS_NODES / n;
}

struct ps_pod *ps_pod_of_worker(const struct ps_bench *b, enum ps_placement p,
				unsigned int rank)
{
	return b->worker[p == PS_SPREAD ? ps_spread(rank, b->o.workers) : 0]
			[rank];
}

struct ps_pod *ps_pod_of_server(const struct ps_bench *b, enum ps_placement p,
				unsigned int rank)
{
	unsigned int node = p == PS_SPREAD ? ps_spread(rank, b->o.servers) :
			    p == PS_CROSS_NODE ? 1 : 0;

	return b->server[node][rank];
}

/* Roles of host stand beside their pods: in the node's own namespace. */
static const char *netns_of(const struct ps_bench *b, const struct ps_case *c,
			    const struct ps_pod *pod)
{
	return c->transport == PS_HOST ?
		b->cluster.node[pod->node - 1].netns : pod->ns.netns;
}

static const char *addr_of(const struct ps_case *c, const struct ps_pod *pod)
{
	return c->transport == PS_HOST ? ps_cluster_node_addr(pod->node) :
					 pod->addr;
}

typedef struct ps_pod *pod_of(const struct ps_bench *b, enum ps_placement p,
			      unsigned int rank);

/* "--NAME ADDR,ADDR,..." of n roles, by rank. */
static void arg_addrs(struct args *a, const struct ps_bench *b,
		      const struct ps_case *c, const char *name, pod_of *of,
		      unsigned int n)
{
	struct addr_list l = { .n = 0 };

	for (unsigned int i = 0; i < n; i++)
		list_add(&l, addr_of(c, of(b, c->placement, i)));
	arg(a, "--%s=%s", name, l.text);
}

/* The workers of a worker's node, and its place among them. */
static void arg_local(struct args *a, const struct ps_bench *b,
		      const struct ps_case *c, unsigned int rank)
{
	const struct ps_pod *own = ps_pod_of_worker(b, c->placement, rank);
	struct addr_list l = { .n = 0 };

	for (unsigned int i = 0; i < b->o.workers; i++) {
		const struct ps_pod *pod = ps_pod_of_worker(b, c->placement,
							    i);

		if (i == rank)
			arg(a, "--node-rank=%u", l.n);
		if (pod->node == own->node)
			list_add(&l, addr_of(c, pod));
	}
	arg(a, "--local=%s", l.text);
}

/* How many workers each node has; ranks of a node follow each other. */
static void arg_nodes(struct args *a, const struct ps_bench *b,
		      const struct ps_case *c)
{
	unsigned int on[PS_NODES] = { 0 };

	for (unsigned int i = 0; i < b->o.workers; i++)
		on[ps_pod_of_worker(b, c->placement, i)->node - 1]++;
	if (on[1])
		arg(a, "--nodes=%u,%u", on[0], on[1]);
	else
		arg(a, "--nodes=%u", on[0]);
}

static int start_server(const struct ps_bench *b, const struct ps_case *c,
			unsigned int rank, struct ps_child *child,
			struct pl_err *err)
{
	const struct ps_pod *pod = ps_pod_of_server(b, c->placement, rank);
	struct args a = { .n = 0 };
	int rc;

	job_args(&a, "server", &b->o, c, rank);
	train_args(&a, &b->o, "server");
	arg(&a, "--bind=%s", addr_of(c, pod));
	rc = start_role(child, &a, "server", rank, netns_of(b, c, pod), err);
	args_free(&a);
	return rc;
}

static int start_worker(const struct ps_bench *b, const struct ps_case *c,
			unsigned int rank, struct ps_child *child,
			struct pl_err *err)
{
	const struct ps_pod *pod = ps_pod_of_worker(b, c->placement, rank);
	struct args a = { .n = 0 };
	int rc;

	job_args(&a, "worker", &b->o, c, rank);
	train_args(&a, &b->o, "worker");
	if (c->strategy == PS_SERVER)
		arg_addrs(&a, b, c, "server", ps_pod_of_server,
			  b->o.servers);
	if (c->strategy == PS_RING || c->strategy == PS_HIERARCHICAL)
		arg_addrs(&a, b, c, "peers", ps_pod_of_worker,
			  b->o.workers);
	if (c->strategy == PS_HIERARCHICAL)
		arg_nodes(&a, b, c);
	arg(&a, "--bind=%s", addr_of(c, pod));
	arg_local(&a, b, c, rank);
	rc = start_role(child, &a, "worker", rank, netns_of(b, c, pod), err);
	args_free(&a);
	return rc;
}

/* --- a run --- */

struct watched {
	struct ps_progress *progress;
	struct ps_usage *usage;
};

static bool look(void *arg)
{
	const struct watched *w = arg;

	ps_progress_draw(w->progress);
	ps_usage_sample(w->usage);
	return true;
}

static unsigned int servers_of(const struct ps_bench *b,
			       const struct ps_case *c)
{
	return c->strategy == PS_SERVER ? b->o.servers : 0;
}

static int start_all(const struct ps_bench *b, const struct ps_case *c,
		     struct ps_child *child, struct pl_err *err)
{
	unsigned int i;
	int rc = 0;

	for (i = 0; i < servers_of(b, c) && rc == 0; i++)
		rc = start_server(b, c, i, child++, err);
	for (i = 0; i < b->o.workers && rc == 0; i++)
		rc = start_worker(b, c, i, child++, err);
	return rc;
}

/* Far beyond what any machine needs: only a run that hangs gets there. */
static int timeout_ms(const struct ps_bench *b, const struct ps_case *c)
{
	unsigned int batch = ps_opts_batch(&b->o, c->model);
	double step = 5 + (double)ps_model_compute_ns(c->model, b->o.compute,
						      batch) / 1e9;
	double s;

	step += 40.0 * b->o.workers * (double)c->model->elems * 4 / 1e9;
	s = 60 + step * (b->o.steps + b->o.warmup);
	return (int)PL_MIN(s * 1e3, 2e9);
}

static void fill_run(const struct ps_bench *b, const struct ps_case *c,
		     const struct ps_outcome *r, const struct ps_usage *usage,
		     struct ps_run *run)
{
	double s = (double)(r->t_last_ns - r->t_first_ns) / 1e9;
	double bytes = (double)c->model->elems * sizeof(float) *
		       b->o.workers * b->o.steps;
	unsigned int batch = ps_opts_batch(&b->o, c->model);

	memset(run, 0, sizeof(*run));
	run->grad_bytes_per_s = bytes / s;
	run->bytes_per_s = 2 * bytes / s;
	run->images_per_s = (double)batch * b->o.workers * b->o.steps / s;
	run->step_p50_ms = ps_outcome_step_ms(r, 0.50);
	run->step_p99_ms = ps_outcome_step_ms(r, 0.99);
	for (unsigned int i = 0; i < PS_COUNTERS; i++)
		run->used[i] = ps_usage_between(usage, i, r->t_first_ns,
						r->t_last_ns);
	run->cpu_s_per_gb = run->used[PS_BUSY] / bytes;
	snprintf(run->path, sizeof(run->path), "%s", r->path);
	snprintf(run->grad_path, sizeof(run->grad_path), "%s", r->grad_path);
	snprintf(run->param_path, sizeof(run->param_path), "%s",
		 r->param_path);
	run->nic = r->nic;
	run->local_sum = r->local_sum;
	run->verified = r->verified;
	run->checksum = r->checksum;
	memcpy(run->curve, r->curve, sizeof(run->curve));
	run->n_curve = r->n_curve;
	run->stale_mean = r->staleness.chunks ?
		(double)r->staleness.updates / (double)r->staleness.chunks :
		NAN;
	run->stale_max = r->staleness.chunks ? (double)r->staleness.most : NAN;
	run->sent_bytes = r->sent_bytes / b->o.workers / b->o.steps;
}

int ps_run_case(struct ps_bench *b, const struct ps_case *c,
		struct ps_run *run, struct pl_err *err)
{
	unsigned int n = servers_of(b, c) + b->o.workers;
	struct ps_child child[PS_SERVERS_MAX + PS_WORKERS_MAX] = { 0 };
	struct watched seen = { .progress = &b->progress };
	struct ps_watch watch = b->watch;
	struct ps_opts o = b->o;
	struct ps_outcome out = { 0 };
	int rc;

	rc = ps_usage_create(&b->cluster, child, n, servers_of(b, c),
			     &seen.usage, err);
	if (rc < 0)
		return rc;
	o.compressions = 1u << c->compression;
	watch.tick = look;
	watch.arg = &seen;
	rc = start_all(b, c, child, err);
	if (rc == 0)
		rc = ps_cluster_wait(&b->cluster, child, n, &watch,
				     timeout_ms(b, c), err);
	ps_usage_sample(seen.usage);
	if (rc == 0)
		rc = ps_outcome_read(&o, c->strategy, child, n, &out, err);
	if (rc == 0) {
		fill_run(b, c, &out, seen.usage, run);
		ps_outcome_list(b->machine.overlay_congestion,
				sizeof(b->machine.overlay_congestion),
				out.congestion);
	}
	ps_outcome_fini(&out);
	ps_usage_destroy(seen.usage);
	ps_children_end(child, n);
	if (rc < 0 && rc != -EINTR)
		pl_err_prefix(err, "%s, %s, %s, %s", c->model->name,
			      ps_placement_name(c->placement),
			      ps_transport_name(c->transport),
			      ps_strategy_name(c->strategy));
	return rc;
}

/* --- plain streams --- */

static int start_raw(const struct ps_bench *b, enum ps_placement p, bool bidir,
		     struct ps_child *child, struct pl_err *err)
{
	const struct ps_opts *o = &b->o;
	int rc = 0;

	for (unsigned int s = 0; s < o->servers && rc == 0; s++) {
		const struct ps_pod *pod = ps_pod_of_server(b, p, s);
		struct args a = { .n = 0 };

		arg(&a, "ps_throughput");
		arg(&a, "raw-recv");
		arg(&a, "--workers=%u", o->workers);
		arg(&a, "--bind=%s", pod->addr);
		if (bidir)
			arg(&a, "--bidir");
		rc = start_role(child++, &a, "raw-recv", s, pod->ns.netns, err);
		args_free(&a);
	}
	for (unsigned int i = 0; i < o->servers * o->workers && rc == 0; i++) {
		const struct ps_pod *to = ps_pod_of_server(b, p,
							   i % o->servers);
		const struct ps_pod *from = ps_pod_of_worker(b, p,
							i / o->servers);
		struct args a = { .n = 0 };

		arg(&a, "ps_throughput");
		arg(&a, "raw-send");
		arg(&a, "--server=%s", to->addr);
		arg(&a, "--duration=%u", PS_RAW_MS);
		if (bidir)
			arg(&a, "--bidir");
		rc = start_role(child++, &a, "raw-send", i,
				from->ns.netns, err);
		args_free(&a);
	}
	return rc;
}

int ps_run_raw(struct ps_bench *b, enum ps_placement placement, bool bidir,
	       double *bytes_per_s, struct pl_err *err)
{
	unsigned int n = b->o.servers * (b->o.workers + 1);
	pl_auto_free struct ps_child *child = calloc(n, sizeof(*child));
	int rc;

	if (!child)
		return pl_err_set(err, ENOMEM, "out of memory");
	rc = start_raw(b, placement, bidir, child, err);
	if (rc == 0)
		rc = ps_cluster_wait(&b->cluster, child, n, &b->watch, 60000,
				     err);
	if (rc == 0)
		rc = ps_outcome_raw(child + b->o.servers, n - b->o.servers,
				    bytes_per_s, err);
	ps_children_end(child, n);
	if (rc < 0 && rc != -EINTR)
		pl_err_prefix(err, "raw rate, %s",
			      ps_placement_name(placement));
	return rc;
}
