/* tests/unit/test_plugin_lanes.c - the key lanes, annotations, quantities */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "common/json.h"
#include "common/util.h"
#include "plugin/lanes.h"

static void quantities(void **state)
{
	static const struct {
		const char *text;
		int rc;
		uint64_t bytes;
	} t[] = {
		{ "0", 0, 0 },
		{ "1", 0, 1 },
		{ "4096", 0, 4096 },
		{ "1k", 0, 1000 },
		{ "1Ki", 0, 1024 },
		{ "64Mi", 0, 64 << 20 },
		{ "1.5Gi", 0, UINT64_C(3) << 29 },
		{ "2G", 0, UINT64_C(2000000000) },
		{ ".5k", 0, 500 },
		{ "5.", 0, 5 },
		{ "0.1", 0, 1 },		/* rounded up */
		{ "1.0001k", 0, 1001 },
		{ "1e3", 0, 1000 },
		{ "2E+3", 0, 2000 },
		{ "1.5e2", 0, 150 },
		{ "8Pi", 0, UINT64_C(1) << 53 },
		{ "9Pi", -ERANGE, 0 },
		{ "1E", -ERANGE, 0 },
		{ "999999999999999999Ei", -ERANGE, 0 },
		{ "0.00000000000000001E", 0, 10 },
		{ "1234567890123456789", -ERANGE, 0 },
		{ "", -EINVAL, 0 },
		{ ".", -EINVAL, 0 },
		{ "Mi", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },
		{ "+1", -EINVAL, 0 },
		{ "1 Mi", -EINVAL, 0 },
		{ "1mi", -EINVAL, 0 },
		{ "1K", -EINVAL, 0 },
		{ "1MiB", -EINVAL, 0 },
		{ "1.2.3", -EINVAL, 0 },
		{ "1e", -EINVAL, 0 },
		{ "1e-3", -EINVAL, 0 },
		{ "1e19", -EINVAL, 0 },
		{ "0x10", -EINVAL, 0 },
	};

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(t); i++) {
		uint64_t v = 0;
		int rc = pl_lanes_quantity(t[i].text, &v);

		if (rc != t[i].rc || (rc == 0 && v != t[i].bytes))
			fail_msg("'%s': %d, %llu", t[i].text, rc,
				 (unsigned long long)v);
	}
}

#define NOTES(s) \
	"{\"runtimeConfig\":{\"io.kubernetes.cri.pod-annotations\":{" s "}}}"

static void settings(void **state)
{
	static const struct {
		const char *json;
		int rc;
		bool enabled;
		uint64_t limit;
	} t[] = {
		{ "{}", 0, true, PL_LANES_NO_LIMIT },
		{ "{\"lanes\":\"enabled\"}", 0, true, PL_LANES_NO_LIMIT },
		{ "{\"lanes\":\"disabled\"}", 0, false, PL_LANES_NO_LIMIT },
		{ "{\"lanes\":null}", 0, true, PL_LANES_NO_LIMIT },
		{ "{\"lanes\":\"yes\"}", -EINVAL, true, 0 },
		{ "{\"lanes\":true}", -EINVAL, true, 0 },
		{ NOTES(""), 0, true, PL_LANES_NO_LIMIT },
		{ NOTES("\"a\":\"b\""), 0, true, PL_LANES_NO_LIMIT },
		{ NOTES("\"podlane.io/lanes\":\"disabled\""), 0, false,
		  PL_LANES_NO_LIMIT },
		/* Not this key, but one that it resembles. */
		{ NOTES("\"Podlane.io/lanes\":\"disabled\""), 0, true,
		  PL_LANES_NO_LIMIT },
		{ NOTES("\"podlane.io/lanes\":\"off\""), -EINVAL, true, 0 },
		{ NOTES("\"podlane.io/memory-limit\":\"1Mi\""), 0, true,
		  1 << 20 },
		{ NOTES("\"podlane.io/memory-limit\":\"lots\""), -EINVAL, true,
		  0 },
		{ "{\"lanes\":\"disabled\",\"runtimeConfig\":{"
		  "\"io.kubernetes.cri.pod-annotations\":{"
		  "\"podlane.io/lanes\":\"enabled\"}}}", 0, true,
		  PL_LANES_NO_LIMIT },
		{ "{\"runtimeConfig\":{\"io.kubernetes.cri.pod-annotations\":"
		  "[]}}", -EINVAL, true, 0 },
	};

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(t); i++) {
		cJSON *j = cJSON_Parse(t[i].json);
		struct pl_err err = { 0 };
		struct pl_lanes l;
		int rc;

		assert_non_null(j);
		rc = pl_lanes_parse(j, &l, &err);
		if (rc != t[i].rc || (rc < 0 && !*err.msg) ||
		    (rc == 0 && (l.enabled != t[i].enabled ||
				 l.memory_limit != t[i].limit)))
			fail_msg("%s: %d %s", t[i].json, rc, err.msg);
		cJSON_Delete(j);
	}
}

static void allow(void **state)
{
	static const struct {
		const char *json, *allow;
		int rc;
	} t[] = {
		{ "{}", "", 0 },
		{ NOTES("\"podlane.io/allow\":\"\""), "", 0 },
		{ NOTES("\"podlane.io/allow\":\"mon\""), "mon", 0 },
		{ NOTES("\"podlane.io/allow\":\"*\""), "*", 0 },
		{ NOTES("\"podlane.io/allow\":\"a, b-2 ,c\""), "a, b-2 ,c",
		  0 },
		{ NOTES("\"podlane.io/allow\":\"a,,b\""), NULL, -EINVAL },
		{ NOTES("\"podlane.io/allow\":\"a,\""), NULL, -EINVAL },
		{ NOTES("\"podlane.io/allow\":\"a b\""), NULL, -EINVAL },
		{ NOTES("\"podlane.io/allow\":\"mon*\""), NULL, -EINVAL },
		{ NOTES("\"podlane.io/allow\":\"-a\""), NULL, -EINVAL },
		{ NOTES("\"podlane.io/allow\":\"A\""), NULL, -EINVAL },
	};

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(t); i++) {
		pl_auto_json *j = cJSON_Parse(t[i].json);
		struct pl_err err = { 0 };
		struct pl_lanes l;

		assert_non_null(j);
		assert_int_equal(pl_lanes_parse(j, &l, &err), t[i].rc);
		if (t[i].rc == 0)
			assert_string_equal(l.allow, t[i].allow);
		else
			assert_non_null(strstr(err.msg, "podlane.io/allow"));
	}
}

static void allowed(void **state)
{
	char text[PL_AGENT_ALLOW_MAX + 1];

	(void)state;
	assert_false(pl_agent_allow_has("", "a"));
	assert_false(pl_agent_allow_has("", ""));
	assert_true(pl_agent_allow_has("a", "a"));
	assert_false(pl_agent_allow_has("a", "ab"));
	assert_false(pl_agent_allow_has("ab", "a"));
	assert_true(pl_agent_allow_has("x, a ,y", "a"));
	assert_true(pl_agent_allow_has("x,*", "anything"));
	/* Who has no namespace is in none. */
	assert_false(pl_agent_allow_has("a,b", ""));
	assert_true(pl_agent_allow_has("*", ""));
	memset(text, 'a', sizeof(text));
	for (size_t i = 50; i < sizeof(text); i += 50)
		text[i] = ',';
	text[PL_AGENT_ALLOW_MAX] = '\0';
	assert_int_equal(pl_agent_allow_check(text), -EINVAL);
	text[PL_AGENT_ALLOW_MAX - 1] = '\0';
	assert_int_equal(pl_agent_allow_check(text), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantities),
		cmocka_unit_test(settings),
		cmocka_unit_test(allow),
		cmocka_unit_test(allowed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
