/*
 * rdma/verbs_link.c - who makes queue pairs when, and what their loss means
 *
 * The theory is in verbs.c. A peer is in one of five states:
 *
 *   lower name                          higher name
 *   IDLE                                IDLE
 *   OFFERED   -- OFFER -->              MAKING: accepts what has its token
 *   MAKING    <-- OFFER --
 *             == rdma_cm, each queue pair ==>
 *   HALF      -- KEYS, READY -->        HALF
 *             <-- KEYS, READY --
 *   UP                                  UP
 *
 * NONE and FAIL end that at any point, on both sides. The timer is the limit of
 * an attempt, or the time to the next one (lower name, IDLE). When it is tried
 * the lower name decides: at once when tcp has connected, or, after failures,
 * beside tcp, later and later. The other side tells of its failures by FAIL in
 * the place of its offer, once each.
 */
#include "rdma/verbs.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "common/log.h"
#include "common/util.h"
#include "rdma/tcp.h"

/* Failures that lie so far back do not count. */
#define PROVEN_NS UINT64_C(60000000000)

/* --- messages ------------------------------------------------------------ */

struct pl_verbs_hdr pl_verbs_head(enum pl_verbs_type type, size_t len)
{
	return (struct pl_verbs_hdr){ .magic = PL_VERBS_MAGIC,
				      .version = PL_VERBS_VERSION,
				      .type = (uint16_t)type,
				      .len = (uint32_t)len };
}

static void say(struct pl_verbs_peer *p, enum pl_verbs_type type)
{
	struct pl_verbs_hdr h = pl_verbs_head(type, sizeof(h));

	/* When it is lost, the other side's timer ends its attempt. */
	(void)pl_tcp_link(p->tcp, &h, sizeof(h));
}

static void say_fail(struct pl_verbs_peer *p, int reason)
{
	struct pl_verbs_fail m = {
		.h = pl_verbs_head(PL_VERBS_FAIL, sizeof(m)),
		.code = -reason,
	};

	(void)pl_tcp_link(p->tcp, &m, sizeof(m));
}

static void token_make(uint8_t token[PL_VERBS_TOKEN])
{
	while (getrandom(token, PL_VERBS_TOKEN, 0) != PL_VERBS_TOKEN)
		;
}

static int say_offer(struct pl_verbs_peer *p)
{
	const struct pl_verbs_carrier *c = p->c;
	struct pl_verbs_offer m = {
		.h = pl_verbs_head(PL_VERBS_OFFER, sizeof(m)),
		.port = c->port,
		.qps = (uint16_t)c->qps,
		.family = c->addr.family == AF_INET6 ? 6 : 4,
	};

	token_make(p->token);
	memcpy(m.addr, c->addr.bytes, sizeof(m.addr));
	memcpy(m.token, p->token, sizeof(m.token));
	return pl_tcp_link(p->tcp, &m, sizeof(m));
}

/* --- begin, end ---------------------------------------------------------- */

bool pl_verbs_is_lower(const struct pl_verbs_peer *p)
{
	return strcmp(p->c->node, p->base.node) < 0;
}

static bool has_device(const struct pl_verbs_peer *p)
{
	return p->c->ctx && !p->c->lost;
}

static void retry_later(struct pl_verbs_peer *p)
{
	unsigned int shift = PL_MIN(p->fails ? p->fails - 1 : 0, 5u);

	if (pl_verbs_is_lower(p) && has_device(p) && p->tcp_up)
		pl_verbs_timer(p->ev_timer, PL_MIN(p->c->retry_ms << shift,
						   PL_VERBS_RETRY_MAX_MS));
}

static void offer(struct pl_verbs_peer *p)
{
	p->state = PL_VERBS_OFFERED;
	pl_verbs_timer(p->ev_timer, PL_VERBS_ATTEMPT_MS);
	if (say_offer(p) < 0)
		pl_verbs_link_fail(p, -ENOBUFS, "no room for an offer");
}

void pl_verbs_link_start(struct pl_verbs_peer *p)
{
	bool later = pl_verbs_is_lower(p) ? p->fails && !p->proven : p->failed;

	p->proven = p->failed = false;
	if (!has_device(p)) {
		say(p, PL_VERBS_NONE);
		pl_verbs_tell_up(p, false);
	} else if (later) {
		say_fail(p, -EAGAIN);
		retry_later(p);
		pl_verbs_tell_up(p, false);
	} else if (pl_verbs_is_lower(p)) {
		offer(p);
	} else {
		/* The other one says what it does, or that it has no verbs. */
		pl_verbs_timer(p->ev_timer, PL_VERBS_ATTEMPT_MS);
		say(p, PL_VERBS_ASK);
	}
}

void pl_verbs_link_end(struct pl_verbs_peer *p)
{
	event_del(p->ev_timer);
	p->in_use = false;
	pl_verbs_send_detach(p);
	pl_verbs_qps_close(p);
	pl_verbs_held_drop(p);
	pl_verbs_keys_bury(p);
	p->there = false;
	p->state = PL_VERBS_IDLE;
}

static void count_fail(struct pl_verbs_peer *p)
{
	if (p->in_use && pl_now_ns() - p->up_ns > PROVEN_NS)
		p->fails = 0;
	p->fails++;
	p->proven = false;
	p->failed = true;
}

void pl_verbs_link_lose(struct pl_verbs_peer *p, int reason)
{
	pl_verbs_link_end(p);
	pl_tcp_set_end(pl_tcp_peer_of(p->tcp), reason);
}

/* Also when nothing had begun: the owner waits to be told. */
static void give_up(struct pl_verbs_peer *p, int reason)
{
	struct pl_verbs_carrier *c = p->c;

	pl_verbs_link_end(p);
	retry_later(p);
	pl_verbs_tell_up(p, false);
	if (p->base.is_up || !c->only || p->told)
		return;
	p->told = true;
	p->base.reason = reason;
	if (c->cb.down)
		c->cb.down(c->arg, &p->base, reason);
}

/* The other node has none; should that change, it will say so. */
static void none_there(struct pl_verbs_peer *p, int reason)
{
	if (p->in_use) {
		pl_verbs_link_lose(p, reason);
		return;
	}
	give_up(p, reason);
	event_del(p->ev_timer);
}

void pl_verbs_link_fail(struct pl_verbs_peer *p, int reason, const char *what)
{
	bool in_use = p->in_use;

	if (!p->tcp_up)
		return;
	/* A reset is the other side's: it counts what is behind it. */
	if (reason != -ECANCELED && reason != -ECONNRESET)
		count_fail(p);
	pl_log(reason == -ECANCELED ? PL_LOG_DEBUG : PL_LOG_WARN,
	       "carrier: verbs %s node=%s: %s: %s",
	       in_use ? "lost" : "can't be used with", p->base.node, what,
	       strerror(-reason));
	if (in_use) {
		pl_verbs_link_lose(p, reason);
		return;
	}
	say_fail(p, reason);
	give_up(p, reason);
}

void pl_verbs_link_timer_cb(evutil_socket_t fd, short what, void *arg)
{
	struct pl_verbs_peer *p = arg;

	(void)fd;
	(void)what;
	if (p->forgotten || !p->tcp_up)
		return;
	if (p->state == PL_VERBS_IDLE &&
	    (p->base.is_up || pl_verbs_is_lower(p))) {
		if (has_device(p) && pl_verbs_is_lower(p))
			offer(p);
		return;
	}
	pl_verbs_link_fail(p, -ETIMEDOUT, "no answer");
}

/* --- made ---------------------------------------------------------------- */

static void up(struct pl_verbs_peer *p)
{
	event_del(p->ev_timer);
	p->state = PL_VERBS_UP;
	if (!p->base.is_up) {
		p->up_ns = pl_now_ns();
		pl_info("carrier: verbs node=%s queue-pairs=%u", p->base.node,
			p->link->count);
		pl_verbs_tell_up(p, true);
		return;
	}
	/* Lanes use tcp: connect anew, and begin with queue pairs. */
	p->proven = true;
	p->failed = false;
	if (pl_verbs_is_lower(p)) {
		pl_info("carrier: verbs work with node=%s, lanes go over to "
			"them", p->base.node);
		pl_verbs_link_lose(p, -ECONNRESET);
	}
}

void pl_verbs_link_made(struct pl_verbs_peer *p)
{
	int rc = pl_verbs_keys_send(p);

	if (rc < 0) {
		pl_verbs_link_fail(p, rc, "no room for keys");
		return;
	}
	say(p, PL_VERBS_READY);
	p->state = PL_VERBS_HALF;
	if (p->there)
		up(p);
}

/* --- what the other side says -------------------------------------------- */

static void on_offer(struct pl_verbs_peer *p, const struct pl_verbs_offer *m)
{
	struct pl_err err;
	int rc;

	if (!has_device(p)) {
		say(p, PL_VERBS_NONE);
		give_up(p, -ENODEV);
		return;
	}
	if (p->in_use || (pl_verbs_is_lower(p) && p->state != PL_VERBS_OFFERED))
		return;
	pl_verbs_link_end(p);
	memcpy(p->theirs, m->token, sizeof(p->theirs));
	pl_verbs_timer(p->ev_timer, PL_VERBS_ATTEMPT_MS);
	p->state = PL_VERBS_MAKING;
	rc = pl_verbs_qps_open(p, PL_MIN(p->c->qps, (unsigned int)m->qps),
			       &err);
	if (rc < 0)
		pl_verbs_link_fail(p, rc, err.msg);
	else if (pl_verbs_is_lower(p))
		pl_verbs_cm_begin(p, m);
	else if (say_offer(p) < 0)
		pl_verbs_link_fail(p, -ENOBUFS, "no room for an offer");
}

static void on_ready(struct pl_verbs_peer *p)
{
	p->there = true;
	if (p->state == PL_VERBS_HALF)
		up(p);
}

static void on_fail(struct pl_verbs_peer *p, const struct pl_verbs_fail *m)
{
	int reason = m->code > 0 && m->code < 4096 ? -m->code : -EPROTO;

	if (p->in_use) {
		pl_verbs_link_lose(p, reason);
		return;
	}
	if (p->state != PL_VERBS_IDLE) {
		count_fail(p);
		pl_info("carrier: node=%s can't make queue pairs: %s",
			p->base.node, strerror(-reason));
	}
	give_up(p, reason);
}

static void on_ask(struct pl_verbs_peer *p)
{
	if (pl_verbs_is_lower(p) && has_device(p) && p->state == PL_VERBS_IDLE)
		offer(p);
}

static bool offer_ok(const struct pl_verbs_offer *m)
{
	return m->port && m->qps && (m->family == 4 || m->family == 6);
}

static const char *heard(struct pl_verbs_peer *p, const void *data,
			 const struct pl_verbs_hdr *h)
{
	static const size_t lens[] = {
		[PL_VERBS_OFFER] = sizeof(struct pl_verbs_offer),
		[PL_VERBS_NONE] = sizeof(struct pl_verbs_hdr),
		[PL_VERBS_ASK] = sizeof(struct pl_verbs_hdr),
		[PL_VERBS_KEYS] = 0,
		[PL_VERBS_READY] = sizeof(struct pl_verbs_hdr),
		[PL_VERBS_FAIL] = sizeof(struct pl_verbs_fail),
		[PL_VERBS_AFTER] = 0,
		[PL_VERBS_REVOKE] = sizeof(struct pl_verbs_revoke),
		[PL_VERBS_REVOKED] = sizeof(struct pl_verbs_revoke),
	};
	const struct pl_verbs_revoke *r = data;

	if (h->type >= PL_ARRAY_SIZE(lens) || !h->type ||
	    (lens[h->type] && lens[h->type] != h->len))
		return "a message of a wrong form";
	switch ((enum pl_verbs_type)h->type) {
	case PL_VERBS_OFFER:
		if (!offer_ok(data))
			return "a wrong offer";
		on_offer(p, data);
		break;
	case PL_VERBS_NONE:
		none_there(p, -ENODEV);
		break;
	case PL_VERBS_ASK:
		on_ask(p);
		break;
	case PL_VERBS_KEYS:
		pl_verbs_on_keys(p, data, h->len);
		break;
	case PL_VERBS_READY:
		on_ready(p);
		break;
	case PL_VERBS_FAIL:
		on_fail(p, data);
		break;
	case PL_VERBS_AFTER:
		return pl_verbs_on_after(p, data, h->len);
	case PL_VERBS_REVOKE:
		pl_verbs_on_revoke(p, r->key);
		break;
	case PL_VERBS_REVOKED:
		pl_verbs_on_revoked(p, r->key);
		break;
	}
	return NULL;
}

void pl_verbs_link_heard(struct pl_verbs_peer *p, const void *data, size_t len)
{
	const struct pl_verbs_hdr *h = data;
	const char *wrong = "a message of a wrong form";

	/* One byte: nobody there listens, see rdma/tcp_recv.c. */
	if (len == 1) {
		none_there(p, -EPROTONOSUPPORT);
		return;
	}
	if (len >= sizeof(*h) && h->magic == PL_VERBS_MAGIC &&
	    h->version == PL_VERBS_VERSION && h->len == len)
		wrong = heard(p, data, h);
	if (!wrong)
		return;
	pl_error("carrier: node=%s sent %s; closing", p->base.node, wrong);
	pl_verbs_link_lose(p, -EPROTO);
}

/* --- the device ---------------------------------------------------------- */

static void device_gone(struct pl_verbs_peer *p)
{
	bool in_use = p->in_use;

	pl_verbs_link_end(p);
	pl_verbs_send_unregister(p);
	pl_verbs_keys_unregister(p);
	if (p->pd)
		p->c->v->pd_free(p->pd);
	p->pd = NULL;
	if (!p->tcp_up)
		return;
	if (in_use) {
		pl_verbs_link_lose(p, -ENODEV);
		return;
	}
	say(p, PL_VERBS_NONE);
	give_up(p, -ENODEV);
}

static void device_there(struct pl_verbs_peer *p)
{
	p->fails = 0;
	if (!p->tcp_up || p->state != PL_VERBS_IDLE)
		return;
	if (pl_verbs_is_lower(p))
		offer(p);
	else
		say(p, PL_VERBS_ASK);
}

void pl_verbs_link_device(struct pl_verbs_carrier *c, bool there)
{
	struct pl_verbs_peer *p = c->peers, *next;

	for (; p; p = next) {
		/* Peers are not freed before the loop turns. */
		next = p->next;
		if (there)
			device_there(p);
		else
			device_gone(p);
	}
}
