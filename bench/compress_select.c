/*
 * bench/compress_select.c - the largest magnitudes of a tensor, exactly
 *
 * Finding the k-th largest of a tensor moves most of it about. A threshold from
 * a sample of it lets a little more than k elements through, of which the
 * second selection takes k. Where the sample misleads and fewer than k come
 * through, the threshold is halved; below every magnitude, all of them do.
 */
#include "bench/compress_impl.h"

#include <math.h>

#include "common/util.h"

#define SAMPLE_PART 100		/* one of so many elements is in the sample */
#define SAMPLE_MIN 1024
#define HALVINGS 8

static void swap(float *a, float *b)
{
	float t = *a;

	*a = *b;
	*b = t;
}

/* The median of three goes first, so that sorted input is no worst case. */
static float pivot_of(const float *v, uint32_t lo, uint32_t hi)
{
	float a = v[lo], b = v[lo + (hi - lo) / 2], c = v[hi];

	return fmaxf(fminf(a, b), fminf(fmaxf(a, b), c));
}

float codec_kth_largest(float *v, uint32_t n, uint32_t k)
{
	uint32_t lo = 0, hi = n - 1, want = k - 1;

	while (lo < hi) {
		float pivot = pivot_of(v, lo, hi);
		uint32_t above = lo, i = lo, below = hi + 1;

		/* Greater, equal and less than it, from left to right. */
		while (i < below) {
			if (v[i] > pivot)
				swap(&v[above++], &v[i++]);
			else if (v[i] < pivot)
				swap(&v[--below], &v[i]);
			else
				i++;
		}
		if (want < above)
			hi = above - 1;
		else if (want >= below)
			lo = below;
		else
			return pivot;
	}
	return v[want];
}

/* A NaN would neither be above a threshold nor below: it comes first. */
static float magnitude(float v)
{
	return isnan(v) ? INFINITY : fabsf(v);
}

static float sampled_threshold(const float *v, uint32_t n, uint32_t k,
			       uint64_t salt, float *scratch)
{
	uint32_t m = PL_MAX(n / SAMPLE_PART, (uint32_t)SAMPLE_MIN);
	uint32_t stride = n / m, rank;

	for (uint32_t i = 0; i < m; i++)
		scratch[i] = magnitude(v[i * (uint64_t)stride +
					 salt % stride]);
	/* A quarter more than k, and three more of the sample. */
	rank = (uint32_t)((double)k / n * m * 1.25) + 3;
	return codec_kth_largest(scratch, m, PL_MIN(rank, m));
}

static uint32_t above(const float *v, uint32_t n, float threshold,
		      uint32_t *out)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++) {
		out[count] = i;
		count += !(fabsf(v[i]) < threshold);
	}
	return count;
}

/* Of the m candidates in out, the k largest; of equal ones the first. */
static uint32_t exactly(const float *v, uint32_t m, uint32_t k,
			float *scratch, uint32_t *out)
{
	uint32_t greater = 0, equal, count = 0;
	float limit;

	for (uint32_t i = 0; i < m; i++)
		scratch[i] = magnitude(v[out[i]]);
	limit = codec_kth_largest(scratch, m, k);
	for (uint32_t i = 0; i < m; i++)
		greater += magnitude(v[out[i]]) > limit;
	equal = k - greater;
	for (uint32_t i = 0; i < m; i++) {
		float a = magnitude(v[out[i]]);

		if (a < limit || (a == limit && equal == 0))
			continue;
		equal -= a == limit;
		out[count++] = out[i];
	}
	return count;
}

uint32_t codec_select(const float *v, uint32_t n, uint32_t k, uint64_t salt,
		      float *scratch, uint32_t *out)
{
	float threshold = 0;
	uint32_t m;

	k = PL_MIN(k, n);
	if (k == 0)
		return 0;
	if (n > 2 * SAMPLE_MIN && k < n / 2)
		threshold = sampled_threshold(v, n, k, salt, scratch);
	m = above(v, n, threshold, out);
	for (int i = 0; m < k && i < HALVINGS; i++) {
		threshold /= 2;
		m = above(v, n, threshold, out);
	}
	if (m < k)
		m = above(v, n, 0, out);
	return exactly(v, m, k, scratch, out);
}
