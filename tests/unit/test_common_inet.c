/* tests/unit/test_common_inet.c - common/inet.h */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/inet.h"
#include "common/util.h"

static struct pl_addr ip(const char *s)
{
	struct pl_addr a;

	assert_int_equal(pl_addr_parse(s, &a), 0);
	return a;
}

static struct pl_prefix net(const char *s)
{
	struct pl_prefix p;

	assert_int_equal(pl_prefix_parse(s, &p), 0);
	return p;
}

static void assert_ip(struct pl_addr a, const char *want)
{
	char buf[INET6_ADDRSTRLEN];

	assert_string_equal(pl_addr_str(&a, buf), want);
}

static void parse_and_print(void **state)
{
	static const char *const good[] = {
		"0.0.0.0", "10.1.2.3", "255.255.255.255", "::", "::1",
		"fd00:1::2", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
	};
	static const char *const bad[] = {
		"", "10", "10.1.2", "10.1.2.3.4", "10.1.2.256", "10.1.2.3 ",
		" 10.1.2.3", "10.1.2.3/24", "fd00::1%eth0", "fd00::1::2",
		":", "g::1", "[::1]", "10.1.2.3:80", "localhost",
	};
	struct pl_addr a;

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(good); i++)
		assert_ip(ip(good[i]), good[i]);
	for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++)
		if (pl_addr_parse(bad[i], &a) != -EINVAL)
			fail_msg("'%s' is taken", bad[i]);
	a = ip("10.0.0.1");
	assert_int_equal(pl_addr_bits(&a), 32);
	a = ip("::");
	assert_int_equal(pl_addr_bits(&a), 128);
}

static void prefixes(void **state)
{
	static const char *const good[] = {
		"0.0.0.0/0", "10.1.2.3/24", "10.1.2.3/32", "::/0",
		"fd00:1::2/64", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128",
	};
	static const char *const bad[] = {
		"", "/", "/24", "10.1.2.3", "10.1.2.3/", "10.1.2.3/33",
		"10.1.2.3/-1", "10.1.2.3/+8", "10.1.2.3/8/8", "10.1.2.3/8 ",
		"fd00::/129", "10.1.2.3/255.255.255.0",
		"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/1",
	};
	char buf[PL_PREFIX_STRLEN];
	struct pl_prefix p;

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(good); i++) {
		p = net(good[i]);
		assert_string_equal(pl_prefix_str(&p, buf), good[i]);
	}
	for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++)
		if (pl_prefix_parse(bad[i], &p) != -EINVAL)
			fail_msg("'%s' is taken", bad[i]);
}

static void first_and_last(void **state)
{
	static const char *const t[][3] = {
		{ "10.1.2.3/24", "10.1.2.0", "10.1.2.255" },
		{ "10.1.2.3/0", "0.0.0.0", "255.255.255.255" },
		{ "10.1.2.3/32", "10.1.2.3", "10.1.2.3" },
		{ "10.1.2.3/31", "10.1.2.2", "10.1.2.3" },
		{ "10.1.255.3/17", "10.1.128.0", "10.1.255.255" },
		{ "fd00::1234/116", "fd00::1000", "fd00::1fff" },
		{ "fd00::/1", "8000::",
		  "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" },
	};

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(t); i++) {
		struct pl_prefix p = net(t[i][0]);

		assert_ip(pl_prefix_first(&p), t[i][1]);
		assert_ip(pl_prefix_last(&p), t[i][2]);
	}
}

static bool contains(const char *prefix, const char *addr)
{
	struct pl_prefix p = net(prefix);
	struct pl_addr a = ip(addr);

	return pl_prefix_contains(&p, &a);
}

static void containing(void **state)
{
	(void)state;
	assert_true(contains("10.1.2.3/24", "10.1.2.0"));
	assert_true(contains("10.1.2.0/24", "10.1.2.255"));
	assert_false(contains("10.1.2.0/24", "10.1.3.0"));
	assert_false(contains("10.1.2.0/24", "10.1.1.255"));
	assert_true(contains("0.0.0.0/0", "255.255.255.255"));
	assert_false(contains("0.0.0.0/0", "::"));
	assert_false(contains("::/0", "0.0.0.0"));
	assert_true(contains("fd00:1::/64", "fd00:1::ffff:ffff:ffff:ffff"));
	assert_false(contains("fd00:1::/64", "fd00:1:0:1::"));
}

static void ordering(void **state)
{
	static const char *const up[] = { "0.0.0.0", "9.255.255.255",
					  "10.0.0.0", "128.0.0.0", "::",
					  "::ffff", "8000::" };

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(up); i++)
		for (size_t k = 0; k < PL_ARRAY_SIZE(up); k++) {
			struct pl_addr a = ip(up[i]), b = ip(up[k]);
			int c = pl_addr_cmp(&a, &b);

			assert_int_equal(c < 0, i < k);
			assert_int_equal(c > 0, i > k);
			assert_int_equal(pl_addr_equal(&a, &b), i == k);
		}
}

static void adding(void **state)
{
	static const struct {
		const char *a;
		uint64_t n;
		const char *sum;
	} t[] = {
		{ "10.0.0.0", 0, "10.0.0.0" },
		{ "10.0.0.255", 1, "10.0.1.0" },
		{ "10.0.0.1", 0x010203, "10.1.2.4" },
		{ "255.255.255.255", 1, "0.0.0.0" },
		{ "fd00::ffff:ffff:ffff:ffff", 1, "fd00:0:0:1::" },
		{ "fd00::", UINT64_MAX, "fd00::ffff:ffff:ffff:ffff" },
		{ "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 2, "::1" },
	};

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(t); i++) {
		struct pl_addr a = ip(t[i].a);

		assert_ip(pl_addr_add(&a, t[i].n), t[i].sum);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parse_and_print), cmocka_unit_test(prefixes),
		cmocka_unit_test(first_and_last),  cmocka_unit_test(containing),
		cmocka_unit_test(ordering),	   cmocka_unit_test(adding),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
