/*
 * bench/compress.c - making a codec, and the one that does nothing
 */
#include "bench/compress_impl.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

static const struct codec_ops *const kinds[CODEC_KINDS] = {
	[CODEC_NONE] = &codec_none, [CODEC_FP16] = &codec_fp16,
	[CODEC_DGC] = &codec_dgc, [CODEC_DROP] = &codec_drop,
	[CODEC_ONEBIT] = &codec_onebit, [CODEC_TWOBIT] = &codec_twobit,
	[CODEC_POWERSGD] = &codec_powersgd,
};

const char *codec_name(enum codec_kind kind)
{
	return kinds[kind]->name;
}

int codec_find(const char *name)
{
	for (int i = 0; i < CODEC_KINDS; i++)
		if (!strcmp(kinds[i]->name, name))
			return i;
	return -1;
}

int codec_floats(float **p, uint64_t n)
{
	*p = calloc(n ? n : 1, sizeof(float));
	return *p ? 0 : -ENOMEM;
}

int codec_no_message(const struct codec *c, size_t len, struct pl_err *err)
{
	return pl_err_set(err, EPROTO, "%zu bytes are no message of %s for %llu"
			  " elements", len, c->ops->name,
			  (unsigned long long)c->elems);
}

static int add_parts(struct codec *c, const struct codec_tensor *t,
		     struct pl_err *err)
{
	for (uint32_t i = 0; i < c->n; i++) {
		if (t[i].rows == 0 || t[i].elems % t[i].rows)
			return pl_err_set(err, EINVAL, "tensor %u: %u elements "
					  "are no %u rows", i, t[i].elems,
					  t[i].rows);
		c->parts[i] = (struct codec_part){ .first = c->elems,
			.elems = t[i].elems, .rows = t[i].rows };
		c->elems += t[i].elems;
		if (t[i].rows == 1)
			c->vector_elems += t[i].elems;
	}
	return 0;
}

int codec_create(const struct codec_conf *conf,
		 const struct codec_tensor *tensors, uint32_t n,
		 struct codec **out, struct pl_err *err)
{
	struct codec *c = calloc(1, sizeof(*c));
	int rc;

	*out = NULL;
	if (c)
		c->parts = calloc(n, sizeof(*c->parts));
	if (!c || !c->parts) {
		free(c);
		return pl_err_set(err, ENOMEM, "no memory for a codec");
	}
	c->ops = kinds[conf->kind];
	c->conf = *conf;
	c->n = n;
	rc = add_parts(c, tensors, err);
	if (rc == 0 && c->ops->init && c->ops->init(c) < 0)
		rc = pl_err_set(err, ENOMEM, "no memory for %s of %llu elements",
				c->ops->name, (unsigned long long)c->elems);
	if (rc < 0) {
		codec_destroy(c);
		return rc;
	}
	*out = c;
	return 0;
}

void codec_destroy(struct codec *c)
{
	if (!c)
		return;
	free(c->parts);
	free(c->residual);
	free(c->velocity);
	free(c->work);
	free(c->combined);
	free(c->picks);
	free(c->magnitudes);
	free(c->p);
	free(c->q);
	free(c);
}

unsigned int codec_rounds(const struct codec *c)
{
	return c->ops->rounds;
}

size_t codec_message_max(const struct codec *c)
{
	return c->ops->message_max(c);
}

uint64_t codec_elems(const struct codec *c)
{
	return c->elems;
}

bool codec_has_momentum(const struct codec *c)
{
	return c->ops->has_momentum;
}

void codec_set_sparsity(struct codec *c, double sparsity)
{
	c->conf.sparsity = sparsity;
}

double codec_warmup(double sparsity, uint32_t epoch)
{
	double s = epoch < 4 ? 1 - pow(0.25, epoch + 1) : 1;

	return PL_MIN(s, sparsity);
}

size_t codec_encode(struct codec *c, unsigned int round, const float *grad,
		    void *msg)
{
	return c->ops->encode(c, round, grad, msg);
}

int codec_combine(struct codec *c, unsigned int round,
		  const void *const *msgs, const size_t *lens, void *out,
		  size_t *out_len, struct pl_err *err)
{
	return c->ops->combine(c, round, msgs, lens, out, out_len, err);
}

int codec_decode(struct codec *c, unsigned int round, const void *msg,
		 size_t len, float *sum, struct pl_err *err)
{
	return c->ops->decode(c, round, msg, len, sum, err);
}

/* --- none ----------------------------------------------------------------- */

static size_t none_max(const struct codec *c)
{
	return c->elems * sizeof(float);
}

static size_t none_encode(struct codec *c, unsigned int round,
			  const float *grad, uint8_t *msg)
{
	(void)round;
	memcpy(msg, grad, none_max(c));
	return none_max(c);
}

static int none_combine(struct codec *c, unsigned int round,
			const void *const *msgs, const size_t *lens,
			uint8_t *out, size_t *out_len, struct pl_err *err)
{
	float *sum = (float *)out;

	(void)round;
	for (uint32_t w = 0; w < c->conf.workers; w++) {
		const float *m = msgs[w];

		if (lens[w] != none_max(c))
			return codec_no_message(c, lens[w], err);
		if (w == 0)
			memcpy(sum, m, lens[w]);
		for (uint64_t i = 0; w && i < c->elems; i++)
			sum[i] += m[i];
	}
	*out_len = none_max(c);
	return 0;
}

static int none_decode(struct codec *c, unsigned int round,
		       const uint8_t *msg, size_t len, float *sum,
		       struct pl_err *err)
{
	(void)round;
	if (len != none_max(c))
		return codec_no_message(c, len, err);
	memcpy(sum, msg, len);
	return 0;
}

const struct codec_ops codec_none = {
	.name = "none", .rounds = 1, .message_max = none_max,
	.encode = none_encode, .combine = none_combine, .decode = none_decode,
};
