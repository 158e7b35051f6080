/*
 * bench/ps_progress.c - a bar on standard error, when that is a terminal
 */
#include "bench/ps_progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/util.h"

#define BAR 24

void ps_progress_init(struct ps_progress *p, unsigned int total)
{
	memset(p, 0, sizeof(*p));
	p->is_on = isatty(STDERR_FILENO);
	p->total = total ? total : 1;
	p->start_ns = pl_now_ns();
}

void ps_progress_draw(struct ps_progress *p)
{
	unsigned int full = p->done * BAR / p->total, i;
	char bar[BAR + 1];

	if (!p->is_on)
		return;
	for (i = 0; i < BAR; i++)
		bar[i] = i < full ? '#' : '.';
	bar[BAR] = '\0';
	fprintf(stderr, "\r\033[K[%s] %3u %%  %3.0f s  %s", bar,
		p->done * 100 / p->total,
		(double)(pl_now_ns() - p->start_ns) / 1e9, p->what);
	fflush(stderr);
}

void ps_progress_say(struct ps_progress *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p->what, sizeof(p->what), fmt, ap);
	va_end(ap);
	ps_progress_draw(p);
}

void ps_progress_step(struct ps_progress *p)
{
	p->done = PL_MIN(p->done + 1, p->total);
	ps_progress_draw(p);
}

void ps_progress_end(struct ps_progress *p)
{
	if (p->is_on)
		fprintf(stderr, "\r\033[K");
	p->is_on = false;
}
