/*
 * bench/ps_progress.h - a bar on standard error, when that is a terminal
 *
 * With it stand the seconds so far, and about how many are left.
 */
#ifndef BENCH_PS_PROGRESS_H
#define BENCH_PS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct ps_progress {
	bool is_on;
	bool has_lines;			/* a line for each, where no bar is */
	unsigned int done, total;
	char what[96], said[96];
	uint64_t start_ns;
};

void ps_progress_init(struct ps_progress *p, unsigned int total);
/* What is done now. */
void ps_progress_say(struct ps_progress *p, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* So much of total is done; step: one. */
void ps_progress_add(struct ps_progress *p, unsigned int n);
void ps_progress_step(struct ps_progress *p);
/* So much of total is not done at all. */
void ps_progress_drop(struct ps_progress *p, unsigned int n);
/* Seconds since init; those that n of total take at the rate until now. */
double ps_progress_seconds(const struct ps_progress *p);
double ps_progress_estimate(const struct ps_progress *p, unsigned int n);
void ps_progress_draw(struct ps_progress *p);
/* Takes the bar off the screen. */
void ps_progress_end(struct ps_progress *p);

#endif
