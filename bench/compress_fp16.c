/*
 * bench/compress_fp16.c - floats as IEEE 754 halves
 *
 * Rounding to nearest even by the float unit: adding a power of two that is
 * 2^10 times the last place of the half leaves no bits beyond it. Sums are made
 * of floats and rounded once more. No half is infinite: what is too large
 * becomes the largest, so that one value can't spoil a model; a NaN stays one.
 */
#include "bench/compress_impl.h"

#include <string.h>

#define HALF_MAX 65504.0f

static uint32_t bits_of(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof(u));
	return u;
}

static float float_of(uint32_t u)
{
	float f;

	memcpy(&f, &u, sizeof(f));
	return f;
}

static uint16_t to_half(float f)
{
	uint32_t sign = bits_of(f) >> 16 & 0x8000, u = bits_of(f) & 0x7fffffff;
	uint32_t odd;

	if (u > 0x7f800000)
		return (uint16_t)(sign | 0x7e00);
	if (float_of(u) >= HALF_MAX)
		return (uint16_t)(sign | 0x7bff);
	/* Subnormal: the last place is 2^-24, which is that of 0.5f. */
	if (u < 0x38800000)
		return (uint16_t)(sign | (bits_of(float_of(u) + 0.5f) -
					  bits_of(0.5f)));
	odd = u >> 13 & 1;
	u += 0xfff + odd;
	return (uint16_t)(sign | (u - 0x38000000) >> 13);
}

static float from_half(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, u = h & 0x7fff;

	if (u < 0x400)
		return float_of(sign | bits_of((float)u * 0x1p-24f));
	if (u >= 0x7c00)
		return float_of(sign | 0x7fc00000);
	return float_of(sign | ((u << 13) + 0x38000000));
}

static size_t fp16_max(const struct codec *c)
{
	return c->elems * sizeof(uint16_t);
}

static size_t fp16_encode(struct codec *c, unsigned int round,
			  const float *grad, uint8_t *msg)
{
	uint16_t *out = (uint16_t *)msg;

	(void)round;
	for (uint64_t i = 0; i < c->elems; i++)
		out[i] = to_half(grad[i]);
	return fp16_max(c);
}

static int fp16_combine(struct codec *c, unsigned int round,
			const void *const *msgs, const size_t *lens,
			uint8_t *out, size_t *out_len, struct pl_err *err)
{
	const uint16_t *const *m = (const uint16_t *const *)msgs;
	uint16_t *half = (uint16_t *)out;

	(void)round;
	for (uint32_t w = 0; w < c->conf.workers; w++)
		if (lens[w] != fp16_max(c))
			return codec_no_message(c, lens[w], err);
	for (uint64_t i = 0; i < c->elems; i++) {
		float sum = from_half(m[0][i]);

		for (uint32_t w = 1; w < c->conf.workers; w++)
			sum += from_half(m[w][i]);
		half[i] = to_half(sum);
	}
	*out_len = fp16_max(c);
	return 0;
}

static int fp16_decode(struct codec *c, unsigned int round,
		       const uint8_t *msg, size_t len, float *sum,
		       struct pl_err *err)
{
	const uint16_t *half = (const uint16_t *)msg;

	(void)round;
	if (len != fp16_max(c))
		return codec_no_message(c, len, err);
	for (uint64_t i = 0; i < c->elems; i++)
		sum[i] = from_half(half[i]);
	return 0;
}

const struct codec_ops codec_fp16 = {
	.name = "fp16", .rounds = 1, .message_max = fp16_max,
	.encode = fp16_encode, .combine = fp16_combine, .decode = fp16_decode,
};
