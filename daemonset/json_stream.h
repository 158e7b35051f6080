/*
 * daemonset/json_stream.h - JSON values out of a stream of bytes, one by one
 *
 * Bytes come in pieces of any size, with a value ending anywhere in them. A
 * value is parsed as soon as its last byte is there, and only one is held at a
 * time: a list of 5,000 nodes costs as much memory as its largest node.
 */
#ifndef DAEMONSET_JSON_STREAM_H
#define DAEMONSET_JSON_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "common/err.h"

enum pl_json_part {
	PL_JSON_VALUE,		/* one object of the stream */
	PL_JSON_ITEM,		/* one element of its "items" */
	PL_JSON_REST,		/* at its end: the object without them */
};

/* v is valid until it returns. < 0 ends the reading with this code. */
typedef int pl_json_stream_fn(enum pl_json_part part, const cJSON *v,
			      void *arg, struct pl_err *err);

struct pl_json_stream {
	pl_json_stream_fn *fn;
	void *arg;
	bool is_list;
	size_t max;
	char *buf;
	size_t len, size;
	unsigned int depth;
	bool in_string, is_escaped;
	size_t key;			/* the last text at depth 1 */
	size_t items;			/* where "items" begins; 0: elsewhere */
	bool is_over;			/* a list has ended */
};

/*
 * is_list: the stream is one object, whose "items" are given one by one; else
 * it is any number of objects with or without white space between them. A value
 * of more than max bytes is refused.
 */
void pl_json_stream_init(struct pl_json_stream *s, bool is_list, size_t max,
			 pl_json_stream_fn *fn, void *arg);
void pl_json_stream_fini(struct pl_json_stream *s);

/*
 * -EPROTO: no JSON, or something after a list; -EMSGSIZE; -ENOMEM; what fn
 * returned. Nothing may be fed after a failure.
 */
int pl_json_stream_feed(struct pl_json_stream *s, const char *data, size_t len,
			struct pl_err *err);

/* Nothing is half there; of a list: all of it was there. */
bool pl_json_stream_is_whole(const struct pl_json_stream *s);

#endif
