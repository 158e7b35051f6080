/* tests/unit/test_bench_cases.c - cases of a comparison, and their weights */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "bench/ps_cases.h"

static struct ps_bench *matrix(const char *options)
{
	struct ps_bench *b = calloc(1, sizeof(*b));
	char *argv[] = { (char *)"matrix", (char *)"--model=googlenet,vgg16",
			 (char *)options };
	struct pl_err err;

	assert_non_null(b);
	assert_int_equal(ps_opts_parse(PS_CMD_MATRIX, options ? 3 : 2, argv,
				       &b->o, &err), 0);
	ps_progress_init(&b->progress, ps_cases_total(&b->o));
	return b;
}

/* What is added while a comparison goes on is what was counted before it. */
static void weights_add_up(void **state)
{
	struct ps_bench *b = matrix("--placement=both,spread");
	unsigned int sum = PS_WEIGHT_BASE, n = 0;

	(void)state;
	for (unsigned int m = 0; m < b->o.n_models; m++) {
		sum += ps_cases_run_weight(b->o.models[m]);
		for (unsigned int i = 0; i < PS_PLACEMENTS * PS_STRATEGIES;
		     i++) {
			struct ps_case c = { .model = b->o.models[m] };

			c.placement = ps_cases_placements[i / PS_STRATEGIES];
			c.strategy = ps_cases_strategies[i % PS_STRATEGIES];
			if (!ps_cases_has(&b->o, c.placement, c.strategy))
				continue;
			sum += ps_cases_weight(&b->o, &c);
			n++;
		}
	}
	assert_true(n > 8);
	assert_int_equal(sum, ps_cases_total(&b->o));
	free(b);
}

/* At the rate until now the smaller model has the time, the other one not. */
static void time_runs_out(void **state)
{
	struct ps_bench *b = matrix("--minutes=1");
	struct ps_case c = { .model = ps_model_find("googlenet"),
			     .placement = PS_SPREAD, .strategy = PS_RING };
	unsigned int small = ps_cases_weight(&b->o, &c);

	(void)state;
	b->progress.done = small;
	b->progress.start_ns = pl_now_ns() - 20000000000ull;
	assert_false(ps_cases_leave_out(b, &c));
	c.model = ps_model_find("vgg16");
	assert_true(ps_cases_leave_out(b, &c));
	assert_int_equal(b->n_left, 1);
	assert_non_null(strstr(b->left[0].why, "--minutes 1"));
	b->o.minutes = 0;
	assert_false(ps_cases_leave_out(b, &c));
	free(b);
}

static void what_is_dropped_takes_no_time(void **state)
{
	struct ps_progress p;

	(void)state;
	ps_progress_init(&p, 100);
	ps_progress_add(&p, 20);
	p.start_ns = pl_now_ns() - 10000000000ull;
	ps_progress_drop(&p, 60);
	assert_int_equal(p.total, 40);
	assert_in_range((int)ps_progress_estimate(&p, p.total - p.done),
			10, 11);
	ps_progress_drop(&p, 60);
	assert_int_equal(p.total, p.done);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(weights_add_up),
		cmocka_unit_test(time_runs_out),
		cmocka_unit_test(what_is_dropped_takes_no_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
