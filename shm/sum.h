/*
 * shm/sum.h - the checksum of what was sent over a lane
 *
 * Theory of operation
 *
 * A sender with checksums keeps one word beside its head: PL_SUM_ON, the low 31
 * bits of how many bytes it has published (rings are smaller than that), and
 * the CRC32C of all of them since the lane began. It is stored, with release,
 * before the head that it belongs to. Whoever loads the head and then the word
 * gets that head or a newer one; bytes up to there may be read. A receiver
 * computes the same number over the ring as the bytes arrive, and gives out
 * only what it has compared.
 *
 * To another node head and word go in one put, always those of the same moment.
 * There the reader may for an instant see the head and still the old word; it
 * then goes by the word, as if the bytes behind it had not come yet.
 *
 * A word without PL_SUM_ON says that there are no checksums: the lane has none
 * in this direction, or an agent of a release without them carries it. They
 * begin with the stream or not at all, and do not cease.
 */
#ifndef SHM_SUM_H
#define SHM_SUM_H

#include <stdbool.h>
#include <stdint.h>

#define PL_SUM_ON (UINT64_C(1) << 63)
#define PL_SUM_HEAD_MASK UINT64_C(0x7fffffff)

static inline uint64_t pl_sum_make(uint64_t head, uint32_t crc)
{
	return PL_SUM_ON | (head & PL_SUM_HEAD_MASK) << 32 | crc;
}

/* The head that a word is of, if it is at from or less than 2^31 beyond. */
static inline uint64_t pl_sum_head(uint64_t sum, uint64_t from)
{
	return from + (((sum >> 32) - from) & PL_SUM_HEAD_MASK);
}

#endif
