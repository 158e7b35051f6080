/* daemonset/remote_dirty.c - sets of byte ranges that have to be sent */
#include <string.h>

#include "common/util.h"
#include "daemonset/remote_internal.h"

/* The two ranges with the smallest gap become one. */
static unsigned int join_nearest(struct pl_rrange *v, unsigned int n)
{
	uint64_t best = UINT64_MAX;
	unsigned int at = 0;

	for (unsigned int i = 0; i + 1 < n; i++) {
		uint64_t gap = v[i + 1].off - v[i].off - v[i].len;

		if (gap < best) {
			best = gap;
			at = i;
		}
	}
	v[at].len = v[at + 1].off + v[at + 1].len - v[at].off;
	memmove(v + at + 1, v + at + 2, (n - at - 2) * sizeof(*v));
	return n - 1;
}

unsigned int pl_rrange_add(struct pl_rrange *v, unsigned int n, uint64_t off,
			   uint64_t len)
{
	uint64_t lo = off, hi = off + len;
	unsigned int i = 0, j;

	if (!len)
		return n;
	if (n == PL_RSUB_RANGES)
		n = join_nearest(v, n);
	while (i < n && v[i].off + v[i].len < off)
		i++;
	for (j = i; j < n && v[j].off <= hi; j++) {
		lo = PL_MIN(lo, v[j].off);
		hi = PL_MAX(hi, v[j].off + v[j].len);
	}
	/* One in the place of [i, j). */
	memmove(v + i + 1, v + j, (n - j) * sizeof(*v));
	v[i] = (struct pl_rrange){ lo, hi - lo };
	return n - (j - i) + 1;
}

uint64_t pl_rrange_bytes(const struct pl_rrange *v, unsigned int n)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < n; i++)
		sum += v[i].len;
	return sum;
}
