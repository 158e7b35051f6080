/*
 * bench/ps_overlay_server.c - the server's side of the overlay transport
 *
 * Two threads per worker: one receives its gradients, one sends parameters as
 * soon as they are new. Gradients arrive where they are summed from: a worker
 * has SLOTS places of one chunk each, small enough to stay in the cache. The
 * thread that brings the last gradients of a chunk updates its parameters, with
 * those of all workers in the order of their ranks, straight from the slots;
 * nothing of the model's size is kept but the parameters. A worker begins a
 * step when it has all parameters of the one before, so no chunk is updated
 * while a worker still has to be sent its last state.
 *
 * Each thread handles chunks in order, so chunks are finished in order too, and
 * one counter says which parameters may be sent and which slots are free. A
 * worker that is SLOTS chunks ahead of the slowest one is not read from until
 * that has caught up. The slowest one is always read from, by every server that
 * it has something for, and nobody waits for parameters to be sent: so the
 * least chunk that is unfinished anywhere always comes to its end.
 */
#include "bench/ps_overlay.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/util.h"
#include "bench/ps_kernels.h"
#include "bench/ps_stale.h"

#define SLOTS 4			/* chunk c goes into slot c % SLOTS */
#define LOCKS 64		/* asynchronous: chunk c has lock c % LOCKS */
#define SEND_CHUNKS 4		/* at most so many in one write */

struct server;

/* One worker, as the server sees it. */
struct peer {
	struct server *s;
	int fd;
	uint32_t rank;
	char addr[64];
	float *slots;		/* SLOTS chunks */
	uint64_t done;		/* async: its chunks that were applied */
	pthread_t receiver, sender;
};

struct server {
	const struct ps_job *job;
	uint32_t own_chunks;
	float *params;
	pthread_mutex_t locks[LOCKS];
	struct peer peers[PS_WORKERS_MAX];
	uint32_t threads;

	pthread_mutex_t lock;		/* of what follows, and peers' done */
	pthread_cond_t moved;
	uint64_t done;			/* sync: chunks finished */
	uint64_t applied;		/* async: chunks, of all workers */
	uint32_t arrived[SLOTS];	/* workers whose gradients are there */
	struct ps_stale stale;		/* async */
	struct pl_err failure;		/* the first one */
};

/* Every thread ends soon: nothing is received or sent any more. */
static void fail(struct server *s, const struct pl_err *err)
{
	uint32_t i;

	pthread_mutex_lock(&s->lock);
	if (!s->failure.code)
		s->failure = *err;
	for (i = 0; i < s->job->o.workers; i++)
		shutdown(s->peers[i].fd, SHUT_RDWR);
	pthread_cond_broadcast(&s->moved);
	pthread_mutex_unlock(&s->lock);
}

static void lost(struct peer *p, uint64_t chunk, int r)
{
	uint32_t step = (uint32_t)(chunk / p->s->own_chunks) + 1;
	struct pl_err err;

	if (r == -ECONNRESET || r == -EPIPE)
		pl_err_set(&err, ECONNRESET, "worker %u at %s closed the "
			   "connection in step %u of %u", p->rank, p->addr,
			   PL_MIN(step, p->s->job->steps), p->s->job->steps);
	else
		pl_err_set(&err, -r, "connection to worker %u at %s: %s",
			   p->rank, p->addr, strerror(-r));
	fail(p->s, &err);
}

static struct ps_chunk own_chunk(const struct server *s, uint32_t i)
{
	return ps_plan_chunk(&s->job->plan, i * s->job->o.servers +
			     s->job->o.rank);
}

static float *slot(const struct peer *p, uint64_t chunk)
{
	return p->slots + (chunk % SLOTS) * p->s->job->plan.chunk_elems;
}

/* With --raw there is nothing to keep: all chunks are in the same place. */
static float *params_of(const struct server *s, const struct ps_chunk *k)
{
	return s->params + (s->job->o.raw ? 0 : k->server_first);
}

/* A slot for this chunk; false: the job has failed. */
static bool wait_slot(struct server *s, uint64_t chunk)
{
	bool fine;

	pthread_mutex_lock(&s->lock);
	while (chunk >= s->done + SLOTS && !s->failure.code)
		pthread_cond_wait(&s->moved, &s->lock);
	fine = !s->failure.code;
	pthread_mutex_unlock(&s->lock);
	return fine;
}

/* The gradients of all workers for this chunk are in their slots. */
static void update(struct server *s, uint64_t chunk)
{
	struct ps_chunk k = own_chunk(s, (uint32_t)(chunk % s->own_chunks));
	const float *src[PS_WORKERS_MAX];
	uint32_t i;

	for (i = 0; i < s->job->o.workers; i++)
		src[i] = slot(&s->peers[i], chunk);
	if (!s->job->o.raw)
		ps_update(params_of(s, &k), src, s->job->o.workers, k.n);
	pthread_mutex_lock(&s->lock);
	s->arrived[chunk % SLOTS] = 0;
	s->done++;
	pthread_cond_broadcast(&s->moved);
	pthread_mutex_unlock(&s->lock);
}

static void apply_sync(struct peer *p, uint64_t chunk)
{
	struct server *s = p->s;
	bool last;

	/* Makes what the others received visible to who is last. */
	pthread_mutex_lock(&s->lock);
	last = ++s->arrived[chunk % SLOTS] == s->job->o.workers;
	pthread_mutex_unlock(&s->lock);
	if (last)
		update(s, chunk);
}

/*
 * Meanwhile these parameters may be on their way to another worker, who then
 * gets some of this update: that is what asynchronous means. No thread but
 * those with the lock writes them, and only the kernel reads them.
 */
static void update_while_sent(float *params, const float *src, uint32_t n)
{
	ps_update(params, &src, 1, n);
}

static void apply_async(struct peer *p, uint64_t chunk)
{
	struct server *s = p->s;
	struct ps_chunk k = own_chunk(s, (uint32_t)(chunk % s->own_chunks));
	pthread_mutex_t *lock = &s->locks[chunk % s->own_chunks % LOCKS];

	pthread_mutex_lock(lock);
	if (!s->job->o.raw)
		update_while_sent(params_of(s, &k), slot(p, chunk), k.n);
	pthread_mutex_lock(&s->lock);
	ps_stale_apply(&s->stale, p->rank, (uint32_t)(chunk % s->own_chunks),
		       chunk / s->own_chunks >= s->job->o.warmup);
	p->done++;
	s->applied++;
	pthread_cond_broadcast(&s->moved);
	pthread_mutex_unlock(&s->lock);
	pthread_mutex_unlock(lock);
}

/* Updates are before it or after it: the chunk's lock is held for both. */
static void copied(struct peer *p, uint32_t chunk)
{
	struct server *s = p->s;
	pthread_mutex_t *lock = &s->locks[chunk % LOCKS];

	pthread_mutex_lock(lock);
	pthread_mutex_lock(&s->lock);
	ps_stale_copied(&s->stale, p->rank, chunk);
	pthread_mutex_unlock(&s->lock);
	pthread_mutex_unlock(lock);
}

static void *receive(void *arg)
{
	struct peer *p = arg;
	struct server *s = p->s;
	uint64_t c, total = (uint64_t)s->own_chunks * s->job->steps;
	bool async = s->job->o.async;
	struct ps_chunk k;
	char bye = 0;
	int r;

	for (c = 0; c < total; c++) {
		if (!async && !wait_slot(s, c))
			return NULL;
		k = own_chunk(s, (uint32_t)(c % s->own_chunks));
		r = ps_tcp_recv(p->fd, slot(p, c), k.n * sizeof(float));
		if (r) {
			lost(p, c, r);
			return NULL;
		}
		if (async)
			apply_async(p, c);
		else
			apply_sync(p, c);
	}
	r = ps_tcp_recv(p->fd, &bye, 1);
	if (r || bye != PS_BYE)
		lost(p, c, r ? r : -EPROTO);
	return NULL;
}

/*
 * Chunks that this worker may be sent since the start, under the lock. An
 * asynchronous one gets the parameters once more when nobody changes them.
 */
static uint64_t ready(const struct peer *p)
{
	const struct server *s = p->s;
	uint64_t total = (uint64_t)s->own_chunks * s->job->steps;

	if (!s->job->o.async)
		return s->done;
	return p->done + (s->applied == total * s->job->o.workers ?
			  s->own_chunks : 0);
}

/* Chunks that may be sent when `sent` were; 0: the job has failed. */
static uint64_t wait_past(struct peer *p, uint64_t sent)
{
	struct server *s = p->s;
	uint64_t n;

	pthread_mutex_lock(&s->lock);
	while ((n = ready(p)) <= sent && !s->failure.code)
		pthread_cond_wait(&s->moved, &s->lock);
	if (s->failure.code)
		n = 0;
	pthread_mutex_unlock(&s->lock);
	return n;
}

/* Chunks `sent` and on, as far as they are ready and adjacent. */
static void *transmit(void *arg)
{
	struct peer *p = arg;
	struct server *s = p->s;
	uint64_t total = (uint64_t)s->own_chunks * s->job->steps;
	uint64_t end = total + (s->job->o.async ? s->own_chunks : 0);
	uint64_t sent, n, until;
	struct ps_chunk first, last;
	uint32_t i, k;
	int r;

	for (sent = 0; sent < end; sent += n) {
		until = wait_past(p, sent);
		if (until == 0)
			break;
		i = (uint32_t)(sent % s->own_chunks);
		n = PL_MIN(until - sent, (uint64_t)SEND_CHUNKS);
		n = PL_MIN(n, (uint64_t)s->own_chunks - i);
		first = own_chunk(s, i);
		/* The short one, which has a gap behind it or nothing. */
		if (first.n < s->job->plan.chunk_elems)
			n = 1;
		last = own_chunk(s, i + (uint32_t)n - 1);
		for (k = 0; k < n && s->job->o.async; k++)
			copied(p, i + k);
		r = ps_tcp_send(p->fd, params_of(s, &first),
				(last.server_first + last.n -
				 first.server_first) * sizeof(float));
		if (r) {
			lost(p, sent, r);
			break;
		}
	}
	return NULL;
}

static int greet(struct server *s, int fd, bool *seen, uint32_t *rank,
		 struct pl_err *err)
{
	struct ps_hello h;
	int r;

	r = ps_tcp_recv(fd, &h, sizeof(h));
	if (r)
		return pl_err_set(err, -r, "no hello: %s", strerror(-r));
	*rank = h.rank;
	return ps_hello_check(s->job, &h, seen, err);
}

/* A wrong one is told why and the others go on waiting for the right one. */
static int accept_one(struct server *s, int listener, uint64_t deadline_ns,
		      bool *seen, struct pl_err *err)
{
	struct pl_err why = { .code = 0 };
	struct ps_welcome w;
	struct peer *p;
	uint32_t rank = 0;
	int r, new_fd;

	r = ps_tcp_accept(listener, deadline_ns, &new_fd, err);
	if (r)
		return r;
	pl_auto_fd fd = new_fd;
	ps_tcp_timeout(fd, 2);
	if (greet(s, fd, seen, &rank, &why)) {
		ps_welcome_make(&why, &w);
		ps_tcp_send(fd, &w, sizeof(w));
		*err = why;
		return 0;
	}
	ps_tcp_timeout(fd, 0);
	p = &s->peers[rank];
	ps_tcp_peer(fd, p->addr, sizeof(p->addr));
	p->rank = rank;
	p->s = s;
	p->fd = pl_take_fd(&fd);
	return 1;
}

static int accept_all(struct server *s, struct pl_err *err)
{
	const struct ps_opts *o = &s->job->o;
	uint64_t end = pl_now_ns() + o->timeout_s * 1000000000ull;
	const struct pl_err fine = { .code = 0 };
	bool seen[PS_WORKERS_MAX] = { false };
	struct pl_err last = fine;
	struct ps_welcome w;
	pl_auto_fd fd = -1;
	uint32_t n = 0, i;
	int r;

	r = ps_tcp_listen(o->bind.n ? o->bind.text[0] : NULL,
			  ps_tcp_port(s->job, o->rank), &fd, err);
	while (!r && n < o->workers) {
		r = accept_one(s, fd, end, seen, &last);
		n += r == 1 ? 1 : 0;
		r = PL_MIN(r, 0);
	}
	if (r == -ETIMEDOUT)
		return pl_err_set(err, ETIMEDOUT, "%u of %u workers came "
				  "within %u s%s%s", n, o->workers,
				  o->timeout_s, last.code ? "; refused: " : "",
				  last.code ? last.msg : "");
	if (r) {
		*err = last.code ? last : *err;
		return r;
	}
	ps_welcome_make(&fine, &w);
	for (i = 0; i < n; i++) {
		r = ps_tcp_send(s->peers[i].fd, &w, sizeof(w));
		if (r)
			return pl_err_set(err, -r, "worker %u at %s has gone: "
					  "%s", i, s->peers[i].addr,
					  strerror(-r));
	}
	return 0;
}

static uint64_t slots_elems(const struct ps_job *job)
{
	return (uint64_t)SLOTS * job->plan.chunk_elems;
}

static uint64_t params_elems(const struct ps_job *job)
{
	return job->o.raw ? (uint64_t)SEND_CHUNKS * job->plan.chunk_elems :
			    ps_plan_server_elems(&job->plan, job->o.rank);
}

static int allocate(struct server *s, struct pl_err *err)
{
	const struct ps_job *job = s->job;
	struct ps_chunk k;
	uint32_t i;

	s->params = ps_floats_alloc(params_elems(job), err);
	if (!s->params)
		return -ENOMEM;
	for (i = 0; i < job->o.workers; i++) {
		s->peers[i].slots = ps_floats_alloc(slots_elems(job), err);
		if (!s->peers[i].slots)
			return -ENOMEM;
	}
	for (i = 0; i < s->own_chunks && !job->o.raw; i++) {
		k = own_chunk(s, i);
		ps_params_init(&job->plan, i * job->o.servers + job->o.rank,
			       params_of(s, &k));
	}
	return 0;
}

static void release(struct server *s)
{
	const struct ps_job *job = s->job;
	uint32_t i;

	for (i = 0; i < job->o.workers; i++) {
		pl_close_fd(&s->peers[i].fd);
		ps_floats_free(s->peers[i].slots, slots_elems(job));
	}
	for (i = 0; i < LOCKS; i++)
		pthread_mutex_destroy(&s->locks[i]);
	ps_stale_fini(&s->stale);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->moved);
	ps_floats_free(s->params, params_elems(job));
	free(s);
}

static int start(struct server *s, struct pl_err *err)
{
	uint32_t i;
	int r = 0;

	for (i = 0; i < s->job->o.workers && !r; i++) {
		r = pthread_create(&s->peers[i].receiver, NULL, receive,
				   &s->peers[i]);
		if (r)
			break;
		s->threads++;
		r = pthread_create(&s->peers[i].sender, NULL, transmit,
				   &s->peers[i]);
		s->threads += r ? 0 : 1;
	}
	if (!r)
		return 0;
	pl_err_set(err, r, "starting a thread: %s", strerror(r));
	fail(s, err);
	return -r;
}

static void join(struct server *s)
{
	uint32_t i;

	for (i = 0; i < s->threads; i++)
		pthread_join(i % 2 ? s->peers[i / 2].sender :
			     s->peers[i / 2].receiver, NULL);
}

static void report(struct server *s, struct ps_report *r)
{
	struct ps_chunk k;
	uint32_t i;

	for (i = 0; i < s->own_chunks && !s->job->o.raw; i++) {
		k = own_chunk(s, i);
		r->checksum += ps_checksum(params_of(s, &k), k.n, k.first);
	}
	r->n_grad_paths = s->job->o.workers;
	for (i = 0; i < r->n_grad_paths; i++)
		pl_format(r->grad_paths[i], sizeof(r->grad_paths[i]), "%s",
			  ps_tcp_path(s->job, s->peers[i].fd));
	pl_format(r->path, sizeof(r->path), "%s", r->grad_paths[0]);
	r->staleness = s->stale.sum;
}

static int overlay_run(const struct ps_job *job, struct ps_report *rep,
		       struct pl_err *err)
{
	struct server *s = calloc(1, sizeof(*s));
	uint32_t i;
	int r;

	if (!s)
		return pl_err_set(err, ENOMEM, "no memory for the server");
	s->job = job;
	s->own_chunks = ps_plan_server_chunks(&job->plan, job->o.rank);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->moved, NULL);
	for (i = 0; i < LOCKS; i++)
		pthread_mutex_init(&s->locks[i], NULL);
	for (i = 0; i < PS_WORKERS_MAX; i++)
		s->peers[i].fd = -1;
	r = allocate(s, err);
	if (!r && job->o.async)
		r = ps_stale_init(&s->stale, job->o.workers, s->own_chunks,
				  err);
	if (!r)
		r = accept_all(s, err);
	if (!r) {
		r = start(s, err);
		join(s);
		if (!r && s->failure.code) {
			*err = s->failure;
			r = -err->code;
		}
	}
	if (!r)
		report(s, rep);
	release(s);
	return r;
}

const struct ps_server_ops ps_overlay_server = { .run = overlay_run };
