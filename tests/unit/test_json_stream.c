/* tests/unit/test_json_stream.c - values out of a stream of bytes */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/util.h"
#include "daemonset/json_stream.h"

/* What came, as text: a letter for the part, and the value. */
struct seen {
	char text[4096];
	int fail;		/* the number of the value to fail at */
	int n;
};

static int see(enum pl_json_part part, const cJSON *v, void *arg,
	       struct pl_err *err)
{
	pl_auto_free char *text = cJSON_PrintUnformatted(v);
	struct seen *s = arg;
	size_t len = strlen(s->text);

	if (++s->n == s->fail)
		return pl_err_set(err, EXDEV, "asked for");
	pl_format(s->text + len, sizeof(s->text) - len, "%c%s;",
		  "VIR"[part], text);
	return 0;
}

/* In pieces of n bytes. */
static int feed(const char *text, bool is_list, size_t n, size_t max,
		struct seen *seen, bool *whole, struct pl_err *err)
{
	struct pl_json_stream s;
	size_t len = strlen(text);
	int rc = 0;

	pl_json_stream_init(&s, is_list, max, see, seen);
	for (size_t i = 0; rc == 0 && i < len; i += n)
		rc = pl_json_stream_feed(&s, text + i, PL_MIN(n, len - i),
					 err);
	*whole = pl_json_stream_is_whole(&s);
	pl_json_stream_fini(&s);
	return rc;
}

static void expect(const char *text, bool is_list, const char *want)
{
	for (size_t n = 1; n <= strlen(text); n++) {
		struct seen seen = { .n = 0 };
		struct pl_err err = { 0 };
		bool whole;

		assert_int_equal(feed(text, is_list, n, 1000, &seen, &whole,
				      &err), 0);
		assert_string_equal(seen.text, want);
		assert_true(whole);
	}
}

static void values(void **state)
{
	(void)state;
	expect("{\"a\":1}\n{\"b\":[1,{}]}\n", false,
	       "V{\"a\":1};V{\"b\":[1,{}]};");
	expect("{}{} {}", false, "V{};V{};V{};");
	expect("{\"a\":\"}{][\\\"\\\\\"}{\"items\":[1]}", false,
	       "V{\"a\":\"}{][\\\"\\\\\"};V{\"items\":[1]};");
	expect("{\"\\u00fc\" : \"\xc3\xbc\"}", false,
	       "V{\"\xc3\xbc\":\"\xc3\xbc\"};");
	expect(" \n", false, "");
}

static void lists(void **state)
{
	(void)state;
	expect("{\"kind\":\"L\",\"items\":[{\"a\":[1,2]},{\"b\":\"],\"}],"
	       "\"metadata\":{\"c\":\"d\"}}\n", true,
	       "I{\"a\":[1,2]};I{\"b\":\"],\"};"
	       "R{\"kind\":\"L\",\"items\":[],\"metadata\":{\"c\":\"d\"}};");
	expect("{\"metadata\":{\"items\":[1]},\"x\":[\"items\",[2]],"
	       "\"items\" : [ {} , {} ] }", true,
	       "I{};I{};R{\"metadata\":{\"items\":[1]},\"x\":[\"items\",[2]],"
	       "\"items\":[]};");
	expect("{\"items\":[]}", true, "R{\"items\":[]};");
	expect("{\"items\":null}", true, "R{\"items\":null};");
	expect("{\"items\":[1,\"a\",null]}", true,
	       "I1;I\"a\";Inull;R{\"items\":[]};");
}

static void unfinished(void **state)
{
	static const char *const texts[] = { "", "{", "{\"items\":[{}",
					     "{\"items\":[{}]" };
	struct pl_err err = { 0 };
	bool whole;

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(texts); i++) {
		struct seen seen = { .n = 0 };

		assert_int_equal(feed(texts[i], true, 3, 1000, &seen, &whole,
				      &err), 0);
		assert_false(whole);
	}
}

static void wrong(void **state)
{
	static const struct {
		const char *text;
		bool is_list;
		int code;
	} bad[] = {
		{ "<html>", false, EPROTO },
		{ "[1]", false, EPROTO },
		{ "{\"a\":1}}", false, EPROTO },
		{ "{\"a\":}", false, EPROTO },
		{ "{\"items\":[}]}", true, EPROTO },
		{ "{\"items\":[1]]}", true, EPROTO },
		{ "{\"items\":[{\"a\"}]}", true, EPROTO },
		{ "{}{}", true, EPROTO },
		{ "{\"a\":\"0123456789012345678901234567890123456789\"}",
		  false, EMSGSIZE },
	};

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++) {
		for (size_t n = 1; n < 50; n++) {
			struct seen seen = { .n = 0 };
			struct pl_err err = { 0 };
			bool whole;

			assert_int_equal(feed(bad[i].text, bad[i].is_list, n,
					      40, &seen, &whole, &err),
					 -bad[i].code);
			assert_int_equal(err.code, bad[i].code);
		}
	}
}

/* The bound is of one value, not of the list. */
static void many(void **state)
{
	static const char item[] = "{\"name\":\"0123456789\"},";
	struct pl_json_stream s;
	struct seen seen = { .n = 0 };
	struct pl_err err = { 0 };

	(void)state;
	pl_json_stream_init(&s, true, 64, see, &seen);
	assert_int_equal(pl_json_stream_feed(&s, "{\"items\":[", 10, &err), 0);
	for (int i = 0; i < 10000; i++) {
		seen.text[0] = '\0';
		assert_int_equal(pl_json_stream_feed(&s, item, strlen(item),
						     &err), 0);
		assert_string_equal(seen.text, "I{\"name\":\"0123456789\"};");
	}
	assert_true(s.size <= 4096);
	pl_json_stream_fini(&s);
}

static void the_reader_fails(void **state)
{
	struct seen seen = { .fail = 2 };
	struct pl_err err = { 0 };
	bool whole;

	(void)state;
	assert_int_equal(feed("{}{}{}", false, 6, 100, &seen, &whole, &err),
			 -EXDEV);
	assert_string_equal(err.msg, "asked for");
	assert_string_equal(seen.text, "V{};");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values),     cmocka_unit_test(lists),
		cmocka_unit_test(unfinished), cmocka_unit_test(wrong),
		cmocka_unit_test(many),
		cmocka_unit_test(the_reader_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
