/* daemonset/metrics_print.h - lines of Prometheus's format */
#ifndef DAEMONSET_METRICS_PRINT_H
#define DAEMONSET_METRICS_PRINT_H

#include <event2/buffer.h>

#define LABEL_BYTES 520

static inline void family(struct evbuffer *b, const char *name,
			  const char *type, const char *help)
{
	evbuffer_add_printf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name,
			    type);
}

static inline void one(struct evbuffer *b, const char *name, const char *type,
		       const char *help, double v)
{
	family(b, name, type, help);
	evbuffer_add_printf(b, "%s %.15g\n", name, v);
}

/* A label's value: backslash, quote and line feed are written as two. */
static inline const char *escape(const char *s, char out[LABEL_BYTES])
{
	size_t n = 0;

	for (; *s && n + 3 < LABEL_BYTES; s++) {
		if (*s == '\\' || *s == '"' || *s == '\n')
			out[n++] = '\\';
		out[n++] = *s == '\n' ? 'n' : *s;
	}
	out[n] = '\0';
	return out;
}

#endif
