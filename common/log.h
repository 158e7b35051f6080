/*
 * common/log.h - log lines on standard error
 *
 * A line is "2026-01-31T12:00:00.123Z LEVEL program: message". Programs log,
 * libraries that run in pods never do. Write identifiers as key=value.
 */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

enum pl_log_level {
	PL_LOG_ERROR,
	PL_LOG_WARN,
	PL_LOG_INFO,
	PL_LOG_DEBUG,
};

/* Before the first line, from one thread. name must outlive the program. */
void pl_log_init(const char *name, enum pl_log_level level);

/* -EINVAL when the word is no level. */
int pl_log_level_parse(const char *word, enum pl_log_level *out);

void pl_log(enum pl_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#define pl_error(...) pl_log(PL_LOG_ERROR, __VA_ARGS__)
#define pl_warn(...) pl_log(PL_LOG_WARN, __VA_ARGS__)
#define pl_info(...) pl_log(PL_LOG_INFO, __VA_ARGS__)
#define pl_debug(...) pl_log(PL_LOG_DEBUG, __VA_ARGS__)

#endif
