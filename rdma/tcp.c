/*
 * rdma/tcp.c - the tcp carrier: puts as frames over TCP connections
 *
 * Theory of operation
 *
 * Two nodes are connected by a *set* of a few TCP connections (two, unless
 * configured). Messages go over the first; a key goes over connection key mod
 * number, all of it, so order within a key is the order of a TCP stream. Keys
 * are random, but their low bits count up, so that a peer's keys spread evenly.
 *
 * Sending (tcp_send.c). Each key has a queue of puts. Those connections' queues
 * that have something take turns of PL_TCP_QUANTUM bytes; a large put is cut
 * into frames of at most PL_TCP_FRAME_MAX bytes. So a key with megabytes
 * waiting delays the others by a frame each, not by its backlog. Large frames
 * go by sendfile from the source's memory file, which copies nothing on this
 * node; small ones are gathered by sendmsg from where the bytes are. The kernel
 * is kept from queueing much by TCP_NOTSENT_LOWAT, as what it holds has left
 * our turns. Puts of one turn of the event loop go out together.
 *
 * Receiving (tcp_recv.c). A receive takes the rest of the present put straight
 * to its place and what comes behind it to a small staging buffer, so that a
 * large frame costs one copy (the kernel's) and small frames share a system
 * call. While most of a large frame is missing, SO_RCVLOWAT keeps us asleep.
 * Puts of words (see carrier.h) are collected first and then stored as 64-bit
 * words with release order.
 *
 * Making a set (tcp_set.c). The dialer opens connection 0 and says HELLO with
 * the set's random number; when that is welcomed, it opens the others. The set
 * is up for the acceptor when all HELLOs are there and for the dialer when all
 * WELCOMEs are. Nothing of a set is read before it is up.
 *
 * Both nodes may dial at once. A node has one set with a peer at a time, and an
 * incoming HELLO finds it
 *   idle, or dialing without having said HELLO: accept;
 *   dialing, HELLO said: the set of the node whose name is lower stays. Both
 *     sides decide the same way, whatever crosses on the way;
 *   accepting: the newer one, as a dialer has one attempt at a time;
 *   up: refuse with EALREADY and the number of the set in the way. When the
 *     dialer knows that set, its HELLO was merely late. When it lost it, it
 *     dials again with that number as `stale`, and the set in the way is ended.
 *     A new instance (the peer's agent was restarted) ends it at once.
 *
 * A set ends as a whole: when one connection breaks, is silent for too long
 * (keep-alive, TCP_USER_TIMEOUT) or breaks the protocol. What was queued is
 * dropped, and the owner decides what to put again. The next attempt follows
 * after some milliseconds, later ones with growing, jittered delays.
 *
 * Trust. Who connects from an address of no node is turned away unread. With
 * security a handshake of TLS (tcp_stream.c, tls.h) comes before HELLO, on each
 * connection and for both sides; a certificate must be that of the node which
 * HELLO names, or which was dialed. A pre-shared key is the same at all nodes:
 * a node that is sent its own messages finds its own name in HELLO. Then the
 * owner admits by name and address. Still every field is checked: frames must
 * name a key that was given to this very peer and stay within its memory.
 *
 * Lifetime. Connections and peers that end while their own callbacks are on the
 * stack are freed by the next turn of the loop.
 */
#include "rdma/tcp.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/log.h"
#include "common/util.h"

uint64_t pl_tcp_random(void)
{
	uint64_t v;

	/* Up to 256 bytes come whole once the kernel's pool is ready. */
	while (getrandom(&v, sizeof(v), 0) != (ssize_t)sizeof(v))
		;
	return v;
}

bool pl_tcp_name_ok(const char *name, size_t size)
{
	size_t n = strnlen(name, size);

	if (n == 0 || n == size)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (name[i] <= ' ' || name[i] > '~')
			return false;
	}
	return true;
}

static void peer_free(struct pl_tcp_peer *p)
{
	if (p->ev_timer)
		event_free(p->ev_timer);
	free(p);
}

struct pl_tcp_peer *pl_tcp_peer_new(struct pl_tcp_carrier *t, const char *node)
{
	struct pl_tcp_peer *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->base.carrier = &t->base;
	p->t = t;
	memcpy(p->base.node, node, strlen(node));
	p->ev_timer = event_new(t->loop, -1, 0, pl_tcp_set_timer_cb, p);
	if (p->ev_timer)
		HASH_ADD_STR(t->peers, base.node, p);
	if (!p->ev_timer || !p->hh.tbl) {
		peer_free(p);
		return NULL;
	}
	return p;
}

static struct pl_carrier_peer *tcp_peer_get(struct pl_carrier *c,
					    const char *node,
					    const struct pl_addr *addr,
					    uint16_t port)
{
	struct pl_tcp_carrier *t = (struct pl_tcp_carrier *)c;
	struct pl_tcp_peer *p;

	if (!pl_tcp_name_ok(node, PL_TCP_NODE) || !strcmp(node, t->node))
		return NULL;
	HASH_FIND_STR(t->peers, node, p);
	if (!p)
		p = pl_tcp_peer_new(t, node);
	if (!p)
		return NULL;
	p->addr = *addr;
	p->port = port;
	if (!p->wanted && p->state == PL_TCP_SET_NONE)
		event_active(p->ev_timer, EV_TIMEOUT, 0);
	p->wanted = true;
	return &p->base;
}

static void tcp_peer_forget(struct pl_carrier_peer *base)
{
	struct pl_tcp_peer *p = pl_tcp_peer_of(base);
	struct pl_tcp_source *s, *tmp;

	HASH_DEL(p->t->peers, p);
	p->forgotten = true;
	pl_tcp_set_end(p, -ECANCELED);
	event_del(p->ev_timer);
	pl_tcp_recv_free(p);
	HASH_ITER(hh, p->sources, s, tmp) {
		HASH_DEL(p->sources, s);
		free(s);
	}
	LL_PREPEND(p->t->forgotten, p);
	event_active(p->t->ev_reap, EV_TIMEOUT, 0);
}

static void reap(struct pl_tcp_carrier *t)
{
	struct pl_tcp_conn *c, *ctmp;
	struct pl_tcp_peer *p, *ptmp;

	DL_FOREACH_SAFE(t->closed, c, ctmp) {
		DL_DELETE(t->closed, c);
		pl_tcp_conn_free(c);
	}
	LL_FOREACH_SAFE(t->forgotten, p, ptmp) {
		LL_DELETE(t->forgotten, p);
		peer_free(p);
	}
}

static void reap_cb(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	reap(arg);
}

static void tcp_destroy(struct pl_carrier *base)
{
	struct pl_tcp_carrier *t = (struct pl_tcp_carrier *)base;
	struct event *ev[] = { t->ev_listen, t->ev_resume, t->ev_reap };
	struct pl_tcp_peer *p, *tmp;

	HASH_ITER(hh, t->peers, p, tmp) {
		struct pl_tcp_queue *q, *qtmp;
		struct pl_tcp_op *op;

		HASH_ITER(hh, p->queues, q, qtmp) {
			DL_FOREACH(q->ops, op)
				op->done = NULL;
		}
		tcp_peer_forget(&p->base);
	}
	while (t->pending)
		pl_tcp_conn_close(t->pending);
	reap(t);
	pl_tcp_send_free(t);
	for (size_t i = 0; i < PL_ARRAY_SIZE(ev); i++) {
		if (ev[i])
			event_free(ev[i]);
	}
	pl_close_fd(&t->listen_fd);
	pl_tls_keys_close(t->keys);
	free(t);
}

/* What lanes are shown to use, and the keys, if there are any. */
static int secure(struct pl_tcp_carrier *t, struct pl_err *err)
{
	switch (t->security.kind) {
	case PL_SECURITY_UNSET:
		break;
	case PL_SECURITY_NONE:
		t->base.path = "tcp";
		return 0;
	case PL_SECURITY_PSK:
	case PL_SECURITY_TLS:
		t->base.path = t->security.plain ? "tcp+auth" : "tcp+tls";
		return pl_tls_keys_open(&t->security, t->node, &t->keys, err);
	}
	return pl_err_set(err, EINVAL, "how agents are to know each other is "
			  "not said");
}

static int start(struct pl_tcp_carrier *t, uint16_t port,
		 const char *congestion, struct pl_err *err)
{
	int rc = pl_tcp_congestion_find(congestion, t->base.congestion, err);

	if (rc == 0)
		rc = secure(t, err);
	if (rc == 0)
		rc = pl_tcp_listen(t, port, err);
	if (rc < 0)
		return rc;
	t->ev_listen = event_new(t->loop, t->listen_fd, EV_READ | EV_PERSIST,
				 pl_tcp_accept_cb, t);
	t->ev_resume = event_new(t->loop, -1, 0, pl_tcp_resume_cb, t);
	t->ev_reap = event_new(t->loop, -1, 0, reap_cb, t);
	if (!t->ev_listen || !t->ev_resume || !t->ev_reap ||
	    event_add(t->ev_listen, NULL) < 0)
		return pl_err_set(err, ENOMEM, "out of memory");
	return 0;
}

static int tcp_create(const struct pl_carrier_config *cfg,
		      struct pl_carrier **out, struct pl_err *err)
{
	struct pl_tcp_carrier *t;
	int rc;

	if (!pl_tcp_name_ok(cfg->node, PL_TCP_NODE))
		return pl_err_set(err, EINVAL, "node name \"%.80s\": use 1 to "
				  "255 printable characters", cfg->node);
	if (cfg->connections < 0 ||
	    cfg->connections > PL_CARRIER_CONNECTIONS_MAX)
		return pl_err_set(err, EINVAL, "%d connections per pair of "
				  "nodes: 1 to %d are possible",
				  cfg->connections, PL_CARRIER_CONNECTIONS_MAX);
	t = calloc(1, sizeof(*t));
	if (!t)
		return pl_err_set(err, ENOMEM, "out of memory");
	/* sendfile has no MSG_NOSIGNAL. */
	signal(SIGPIPE, SIG_IGN);
	t->base.ops = &pl_carrier_tcp;
	memcpy(t->node, cfg->node, strlen(cfg->node));
	t->addr = cfg->listen_addr;
	t->conns = cfg->connections ? (unsigned int)cfg->connections :
				      PL_TCP_CONNS_DEFAULT;
	t->dead_ms = cfg->dead_ms > 0 ? cfg->dead_ms : PL_TCP_DEAD_MS_DEFAULT;
	t->instance = pl_tcp_random();
	t->security = cfg->security;
	t->loop = cfg->base;
	t->cb = cfg->cb;
	t->arg = cfg->arg;
	t->listen_fd = -1;
	rc = start(t, cfg->port, cfg->congestion, err);
	if (rc < 0) {
		tcp_destroy(&t->base);
		return rc;
	}
	*out = &t->base;
	return 0;
}

static size_t tcp_queued(const struct pl_carrier_peer *p)
{
	return pl_tcp_peer_of(p)->queued;
}

static void tcp_stats(const struct pl_carrier_peer *p,
		      struct pl_carrier_stats *st)
{
	*st = pl_tcp_peer_of(p)->stats;
}

const struct pl_carrier_ops pl_carrier_tcp = {
	.name = "tcp",
	.create = tcp_create,
	.destroy = tcp_destroy,
	.peer_get = tcp_peer_get,
	.peer_forget = tcp_peer_forget,
	.expose = pl_tcp_expose,
	.extend = pl_tcp_extend,
	.revoke = pl_tcp_revoke,
	.source = pl_tcp_source,
	.source_end = pl_tcp_source_end,
	.put = pl_tcp_put,
	.message = pl_tcp_message,
	.refresh = pl_tcp_keys_refresh,
	.queued = tcp_queued,
	.stats = tcp_stats,
};
