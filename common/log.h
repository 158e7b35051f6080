/*
 * common/log.h - log lines on standard error
 *
 * A line is "2026-01-31T12:00:00.123Z LEVEL program: message". Programs log,
 * libraries that run in pods never do. Write identifiers as key=value. As JSON
 * it is {"time":..., "level":..., "program":..., "msg":...}.
 *
 * Each place in the code may say PL_LOG_BURST lines in PL_LOG_WINDOW_S seconds;
 * what it says beyond that is counted, and the next line that it may say is
 * preceded by how many were left out. Lines for debugging have no bound.
 */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include <stdbool.h>
#include <stdint.h>

#define PL_LOG_BURST 50
#define PL_LOG_WINDOW_S 10

enum pl_log_level {
	PL_LOG_ERROR,
	PL_LOG_WARN,
	PL_LOG_INFO,
	PL_LOG_DEBUG,
};

/* Before the first line, from one thread. name must outlive the program. */
void pl_log_init(const char *name, enum pl_log_level level);

/* As that, before the first line. */
void pl_log_json(bool on);

/* -EINVAL when the word is no level. */
int pl_log_level_parse(const char *word, enum pl_log_level *out);

void pl_log(enum pl_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* What one place has said; of one thread, or with a line more or less. */
struct pl_log_site {
	uint64_t window_ns;		/* when it began */
	uint32_t lines, left_out;
};

/* Whether the line may be said now. */
bool pl_log_may(struct pl_log_site *site);

#define pl_log_site_(level, ...)                              \
	do {                                                  \
		static struct pl_log_site site_;              \
							      \
		if (pl_log_may(&site_))                       \
			pl_log(level, __VA_ARGS__);           \
	} while (0)

#define pl_error(...) pl_log_site_(PL_LOG_ERROR, __VA_ARGS__)
#define pl_warn(...) pl_log_site_(PL_LOG_WARN, __VA_ARGS__)
#define pl_info(...) pl_log_site_(PL_LOG_INFO, __VA_ARGS__)
#define pl_debug(...) pl_log(PL_LOG_DEBUG, __VA_ARGS__)

#endif
