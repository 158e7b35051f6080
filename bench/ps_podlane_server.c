/*
 * bench/ps_podlane_server.c - the server's side of the podlane transport
 *
 * Gradients are read where they are, in the regions of the workers or their
 * replicas on this node; parameters are updated where workers read them.
 *
 * Synchronous: some threads take chunks in turn, wait for all gradients of the
 * chunk and update. Chunks may get done out of order, but are published in
 * order: who finishes the next one publishes all that are done behind it.
 * Asynchronous: one thread per worker, a lock per chunk, no order.
 */
#include "bench/ps_podlane.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "bench/ps_kernels.h"
#include "bench/ps_overlay.h"
#include "bench/ps_stale.h"

#define THREADS_MAX 8
#define LOCKS 64

struct peer {
	struct server *s;
	struct pl_lane *lane;
	struct pl_region *grads;	/* NULL: a neighbour carries them */
	struct pl_lane_info info;
	struct ps_hello hello;
	pthread_t thread;		/* asynchronous */
};

struct server {
	const struct ps_job *job;
	struct pl_conn *conn;
	struct pl_listener *listener;
	struct pl_region *params;
	uint32_t own_chunks, greeted;
	struct peer peers[PS_WORKERS_MAX];	/* by rank */
	pthread_t threads[THREADS_MAX];
	pthread_mutex_t locks[LOCKS];		/* asynchronous, per chunk */
	atomic_uint_fast64_t next;		/* chunk nobody has taken */
	atomic_bool failed;

	pthread_mutex_t lock;		/* of what follows, and publishing */
	uint64_t published;		/* chunks */
	uint8_t *done;			/* per own chunk: finished, not yet
					 * published */
	struct ps_stale stale;		/* asynchronous */
	struct pl_err failure;
};

static void fail(struct server *s, const struct pl_err *err)
{
	pthread_mutex_lock(&s->lock);
	if (!s->failure.code)
		s->failure = *err;
	atomic_store(&s->failed, true);
	pthread_mutex_unlock(&s->lock);
}

static struct ps_chunk own_chunk(const struct server *s, uint32_t i)
{
	return ps_plan_chunk(&s->job->plan, i * s->job->o.servers +
			     s->job->o.rank);
}

/* Has a worker gone? Called under the lock: one thread per lane at a time. */
static int look(struct server *s, struct pl_err *err)
{
	uint32_t i;
	int r;

	for (i = 0; i < s->job->o.workers; i++) {
		r = ps_lane_look(s->peers[i].lane, err);
		if (r)
			return pl_err_set(err, ECONNRESET, "worker %u at %s "
					  "has ended in step %llu of %u", i,
					  s->peers[i].info.peer,
					  (unsigned long long)(s->published /
					  s->own_chunks) + 1, s->job->steps);
	}
	return 0;
}

/* 0, or -1 when the job has failed. */
static int wait_grads(struct server *s, struct peer *p, uint64_t version)
{
	struct pl_err err;
	int r, seen;

	do {
		r = pl_region_wait(p->grads, version, PS_SLICE_MS);
		if (!r)
			return 0;
		pthread_mutex_lock(&s->lock);
		seen = s->failure.code ? 0 : look(s, &err);
		pthread_mutex_unlock(&s->lock);
		if (!seen && r != -ETIMEDOUT)
			seen = pl_err_set(&err, -r, "gradients of worker %u at "
					  "%s: %s", p->hello.rank,
					  p->info.peer, r == -ECONNRESET ?
					  "the worker has ended" :
					  strerror(-r));
		if (seen)
			fail(s, &err);
	} while (!atomic_load(&s->failed));
	return -1;
}

/* Under the lock. */
static int publish(struct server *s, uint32_t i)
{
	struct ps_chunk k = own_chunk(s, i);

	return pl_region_publish(s->params, k.server_first * sizeof(float),
				 k.n * sizeof(float), NULL);
}

static void finished(struct server *s, uint32_t i)
{
	struct pl_err err;
	uint32_t next;
	int r = 0;

	pthread_mutex_lock(&s->lock);
	s->done[i] = 1;
	while (!r && s->done[next = (uint32_t)(s->published % s->own_chunks)]) {
		s->done[next] = 0;
		s->published++;
		r = publish(s, next);
	}
	pthread_mutex_unlock(&s->lock);
	if (r) {
		pl_err_set(&err, -r, "publishing parameters: %s",
			   strerror(-r));
		fail(s, &err);
	}
}

static const float *grads_of(const struct peer *p, struct ps_chunk k)
{
	return (const float *)pl_region_data(p->grads) + k.server_first;
}

static float *params_of(const struct server *s, struct ps_chunk k)
{
	return (float *)pl_region_data(s->params) + k.server_first;
}

/* The version at which gradients for own chunk i of this step are there. */
static uint64_t version_of(const struct server *s, uint32_t step, uint32_t i)
{
	return ps_grads_version(s->job, s->job->o.rank, step) + i + 1;
}

static void *serve_sync(void *arg)
{
	struct server *s = arg;
	uint64_t total = (uint64_t)s->own_chunks * s->job->steps, at;
	const float *src[PS_WORKERS_MAX];
	struct ps_chunk k;
	uint32_t i, w, n;

	while ((at = atomic_fetch_add(&s->next, 1)) < total) {
		i = (uint32_t)(at % s->own_chunks);
		k = own_chunk(s, i);
		for (w = 0, n = 0; w < s->job->o.workers; w++) {
			if (!s->peers[w].grads)
				continue;
			if (wait_grads(s, &s->peers[w],
				       version_of(s, (uint32_t)(at /
						  s->own_chunks), i)))
				return NULL;
			src[n++] = grads_of(&s->peers[w], k);
		}
		if (!s->job->o.raw)
			ps_update(params_of(s, k), src, n, k.n);
		finished(s, i);
	}
	return NULL;
}

/* The version of the parameters that the worker starts a step from. */
static int note_base(struct server *s, struct peer *p, uint32_t step)
{
	const uint32_t own = s->job->o.rank;
	uint64_t base;
	int r;

	if (wait_grads(s, p, ps_grads_version(s->job, own, step)))
		return -1;
	memcpy(&base, (const char *)pl_region_data(p->grads) +
	       ps_grads_base_at(s->job, own), sizeof(base));
	pthread_mutex_lock(&s->lock);
	r = ps_stale_copied_all(&s->stale, p->hello.rank, base);
	pthread_mutex_unlock(&s->lock);
	return r;
}

static int apply_async(struct server *s, struct peer *p, uint32_t step,
		       uint32_t i)
{
	struct ps_chunk k = own_chunk(s, i);
	const float *src = grads_of(p, k);
	int r;

	if (wait_grads(s, p, version_of(s, step, i)))
		return -1;
	pthread_mutex_lock(&s->locks[i % LOCKS]);
	if (!s->job->o.raw)
		ps_update(params_of(s, k), &src, 1, k.n);
	pthread_mutex_lock(&s->lock);
	s->published++;
	ps_stale_apply(&s->stale, p->hello.rank, i, step >= s->job->o.warmup);
	/* First: as soon as it is published, a copy can have it. */
	r = ps_stale_log(&s->stale, p->hello.rank, i);
	if (!r)
		r = publish(s, i);
	pthread_mutex_unlock(&s->lock);
	pthread_mutex_unlock(&s->locks[i % LOCKS]);
	return r;
}

static void *serve_async(void *arg)
{
	struct peer *p = arg;
	struct server *s = p->s;
	struct pl_err err = { .code = 0 };
	struct ps_welcome applied;
	uint32_t step, i;
	int r = 0;

	ps_welcome_make(&err, &applied);
	for (step = 0; step < s->job->steps && !r; step++) {
		r = note_base(s, p, step);
		for (i = 0; i < s->own_chunks && !r; i++)
			r = apply_async(s, p, step, i);
		if (!r)
			r = ps_lane_write(p->lane, &applied, sizeof(applied));
	}
	if (r && !atomic_load(&s->failed)) {
		pl_err_set(&err, -r, "worker %u at %s: %s", p->hello.rank,
			   p->info.peer, strerror(-r));
		fail(s, &err);
	}
	return NULL;
}

static int serve(struct server *s, struct pl_err *err)
{
	uint32_t i, n = s->job->o.workers;
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	bool async = s->job->o.async;
	pthread_t *t;
	int r = 0;

	if (!async)
		n = cores < 1 ? 1 : (uint32_t)PL_MIN(cores, THREADS_MAX);
	for (i = 0; i < n && !r; i++) {
		t = async ? &s->peers[i].thread : &s->threads[i];
		r = async ? pthread_create(t, NULL, serve_async, &s->peers[i]) :
			    pthread_create(t, NULL, serve_sync, s);
	}
	if (r) {
		i--;
		pl_err_set(err, r, "starting a thread: %s", strerror(r));
		fail(s, err);
	}
	while (i-- > 0)
		pthread_join(async ? s->peers[i].thread : s->threads[i], NULL);
	if (!s->failure.code)
		return 0;
	*err = s->failure;
	return -err->code;
}

/* Every worker checks the parameters and says goodbye. */
static int wait_byes(struct server *s, struct pl_err *err)
{
	struct peer *p;
	uint32_t i;
	char bye;
	int r;

	for (i = 0; i < s->job->o.workers; i++) {
		p = &s->peers[i];
		pl_lane_set_timeout(p->lane, PS_BYE_TIMEOUT_MS);
		r = ps_lane_read(p->lane, &bye, 1);
		if (r == -ECONNRESET)
			return pl_err_set(err, ECONNRESET, "worker %u at %s "
					  "has ended without a goodbye", i,
					  p->info.peer);
		if (r || bye != PS_BYE)
			return pl_err_set(err, EPROTO, "no goodbye of worker "
					  "%u at %s", i, p->info.peer);
	}
	return 0;
}

/* Why the job ends, for all that are still there. */
static void tell(struct server *s, const struct pl_err *err)
{
	struct ps_welcome m;
	uint32_t i;

	ps_welcome_make(err, &m);
	for (i = 0; i < s->job->o.workers; i++) {
		if (s->peers[i].lane) {
			pl_lane_set_timeout(s->peers[i].lane, 1000);
			ps_lane_write(s->peers[i].lane, &m, sizeof(m));
		}
	}
}

/* 1: a worker of this job; 0: another one, was told why not. */
static int accept_one(struct server *s, bool *seen, int timeout_ms,
		      struct pl_err *last, struct pl_err *err)
{
	struct pl_err why = { .code = 0 };
	struct ps_welcome m;
	struct ps_hello h;
	struct pl_lane *lane;
	int r;

	r = pl_accept(s->listener, timeout_ms, &lane, err);
	if (r)
		return r;
	pl_lane_set_timeout(lane, 2000);
	r = ps_lane_read(lane, &h, sizeof(h));
	if (r)
		pl_err_set(&why, -r, "no hello: %s", strerror(-r));
	else
		r = ps_hello_check(s->job, &h, seen, &why);
	if (r) {
		ps_welcome_make(&why, &m);
		ps_lane_write(lane, &m, sizeof(m));
		pl_lane_close(lane);
		*last = why;
		return 0;
	}
	pl_lane_set_timeout(lane, -1);
	pl_lane_info(lane, &s->peers[h.rank].info);
	s->peers[h.rank].s = s;
	s->peers[h.rank].hello = h;
	s->peers[h.rank].lane = lane;
	return 1;
}

static int accept_all(struct server *s, struct pl_err *err)
{
	const struct ps_opts *o = &s->job->o;
	uint64_t end = pl_now_ns() + o->timeout_s * 1000000000ull, now;
	bool seen[PS_WORKERS_MAX] = { false };
	struct pl_err last = { .code = 0 };
	uint32_t n = 0;
	int r;

	while (n < o->workers) {
		now = pl_now_ns();
		r = now >= end ? -ETIMEDOUT :
		    accept_one(s, seen, (int)((end - now) / 1000000u) + 1,
			       &last, err);
		if (r == -ETIMEDOUT)
			return pl_err_set(err, ETIMEDOUT, "%u of %u workers "
					  "came within %u s%s%s", n,
					  o->workers, o->timeout_s, last.code ?
					  "; refused: " : "", last.msg);
		if (r < 0)
			return r;
		n += (uint32_t)r;
	}
	return 0;
}

static int open_grads(struct server *s, struct pl_err *err)
{
	const struct ps_job *job = s->job;
	char name[PL_NAME_BYTES];
	uint32_t i, carried = 0;
	struct peer *p;
	int r;

	ps_name_grads(job, job->o.rank, name, sizeof(name));
	for (i = 0; i < job->o.workers; i++) {
		p = &s->peers[i];
		carried += p->hello.carries;
		if (!p->hello.carries)
			continue;
		r = pl_region_open(s->conn, p->info.peer, name,
				   (int)job->o.timeout_s * 1000, &p->grads,
				   err);
		if (r) {
			pl_err_prefix(err, "gradients of worker %u at %s", i,
				      p->info.peer);
			return r;
		}
		if (pl_region_size(p->grads) <
		    ps_grads_bytes(job, job->o.rank))
			return pl_err_set(err, EPROTO, "the gradients of "
					  "worker %u are too small", i);
	}
	if (carried != job->o.workers)
		return pl_err_set(err, EINVAL, "the workers send gradients of "
				  "%u, not of %u: give all workers of a node "
				  "the same --local-sum and --local", carried,
				  job->o.workers);
	return 0;
}

static int set_up(struct server *s, struct pl_err *err)
{
	const struct pl_lane_opts opts = { .flags = 0 };
	const struct ps_job *job = s->job;
	char name[PL_NAME_BYTES];
	uint32_t i;
	int r;

	r = pl_open(&s->conn, err);
	if (r)
		return r;
	ps_name_params(job, job->o.rank, name, sizeof(name));
	r = pl_region_create(s->conn, name,
			     ps_plan_server_elems(&job->plan, job->o.rank) *
			     sizeof(float), 0, &s->params, err);
	if (r)
		return r;
	for (i = 0; i < s->own_chunks; i++)
		ps_params_init(&job->plan, i * job->o.servers + job->o.rank,
			       params_of(s, own_chunk(s, i)));
	ps_name_service(job, job->o.rank, name, sizeof(name));
	r = pl_listen(s->conn, name, &opts, &s->listener, err);
	if (!r)
		r = accept_all(s, err);
	return r ? r : open_grads(s, err);
}

static int welcome_all(struct server *s, struct pl_err *err)
{
	const struct pl_err fine = { .code = 0 };
	struct ps_welcome m;
	uint32_t i;
	int r;

	ps_welcome_make(&fine, &m);
	for (i = 0; i < s->job->o.workers; i++) {
		r = ps_lane_write(s->peers[i].lane, &m, sizeof(m));
		if (r)
			return pl_err_set(err, -r, "worker %u at %s has gone: "
					  "%s", i, s->peers[i].info.peer,
					  strerror(-r));
	}
	return 0;
}

static void report(struct server *s, struct ps_report *r)
{
	struct pl_region_info info;
	struct ps_chunk k;
	uint32_t i;

	for (i = 0; i < s->own_chunks; i++) {
		k = own_chunk(s, i);
		r->checksum += ps_checksum(params_of(s, k), k.n, k.first);
	}
	for (i = 0; i < s->job->o.workers; i++) {
		if (!s->peers[i].grads)
			continue;
		pl_region_info(s->peers[i].grads, &info);
		pl_format(r->grad_paths[r->n_grad_paths++], PS_PATH_BYTES,
			  "%s", info.path);
	}
	pl_format(r->path, sizeof(r->path), "%s", r->grad_paths[0]);
	r->staleness = s->stale.sum;
}

static void release(struct server *s)
{
	uint32_t i;

	for (i = 0; i < s->job->o.workers; i++) {
		if (s->peers[i].grads)
			pl_region_close(s->peers[i].grads);
		if (s->peers[i].lane)
			pl_lane_close(s->peers[i].lane);
	}
	for (i = 0; i < LOCKS; i++)
		pthread_mutex_destroy(&s->locks[i]);
	if (s->listener)
		pl_unlisten(s->listener);
	if (s->params)
		pl_region_close(s->params);
	if (s->conn)
		pl_close(s->conn);
	pthread_mutex_destroy(&s->lock);
	ps_stale_fini(&s->stale);
	free(s->done);
	free(s);
}

static int podlane_run(const struct ps_job *job, struct ps_report *rep,
		       struct pl_err *err)
{
	struct server *s = calloc(1, sizeof(*s));
	uint32_t i;
	int r;

	if (!s)
		return pl_err_set(err, ENOMEM, "no memory for the server");
	s->job = job;
	s->own_chunks = ps_plan_server_chunks(&job->plan, job->o.rank);
	s->done = calloc(s->own_chunks, 1);
	pthread_mutex_init(&s->lock, NULL);
	for (i = 0; i < LOCKS; i++)
		pthread_mutex_init(&s->locks[i], NULL);
	r = s->done ? 0 : pl_err_set(err, ENOMEM, "no memory for the server");
	if (!r && job->o.async)
		r = ps_stale_init(&s->stale, job->o.workers, s->own_chunks,
				  err);
	if (!r)
		r = set_up(s, err);
	if (!r)
		r = welcome_all(s, err);
	if (!r)
		r = serve(s, err);
	if (!r)
		r = wait_byes(s, err);
	if (r)
		tell(s, err);
	else
		report(s, rep);
	release(s);
	return r;
}

const struct ps_server_ops ps_podlane_server = { .run = podlane_run };
