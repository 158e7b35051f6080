/* bench/learner.c - one worker's part of a training */
#include "bench/learner.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

#define TEST_BATCH 500
#define RATE_END 0.01

struct learner {
	struct learner_conf conf;
	const struct dataset *data;
	struct net *net;
	uint32_t epoch;			/* whose order is in order */
	uint32_t *order;		/* of the images */
	float *params, *velocity;
	float *x;			/* a batch */
	uint8_t *labels;
};

static uint64_t mix(uint64_t z)
{
	z += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static void shuffle(struct learner *l, uint32_t epoch)
{
	uint64_t key = mix(l->conf.seed ^ mix(epoch + 1));
	uint32_t n = l->data->n;

	for (uint32_t i = 0; i < n; i++)
		l->order[i] = i;
	for (uint32_t i = n - 1; i > 0; i--) {
		uint32_t k = (uint32_t)(mix(key + i) % (i + 1));
		uint32_t t = l->order[i];

		l->order[i] = l->order[k];
		l->order[k] = t;
	}
	l->epoch = epoch;
}

static int allocate(struct learner *l, struct pl_err *err)
{
	const struct learner_conf *c = &l->conf;
	uint32_t most = PL_MAX(c->batch, (uint32_t)TEST_BATCH);
	uint64_t n;
	int rc = net_create(c->net, most, &l->net, err);

	if (rc < 0)
		return rc;
	n = net_elems(l->net);
	l->order = calloc(l->data->n, sizeof(*l->order));
	l->params = calloc(n, sizeof(float));
	l->velocity = calloc(n, sizeof(float));
	l->x = calloc((size_t)most * DATASET_PIXELS, sizeof(float));
	l->labels = calloc(most, 1);
	if (!l->order || !l->params || !l->velocity || !l->x || !l->labels)
		return pl_err_set(err, ENOMEM, "no memory to train with");
	net_init(l->net, mix(c->seed), l->params);
	shuffle(l, 0);
	return 0;
}

int learner_create(const struct learner_conf *conf,
		   const struct dataset *data, struct learner **out,
		   struct pl_err *err)
{
	struct learner *l;
	int rc;

	*out = NULL;
	if ((uint64_t)conf->batch * conf->workers > data->n)
		return pl_err_set(err, EINVAL, "%u workers with batches of %u "
				  "images need more than the %u that there are"
				  "; take a smaller --batch", conf->workers,
				  conf->batch, data->n);
	l = calloc(1, sizeof(*l));
	if (!l)
		return pl_err_set(err, ENOMEM, "no memory to train with");
	l->conf = *conf;
	l->data = data;
	rc = allocate(l, err);
	if (rc < 0) {
		learner_destroy(l);
		return rc;
	}
	*out = l;
	return 0;
}

void learner_destroy(struct learner *l)
{
	if (!l)
		return;
	net_destroy(l->net);
	free(l->order);
	free(l->params);
	free(l->velocity);
	free(l->x);
	free(l->labels);
	free(l);
}

uint64_t learner_elems(const struct learner *l)
{
	return net_elems(l->net);
}

uint32_t learner_epoch_steps(const struct learner *l)
{
	return l->data->n / (l->conf.batch * l->conf.workers);
}

void learner_gradient(struct learner *l, uint32_t step, float *grad,
		      double *loss)
{
	const struct learner_conf *c = &l->conf;
	uint32_t epoch = step / learner_epoch_steps(l);
	uint32_t place = step % learner_epoch_steps(l);
	const uint32_t *order;

	if (epoch != l->epoch)
		shuffle(l, epoch);
	order = l->order + ((size_t)place * c->workers + c->rank) * c->batch;
	for (uint32_t i = 0; i < c->batch; i++) {
		dataset_image(l->data, order[i],
			      l->x + (size_t)i * DATASET_PIXELS);
		l->labels[i] = l->data->labels[order[i]];
	}
	net_gradient(l->net, l->params, l->x, l->labels, c->batch, grad,
		     loss);
}

static float rate_at(const struct learner *l, uint32_t step)
{
	double all = (double)l->conf.epochs * learner_epoch_steps(l);
	double part = PL_MIN(step / all, 1.0);
	double falls = RATE_END + (1 - RATE_END) * (1 + cos(M_PI * part)) / 2;

	return l->conf.rate * (float)falls;
}

void learner_apply(struct learner *l, uint32_t step, const float *sum)
{
	const float share = 1.0f / (float)l->conf.workers;
	const float momentum = l->conf.sum_has_momentum ? 0 :
			       l->conf.momentum;
	const float rate = rate_at(l, step);
	const uint64_t n = net_elems(l->net);
	float *restrict v = l->velocity, *restrict p = l->params;

	for (uint64_t i = 0; i < n; i++) {
		v[i] = momentum * v[i] + share * sum[i];
		p[i] -= rate * v[i];
	}
}

const float *learner_params(const struct learner *l)
{
	return l->params;
}

double learner_accuracy(struct learner *l, const struct dataset *test)
{
	float logits[TEST_BATCH * NET_CLASSES];
	uint32_t right = 0;

	for (uint32_t at = 0, n; at < test->n; at += n) {
		n = PL_MIN(test->n - at, (uint32_t)TEST_BATCH);
		for (uint32_t i = 0; i < n; i++)
			dataset_image(test, at + i,
				      l->x + (size_t)i * DATASET_PIXELS);
		net_forward(l->net, l->params, l->x, n, logits);
		for (uint32_t i = 0; i < n; i++)
			right += net_class(logits + i * NET_CLASSES) ==
				 test->labels[at + i];
	}
	return (double)right / test->n;
}
