/* tests/unit/test_common_log.c - common/log.h */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/log.h"
#include "common/util.h"

static int pipe_fds[2], old_stderr;

static void catch_begin(void)
{
	old_stderr = dup(STDERR_FILENO);
	assert_int_equal(pipe(pipe_fds), 0);
	assert_int_equal(dup2(pipe_fds[1], STDERR_FILENO), STDERR_FILENO);
}

/* What was written to standard error since. */
static size_t catch_end(char *buf, size_t size)
{
	ssize_t n;

	assert_int_equal(dup2(old_stderr, STDERR_FILENO), STDERR_FILENO);
	close(old_stderr);
	close(pipe_fds[1]);
	n = read(pipe_fds[0], buf, size - 1);
	close(pipe_fds[0]);
	assert_true(n >= 0);
	buf[n] = '\0';
	return (size_t)n;
}

/* What a call of pl_log writes to standard error. */
static size_t caught(char *buf, size_t size, enum pl_log_level level,
		     const char *text)
{
	catch_begin();
	pl_log(level, "%s", text);
	return catch_end(buf, size);
}

static void lines(void **state)
{
	int y, mo, d, h, mi, s, ms, at = 0;
	char buf[4096];

	(void)state;
	pl_log_init("prog", PL_LOG_WARN);
	caught(buf, sizeof(buf), PL_LOG_WARN, "pod=a/b down");
	assert_int_equal(sscanf(buf, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ %n", &y,
				&mo, &d, &h, &mi, &s, &ms, &at), 7);
	assert_string_equal(buf + at, "warn prog: pod=a/b down\n");
	assert_int_equal(caught(buf, sizeof(buf), PL_LOG_INFO, "no"), 0);
	assert_true(caught(buf, sizeof(buf), PL_LOG_ERROR, "yes") > 0);
}

/* One line whatever its length, so that two writers never mix. */
static void long_line(void **state)
{
	char buf[4096], text[3000];
	size_t n;

	(void)state;
	memset(text, 'z', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	n = caught(buf, sizeof(buf), PL_LOG_ERROR, text);
	assert_true(n > 2000 && n < sizeof(text));
	assert_int_equal(buf[n - 1], '\n');
	assert_ptr_equal(strchr(buf, '\n'), buf + n - 1);
}

static void no_forged_line(void **state)
{
	char buf[4096];

	(void)state;
	caught(buf, sizeof(buf), PL_LOG_ERROR, "name=a\n2026 \033[1mb\177");
	assert_non_null(strstr(buf, "name=a?2026 ?[1mb?\n"));
}

static void as_json(void **state)
{
	char buf[4096], text[3000];
	int len = 0;

	(void)state;
	pl_log_json(true);
	caught(buf, sizeof(buf), PL_LOG_ERROR, "pod=\"a\\b\"\n");
	sscanf(buf, "{\"time\":\"%*[0-9T:.Z-]\",%n", &len);
	assert_int_not_equal(len, 0);
	assert_string_equal(buf + len, "\"level\":\"error\",\"program\":"
			    "\"prog\",\"msg\":\"pod=\\\"a\\\\b\\\"?\"}\n");
	/* Whole, however long it was. */
	memset(text, '"', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	caught(buf, sizeof(buf), PL_LOG_ERROR, text);
	assert_non_null(strstr(buf, "\\\"\"}\n"));
	pl_log_json(false);
}

static void bounded(void **state)
{
	struct pl_log_site site = { 0 };
	char buf[4096];

	(void)state;
	for (int i = 0; i < PL_LOG_BURST; i++)
		assert_true(pl_log_may(&site));
	assert_false(pl_log_may(&site));
	assert_false(pl_log_may(&site));
	assert_int_equal(site.left_out, 2);
	/* Another place has its own. */
	assert_true(pl_log_may(&(struct pl_log_site){ 0 }));
	site.window_ns -= (PL_LOG_WINDOW_S + 1) * UINT64_C(1000000000);
	catch_begin();
	assert_true(pl_log_may(&site));
	catch_end(buf, sizeof(buf));
	assert_non_null(strstr(buf, "2 lines like the next one were left out"));
	assert_int_equal(site.left_out, 0);
}

/* By the macros: each of them is a place. */
static void bounded_by_place(void **state)
{
	char buf[8192];
	int n = 0;

	(void)state;
	catch_begin();
	for (int i = 0; i < 2 * PL_LOG_BURST; i++)
		pl_warn("w");
	pl_warn("other");
	catch_end(buf, sizeof(buf));
	for (const char *at = buf; (at = strstr(at, "prog: w\n")); at++)
		n++;
	assert_int_equal(n, PL_LOG_BURST);
	assert_non_null(strstr(buf, "prog: other\n"));
}

static void levels(void **state)
{
	static const char *const words[] = { "error", "warn", "info",
					     "debug" };
	enum pl_log_level l;

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(words); i++) {
		assert_int_equal(pl_log_level_parse(words[i], &l), 0);
		assert_int_equal(l, i);
	}
	assert_int_equal(pl_log_level_parse("INFO", &l), -EINVAL);
	assert_int_equal(pl_log_level_parse("", &l), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines),
		cmocka_unit_test(long_line),
		cmocka_unit_test(no_forged_line),
		cmocka_unit_test(as_json),
		cmocka_unit_test(bounded),
		cmocka_unit_test(bounded_by_place),
		cmocka_unit_test(levels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
