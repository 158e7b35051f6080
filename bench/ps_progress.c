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

double ps_progress_seconds(const struct ps_progress *p)
{
	return (double)(pl_now_ns() - p->start_ns) / 1e9;
}

double ps_progress_estimate(const struct ps_progress *p, unsigned int n)
{
	return p->done ? ps_progress_seconds(p) * n / p->done : 0;
}

/* A log has each line once. */
static void say_line(struct ps_progress *p)
{
	if (!p->has_lines || !strcmp(p->what, p->said))
		return;
	pl_format(p->said, sizeof(p->said), "%s", p->what);
	fprintf(stderr, "%3u %%  %3.0f s, about %.0f s left  %s\n",
		p->done * 100 / p->total, ps_progress_seconds(p),
		ps_progress_estimate(p, p->total - p->done), p->what);
}

void ps_progress_draw(struct ps_progress *p)
{
	unsigned int full = p->done * BAR / p->total, i;
	char bar[BAR + 1];

	if (!p->is_on) {
		say_line(p);
		return;
	}
	for (i = 0; i < BAR; i++)
		bar[i] = i < full ? '#' : '.';
	bar[BAR] = '\0';
	fprintf(stderr, "\r\033[K[%s] %3u %%  %3.0f s, %.0f s left  %s",
		bar, p->done * 100 / p->total, ps_progress_seconds(p),
		ps_progress_estimate(p, p->total - p->done), p->what);
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

void ps_progress_add(struct ps_progress *p, unsigned int n)
{
	p->done = PL_MIN(p->done + n, p->total);
	ps_progress_draw(p);
}

void ps_progress_drop(struct ps_progress *p, unsigned int n)
{
	p->total -= PL_MIN(n, p->total - PL_MAX(p->done, 1u));
	ps_progress_draw(p);
}

void ps_progress_step(struct ps_progress *p)
{
	ps_progress_add(p, 1);
}

void ps_progress_end(struct ps_progress *p)
{
	if (p->is_on)
		fprintf(stderr, "\r\033[K");
	p->is_on = false;
}
