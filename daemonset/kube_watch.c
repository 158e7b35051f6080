/* daemonset/kube_watch.c - a list of objects of the API server, up to date */
#include "daemonset/kube_watch.h"

#include <ctype.h>
#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/log.h"
#include "common/util.h"
#include "daemonset/json_stream.h"
#include "daemonset/kube_client.h"

#define PAGE 500
/* One object. etcd refuses more than 1.5 MB of a shorter form. */
#define OBJECT_MAX (8u << 20)
#define LIST_TIMEOUT_S 120
/* A watch ends after one to two times this. */
#define WATCH_S 300
/* ... and this later, whatever the server thinks. */
#define WATCH_EXTRA_S 30
/* A watch that lives so long was no failure. */
#define SHORT_NS UINT64_C(1000000000)
/* Failures of the server's own in a row, until it is asked for a list. */
#define WATCH_TRIES 3
#define BACKOFF_MS 800
#define BACKOFF_MAX_MS 30000
#define RETRY_AFTER_MAX_S 300

struct pl_kube_watch {
	struct pl_kube *kube;
	char path[256], what[32];
	const struct pl_kube_watch_ops *ops;
	void *arg;
	struct event *timer;
	struct pl_kube_request *req;	/* NULL: the timer runs */
	struct pl_json_stream stream;
	bool is_listing;
	bool had_event;
	char *version;			/* NULL: from a list yet to come */
	char *more;			/* where the list goes on, or NULL */
	bool want_newest;
	uint64_t began_ns;
	struct pl_backoff backoff;
	struct pl_err problem;
};

/* --- waiting -------------------------------------------------------------- */

static uint32_t random_below(uint32_t n)
{
	uint32_t v = 0;

	if (getrandom(&v, sizeof(v), GRND_NONBLOCK) != sizeof(v))
		v = (uint32_t)pl_now_ns();
	return v % n;
}

int pl_backoff_next_ms(struct pl_backoff *b, int retry_after_s)
{
	int ms = BACKOFF_MS << PL_MIN(b->failures, 10u);
	int least = PL_MIN(retry_after_s, RETRY_AFTER_MAX_S) * 1000;

	b->failures++;
	ms = PL_MIN(ms, BACKOFF_MAX_MS);
	/* Half of it is certain, so that no try follows at once. */
	ms = ms / 2 + (int)random_below((uint32_t)ms / 2 + 1);
	return least ? least + ms / 4 : ms;
}

void pl_backoff_reset(struct pl_backoff *b)
{
	b->failures = 0;
}

static void clear_problem(struct pl_kube_watch *w)
{
	if (w->problem.code)
		pl_info("%s: the API server answers", w->what);
	pl_err_clear(&w->problem);
}

/* --- objects -------------------------------------------------------------- */

static const cJSON *get(const cJSON *o, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(o, key);
}

static int set_text(char **field, const char *s, struct pl_err *err)
{
	char *copy = s ? strdup(s) : NULL;

	if (s && !copy)
		return pl_err_set(err, ENOMEM, "out of memory");
	free(*field);
	*field = copy;
	return 0;
}

static const char *meta_text(const cJSON *obj, const char *key)
{
	const char *s = cJSON_GetStringValue(get(get(obj, "metadata"), key));

	return s && *s ? s : NULL;
}

static int take_version(struct pl_kube_watch *w, const cJSON *obj,
			struct pl_err *err)
{
	const char *v = meta_text(obj, "resourceVersion");

	return v ? set_text(&w->version, v, err) :
		   pl_err_set(err, EPROTO, "an object without a "
			      "metadata.resourceVersion");
}

static int on_error_event(const cJSON *status, struct pl_err *err)
{
	const cJSON *code = get(status, "code");
	const char *m = cJSON_GetStringValue(get(status, "message"));
	int n = cJSON_IsNumber(code) ? code->valueint : 0;

	return pl_err_set(err, n == 410 ? ESTALE : EAGAIN, "the watch ended "
			  "with code %d: %.400s", n, m ? m : "");
}

static int on_event(struct pl_kube_watch *w, const cJSON *v,
		    struct pl_err *err)
{
	const char *type = cJSON_GetStringValue(get(v, "type"));
	const cJSON *obj = get(v, "object");
	int rc = 0;

	if (!type || !cJSON_IsObject(obj))
		return pl_err_set(err, EPROTO, "a watch event without type or "
				  "object");
	if (!strcmp(type, "ERROR"))
		return on_error_event(obj, err);
	if (!strcmp(type, "ADDED") || !strcmp(type, "MODIFIED"))
		rc = w->ops->put(obj, w->arg, err);
	else if (!strcmp(type, "DELETED"))
		w->ops->del(obj, w->arg);
	/* BOOKMARK, and what later servers may send: only its version. */
	if (rc == 0)
		rc = take_version(w, obj, err);
	w->had_event = true;
	return rc;
}

static int on_rest(struct pl_kube_watch *w, const cJSON *v, struct pl_err *err)
{
	int rc = set_text(&w->more, meta_text(v, "continue"), err);

	return rc < 0 || w->more ? rc : take_version(w, v, err);
}

static int on_value(enum pl_json_part part, const cJSON *v, void *arg,
		    struct pl_err *err)
{
	struct pl_kube_watch *w = arg;

	switch (part) {
	case PL_JSON_ITEM:
		return w->ops->put(v, w->arg, err);
	case PL_JSON_REST:
		return on_rest(w, v, err);
	default:
		return on_event(w, v, err);
	}
}

/* A watch says nothing for a while, and is good all the same. */
static void on_begin(void *arg)
{
	struct pl_kube_watch *w = arg;

	if (!w->is_listing)
		clear_problem(w);
}

static int on_data(const char *data, size_t len, void *arg, struct pl_err *err)
{
	struct pl_kube_watch *w = arg;

	return pl_json_stream_feed(&w->stream, data, len, err);
}

/* --- one request after the other ------------------------------------------ */

static void wait_ms(struct pl_kube_watch *w, int ms)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };

	event_add(w->timer, &tv);
}

static void good(struct pl_kube_watch *w)
{
	clear_problem(w);
	pl_backoff_reset(&w->backoff);
}

static void bad(struct pl_kube_watch *w, const struct pl_err *err, int after_s)
{
	if (strcmp(w->problem.msg, err->msg))
		pl_warn("%s: %s; going on with what is known", w->what,
			err->msg);
	w->problem = *err;
	wait_ms(w, pl_backoff_next_ms(&w->backoff, after_s));
}

/* The next list is from the beginning, and not from a cache. */
static void relist(struct pl_kube_watch *w)
{
	set_text(&w->version, NULL, NULL);
	set_text(&w->more, NULL, NULL);
	w->want_newest = true;
}

static void after_list(struct pl_kube_watch *w, const struct pl_kube_answer *a)
{
	if (a->rc == 0 && !pl_json_stream_is_whole(&w->stream)) {
		struct pl_err err;

		pl_err_set(&err, EPROTO, "the list ended in the middle");
		bad(w, &err, 0);
		return;
	}
	if (a->rc < 0) {
		/* What it was to continue with is too old, or another's. */
		if (a->rc == -ESTALE || (a->rc == -EINVAL && w->more))
			relist(w);
		bad(w, a->err, a->retry_after_s);
		return;
	}
	if (!w->more) {
		w->want_newest = false;
		w->ops->synced(w->arg);
	}
	good(w);
	wait_ms(w, 0);
}

static void after_watch(struct pl_kube_watch *w,
			const struct pl_kube_answer *a)
{
	bool was_short = pl_now_ns() - w->began_ns < SHORT_NS && !w->had_event;
	struct pl_err err;

	if (a->rc == -ESTALE) {
		pl_info("%s: %s; listing them again", w->what, a->err->msg);
		relist(w);
		/* A server that says so again and again is not asked at once */
		wait_ms(w, w->had_event ? 0 :
			pl_backoff_next_ms(&w->backoff, a->retry_after_s));
		return;
	}
	if (w->had_event)
		good(w);
	/* Its time was up, here or there. */
	if ((a->rc == 0 || (a->rc == -ETIMEDOUT && a->status == 200)) &&
	    !was_short) {
		good(w);
		wait_ms(w, 0);
		return;
	}
	if (a->rc == 0)
		pl_err_set(&err, EAGAIN, "the watch ended at once");
	else
		err = *a->err;
	/* A version that is none of this server's, as after a restore. */
	if (a->status && w->backoff.failures >= WATCH_TRIES)
		relist(w);
	bad(w, &err, a->retry_after_s);
}

static void on_done(const struct pl_kube_answer *a, void *arg)
{
	struct pl_kube_watch *w = arg;

	w->req = NULL;
	if (w->is_listing)
		after_list(w, a);
	else
		after_watch(w, a);
	pl_json_stream_fini(&w->stream);
}

/* What is no letter, digit, '-', '.', '_' or '~' as %XX. */
static char *escape(const char *s)
{
	static const char hex[] = "0123456789ABCDEF";
	char *out = malloc(strlen(s) * 3 + 1), *p = out;

	for (; out && *s; s++) {
		unsigned char c = (unsigned char)*s;

		if ((isascii(c) && isalnum(c)) || strchr("-._~", c)) {
			*p++ = (char)c;
			continue;
		}
		*p++ = '%';
		*p++ = hex[c >> 4];
		*p++ = hex[c & 15];
	}
	if (out)
		*p = '\0';
	return out;
}

static char *list_path(const struct pl_kube_watch *w)
{
	pl_auto_free char *more = w->more ? escape(w->more) : NULL;
	char *path = NULL;
	int n;

	if (w->more && !more)
		return NULL;
	/* A continued list has its version in what it continues with. */
	n = asprintf(&path, "%s?limit=%d%s%s", w->path, PAGE,
		     more ? "&continue=" : w->want_newest ? "" :
					   "&resourceVersion=0",
		     more ? more : "");
	return n < 0 ? NULL : path;
}

static char *watch_path(const struct pl_kube_watch *w, int seconds)
{
	pl_auto_free char *version = escape(w->version);
	char *path = NULL;

	if (!version ||
	    asprintf(&path, "%s?watch=true&allowWatchBookmarks=true"
		     "&timeoutSeconds=%d&resourceVersion=%s", w->path,
		     seconds, version) < 0)
		return NULL;
	return path;
}

static int ask(struct pl_kube_watch *w, struct pl_err *err)
{
	int seconds = WATCH_S + (int)random_below(WATCH_S);
	pl_auto_free char *path = w->is_listing ? list_path(w) :
						  watch_path(w, seconds);
	const struct pl_kube_call call = {
		.method = "GET",
		.path = path,
		.timeout_s = w->is_listing ? LIST_TIMEOUT_S :
					     seconds + WATCH_EXTRA_S,
		.begin = on_begin,
		.data = on_data,
		.done = on_done,
		.arg = w,
	};

	if (!path)
		return pl_err_set(err, ENOMEM, "out of memory");
	pl_json_stream_init(&w->stream, w->is_listing, OBJECT_MAX, on_value,
			    w);
	return pl_kube_start(w->kube, &call, &w->req, err);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct pl_kube_watch *w = arg;
	struct pl_err err = { 0 };

	(void)fd;
	(void)what;
	w->is_listing = !w->version;
	w->had_event = false;
	w->began_ns = pl_now_ns();
	if (w->is_listing && !w->more)
		w->ops->list(w->arg);
	if (ask(w, &err) < 0)
		bad(w, &err, 0);
}

int pl_kube_watch_open(struct event_base *base, struct pl_kube *k,
		       const char *path, const char *what,
		       const struct pl_kube_watch_ops *ops, void *arg,
		       struct pl_kube_watch **out, struct pl_err *err)
{
	struct pl_kube_watch *w = calloc(1, sizeof(*w));

	if (!w || !(w->timer = evtimer_new(base, on_timer, w))) {
		free(w);
		return pl_err_set(err, ENOMEM, "out of memory");
	}
	w->kube = k;
	w->ops = ops;
	w->arg = arg;
	pl_format(w->path, sizeof(w->path), "%s", path);
	pl_format(w->what, sizeof(w->what), "%s", what);
	pl_err_set(&w->problem, EAGAIN, "the API server %s has not answered "
		   "yet", pl_kube_server(k));
	wait_ms(w, 0);
	*out = w;
	return 0;
}

void pl_kube_watch_close(struct pl_kube_watch *w)
{
	if (!w)
		return;
	pl_kube_cancel(w->req);
	pl_json_stream_fini(&w->stream);
	event_free(w->timer);
	free(w->version);
	free(w->more);
	free(w);
}

const char *pl_kube_watch_problem(const struct pl_kube_watch *w)
{
	return w->problem.msg;
}
