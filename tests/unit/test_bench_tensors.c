/* tests/unit/test_bench_tensors.c - models out of files */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util.h"
#include "bench/ps_tensors.h"

static char path[] = "/tmp/podlane-test.tensors.XXXXXX";

static void write_file(const char *text, size_t len)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static int load(const char *text, struct ps_model **m, struct pl_err *err)
{
	write_file(text, strlen(text));
	*err = (struct pl_err){ .code = 0 };
	return ps_tensors_load(path, m, err);
}

static void sizes_and_names(void **state)
{
	struct ps_model *m = NULL;
	struct pl_err err;

	(void)state;
	assert_int_equal(load("# my net\n\nconv1/kernel 7x7x3x64 # first\n"
			      "\tconv1/bias\t64\r\n2048x1000\n7", &m, &err), 0);
	assert_int_equal(m->n_tensors, 4);
	assert_int_equal(m->tensors[0], 9408);
	assert_int_equal(m->tensors[1], 64);
	assert_int_equal(m->tensors[2], 2048000);
	assert_int_equal(m->tensors[3], 7);
	assert_int_equal(m->elems, 9408 + 64 + 2048000 + 7);
	assert_string_equal(m->name, strrchr(path, '/') + 1);
	ps_tensors_free(m);
	ps_tensors_free(NULL);
}

static void many(void **state)
{
	pl_auto_free char *text = malloc(2 * (PS_TENSORS_MAX + 1) + 1);
	struct ps_model *m = NULL;
	struct pl_err err;

	(void)state;
	assert_non_null(text);
	for (size_t i = 0; i <= PS_TENSORS_MAX; i++)
		memcpy(text + 2 * i, "3\n", 3);
	assert_int_equal(load(text, &m, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "line 65537"));
	assert_null(m);
	text[2 * PS_TENSORS_MAX] = '\0';
	assert_int_equal(load(text, &m, &err), 0);
	assert_int_equal(m->elems, 3 * PS_TENSORS_MAX);
	ps_tensors_free(m);
}

static void bad_files_are_named(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ "", "no tensor" }, { "# nothing\n\n", "no tensor" },
		{ "64\nconv\n", "line 2" }, { "a b 64", "line 1" },
		{ "0", "line 1" }, { "-4", "line 1" }, { "3xx4", "line 1" },
		{ "x4", "line 1" }, { "4x", "line 1" }, { "3.5", "line 1" },
		{ "4294967296", "below 2^32" }, { "65536x65536", "line 1" },
		{ "4294967295\n4294967295\n", "line 2" },
	};
	struct ps_model *m = NULL;
	struct pl_err err;

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++) {
		assert_int_equal(load(bad[i].text, &m, &err), -EINVAL);
		assert_non_null(strstr(err.msg, bad[i].says));
		assert_non_null(strstr(err.msg, path));
	}
	write_file("64\n\0" "64\n", 7);
	assert_int_equal(ps_tensors_load(path, &m, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "line 2: this is no text"));
	assert_int_equal(ps_tensors_load("/none/at/all", &m, &err), -ENOENT);
	assert_int_equal(ps_tensors_load("/", &m, &err), -EISDIR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_and_names),
		cmocka_unit_test(many),
		cmocka_unit_test(bad_files_are_named),
	};
	int fd = mkstemp(path), rc;

	if (fd < 0)
		return 1;
	close(fd);
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return rc;
}
