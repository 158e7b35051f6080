/* tests/unit/test_ctl_report.c - what podlanectl bugreport must not show */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "daemonset/ctl_report.h"

static void hides(const char *text, const char *want)
{
	char buf[256];

	snprintf(buf, sizeof(buf), "%s", text);
	pl_report_hide(buf);
	assert_string_equal(buf, want);
}

static void members(void **state)
{
	(void)state;
	hides("{\"token\":\"abc\"}", "{\"token\":\"xxx\"}");
	hides("{\"authToken\" : \"a\\\"c\", \"a\":\"b\"}",
	      "{\"authToken\" : \"xxxx\", \"a\":\"b\"}");
	hides("{\"PASSWORD\":\n \"p\"}", "{\"PASSWORD\":\n \"x\"}");
	hides("{\"a\":{\"clientSecret\":\"s\"}}",
	      "{\"a\":{\"clientSecret\":\"x\"}}");
	/* A path of a key is none. */
	hides("{\"key\":\"/etc/key\"}", "{\"key\":\"/etc/key\"}");
	/* The word as a value, and as an element. */
	hides("[\"token\",\"name\"]", "[\"token\",\"name\"]");
	hides("{\"a\":\"token\",\"b\":\"c\"}", "{\"a\":\"token\",\"b\":\"c\"}");
	/* Cut off. */
	hides("{\"token\":\"abc", "{\"token\":\"xxx");
	hides("{\"token", "{\"token");
	hides("\"", "\"");
	hides("", "");
}

static void numbers(void **state)
{
	char hex[80], want[80];

	(void)state;
	memset(hex, 'a', 64);
	memset(want, 'x', 64);
	hex[64] = want[64] = '\0';
	hides(hex, want);
	hex[39] = '\0';
	hides(hex, hex);
	hides("deadbeef 0123", "deadbeef 0123");
}

static void pem(void **state)
{
	(void)state;
	hides("a -----BEGIN X-----\nzz\n-----END X----- b",
	      "a xxxxxxxxxxxxxxxxxxxxx-----END X----- b");
	hides("-----BEGIN X", "xxxxxxxxxxxx");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members),
		cmocka_unit_test(numbers),
		cmocka_unit_test(pem),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
