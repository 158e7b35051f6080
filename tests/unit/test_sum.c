/* tests/unit/test_sum.c - CRC32C, and checksums of lanes */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "shm/crc32c.h"
#include "shm/sum.h"
#include "tests/unit/lane_pair.h"

#define RING PL_RING_MIN
#define TOTAL ((8u << 20) / SLOWER)
#define BUF (RING * 2)

/* RFC 3720, B.4. */
static const uint8_t read10[48] = {
	0x01, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	0x14, 0, 0, 0, 0, 0, 0x04, 0, 0, 0, 0, 0x14, 0, 0, 0, 0x18,
	0x28, 0, 0, 0, 0, 0, 0, 0, 0x02, 0, 0, 0, 0, 0, 0, 0,
};

static void vectors(uint32_t (*crc)(uint32_t, const void *, size_t))
{
	uint8_t b[32];

	memset(b, 0, sizeof(b));
	assert_int_equal(crc(0, b, sizeof(b)), 0x8a9136aa);
	memset(b, 0xff, sizeof(b));
	assert_int_equal(crc(0, b, sizeof(b)), 0x62a8ab43);
	for (int i = 0; i < 32; i++)
		b[i] = (uint8_t)i;
	assert_int_equal(crc(0, b, sizeof(b)), 0x46dd794e);
	for (int i = 0; i < 32; i++)
		b[i] = (uint8_t)(31 - i);
	assert_int_equal(crc(0, b, sizeof(b)), 0x113fdb5c);
	assert_int_equal(crc(0, read10, sizeof(read10)), 0xd9963a56);
	assert_int_equal(crc(0, "123456789", 9), 0xe3069283);
	assert_int_equal(crc(7, b, 0), 7);
}

static void both_ways(void **state)
{
	unsigned char b[300];
	unsigned int seed = 3;

	(void)state;
	vectors(pl_crc32c);
	vectors(pl_crc32c_portable);
	bytes_fill(b, 0, sizeof(b));
	for (int i = 0; i < 2000; i++) {
		size_t at = (size_t)rand_r(&seed) % 100;
		size_t n = (size_t)rand_r(&seed) % 200;
		size_t cut = n ? (size_t)rand_r(&seed) % n : 0;
		uint32_t c = pl_crc32c(0, b + at, n);

		assert_int_equal(c, pl_crc32c_portable(0, b + at, n));
		assert_int_equal(c, pl_crc32c(pl_crc32c(0, b + at, cut),
					      b + at + cut, n - cut));
	}
}

static void words(void **state)
{
	const uint64_t heads[] = { 0, 1, 0x7fffffff, 0x80000000, 0x123456789 };

	(void)state;
	for (size_t i = 0; i < sizeof(heads) / sizeof(*heads); i++) {
		uint64_t h = heads[i], sum = pl_sum_make(h, 0xffffffff);

		assert_true(sum & PL_SUM_ON);
		assert_int_equal((uint32_t)sum, 0xffffffff);
		assert_true(pl_sum_head(sum, h) == h);
		if (h)
			assert_true(pl_sum_head(sum, h - 1) == h);
		assert_true(pl_sum_head(sum, h + 1) > h + RING);
	}
}

static void pair(struct pl_lane **a, struct pl_lane **b)
{
	lane_both(RING, a, b);
	pl_tx_sum_start(*a);
}

/* --- bytes that stay as they are ------------------------------------------ */

static void *send_all(void *arg)
{
	unsigned char *buf = malloc(BUF);
	struct pl_lane *l = arg;
	unsigned int seed = 1;
	uint64_t at = 0;
	void *to;

	while (at < TOTAL) {
		size_t n = piece(&seed, BUF, TOTAL - at);
		ssize_t r;

		if (n & 1) {
			bytes_fill(buf, at, n);
			r = pl_lane_send(l, buf, n, 0);
		} else {
			r = pl_lane_reserve(l, 1, &to, 0);
			r = r > (ssize_t)n ? (ssize_t)n : r;
			if (r > 0)
				bytes_fill(to, at, (size_t)r);
			if (r > 0 && pl_lane_commit(l, (size_t)r) < 0)
				r = -1;
		}
		if (r <= 0)
			break;
		at += (uint64_t)r;
	}
	free(buf);
	pl_lane_shutdown(l);
	return (void *)(uintptr_t)(at == TOTAL);
}

static void stream(void **state)
{
	unsigned char *buf = malloc(BUF);
	struct pl_lane *a, *b;
	unsigned int seed = 5;
	uint64_t at = 0;
	pthread_t t;
	void *ok;
	ssize_t n;

	(void)state;
	pair(&a, &b);
	assert_int_equal(pthread_create(&t, NULL, send_all, a), 0);
	while ((n = pl_lane_recv(b, buf, piece(&seed, BUF, BUF), 0)) > 0) {
		assert_true(bytes_same(buf, at, (size_t)n));
		at += (uint64_t)n;
	}
	assert_int_equal(n, 0);
	assert_int_equal(at, TOTAL);
	pthread_join(t, &ok);
	assert_true(ok);
	assert_true(b->rx.sums);
	assert_false(a->rx.sums);
	assert_int_equal(atomic_load(&b->own->rx_count.bad_sums), 0);
	/* The other way is without. */
	assert_int_equal(pl_lane_send(b, "x", 1, 0), 1);
	assert_int_equal(pl_lane_recv(a, buf, 1, 0), 1);
	pl_lane_close(a);
	pl_lane_close(b);
	free(buf);
}

/* --- bytes that change ---------------------------------------------------- */

static void ended(struct pl_lane *a, struct pl_lane *b)
{
	const void *in;
	char c;

	assert_int_equal(pl_lane_recv(b, &c, 1, 0), -EBADMSG);
	assert_int_equal(pl_lane_peek(b, 1, &in, PL_DONTWAIT), -EBADMSG);
	assert_int_equal(atomic_load(&b->own->rx_count.bad_sums), 1);
	assert_int_equal(pl_lane_send(b, &c, 1, 0), -EBADMSG);
	assert_int_equal(pl_lane_send(a, &c, 1, 0), -EPIPE);
	pl_lane_close(a);
	pl_lane_close(b);
}

static void flipped(void **state)
{
	struct pl_lane *a, *b;
	char buf[100];
	void *to;

	(void)state;
	for (int at = 0; at < 100; at += 33) {
		pair(&a, &b);
		memset(buf, 1, sizeof(buf));
		assert_int_equal(pl_lane_send(a, buf, 50, 0), 50);
		assert_int_equal(pl_lane_recv(b, buf, 100, 0), 50);
		assert_true(pl_lane_reserve(a, 100, &to, 0) >= 100);
		memset(to, 7, 100);
		assert_int_equal(pl_lane_commit(a, 100), 0);
		((char *)to)[at] ^= 0x10;
		ended(a, b);
	}
}

/* Bytes that were compared stay; what changes behind them is found. */
static void flipped_later(void **state)
{
	struct pl_lane *a, *b;
	const void *in;
	char c;

	(void)state;
	pair(&a, &b);
	assert_int_equal(pl_lane_send(a, "good", 4, 0), 4);
	assert_int_equal(pl_lane_peek(b, 4, &in, 0), 4);
	assert_int_equal(pl_lane_send(a, "bad", 3, 0), 3);
	a->tx.ring[5] ^= 1;
	assert_int_equal(pl_lane_recv(b, &c, 1, 0), 1);
	assert_int_equal(c, 'g');
	assert_int_equal(pl_lane_consume(b, 3), 0);
	ended(a, b);
}

static void wrong_word(void **state)
{
	struct pl_lane *a, *b;
	uint64_t sum;
	char c;

	(void)state;
	for (int i = 0; i < 4; i++) {
		pair(&a, &b);
		assert_int_equal(pl_lane_send(a, "0", 1, 0), 1);
		assert_int_equal(pl_lane_recv(b, &c, 1, 0), 1);
		assert_int_equal(pl_lane_send(a, "123", 3, 0), 3);
		sum = atomic_load(&a->own->sum);
		if (i == 0)
			sum ^= 1;		/* another number */
		else if (i == 1)
			sum = 0;		/* there are none any more */
		else if (i == 2)
			sum = pl_sum_make(5, (uint32_t)sum);
		else
			sum = pl_sum_make(RING + 2, (uint32_t)sum);
		atomic_store(&a->own->sum, sum);
		ended(a, b);
	}
}

/* As it may be for an instant on another node: the word goes. */
static void word_late(void **state)
{
	struct pl_lane *a, *b;
	uint64_t sum;
	char buf[8];

	(void)state;
	pair(&a, &b);
	assert_int_equal(pl_lane_send(a, "12", 2, 0), 2);
	sum = atomic_load(&a->own->sum);
	assert_int_equal(pl_lane_send(a, "345", 3, 0), 3);
	pl_lane_shutdown(a);
	sum ^= atomic_exchange(&a->own->sum, sum);
	assert_int_equal(pl_lane_recv(b, buf, 8, 0), 2);
	assert_int_equal(pl_lane_recv(b, buf, 8, PL_DONTWAIT), -EAGAIN);
	atomic_store(&a->own->sum, atomic_load(&a->own->sum) ^ sum);
	assert_int_equal(pl_lane_recv(b, buf, 8, 0), 3);
	assert_memory_equal(buf, "345", 3);
	assert_int_equal(pl_lane_recv(b, buf, 8, 0), 0);
	pl_lane_close(a);
	pl_lane_close(b);
}

/* Nobody comes any more who could bring it. */
static void word_never(void **state)
{
	struct pl_lane *a, *b;
	uint64_t sum;
	char buf[8];

	(void)state;
	pair(&a, &b);
	sum = atomic_load(&a->own->sum);
	assert_int_equal(pl_lane_send(a, "12", 2, 0), 2);
	atomic_store(&a->own->sum, sum);
	pl_lane_close(a);
	assert_int_equal(pl_lane_recv(b, buf, 8, 0), -EBADMSG);
	pl_lane_close(b);
}

/* An agent has learnt in between to carry them. */
static void word_begins_late(void **state)
{
	struct pl_lane *a, *b;
	char c;

	(void)state;
	lane_both(RING, &a, &b);
	assert_int_equal(pl_lane_send(a, "1", 1, 0), 1);
	assert_int_equal(pl_lane_recv(b, &c, 1, 0), 1);
	pl_tx_sum_start(a);
	assert_int_equal(pl_lane_send(a, "2", 1, 0), 1);
	assert_int_equal(pl_lane_recv(b, &c, 1, 0), 1);
	pl_lane_close(a);
	pl_lane_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_ways),
		cmocka_unit_test(words),
		lane_test(stream),
		lane_test(flipped),
		lane_test(flipped_later),
		lane_test(wrong_word),
		lane_test(word_late),
		lane_test(word_never),
		lane_test(word_begins_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
