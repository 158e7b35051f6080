/* tests/unit/test_bench_stale.c - what asynchronous gradients have missed */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>

#include "bench/ps_stale.h"

#define CHUNKS 3

static void is(const struct ps_stale *s, uint64_t chunks, uint64_t updates,
	       uint64_t most)
{
	assert_int_equal(s->sum.chunks, chunks);
	assert_int_equal(s->sum.updates, updates);
	assert_int_equal(s->sum.most, most);
}

static void single_chunks(void **state)
{
	struct ps_stale s;
	struct pl_err err;

	(void)state;
	assert_int_equal(ps_stale_init(&s, 3, CHUNKS, &err), 0);
	/* All have the first parameters: who comes later missed more. */
	for (uint32_t rank = 0; rank < 3; rank++)
		ps_stale_apply(&s, rank, 1, true);
	is(&s, 3, 0 + 1 + 2, 2);
	/* Another chunk is another matter, one's own update none. */
	ps_stale_apply(&s, 2, 0, true);
	ps_stale_apply(&s, 2, 0, true);
	is(&s, 5, 3, 2);
	/* Worker 0 lacks two updates of chunk 1, then none. */
	ps_stale_copied(&s, 0, 1);
	ps_stale_apply(&s, 0, 1, true);
	is(&s, 6, 3, 2);
	/* Worker 1 lacks two now; in the warm-up that is not counted. */
	ps_stale_apply(&s, 1, 1, false);
	is(&s, 6, 3, 2);
	ps_stale_fini(&s);
}

static void update(struct ps_stale *s, uint32_t rank, uint32_t chunk)
{
	ps_stale_apply(s, rank, chunk, true);
	assert_int_equal(ps_stale_log(s, rank, chunk), 0);
}

static void versions(void **state)
{
	struct ps_stale s;
	struct pl_err err;

	(void)state;
	assert_int_equal(ps_stale_init(&s, 2, CHUNKS, &err), 0);
	for (uint32_t c = 0; c < CHUNKS; c++)
		update(&s, 0, c);
	is(&s, 3, 0, 0);
	/* It has seen chunks 0 and 1. */
	assert_int_equal(ps_stale_copied_all(&s, 1, 2), 0);
	for (uint32_t c = 0; c < CHUNKS; c++)
		update(&s, 1, c);
	is(&s, 6, 1, 1);
	/* A copy gets no older, and can't be of the future. */
	assert_int_equal(ps_stale_copied_all(&s, 1, 1), -EPROTO);
	assert_int_equal(ps_stale_copied_all(&s, 1, 7), -EPROTO);
	assert_int_equal(ps_stale_copied_all(&s, 1, 6), 0);
	/* Worker 0 started from nothing, and missed one of each. */
	for (uint32_t c = 0; c < CHUNKS; c++)
		update(&s, 0, c);
	is(&s, 9, 4, 1);
	ps_stale_fini(&s);
}

/* What the log forgets and how it grows changes nothing. */
static void long_log(void **state)
{
	const uint64_t far = 100000;
	struct ps_stale s;
	struct pl_err err;

	(void)state;
	assert_int_equal(ps_stale_init(&s, 2, CHUNKS, &err), 0);
	for (uint64_t i = 0; i < far; i++) {
		update(&s, 0, (uint32_t)(i % CHUNKS));
		assert_int_equal(ps_stale_copied_all(&s, 0, i + 1), 0);
		if (i >= 5000)
			assert_int_equal(ps_stale_copied_all(&s, 1, i - 5000),
					 0);
	}
	is(&s, far, 0, 0);
	assert_true(s.log_room < 20000);
	assert_int_equal(ps_stale_copied_all(&s, 1, far - 4), 0);
	/* The last four updates were of chunks 0, 1, 2 and 0. */
	update(&s, 1, (uint32_t)((far - 4) % CHUNKS));
	is(&s, far + 1, 2, 2);
	update(&s, 1, (uint32_t)((far - 3) % CHUNKS));
	is(&s, far + 2, 3, 2);
	ps_stale_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(single_chunks),
		cmocka_unit_test(versions),
		cmocka_unit_test(long_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
