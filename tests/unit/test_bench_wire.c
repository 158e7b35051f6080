/* tests/unit/test_bench_wire.c - rates and delays of the wire */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "common/util.h"
#include "bench/ps_wire.h"

static void rates_and_delays(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes_per_s, delay_ns;
	} good[] = {
		{ "10g", 1250000000, 0 }, { "1G", 125000000, 0 },
		{ "2.5gbit", 312500000, 0 }, { "500m", 62500000, 0 },
		{ "1mbit", 125000, 0 }, { "1000g", 125000000000, 0 },
		{ "10g,50us", 1250000000, 50000 },
		{ "1g,1.5ms", 125000000, 1500000 },
		{ "1g,0us", 125000000, 0 },
	};
	struct pl_err err;

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(good); i++) {
		struct ps_wire w = { 0 };

		assert_int_equal(ps_wire_parse(good[i].text, &w, &err), 0);
		assert_int_equal(w.bytes_per_s, good[i].bytes_per_s);
		assert_int_equal(w.delay_ns, good[i].delay_ns);
	}
}

static void others_are_refused(void **state)
{
	static const char *const bad[] = {
		"", "fast", "10", "10k", "10gb", "g", "-1g", "nang", "infg",
		"1e99g", "0.5m", "2000g", "10g,", "10g,5", "10g,5s",
		"10g,-1us", "10g,11000ms", "10g,1us,1us", " 1g", "10 g",
		"0x10g,us",
	};
	struct ps_wire w;
	struct pl_err err;

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++) {
		assert_int_equal(ps_wire_parse(bad[i], &w, &err), -EINVAL);
		assert_non_null(strstr(err.msg, "give a rate"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rates_and_delays),
		cmocka_unit_test(others_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
