/*
 * bench/compress_shape.c - matrices and vectors, of a list of sizes
 */
#include "bench/compress_shape.h"

/* The divisor next to the square root, from below. */
static uint32_t near_root(uint32_t n)
{
	uint32_t best = 1;

	for (uint32_t d = 1; (uint64_t)d * d <= n; d++)
		if (n % d == 0)
			best = d;
	return best;
}

static bool is_vector(const uint32_t *sizes, uint32_t i)
{
	return i > 0 && sizes[i] <= sizes[i - 1] &&
	       sizes[i - 1] % sizes[i] == 0;
}

void codec_shapes(const uint32_t *sizes, uint32_t n,
		  struct codec_tensor *out)
{
	for (uint32_t i = 0; i < n; i++) {
		out[i] = (struct codec_tensor){ sizes[i], 1 };
		if (is_vector(sizes, i))
			continue;
		out[i].rows = i + 1 < n && is_vector(sizes, i + 1) ?
			sizes[i] / sizes[i + 1] : near_root(sizes[i]);
	}
}
