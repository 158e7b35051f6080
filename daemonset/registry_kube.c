/* daemonset/registry_kube.c - the node registry from the Kubernetes API */
#include "daemonset/registry_kube.h"

#include <errno.h>
#include <event2/event.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/log.h"
#include "common/util.h"
#include "daemonset/kube_client.h"
#include "daemonset/kube_node.h"
#include "daemonset/kube_publish.h"
#include "daemonset/kube_watch.h"
#include "daemonset/registry_file.h"

/* From the first change to the table, and between two tables. */
#define TABLE_MS 100
#define TABLE_EVERY_MS 1000
/* What is on disk may be older than what holds. */
#define SAVE_S 1

struct pl_registry_kube {
	struct pl_registry_kube_conf conf;
	pl_registry_fn *fn;
	void *arg;
	char state[PATH_MAX];
	struct pl_kube *kube;
	struct pl_kube_watch *watch;
	struct pl_kube_publish *publish;
	struct pl_kube_node *nodes;	/* by name */
	uint64_t list;			/* number of the list; see seen */
	uint64_t table_ns;		/* when now was made */
	struct pl_registry now;
	struct event *table_timer, *save_timer;
	bool has_synced;		/* nodes are not half of a first list */
	bool is_empty_list;
};

/* --- on disk -------------------------------------------------------------- */

static void load(struct pl_registry_kube *r)
{
	pl_auto_json *json = NULL;
	struct pl_err err = { 0 };
	int rc = pl_json_load(r->state, &json, &err);

	if (rc == 0)
		rc = pl_registry_parse(json, &r->now, &err);
	if (rc == 0) {
		pl_info("%s: %zu nodes, as they were known last", r->state,
			r->now.n);
		return;
	}
	pl_registry_fini(&r->now);
	pl_registry_seal(&r->now, NULL);
	if (rc != -ENOENT)
		pl_warn("%s: not used: %s", r->state, err.msg);
}

static void print_node(FILE *f, const struct pl_node *n)
{
	char text[PL_PREFIX_STRLEN];

	fprintf(f, "{\"name\":\"%s\",\"address\":\"%s\",\"port\":%u,"
		"\"podCIDRs\":[", n->name, pl_addr_str(&n->address, text),
		n->port);
	for (int i = 0; i < n->n_cidrs; i++)
		fprintf(f, "%s\"%s\"", i ? "," : "",
			pl_prefix_str(&n->cidrs[i], text));
	fprintf(f, "]}");
}

/* As text and not by cJSON, which would take many times the memory. */
static int save(const struct pl_registry_kube *r, struct pl_err *err)
{
	pl_auto_free char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return pl_err_set(err, ENOMEM, "out of memory");
	fprintf(f, "{\"nodes\":[");
	for (size_t i = 0; i < r->now.n; i++) {
		fprintf(f, i ? ",\n" : "\n");
		print_node(f, &r->now.nodes[i]);
	}
	fprintf(f, "\n]}\n");
	if (fclose(f) != 0)
		return pl_err_set(err, ENOMEM, "out of memory");
	/* A disk may be slow, and it is only a start for the next agent. */
	return pl_file_replace_nosync(r->state, text, len, 0644, err);
}

static void on_save(evutil_socket_t fd, short what, void *arg)
{
	const struct pl_registry_kube *r = arg;
	struct pl_err err = { 0 };

	(void)fd;
	(void)what;
	if (save(r, &err) < 0)
		pl_warn("cannot keep the nodes in %s: %s", r->state, err.msg);
}

static void save_soon(struct pl_registry_kube *r)
{
	struct timeval tv = { .tv_sec = SAVE_S };

	if (!event_pending(r->save_timer, EV_TIMEOUT, NULL))
		event_add(r->save_timer, &tv);
}

/* --- the table ------------------------------------------------------------ */

static void on_table(evutil_socket_t fd, short what, void *arg)
{
	struct pl_registry_kube *r = arg;
	struct pl_registry was = r->now, now;
	struct pl_err err = { 0 };

	(void)fd;
	(void)what;
	pl_registry_init(&now);
	r->table_ns = pl_now_ns();
	if (pl_kube_table(r->nodes, &now, &err) < 0) {
		pl_error("the nodes stay as they were: %s", err.msg);
		pl_registry_fini(&now);
		return;
	}
	if (pl_registry_equal(&was, &now)) {
		pl_registry_fini(&now);
		return;
	}
	r->now = now;
	r->fn(&was, &r->now, r->arg);
	pl_registry_fini(&was);
	save_soon(r);
	malloc_trim(0);
}

/* The first change of many waits little, the others wait for it. */
static void table_soon(struct pl_registry_kube *r)
{
	uint64_t since_ms = (pl_now_ns() - r->table_ns) / 1000000;
	uint64_t ms = since_ms < TABLE_EVERY_MS ?
			      PL_MAX(TABLE_EVERY_MS - since_ms,
				     (uint64_t)TABLE_MS) : TABLE_MS;
	struct timeval tv = { (time_t)(ms / 1000),
			      (suseconds_t)(ms % 1000 * 1000) };

	if (r->has_synced && !event_pending(r->table_timer, EV_TIMEOUT, NULL))
		event_add(r->table_timer, &tv);
}

/* --- nodes ---------------------------------------------------------------- */

static struct pl_kube_node *find(const struct pl_registry_kube *r,
				 const char *name)
{
	struct pl_kube_node *n;

	HASH_FIND_STR(r->nodes, name, n);
	return n;
}

static bool is_own(const struct pl_registry_kube *r, const char *name)
{
	return !strcmp(name, r->conf.node);
}

/* Whether it is another than before. */
static bool update(struct pl_kube_node *n, const struct pl_kube_node *from)
{
	bool same = pl_node_equal(&n->node, &from->node) &&
		    !strcmp(n->created, from->created);

	n->node = from->node;
	memcpy(n->created, from->created, sizeof(n->created));
	return !same;
}

static int add(struct pl_registry_kube *r, const struct pl_kube_node *from,
	       struct pl_err *err)
{
	struct pl_kube_node *n = malloc(sizeof(*n));

	if (!n)
		return pl_err_set(err, ENOMEM, "out of memory");
	*n = *from;
	n->seen = r->list;
	HASH_ADD_STR(r->nodes, node.name, n);
	return 0;
}

static int on_put(const cJSON *obj, void *arg, struct pl_err *err)
{
	struct pl_registry_kube *r = arg;
	struct pl_kube_node node, *n;
	int rc = pl_kube_node_parse(obj, r->conf.with_cidrs, &node, err);

	/* What has no address is kept, and left out of the table. */
	if (rc == -EINVAL) {
		pl_warn("%s", err->msg);
		return 0;
	}
	if (is_own(r, node.node.name)) {
		node.node.port = r->conf.port;
		if (rc == 0)
			pl_kube_publish_see(r->publish, obj,
					    &node.node.address);
	}
	n = find(r, node.node.name);
	if (n) {
		n->seen = r->list;
		if (update(n, &node))
			table_soon(r);
		return 0;
	}
	rc = add(r, &node, err);
	if (rc == 0)
		table_soon(r);
	return rc;
}

static void drop(struct pl_registry_kube *r, struct pl_kube_node *n)
{
	if (is_own(r, n->node.name))
		pl_kube_publish_gone(r->publish);
	HASH_DEL(r->nodes, n);
	free(n);
	table_soon(r);
}

static void on_del(const cJSON *obj, void *arg)
{
	struct pl_registry_kube *r = arg;
	struct pl_kube_node *n = find(r, pl_kube_name(obj));

	if (n)
		drop(r, n);
}

static void on_list(void *arg)
{
	struct pl_registry_kube *r = arg;

	r->list++;
}

static void on_synced(void *arg)
{
	struct pl_registry_kube *r = arg;
	struct pl_kube_node *n, *next;
	bool has_some = false;

	r->has_synced = true;
	for (n = r->nodes; n && !has_some; n = n->hh.next)
		has_some = n->seen == r->list;
	r->is_empty_list = !has_some && r->now.n;
	if (r->is_empty_list) {
		pl_warn("the API server lists no node at all; those that were "
			"known stay");
		return;
	}
	HASH_ITER(hh, r->nodes, n, next)
		if (n->seen != r->list)
			drop(r, n);
	/* Also when nothing came: the table from disk may have been another. */
	table_soon(r);
}

static const struct pl_kube_watch_ops ops = {
	.list = on_list,
	.put = on_put,
	.del = on_del,
	.synced = on_synced,
};

/* --- the whole ------------------------------------------------------------ */

static int connect_api(struct pl_registry_kube *r, struct event_base *base,
		       struct pl_err *err)
{
	struct pl_kube_conf conf;
	int rc = pl_kube_conf_find(&conf, r->conf.kubeconfig, r->conf.account,
				   err);

	if (rc < 0)
		return rc;
	if (conf.is_insecure)
		pl_warn("%s is not checked (insecure-skip-tls-verify): who is "
			"in between can read the token", conf.server);
	rc = pl_kube_create(base, &conf, &r->kube, err);
	if (rc == 0)
		rc = pl_kube_publish_create(base, r->kube, r->conf.node,
					    r->conf.carriers, r->conf.port,
					    &r->publish, err);
	if (rc == 0)
		rc = pl_kube_watch_open(base, r->kube, "/api/v1/nodes",
					"nodes", &ops, r, &r->watch, err);
	return rc;
}

int pl_registry_kube_open(struct event_base *base,
			  const struct pl_registry_kube_conf *conf,
			  pl_registry_fn *fn, void *arg,
			  struct pl_registry_kube **out, struct pl_err *err)
{
	struct pl_registry_kube *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return pl_err_set(err, ENOMEM, "out of memory");
	r->conf = *conf;
	r->fn = fn;
	r->arg = arg;
	r->table_timer = evtimer_new(base, on_table, r);
	r->save_timer = evtimer_new(base, on_save, r);
	rc = r->table_timer && r->save_timer ?
		     pl_format(r->state, sizeof(r->state), "%s/nodes.json",
			       conf->state_dir) : -ENOMEM;
	if (rc < 0)
		pl_err_set(err, -rc, "%s", strerror(-rc));
	else
		rc = connect_api(r, base, err);
	if (rc < 0) {
		pl_registry_kube_close(r);
		return rc;
	}
	load(r);
	*out = r;
	return 0;
}

void pl_registry_kube_close(struct pl_registry_kube *r)
{
	struct pl_kube_node *n, *next;

	if (!r)
		return;
	if (r->save_timer && event_pending(r->save_timer, EV_TIMEOUT, NULL))
		on_save(-1, 0, r);
	pl_kube_watch_close(r->watch);
	pl_kube_publish_destroy(r->publish);
	pl_kube_destroy(r->kube);
	HASH_ITER(hh, r->nodes, n, next) {
		HASH_DEL(r->nodes, n);
		free(n);
	}
	if (r->table_timer)
		event_free(r->table_timer);
	if (r->save_timer)
		event_free(r->save_timer);
	pl_registry_fini(&r->now);
	free(r);
}

const struct pl_registry *
pl_registry_kube_table(const struct pl_registry_kube *r)
{
	return &r->now;
}

const char *pl_registry_kube_problem(const struct pl_registry_kube *r)
{
	const char *problem = pl_kube_watch_problem(r->watch);

	if (!*problem && r->is_empty_list)
		problem = "the API server lists no node at all";
	return *problem ? problem : pl_kube_publish_problem(r->publish);
}

struct pl_kube *pl_registry_kube_client(struct pl_registry_kube *r)
{
	return r->kube;
}
