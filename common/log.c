/* common/log.c - log lines on standard error */
#include "common/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/util.h"

#define LINE_BYTES 2048

static const char *const level_names[] = { "error", "warn", "info", "debug" };

/* The one setting of the process; written before there is a second thread. */
static struct {
	const char *name;
	enum pl_log_level level;
	bool json;
} logger = { "podlane", PL_LOG_INFO, false };

void pl_log_init(const char *name, enum pl_log_level level)
{
	logger.name = name;
	logger.level = level;
}

void pl_log_json(bool on)
{
	logger.json = on;
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

bool pl_log_may(struct pl_log_site *site)
{
	uint64_t now = pl_now_ns();
	uint32_t left_out = site->left_out;

	if (!site->lines ||
	    now - site->window_ns > PL_LOG_WINDOW_S * 1000000000ull) {
		site->window_ns = now;
		site->lines = 0;
		site->left_out = 0;
		if (left_out)
			pl_log(PL_LOG_WARN, "%u lines like the next one were "
			       "left out", left_out);
	}
	if (site->lines >= PL_LOG_BURST) {
		site->left_out++;
		return false;
	}
	site->lines++;
	return true;
}

/* What others chose, such as a name, can't forge a line. */
static void make_printable(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

/* Of a string in JSON; text is printable. Cut off where out is full. */
static void escape(const char *text, char *out, size_t size)
{
	size_t n = 0;

	for (; *text && n + 3 < size; text++) {
		if (*text == '"' || *text == '\\')
			out[n++] = '\\';
		out[n++] = *text;
	}
	out[n] = '\0';
}

static int line_json(char *line, const char *when, enum pl_log_level level,
		     const char *text)
{
	char out[LINE_BYTES - 128];

	escape(text, out, sizeof(out));
	return snprintf(line, LINE_BYTES - 1, "{\"time\":\"%s\",\"level\":"
			"\"%s\",\"program\":\"%.32s\",\"msg\":\"%s\"}", when,
			level_names[level], logger.name, out);
}

void pl_log(enum pl_log_level level, const char *fmt, ...)
{
	char line[LINE_BYTES], text[LINE_BYTES - 64], when[32];
	struct timespec ts;
	struct tm tm;
	va_list ap;
	size_t n;
	int len;

	if (level > logger.level)
		return;
	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	n = strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(when + n, sizeof(when) - n, ".%03ldZ", ts.tv_nsec / 1000000);
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	make_printable(text);
	len = logger.json ? line_json(line, when, level, text) :
			    snprintf(line, sizeof(line) - 1, "%s %s %.32s: %s",
				     when, level_names[level], logger.name,
				     text);
	n = PL_MIN((size_t)len, sizeof(line) - 2);
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, n) < 0)
		return;
}
