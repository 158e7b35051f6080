/* tests/unit/test_bench_lane.c - messages, jobs, options, rows of lane_perf */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "bench/lane_bench.h"
#include "bench/lane_message.h"
#include "common/util.h"

/* Any byte of a full message, the ends of another, and the number. */
static void messages(void **state)
{
	static const size_t sizes[] = { 8, 12, 16, 64, 1000 };
	char m[1000];

	(void)state;
	for (size_t s = 0; s < PL_ARRAY_SIZE(sizes); s++) {
		const size_t n = sizes[s];

		lp_fill(m, n, 5);
		assert_int_equal(lp_check(m, n, 5), LP_FULL);
		assert_int_equal(lp_check(m, n, 6), -1);
		for (size_t i = 0; i < n; i++) {
			m[i] ^= 1;
			assert_int_not_equal(lp_check(m, n, 5), LP_FULL);
			m[i] ^= 1;
		}
		lp_stamp(m, n, LP_ENDS, 6);
		assert_int_equal(lp_check(m, n, 6), LP_ENDS);
		assert_int_equal(lp_check(m, n, 5), -1);
		m[lp_last(n) - 1] ^= 1;
		assert_int_not_equal(lp_check(m, n, 6), LP_ENDS);
		memset(m, 0, n);
		assert_int_equal(lp_check(m, n, 0), -1);
	}
}

/* What a child gets is what was asked for. */
static void jobs(void **state)
{
	struct lp_job j = { .what = LP_MANY,
			    .link = LP_UNIX,
			    .wait = LP_ONE_CPU,
			    .way = LP_BATCH,
			    .lanes = 17,
			    .ring_bytes = 65536,
			    .loose = 1,
			    .ms = 9,
			    .n_sizes = 2,
			    .sizes = { 8, 1 << 20 },
			    .is_server = true,
			    .addr = "10.1.2.3",
			    .path = "/tmp/x y" };
	struct lp_words *w = calloc(1, sizeof(*w));
	char report[] = "--report", fd[] = "7", bad[] = "frob=1";
	struct pl_err err;
	struct lp_job k;
	int n = 0;

	(void)state;
	lp_job_words(&j, w);
	while (w->argv[n])
		n++;
	assert_string_equal(w->argv[1], "role");
	w->argv[n] = report;
	w->argv[n + 1] = fd;
	assert_int_equal(lp_job_parse(n + 1, w->argv + 1, &k, &err), 0);
	j.report_fd = 7;
	assert_memory_equal(&j, &k, sizeof(j));
	w->argv[n] = bad;
	assert_int_equal(lp_job_parse(n, w->argv + 1, &k, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "frob"));
	free(w);
}

static int parse(struct lp_opts *o, struct pl_err *err, char *a, char *b)
{
	char *argv[] = { (char *)"lane_perf", a, b, NULL };

	return lp_opts_parse(b ? 3 : 2, argv, o, err);
}

static void options(void **state)
{
	char size[] = "--size=8,4K,16M", lanes[] = "--lanes=1000";
	char bad[] = "--size=17M", many[] = "--lanes=0", half[] = "--size=8,";
	struct pl_err err;
	struct lp_opts o;

	(void)state;
	assert_int_equal(parse(&o, &err, size, lanes), 0);
	assert_int_equal(o.n_sizes, 3);
	assert_int_equal(o.sizes[1], 4096);
	assert_int_equal(o.sizes[2], 16 << 20);
	assert_int_equal(o.n_counts, 1);
	assert_int_equal(o.counts[0], 1000);
	assert_int_equal(parse(&o, &err, bad, NULL), -EINVAL);
	assert_int_equal(parse(&o, &err, many, NULL), -EINVAL);
	assert_int_equal(parse(&o, &err, half, NULL), -EINVAL);
}

static void rows(void **state)
{
	const struct lp_key k = { .transport = "a", .size = 8 };
	cJSON *doc = cJSON_Parse(
		"{\"p\":[{\"transport\":\"a\",\"size\":8,\"v\":1,\"ok\":true},"
		"{\"transport\":\"b\",\"size\":8,\"v\":50,\"ok\":true},"
		"{\"transport\":\"a\",\"size\":8,\"v\":9,\"ok\":false},"
		"{\"transport\":\"a\",\"size\":16,\"v\":70,\"ok\":true},"
		"{\"transport\":\"a\",\"size\":8,\"v\":2,\"ok\":true}]}");

	(void)state;
	assert_int_equal(lp_merge(doc), 0);
	assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(doc, "p")), 3);
	assert_true(fabs(lp_value(doc, "p", &k, "v") - 2) < 0.01);
	assert_true(cJSON_IsFalse(cJSON_GetObjectItem(lp_find(doc, "p", &k),
						      "ok")));
	assert_true(isnan(lp_value(doc, "p", &k, "w")));
	assert_true(isnan(lp_value(doc, "q", &k, "v")));
	cJSON_Delete(doc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages),
		cmocka_unit_test(jobs),
		cmocka_unit_test(options),
		cmocka_unit_test(rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
