/*
 * daemonset/kube_unpublish.c - what an agent has published on a Node goes away
 *
 * Which annotations those are the Node's managedFields say: those that were
 * applied by our field manager, and nothing else is touched. Applying none
 * takes them away. Each request is waited for, in a loop of its own.
 */
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/util.h"
#include "daemonset/kube_client.h"
#include "daemonset/kube_publish.h"

#define TIMEOUT_S 30

struct waiting {
	struct event_base *base;
	bool is_done;
	int rc;
	char *body;
	struct pl_err *err;
};

static void on_done(const struct pl_kube_answer *a, void *arg)
{
	struct waiting *w = arg;

	w->is_done = true;
	w->rc = a->rc;
	if (a->rc < 0)
		*w->err = *a->err;
	else if (!(w->body = strdup(a->body)))
		w->rc = pl_err_set(w->err, ENOMEM, "out of memory");
	event_base_loopbreak(w->base);
}

/* The answer, parsed, in *out. */
static int ask(struct event_base *base, struct pl_kube *k,
	       struct pl_kube_call *call, cJSON **out, struct pl_err *err)
{
	struct waiting w = { .base = base, .err = err };
	struct pl_kube_request *r;
	int rc;

	call->timeout_s = TIMEOUT_S;
	call->done = on_done;
	call->arg = &w;
	rc = pl_kube_start(k, call, &r, err);
	if (rc < 0)
		return rc;
	event_base_dispatch(base);
	if (!w.is_done)
		return pl_err_set(err, EIO, "the event loop failed");
	if (w.rc == 0)
		w.rc = pl_json_parse(w.body, strlen(w.body), out, err);
	free(w.body);
	return w.rc;
}

/* --- which are ours ------------------------------------------------------- */

static const cJSON *get(const cJSON *o, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(o, key);
}

static bool is(const cJSON *o, const char *key, const char *value)
{
	const char *s = cJSON_GetStringValue(get(o, key));

	return s && !strcmp(s, value);
}

/* How many are to go. */
static int each_of_ours(const cJSON *meta, pl_kube_unpublish_fn *fn, void *arg)
{
	const cJSON *m, *f;
	int n = 0;

	cJSON_ArrayForEach(m, get(meta, "managedFields")) {
		if (!is(m, "manager", PL_KUBE_MANAGER) ||
		    !is(m, "operation", "Apply") || get(m, "subresource"))
			continue;
		cJSON_ArrayForEach(f, get(get(get(m, "fieldsV1"), "f:metadata"),
					  "f:annotations"))
			if (!strncmp(f->string, "f:", 2) &&
			    get(get(meta, "annotations"), f->string + 2))
				n += fn(f->string + 2, arg);
	}
	return n;
}

static int apply_none(struct event_base *base, struct pl_kube *k,
		      const char *node, const char *uid, struct pl_err *err)
{
	pl_auto_json *doc = pl_kube_publish_doc(node, uid), *answer = NULL;
	pl_auto_free char *text = cJSON_PrintUnformatted(doc);
	char path[PL_KUBE_PUBLISH_PATH];
	struct pl_kube_call call = {
		.method = "PATCH",
		.path = path,
		.type = PL_KUBE_APPLY,
		.body = text,
	};

	if (!text)
		return pl_err_set(err, ENOMEM, "out of memory");
	pl_kube_publish_path(path, node, false);
	return ask(base, k, &call, &answer, err);
}

static int unpublish(struct event_base *base, struct pl_kube *k,
		     const char *node, pl_kube_unpublish_fn *fn, void *arg,
		     struct pl_err *err)
{
	char path[PL_KUBE_PUBLISH_PATH];
	struct pl_kube_call call = { .method = "GET", .path = path };
	pl_auto_json *obj = NULL;
	const cJSON *meta;
	const char *uid;
	int rc;

	if (pl_format(path, sizeof(path), "/api/v1/nodes/%s", node) < 0)
		return pl_err_set(err, ENAMETOOLONG, "the node's name is too "
				  "long");
	rc = ask(base, k, &call, &obj, err);
	if (rc < 0)
		return rc == -ENOENT ? 0 : rc;
	meta = get(obj, "metadata");
	uid = cJSON_GetStringValue(get(meta, "uid"));
	if (!uid || !is(meta, "name", node))
		return pl_err_set(err, EPROTO, "the answer of the API server "
				  "is not the Node");
	if (!each_of_ours(meta, fn, arg))
		return 0;
	return apply_none(base, k, node, uid, err);
}

int pl_kube_unpublish(struct pl_kube_conf *conf, const char *node,
		      pl_kube_unpublish_fn *fn, void *arg, struct pl_err *err)
{
	struct event_base *base = event_base_new();
	struct pl_kube *k = NULL;
	int rc;

	if (!base) {
		pl_kube_conf_fini(conf);
		return pl_err_set(err, ENOMEM, "out of memory");
	}
	rc = pl_kube_create(base, conf, &k, err);
	if (rc == 0)
		rc = unpublish(base, k, node, fn, arg, err);
	pl_kube_destroy(k);
	event_base_free(base);
	return rc;
}
