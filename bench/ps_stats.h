/*
 * bench/ps_stats.h - medians and quantiles of a few numbers
 */
#ifndef BENCH_PS_STATS_H
#define BENCH_PS_STATS_H

#include <stddef.h>
#include <stdint.h>

/*
 * The quantile q (0 to 1) of n values: of two neighbours that it falls between,
 * in proportion. NAN when n is 0. The values stay as they are.
 */
double ps_quantile(const double *v, size_t n, double q);
double ps_median(const double *v, size_t n);

/* For many samples: sorted once, where they are; then one of the n > 0. */
void ps_sort_u32(uint32_t *v, size_t n);
double ps_sorted_u32(const uint32_t *v, size_t n, double q);

#endif
