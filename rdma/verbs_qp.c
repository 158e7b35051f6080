/*
 * rdma/verbs_qp.c - queue pairs of one peer, and what belongs to them
 *
 * A link is made and ended as a whole: a completion queue, a receive queue with
 * its buffers, and the queue pairs. So completions of queue pairs that are gone
 * can't be found later.
 *
 * Only ids of rdma_cm may stay for a while. Closing one sends a message, and
 * while a port is down rxe answers that with an error from which the queue pair
 * of all such messages never recovers (Linux 6.1): no connection could be made
 * any more. So ids wait, without queue pairs, until the port is active.
 */
#include "rdma/verbs.h"

#include <errno.h>
#include <stdlib.h>

#include "common/log.h"
#include "common/util.h"

#define RECV_PER_QP (PL_VERBS_CREDITS + PL_VERBS_RECV_SPARE)

/* --- receive buffers ----------------------------------------------------- */

static int recv_post(struct pl_verbs_link *l, unsigned int i)
{
	struct ibv_sge sge = { .addr = (uintptr_t)&l->recv[i],
			       .length = sizeof(l->recv[i]),
			       .lkey = l->recv_mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = PL_VERBS_RECV_ID | i,
				  .sg_list = &sge,
				  .num_sge = 1 };

	return l->peer->c->v->srq_post(l->srq, &wr);
}

int pl_verbs_recv_post(struct pl_verbs_link *l, unsigned int i)
{
	return recv_post(l, i);
}

static int not_registered(int rc, const char *what, struct pl_err *err)
{
	char why[PL_VERBS_MEMLOCK_BYTES];

	return pl_err_set(err, -rc, "%s buffers can't be registered: %s", what,
			  pl_verbs_memlock(why, sizeof(why)));
}

static int recv_open(struct pl_verbs_link *l, struct pl_err *err)
{
	const struct pl_verbs_calls *v = l->peer->c->v;
	int rc;

	l->n_recv = l->count * RECV_PER_QP;
	l->recv = calloc(l->n_recv, sizeof(*l->recv));
	if (!l->recv)
		return pl_err_set(err, ENOMEM, "out of memory");
	rc = v->mr_reg(l->peer->pd, l->recv, l->n_recv * sizeof(*l->recv),
		       IBV_ACCESS_LOCAL_WRITE, &l->recv_mr);
	if (rc < 0)
		return not_registered(rc, "receive", err);
	rc = v->srq_open(l->peer->pd, l->n_recv, &l->srq);
	if (rc < 0)
		return pl_err_set(err, -rc, "no shared receive queue (device "
				  "limit: %d)", l->peer->c->attr.max_srq);
	for (unsigned int i = 0; rc == 0 && i < l->n_recv; i++)
		rc = recv_post(l, i);
	return rc < 0 ? pl_err_set(err, -rc, "receive buffers can't be "
				   "posted") : 0;
}

/* --- queue pairs --------------------------------------------------------- */

static struct ibv_qp_init_attr qp_attr(const struct pl_verbs_qp *q,
				       uint32_t inline_max)
{
	const struct pl_verbs_link *l = q->link;

	return (struct ibv_qp_init_attr){
		.qp_context = (void *)(uintptr_t)q,
		.send_cq = l->cq,
		.recv_cq = l->cq,
		.srq = l->srq,
		.cap = { .max_send_wr = q->depth,
			 .max_send_sge = 1,
			 .max_inline_data = inline_max },
		.qp_type = IBV_QPT_RC,
	};
}

/* SENDs that don't fit inline go from here. */
static int stage_open(struct pl_verbs_qp *q)
{
	struct pl_verbs_peer *p = q->link->peer;

	q->stage = calloc(q->depth, sizeof(*q->stage));
	if (!q->stage)
		return -ENOMEM;
	return p->c->v->mr_reg(p->pd, q->stage, q->depth * sizeof(*q->stage), 0,
			       &q->stage_mr);
}

int pl_verbs_qp_open(struct pl_verbs_qp *q, struct rdma_cm_id *id,
		     struct pl_err *err)
{
	struct pl_verbs_carrier *c = q->link->peer->c;
	struct ibv_qp_init_attr attr;
	int rc;

	if (id->verbs != c->ctx)
		return pl_err_set(err, ENODEV, "by another RDMA device than "
				  "%s", c->v->device_name(c->ctx));
	q->depth = PL_MIN(PL_VERBS_DEPTH, (unsigned int)c->attr.max_qp_wr);
	attr = qp_attr(q, sizeof(struct pl_verbs_send));
	rc = c->v->qp_create(id, q->link->peer->pd, &attr);
	if (rc == -EINVAL) {
		/* Not every device has so much inline. */
		attr = qp_attr(q, 0);
		rc = c->v->qp_create(id, q->link->peer->pd, &attr);
	}
	if (rc < 0)
		return pl_err_set(err, -rc, "no queue pair (the device has %d, "
				  "rdma.max of the agent's cgroup may allow "
				  "less; carrier.connections is how many there "
				  "are for each node)", c->attr.max_qp);
	q->num = id->qp->qp_num;
	q->inline_max = attr.cap.max_inline_data;
	rc = stage_open(q);
	if (rc < 0) {
		c->v->qp_destroy(id);
		return not_registered(rc, "send", err);
	}
	return 0;
}

/* Queue pairs fail some time before their port is said to be down. */
static bool id_may_close(const struct pl_verbs_carrier *c,
			 const struct pl_verbs_qp *q)
{
	return pl_now_ns() >= q->link->settled_ns &&
	       (!q->id->verbs || !q->id->port_num ||
		c->v->port_active(q->id->verbs, q->id->port_num));
}

static void id_close(const struct pl_verbs_carrier *c, struct pl_verbs_qp *q)
{
	if (q->established)
		(void)c->v->disconnect(q->id);
	q->established = false;
	c->v->id_close(q->id);
	q->id = NULL;
}

static void qp_close(struct pl_verbs_qp *q)
{
	const struct pl_verbs_calls *v = q->link->peer->c->v;

	if (q->id && q->id->qp)
		v->qp_destroy(q->id);
	/* The id waits for pl_verbs_links_reap; its events mean nothing. */
	if (q->id)
		q->id->context = NULL;
	/* Nothing reads from them any more. */
	for (; q->completed < q->posted; q->completed++)
		pl_verbs_mr_put(q->slots[q->completed % q->depth].mr);
	if (q->stage_mr)
		v->mr_dereg(q->stage_mr);
	if (q->bounce_mr)
		v->mr_dereg(q->bounce_mr);
	free(q->stage);
	free(q->bounce);
}

/* --- all of a peer's ----------------------------------------------------- */

int pl_verbs_qps_open(struct pl_verbs_peer *p, unsigned int count,
		      struct pl_err *err)
{
	struct pl_verbs_link *l = calloc(1, sizeof(*l));
	int entries = (int)(count * (PL_VERBS_DEPTH + RECV_PER_QP));
	int rc = 0;

	if (!l)
		return pl_err_set(err, ENOMEM, "out of memory");
	p->link = l;
	/* The port seems to be active: ids that wait can go. */
	event_active(p->c->ev_reap, EV_TIMEOUT, 0);
	l->peer = p;
	l->count = count;
	for (unsigned int i = 0; i < count; i++) {
		l->qp[i].link = l;
		l->qp[i].index = i;
	}
	if (!p->pd)
		rc = p->c->v->pd_alloc(p->c->ctx, &p->pd);
	if (rc < 0)
		return pl_err_set(err, -rc, "no protection domain (device "
				  "limit: %d)", p->c->attr.max_pd);
	rc = p->c->v->cq_open(p->c->ctx, entries, l, p->c->channel, &l->cq);
	if (rc < 0)
		return pl_err_set(err, -rc, "no completion queue of %d "
				  "(device limits: %d, of %d)", entries,
				  p->c->attr.max_cq, p->c->attr.max_cqe);
	rc = recv_open(l, err);
	if (rc < 0)
		return rc;
	pl_verbs_poll_start(l);
	return 0;
}

void pl_verbs_qps_close(struct pl_verbs_peer *p)
{
	const struct pl_verbs_calls *v = p->c->v;
	struct pl_verbs_link *l = p->link;

	if (!l)
		return;
	p->link = NULL;
	pl_verbs_poll_stop(l);
	for (unsigned int i = 0; i < l->count; i++)
		qp_close(&l->qp[i]);
	if (l->srq)
		v->srq_close(l->srq);
	if (l->cq)
		v->cq_close(l->cq);
	if (l->recv_mr)
		v->mr_dereg(l->recv_mr);
	free(l->recv);
	l->settled_ns = pl_now_ns() + p->c->retry_ms * UINT64_C(1000000);
	LL_PREPEND(p->c->dead_links, l);
	event_active(p->c->ev_reap, EV_TIMEOUT, 0);
}

void pl_verbs_links_reap(struct pl_verbs_carrier *c, bool all)
{
	struct pl_verbs_link *l, *tmp;
	bool early = false;

	LL_FOREACH_SAFE(c->dead_links, l, tmp) {
		bool waits = false;

		for (unsigned int i = 0; i < l->count; i++) {
			struct pl_verbs_qp *q = &l->qp[i];

			if (q->id && (all || id_may_close(c, q)))
				id_close(c, q);
			waits |= q->id != NULL;
		}
		early |= waits && pl_now_ns() < l->settled_ns;
		if (waits)
			continue;
		LL_DELETE(c->dead_links, l);
		free(l);
	}
	/* Later ones wait for the port: pl_verbs_qps_open. */
	if (early)
		pl_verbs_timer(c->ev_reap, c->retry_ms);
}
