/* tests/unit/test_common_json.c - common/json.h */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/json.h"
#include "common/util.h"

static cJSON *parse(const char *text)
{
	struct pl_err e = { 0 };
	cJSON *j = NULL;

	if (pl_json_parse(text, strlen(text), &j, &e) < 0)
		fail_msg("%s: %s", text, e.msg);
	return j;
}

static void parse_errors(void **state)
{
	static const struct {
		const char *text;
		size_t len;		/* 0: all of it */
		const char *says;
	} t[] = {
		{ "", 0, "line 1" },
		{ "{", 0, "line 1 column" },
		{ "{}x", 0, "line 1 column 3" },
		{ "{}\n\n x", 0, "line 3 column 2" },
		{ "{\"a\":1,}", 0, "line 1" },
		{ "{\"a\":\n nope}", 0, "line 2" },
		{ "{}\0x", 4, "line 1 column 3" },
		{ "{\"a\0b\":1}", 9, "line 1 column" },
		{ "{\"a\":\"b\\u0000c\"}", 0, "line 1 column" },
		{ "{\"a\":\"\\\\\\u0000\"}", 0, "line 1 column" },
		{ "{} {}", 0, "line 1 column 4" },
		{ "{\"a\":1}", 6, "line 1" },
	};

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(t); i++) {
		size_t len = t[i].len ? t[i].len : strlen(t[i].text);
		struct pl_err e = { 0 };
		cJSON *j = NULL;

		if (pl_json_parse(t[i].text, len, &j, &e) != -EINVAL)
			fail_msg("'%s' is taken", t[i].text);
		assert_null(j);
		if (!strstr(e.msg, t[i].says))
			fail_msg("'%s': %s", t[i].text, e.msg);
	}
}

/* The text need not end with a NUL; nothing past len may be read. */
static void parse_exact(void **state)
{
	char *text = malloc(9);
	cJSON *j = NULL;

	(void)state;
	memcpy(text, "{\"a\":12}\n", 9);
	assert_int_equal(pl_json_parse(text, 9, &j, NULL), 0);
	cJSON_Delete(j);
	j = NULL;
	assert_int_equal(pl_json_parse(text, 7, &j, NULL), -EINVAL);
	free(text);
}

/* As Go's decoder has it; see also the test against a program in Go. */
static void members(void **state)
{
	static const struct {
		const char *text;
		int want;		/* of "mtu"; -1: absent, -2: null */
	} t[] = {
		{ "{\"mtu\":1}", 1 },
		{ "{\"MTU\":1}", 1 },
		{ "{\"mtu\":1,\"MTU\":2}", 2 },
		{ "{\"MTU\":2,\"mtu\":1}", 1 },
		{ "{\"mtu\":1,\"mtu\":2}", 2 },
		{ "{\"mtu\":1,\"MTU\":null}", 1 },
		{ "{\"MTU\":null,\"mtu\":1}", 1 },
		{ "{\"Mtu\":null}", -2 },
		{ "{\"mtus\":1,\"mt\":1,\"\":1}", -1 },
		{ "[1]", -1 },
	};

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(t); i++) {
		cJSON *j = parse(t[i].text);
		const cJSON *m = pl_json_member(j, "mtu");
		int64_t v = -1;
		int is = !m ? -1 : cJSON_IsNull(m) ? -2 : m->valueint;

		if (is != t[i].want)
			fail_msg("%s: %d", t[i].text, is);
		assert_int_equal(pl_json_int(j, "", "mtu", 0, 9, &v, NULL),
				 t[i].want >= 0);
		assert_int_equal(v, t[i].want >= 0 ? t[i].want : -1);
		cJSON_Delete(j);
	}
	assert_null(pl_json_member(NULL, "mtu"));
}

static void deep(void **state)
{
	char text[20001];
	cJSON *j = NULL;

	(void)state;
	memset(text, '[', 10000);
	memset(text + 10000, ']', 10000);
	assert_int_equal(pl_json_parse(text, 20000, &j, NULL), -EINVAL);
}

static void getters(void **state)
{
	pl_auto_json *j = parse("{\"s\":\"x\",\"b\":true,\"i\":-5,\"o\":{},"
				"\"l\":[1],\"n\":null,\"f\":1.5,\"big\":1e300}");
	const char *s = "unset";
	const cJSON *p = NULL;
	bool b = false;
	int64_t i = 42;

	(void)state;
	assert_int_equal(pl_json_str(j, "", "s", &s, NULL), 1);
	assert_string_equal(s, "x");
	assert_int_equal(pl_json_bool(j, "", "b", &b, NULL), 1);
	assert_true(b);
	assert_int_equal(pl_json_int(j, "", "i", -5, 5, &i, NULL), 1);
	assert_int_equal(i, -5);
	assert_int_equal(pl_json_obj(j, "", "o", &p, NULL), 1);
	assert_true(cJSON_IsObject(p));
	assert_int_equal(pl_json_arr(j, "", "l", &p, NULL), 1);
	assert_true(cJSON_IsArray(p));
	s = "unset";
	assert_int_equal(pl_json_str(j, "", "none", &s, NULL), 0);
	assert_int_equal(pl_json_str(j, "", "n", &s, NULL), 0);
	assert_int_equal(pl_json_str(j, "", "ss", &s, NULL), 0);
	assert_string_equal(s, "unset");
}

static void wrong_types(void **state)
{
	pl_auto_json *j = parse("{\"s\":\"x\",\"i\":5,\"f\":1.5,"
				"\"big\":1e300,\"t\":\"5\"}");
	struct pl_err e = { 0 };
	const cJSON *p = NULL;
	const char *s = NULL;
	bool b = false;
	int64_t i = 42;

	(void)state;
	assert_int_equal(pl_json_str(j, "a.b[0]", "i", &s, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "a.b[0].i must be a string"));
	assert_int_equal(pl_json_str(j, "", "i", &s, &e), -EINVAL);
	assert_memory_equal(e.msg, "i must be a string", 18);
	assert_int_equal(pl_json_bool(j, "", "i", &b, &e), -EINVAL);
	assert_int_equal(pl_json_obj(j, "", "s", &p, &e), -EINVAL);
	assert_int_equal(pl_json_arr(j, "", "s", &p, &e), -EINVAL);
	assert_int_equal(pl_json_int(j, "", "f", 0, 9, &i, &e), -EINVAL);
	assert_int_equal(pl_json_int(j, "", "t", 0, 9, &i, &e), -EINVAL);
	assert_int_equal(pl_json_int(j, "", "i", 6, 9, &i, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "from 6 to 9"));
	assert_int_equal(pl_json_int(j, "", "i", 0, 4, &i, &e), -EINVAL);
	assert_int_equal(pl_json_int(j, "", "big", INT64_MIN, INT64_MAX, &i,
				     &e), -EINVAL);
	assert_int_equal(i, 42);
	assert_null(s);
	assert_null(p);
}

static void only(void **state)
{
	static const char *const keys[] = { "a", "b", NULL };
	pl_auto_json *good = parse("{\"b\":1,\"a\":2}");
	pl_auto_json *bad = parse("{\"a\":1,\"B\":2}");
	struct pl_err e = { 0 };

	(void)state;
	assert_int_equal(pl_json_only(good, "x", keys, &e), 0);
	assert_int_equal(pl_json_only(bad, "x", keys, &e), -EINVAL);
	assert_string_equal(e.msg, "x.B is no known key");
	assert_int_equal(pl_json_only(bad, "", keys, &e), -EINVAL);
	assert_string_equal(e.msg, "B is no known key");
}

static void load(void **state)
{
	char path[] = "/tmp/podlane-unit.XXXXXX";
	int fd = mkstemp(path);
	struct pl_err e = { 0 };
	cJSON *j = NULL;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(pl_write_all(fd, "{\"a\":1}\n", 8), 0);
	assert_int_equal(pl_json_load(path, &j, &e), 0);
	cJSON_Delete(j);
	j = NULL;
	assert_int_equal(pl_write_all(fd, "x", 1), 0);
	assert_int_equal(pl_json_load(path, &j, &e), -EINVAL);
	assert_non_null(strstr(e.msg, path));
	assert_non_null(strstr(e.msg, "line 2 column 1"));
	close(fd);
	unlink(path);
	assert_int_equal(pl_json_load(path, &j, &e), -ENOENT);
	assert_null(j);
}

static void save(void **state)
{
	pl_auto_json *doc = parse("{\"a\":[1,\"b\"]}");
	char path[] = "/tmp/podlane-unit.XXXXXX";
	int fd = mkstemp(path);
	struct pl_err e = { 0 };
	cJSON *j = NULL;

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(pl_json_save(path, doc, 0600, &e), 0);
	assert_int_equal(pl_json_load(path, &j, &e), 0);
	assert_true(cJSON_Compare(doc, j, 1));
	cJSON_Delete(j);
	unlink(path);
	assert_int_equal(pl_json_save(path, NULL, 0600, &e), -ENOMEM);
	assert_int_equal(access(path, F_OK), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parse_errors), cmocka_unit_test(parse_exact),
		cmocka_unit_test(members),
		cmocka_unit_test(deep),		cmocka_unit_test(getters),
		cmocka_unit_test(wrong_types),	cmocka_unit_test(only),
		cmocka_unit_test(load),		cmocka_unit_test(save),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
