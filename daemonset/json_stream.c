/*
 * daemonset/json_stream.c - JSON values out of a stream of bytes, one by one
 *
 * Only braces, brackets and texts are followed, to see where a value ends.
 * Whether it is JSON, the parser says, which then gets it whole. What was an
 * item is cut out of the buffer, so a list ends as an object with no items.
 */
#include "daemonset/json_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/util.h"

#define KEY "\"items\""

void pl_json_stream_init(struct pl_json_stream *s, bool is_list, size_t max,
			 pl_json_stream_fn *fn, void *arg)
{
	*s = (struct pl_json_stream){ .fn = fn, .arg = arg,
				      .is_list = is_list, .max = max };
}

void pl_json_stream_fini(struct pl_json_stream *s)
{
	free(s->buf);
	s->buf = NULL;
	s->len = s->size = 0;
}

bool pl_json_stream_is_whole(const struct pl_json_stream *s)
{
	return s->is_list ? s->is_over : !s->depth;
}

static int keep(struct pl_json_stream *s, char c, struct pl_err *err)
{
	if (s->len == s->max)
		return pl_err_set(err, EMSGSIZE, "a JSON value of more than "
				  "%zu bytes", s->max);
	if (s->len == s->size) {
		size_t size = s->size ? s->size * 2 : 4096;
		char *p = realloc(s->buf, size);

		if (!p)
			return pl_err_set(err, ENOMEM, "out of memory");
		s->buf = p;
		s->size = size;
	}
	s->buf[s->len++] = c;
	return 0;
}

/* What stands in the buffer from `from` on; afterwards it does not. */
static int give(struct pl_json_stream *s, enum pl_json_part part, size_t from,
		struct pl_err *err)
{
	/* Not pl_json_parse, which would refuse one text with a NUL in it. */
	pl_auto_json *v = cJSON_ParseWithLength(s->buf + from, s->len - from);

	s->len = from;
	if (!v)
		return pl_err_set(err, EPROTO, "no valid JSON came");
	return s->fn(part, v, s->arg, err);
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* At an end of an item: a comma, or the list's bracket. */
static int end_item(struct pl_json_stream *s, struct pl_err *err)
{
	return s->len == s->items ? 0 : give(s, PL_JSON_ITEM, s->items, err);
}

static int open_bracket(struct pl_json_stream *s, char c, struct pl_err *err)
{
	int rc = keep(s, c, err);

	if (s->is_list && s->depth == 1 && c == '[' &&
	    s->len - s->key > sizeof(KEY) - 1 &&
	    !memcmp(s->buf + s->key, KEY, sizeof(KEY) - 1))
		s->items = s->len;
	s->depth++;
	return rc;
}

static int close_bracket(struct pl_json_stream *s, char c, struct pl_err *err)
{
	int rc = 0;

	if (s->items && s->depth == 2) {
		rc = end_item(s, err);
		s->items = 0;
	}
	s->depth--;
	if (rc == 0)
		rc = keep(s, c, err);
	if (rc < 0 || s->depth)
		return rc;
	s->is_over = s->is_list;
	return give(s, s->is_list ? PL_JSON_REST : PL_JSON_VALUE, 0, err);
}

static int in_string(struct pl_json_stream *s, char c, struct pl_err *err)
{
	if (s->is_escaped)
		s->is_escaped = false;
	else if (c == '\\')
		s->is_escaped = true;
	else if (c == '"')
		s->in_string = false;
	return keep(s, c, err);
}

static int feed(struct pl_json_stream *s, char c, struct pl_err *err)
{
	if (s->in_string)
		return in_string(s, c, err);
	if (is_space(c))
		return 0;
	if (s->is_over || (!s->depth && c != '{'))
		return pl_err_set(err, EPROTO, "something other than a JSON "
				  "object came");
	if (c == '{' || c == '[')
		return open_bracket(s, c, err);
	if (c == '}' || c == ']')
		return close_bracket(s, c, err);
	if (c == ',' && s->items && s->depth == 2)
		return end_item(s, err);
	if (c == '"') {
		s->in_string = true;
		if (s->depth == 1)
			s->key = s->len;
	}
	return keep(s, c, err);
}

int pl_json_stream_feed(struct pl_json_stream *s, const char *data, size_t len,
			struct pl_err *err)
{
	for (size_t i = 0; i < len; i++) {
		int rc = feed(s, data[i], err);

		if (rc < 0)
			return rc;
	}
	return 0;
}
