/* tests/unit/test_bench_ring.c - what goes around in a ring all-reduce */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "common/util.h"
#include "bench/ps_models.h"
#include "bench/ps_ring.h"

#define MAX 9

/* All workers' parts, as sets of those whose gradients are in them. */
static void go_around(uint32_t n)
{
	uint32_t has[MAX][MAX], in[MAX];

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t p = 0; p < n; p++)
			has[i][p] = 1u << i;
	for (uint32_t r = 0; r < ps_ring_rounds(n); r++) {
		for (uint32_t i = 0; i < n; i++)
			in[(i + 1) % n] = has[i][ps_ring_part(n, i, r)];
		for (uint32_t i = 0; i < n; i++) {
			uint32_t prev = (i + n - 1) % n;
			uint32_t *own = &has[i][ps_ring_part(n, prev, r)];

			/* Nobody is counted twice. */
			if (r < n - 1)
				assert_int_equal(*own & in[i], 0);
			*own = r < n - 1 ? *own | in[i] : in[i];
		}
	}
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t p = 0; p < n; p++)
			assert_int_equal(has[i][p], (1u << n) - 1);
}

static void all_get_all(void **state)
{
	(void)state;
	assert_int_equal(ps_ring_rounds(1), 0);
	for (uint32_t n = 2; n <= MAX; n++)
		go_around(n);
}

/* What is sent in a round came in the one before. */
static void passed_on(void **state)
{
	(void)state;
	for (uint32_t n = 2; n <= MAX; n++)
		for (uint32_t i = 0; i < n; i++)
			for (uint32_t r = 1; r < ps_ring_rounds(n); r++)
				assert_int_equal(ps_ring_part(n, i, r),
					ps_ring_part(n, (i + n - 1) % n,
						     r - 1));
}

static void parts_cover_the_model(void **state)
{
	struct pl_err err;
	struct ps_plan plan;

	(void)state;
	assert_int_equal(ps_plan_init(&plan, ps_model_find("googlenet"), 1,
				      PS_CHUNK_BYTES_DEFAULT, &err), 0);
	for (uint32_t n = 1; n <= 64; n++) {
		uint32_t all = 0;

		for (uint32_t p = 0; p < n; p++)
			all += ps_ring_chunks(plan.n_chunks, n, p);
		assert_int_equal(all, plan.n_chunks);
	}
	/* In buckets, too, the last one included. */
	plan.back_first = true;
	for (uint32_t n = 1; n <= 64; n++) {
		uint32_t bucket = ps_ring_bucket(&plan, n);

		assert_int_equal(bucket % n, 0);
		assert_true(bucket >= 4 * n);
	}
	ps_plan_fini(&plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_get_all),
		cmocka_unit_test(passed_on),
		cmocka_unit_test(parts_cover_the_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
