/*
 * bench/ps_ring.c - ring all-reduce between workers, over any transport
 *
 * Theory of operation
 *
 * n workers stand in a ring; each sends to the next one and receives from the
 * one before. The gradients are cut into n parts of equal size (chunk c is of
 * part c % n). In n - 1 rounds sums go around: worker i sends part i - r in
 * round r and adds what it receives, part i - r - 1, to its own. Then worker i
 * has all of part i + 1, and n - 1 more rounds pass the sums on until everybody
 * has all of them. Each worker moves 2 (n - 1) / n of the model each way, the
 * least that any all-reduce can (Patarasu and Yuan, 2009).
 *
 * Where gradients come one after the other (--overlap), some chunks at a time
 * go around, a bucket; else all of them are one bucket.
 *
 * What is received in one round is sent in the next, chunk by chunk: a second
 * thread sends, as far as `received` allows. The sums stand where the gradients
 * were, and each worker updates its own parameters with them.
 *
 * A chunk is filled when it is first touched: before it is sent in the first
 * round, or while the neighbour's is added.
 *
 * In a hierarchical job the workers of the ring are the nodes' leaders: what
 * they fill in is their node's sum, by ps_near.h.
 */
#include "bench/ps_ring.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "bench/ps_kernels.h"
#include "bench/ps_link.h"
#include "bench/ps_near.h"
#include "bench/ps_overlay.h"

/* 8 MB, of which each part has 2 MB at least. */
#define BUCKET_CHUNKS 16
#define PART_CHUNKS 4

struct ring {
	const struct ps_job *job;
	uint32_t n, rank;		/* places in the ring, and one's own */
	struct ps_near *near;		/* hierarchical; else NULL */
	char near_path[PS_PATH_BYTES];	/* of members, if there are some */
	struct ps_port port;
	struct ps_link next, prev;
	float *grads, *params;
	pthread_t sender;
	bool started;
	uint64_t sent, received_bytes;

	pthread_mutex_t lock;		/* of what follows */
	pthread_cond_t moved;
	uint32_t asked, done;		/* steps to be sent, and sent */
	uint64_t received;		/* chunks, in this step */
	struct pl_err failure;		/* of either thread */
	bool stop;
};

struct bucket {
	uint32_t first, n;		/* chunks */
};

/* --- parts and rounds ----------------------------------------------------- */

uint32_t ps_ring_rounds(uint32_t workers)
{
	return 2 * (workers - 1);
}

/* Sums go down by one part a round, and are passed on from one further up. */
uint32_t ps_ring_part(uint32_t workers, uint32_t rank, uint32_t round)
{
	uint32_t turn = round % (workers - 1);
	uint32_t first = round < workers - 1 ? rank : rank + 1;

	return (first + workers - turn) % workers;
}

uint32_t ps_ring_chunks(uint32_t n_chunks, uint32_t workers, uint32_t part)
{
	return (n_chunks + workers - 1 - part) / workers;
}

uint32_t ps_ring_bucket(const struct ps_plan *plan, uint32_t workers)
{
	uint32_t n = plan->back_first ? BUCKET_CHUNKS : plan->n_chunks;

	n = (n + workers - 1) / workers * workers;
	return plan->back_first ? PL_MAX(n, PART_CHUNKS * workers) : n;
}

/* The next bucket: its chunks from *first on; false: there is none. */
static bool next_bucket(const struct ring *w, struct bucket *b)
{
	uint32_t all = w->job->plan.n_chunks;

	b->first += b->n;
	b->n = PL_MIN(ps_ring_bucket(&w->job->plan, w->n), all - b->first);
	return b->n > 0;
}

/* What arrives in a round is what the worker before sends in it. */
static uint32_t part_in(const struct ring *w, uint32_t round)
{
	return ps_ring_part(w->n, (w->rank + w->n - 1) % w->n, round);
}

static bool is_sum_round(const struct ring *w, uint32_t round)
{
	return round < w->n - 1;
}

static float *place(const struct ring *w, float *array,
		    const struct ps_chunk *k)
{
	return array + (w->job->o.raw ? 0 : k->first);
}

static uint64_t array_elems(const struct ps_job *job)
{
	return job->o.raw ? job->plan.chunk_elems : job->plan.elems;
}

/* --- both threads --------------------------------------------------------- */

static int fail(struct ring *w, const struct pl_err *err)
{
	pthread_mutex_lock(&w->lock);
	if (!w->failure.code)
		w->failure = *err;
	pthread_cond_broadcast(&w->moved);
	pthread_mutex_unlock(&w->lock);
	return -err->code;
}

/* --- sending -------------------------------------------------------------- */

/* Wait until so many chunks of the step were received. */
static bool wait_received(struct ring *w, uint64_t chunks)
{
	bool ok;

	pthread_mutex_lock(&w->lock);
	while (w->received < chunks && !w->failure.code && !w->stop)
		pthread_cond_wait(&w->moved, &w->lock);
	ok = w->received >= chunks;
	pthread_mutex_unlock(&w->lock);
	return ok;
}

/* Own gradients, those of members and `got`, or NULL, into g. */
static int fill(struct ring *w, uint32_t step, uint32_t c, const float *got,
		float *g, struct pl_err *err)
{
	const float *src[PS_WORKERS_MAX];
	uint32_t n = 0;
	int rc;

	ps_pace_wait(w->job, c);
	if (got)
		src[n++] = got;
	rc = ps_near_take(w->near, step, c, src + n, err);
	if (rc >= 0 && !w->job->o.raw)
		ps_fill_sum(&w->job->plan, c, w->job->o.rank, step, src,
			    n + (uint32_t)rc, g);
	return rc < 0 ? rc : 0;
}

static int send_chunk(struct ring *w, uint32_t step, uint32_t round,
		      uint32_t c)
{
	const struct ps_plan *plan = &w->job->plan;
	struct ps_chunk k = ps_plan_chunk(plan, c);
	float *g = place(w, w->grads, &k);
	struct pl_err err;
	int rc = round ? 0 : fill(w, step, c, NULL, g, &err);

	if (rc < 0)
		return fail(w, &err);
	rc = ps_link_send(&w->next, g, k.n * sizeof(float));
	if (rc < 0) {
		ps_link_error(&w->next, rc, &err);
		return fail(w, &err);
	}
	w->sent += k.n * sizeof(float);
	return 0;
}

/* before: chunks received before those to be sent, of earlier buckets. */
static int send_bucket(struct ring *w, uint32_t step, const struct bucket *b,
		       uint64_t before)
{
	for (uint32_t r = 0; r < ps_ring_rounds(w->n); r++) {
		uint32_t part = ps_ring_part(w->n, w->rank, r);
		uint32_t n = ps_ring_chunks(b->n, w->n, part);

		for (uint32_t i = 0; i < n; i++) {
			if (r && !wait_received(w, before + i + 1))
				return -ECANCELED;
			if (send_chunk(w, step, r, b->first + i * w->n +
				       part) < 0)
				return -ECANCELED;
		}
		before += r ? n : 0;
	}
	return 0;
}

static int send_step(struct ring *w, uint32_t step)
{
	struct bucket b = { .n = 0 };
	uint64_t before = 0;
	int rc = 0;

	while (rc == 0 && next_bucket(w, &b)) {
		rc = send_bucket(w, step, &b, before);
		for (uint32_t r = 0; r < ps_ring_rounds(w->n); r++)
			before += ps_ring_chunks(b.n, w->n, part_in(w, r));
	}
	return rc;
}

static void *send_main(void *arg)
{
	struct ring *w = arg;
	int rc = 0;

	pthread_mutex_lock(&w->lock);
	while (rc == 0) {
		while (w->asked == w->done && !w->stop)
			pthread_cond_wait(&w->moved, &w->lock);
		if (w->stop)
			break;
		pthread_mutex_unlock(&w->lock);
		rc = send_step(w, w->done);
		pthread_mutex_lock(&w->lock);
		w->done += rc ? 0 : 1;
		pthread_cond_broadcast(&w->moved);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* --- receiving ------------------------------------------------------------ */

static int update(struct ring *w, uint32_t c, const float *sum,
		  struct pl_err *err)
{
	struct ps_chunk k = ps_plan_chunk(&w->job->plan, c);

	if (!w->job->o.raw)
		ps_update(w->params + k.first, &sum, 1, k.n);
	return ps_near_give(w->near, c, err);
}

static int take_chunk(struct ring *w, uint32_t step, uint32_t round,
		      uint32_t c, const float *src, struct pl_err *err)
{
	struct ps_chunk k = ps_plan_chunk(&w->job->plan, c);
	const float *sum = src;
	float *g = place(w, w->grads, &k);
	int rc = 0;

	if (is_sum_round(w, round)) {
		rc = fill(w, step, c, src, g, err);
		sum = g;
	} else if (!w->job->o.raw && round + 1 < ps_ring_rounds(w->n)) {
		memcpy(g, src, k.n * sizeof(float));
	}
	return rc == 0 && round + 2 >= w->n ? update(w, c, sum, err) : rc;
}

static int receive_chunk(struct ring *w, uint32_t step, uint32_t round,
			 uint32_t c, struct pl_err *err)
{
	size_t len = ps_plan_chunk(&w->job->plan, c).n * sizeof(float);
	const void *src;
	int rc = ps_link_peek(&w->prev, len, &src);

	if (rc < 0)
		return ps_link_error(&w->prev, rc, err);
	rc = take_chunk(w, step, round, c, src, err);
	if (rc < 0)
		return rc;
	rc = ps_link_consume(&w->prev, len);
	if (rc < 0)
		return ps_link_error(&w->prev, rc, err);
	w->received_bytes += len;
	pthread_mutex_lock(&w->lock);
	w->received++;
	pthread_cond_broadcast(&w->moved);
	rc = -w->failure.code;
	if (rc < 0)
		*err = w->failure;
	pthread_mutex_unlock(&w->lock);
	return rc;
}

static int receive_bucket(struct ring *w, uint32_t step,
			  const struct bucket *b, struct pl_err *err)
{
	for (uint32_t r = 0; r < ps_ring_rounds(w->n); r++) {
		uint32_t part = part_in(w, r);
		uint32_t n = ps_ring_chunks(b->n, w->n, part);

		for (uint32_t i = 0; i < n; i++) {
			int rc = receive_chunk(w, step, r, b->first +
					       i * w->n + part, err);

			if (rc < 0)
				return fail(w, err);
		}
	}
	return 0;
}

static int receive_step(struct ring *w, uint32_t step, struct pl_err *err)
{
	struct bucket b = { .n = 0 };
	int rc = 0;

	while (rc == 0 && next_bucket(w, &b))
		rc = receive_bucket(w, step, &b, err);
	return rc;
}

/* The only worker of the ring. */
static int step_alone(struct ring *w, uint32_t step, struct pl_err *err)
{
	const struct ps_plan *plan = &w->job->plan;
	int rc = 0;

	for (uint32_t c = 0; c < plan->n_chunks && rc == 0; c++) {
		struct ps_chunk k = ps_plan_chunk(plan, c);
		float *g = place(w, w->grads, &k);

		rc = fill(w, step, c, NULL, g, err);
		if (rc == 0)
			rc = update(w, c, g, err);
	}
	return rc;
}

static int ring_step(void *state, uint32_t step, struct pl_err *err)
{
	struct ring *w = state;
	int rc;

	if (w->n == 1)
		return step_alone(w, step, err);
	pthread_mutex_lock(&w->lock);
	w->received = 0;
	w->asked = step + 1;
	pthread_cond_broadcast(&w->moved);
	pthread_mutex_unlock(&w->lock);
	rc = receive_step(w, step, err);
	pthread_mutex_lock(&w->lock);
	while (w->done < w->asked && !w->failure.code)
		pthread_cond_wait(&w->moved, &w->lock);
	/* The thread whose error came first knows why. */
	if (w->failure.code) {
		*err = w->failure;
		rc = -err->code;
	}
	pthread_mutex_unlock(&w->lock);
	return rc;
}

/* --- beginning and end ---------------------------------------------------- */

static bool is_hierarchical(const struct ps_job *job)
{
	return job->o.strategies == PS_HIERARCHICAL;
}

/* The worker at a place of the ring. */
static uint32_t rank_at(const struct ring *w, uint32_t at)
{
	return is_hierarchical(w->job) ? ps_node_at(&w->job->o, at).first : at;
}

static int connect_next(struct ring *w, struct pl_err *err)
{
	uint32_t next = rank_at(w, (w->rank + 1) % w->n);

	return ps_link_connect(&w->port, w->job->o.peers.text[next], next,
			       &w->next, err);
}

static uint32_t rank_before(const struct ring *w)
{
	return rank_at(w, (w->rank + w->n - 1) % w->n);
}

/* Somebody who comes: a member, or the one before. */
static int accept_one(struct ring *w, bool *seen, struct pl_err *err)
{
	const uint32_t own = w->job->o.rank;
	struct ps_node node;
	struct ps_link link;
	uint32_t rank;
	int rc;

	if (!w->near)
		return ps_link_accept(&w->port, rank_before(w), &w->prev, err);
	node = ps_node_of_rank(&w->job->o, own);
	rc = ps_link_accept_any(&w->port, seen, &rank, &link, err);
	if (rc < 0)
		return rc;
	if (rank > own && rank < own + node.workers) {
		pl_format(w->near_path, sizeof(w->near_path), "%s", link.path);
		ps_near_add(w->near, rank, &link);
		return 0;
	}
	if (w->n > 1 && rank == rank_before(w)) {
		w->prev = link;
		return 0;
	}
	ps_link_close(&link);
	return pl_err_set(err, EINVAL, "worker %u came to worker %u: is "
			  "--nodes the same everywhere?", rank, own);
}

/*
 * The first one begins, when its members are there; whoever was accepted goes
 * on.
 */
static int join_ring(struct ring *w, struct pl_err *err)
{
	const bool begins = w->rank == 0 && w->n > 1;
	bool seen[PS_WORKERS_MAX] = { false };
	uint32_t wait = w->n > 1;
	int rc = ps_port_open(w->job, &w->port, err);

	if (w->near)
		wait += ps_node_at(&w->job->o, w->rank).workers - 1;
	for (; wait > begins && rc == 0; wait--)
		rc = accept_one(w, seen, err);
	if (rc == 0 && w->n > 1)
		rc = connect_next(w, err);
	if (rc == 0 && begins)
		rc = accept_one(w, seen, err);
	return rc == 0 && w->near ? ps_near_start(w->near, err) : rc;
}

static int allocate(struct ring *w, struct pl_err *err)
{
	w->grads = ps_floats_alloc(array_elems(w->job), err);
	if (!w->grads)
		return -ENOMEM;
	if (is_hierarchical(w->job)) {
		int rc = ps_near_create(w->job, &w->near, err);

		if (rc < 0)
			return rc;
	}
	w->params = w->near ? ps_near_params(w->near) :
			      ps_floats_alloc(array_elems(w->job), err);
	if (!w->params)
		return -ENOMEM;
	if (!w->job->o.raw)
		ps_params_init_all(&w->job->plan, w->params);
	return 0;
}

static void ring_close(void *state)
{
	struct ring *w = state;

	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_broadcast(&w->moved);
	pthread_mutex_unlock(&w->lock);
	ps_near_stop(w->near);
	ps_link_close(&w->prev);
	if (w->started)
		pthread_join(w->sender, NULL);
	ps_link_close(&w->next);
	ps_floats_free(w->grads, array_elems(w->job));
	if (!w->near)
		ps_floats_free(w->params, array_elems(w->job));
	/* Its members' lanes are the port's. */
	ps_near_destroy(w->near);
	ps_port_close(&w->port);
	pthread_cond_destroy(&w->moved);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

static int set_up(struct ring *w, struct pl_err *err)
{
	int rc = allocate(w, err);

	if (rc < 0 || (w->n == 1 && !w->near))
		return rc;
	rc = join_ring(w, err);
	if (rc < 0 || w->n == 1)
		return rc;
	rc = pthread_create(&w->sender, NULL, send_main, w);
	if (rc)
		return pl_err_set(err, rc, "starting a thread: %s",
				  strerror(rc));
	w->started = true;
	return 0;
}

static const char *near_path(const struct ring *w)
{
	return w->near_path[0] ? w->near_path : "none";
}

static int ring_open(const struct ps_job *job, void **state,
		     struct ps_report *rep, struct pl_err *err)
{
	struct ring *w = calloc(1, sizeof(*w));
	int rc;

	if (!w)
		return pl_err_set(err, ENOMEM, "no memory for the worker");
	w->job = job;
	w->n = is_hierarchical(job) ? job->o.n_nodes : job->o.workers;
	w->rank = is_hierarchical(job) ?
		  ps_node_of_rank(&job->o, job->o.rank).index : job->o.rank;
	w->port = PS_PORT_NONE;
	w->next = w->prev = PS_LINK_NONE;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->moved, NULL);
	rc = set_up(w, err);
	if (rc < 0) {
		ring_close(w);
		return rc;
	}
	pl_format(rep->path, sizeof(rep->path), "%s",
		  w->n == 1 ? near_path(w) : w->next.path);
	pl_format(rep->param_path, sizeof(rep->param_path), "%s",
		  w->n == 1 ? near_path(w) : w->prev.path);
	if (w->next.fd >= 0)
		ps_congestion_of(w->next.fd, rep->congestion);
	*state = w;
	return 0;
}

static int ring_settle(void *state, struct pl_err *err)
{
	(void)state;
	(void)err;
	return 0;
}

static const float *ring_param(void *state, uint32_t chunk)
{
	struct ring *w = state;
	struct ps_chunk k = ps_plan_chunk(&w->job->plan, chunk);

	return w->params + k.first;
}

/* Nobody may go before its neighbour has all that was sent. */
static int ring_bye(void *state, struct pl_err *err)
{
	struct ring *w = state;
	const void *data;
	const char bye = PS_BYE;
	int rc = ps_near_bye(w->near, err);

	if (rc < 0 || w->n == 1)
		return rc;
	rc = ps_link_send(&w->next, &bye, 1);
	if (rc < 0)
		return ps_link_error(&w->next, rc, err);
	rc = ps_link_peek(&w->prev, 1, &data);
	if (rc == 0)
		rc = ps_link_consume(&w->prev, 1);
	return rc < 0 ? ps_link_error(&w->prev, rc, err) : 0;
}

static void ring_bytes(void *state, uint64_t *sent, uint64_t *received)
{
	struct ring *w = state;

	/* Asked between steps, when nobody sends. */
	pthread_mutex_lock(&w->lock);
	*sent = w->sent;
	*received = w->received_bytes;
	pthread_mutex_unlock(&w->lock);
}

const struct ps_worker_ops ps_ring_worker = {
	.open = ring_open,
	.step = ring_step,
	.settle = ring_settle,
	.param = ring_param,
	.bye = ring_bye,
	.bytes = ring_bytes,
	.close = ring_close,
};
