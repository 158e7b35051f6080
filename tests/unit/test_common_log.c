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

/* What a call of pl_log writes to standard error. */
static size_t caught(char *buf, size_t size, enum pl_log_level level,
		     const char *text)
{
	int p[2], old = dup(STDERR_FILENO);
	ssize_t n;

	assert_int_equal(pipe(p), 0);
	assert_int_equal(dup2(p[1], STDERR_FILENO), STDERR_FILENO);
	pl_log(level, "%s", text);
	assert_int_equal(dup2(old, STDERR_FILENO), STDERR_FILENO);
	close(old);
	close(p[1]);
	n = read(p[0], buf, size - 1);
	close(p[0]);
	assert_true(n >= 0);
	buf[n] = '\0';
	return (size_t)n;
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
		cmocka_unit_test(levels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
