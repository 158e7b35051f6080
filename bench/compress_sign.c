/*
 * bench/compress_sign.c - one or two bits for an element
 *
 * A message has the vectors as floats, then one scale per matrix, then each
 * matrix as codes, in whole bytes. Codes: onebit 0 is +s, 1 is -s; twobit 0 is
 * 0, 1 is +s, 2 is -s. What a code does not say stays in the residual, also
 * that of who combines, who makes codes of the sum once more.
 */
#include "bench/compress_impl.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define TERNARY_THRESHOLD 0.7

static unsigned int bits(const struct codec *c)
{
	return c->ops == &codec_onebit ? 1 : 2;
}

static size_t code_bytes(const struct codec *c, uint32_t elems)
{
	return ((uint64_t)elems * bits(c) + 7) / 8;
}

static size_t sign_max(const struct codec *c)
{
	size_t bytes = c->vector_elems * sizeof(float);

	for (uint32_t i = 0; i < c->n; i++)
		if (!codec_is_vector(&c->parts[i]))
			bytes += sizeof(float) +
				 code_bytes(c, c->parts[i].elems);
	return bytes;
}

static double mean_above(const float *v, uint32_t n, double threshold)
{
	double sum = 0;
	uint64_t count = 0;

	for (uint32_t i = 0; i < n; i++) {
		double a = fabs((double)v[i]);

		if (a >= threshold) {
			sum += a;
			count++;
		}
	}
	return count ? sum / (double)count : 0;
}

static unsigned int code_of(unsigned int width, float v, double threshold)
{
	if (width == 1)
		return v < 0;
	return fabs((double)v) < threshold ? 0 : v > 0 ? 1 : 2;
}

static float value_of(unsigned int width, unsigned int code, float scale)
{
	if (width == 1)
		return code ? -scale : scale;
	return code == 1 ? scale : code == 2 ? -scale : 0;
}

/* Codes of v, which keeps what they do not say. Returns the scale. */
static float quantise(const struct codec *c, float *v, uint32_t n,
		      uint8_t *out)
{
	unsigned int width = bits(c);
	double mean = mean_above(v, n, 0);
	double threshold = width == 1 ? 0 : TERNARY_THRESHOLD * mean;
	float scale = (float)mean_above(v, n, threshold);

	memset(out, 0, code_bytes(c, n));
	for (uint32_t i = 0; i < n; i++) {
		unsigned int code = code_of(width, v[i], threshold);
		uint64_t at = (uint64_t)i * width;

		out[at / 8] |= (uint8_t)(code << at % 8);
		v[i] -= value_of(width, code, scale);
	}
	return scale;
}

static void add_codes(const struct codec *c, const uint8_t *in, uint32_t n,
		      float scale, float *sum)
{
	unsigned int width = bits(c), mask = (1u << width) - 1;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t at = (uint64_t)i * width;

		sum[i] += value_of(width, in[at / 8] >> at % 8 & mask, scale);
	}
}

/* Where the parts of a message are. */
struct layout {
	float *vectors, *scales;
	uint8_t *codes;
};

static struct layout layout_of(const struct codec *c, const void *msg)
{
	struct layout l = { .vectors = (float *)(uintptr_t)msg };

	l.scales = l.vectors + c->vector_elems;
	l.codes = (uint8_t *)l.scales;
	for (uint32_t i = 0; i < c->n; i++)
		if (!codec_is_vector(&c->parts[i]))
			l.codes += sizeof(float);
	return l;
}

/* v as a message; v keeps what it does not say. */
static size_t write_message(const struct codec *c, float *v, uint8_t *msg)
{
	struct layout l = layout_of(c, msg);

	for (uint32_t i = 0; i < c->n; i++) {
		const struct codec_part *p = &c->parts[i];

		if (codec_is_vector(p)) {
			memcpy(l.vectors, v + p->first,
			       p->elems * sizeof(float));
			memset(v + p->first, 0, p->elems * sizeof(float));
			l.vectors += p->elems;
			continue;
		}
		*l.scales++ = quantise(c, v + p->first, p->elems, l.codes);
		l.codes += code_bytes(c, p->elems);
	}
	return sign_max(c);
}

static int add_message(const struct codec *c, const void *msg, size_t len,
		       float *sum, struct pl_err *err)
{
	struct layout l = layout_of(c, msg);

	if (len != sign_max(c))
		return codec_no_message(c, len, err);
	for (uint32_t i = 0; i < c->n; i++) {
		const struct codec_part *p = &c->parts[i];

		if (codec_is_vector(p)) {
			for (uint32_t k = 0; k < p->elems; k++)
				sum[p->first + k] += l.vectors[k];
			l.vectors += p->elems;
			continue;
		}
		add_codes(c, l.codes, p->elems, *l.scales++, sum + p->first);
		l.codes += code_bytes(c, p->elems);
	}
	return 0;
}

static size_t sign_encode(struct codec *c, unsigned int round,
			  const float *grad, uint8_t *msg)
{
	(void)round;
	for (uint64_t i = 0; i < c->elems; i++)
		c->residual[i] += grad[i];
	return write_message(c, c->residual, msg);
}

static int sign_combine(struct codec *c, unsigned int round,
			const void *const *msgs, const size_t *lens,
			uint8_t *out, size_t *out_len, struct pl_err *err)
{
	int rc = 0;

	(void)round;
	for (uint32_t w = 0; w < c->conf.workers && rc == 0; w++)
		rc = add_message(c, msgs[w], lens[w], c->combined, err);
	*out_len = rc == 0 ? write_message(c, c->combined, out) : 0;
	return rc;
}

static int sign_decode(struct codec *c, unsigned int round,
		       const uint8_t *msg, size_t len, float *sum,
		       struct pl_err *err)
{
	(void)round;
	memset(sum, 0, c->elems * sizeof(float));
	return add_message(c, msg, len, sum, err);
}

static int sign_init(struct codec *c)
{
	int rc = codec_floats(&c->residual, c->elems);

	return rc < 0 ? rc : codec_floats(&c->combined, c->elems);
}

const struct codec_ops codec_onebit = {
	.name = "onebit", .rounds = 1, .init = sign_init,
	.message_max = sign_max, .encode = sign_encode,
	.combine = sign_combine, .decode = sign_decode,
};

const struct codec_ops codec_twobit = {
	.name = "twobit", .rounds = 1, .init = sign_init,
	.message_max = sign_max, .encode = sign_encode,
	.combine = sign_combine, .decode = sign_decode,
};
