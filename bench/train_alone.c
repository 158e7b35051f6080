/* bench/train_alone.c - all workers of a training in one thread */
#include "bench/train_alone.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "bench/compress_shape.h"
#include "bench/ps_kernels.h"

#define WORKERS_MAX 64

struct party {
	struct learner *learner;
	struct codec *codec;
	void *msg;
	size_t len;
};

struct alone {
	const struct train_alone *conf;
	struct party w[WORKERS_MAX];
	struct codec *combiner;
	void *msg;
	size_t len;
	float *grad, *sum;
};

static int add_codec(const struct train_alone *conf, uint64_t elems,
		     struct codec **out, void **msg, struct pl_err *err)
{
	struct codec_tensor shapes[NET_TENSORS_MAX];
	uint32_t sizes[NET_TENSORS_MAX], n;
	struct net *net;
	int rc = net_create(conf->learner.net, 1, &net, err);

	if (rc < 0)
		return rc;
	n = net_tensors(net, sizes);
	net_destroy(net);
	codec_shapes(sizes, n, shapes);
	rc = codec_create(&conf->codec, shapes, n, out, err);
	if (rc < 0)
		return rc;
	*msg = malloc(codec_message_max(*out));
	return *msg && codec_elems(*out) == elems ? 0 :
		pl_err_set(err, ENOMEM, "no memory for a message");
}

static int add_party(struct alone *a, uint32_t rank,
		     const struct dataset *train, struct pl_err *err)
{
	struct learner_conf c = a->conf->learner;
	struct party *p = &a->w[rank];
	int rc;

	c.rank = rank;
	rc = learner_create(&c, train, &p->learner, err);
	return rc < 0 ? rc : add_codec(a->conf, learner_elems(p->learner),
				       &p->codec, &p->msg, err);
}

static int set_up(struct alone *a, const struct dataset *train,
		  struct pl_err *err)
{
	uint64_t n;
	int rc = 0;

	if (a->conf->learner.workers > WORKERS_MAX)
		return pl_err_set(err, EINVAL, "at most %u workers",
				  WORKERS_MAX);
	for (uint32_t i = 0; i < a->conf->learner.workers && rc == 0; i++)
		rc = add_party(a, i, train, err);
	if (rc < 0)
		return rc;
	n = learner_elems(a->w[0].learner);
	a->grad = calloc(n, sizeof(float));
	a->sum = calloc(n, sizeof(float));
	if (!a->grad || !a->sum)
		return pl_err_set(err, ENOMEM, "no memory for a gradient");
	return add_codec(a->conf, n, &a->combiner, &a->msg, err);
}

static void tear_down(struct alone *a)
{
	for (uint32_t i = 0; i < WORKERS_MAX; i++) {
		learner_destroy(a->w[i].learner);
		codec_destroy(a->w[i].codec);
		free(a->w[i].msg);
	}
	codec_destroy(a->combiner);
	free(a->msg);
	free(a->grad);
	free(a->sum);
}

static int one_round(struct alone *a, uint32_t step, unsigned int round,
		     struct train_result *out, struct pl_err *err)
{
	const void *msgs[WORKERS_MAX] = { NULL };
	size_t lens[WORKERS_MAX] = { 0 };
	uint32_t n = a->conf->learner.workers;
	double loss;
	int rc;

	for (uint32_t i = 0; i < n; i++) {
		struct party *p = &a->w[i];

		/* Again in a second round: cheaper than keeping all of them. */
		learner_gradient(p->learner, step, a->grad, &loss);
		out->loss += round == 0 ? loss / n : 0;
		lens[i] = codec_encode(p->codec, round, a->grad, p->msg);
		msgs[i] = p->msg;
		out->bytes += lens[i];
	}
	rc = codec_combine(a->combiner, round, msgs, lens, a->msg, &a->len,
			   err);
	for (uint32_t i = 0; i < n && rc == 0; i++)
		rc = codec_decode(a->w[i].codec, round, a->msg, a->len,
				  a->sum, err);
	return rc;
}

static int one_step(struct alone *a, uint32_t step, struct train_result *out,
		    struct pl_err *err)
{
	uint32_t epoch = step / learner_epoch_steps(a->w[0].learner);
	uint32_t n = a->conf->learner.workers;
	int rc = 0;

	out->loss = 0;
	for (uint32_t i = 0; i < n && a->conf->codec.kind == CODEC_DGC; i++)
		codec_set_sparsity(a->w[i].codec, codec_warmup(
				   a->conf->codec.sparsity, epoch));
	for (unsigned int r = 0; r < codec_rounds(a->combiner) && rc == 0; r++)
		rc = one_round(a, step, r, out, err);
	for (uint32_t i = 0; i < n && rc == 0; i++)
		learner_apply(a->w[i].learner, step, a->sum);
	return rc;
}

int train_alone(const struct train_alone *conf, const struct dataset *train,
		const struct dataset *test, struct train_result *out,
		struct pl_err *err)
{
	pl_auto_free struct alone *a = calloc(1, sizeof(*a));
	uint32_t steps = conf->steps;
	int rc;

	memset(out, 0, sizeof(*out));
	if (!a)
		return pl_err_set(err, ENOMEM, "out of memory");
	a->conf = conf;
	rc = set_up(a, train, err);
	if (rc == 0 && steps == 0)
		steps = conf->learner.epochs *
			learner_epoch_steps(a->w[0].learner);
	for (uint32_t s = 0; s < steps && rc == 0; s++)
		rc = one_step(a, s, out, err);
	if (rc == 0) {
		struct learner *l = a->w[0].learner;

		out->accuracy = learner_accuracy(l, test);
		out->checksum = ps_checksum(learner_params(l),
					    (uint32_t)learner_elems(l), 0);
	}
	tear_down(a);
	return rc;
}
