/*
 * bench/ps_overlay.c - the worker's side of the overlay transport
 *
 * The main thread fills a chunk and sends it while it is in the cache; a second
 * thread receives parameters straight into their place at the same time. Chunks
 * come down in the order in which they go up, so that one thread can read all
 * servers' connections in turn: a server never waits for a worker to read
 * before it goes on reading itself.
 *
 * Gradients and parameters are whole arrays, as a training program has them.
 * With --raw there is nothing to fill or to keep, and all chunks are in the
 * same place: what is left is the exchange itself.
 */
#include "bench/ps_overlay.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/util.h"
#include "bench/ps_kernels.h"

struct worker {
	const struct ps_job *job;
	int fds[PS_SERVERS_MAX];
	float *grads, *params;
	pthread_t receiver;
	bool started;

	pthread_mutex_t lock;		/* of what follows */
	pthread_cond_t moved;
	uint32_t steps_in;		/* whole parameter vectors received */
	struct pl_err failure;		/* of the receiver */
	uint64_t sent, received;	/* bytes; each of its one thread */
};

static int lost(const struct worker *w, uint32_t server, int r,
		struct pl_err *err)
{
	if (r == -ECONNRESET || r == -EPIPE)
		return pl_err_set(err, ECONNRESET, "server %u at %s closed the "
				  "connection", server,
				  w->job->o.server.text[server]);
	return pl_err_set(err, -r, "connection to server %u at %s: %s", server,
			  w->job->o.server.text[server], strerror(-r));
}

static uint64_t array_elems(const struct ps_job *job)
{
	return job->o.raw ? job->plan.chunk_elems : job->plan.elems;
}

static float *place(const struct worker *w, float *array,
		    const struct ps_chunk *k)
{
	return array + (w->job->o.raw ? 0 : k->first);
}

static int receive_params(struct worker *w, uint64_t *got, struct pl_err *err)
{
	const struct ps_plan *plan = &w->job->plan;
	struct ps_chunk k;
	uint32_t c;
	int r;

	for (c = 0; c < plan->n_chunks; c++) {
		k = ps_plan_chunk(plan, c);
		r = ps_tcp_recv(w->fds[k.server], place(w, w->params, &k),
				k.n * sizeof(float));
		if (r)
			return lost(w, k.server, r, err);
		*got += k.n * sizeof(float);
	}
	return 0;
}

/* An asynchronous job ends with the parameters once more, now settled. */
static void *receive(void *arg)
{
	struct worker *w = arg;
	uint32_t s, steps = w->job->steps + (w->job->o.async ? 1 : 0);
	struct pl_err err = { .code = 0 };
	int r = 0;

	for (s = 0; s < steps && !r; s++) {
		uint64_t got = 0;

		r = receive_params(w, &got, &err);
		pthread_mutex_lock(&w->lock);
		w->received += got;
		w->steps_in += r ? 0 : 1;
		w->failure = err;
		pthread_cond_signal(&w->moved);
		pthread_mutex_unlock(&w->lock);
	}
	/* Wakes a sender that a dead server keeps waiting. */
	for (s = 0; r && s < w->job->o.servers; s++)
		shutdown(w->fds[s], SHUT_RDWR);
	return NULL;
}

/* Wait until `steps` whole parameter vectors were received. */
static int wait_for(struct worker *w, uint32_t steps, struct pl_err *err)
{
	int r = 0;

	pthread_mutex_lock(&w->lock);
	while (w->steps_in < steps && !w->failure.code)
		pthread_cond_wait(&w->moved, &w->lock);
	if (w->steps_in < steps) {
		*err = w->failure;
		r = -err->code;
	}
	pthread_mutex_unlock(&w->lock);
	return r;
}

static int overlay_step(void *state, uint32_t step, struct pl_err *err)
{
	struct worker *w = state;
	const struct ps_plan *plan = &w->job->plan;
	struct pl_err first;
	struct ps_chunk k;
	uint32_t c;
	int r;

	for (c = 0; c < plan->n_chunks; c++) {
		k = ps_plan_chunk(plan, c);
		ps_pace_wait(w->job, c);
		if (!w->job->o.raw)
			ps_fill(plan, c, w->job->o.rank, step,
				place(w, w->grads, &k));
		r = ps_tcp_send(w->fds[k.server], place(w, w->grads, &k),
				k.n * sizeof(float));
		if (r) {
			/* The receiver's error came first when it has one. */
			lost(w, k.server, r, err);
			pthread_mutex_lock(&w->lock);
			first = w->failure;
			pthread_mutex_unlock(&w->lock);
			*err = first.code ? first : *err;
			return -err->code;
		}
		w->sent += k.n * sizeof(float);
	}
	return wait_for(w, step + 1, err);
}

static int overlay_settle(void *state, struct pl_err *err)
{
	struct worker *w = state;

	return wait_for(w, w->job->steps + (w->job->o.async ? 1 : 0), err);
}

static const float *overlay_param(void *state, uint32_t chunk)
{
	struct worker *w = state;
	struct ps_chunk k = ps_plan_chunk(&w->job->plan, chunk);

	return place(w, w->params, &k);
}

static int overlay_bye(void *state, struct pl_err *err)
{
	const char bye = PS_BYE;
	struct worker *w = state;
	uint32_t s;
	int r;

	for (s = 0; s < w->job->o.servers; s++) {
		r = ps_tcp_send(w->fds[s], &bye, 1);
		if (r)
			return lost(w, s, r, err);
	}
	return 0;
}

static void overlay_bytes(void *state, uint64_t *sent, uint64_t *received)
{
	struct worker *w = state;

	pthread_mutex_lock(&w->lock);
	*sent = w->sent;
	*received = w->received;
	pthread_mutex_unlock(&w->lock);
}

static void overlay_close(void *state)
{
	struct worker *w = state;
	uint32_t s;

	for (s = 0; s < w->job->o.servers; s++) {
		if (w->fds[s] >= 0 && w->started)
			shutdown(w->fds[s], SHUT_RD);
	}
	if (w->started)
		pthread_join(w->receiver, NULL);
	for (s = 0; s < w->job->o.servers; s++)
		pl_close_fd(&w->fds[s]);
	ps_floats_free(w->grads, array_elems(w->job));
	ps_floats_free(w->params, array_elems(w->job));
	pthread_cond_destroy(&w->moved);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

static int greet(struct worker *w, uint32_t server, struct pl_err *err)
{
	const struct ps_opts *o = &w->job->o;
	struct ps_welcome answer;
	struct ps_hello hello;
	int r;

	r = ps_tcp_connect(o->server.text[server], ps_tcp_port(w->job, server),
			   o->timeout_s, &w->fds[server], err);
	if (r)
		return r;
	/* The server answers when all workers have come. */
	ps_tcp_timeout(w->fds[server], o->timeout_s + 5);
	ps_hello_make(w->job, server, &hello);
	r = ps_tcp_send(w->fds[server], &hello, sizeof(hello));
	if (!r)
		r = ps_tcp_recv(w->fds[server], &answer, sizeof(answer));
	if (r)
		return lost(w, server, r, err);
	ps_tcp_timeout(w->fds[server], 0);
	return ps_welcome_check(&answer, err);
}

static int open_all(struct worker *w, struct pl_err *err)
{
	uint64_t n = array_elems(w->job);
	uint32_t s;
	int r;

	w->grads = ps_floats_alloc(n, err);
	w->params = w->grads ? ps_floats_alloc(n, err) : NULL;
	if (!w->params)
		return -ENOMEM;
	for (s = 0; s < w->job->o.servers; s++) {
		r = greet(w, s, err);
		if (r)
			return r;
	}
	r = pthread_create(&w->receiver, NULL, receive, w);
	if (r)
		return pl_err_set(err, r, "starting a thread: %s",
				  strerror(r));
	w->started = true;
	return 0;
}

static int overlay_open(const struct ps_job *job, void **state,
			struct ps_report *rep, struct pl_err *err)
{
	struct worker *w = calloc(1, sizeof(*w));
	uint32_t s;
	int r;

	if (!w)
		return pl_err_set(err, ENOMEM, "no memory for the worker");
	w->job = job;
	for (s = 0; s < PS_SERVERS_MAX; s++)
		w->fds[s] = -1;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->moved, NULL);
	r = open_all(w, err);
	if (r) {
		overlay_close(w);
		return r;
	}
	pl_format(rep->path, sizeof(rep->path), "%s", ps_tcp_path(job, w->fds[0]));
	pl_format(rep->param_path, sizeof(rep->param_path), "%s", rep->path);
	ps_congestion_of(w->fds[0], rep->congestion);
	*state = w;
	return 0;
}

const struct ps_worker_ops ps_overlay_worker = {
	.open = overlay_open,
	.step = overlay_step,
	.settle = overlay_settle,
	.param = overlay_param,
	.bye = overlay_bye,
	.bytes = overlay_bytes,
	.close = overlay_close,
};
