/* bench/serve_load.c - when what is asked, and what latencies say */
#include "bench/serve.h"

#include <math.h>
#include <stdlib.h>

#define CONFIDENCE 0.99

/* splitmix64's output function (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

uint64_t sv_seed(uint64_t seed, enum sv_stream s)
{
	return mix(mix(seed) + (uint64_t)s + 1);
}

uint64_t sv_number(uint64_t stream_seed, uint64_t i)
{
	return mix(stream_seed + (i + 1) * 0x9e3779b97f4a7c15ull);
}

uint32_t sv_pick(uint64_t stream_seed, uint64_t i, uint32_t n)
{
	return (uint32_t)((sv_number(stream_seed, i) >> 32) * n >> 32);
}

void sv_schedule(uint64_t stream_seed, double per_s, uint32_t n,
		 uint64_t *at_ns)
{
	double at = 0;

	for (uint32_t i = 0; i < n; i++) {
		/* In (0, 1]: its logarithm is finite. */
		double u = (double)((sv_number(stream_seed, i) >> 11) + 1) *
			   0x1p-53;

		at += -log(u) / per_s * 1e9;
		at_ns[i] = (uint64_t)at;
	}
}

/*
 * If a share of q of all queries were slower, this many or fewer of n would be
 * with a probability that the binomial distribution tells. Once that is below
 * 1 %, the share is smaller. Terms are kept as logarithms: the first ones are
 * too small for a double.
 */
long sv_over_max(unsigned int permille, uint32_t n)
{
	const double p = permille / 1000.0, q = 1 - p;
	double term = n * log(p), sum = 0;
	long over = -1;

	for (uint32_t k = 0; k <= n; k++) {
		sum += exp(term);
		if (sum > 1 - CONFIDENCE)
			break;
		over = (long)k;
		term += log((double)(n - k) / (k + 1.0)) + log(q / p);
	}
	return over;
}

uint32_t sv_queries_min(unsigned int permille)
{
	return (uint32_t)ceil(log(1 - CONFIDENCE) / log(permille / 1000.0));
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

void sv_sort(uint64_t *v, uint32_t n)
{
	qsort(v, n, sizeof(*v), compare);
}

uint64_t sv_sorted(const uint64_t *v, uint32_t n, double q)
{
	double rank = ceil(q * n - 1e-9);

	if (n == 0)
		return 0;
	return v[rank < 1 ? 0 : rank > n ? n - 1 : (uint32_t)rank - 1];
}
