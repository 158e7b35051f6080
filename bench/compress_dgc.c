/*
 * bench/compress_dgc.c - Deep Gradient Compression, and Gradient Dropping
 *
 * With g the gradient, u the velocity and v what was not sent yet, a step of
 * dgc is (Lin et al., algorithm 4):
 *
 *   local clipping        g is scaled down to the norm clip / sqrt(workers)
 *   momentum correction   u = m u + g, v = v + u
 *   selection             of each matrix the largest of |v|, one of 1000
 *   factor masking        u = v = 0 at the elements that are sent
 *
 * and vectors, sent whole, have u. The norm is that of all tensors. drop is
 * the same without u: v = v + g.
 */
#include "bench/compress_impl.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

/* scale of g for local clipping; 1 where it is small enough, or not finite. */
static float clip_scale(const struct codec *c, const float *g)
{
	double limit = c->conf.clip / sqrt(c->conf.workers), norm = 0;

	if (c->conf.clip <= 0)
		return 1;
	for (uint64_t i = 0; i < c->elems; i++)
		norm += (double)g[i] * g[i];
	norm = sqrt(norm);
	return norm > limit ? (float)(limit / norm) : 1;
}

static void correct(struct codec *c, const float *restrict g)
{
	float *restrict u = c->velocity, *restrict v = c->residual;
	float m = c->conf.momentum, scale = clip_scale(c, g);

	for (uint64_t i = 0; i < c->elems; i++) {
		u[i] = m * u[i] + scale * g[i];
		v[i] += u[i];
	}
}

static void accumulate(struct codec *c, const float *restrict g)
{
	float *restrict v = c->residual;

	for (uint64_t i = 0; i < c->elems; i++)
		v[i] += g[i];
}

/* How many of a matrix are sent: at least one. */
static uint32_t share(const struct codec *c, uint32_t elems)
{
	double k = floor((1 - c->conf.sparsity) * elems + 0.5);

	return (uint32_t)PL_MIN(PL_MAX(k, 1.0), (double)elems);
}

/* Picks of one matrix; they leave v, and u where there is one. */
static uint32_t pick(struct codec *c, const struct codec_part *p,
		     uint64_t before, struct codec_pick *out)
{
	float *v = c->residual + p->first;
	float *u = c->velocity ? c->velocity + p->first : NULL;
	uint32_t *at = (uint32_t *)c->work;
	uint32_t n = codec_select(v, p->elems, share(c, p->elems), c->step,
				  c->magnitudes, at);

	for (uint32_t i = 0; i < n; i++) {
		out[i] = (struct codec_pick){ before + at[i], v[at[i]] };
		v[at[i]] = 0;
		if (u)
			u[at[i]] = 0;
	}
	return n;
}

/* All of a vector is sent: of dgc its velocity, which goes on. */
static void take_vector(struct codec *c, const struct codec_part *p)
{
	float *from = c->velocity ? c->velocity : c->residual;

	memcpy(c->work + p->first, from + p->first, p->elems * sizeof(float));
	memset(c->residual + p->first, 0, p->elems * sizeof(float));
}

static size_t encode(struct codec *c, uint8_t *msg)
{
	uint64_t n = 0, before = 0;

	for (uint32_t i = 0; i < c->n; i++) {
		const struct codec_part *p = &c->parts[i];

		if (codec_is_vector(p))
			continue;
		n += pick(c, p, before, c->picks + n);
		before += p->elems;
	}
	for (uint32_t i = 0; i < c->n; i++)
		if (codec_is_vector(&c->parts[i]))
			take_vector(c, &c->parts[i]);
	c->step++;
	return codec_sparse_write(c, c->work, c->picks, n, msg);
}

static size_t dgc_encode(struct codec *c, unsigned int round,
			 const float *grad, uint8_t *msg)
{
	(void)round;
	correct(c, grad);
	return encode(c, msg);
}

static size_t drop_encode(struct codec *c, unsigned int round,
			  const float *grad, uint8_t *msg)
{
	(void)round;
	accumulate(c, grad);
	return encode(c, msg);
}

static int drop_init(struct codec *c)
{
	c->picks = malloc((c->elems + 1) * sizeof(*c->picks));
	if (!c->picks || codec_floats(&c->residual, c->elems) ||
	    codec_floats(&c->work, c->elems))
		return -ENOMEM;
	return codec_floats(&c->magnitudes, c->elems);
}

static int dgc_init(struct codec *c)
{
	int rc = codec_floats(&c->velocity, c->elems);

	return rc < 0 ? rc : drop_init(c);
}

const struct codec_ops codec_dgc = {
	.name = "dgc", .rounds = 1, .has_momentum = true, .init = dgc_init,
	.message_max = codec_sparse_max, .encode = dgc_encode,
	.combine = codec_sparse_combine, .decode = codec_sparse_decode,
};

const struct codec_ops codec_drop = {
	.name = "drop", .rounds = 1, .init = drop_init,
	.message_max = codec_sparse_max, .encode = drop_encode,
	.combine = codec_sparse_combine, .decode = codec_sparse_decode,
};
