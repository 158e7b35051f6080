/*
 * bench/ps_stats.c - medians and quantiles of a few numbers
 */
#include "bench/ps_stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double ps_quantile(const double *v, size_t n, double q)
{
	double *s = n ? malloc(n * sizeof(*s)) : NULL;
	double at, r;
	size_t i;

	if (!s)
		return NAN;
	at = q * (double)(n - 1);
	i = (size_t)at;
	memcpy(s, v, n * sizeof(*s));
	qsort(s, n, sizeof(*s), compare);
	r = i + 1 < n ? s[i] + (at - (double)i) * (s[i + 1] - s[i]) :
			s[n - 1];
	free(s);
	return r;
}

double ps_median(const double *v, size_t n)
{
	return ps_quantile(v, n, 0.5);
}

static int compare_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

void ps_sort_u32(uint32_t *v, size_t n)
{
	qsort(v, n, sizeof(*v), compare_u32);
}

double ps_sorted_u32(const uint32_t *v, size_t n, double q)
{
	return v[(size_t)(q * (double)(n - 1))];
}
