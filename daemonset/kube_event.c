/* daemonset/kube_event.c - Events of our Node, for whoever runs the cluster */
#include "daemonset/kube_event.h"

#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uthash.h>

#include "common/json.h"
#include "common/log.h"
#include "common/util.h"
#include "daemonset/kube_client.h"
#include "daemonset/kube_watch.h"
#include "daemonset/registry.h"

#define PATH_EVENTS "/api/v1/namespaces/default/events"
#define TIMEOUT_S 30
#define ITEMS_MAX 32
#define KEY_BYTES 320
#define TEXT_BYTES 512			/* the API takes 1024 */
#define NAME_BYTES 64
#define WHEN_BYTES 32

struct item {
	UT_hash_handle hh;
	char key[KEY_BYTES];		/* reason, a blank, about */
	char reason[64];
	char text[TEXT_BYTES];
	char name[NAME_BYTES];		/* "": the API has none of it */
	time_t first, last;
	uint64_t last_ns;
	uint32_t count;
	bool is_due;
};

struct pl_kube_events {
	struct pl_kube *kube;
	const char *node;
	uint64_t repeat_ns;
	struct item *items;
	struct item *sent;		/* by req */
	struct pl_kube_request *req;
	struct event *timer;
	struct pl_backoff backoff;
	bool is_first;			/* req makes the Event */
	bool is_told;			/* that it does not work */
};

/* --- what is sent --------------------------------------------------------- */

static const char *when(time_t t, char out[WHEN_BYTES])
{
	struct tm tm;

	gmtime_r(&t, &tm);
	strftime(out, WHEN_BYTES, "%Y-%m-%dT%H:%M:%SZ", &tm);
	return out;
}

/* Nobody else's: the name of the node and the time, in a form that is short. */
static void name_it(const struct pl_kube_events *e, struct item *i)
{
	uint32_t hash = 2166136261u;
	struct timespec ts;

	for (const char *c = e->node; *c; c++)
		hash = (hash ^ (uint8_t)*c) * 16777619u;
	clock_gettime(CLOCK_REALTIME, &ts);
	snprintf(i->name, sizeof(i->name), "podlane-%08" PRIx32 ".%" PRIx64,
		 hash, (uint64_t)ts.tv_sec * 1000000000u +
		 (uint64_t)ts.tv_nsec);
}

/* As the kubelet's: what shows a Node's Events looks for its name as uid. */
static void add_node(cJSON *j, const char *node)
{
	cJSON *o = cJSON_AddObjectToObject(j, "involvedObject");

	cJSON_AddStringToObject(o, "apiVersion", "v1");
	cJSON_AddStringToObject(o, "kind", "Node");
	cJSON_AddStringToObject(o, "name", node);
	cJSON_AddStringToObject(o, "uid", node);
	o = cJSON_AddObjectToObject(j, "source");
	cJSON_AddStringToObject(o, "component", "podlaned");
	cJSON_AddStringToObject(o, "host", node);
	cJSON_AddStringToObject(j, "reportingComponent", "podlaned");
	cJSON_AddStringToObject(j, "reportingInstance", node);
}

static void add_first(cJSON *j, const struct pl_kube_events *e,
		      const struct item *i)
{
	char at[WHEN_BYTES];
	cJSON *m;

	cJSON_AddStringToObject(j, "apiVersion", "v1");
	cJSON_AddStringToObject(j, "kind", "Event");
	m = cJSON_AddObjectToObject(j, "metadata");
	cJSON_AddStringToObject(m, "name", i->name);
	cJSON_AddStringToObject(m, "namespace", "default");
	add_node(j, e->node);
	cJSON_AddStringToObject(j, "reason", i->reason);
	cJSON_AddStringToObject(j, "type", "Warning");
	cJSON_AddStringToObject(j, "firstTimestamp", when(i->first, at));
}

/* Of an Event that is there: only what has changed. */
static char *body(const struct pl_kube_events *e, const struct item *i,
		  bool is_new)
{
	pl_auto_json *j = cJSON_CreateObject();
	char at[WHEN_BYTES];

	if (is_new)
		add_first(j, e, i);
	cJSON_AddStringToObject(j, "message", i->text);
	cJSON_AddNumberToObject(j, "count", i->count);
	cJSON_AddStringToObject(j, "lastTimestamp", when(i->last, at));
	return cJSON_PrintUnformatted(j);
}

/* --- sending -------------------------------------------------------------- */

static void send_in(struct pl_kube_events *e, int ms)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };

	event_add(e->timer, &tv);
}

static void failed(struct pl_kube_events *e, const struct pl_err *err,
		   int retry_after_s)
{
	if (!e->is_told)
		pl_warn("events of node %s: %s", e->node, err->msg);
	e->is_told = true;
	send_in(e, pl_backoff_next_ms(&e->backoff, retry_after_s));
}

static void on_done(const struct pl_kube_answer *a, void *arg)
{
	struct pl_kube_events *e = arg;
	struct item *i = e->sent;

	e->req = NULL;
	e->sent = NULL;
	/* The server forgets Events after a while, and then this one is new. */
	if (a->rc < 0 && e->is_first)
		i->name[0] = '\0';
	if (a->rc == -ENOENT && !e->is_first) {
		i->name[0] = '\0';
		i->is_due = true;
	} else if (a->rc == -EINVAL) {
		pl_warn("events of node %s: %s", e->node, a->err->msg);
	} else if (a->rc < 0) {
		i->is_due = true;
		failed(e, a->err, a->retry_after_s);
		return;
	} else {
		e->is_told = false;
		pl_backoff_reset(&e->backoff);
	}
	send_in(e, 0);
}

static void send_one(struct pl_kube_events *e, struct item *i)
{
	bool is_new = !*i->name;
	pl_auto_free char *text = NULL;
	char path[sizeof(PATH_EVENTS) + NAME_BYTES + 32];
	struct pl_kube_call call = {
		.method = is_new ? "POST" : "PATCH",
		.path = path,
		.type = is_new ? "application/json" :
				 "application/merge-patch+json",
		.timeout_s = TIMEOUT_S,
		.done = on_done,
		.arg = e,
	};
	struct pl_err err = { 0 };

	if (is_new)
		name_it(e, i);
	pl_format(path, sizeof(path), "%s%s%s?fieldManager=podlane",
		  PATH_EVENTS, is_new ? "" : "/", is_new ? "" : i->name);
	call.body = text = body(e, i, is_new);
	if (text && pl_kube_start(e->kube, &call, &e->req, &err) == 0) {
		e->sent = i;
		e->is_first = is_new;
		i->is_due = false;
		return;
	}
	if (is_new)
		i->name[0] = '\0';
	if (!text)
		pl_err_set(&err, ENOMEM, "out of memory");
	failed(e, &err, 0);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct pl_kube_events *e = arg;

	(void)fd;
	(void)what;
	for (struct item *i = e->items; i && !e->req; i = i->hh.next) {
		if (!i->is_due)
			continue;
		send_one(e, i);
		return;
	}
}

/* --- what is to be said --------------------------------------------------- */

/* The one that was quiet for the longest makes room. */
static bool make_room(struct pl_kube_events *e)
{
	struct item *oldest = NULL;

	if (HASH_COUNT(e->items) < ITEMS_MAX)
		return true;
	for (struct item *i = e->items; i; i = i->hh.next)
		if (!i->is_due && i != e->sent &&
		    pl_now_ns() - i->last_ns > e->repeat_ns &&
		    (!oldest || i->last_ns < oldest->last_ns))
			oldest = i;
	if (!oldest)
		return false;
	HASH_DEL(e->items, oldest);
	free(oldest);
	return true;
}

static struct item *item_get(struct pl_kube_events *e, const char *reason,
			     const char *about)
{
	char key[KEY_BYTES];
	struct item *i;

	if (pl_format(key, sizeof(key), "%s %s", reason, about) < 0)
		return NULL;
	HASH_FIND_STR(e->items, key, i);
	if (i)
		return i;
	i = make_room(e) ? calloc(1, sizeof(*i)) : NULL;
	if (!i)
		return NULL;
	memcpy(i->key, key, sizeof(key));
	pl_format(i->reason, sizeof(i->reason), "%s", reason);
	HASH_ADD_STR(e->items, key, i);
	return i;
}

void pl_kube_event(struct pl_kube_events *e, const char *reason,
		   const char *about, const char *text)
{
	struct item *i = item_get(e, reason, about);
	uint64_t now = pl_now_ns();

	if (!i || i == e->sent ||
	    (i->count && now - i->last_ns < e->repeat_ns))
		return;
	pl_format(i->text, sizeof(i->text), "%s", text);
	i->last = time(NULL);
	i->last_ns = now;
	if (!i->count++)
		i->first = i->last;
	i->is_due = true;
	if (!e->req && !event_pending(e->timer, EV_TIMEOUT, NULL))
		send_in(e, 0);
}

int pl_kube_events_create(struct event_base *base, struct pl_kube *k,
			  const char *node, uint32_t repeat_s,
			  struct pl_kube_events **out, struct pl_err *err)
{
	struct pl_kube_events *e = calloc(1, sizeof(*e));

	if (!e || !(e->timer = evtimer_new(base, on_timer, e))) {
		free(e);
		return pl_err_set(err, ENOMEM, "out of memory");
	}
	e->kube = k;
	e->node = node;
	e->repeat_ns = repeat_s * UINT64_C(1000000000);
	*out = e;
	return 0;
}

void pl_kube_events_destroy(struct pl_kube_events *e)
{
	struct item *i, *tmp;

	if (!e)
		return;
	pl_kube_cancel(e->req);
	HASH_ITER(hh, e->items, i, tmp) {
		HASH_DEL(e->items, i);
		free(i);
	}
	event_free(e->timer);
	free(e);
}
