/*
 * daemonset/locate_kube.c - ask the API server whose address it is
 *
 *   pods by status.podIP; if there is none
 *   Services by spec.clusterIP; if there is one
 *   its EndpointSlices: the ready pods behind it
 *
 * All from the server's cache (resourceVersion 0): by themselves such questions
 * would make it read every pod of the cluster.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"
#include "daemonset/locate_internal.h"

#define TIMEOUT_S 10
#define OBJECT_MAX (8u << 20)
#define ASKING_MAX 16

static const cJSON *get(const cJSON *o, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(o, key);
}

static const char *text(const cJSON *o, const char *part, const char *key)
{
	const char *s = cJSON_GetStringValue(get(get(o, part), key));

	return s ? s : "";
}

static int on_data(const char *data, size_t len, void *arg, struct pl_err *err)
{
	struct pl_lookup *k = arg;

	return pl_json_stream_feed(&k->stream, data, len, err);
}

static int ask(struct pl_lookup *k, const char *path, pl_json_stream_fn *item,
	       pl_kube_done_fn *done, struct pl_err *err)
{
	const struct pl_kube_call call = { .method = "GET",
					   .path = path,
					   .timeout_s = TIMEOUT_S,
					   .data = on_data,
					   .done = done,
					   .arg = k };

	k->n_found = 0;
	pl_json_stream_fini(&k->stream);
	pl_json_stream_init(&k->stream, true, OBJECT_MAX, item, k);
	return pl_kube_start(k->l->kube, &call, &k->req, err);
}

static void over(struct pl_lookup *k)
{
	k->l->n_asking--;
	pl_json_stream_fini(&k->stream);
}

/* Who can't be told by the server can still ask the other agents. */
static void failed(struct pl_lookup *k, const struct pl_err *err)
{
	over(k);
	pl_format(k->why, sizeof(k->why), "%.399s", err->msg);
	if (!k->l->is_told)
		pl_warn("cannot ask the API server for pods: %s; asking other "
			"agents", err->msg);
	k->l->is_told = true;
	pl_lookup_ask_peers(k);
}

/* Whether the answer is good; else it is dealt with. */
static bool is_good(struct pl_lookup *k, const struct pl_kube_answer *a)
{
	struct pl_err err = { 0 };

	k->req = NULL;
	if (a->rc == 0 && pl_json_stream_is_whole(&k->stream)) {
		k->l->is_told = false;
		return true;
	}
	if (a->rc == 0)
		pl_err_set(&err, EPROTO, "the list ended in the middle");
	failed(k, a->rc == 0 ? &err : a->err);
	return false;
}

/* --- the pods of a Service ------------------------------------------------ */

/* Of the family that was asked for; not ready ones do not count. */
static int on_slice(enum pl_json_part part, const cJSON *v, void *arg,
		    struct pl_err *err)
{
	struct pl_lookup *k = arg;
	const cJSON *e;

	(void)err;
	if (part != PL_JSON_ITEM)
		return 0;
	cJSON_ArrayForEach(e, get(v, "endpoints")) {
		const char *s = cJSON_GetStringValue(
			cJSON_GetArrayItem(get(e, "addresses"), 0));
		const char *node = cJSON_GetStringValue(get(e, "nodeName"));
		struct pl_addr a;

		if (cJSON_IsFalse(get(get(e, "conditions"), "ready")) || !s ||
		    pl_addr_parse(s, &a) < 0 || a.family != k->addr.family)
			continue;
		/* A port more is a slice more, with the same pods. */
		if (k->n_found && pl_addr_equal(&a, &k->pod))
			continue;
		k->n_found++;
		k->pod = a;
		pl_format(k->node, sizeof(k->node), "%s", node ? node : "");
	}
	return 0;
}

static void on_slices(const struct pl_kube_answer *a, void *arg)
{
	struct pl_lookup *k = arg;
	char addr[INET6_ADDRSTRLEN];

	if (!is_good(k, a))
		return;
	over(k);
	pl_addr_str(&k->addr, addr);
	if (k->n_found == 1 && *k->node)
		pl_lookup_answer(k, 0, "%s", "");
	else if (k->n_found == 1)
		pl_lookup_answer(k, -EHOSTUNREACH, "%s is the address of "
				 "Service %s/%s, which no pod of a node serves",
				 addr, k->ns, k->name);
	else
		pl_lookup_answer(k, -EHOSTUNREACH, "%s is the address of "
				 "Service %s/%s, which %s ready pod%s: connect "
				 "to a pod's own address, or make the Service "
				 "headless (clusterIP: None)", addr, k->ns,
				 k->name, k->n_found ? "has more than one" :
				 "has no", k->n_found ? "" : " yet");
}

/* --- Services ------------------------------------------------------------- */

static int on_service(enum pl_json_part part, const cJSON *v, void *arg,
		      struct pl_err *err)
{
	struct pl_lookup *k = arg;

	(void)err;
	if (part != PL_JSON_ITEM ||
	    pl_format(k->ns, sizeof(k->ns), "%s",
		      text(v, "metadata", "namespace")) < 0 ||
	    pl_format(k->name, sizeof(k->name), "%s",
		      text(v, "metadata", "name")) < 0)
		return 0;
	k->n_found++;
	return 0;
}

static void on_services(const struct pl_kube_answer *a, void *arg)
{
	struct pl_lookup *k = arg;
	struct pl_err err = { 0 };
	char path[512];

	/* Older servers can't select Services so. */
	if (a->status == 400) {
		k->req = NULL;
		k->n_found = 0;
	} else if (!is_good(k, a)) {
		return;
	}
	if (k->n_found != 1) {
		over(k);
		pl_lookup_ask_peers(k);
		return;
	}
	pl_format(path, sizeof(path), "/apis/discovery.k8s.io/v1/namespaces/%s/"
		  "endpointslices?resourceVersion=0&labelSelector="
		  "kubernetes.io%%2Fservice-name%%3D%s", k->ns, k->name);
	if (ask(k, path, on_slice, on_slices, &err) < 0)
		failed(k, &err);
}

static void ask_services(struct pl_lookup *k)
{
	char addr[INET6_ADDRSTRLEN], path[256];
	struct pl_err err = { 0 };

	pl_format(path, sizeof(path), "/api/v1/services?resourceVersion=0"
		  "&fieldSelector=spec.clusterIP%%3D%s",
		  pl_addr_str(&k->addr, addr));
	if (ask(k, path, on_service, on_services, &err) < 0)
		failed(k, &err);
}

/* --- pods ----------------------------------------------------------------- */

/* A pod that has ended keeps its address in its status. */
static int on_pod(enum pl_json_part part, const cJSON *v, void *arg,
		  struct pl_err *err)
{
	const char *node = text(v, "spec", "nodeName");
	const char *phase = text(v, "status", "phase");
	struct pl_lookup *k = arg;

	(void)err;
	if (part != PL_JSON_ITEM || !*node || !strcmp(phase, "Succeeded") ||
	    !strcmp(phase, "Failed"))
		return 0;
	if (cJSON_IsTrue(get(get(v, "spec"), "hostNetwork"))) {
		k->is_host = true;
		return 0;
	}
	k->n_found++;
	pl_format(k->node, sizeof(k->node), "%s", node);
	return 0;
}

static void on_pods(const struct pl_kube_answer *a, void *arg)
{
	struct pl_lookup *k = arg;
	char addr[INET6_ADDRSTRLEN];

	if (!is_good(k, a))
		return;
	pl_addr_str(&k->addr, addr);
	if (!k->n_found && !k->is_host) {
		ask_services(k);
		return;
	}
	over(k);
	k->pod = k->addr;
	if (k->n_found == 1)
		pl_lookup_answer(k, 0, "%s", "");
	else if (k->n_found)
		pl_lookup_answer(k, -EHOSTUNREACH, "%u pods have the address "
				 "%s", k->n_found, addr);
	else
		pl_lookup_answer(k, -EHOSTUNREACH, "%s is a node's address; "
				 "pods of the host's network have no lanes",
				 addr);
}

int pl_lookup_ask_kube(struct pl_lookup *k, struct pl_err *err)
{
	char addr[INET6_ADDRSTRLEN], path[256];
	int rc;

	if (k->l->n_asking >= ASKING_MAX)
		return pl_err_set(err, EAGAIN, "too many pods of other nodes "
				  "are looked for; try again");
	k->is_host = false;
	/* A ':' may stand in a query as it is. */
	pl_format(path, sizeof(path), "/api/v1/pods?resourceVersion=0"
		  "&fieldSelector=status.podIP%%3D%s",
		  pl_addr_str(&k->addr, addr));
	rc = ask(k, path, on_pod, on_pods, err);
	if (rc == 0)
		k->l->n_asking++;
	return rc;
}
