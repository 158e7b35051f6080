/*
 * bench/lane_message.h - what stands in a message of lane_perf
 *
 * The first word has the kind and the number of the message, and so has the
 * last one; in a message of kind LP_FULL every word is made of number and
 * place. Each receiver checks what its kind promises.
 */
#ifndef BENCH_LANE_MESSAGE_H
#define BENCH_LANE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum lp_kind {
	LP_ENDS = 1,		/* checked at both ends */
	LP_FULL = 2,		/* checked as a whole */
	LP_LAST = 3,		/* of this size */
};

/* Full ones at the start of each size, before anything is measured. */
static inline unsigned int lp_full_count(size_t size)
{
	return size > (1u << 20) ? 2 : 16;
}

static inline uint64_t lp_word(enum lp_kind kind, uint64_t no)
{
	return (uint64_t)kind << 62 | (no & (UINT64_MAX >> 2));
}

static inline uint64_t lp_pattern(uint64_t no, size_t i)
{
	return (no + 1) * 0x9e3779b97f4a7c15ull + i * 0xc2b2ae3d27d4eb4full;
}

static inline size_t lp_last(size_t size)
{
	return size & ~(size_t)7;
}

static inline void lp_put(void *at, uint64_t word)
{
	memcpy(at, &word, sizeof(word));
}

static inline uint64_t lp_get(const void *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

/* Reads every word. */
static inline uint64_t lp_sum(const char *at, size_t len)
{
	uint64_t a = 0, b = 0, c = 0, d = 0;

	for (; len >= 32; at += 32, len -= 32) {
		a += lp_get(at);
		b += lp_get(at + 8);
		c += lp_get(at + 16);
		d += lp_get(at + 24);
	}
	for (; len >= 8; at += 8, len -= 8)
		a += lp_get(at);
	return a + b + c + d;
}

/* First and last word. */
static inline void lp_stamp(char *m, size_t size, enum lp_kind kind,
			    uint64_t no)
{
	lp_put(m + lp_last(size) - 8, lp_word(kind, no));
	lp_put(m, lp_word(kind, no));
}

static inline bool lp_stamped(const char *m, size_t size, enum lp_kind kind,
			      uint64_t no)
{
	const uint64_t want = lp_word(kind, no);

	return lp_get(m) == want && lp_get(m + lp_last(size) - 8) == want;
}

static inline void lp_fill(char *m, size_t size, uint64_t no)
{
	for (size_t i = 8; i + 8 <= size; i += 8)
		lp_put(m + i, lp_pattern(no, i));
	for (size_t i = lp_last(size); i < size; i++)
		m[i] = (char)lp_pattern(no, i);
	lp_stamp(m, size, LP_FULL, no);
}

/* len bytes from off on, of all of it, but for first and last word. */
static inline bool lp_filled_part(const char *m, size_t off, size_t len,
				  size_t size, uint64_t no)
{
	for (size_t i = 0; i + 8 <= len; i += 8)
		if (off + i && off + i + 8 != lp_last(size) &&
		    lp_get(m + i) != lp_pattern(no, off + i))
			return false;
	for (size_t i = lp_last(len); i < len; i++)
		if (m[i] != (char)lp_pattern(no, off + i))
			return false;
	return true;
}

/* The kind of a message, if it is what its kind promises for this number. */
static inline int lp_check(const char *m, size_t size, uint64_t no)
{
	int kind = (int)(lp_get(m) >> 62);

	if (kind == LP_FULL && !lp_filled_part(m, 0, size, size, no))
		return -1;
	return kind && lp_stamped(m, size, (enum lp_kind)kind, no) ? kind : -1;
}

#endif
