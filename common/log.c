/* common/log.c - log lines on standard error */
#include "common/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const level_names[] = { "error", "warn", "info", "debug" };

/* The one setting of the process; written before there is a second thread. */
static struct {
	const char *name;
	enum pl_log_level level;
} logger = { "podlane", PL_LOG_INFO };

void pl_log_init(const char *name, enum pl_log_level level)
{
	logger.name = name;
	logger.level = level;
}

int pl_log_level_parse(const char *word, enum pl_log_level *out)
{
	for (int i = PL_LOG_ERROR; i <= PL_LOG_DEBUG; i++) {
		if (strcmp(word, level_names[i]))
			continue;
		*out = (enum pl_log_level)i;
		return 0;
	}
	return -EINVAL;
}

void pl_log(enum pl_log_level level, const char *fmt, ...)
{
	char line[2048];
	struct timespec ts;
	struct tm tm;
	va_list ap;
	int n;

	if (level > logger.level)
		return;
	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	n = (int)strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%S", &tm);
	n += snprintf(line + n, sizeof(line) - (size_t)n, ".%03ldZ %s %s: ",
		      ts.tv_nsec / 1000000, level_names[level], logger.name);
	va_start(ap, fmt);
	n += vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	va_end(ap);
	if ((size_t)n > sizeof(line) - 2)
		n = sizeof(line) - 2;
	/* What others chose, such as a name, can't forge a line. */
	for (int i = 0; i < n; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return;
}
