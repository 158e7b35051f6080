/* tests/unit/test_plugin_rules.c - what an attachment is to have in nftables */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "plugin/port.h"
#include "plugin/rules.h"

static const struct pl_attach at = { "net", "a", "eth0" };

static void elem(struct pl_rules *r, const char *set, const char *key,
		 const char *data)
{
	assert_int_equal(pl_rules_elem(r, PL_RULES_PORTS, set, key, data,
				       NULL), 0);
}

static void same_twice_is_one(void **state)
{
	const struct pl_ruleset *s;
	struct pl_rules r;

	(void)state;
	pl_rules_init(&r, &at, false);
	assert_true(pl_rules_empty(&r));
	elem(&r, "port6", "6 . 80", "fd00::1 . 8");
	elem(&r, "port4", "6 . 80", "10.0.0.1 . 8");
	elem(&r, "port4", "17 . 80", "10.0.0.1 . 8");
	elem(&r, "port4", "6 . 80", "10.0.0.1 . 8");
	assert_int_equal(pl_rules_settle(&r, NULL), 0);
	s = &r.in[PL_RULES_PORTS];
	assert_int_equal(s->n_elems, 3);
	assert_string_equal(pl_ruleset_find(s, "port6", "6 . 80")->data,
			    "fd00::1 . 8");
	assert_string_equal(pl_ruleset_find(s, "port4", "6 . 80")->data,
			    "10.0.0.1 . 8");
	assert_null(pl_ruleset_find(s, "port4", "6 . 81"));
	assert_null(pl_ruleset_find(s, "back4", "6 . 80"));
	assert_null(pl_ruleset_find(&r.in[PL_RULES_MAC], "port4", "6 . 80"));
	pl_rules_fini(&r);
}

static void two_for_one_is_refused(void **state)
{
	struct pl_rules r;
	struct pl_err err;

	(void)state;
	pl_rules_init(&r, &at, false);
	elem(&r, "hostport4", "10.0.0.17 . 6 . 80", "10.0.0.1 . 8");
	elem(&r, "hostport4", "10.0.0.17 . 6 . 81", "10.0.0.1 . 8");
	elem(&r, "hostport4", "10.0.0.17 . 6 . 80", "10.0.0.1 . 9");
	assert_true(pl_rules_settle(&r, &err) < 0);
	assert_non_null(strstr(err.msg, "hostPort 80 (tcp) of 10.0.0.17"));
	pl_rules_fini(&r);
}

static void ports_are_keys(void **state)
{
	static const char *const good[][3] = {
		{ "port4", "6 . 1", "1 (tcp)" },
		{ "port6", "132 . 65535", "65535 (sctp)" },
		{ "hostport4", "10.0.0.17 . 6 . 80", "80 (tcp) of 10.0.0.17" },
		{ "hostport6", "fd00::1 . 17 . 53", "53 (udp) of fd00::1" },
	};
	char buf[PL_PORT_STRLEN];
	struct pl_port p;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_true(pl_port_read(good[i][0], good[i][1], &p));
		assert_string_equal(pl_port_map(&p), good[i][0]);
		assert_string_equal(pl_port_key(&p, buf), good[i][1]);
		assert_string_equal(pl_port_str(&p, buf), good[i][2]);
	}
}

static void others_are_none(void **state)
{
	static const char *const bad[][2] = {
		{ "back4", "6 . 1" },		{ "port4", "" },
		{ "port4", "6 . 1 . 2" },	{ "port4", "6 . 65536" },
		{ "port4", "6 . 01" },		{ "port4", "262 . 1" },
		{ "hostport4", "6 . 1" },	{ "hostport4", "x . 6 . 1" },
		{ "hostport4", "fd00::1 . 6 . 1" },
		{ "hostport6", "10.0.0.1 . 6 . 1" },
		{ "hostport6", "fd00:0::1 . 6 . 1" },
	};
	struct pl_port p;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_false(pl_port_read(bad[i][0], bad[i][1], &p));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_twice_is_one),
		cmocka_unit_test(two_for_one_is_refused),
		cmocka_unit_test(ports_are_keys),
		cmocka_unit_test(others_are_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
