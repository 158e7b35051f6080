/*
 * daemonset/remote_node.c - other nodes: up, down, lost; messages to them
 *
 * A node is made when a pod here wants something of it or when it connects, and
 * stays. Down is a state in which lanes and replicas wait for the connection to
 * come back; when the node comes back with another agent (instance), they wait
 * for their pods to show them to that (remote_resume.c). What waits for longer
 * than resume_ms ends.
 */
#include "daemonset/remote_internal.h"

#include <errno.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"

#define BACKLOG_RETRY_MS 5
#define COMPLAINTS 10
#define COMPLAINTS_NS UINT64_C(60000000000)

/* --- helpers for messages ------------------------------------------------ */

void pl_rtimer(struct event *ev, int ms)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };

	event_add(ev, &tv);
}

struct pl_peer_hdr pl_peer_head(enum pl_peer_type type, size_t len,
				uint64_t no, uint32_t flags)
{
	struct pl_peer_hdr h = { .magic = PL_PEER_MAGIC,
				 .version = PL_PEER_VERSION,
				 .type = (uint16_t)type,
				 .len = (uint32_t)len,
				 .flags = flags,
				 .no = no };

	return h;
}

void pl_peer_text(char out[PL_PEER_TEXT], const char *in)
{
	size_t n = strnlen(in, PL_PEER_TEXT - 1);

	for (size_t i = 0; i < n; i++)
		out[i] = in[i] >= ' ' && in[i] <= '~' ? in[i] : '?';
	out[n] = '\0';
}

void pl_peer_addr_make(struct pl_peer_addr *out, const struct pl_addr *a)
{
	memset(out, 0, sizeof(*out));
	out->family = a->family == AF_INET ? 4 : a->family == AF_INET6 ? 6 : 0;
	memcpy(out->bytes, a->bytes, sizeof(out->bytes));
}

int pl_peer_addr_take(const struct pl_peer_addr *in, struct pl_addr *out)
{
	memset(out, 0, sizeof(*out));
	if (in->family != 4 && in->family != 6)
		return -EINVAL;
	out->family = in->family == 4 ? AF_INET : AF_INET6;
	memcpy(out->bytes, in->bytes, in->family == 4 ? 4 : 16);
	return 0;
}

int pl_peer_name_make(char *out, size_t size, const char *in)
{
	size_t n = strlen(in);

	if (n >= size)
		return -EINVAL;
	memset(out, 0, size);
	memcpy(out, in, n);
	return 0;
}

bool pl_peer_name_ok(const char *name, size_t size, bool may_be_empty)
{
	size_t n = strnlen(name, size);

	if (n == size || (n == 0 && !may_be_empty))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (name[i] <= ' ' || name[i] > '~')
			return false;
	}
	return true;
}

void pl_peer_refuse_send(struct pl_rnode *n, enum pl_peer_type type,
			 uint64_t no, int code, const char *text)
{
	struct pl_peer_refuse m = {
		.h = pl_peer_head(type, sizeof(m), no, 0),
		.code = code < 0 ? -code : code,
	};

	pl_peer_text(m.text, text);
	pl_rnode_send(n, &m, sizeof(m), 0);
}

/* --- messages ------------------------------------------------------------ */

static void backlog_drop(struct pl_rnode *n)
{
	struct pl_rmsg *m, *tmp;

	LL_FOREACH_SAFE(n->backlog, m, tmp)
		free(m);
	n->backlog = NULL;
	event_del(n->ev_backlog);
}

static void backlog_add(struct pl_rnode *n, const void *msg, size_t len,
			uint64_t after)
{
	struct pl_rmsg *m = malloc(sizeof(*m) + len);

	if (!m) {
		pl_error("node=%s: out of memory, a message is lost", n->name);
		return;
	}
	m->after = after;
	m->len = len;
	memcpy(m->data, msg, len);
	LL_APPEND(n->backlog, m);
	pl_rtimer(n->ev_backlog, BACKLOG_RETRY_MS);
}

static void backlog_cb(evutil_socket_t fd, short what, void *arg)
{
	struct pl_rnode *n = arg;
	struct pl_rmsg *m;

	(void)fd;
	(void)what;
	while ((m = n->backlog)) {
		int rc = pl_carrier_message(n->peer, m->data, m->len, m->after);

		if (rc == -ENOBUFS || rc == -ENOMEM) {
			pl_rtimer(n->ev_backlog, BACKLOG_RETRY_MS);
			return;
		}
		LL_DELETE(n->backlog, m);
		free(m);
	}
}

void pl_rnode_send(struct pl_rnode *n, const void *msg, size_t len,
		   uint64_t after)
{
	int rc;

	if (!n->is_up)
		return;
	rc = n->backlog ? -ENOBUFS :
			  pl_carrier_message(n->peer, msg, len, after);
	if (rc == -ENOBUFS || rc == -ENOMEM)
		backlog_add(n, msg, len, after);
	else if (rc < 0)
		pl_error("node=%s: a message can't be sent: %s", n->name,
			 strerror(-rc));
}

/* --- what a node may not ------------------------------------------------- */

int pl_rnode_speaks_for(const struct pl_rnode *n, const struct pl_addr *pod,
			struct pl_err *err)
{
	const struct pl_node *at = pl_registry_by_pod(n->r->registry, pod);
	char buf[INET6_ADDRSTRLEN];

	if (!at || !strcmp(at->name, n->name))
		return 0;
	return pl_err_set(err, EACCES, "%s is an address of node %s, not of %s",
			  pl_addr_str(pod, buf), at->name, n->name);
}

void pl_rnode_complain(struct pl_rnode *n, const struct pl_peer_addr *pod,
		       const char *text)
{
	char buf[INET6_ADDRSTRLEN] = "?";
	uint64_t now = pl_now_ns();
	struct pl_addr a;

	if (now - n->log_window_ns > COMPLAINTS_NS) {
		n->log_window_ns = now;
		n->log_count = 0;
	}
	if (++n->log_count > COMPLAINTS)
		return;
	if (pl_peer_addr_take(pod, &a) == 0)
		pl_addr_str(&a, buf);
	pl_warn("node=%s pod=%s: refused: %s%s", n->name, buf, text,
		n->log_count == COMPLAINTS ? " (more of these in the next "
					     "minute are not shown)" : "");
}

/* --- nodes --------------------------------------------------------------- */

/* Ends what waits for too long; returns how long the rest may, at least. */
static uint64_t expire(struct pl_rnode *n)
{
	uint64_t now = pl_now_ns(), least = pl_rread_expire(n, now);
	struct pl_rlane *l, *tmp;
	unsigned int ended = 0;

	HASH_ITER(hh, n->lanes, l, tmp) {
		uint64_t left = pl_rlane_left_ns(l, now);

		if (left == 0) {
			pl_rlane_over(l);
			ended++;
		} else {
			least = PL_MIN(least, left);
		}
	}
	if (ended)
		pl_warn("node=%s: %u lanes end, nobody went on with them",
			n->name, ended);
	return least;
}

static void watch_cb(evutil_socket_t fd, short what, void *arg)
{
	struct pl_rnode *n = arg;
	uint64_t least;

	(void)fd;
	(void)what;
	least = expire(n);
	if (least != UINT64_MAX)
		pl_rtimer(n->ev_watch, (int)(least / 1000000 + 1));
}

void pl_rnode_watch(struct pl_rnode *n)
{
	if (!event_pending(n->ev_watch, EV_TIMEOUT, 0))
		event_active(n->ev_watch, EV_TIMEOUT, 0);
}

struct pl_rnode *pl_rnode_get(struct pl_remote *r, const char *name)
{
	struct pl_rnode *n;

	HASH_FIND_STR(r->nodes, name, n);
	if (n)
		return n;
	n = calloc(1, sizeof(*n));
	if (!n)
		return NULL;
	n->r = r;
	memcpy(n->name, name, strnlen(name, sizeof(n->name) - 1));
	n->ev_watch = event_new(r->base, -1, 0, watch_cb, n);
	n->ev_backlog = event_new(r->base, -1, 0, backlog_cb, n);
	if (!n->ev_watch || !n->ev_backlog) {
		if (n->ev_watch)
			event_free(n->ev_watch);
		free(n);
		return NULL;
	}
	HASH_ADD_STR(r->nodes, name, n);
	return n;
}

int pl_rnode_want(struct pl_rnode *n, struct pl_err *err)
{
	const struct pl_node *at =
		pl_registry_by_name(n->r->registry, n->name);
	struct pl_carrier_peer *p;

	if (!n->r->carrier)
		return pl_err_set(err, EHOSTUNREACH, "this node (%s) is not in "
				  "the node registry, so it can't reach %s",
				  n->r->node, n->name);
	if (!at)
		return pl_err_set(err, EHOSTUNREACH, "node %s is not in the "
				  "node registry", n->name);
	p = pl_carrier_peer_get(n->r->carrier, n->name, &at->address,
				at->port);
	if (!p)
		return pl_err_set(err, ENOMEM, "out of memory");
	n->peer = p;
	p->user = n;
	return 0;
}

int pl_rnode_reach(struct pl_remote *r, const char *name, struct pl_rnode **n,
		   struct pl_err *err)
{
	*n = pl_rnode_get(r, name);
	return *n ? pl_rnode_want(*n, err) :
		    pl_err_set(err, ENOMEM, "out of memory");
}

void pl_rnode_up(struct pl_rnode *n, struct pl_carrier_peer *peer)
{
	struct pl_rlane *l, *tmp;

	if (n->instance && n->instance != peer->instance) {
		pl_info("node=%s: its agent was started anew", n->name);
		HASH_ITER(hh, n->lanes, l, tmp)
			pl_rlane_restarted(l);
	}
	n->peer = peer;
	n->instance = peer->instance;
	n->is_up = true;
	n->reason = 0;
	HASH_ITER(hh, n->lanes, l, tmp)
		pl_rlane_up(l);
	pl_rread_up(n);
	pl_rfind_up(n);
	/* Closing lanes wait less for it now. */
	event_del(n->ev_watch);
	pl_rnode_watch(n);
}

void pl_rnode_down(struct pl_rnode *n, int reason)
{
	struct pl_rlane *l, *tmp;

	n->is_up = false;
	n->reason = reason;
	backlog_drop(n);
	pl_rown_down(n);
	pl_rread_down(n);
	HASH_ITER(hh, n->lanes, l, tmp)
		pl_rlane_down(l);
	if (!n->lanes && !n->reps && !n->finds)
		return;
	/* Whoever connected first: its agent may have forgotten us. */
	pl_rnode_want(n, NULL);
	pl_rnode_watch(n);
}

void pl_rnode_free(struct pl_rnode *n)
{
	struct pl_rlane *l, *tmp;

	n->is_up = false;
	pl_rown_down(n);
	pl_rread_down(n);
	pl_rread_lost(n);
	HASH_ITER(hh, n->lanes, l, tmp)
		pl_rlane_lost(l);
	backlog_drop(n);
	if (n->peer)
		pl_carrier_peer_forget(n->peer);
	HASH_DEL(n->r->nodes, n);
	event_free(n->ev_watch);
	event_free(n->ev_backlog);
	free(n);
}
