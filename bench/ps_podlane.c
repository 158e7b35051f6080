/*
 * bench/ps_podlane.c - the worker's side of the podlane transport
 */
#include "bench/ps_podlane.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "bench/ps_kernels.h"
#include "bench/ps_overlay.h"

struct worker {
	const struct ps_job *job;
	struct pl_conn *conn;
	struct pl_lane *lanes[PS_SERVERS_MAX];
	struct pl_region *params[PS_SERVERS_MAX];
	struct for_server {
		struct pl_region *grads;
		/* Whose gradients this one sums. */
		struct pl_region *neighbours[PS_WORKERS_MAX];
		uint32_t n_neighbours;
		bool local_sum;
	} to[PS_SERVERS_MAX];
	uint64_t sent, received;
};

static int lost_server(const struct worker *w, uint32_t s, int r,
		       struct pl_err *err)
{
	const char *addr = w->job->o.server.text[s];

	if (r == -ECONNRESET || r == -EPIPE)
		return pl_err_set(err, ECONNRESET, "server %u at %s has ended",
				  s, addr);
	return pl_err_set(err, -r, "lane to server %u at %s: %s", s, addr,
			  strerror(-r));
}

/* Has any server gone or sent why it failed? */
static int look(struct worker *w, struct pl_err *err)
{
	struct pl_err said = { .code = 0 };
	uint32_t s;
	int r;

	for (s = 0; s < w->job->o.servers; s++) {
		r = ps_lane_look(w->lanes[s], &said);
		if (r && said.code)
			return pl_err_set(err, said.code, "server %u: %.900s",
					  s, said.msg);
		if (r)
			return lost_server(w, s, r, err);
	}
	return 0;
}

static int wait_region(struct worker *w, struct pl_region *region,
		       uint64_t version, const char *what, struct pl_err *err)
{
	struct pl_region_info info;
	int r, seen;

	do {
		r = pl_region_wait(region, version, PS_SLICE_MS);
		if (!r)
			return 0;
		seen = look(w, err);
		if (seen)
			return seen;
	} while (r == -ETIMEDOUT);
	pl_region_info(region, &info);
	return pl_err_set(err, -r, "%s of %s: %s", what, info.owner,
			  r == -ECONNRESET ? "the owner has ended" :
			  strerror(-r));
}

static int fill(struct worker *w, uint32_t step, uint32_t c,
		struct pl_err *err)
{
	const struct ps_plan *plan = &w->job->plan;
	struct ps_chunk k = ps_plan_chunk(plan, c);
	uint64_t version = ps_grads_version(w->job, k.server, step) +
			   c / plan->servers + 1;
	const struct for_server *to = &w->to[k.server];
	const float *src[PS_WORKERS_MAX];
	uint32_t i;
	int r;

	ps_pace_wait(w->job, c);
	for (i = 0; i < to->n_neighbours; i++) {
		r = wait_region(w, to->neighbours[i], version, "gradients",
				err);
		if (r)
			return r;
		src[i] = (const float *)pl_region_data(to->neighbours[i]) +
			 k.server_first;
	}
	if (!w->job->o.raw)
		ps_fill_sum(plan, c, w->job->o.rank, step, src,
			    to->n_neighbours,
			    (float *)pl_region_data(to->grads) +
			    k.server_first);
	r = pl_region_publish(to->grads, k.server_first * sizeof(float),
			      k.n * sizeof(float), NULL);
	if (r)
		return pl_err_set(err, -r, "publishing gradients: %s",
				  strerror(-r));
	w->sent += k.n * sizeof(float);
	return 0;
}

/* Asynchronous: each server says when it has applied the step. */
static int wait_applied(struct worker *w, struct pl_err *err)
{
	struct ps_welcome m;
	uint32_t s;
	int r;

	for (s = 0; s < w->job->o.servers; s++) {
		r = ps_lane_read(w->lanes[s], &m, sizeof(m));
		if (r)
			return lost_server(w, s, r, err);
		r = ps_welcome_check(&m, err);
		if (r)
			return r;
	}
	return 0;
}

static int wait_params(struct worker *w, uint64_t rounds, struct pl_err *err)
{
	const struct ps_plan *plan = &w->job->plan;
	uint32_t s;
	int r = 0;

	for (s = 0; s < w->job->o.servers && !r; s++)
		r = wait_region(w, w->params[s],
				rounds * ps_plan_server_chunks(plan, s),
				"parameters", err);
	return r;
}

/* Asynchronous: the parameters that this step starts from. */
static int publish_base(struct worker *w, uint32_t s, struct pl_err *err)
{
	size_t at = ps_grads_base_at(w->job, s);
	struct pl_region *grads = w->to[s].grads;
	struct pl_region_info info;
	int r;

	pl_region_info(w->params[s], &info);
	memcpy((char *)pl_region_data(grads) + at, &info.version,
	       sizeof(info.version));
	r = pl_region_publish(grads, at, sizeof(info.version), NULL);
	if (r)
		return pl_err_set(err, -r, "publishing a version: %s",
				  strerror(-r));
	return 0;
}

static int podlane_step(void *state, uint32_t step, struct pl_err *err)
{
	struct worker *w = state;
	uint32_t c, s;
	int r = 0;

	for (s = 0; s < w->job->o.servers && w->job->o.async && !r; s++)
		r = publish_base(w, s, err);
	for (c = 0; c < w->job->plan.n_chunks && !r; c++)
		r = fill(w, step, c, err);
	if (r)
		return r;
	w->received += w->job->model_bytes;
	return w->job->o.async ? wait_applied(w, err) :
				 wait_params(w, step + 1, err);
}

static int podlane_settle(void *state, struct pl_err *err)
{
	struct worker *w = state;
	uint64_t rounds = w->job->steps;

	if (w->job->o.async)
		rounds *= w->job->o.workers;
	return wait_params(w, rounds, err);
}

static const float *podlane_param(void *state, uint32_t chunk)
{
	struct worker *w = state;
	struct ps_chunk k = ps_plan_chunk(&w->job->plan, chunk);

	return (const float *)pl_region_data(w->params[k.server]) +
	       k.server_first;
}

static int podlane_bye(void *state, struct pl_err *err)
{
	const char bye = PS_BYE;
	struct worker *w = state;
	uint32_t s;
	int r;

	for (s = 0; s < w->job->o.servers; s++) {
		r = ps_lane_write(w->lanes[s], &bye, 1);
		if (r)
			return lost_server(w, s, r, err);
	}
	return 0;
}

static void podlane_bytes(void *state, uint64_t *sent, uint64_t *received)
{
	struct worker *w = state;

	*sent = w->sent;
	*received = w->received;
}

static void close_regions(struct for_server *to)
{
	for (uint32_t i = 0; i < to->n_neighbours; i++)
		pl_region_close(to->neighbours[i]);
	if (to->grads)
		pl_region_close(to->grads);
}

static void podlane_close(void *state)
{
	struct worker *w = state;
	uint32_t i;

	for (i = 0; i < PS_SERVERS_MAX; i++) {
		if (w->params[i])
			pl_region_close(w->params[i]);
		if (w->lanes[i])
			pl_lane_close(w->lanes[i]);
		close_regions(&w->to[i]);
	}
	if (w->conn)
		pl_close(w->conn);
	free(w);
}

static int connect_lane(struct worker *w, uint32_t s, struct pl_err *err)
{
	const struct ps_opts *o = &w->job->o;
	char name[PL_NAME_BYTES];
	int r;

	ps_name_service(w->job, s, name, sizeof(name));
	r = ps_lane_connect(w->conn, o->server.text[s], name, NULL,
			    o->timeout_s, &w->lanes[s], err);
	if (r)
		pl_err_prefix(err, "server %u at %s", s, o->server.text[s]);
	return r;
}

static bool is_remote(const struct worker *w, uint32_t s)
{
	struct pl_lane_info info;

	pl_lane_info(w->lanes[s], &info);
	return strcmp(info.path, "shm");
}

/* A server of this node reads all of its workers itself. */
static int decide(struct worker *w, struct pl_err *err)
{
	const struct ps_opts *o = &w->job->o;

	if (o->local_sum == PS_SUM_ON && o->async)
		return pl_err_set(err, EINVAL, "--local-sum on is for --sync");
	for (uint32_t s = 0; s < o->servers; s++)
		w->to[s].local_sum = o->local_sum == PS_SUM_ON ||
			(o->local_sum == PS_SUM_AUTO && !o->async &&
			 o->local.n > 1 && is_remote(w, s));
	return 0;
}

static int open_neighbour(struct worker *w, uint32_t s, uint32_t i,
			  struct pl_err *err)
{
	const struct ps_opts *o = &w->job->o;
	struct for_server *to = &w->to[s];
	struct pl_region *r;
	char name[PL_NAME_BYTES];
	int rc;

	ps_name_grads(w->job, s, name, sizeof(name));
	rc = pl_region_open(w->conn, o->local.text[i], name,
			    (int)o->timeout_s * 1000, &r, err);
	if (rc) {
		pl_err_prefix(err, "gradients of the neighbour at %s",
			      o->local.text[i]);
		return rc;
	}
	to->neighbours[to->n_neighbours++] = r;
	if (pl_region_size(r) < ps_plan_server_elems(&w->job->plan, s) *
				sizeof(float))
		return pl_err_set(err, EPROTO, "the gradients of %s are too "
				  "small", o->local.text[i]);
	return 0;
}

static int open_neighbours(struct worker *w, uint32_t s, struct pl_err *err)
{
	const struct ps_opts *o = &w->job->o;
	int rc = 0;

	if (!w->to[s].local_sum || o->node_rank)
		return 0;
	for (uint32_t i = 1; i < o->local.n && !rc; i++)
		rc = open_neighbour(w, s, i, err);
	return rc;
}

static int greet(struct worker *w, uint32_t s, struct pl_err *err)
{
	const struct ps_opts *o = &w->job->o;
	struct ps_hello hello;
	int r;

	ps_hello_make(w->job, s, &hello);
	if (w->to[s].local_sum)
		hello.carries = o->node_rank ? 0 : o->local.n;
	r = ps_lane_write(w->lanes[s], &hello, sizeof(hello));
	return r ? lost_server(w, s, r, err) : 0;
}

/* Each server answers when all workers have come and it has their regions. */
static int welcomed(struct worker *w, uint32_t s, struct pl_err *err)
{
	int timeout_ms = (int)w->job->o.timeout_s * 1000 + 5000;
	char name[PL_NAME_BYTES];
	struct ps_welcome m;
	int r;

	pl_lane_set_timeout(w->lanes[s], timeout_ms);
	r = ps_lane_read(w->lanes[s], &m, sizeof(m));
	if (r)
		return lost_server(w, s, r, err);
	r = ps_welcome_check(&m, err);
	if (r)
		return r;
	pl_lane_set_timeout(w->lanes[s], -1);
	ps_name_params(w->job, s, name, sizeof(name));
	r = pl_region_open(w->conn, w->job->o.server.text[s], name, timeout_ms,
			   &w->params[s], err);
	if (r) {
		pl_err_prefix(err, "parameters of server %u", s);
		return r;
	}
	if (pl_region_size(w->params[s]) <
	    ps_plan_server_elems(&w->job->plan, s) * sizeof(float))
		return pl_err_set(err, EPROTO, "the parameters of server %u "
				  "are too small", s);
	return 0;
}

static int create_grads(struct worker *w, uint32_t s, struct pl_err *err)
{
	char name[PL_NAME_BYTES];

	ps_name_grads(w->job, s, name, sizeof(name));
	return pl_region_create(w->conn, name,
				ps_grads_bytes(w->job, s), 0,
				&w->to[s].grads, err);
}

static int set_up(struct worker *w, struct pl_err *err)
{
	const struct ps_opts *o = &w->job->o;
	uint32_t s;
	int r;

	r = pl_open(&w->conn, err);
	for (s = 0; s < o->servers && !r; s++)
		r = create_grads(w, s, err);
	for (s = 0; s < o->servers && !r; s++)
		r = connect_lane(w, s, err);
	if (!r)
		r = decide(w, err);
	for (s = 0; s < o->servers && !r; s++)
		r = greet(w, s, err);
	for (s = 0; s < o->servers && !r; s++)
		r = open_neighbours(w, s, err);
	for (s = 0; s < o->servers && !r; s++)
		r = welcomed(w, s, err);
	return r;
}

/* Servers on this node and on others: both stand there. */
static void add_path(char *list, const char *path)
{
	size_t len = strlen(list);

	if (!strstr(list, path))
		snprintf(list + len, PS_PATH_BYTES - len, "%s%s",
			 len ? "+" : "", path);
}

static void report_paths(struct worker *w, struct ps_report *rep)
{
	struct pl_region_info region;
	struct pl_lane_info lane;
	uint32_t s;

	for (s = 0; s < w->job->o.servers; s++) {
		pl_lane_info(w->lanes[s], &lane);
		add_path(rep->path, lane.path);
		pl_region_info(w->params[s], &region);
		add_path(rep->param_path, region.path);
	}
}

static int podlane_open(const struct ps_job *job, void **state,
			struct ps_report *rep, struct pl_err *err)
{
	struct worker *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return pl_err_set(err, ENOMEM, "no memory for the worker");
	w->job = job;
	r = set_up(w, err);
	if (r) {
		podlane_close(w);
		return r;
	}
	report_paths(w, rep);
	for (uint32_t s = 0; s < job->o.servers; s++)
		rep->local_sum |= w->to[s].local_sum;
	*state = w;
	return 0;
}

const struct ps_worker_ops ps_podlane_worker = {
	.open = podlane_open,
	.step = podlane_step,
	.settle = podlane_settle,
	.param = podlane_param,
	.bye = podlane_bye,
	.bytes = podlane_bytes,
	.close = podlane_close,
};
