/*
 * tests/unit/test_bench_result.c - from reports of roles to results: medians,
 * what is refused, the shape of the JSON document
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "common/util.h"
#include "bench/ps_outcome.h"
#include "bench/ps_result.h"
#include "bench/ps_stats.h"

static bool near(double a, double b)
{
	return fabs(a - b) < 1e-9 * fabs(b);
}
#define NEAR(a, b) assert_true(near(a, b))

static void quantiles(void **state)
{
	const double v[] = { 5, 1, 3, 2, 4 };

	(void)state;
	NEAR(ps_median(v, 5), 3);
	NEAR(ps_median(v, 4), 2.5);
	NEAR(ps_quantile(v, 5, 0.99), 4.96);
	NEAR(ps_quantile(v, 1, 0.99), 5);
	NEAR(ps_quantile(v, 5, 1), 5);
	assert_true(isnan(ps_median(v, 0)));
	NEAR(v[0], 5);
}

#define SERVER "{\"role\":\"server\",\"rank\":0,\"ok\":true,\"path\":\"tcp\"," \
	"\"grad_paths\":[\"tcp\"],\"steps\":3,\"checksum\":\"00000000000000a7\"," \
	"\"staleness\":{\"chunks\":5,\"updates\":7,\"most\":2}}"
#define WORKER(from, to, a, b, sum) "{\"role\":\"worker\",\"rank\":0," \
	"\"ok\":true,\"verified\":true,\"path\":\"shm\"," \
	"\"param_path\":\"tcp\",\"local_sum\":true,\"step_ns\":[" a "," b "]," \
	"\"t_first_ns\":" from ",\"t_last_ns\":" to ",\"sent_bytes\":8," \
	"\"received_bytes\":8,\"checksum\":\"" sum "\"}"

static int read_three(const char *server, const char *w0, const char *w1,
		      struct ps_outcome *out, struct pl_err *err)
{
	const char *text[3] = { server, w0, w1 };
	struct ps_child c[3] = { 0 };
	struct ps_opts o = { .servers = 1, .workers = 2, .steps = 2 };

	for (int i = 0; i < 3; i++) {
		snprintf(c[i].name, sizeof(c[i].name), "%s",
			 i ? "worker" : "server");
		c[i].report.text = (char *)text[i];
		c[i].report.len = text[i] ? strlen(text[i]) : 0;
	}
	return ps_outcome_read(&o, PS_SERVER, c, 3, out, err);
}

static void reports_are_put_together(void **state)
{
	struct pl_err err = { .code = 0 };
	struct ps_outcome out;

	(void)state;
	assert_int_equal(read_three(SERVER,
			 WORKER("1000", "9000", "4000000", "3000000", "a7"),
			 WORKER("1500", "9500", "3000000", "5000000", "a7"),
			 &out, &err), 0);
	assert_int_equal(out.t_first_ns, 1000);
	assert_int_equal(out.t_last_ns, 9500);
	NEAR(ps_outcome_step_ms(&out, 0.5), 4.5);
	assert_string_equal(out.path, "tcp");
	assert_string_equal(out.grad_path, "tcp");
	assert_string_equal(out.param_path, "tcp");
	assert_true(out.local_sum);
	assert_true(out.verified);
	assert_int_equal(out.checksum, 0xa7);
	assert_int_equal(out.staleness.chunks, 5);
	assert_int_equal(out.staleness.updates, 7);
	assert_int_equal(out.staleness.most, 2);
	ps_outcome_fini(&out);
}

static void words_stand_once(void **state)
{
	char list[16] = "";

	(void)state;
	ps_outcome_list(list, sizeof(list), "");
	assert_string_equal(list, "");
	ps_outcome_list(list, sizeof(list), "tcp");
	ps_outcome_list(list, sizeof(list), "tc");
	ps_outcome_list(list, sizeof(list), "tcp");
	ps_outcome_list(list, sizeof(list), "cp");
	ps_outcome_list(list, sizeof(list), "cp");
	assert_string_equal(list, "tcp+tc+cp");
}

static void other_parameters_fail(void **state)
{
	struct pl_err err = { .code = 0 };
	struct ps_outcome out;

	(void)state;
	assert_int_equal(read_three(SERVER,
			 WORKER("1000", "9000", "4", "3", "a7"),
			 WORKER("1000", "9000", "4", "3", "a6"), &out, &err),
			 -EBADMSG);
	assert_non_null(strstr(err.msg, "other parameters"));
	ps_outcome_fini(&out);
}

static void bad_reports_are_refused(void **state)
{
	static const char good[] = WORKER("1000", "9000", "4", "3", "a7");
	static const struct {
		const char *from, *to;
	} change[] = {
		{ "\"verified\":true", "\"verified\":1" },
		{ "\"verified\":true", "\"verified\":false" },
		{ "\"local_sum\":true,", "" },
		{ "[4,3]", "[4]" },
		{ "[4,3]", "[4,-3]" },
		{ "\"t_last_ns\":9000", "\"t_last_ns\":999" },
		{ "\"checksum\":\"a7\"", "\"checksum\":\"a7x\"" },
		{ "\"param_path\":\"tcp\",", "" },
		{ "{\"role\"", "\"role\"" },
	};
	struct ps_outcome out;

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(change); i++) {
		struct pl_err err = { .code = 0 };
		char bad[sizeof(good) + 16];
		const char *at = strstr(good, change[i].from);

		assert_non_null(at);
		snprintf(bad, sizeof(bad), "%.*s%s%s", (int)(at - good), good,
			 change[i].to, at + strlen(change[i].from));
		assert_int_equal(read_three(SERVER, good, bad, &out, &err),
				 -EPROTO);
		assert_true(err.msg[0]);
		ps_outcome_fini(&out);
	}
	assert_int_equal(read_three(SERVER, good, NULL, &out, NULL), -EPROTO);
	ps_outcome_fini(&out);
}

static struct ps_bench *make_bench(void)
{
	struct ps_bench *b = calloc(1, sizeof(*b));

	assert_non_null(b);
	b->o = (struct ps_opts){ .workers = 2, .servers = 1, .steps = 3,
				 .batch = 64, .repeat = 3,
				 .placements = PS_SAME_NODE };
	b->machine.cores = 2;
	return b;
}

static void medians_and_pairs(void **state)
{
	struct ps_bench *b = make_bench();
	struct ps_case c = { ps_model_find("vgg16"), PS_SAME_NODE, PS_SERVER,
			     PS_PODLANE, CODEC_NONE };
	double model = 4.0 * (double)c.model->elems;
	struct ps_run p[3] = { 0 }, o[3] = { 0 };
	struct ps_result r;

	(void)state;
	for (int i = 0; i < 3; i++) {
		/* 5, 10, 20 steps/s; the overlay 1, 1, 10. */
		double rate[] = { 5, 10, 20 }, slow[] = { 1, 1, 10 };
		/* What memory and plain TCP could do at each turn. */
		double memory[] = { 60e9, 50e9, 200e9 };
		double raw[] = { 4, 2, 10 };

		p[i].grad_bytes_per_s = rate[i] * 2 * model;
		p[i].images_per_s = rate[i] * 128;
		o[i].grad_bytes_per_s = slow[i] * 2 * model;
		o[i].bytes_per_s = slow[i] * 4 * model;
		p[i].limits.memory_bytes_per_s = memory[i];
		o[i].limits.raw_both_ways = raw[i] * 4 * model;
		p[i].verified = true;
		snprintf(p[i].path, sizeof(p[i].path), "shm");
	}
	ps_result_make(b, &c, p, o, 3, 0.05, &r);
	NEAR(r.images_per_s, 1280);
	assert_int_equal(r.repeat, 3);
	assert_true(r.images_min <= 1280 && r.images_max >= 1280);
	NEAR(r.speedup_vs_overlay, 5);
	NEAR(r.scaling_efficiency, 1280 / (2 * 64 / 0.05));
	/* The median share, not the share of the median. */
	NEAR(r.roofline_share, 6 * model * 20 / 200e9);
	NEAR(r.limits.memory_bytes_per_s, 60e9);
	assert_true(isnan(r.raw_share));
	assert_true(r.verified);
	assert_string_equal(r.path, "shm");
	ps_result_make(b, &c, p, NULL, 3, 0.05, &r);
	assert_true(isnan(r.speedup_vs_overlay));
	c.transport = PS_OVERLAY;
	ps_result_make(b, &c, o, o, 3, 0.05, &r);
	NEAR(r.raw_share, 0.5);
	/* Nothing crosses the wire. */
	assert_true(isnan(r.formula_share));
	for (int i = 0; i < 3; i++)
		o[i].limits.raw_one_way = 4 * model;
	c.placement = PS_CROSS_NODE;
	o[0].images_per_s = o[1].images_per_s = o[2].images_per_s = 128;
	ps_result_make(b, &c, o, o, 3, 0.05, &r);
	NEAR(r.formula_share, 0.5);
	/* Plain streams do not tell the wire's rate, --link does. */
	c.placement = PS_SPREAD;
	b->o.servers = 2;
	ps_result_make(b, &c, o, o, 3, 0.05, &r);
	assert_true(isnan(r.formula_share));
	b->o.wire.bytes_per_s = (uint64_t)(4 * model);
	ps_result_make(b, &c, o, o, 3, 0.05, &r);
	NEAR(r.formula_share, 0.25);
	NEAR(r.speedup_vs_overlay, 1);
	/* Memory was not measured: a share of nothing is no number. */
	assert_false(isfinite(r.roofline_share));
	free(b);
}

static void check_keys(const cJSON *obj, const char *want)
{
	char got[1024] = "";
	const cJSON *k;

	cJSON_ArrayForEach(k, obj) {
		size_t n = strlen(got);

		snprintf(got + n, sizeof(got) - n, "%s ", k->string);
	}
	assert_string_equal(got, want);
}

static void json_has_this_shape(void **state)
{
	struct ps_bench *b = make_bench();
	struct ps_result r = { .c = { ps_model_find("googlenet"),
				      PS_SAME_NODE, PS_SERVER, PS_PODLANE },
			       .images_per_s = 12.5,
			       .speedup_vs_overlay = NAN, .path = "shm",
			       .verified = true };
	pl_auto_json *doc = ps_result_json(b, &r, 1);
	const cJSON *m = cJSON_GetObjectItem(doc, "machine");
	const cJSON *list = cJSON_GetObjectItem(doc, "results");
	const cJSON *one = cJSON_GetArrayItem(list, 0);
	pl_auto_free char *text = cJSON_Print(doc);
	pl_auto_json *again = NULL;

	(void)state;
	check_keys(doc, "version machine results left_out ");
	check_keys(m, "kernel cpu cores congestion_control default_qdisc "
		   "carrier wire ");
	check_keys(cJSON_GetObjectItem(m, "congestion_control"),
		   "sysctl overlay_sockets carrier ");
	check_keys(one, "model placement variable_update transport compression "
		"sent_bytes_per_step workers "
		   "servers steps repeat gpu batch async overlap "
		   "link_bytes_per_s "
		   "images_per_s images_per_s_range step_ms staleness "
		   "gradient_bytes_per_s cpu_s_per_gb "
		   "speedup_vs_overlay scaling_efficiency roofline_share "
		   "formula_share path paths nic cpu_s_per_step "
		   "wire_bytes_per_step local_sum verified "
		   "memory_bytes_per_s raw_bytes_per_s "
		   "raw_share ");
	check_keys(cJSON_GetObjectItem(one, "step_ms"), "p50 p99 ");
	check_keys(cJSON_GetObjectItem(one, "raw_bytes_per_s"),
		   "one_way both_ways ");
	assert_true(cJSON_IsNull(cJSON_GetObjectItem(one,
						     "memory_bytes_per_s")));
	assert_true(cJSON_IsNull(cJSON_GetObjectItem(one,
						     "speedup_vs_overlay")));
	/* As text it is JSON again, with the same numbers. */
	assert_int_equal(pl_json_parse(text, strlen(text), &again, NULL), 0);
	one = cJSON_GetArrayItem(cJSON_GetObjectItem(again, "results"), 0);
	NEAR(cJSON_GetObjectItem(one, "images_per_s")->valuedouble, 12.5);
	free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantiles),
		cmocka_unit_test(reports_are_put_together),
		cmocka_unit_test(words_stand_once),
		cmocka_unit_test(other_parameters_fail),
		cmocka_unit_test(bad_reports_are_refused),
		cmocka_unit_test(medians_and_pairs),
		cmocka_unit_test(json_has_this_shape),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
