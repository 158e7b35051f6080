/*
 * bench/ps_progress.h - a bar on standard error, when that is a terminal
 */
#ifndef BENCH_PS_PROGRESS_H
#define BENCH_PS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct ps_progress {
	bool is_on;
	unsigned int done, total;
	char what[96];
	uint64_t start_ns;
};

void ps_progress_init(struct ps_progress *p, unsigned int total);
/* What is done now. */
void ps_progress_say(struct ps_progress *p, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* One of total is done. */
void ps_progress_step(struct ps_progress *p);
void ps_progress_draw(struct ps_progress *p);
/* Takes the bar off the screen. */
void ps_progress_end(struct ps_progress *p);

#endif
