/*
 * rdma/verbs_poll.c - completions: looked for, or waited for
 *
 * A link is either in the list of those that are polled, one look per turn of
 * the event loop, so that nobody else has to wait; or its queue is armed, and
 * the device's event puts it back into the list. With adaptive polling a link
 * leaves the list when no completion has come for a while, and at once when the
 * waits before were long or the machine has no CPU to spare (shm/spin.h).
 * Arming is followed by one more look: what came before it makes no event.
 */
#include "rdma/verbs.h"

#include <errno.h>
#include <stdlib.h>

#include "common/log.h"
#include "common/util.h"

#define BATCH 32
/* Completions of one link before it is others' turn. */
#define TURN 256

static void list_add(struct pl_verbs_link *l)
{
	struct pl_verbs_carrier *c = l->peer->c;
	struct timeval now = { 0, 0 };

	if (l->polled)
		return;
	l->polled = true;
	l->round = c->round;
	DL_APPEND(c->polled, l);
	event_add(c->ev_poll, &now);
}

void pl_verbs_poll_start(struct pl_verbs_link *l)
{
	list_add(l);
}

void pl_verbs_poll_stop(struct pl_verbs_link *l)
{
	if (!l->polled)
		return;
	l->polled = false;
	DL_DELETE(l->peer->c->polled, l);
}

static struct pl_verbs_qp *qp_by_num(struct pl_verbs_link *l, uint32_t num)
{
	for (unsigned int i = 0; i < l->count; i++) {
		if (l->qp[i].num == num && l->qp[i].id)
			return &l->qp[i];
	}
	return NULL;
}

/* NULL, or what is wrong. May call back, and end the link. */
static const char *received(struct pl_verbs_link *l, struct pl_verbs_qp *q,
			    const struct ibv_wc *wc)
{
	unsigned int i = (unsigned int)(wc->wr_id & ~PL_VERBS_RECV_ID);
	struct pl_verbs_peer *p = l->peer;
	const char *wrong;

	if (i >= l->n_recv || !(wc->opcode & IBV_WC_RECV))
		return "a completion of nothing";
	wrong = pl_verbs_arrived(q, &l->recv[i], wc->byte_len);
	if (wrong || p->link != l)
		return wrong;
	return pl_verbs_recv_post(l, i) < 0 ? "a lost receive buffer" : NULL;
}

/* Returns false when the link has come to an end. */
static bool complete(struct pl_verbs_link *l, const struct ibv_wc *wc)
{
	struct pl_verbs_qp *q = qp_by_num(l, wc->qp_num);
	struct pl_verbs_peer *p = l->peer;
	const char *wrong = NULL;

	p->stats.completions++;
	if (wc->status == IBV_WC_WR_FLUSH_ERR && !p->in_use)
		return true;
	if (wc->status != IBV_WC_SUCCESS) {
		p->stats.completion_errors += wc->status != IBV_WC_WR_FLUSH_ERR;
		/* Flushed: the other side has disconnected, or said why. */
		pl_verbs_link_fail(p, wc->status == IBV_WC_WR_FLUSH_ERR ?
				   -ECONNRESET : -EIO,
				   ibv_wc_status_str(wc->status));
		return p->link == l;
	}
	if (!q)
		return true;
	if (wc->wr_id & PL_VERBS_RECV_ID)
		wrong = received(l, q, wc);
	else
		pl_verbs_sent(q, wc->wr_id);
	if (wrong && p->link == l) {
		pl_error("carrier: node=%s: %s; closing", p->base.node, wrong);
		pl_verbs_link_fail(p, -EPROTO, "a broken rule");
	}
	return p->link == l;
}

/* Returns how many there were; -1: the link has come to an end. */
static int look(struct pl_verbs_link *l)
{
	struct pl_verbs_peer *p = l->peer;
	int n, all = 0;

	do {
		struct ibv_wc wc[BATCH];

		n = p->c->v->cq_poll(l->cq, BATCH, wc);
		p->stats.polls++;
		if (n < 0) {
			pl_verbs_link_fail(p, n, "completions can't be read");
			return -1;
		}
		for (int i = 0; i < n; i++) {
			if (!complete(l, &wc[i]))
				return -1;
		}
		all += n;
	} while (n == BATCH && all < TURN);
	if (all == 0)
		return 0;
	for (unsigned int i = 0; i < l->count; i++)
		pl_verbs_grant(&l->qp[i]);
	pl_verbs_flush(p);
	return p->link == l ? all : -1;
}

/* Nothing has come: shall it be looked at in the next turn? */
static bool keeps_on(struct pl_verbs_link *l, uint64_t now)
{
	switch (l->peer->c->polling) {
	case PL_POLLING_BUSY:
		return true;
	case PL_POLLING_EVENT:
		return false;
	case PL_POLLING_ADAPTIVE:
		break;
	}
	if (!l->waits) {
		l->waits = true;
		l->spins = pl_spin_wanted(&l->peer->c->spin, now);
	}
	return l->spins && now - l->last_ns < PL_SPIN_NS;
}

static void came(struct pl_verbs_link *l, uint64_t now)
{
	if (l->waits)
		pl_spin_learn(&l->peer->c->spin, now - l->last_ns,
			      l->spins && now - l->last_ns >= PL_SPIN_NS);
	l->waits = false;
	l->last_ns = now;
}

/* It leaves the list, unless something came in between. */
static void arm(struct pl_verbs_link *l)
{
	struct pl_verbs_peer *p = l->peer;
	int rc;

	pl_verbs_poll_stop(l);
	rc = p->c->v->cq_arm(l->cq);
	if (rc < 0) {
		pl_verbs_link_fail(p, rc, "completions can't be waited for");
		return;
	}
	if (look(l) > 0) {
		came(l, pl_now_ns());
		list_add(l);
	}
}

static void turn(struct pl_verbs_link *l)
{
	uint64_t now = pl_now_ns();
	int n = look(l);

	if (n > 0)
		came(l, now);
	else if (n == 0 && !keeps_on(l, now))
		arm(l);
}

void pl_verbs_poll_cb(evutil_socket_t fd, short what, void *arg)
{
	struct pl_verbs_carrier *c = arg;
	struct timeval now = { 0, 0 };
	struct pl_verbs_link *l;

	(void)fd;
	(void)what;
	/* Any link may leave the list meanwhile: always the first one. */
	c->round++;
	while ((l = c->polled) && l->round != c->round) {
		l->round = c->round;
		DL_DELETE(c->polled, l);
		DL_APPEND(c->polled, l);
		turn(l);
	}
	if (c->polled)
		event_add(c->ev_poll, &now);
}

void pl_verbs_channel_cb(evutil_socket_t fd, short what, void *arg)
{
	struct pl_verbs_carrier *c = arg;
	void *user;

	(void)fd;
	(void)what;
	while (c->channel && c->v->channel_next(c->channel, &user) == 0) {
		struct pl_verbs_link *l = user;

		l->peer->stats.wakeups++;
		l->peer->stats.syscalls++;
		list_add(l);
	}
}
