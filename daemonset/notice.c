/* daemonset/notice.c - what the cluster's operators must know of a node */
#include "daemonset/notice.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "common/json.h"
#include "common/util.h"
#include "daemonset/agent_internal.h"
#include "daemonset/install_keep.h"
#include "daemonset/kube_event.h"

#define LOOK_S 5
#define TEXT_BYTES 512

struct peer {
	UT_hash_handle hh;
	char name[PL_NODE_NAME_BYTES];
	struct pl_notice_peer seen;
	uint64_t round;			/* when it was seen last */
};

struct pl_notices {
	struct pl_agent *agent;
	struct pl_kube_events *events;
	struct event *timer;
	struct peer *peers;		/* those that were ever wanted */
	uint64_t round;
};

/* --- other nodes ---------------------------------------------------------- */

const char *pl_notice_peer(struct pl_notice_peer *p,
			   const struct pl_remote_node *n, uint64_t now_ns,
			   char text[256])
{
	bool is_down = !strncmp(n->state, "down", 4);
	bool has_verbs = !strcmp(n->carrier, "verbs");

	if (!is_down)
		p->down_ns = 0;
	else if (!p->down_ns)
		p->down_ns = now_ns;
	if (is_down) {
		if (now_ns - p->down_ns < PL_NOTICE_PEER_S * 1000000000ull)
			return NULL;
		snprintf(text, 256, "the agent of node %.100s can't be reached "
			 "(%.60s); its lanes wait. Is the node up, and its port "
			 "open?", n->name, n->state);
		return "PeerUnreachable";
	}
	if (strcmp(n->state, "up"))
		return NULL;
	if (has_verbs || !p->had_verbs) {
		p->had_verbs = has_verbs;
		return NULL;
	}
	p->had_verbs = false;
	snprintf(text, 256, "lanes to node %.100s use %.20s and no longer RDMA; "
		 "podlanectl check says more", n->name, n->carrier);
	return "FellBackToTCP";
}

static void see_peer(const struct pl_remote_node *n, void *arg)
{
	struct pl_notices *w = arg;
	char text[256];
	const char *reason;
	struct peer *p;

	if (!strcmp(n->state, "idle"))
		return;
	HASH_FIND_STR(w->peers, n->name, p);
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return;
		pl_format(p->name, sizeof(p->name), "%s", n->name);
		HASH_ADD_STR(w->peers, name, p);
	}
	p->round = w->round;
	reason = pl_notice_peer(&p->seen, n, pl_now_ns(), text);
	if (reason)
		pl_kube_event(w->events, reason, n->name, text);
}

static void look_peers(struct pl_notices *w)
{
	struct peer *p, *tmp;

	w->round++;
	if (w->agent->remote)
		pl_remote_nodes(w->agent->remote, see_peer, w);
	HASH_ITER(hh, w->peers, p, tmp) {
		if (p->round == w->round)
			continue;
		HASH_DEL(w->peers, p);
		free(p);
	}
}

/* --- addresses ------------------------------------------------------------ */

/* As the plugin is going to see it: one plugin's part with the list's name. */
static cJSON *ipam_conf(const struct pl_agent *a)
{
	pl_auto_json *list = NULL;
	pl_auto_free char *text = NULL;
	char source[NAME_MAX + 1];
	cJSON *p;

	if (pl_conflist_make(&a->args->conf.cni,
			     pl_registry_by_name(pl_agent_registry(a),
						 a->args->node),
			     a->args->run_dir, &text, source, NULL) < 0)
		return NULL;
	list = cJSON_Parse(text);
	p = cJSON_DetachItemFromArray(
		cJSON_GetObjectItemCaseSensitive(list, "plugins"), 0);
	cJSON_AddStringToObject(p, "name", a->args->conf.cni.network);
	return p;
}

int pl_notice_addresses(const struct pl_agent *a,
			struct pl_ipam_usage out[PL_IPAM_MAX_RANGES])
{
	pl_auto_free struct pl_ipam_config *cfg = NULL;
	pl_auto_json *conf = NULL;

	if (a->args->conf.cni.mode != PL_CNI_STANDALONE)
		return 0;
	cfg = calloc(1, sizeof(*cfg));
	conf = ipam_conf(a);
	if (!cfg || !conf || pl_ipam_config_parse(conf, NULL, cfg, NULL) < 0 ||
	    pl_ipam_usage(cfg, out, NULL) < 0)
		return 0;
	return (int)cfg->n_ranges;
}

static void look_addresses(struct pl_notices *w)
{
	struct pl_ipam_usage u[PL_IPAM_MAX_RANGES];
	int n = pl_notice_addresses(w->agent, u);
	char text[TEXT_BYTES], subnet[PL_PREFIX_STRLEN];

	for (int i = 0; i < n; i++) {
		if (u[i].used < u[i].total)
			continue;
		snprintf(text, sizeof(text), "all %llu pod addresses of %s are "
			 "taken, new pods can't start here; podlanectl ipam "
			 "check finds those that no pod has",
			 (unsigned long long)u[i].total,
			 pl_prefix_str(&u[i].subnet, subnet));
		pl_kube_event(w->events, "AddressesExhausted", subnet, text);
	}
}

/* --- configurations ------------------------------------------------------- */

static void look_shadow(struct pl_notices *w)
{
	const struct pl_install_conf *c = &w->agent->args->conf.cni;
	const char *name = pl_keeper_shadow(w->agent->keeper);
	char text[TEXT_BYTES];

	if (!*name)
		return;
	snprintf(text, sizeof(text), "%.200s/%.100s sorts before %.100s, so "
		 "runtimes use that one and pods get no lanes; remove it, or "
		 "set cni.file to a name before it", c->conf_dir, name,
		 c->file);
	pl_kube_event(w->events, "Shadowed", name, text);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	const struct timeval tv = { .tv_sec = LOOK_S };
	struct pl_notices *w = arg;

	(void)fd;
	(void)what;
	look_shadow(w);
	look_addresses(w);
	look_peers(w);
	event_add(w->timer, &tv);
}

int pl_notices_create(struct pl_agent *a, struct pl_notices **out,
		      struct pl_err *err)
{
	struct pl_notices *w = calloc(1, sizeof(*w));
	int rc;

	if (!w)
		return pl_err_set(err, ENOMEM, "out of memory");
	*out = w;
	w->agent = a;
	w->timer = evtimer_new(a->base, on_timer, w);
	if (!w->timer)
		return pl_err_set(err, ENOMEM, "out of memory");
	rc = pl_kube_events_create(a->base,
				   pl_registry_source_kube(a->registry),
				   a->args->node, a->args->conf.event_s,
				   &w->events, err);
	if (rc == 0)
		on_timer(-1, 0, w);
	return rc;
}

void pl_notices_destroy(struct pl_notices *w)
{
	struct peer *p, *tmp;

	if (!w)
		return;
	HASH_ITER(hh, w->peers, p, tmp) {
		HASH_DEL(w->peers, p);
		free(p);
	}
	pl_kube_events_destroy(w->events);
	if (w->timer)
		event_free(w->timer);
	free(w);
}
