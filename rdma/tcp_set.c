/*
 * rdma/tcp_set.c - sets of connections of the tcp carrier
 *
 * Dialing, introductions, the choice when both sides dial, loss and retry:
 * see the theory in tcp.c. A peer is in one of four states (enum pl_tcp_set);
 * its timer is the retry delay in NONE, the limit of the handshake in DIALING
 * and ACCEPTING, and off in UP.
 */
#include "rdma/tcp.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"
#include "common/util.h"

static void timer_set(struct pl_tcp_peer *p, unsigned int ms)
{
	struct timeval tv = { ms / 1000, (ms % 1000) * 1000 };

	event_add(p->ev_timer, &tv);
}

/* ms, a quarter more or less: nodes that lost each other do not march. */
static unsigned int jitter(unsigned int ms)
{
	return ms - ms / 4 + (unsigned int)(pl_tcp_random() % (ms / 2 + 1));
}

static unsigned int retry_ms(const struct pl_tcp_peer *p)
{
	unsigned int shift = PL_MIN(p->attempts, 10u);

	return jitter(PL_MIN((unsigned int)PL_TCP_RETRY_FIRST_MS << shift,
			     (unsigned int)PL_TCP_RETRY_MAX_MS));
}

/* Back to NONE, without a word to the owner. */
static void set_clear(struct pl_tcp_peer *p)
{
	for (unsigned int i = 0; i < PL_CARRIER_CONNECTIONS_MAX; i++) {
		if (p->conn[i])
			pl_tcp_conn_close(p->conn[i]);
		p->conn[i] = NULL;
	}
	p->state = PL_TCP_SET_NONE;
	p->set = 0;
	p->ready = 0;
	event_del(p->ev_timer);
}

void pl_tcp_set_why(struct pl_tcp_peer *p, const char *text)
{
	snprintf(p->why, sizeof(p->why), "%s", text);
}

/* Logged when it is news, called back once. */
static void lost_tell(struct pl_tcp_peer *p, bool was_up, int reason)
{
	bool first = was_up || (p->wanted && !p->told);

	if (p->forgotten)
		return;
	pl_log(first || (p->wanted && p->told_reason != reason) ?
		       PL_LOG_WARN : PL_LOG_DEBUG,
	       "carrier: %s node=%s: %s", was_up ? "lost" : "cannot reach",
	       p->base.node, p->why[0] ? p->why : strerror(-reason));
	p->why[0] = '\0';
	p->told_reason = reason;
	if (!first)
		return;
	p->told = true;
	if (p->t->cb.down)
		p->t->cb.down(p->t->arg, &p->base, reason);
}

void pl_tcp_set_end(struct pl_tcp_peer *p, int reason)
{
	bool was_up = p->state == PL_TCP_SET_UP;

	set_clear(p);
	p->base.is_up = false;
	p->base.reason = reason;
	if (reason != -ECONNRESET || was_up)
		p->silent = 0;
	pl_tcp_send_drop(p, p->forgotten ? -ECANCELED : reason);
	p->attempts = was_up && reason != -EPROTO ? 0 : p->attempts + 1;
	if (p->wanted && !p->forgotten)
		timer_set(p, retry_ms(p));
	lost_tell(p, was_up, reason);
}

static void set_up(struct pl_tcp_peer *p)
{
	event_del(p->ev_timer);
	p->state = PL_TCP_SET_UP;
	p->base.is_up = true;
	p->base.reason = p->told_reason = 0;
	p->why[0] = '\0';
	p->base.instance = p->set_instance;
	p->attempts = p->silent = 0;
	p->stale = 0;
	p->told = false;
	for (unsigned int i = 0; i < p->count; i++) {
		p->conn[i]->phase = PL_TCP_UP;
		event_add(p->conn[i]->ev_read, NULL);
	}
	pl_info("carrier: connected node=%s connections=%u path=%s",
		p->base.node, p->count, p->t->base.path);
	if (p->t->cb.up)
		p->t->cb.up(p->t->arg, &p->base);
}

/* --- the side that dials ------------------------------------------------- */

/* Returns 0, or -errno with the set not ended. */
static int dial_one(struct pl_tcp_peer *p, unsigned int index)
{
	int fd = pl_tcp_conn_dial(p);
	struct pl_tcp_conn *c;

	if (fd < 0)
		return fd;
	c = pl_tcp_conn_new(p->t, fd);
	if (!c)
		return -ENOMEM;
	c->phase = PL_TCP_CONNECTING;
	c->peer = p;
	c->index = index;
	p->conn[index] = c;
	event_add(c->ev_write, NULL);
	return 0;
}

void pl_tcp_set_dial(struct pl_tcp_peer *p)
{
	int rc;

	p->state = PL_TCP_SET_DIALING;
	p->set = pl_tcp_random() | 1;
	p->count = p->t->conns;
	timer_set(p, PL_TCP_HANDSHAKE_MS);
	rc = dial_one(p, 0);
	if (rc < 0)
		pl_tcp_set_end(p, rc);
}

void pl_tcp_set_timer_cb(evutil_socket_t fd, short what, void *arg)
{
	struct pl_tcp_peer *p = arg;

	(void)fd;
	(void)what;
	if (p->forgotten || p->state == PL_TCP_SET_UP)
		return;
	if (p->state != PL_TCP_SET_NONE)
		pl_tcp_set_end(p, -ETIMEDOUT);
	else if (p->wanted)
		pl_tcp_set_dial(p);
}

static uint32_t hello_flags(const struct pl_tcp_carrier *t)
{
	return t->keys && t->security.plain ? PL_TCP_AUTH_ONLY : 0;
}

static void hello_say(struct pl_tcp_conn *c)
{
	struct pl_tcp_peer *p = c->peer;
	struct pl_tcp_hello h = {
		.magic = PL_TCP_MAGIC,
		.version = PL_TCP_VERSION,
		.len = sizeof(h),
		.instance = c->t->instance,
		.set = p->set,
		.stale = p->stale,
		.index = (uint16_t)c->index,
		.count = (uint16_t)p->count,
		.flags = hello_flags(c->t),
	};

	memcpy(h.node, c->t->node, sizeof(h.node));
	memcpy(h.to, p->base.node, sizeof(h.to));
	/* An empty socket takes so little as a whole. */
	if (pl_tcp_stream_say(c, &h, sizeof(h)) < 0)
		pl_tcp_set_end(p, -ECONNRESET);
	else
		c->phase = PL_TCP_WELCOME;
}

void pl_tcp_set_connected(struct pl_tcp_conn *c)
{
	struct pl_tcp_peer *p = c->peer;
	int e = 0;
	socklen_t len = sizeof(e);

	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &e, &len) < 0)
		e = errno;
	if (e) {
		pl_tcp_set_end(p, -e);
		return;
	}
	if (pl_tcp_stream_secure(c) < 0) {
		pl_tcp_set_end(p, -ENOMEM);
		return;
	}
	event_add(c->ev_read, NULL);
	if (!c->tls) {
		hello_say(c);
		return;
	}
	c->phase = PL_TCP_SECURING;
	pl_tcp_set_intro(c);
}

static void refused(struct pl_tcp_peer *p, const struct pl_tcp_welcome *w)
{
	if (w->status != EALREADY) {
		if (w->status == EPROTONOSUPPORT)
			pl_tcp_set_why(p, "carrier.encrypt is not the same "
				       "there");
		pl_tcp_set_end(p, w->status > 0 && w->status < 4096 ?
					  -w->status : -EPROTO);
		return;
	}
	/* Theirs is coming, or is one that we lost: see the theory. */
	set_clear(p);
	p->stale = w->set;
	timer_set(p, jitter(PL_TCP_RETRY_FIRST_MS * 3));
}

static void welcomed(struct pl_tcp_conn *c)
{
	const struct pl_tcp_welcome *w = &c->intro.welcome;
	struct pl_tcp_peer *p = c->peer;
	int rc = 0;

	if (w->magic != PL_TCP_MAGIC || w->version != PL_TCP_VERSION ||
	    w->len != sizeof(*w) || (w->status == 0 && w->set != p->set)) {
		pl_tcp_set_end(p, -EPROTONOSUPPORT);
		return;
	}
	if (w->status) {
		refused(p, w);
		return;
	}
	if (c->index && w->instance != p->set_instance) {
		pl_tcp_set_end(p, -ESTALE);
		return;
	}
	rc = pl_tcp_stream_introduced(c);
	if (rc < 0) {
		pl_tcp_set_end(p, rc);
		return;
	}
	p->set_instance = w->instance;
	event_del(c->ev_read);
	c->phase = PL_TCP_READY;
	for (unsigned int i = 1; c->index == 0 && rc == 0 && i < p->count; i++)
		rc = dial_one(p, i);
	if (rc < 0)
		pl_tcp_set_end(p, rc);
	else if (++p->ready == p->count)
		set_up(p);
}

/* --- the side that accepts ----------------------------------------------- */

/*
 * Closing a socket with bytes that nobody has read makes the peer's kernel
 * throw away what was said to it last: the alert, or the refusal. So the peer
 * goes first, within the time that it had for HELLO.
 */
static void pending_end(struct pl_tcp_conn *c)
{
	c->phase = PL_TCP_ENDING;
	c->intro_have = 0;
	if (shutdown(c->fd, SHUT_WR) < 0)
		pl_tcp_conn_close(c);
}

static void ending(struct pl_tcp_conn *c)
{
	char buf[4096];
	ssize_t n = recv(c->fd, buf, sizeof(buf), 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	c->intro_have += n > 0 ? (size_t)n : 0;
	if (n <= 0 || c->intro_have > PL_TCP_ENDING_BYTES)
		pl_tcp_conn_close(c);
}

static int welcome_send(struct pl_tcp_conn *c, int status, uint64_t set)
{
	struct pl_tcp_welcome w = {
		.magic = PL_TCP_MAGIC,
		.version = PL_TCP_VERSION,
		.len = sizeof(w),
		.status = status,
		.instance = c->t->instance,
		.set = set,
	};

	return pl_tcp_stream_say(c, &w, sizeof(w));
}

static void refuse(struct pl_tcp_conn *c, int status, uint64_t set,
		   const char *text)
{
	if (status != EALREADY && status != ESTALE)
		pl_tcp_complain(c->t, status == EPROTO ? "?" :
				c->intro.hello.node, &c->from,
				text ? text : strerror(status));
	/* Whether it arrives or not, the connection ends here. */
	(void)welcome_send(c, status, set);
	pending_end(c);
}

static bool hello_ok(const struct pl_tcp_hello *h)
{
	return h->magic == PL_TCP_MAGIC && h->version == PL_TCP_VERSION &&
	       h->len == sizeof(*h) && h->set && h->instance && h->count &&
	       h->count <= PL_CARRIER_CONNECTIONS_MAX && h->index < h->count &&
	       !(h->flags & ~PL_TCP_AUTH_ONLY) &&
	       pl_tcp_name_ok(h->node, sizeof(h->node)) &&
	       pl_tcp_name_ok(h->to, sizeof(h->to));
}

static bool admitted(struct pl_tcp_conn *c, const char *node, bool known)
{
	if (!strcmp(node, c->t->node) ||
	    strcmp(c->intro.hello.to, c->t->node))
		return false;
	if (!c->t->cb.admit)
		return known;
	return c->t->cb.admit(c->t->arg, node, &c->from);
}

/* The connection becomes number h->index of the peer's set. */
static void attach(struct pl_tcp_conn *c, struct pl_tcp_peer *p)
{
	/* Without this a persistent event would keep the time for HELLO. */
	event_remove_timer(c->ev_read);
	event_del(c->ev_read);
	DL_DELETE(c->t->pending, c);
	c->t->n_pending--;
	c->peer = p;
	c->index = c->intro.hello.index;
	c->phase = PL_TCP_READY;
	p->conn[c->index] = c;
	p->ready++;
	if (welcome_send(c, 0, p->set) < 0)
		pl_tcp_set_end(p, -ECONNRESET);
	else if (pl_tcp_stream_introduced(c) < 0)
		pl_tcp_set_end(p, -EPROTO);
	else if (p->ready == p->count)
		set_up(p);
}

/* What stands in the way of a new set from this peer? 0: nothing (any more). */
static int make_way(struct pl_tcp_peer *p, const struct pl_tcp_hello *h)
{
	bool said_hello = p->conn[0] &&
			  p->conn[0]->phase != PL_TCP_CONNECTING &&
			  p->conn[0]->phase != PL_TCP_SECURING;

	switch (p->state) {
	case PL_TCP_SET_NONE:
		break;
	case PL_TCP_SET_DIALING:
		if (said_hello && strcmp(p->t->node, p->base.node) < 0)
			return EALREADY;
		break;
	case PL_TCP_SET_ACCEPTING:
		break;
	case PL_TCP_SET_UP:
		if (h->stale != p->set && h->instance == p->set_instance)
			return EALREADY;
		pl_tcp_set_end(p, -ECONNRESET);
		/* The owner's callbacks may have forgotten it. */
		if (p->forgotten)
			return EACCES;
		break;
	}
	set_clear(p);
	return 0;
}

static void accept_first(struct pl_tcp_conn *c, struct pl_tcp_peer *p)
{
	const struct pl_tcp_hello *h = &c->intro.hello;
	int status = make_way(p, h);

	if (status) {
		refuse(c, status, p->state == PL_TCP_SET_UP ? p->set : 0, NULL);
		return;
	}
	p->state = PL_TCP_SET_ACCEPTING;
	p->set = h->set;
	p->set_instance = h->instance;
	p->count = h->count;
	timer_set(p, PL_TCP_HANDSHAKE_MS);
	attach(c, p);
}

/* Is it who it says that it is, and does it speak as we do? */
static bool proven(struct pl_tcp_conn *c)
{
	const struct pl_tcp_hello *h = &c->intro.hello;

	if (!hello_ok(h)) {
		refuse(c, EPROTO, 0, !c->tls && *(uint8_t *)&c->intro == 0x16 ?
		       "it speaks TLS, and carrier.security is \"none\" here" :
		       NULL);
		return false;
	}
	if (c->tls && !pl_tls_is_peer(c->tls, h->node)) {
		refuse(c, EKEYREJECTED, 0, "its certificate is for another "
		       "name");
		return false;
	}
	if (h->flags != hello_flags(c->t)) {
		refuse(c, EPROTONOSUPPORT, 0, "carrier.encrypt is not the same "
		       "there");
		return false;
	}
	return true;
}

static void hello(struct pl_tcp_conn *c)
{
	const struct pl_tcp_hello *h = &c->intro.hello;
	struct pl_tcp_peer *p;

	if (!proven(c))
		return;
	HASH_FIND_STR(c->t->peers, h->node, p);
	if (!admitted(c, h->node, p != NULL)) {
		refuse(c, EACCES, 0, NULL);
		return;
	}
	if (h->index == 0) {
		if (!p)
			p = pl_tcp_peer_new(c->t, h->node);
		if (p)
			accept_first(c, p);
		else
			refuse(c, ENOMEM, 0, NULL);
		return;
	}
	if (!p || p->state != PL_TCP_SET_ACCEPTING || p->set != h->set ||
	    p->set_instance != h->instance || p->count != h->count ||
	    p->conn[h->index])
		refuse(c, ESTALE, 0, NULL);
	else
		attach(c, p);
}

/* --- both ---------------------------------------------------------------- */

static void intro_failed(struct pl_tcp_conn *c, int rc, const char *text)
{
	if (c->peer) {
		pl_tcp_set_why(c->peer, text);
		pl_tcp_set_end(c->peer, rc);
		return;
	}
	if (*text)
		pl_tcp_complain(c->t, "?", &c->from, text);
	pending_end(c);
}

/* Returns whether both are who they must be. */
static bool secured(struct pl_tcp_conn *c)
{
	struct pl_err err = { 0 };
	int rc = pl_tls_handshake(c->tls, c->fd, &err);

	if (rc == -EAGAIN && pl_tls_unsent(c->tls))
		event_add(c->ev_write, NULL);
	if (rc < 0 && rc != -EAGAIN)
		intro_failed(c, rc, err.msg);
	return rc == 0;
}

/* Neither silence nor a byte now and then holds a place for long. */
static bool too_late(const struct pl_tcp_conn *c)
{
	return !c->peer && pl_now_ns() - c->since_ns >
				   PL_TCP_HANDSHAKE_MS * UINT64_C(1000000);
}

/*
 * An agent that wants TLS ends a connection without an answer, and so does one
 * that is about to stop: but that one doesn't do it again and again.
 */
static const char *silent_end(const struct pl_tcp_conn *c, ssize_t n)
{
	if (n != -ECONNRESET || c->tls || c->intro_have || !c->peer)
		return "";
	if (++c->peer->silent < PL_TCP_SILENT_ASKS)
		return "it closed the connection without an answer";
	/* News, though the reason is not. */
	if (c->peer->silent == PL_TCP_SILENT_ASKS)
		c->peer->told_reason = 0;
	return "it closes connections without an answer, again and again; is "
	       "carrier.security the same there?";
}

/* Whoever does not begin with the magic will not say HELLO. */
static bool is_foreign(const struct pl_tcp_conn *c)
{
	return c->phase == PL_TCP_HELLO &&
	       c->intro_have >= sizeof(c->intro.hello.magic) &&
	       c->intro.hello.magic != PL_TCP_MAGIC;
}

void pl_tcp_set_intro(struct pl_tcp_conn *c)
{
	struct pl_err err = { 0 };
	size_t want;
	ssize_t n;

	if (too_late(c)) {
		pl_tcp_conn_close(c);
		return;
	}
	if (c->phase == PL_TCP_ENDING) {
		ending(c);
		return;
	}
	if (c->phase == PL_TCP_SECURING) {
		if (!secured(c))
			return;
		if (c->peer) {
			hello_say(c);
			return;
		}
		c->phase = PL_TCP_HELLO;
	}
	want = c->phase == PL_TCP_HELLO ? sizeof(c->intro.hello) :
					  sizeof(c->intro.welcome);
	n = pl_tcp_stream_intro(c, (uint8_t *)&c->intro + c->intro_have,
				want - c->intro_have, &err);
	if (n == -EAGAIN)
		return;
	if (n < 0) {
		intro_failed(c, (int)n, err.code ? err.msg :
						   silent_end(c, n));
		return;
	}
	c->intro_have += (size_t)n;
	if (c->intro_have < want && !is_foreign(c))
		return;
	if (c->phase == PL_TCP_HELLO)
		hello(c);
	else
		welcomed(c);
}
