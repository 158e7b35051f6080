/* tests/unit/test_policy.c - what a policy file may say, and what it means */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "common/json.h"
#include "common/util.h"
#include "daemonset/policy.h"

#define S PL_POLICY_SERVICE
#define R PL_POLICY_REGION

static cJSON *parse(const char *text)
{
	struct pl_err err;
	cJSON *j = NULL;

	if (pl_json_parse(text, strlen(text), &j, &err) < 0)
		fail_msg("%s: %s", text, err.msg);
	return j;
}

static bool says(const char *rule, enum pl_policy_kind kind, const char *name,
		 const char *to, const char *from)
{
	struct pl_err err;
	char text[512];

	pl_format(text, sizeof(text), "{\"allow\":[%s]}", rule);
	pl_auto_json *doc = parse(text);
	if (pl_policy_check(doc, &err) < 0)
		fail_msg("%s: %s", text, err.msg);
	return pl_policy_says(doc, kind, name, to, from);
}

static void namespaces(void **state)
{
	const char *rule = "{\"to\":[\"a\",\"b\"],\"from\":\"c\"}";

	(void)state;
	assert_true(says(rule, S, "x", "a", "c"));
	assert_true(says(rule, R, "x", "b", "c"));
	assert_false(says(rule, S, "x", "c", "a"));
	assert_false(says(rule, S, "x", "a", "cc"));
	assert_false(says(rule, S, "x", "a", ""));
	rule = "{\"to\":\"a\",\"from\":\"*\"}";
	assert_true(says(rule, S, "x", "a", "z"));
	assert_true(says(rule, S, "x", "a", ""));
	assert_false(says(rule, S, "x", "z", "a"));
	rule = "{\"to\":\"a\",\"from\":\"b\"},{\"to\":\"b\",\"from\":\"c\"}";
	assert_true(says(rule, S, "x", "b", "c"));
	assert_false(says(rule, S, "x", "a", "c"));
	assert_false(says("", S, "x", "a", "a"));
	assert_false(says("{\"to\":[],\"from\":[]}", S, "x", "a", "a"));
}

static void names(void **state)
{
	const char *rule = "{\"to\":\"a\",\"from\":\"b\","
			   "\"services\":[\"x\",\"y.*\"]}";

	(void)state;
	assert_true(says(rule, S, "x", "a", "b"));
	assert_true(says(rule, S, "y.1", "a", "b"));
	assert_false(says(rule, S, "xx", "a", "b"));
	assert_false(says(rule, S, "y", "a", "b"));
	assert_false(says(rule, R, "x", "a", "b"));
	rule = "{\"to\":\"a\",\"from\":\"b\",\"regions\":[\"*\"],"
	       "\"services\":[]}";
	assert_true(says(rule, R, "x", "a", "b"));
	assert_false(says(rule, S, "x", "a", "b"));
}

static void wrong(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "[]", "must be an object" },
		{ "{}", "allow is missing" },
		{ "{\"allow\":{}}", "allow" },
		{ "{\"allow\":[],\"deny\":[]}", "deny" },
		{ "{\"allow\":[1]}", "allow[0] must be an object" },
		{ "{\"allow\":[{\"to\":\"a\"}]}", "allow[0].from" },
		{ "{\"allow\":[{\"from\":\"a\"}]}", "allow[0].to" },
		{ "{\"allow\":[{\"to\":\"a\",\"from\":\"\"}]}",
		  "allow[0].from" },
		{ "{\"allow\":[{\"to\":\"a\",\"from\":[2]}]}",
		  "allow[0].from" },
		{ "{\"allow\":[{\"to\":\"a*\",\"from\":\"b\"}]}",
		  "stand alone" },
		{ "{\"allow\":[{\"to\":\"a\",\"from\":\"b\",\"region\":[]}]}",
		  "region" },
		{ "{\"allow\":[{\"to\":\"a\",\"from\":\"b\","
		  "\"services\":\"x\"}]}", "must be a list" },
		{ "{\"allow\":[{\"to\":\"a\",\"from\":\"b\","
		  "\"services\":null}]}", "must be a list" },
		{ "{\"allow\":[{\"to\":\"a\",\"from\":\"b\","
		  "\"services\":[\"*x\"]}]}", "at the end" },
	};

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
		pl_auto_json *doc = parse(cases[i].text);
		struct pl_err err = { 0 };

		assert_int_equal(pl_policy_check(doc, &err), -EINVAL);
		if (!strstr(err.msg, cases[i].says))
			fail_msg("%s: %s", cases[i].text, err.msg);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(namespaces),
		cmocka_unit_test(names),
		cmocka_unit_test(wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
