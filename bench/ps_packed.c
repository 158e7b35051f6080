/*
 * bench/ps_packed.c - a worker that exchanges compressed gradients
 *
 * Gradients are those that ps_kernels.h makes up, or with --train those of a
 * network that learns. Compressing is part of the step.
 */
#include "bench/ps_packed.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "bench/blas.h"
#include "bench/compress_shape.h"
#include "bench/learner.h"
#include "bench/ps_kernels.h"
#include "bench/ps_overlay.h"

struct packed {
	const struct ps_job *job;
	struct ps_report *report;
	uint32_t n, rank;
	struct ps_port port;
	struct ps_link next, prev;	/* star: next is the server */
	struct codec *codec;
	void *msgs[PS_WORKERS_MAX];	/* star: the own one only */
	size_t lens[PS_WORKERS_MAX];
	void *result;
	size_t result_len, room;
	float *grad, *sum, *params;
	uint64_t sent, received;
	/* --train */
	struct learner *learner;
	struct dataset train, test;
	uint64_t touched_ns;		/* first touch of the data */
};

/* --- messages ------------------------------------------------------------- */

struct frame {
	uint64_t len, checksum;
};

static uint64_t checksum(const void *buf, size_t len)
{
	uint32_t tail = 0;
	size_t words = len / sizeof(tail);

	memcpy(&tail, (const char *)buf + words * sizeof(tail),
	       len % sizeof(tail));
	return ps_checksum(buf, (uint32_t)words, 0) + tail;
}

int ps_packed_send(struct ps_link *link, const void *buf, size_t len)
{
	struct frame f = { len, checksum(buf, len) };
	int rc = ps_link_send(link, &f, sizeof(f));

	return rc < 0 ? rc : ps_link_send(link, buf, len);
}

int ps_packed_recv(struct ps_link *link, void *buf, size_t room, size_t *len)
{
	struct frame f;
	int rc = ps_link_recv(link, &f, sizeof(f));

	if (rc == 0 && f.len > room)
		return -EPROTO;
	if (rc == 0)
		rc = ps_link_recv(link, buf, f.len);
	if (rc < 0)
		return rc;
	*len = f.len;
	return checksum(buf, f.len) == f.checksum ? 0 : -EBADMSG;
}

int ps_packed_codec(const struct ps_job *job, struct codec **out,
		    struct pl_err *err)
{
	const struct ps_model *m = job->plan.model;
	pl_auto_free struct codec_tensor *t = calloc(m->n_tensors, sizeof(*t));
	struct codec_conf conf = {
		.kind = ps_opts_compression(&job->o),
		.workers = job->o.workers, .momentum = PS_MOMENTUM,
		.sparsity = 1 - job->o.keep_ppm / 1e6, .rank = PS_POWER_RANK,
		.clip = job->o.train ? PS_CLIP : 0,
	};

	*out = NULL;
	if (!t)
		return pl_err_set(err, ENOMEM, "out of memory");
	codec_shapes(m->tensors, m->n_tensors, t);
	return codec_create(&conf, t, m->n_tensors, out, err);
}

/* --- the exchange --------------------------------------------------------- */

static bool is_ring(const struct packed *w)
{
	return w->job->o.strategies == PS_RING;
}

struct sending {
	struct ps_link *link;
	const void *buf;
	size_t len;
	int rc;
};

static void *send_main(void *arg)
{
	struct sending *s = arg;

	s->rc = ps_packed_send(s->link, s->buf, s->len);
	return NULL;
}

/* One message to the next, one from the worker before, at the same time. */
static int pass_on(struct packed *w, uint32_t out, uint32_t in,
		   struct pl_err *err)
{
	struct sending s = { &w->next, w->msgs[out], w->lens[out], 0 };
	pthread_t thread;
	int rc = pthread_create(&thread, NULL, send_main, &s);

	if (rc)
		return pl_err_set(err, rc, "starting a thread: %s",
				  strerror(rc));
	rc = ps_packed_recv(&w->prev, w->msgs[in], w->room, &w->lens[in]);
	pthread_join(thread, NULL);
	if (rc < 0)
		return ps_link_error(&w->prev, rc, err);
	if (s.rc < 0)
		return ps_link_error(&w->next, s.rc, err);
	w->sent += s.len;
	w->received += w->lens[in];
	return 0;
}

static int gather(struct packed *w, unsigned int round, struct pl_err *err)
{
	int rc = 0;

	for (uint32_t r = 0; r + 1 < w->n && rc == 0; r++)
		rc = pass_on(w, (w->rank + w->n - r) % w->n,
			     (w->rank + w->n - r - 1) % w->n, err);
	return rc < 0 ? rc :
		codec_combine(w->codec, round, (const void **)w->msgs,
			      w->lens, w->result, &w->result_len, err);
}

static int ask_server(struct packed *w, struct pl_err *err)
{
	int rc = ps_packed_send(&w->next, w->msgs[w->rank], w->lens[w->rank]);

	if (rc == 0)
		rc = ps_packed_recv(&w->next, w->result, w->room,
				    &w->result_len);
	if (rc < 0)
		return ps_link_error(&w->next, rc, err);
	w->sent += w->lens[w->rank];
	w->received += w->result_len;
	return 0;
}

static int exchange(struct packed *w, struct pl_err *err)
{
	int rc = 0;

	for (unsigned int r = 0; r < codec_rounds(w->codec) && rc == 0; r++) {
		w->lens[w->rank] = codec_encode(w->codec, r, w->grad,
						w->msgs[w->rank]);
		rc = is_ring(w) ? gather(w, r, err) : ask_server(w, err);
		if (rc == 0)
			rc = codec_decode(w->codec, r, w->result,
					  w->result_len, w->sum, err);
	}
	return rc;
}

/* --- a step --------------------------------------------------------------- */

static void fill(struct packed *w, uint32_t step)
{
	const struct ps_plan *plan = &w->job->plan;

	for (uint32_t c = 0; c < plan->n_chunks; c++)
		ps_fill(plan, c, w->rank, step,
			w->grad + ps_plan_chunk(plan, c).first);
}

static void update(struct packed *w)
{
	const struct ps_plan *plan = &w->job->plan;

	for (uint32_t c = 0; c < plan->n_chunks; c++) {
		struct ps_chunk k = ps_plan_chunk(plan, c);
		const float *src = w->sum + k.first;

		ps_update(w->params + k.first, &src, 1, k.n);
	}
}

static uint32_t epoch_of(const struct packed *w, uint32_t step)
{
	return step / learner_epoch_steps(w->learner);
}

/* After the last step of an epoch, one of them tests what they all have. */
static void end_epoch(struct packed *w, uint32_t step)
{
	struct ps_report *r = w->report;

	if (w->rank || epoch_of(w, step + 1) == epoch_of(w, step) ||
	    r->n_curve == PS_EPOCHS_MAX)
		return;
	r->curve[r->n_curve].accuracy = learner_accuracy(w->learner,
							 &w->test);
	r->curve[r->n_curve++].seconds = (double)(pl_now_ns() -
						  w->touched_ns) / 1e9;
}

static int learn(struct packed *w, uint32_t step, struct pl_err *err)
{
	const struct ps_opts *o = &w->job->o;
	double sparsity = 1 - o->keep_ppm / 1e6, loss;
	int rc;

	if (ps_opts_compression(o) == CODEC_DGC)
		codec_set_sparsity(w->codec,
				   codec_warmup(sparsity, epoch_of(w, step)));
	learner_gradient(w->learner, step, w->grad, &loss);
	rc = exchange(w, err);
	if (rc < 0)
		return rc;
	learner_apply(w->learner, step, w->sum);
	end_epoch(w, step);
	return 0;
}

static int packed_step(void *state, uint32_t step, struct pl_err *err)
{
	struct packed *w = state;
	int rc;

	if (w->learner)
		return learn(w, step, err);
	fill(w, step);
	rc = exchange(w, err);
	if (rc == 0)
		update(w);
	return rc;
}

/* --- beginning and end ---------------------------------------------------- */

static int open_learner(struct packed *w, struct pl_err *err)
{
	const struct ps_opts *o = &w->job->o;
	struct learner_conf conf = {
		.net = w->job->plan.model->name, .batch = w->job->o.batch,
		.workers = o->workers, .rank = o->rank, .epochs = o->epochs,
		.seed = o->seed, .rate = (float)o->rate_ppm / 1e6f,
		.momentum = PS_MOMENTUM,
		.sum_has_momentum = codec_has_momentum(w->codec),
	};
	int rc = blas_load(err);

	w->touched_ns = pl_now_ns();
	if (rc == 0)
		rc = dataset_load_train(o->data, &w->train, err);
	if (rc == 0 && w->rank == 0)
		rc = dataset_load_test(o->data, &w->test, err);
	return rc < 0 ? rc : learner_create(&conf, &w->train, &w->learner,
					    err);
}

static int allocate(struct packed *w, struct pl_err *err)
{
	uint64_t n = w->job->plan.elems;
	int rc = ps_packed_codec(w->job, &w->codec, err);

	if (rc < 0)
		return rc;
	w->room = codec_message_max(w->codec);
	w->result = malloc(w->room);
	for (uint32_t i = 0; i < w->n && w->result; i++)
		if (i == w->rank || is_ring(w))
			w->msgs[i] = malloc(w->room);
	if (!w->msgs[w->rank] || (is_ring(w) && !w->msgs[w->n - 1]))
		return pl_err_set(err, ENOMEM, "no memory for messages");
	w->grad = ps_floats_alloc(n, err);
	w->sum = w->grad ? ps_floats_alloc(n, err) : NULL;
	w->params = w->sum ? ps_floats_alloc(n, err) : NULL;
	if (!w->params)
		return -ENOMEM;
	ps_params_init_all(&w->job->plan, w->params);
	return w->job->o.train ? open_learner(w, err) : 0;
}

static int connect_next(struct packed *w, struct pl_err *err)
{
	const struct ps_opts *o = &w->job->o;
	uint32_t next = is_ring(w) ? (w->rank + 1) % w->n : 0;

	return ps_link_connect(&w->port, is_ring(w) ? o->peers.text[next] :
			       o->server.text[0], next, &w->next, err);
}

/* The first one begins; whoever was accepted goes on. */
static int join_ring(struct packed *w, struct pl_err *err)
{
	uint32_t before = (w->rank + w->n - 1) % w->n;
	int rc = ps_port_open(w->job, &w->port, err);

	if (rc == 0 && w->rank)
		rc = ps_link_accept(&w->port, before, &w->prev, err);
	if (rc == 0)
		rc = connect_next(w, err);
	if (rc == 0 && !w->rank)
		rc = ps_link_accept(&w->port, before, &w->prev, err);
	return rc;
}

static int join(struct packed *w, struct pl_err *err)
{
	int rc;

	if (is_ring(w))
		return w->n > 1 ? join_ring(w, err) : 0;
	rc = ps_port_dial(w->job, &w->port, err);
	return rc < 0 ? rc : connect_next(w, err);
}

static void packed_close(void *state)
{
	struct packed *w = state;

	ps_link_close(&w->prev);
	ps_link_close(&w->next);
	ps_port_close(&w->port);
	codec_destroy(w->codec);
	learner_destroy(w->learner);
	dataset_free(&w->train);
	dataset_free(&w->test);
	for (uint32_t i = 0; i < w->n; i++)
		free(w->msgs[i]);
	free(w->result);
	ps_floats_free(w->grad, w->job->plan.elems);
	ps_floats_free(w->sum, w->job->plan.elems);
	ps_floats_free(w->params, w->job->plan.elems);
	free(w);
}

static int packed_open(const struct ps_job *job, void **state,
		       struct ps_report *rep, struct pl_err *err)
{
	struct packed *w = calloc(1, sizeof(*w));
	int rc;

	if (!w)
		return pl_err_set(err, ENOMEM, "no memory for the worker");
	w->job = job;
	w->report = rep;
	w->n = job->o.workers;
	w->rank = job->o.rank;
	w->port = PS_PORT_NONE;
	w->next = w->prev = PS_LINK_NONE;
	rc = allocate(w, err);
	if (rc == 0)
		rc = join(w, err);
	if (rc < 0) {
		packed_close(w);
		return rc;
	}
	pl_format(rep->path, sizeof(rep->path), "%s",
		  w->next.path[0] ? w->next.path : "none");
	pl_format(rep->param_path, sizeof(rep->param_path), "%s",
		  w->prev.path[0] ? w->prev.path : rep->path);
	if (w->next.fd >= 0)
		ps_congestion_of(w->next.fd, rep->congestion);
	*state = w;
	return 0;
}

static int packed_settle(void *state, struct pl_err *err)
{
	(void)state;
	(void)err;
	return 0;
}

static const float *packed_param(void *state, uint32_t chunk)
{
	struct packed *w = state;

	return (w->learner ? learner_params(w->learner) : w->params) +
	       ps_plan_chunk(&w->job->plan, chunk).first;
}

/* In a ring, nobody may go before its neighbour has all that was sent. */
static int packed_bye(void *state, struct pl_err *err)
{
	struct packed *w = state;
	char bye = PS_BYE;
	int rc;

	if (is_ring(w) && w->n == 1)
		return 0;
	rc = ps_link_send(&w->next, &bye, 1);
	if (rc < 0)
		return ps_link_error(&w->next, rc, err);
	rc = is_ring(w) ? ps_link_recv(&w->prev, &bye, 1) : 0;
	return rc < 0 ? ps_link_error(&w->prev, rc, err) : 0;
}

static void packed_bytes(void *state, uint64_t *sent, uint64_t *received)
{
	struct packed *w = state;

	*sent = w->sent;
	*received = w->received;
}

const struct ps_worker_ops ps_packed_worker = {
	.open = packed_open,
	.step = packed_step,
	.settle = packed_settle,
	.param = packed_param,
	.bye = packed_bye,
	.bytes = packed_bytes,
	.close = packed_close,
};
