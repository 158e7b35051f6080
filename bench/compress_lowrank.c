/*
 * bench/compress_lowrank.c - PowerSGD: matrices of low rank
 *
 * With M the gradient and what was left out before, n x m, and Q the m x r
 * matrix of the step before, the first round sums P = M Q over the workers and
 * makes its columns orthonormal; the second sums Q = M' P. The sum of the
 * gradients is then taken to be P Q'. Vectors are in the messages of the first
 * round. A message is floats, and combining is adding.
 */
#include "bench/compress_impl.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

static uint32_t rank_of(const struct codec *c, const struct codec_part *p)
{
	uint32_t least = PL_MIN(p->rows, p->elems / p->rows);

	return PL_MIN(c->conf.rank, least);
}

/* A walk over the matrices, with the factors of each. */
struct matrix {
	const struct codec_part *part;
	uint32_t n, m, r;
	float *g;			/* n x m, of the gradient */
	float *p, *q;			/* n x r and m x r */
};

static bool next_matrix(const struct codec *c, uint32_t *i, float *v,
			struct matrix *x)
{
	float *p = x->part ? x->p + (size_t)x->n * x->r : c->p;
	float *q = x->part ? x->q + (size_t)x->m * x->r : c->q;

	while (*i < c->n && codec_is_vector(&c->parts[*i]))
		(*i)++;
	if (*i == c->n)
		return false;
	x->part = &c->parts[(*i)++];
	x->n = x->part->rows;
	x->m = x->part->elems / x->n;
	x->r = rank_of(c, x->part);
	x->g = v ? v + x->part->first : NULL;
	x->p = p;
	x->q = q;
	return true;
}

static void times_q(const struct matrix *x)
{
	for (uint32_t i = 0; i < x->n; i++) {
		const float *row = x->g + (size_t)i * x->m;
		float *out = x->p + (size_t)i * x->r;

		memset(out, 0, x->r * sizeof(*out));
		for (uint32_t j = 0; j < x->m; j++)
			for (uint32_t k = 0; k < x->r; k++)
				out[k] += row[j] * x->q[(size_t)j * x->r + k];
	}
}

static void transposed_times_p(const struct matrix *x)
{
	memset(x->q, 0, (size_t)x->m * x->r * sizeof(*x->q));
	for (uint32_t i = 0; i < x->n; i++) {
		const float *row = x->g + (size_t)i * x->m;
		const float *p = x->p + (size_t)i * x->r;

		for (uint32_t j = 0; j < x->m; j++)
			for (uint32_t k = 0; k < x->r; k++)
				x->q[(size_t)j * x->r + k] += row[j] * p[k];
	}
}

static double column_dot(const struct matrix *x, uint32_t a, uint32_t b)
{
	double sum = 0;

	for (uint32_t i = 0; i < x->n; i++)
		sum += (double)x->p[(size_t)i * x->r + a] *
		       x->p[(size_t)i * x->r + b];
	return sum;
}

/* Gram and Schmidt; a column that is nothing but the others becomes 0. */
static void orthonormalise(const struct matrix *x)
{
	for (uint32_t k = 0; k < x->r; k++) {
		double before = column_dot(x, k, k), norm;

		for (uint32_t o = 0; o < k; o++) {
			double dot = column_dot(x, o, k);

			for (uint32_t i = 0; i < x->n; i++)
				x->p[(size_t)i * x->r + k] -= (float)(dot *
					x->p[(size_t)i * x->r + o]);
		}
		norm = column_dot(x, k, k);
		norm = norm > 1e-10 * before ? 1 / sqrt(norm) : 0;
		for (uint32_t i = 0; i < x->n; i++)
			x->p[(size_t)i * x->r + k] *= (float)norm;
	}
}

/* sum = P Q'. */
static void multiply(const struct matrix *x, float *sum)
{
	for (uint32_t i = 0; i < x->n; i++)
		for (uint32_t j = 0; j < x->m; j++) {
			float v = 0;

			for (uint32_t k = 0; k < x->r; k++)
				v += x->p[(size_t)i * x->r + k] *
				     x->q[(size_t)j * x->r + k];
			sum[(size_t)i * x->m + j] = v;
		}
}

static size_t round_bytes(const struct codec *c, unsigned int round)
{
	return (round ? c->q_floats : c->vector_elems + c->p_floats) *
	       sizeof(float);
}

static size_t lowrank_max(const struct codec *c)
{
	return PL_MAX(round_bytes(c, 0), round_bytes(c, 1));
}

static size_t lowrank_encode(struct codec *c, unsigned int round,
			     const float *grad, uint8_t *msg)
{
	struct matrix x = { .part = NULL };
	float *out = (float *)msg;
	uint32_t i = 0;

	for (uint64_t k = 0; round == 0 && k < c->elems; k++)
		c->residual[k] += grad[k];
	while (next_matrix(c, &i, c->residual, &x)) {
		if (round == 0)
			times_q(&x);
		else
			transposed_times_p(&x);
	}
	for (i = 0; round == 0 && i < c->n; i++) {
		const struct codec_part *p = &c->parts[i];

		if (!codec_is_vector(p))
			continue;
		memcpy(out, grad + p->first, p->elems * sizeof(float));
		out += p->elems;
	}
	memcpy(out, round ? c->q : c->p,
	       (round ? c->q_floats : c->p_floats) * sizeof(float));
	return round_bytes(c, round);
}

static int lowrank_combine(struct codec *c, unsigned int round,
			   const void *const *msgs, const size_t *lens,
			   uint8_t *out, size_t *out_len, struct pl_err *err)
{
	float *sum = (float *)out;

	*out_len = round_bytes(c, round);
	for (uint32_t w = 0; w < c->conf.workers; w++) {
		const float *m = msgs[w];

		if (lens[w] != *out_len)
			return codec_no_message(c, lens[w], err);
		if (w == 0)
			memcpy(sum, m, lens[w]);
		for (size_t i = 0; w && i < lens[w] / sizeof(float); i++)
			sum[i] += m[i];
	}
	return 0;
}

static void take_p(struct codec *c, const float *in, float *sum)
{
	struct matrix x = { .part = NULL };
	uint32_t i;

	for (i = 0; i < c->n; i++) {
		const struct codec_part *p = &c->parts[i];

		if (!codec_is_vector(p))
			continue;
		memcpy(sum + p->first, in, p->elems * sizeof(float));
		memset(c->residual + p->first, 0, p->elems * sizeof(float));
		in += p->elems;
	}
	memcpy(c->p, in, c->p_floats * sizeof(float));
	i = 0;
	while (next_matrix(c, &i, NULL, &x))
		orthonormalise(&x);
}

static void take_q(struct codec *c, const float *in, float *sum)
{
	struct matrix x = { .part = NULL };
	uint32_t i = 0;

	memcpy(c->q, in, c->q_floats * sizeof(float));
	while (next_matrix(c, &i, c->residual, &x)) {
		float *s = sum + x.part->first;

		multiply(&x, s);
		for (uint32_t k = 0; k < x.part->elems; k++)
			x.g[k] -= s[k] / (float)c->conf.workers;
	}
}

static int lowrank_decode(struct codec *c, unsigned int round,
			  const uint8_t *msg, size_t len, float *sum,
			  struct pl_err *err)
{
	if (len != round_bytes(c, round))
		return codec_no_message(c, len, err);
	if (round == 0)
		take_p(c, (const float *)msg, sum);
	else
		take_q(c, (const float *)msg, sum);
	return 0;
}

/* The same of all workers; any that has no direction of its own will do. */
static void first_q(struct codec *c)
{
	uint32_t h = 1;

	for (size_t i = 0; i < c->q_floats; i++) {
		h = h * 1664525u + 1013904223u;
		c->q[i] = (float)(h >> 8) * 0x1p-23f - 1;
	}
}

static int lowrank_init(struct codec *c)
{
	for (uint32_t i = 0; i < c->n; i++) {
		const struct codec_part *p = &c->parts[i];
		size_t r = rank_of(c, p);

		if (codec_is_vector(p))
			continue;
		c->p_floats += p->rows * r;
		c->q_floats += p->elems / p->rows * r;
	}
	if (codec_floats(&c->residual, c->elems) ||
	    codec_floats(&c->p, c->p_floats) ||
	    codec_floats(&c->q, c->q_floats))
		return -ENOMEM;
	first_q(c);
	return 0;
}

const struct codec_ops codec_powersgd = {
	.name = "powersgd", .rounds = 2, .init = lowrank_init,
	.message_max = lowrank_max, .encode = lowrank_encode,
	.combine = lowrank_combine, .decode = lowrank_decode,
};
