/* daemonset/kube_publish.c - our own Node says that an agent is there */
#include "daemonset/kube_publish.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/log.h"
#include "common/util.h"
#include "daemonset/kube_client.h"
#include "daemonset/kube_node.h"
#include "daemonset/kube_watch.h"
#include "daemonset/registry.h"

#define TIMEOUT_S 30

struct pl_kube_publish {
	struct pl_kube *kube;
	const char *node, *carriers;
	uint16_t port;
	char uid[64];			/* "": the Node is not there */
	char endpoint[INET6_ADDRSTRLEN + 8];
	struct event *timer;
	struct pl_kube_request *req;
	struct pl_backoff backoff;
	bool is_right;			/* as the Node was seen last */
	bool force;
	struct pl_err problem;
};

static void apply_in(struct pl_kube_publish *p, int ms)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };

	event_add(p->timer, &tv);
}

/* --- the answer ----------------------------------------------------------- */

static const cJSON *get(const cJSON *o, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(o, key);
}

/* Of all conflicts only those of fields can be forced. */
static bool is_field_conflict(const struct pl_kube_answer *a)
{
	pl_auto_json *s = cJSON_Parse(a->body);
	const cJSON *c;

	cJSON_ArrayForEach(c, get(get(s, "details"), "causes")) {
		const char *r = cJSON_GetStringValue(get(c, "reason"));

		if (r && !strcmp(r, "FieldManagerConflict"))
			return true;
	}
	return false;
}

static void bad(struct pl_kube_publish *p, const struct pl_kube_answer *a)
{
	if (strcmp(p->problem.msg, a->err->msg))
		pl_warn("annotations of node %s: %s", p->node, a->err->msg);
	p->problem = *a->err;
	apply_in(p, pl_backoff_next_ms(&p->backoff, a->retry_after_s));
}

static void on_done(const struct pl_kube_answer *a, void *arg)
{
	struct pl_kube_publish *p = arg;

	p->req = NULL;
	if (a->rc == -EEXIST && !p->force && is_field_conflict(a)) {
		pl_warn("node %s: %s; taking the fields over", p->node,
			a->err->msg);
		p->force = true;
		apply_in(p, 0);
		return;
	}
	p->force = false;
	if (a->rc < 0) {
		bad(p, a);
		return;
	}
	if (p->problem.code)
		pl_info("node %s has its annotations", p->node);
	pl_err_clear(&p->problem);
	pl_backoff_reset(&p->backoff);
	/* The watch will tell; until then nothing is done twice. */
	p->is_right = true;
}

/* --- the request ---------------------------------------------------------- */

/* With its uid: another Node of this name is not meant, and none is made. */
cJSON *pl_kube_publish_doc(const char *node, const char *uid)
{
	cJSON *m, *j = cJSON_CreateObject();

	cJSON_AddStringToObject(j, "apiVersion", "v1");
	cJSON_AddStringToObject(j, "kind", "Node");
	m = cJSON_AddObjectToObject(j, "metadata");
	cJSON_AddStringToObject(m, "name", node);
	cJSON_AddStringToObject(m, "uid", uid);
	return j;
}

void pl_kube_publish_path(char path[PL_KUBE_PUBLISH_PATH], const char *node,
			  bool force)
{
	pl_format(path, PL_KUBE_PUBLISH_PATH, "/api/v1/nodes/%s?fieldManager="
		  PL_KUBE_MANAGER "&force=%s", node, force ? "true" : "false");
}

static char *body(const struct pl_kube_publish *p)
{
	pl_auto_json *j = pl_kube_publish_doc(p->node, p->uid);
	cJSON *a = cJSON_AddObjectToObject(
		cJSON_GetObjectItemCaseSensitive(j, "metadata"),
		"annotations");

	cJSON_AddStringToObject(a, PL_KUBE_ENDPOINT, p->endpoint);
	cJSON_AddStringToObject(a, PL_KUBE_CARRIERS, p->carriers);
	cJSON_AddStringToObject(a, PL_KUBE_VERSION, PL_VERSION);
	return cJSON_PrintUnformatted(j);
}

static void apply(struct pl_kube_publish *p)
{
	pl_auto_free char *text = body(p);
	char path[PL_KUBE_PUBLISH_PATH];
	const struct pl_kube_call call = {
		.method = "PATCH",
		.path = path,
		.type = PL_KUBE_APPLY,
		.body = text,
		.timeout_s = TIMEOUT_S,
		.done = on_done,
		.arg = p,
	};
	struct pl_err err;

	pl_kube_publish_path(path, p->node, p->force);
	if (text && pl_kube_start(p->kube, &call, &p->req, &err) == 0)
		return;
	if (!text)
		pl_err_set(&err, ENOMEM, "out of memory");
	bad(p, &(struct pl_kube_answer){ .err = &err });
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct pl_kube_publish *p = arg;

	(void)fd;
	(void)what;
	if (!p->req && !p->is_right && *p->uid)
		apply(p);
}

/* --- what is there -------------------------------------------------------- */

static bool has(const cJSON *obj, const char *key, const char *value)
{
	const char *s = pl_kube_annotation(obj, key);

	return s && !strcmp(s, value);
}

void pl_kube_publish_see(struct pl_kube_publish *p, const cJSON *obj,
			 const struct pl_addr *address)
{
	const char *uid = cJSON_GetStringValue(get(get(obj, "metadata"),
						   "uid"));
	char text[INET6_ADDRSTRLEN];

	if (!uid || pl_format(p->uid, sizeof(p->uid), "%s", uid) < 0)
		*p->uid = '\0';
	pl_format(p->endpoint, sizeof(p->endpoint),
		  address->family == AF_INET6 ? "[%s]:%u" : "%s:%u",
		  pl_addr_str(address, text), p->port);
	p->is_right = has(obj, PL_KUBE_ENDPOINT, p->endpoint) &&
		      has(obj, PL_KUBE_CARRIERS, p->carriers) &&
		      has(obj, PL_KUBE_VERSION, PL_VERSION);
	if (!p->is_right && !p->req && !event_pending(p->timer, EV_TIMEOUT,
						      NULL))
		apply_in(p, 0);
}

void pl_kube_publish_gone(struct pl_kube_publish *p)
{
	*p->uid = '\0';
}

int pl_kube_publish_create(struct event_base *base, struct pl_kube *k,
			   const char *node, const char *carriers,
			   uint16_t port, struct pl_kube_publish **out,
			   struct pl_err *err)
{
	struct pl_kube_publish *p = calloc(1, sizeof(*p));

	if (!p || !(p->timer = evtimer_new(base, on_timer, p))) {
		free(p);
		return pl_err_set(err, ENOMEM, "out of memory");
	}
	p->kube = k;
	p->node = node;
	p->carriers = carriers;
	p->port = port;
	*out = p;
	return 0;
}

void pl_kube_publish_destroy(struct pl_kube_publish *p)
{
	if (!p)
		return;
	pl_kube_cancel(p->req);
	event_free(p->timer);
	free(p);
}

const char *pl_kube_publish_problem(const struct pl_kube_publish *p)
{
	return p->problem.msg;
}
