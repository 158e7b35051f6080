/*
 * rdma/verbs_cm.c - queue pairs are connected by rdma_cm
 *
 * The node whose name is lower connects, to the address and port of the other's
 * offer. Each shows the token that the other has offered (struct
 * pl_verbs_intro): whoever has none is refused.
 */
#include "rdma/verbs.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "common/log.h"
#include "common/util.h"

static struct rdma_conn_param conn_param(const struct pl_verbs_intro *intro)
{
	return (struct rdma_conn_param){
		.private_data = intro,
		.private_data_len = sizeof(*intro),
		.retry_count = PL_VERBS_RETRIES,
		.rnr_retry_count = PL_VERBS_RNR_RETRIES,
	};
}

static struct pl_verbs_intro intro_of(const struct pl_verbs_qp *q)
{
	struct pl_verbs_intro m = {
		.magic = PL_VERBS_MAGIC,
		.version = PL_VERBS_VERSION,
		.index = (uint8_t)q->index,
		.count = (uint8_t)q->link->count,
	};

	memcpy(m.token, q->link->peer->theirs, sizeof(m.token));
	return m;
}

/* Of two secrets, without telling by time how far they are alike. */
static bool token_same(const uint8_t *a, const uint8_t *b)
{
	uint8_t diff = 0;

	for (size_t i = 0; i < PL_VERBS_TOKEN; i++)
		diff |= a[i] ^ b[i];
	return diff == 0;
}

static bool intro_ok(const struct pl_verbs_intro *m,
		     const struct pl_verbs_peer *p)
{
	return m->magic == PL_VERBS_MAGIC && m->version == PL_VERBS_VERSION &&
	       p->link && m->count == p->link->count &&
	       m->index < m->count && token_same(m->token, p->token);
}

/* The queue pair that somebody may make now, or NULL. */
static struct pl_verbs_qp *qp_awaited(struct pl_verbs_carrier *c,
				      const struct pl_verbs_intro *m)
{
	struct pl_verbs_peer *p;

	DL_FOREACH(c->peers, p) {
		if (p->state == PL_VERBS_MAKING && !pl_verbs_is_lower(p) &&
		    intro_ok(m, p) && !p->link->qp[m->index].id)
			return &p->link->qp[m->index];
	}
	return NULL;
}

static void on_request(struct pl_verbs_carrier *c, struct rdma_cm_id *id,
		       const struct pl_verbs_intro *m)
{
	struct pl_verbs_qp *q = qp_awaited(c, m);
	struct pl_verbs_intro answer;
	struct rdma_conn_param param;
	struct pl_err err;
	int rc;

	if (!q) {
		pl_warn("carrier: refused an RDMA connection: it has no token "
			"that a node was given");
		(void)c->v->reject(id);
		c->v->id_close(id);
		return;
	}
	rc = pl_verbs_qp_open(q, id, &err);
	if (rc < 0) {
		(void)c->v->reject(id);
		c->v->id_close(id);
		pl_verbs_link_fail(q->link->peer, rc, err.msg);
		return;
	}
	id->context = q;
	q->id = id;
	answer = intro_of(q);
	param = conn_param(&answer);
	rc = c->v->accept(id, &param);
	if (rc < 0)
		pl_verbs_link_fail(q->link->peer, rc, "rdma_cm can't accept");
}

void pl_verbs_cm_begin(struct pl_verbs_peer *p, const struct pl_verbs_offer *m)
{
	struct pl_verbs_carrier *c = p->c;
	struct pl_addr to = { .family = m->family == 6 ? AF_INET6 : AF_INET };
	struct pl_err err;
	int rc = 0;

	memcpy(to.bytes, m->addr, m->family == 6 ? 16 : 4);
	for (unsigned int i = 0; rc == 0 && i < p->link->count; i++) {
		struct pl_verbs_qp *q = &p->link->qp[i];

		rc = c->v->id_open(c->cm, q, &q->id);
		if (rc == 0)
			rc = pl_verbs_resolve(c, q->id, &to, m->port);
		if (rc < 0)
			pl_err_set(&err, -rc, "rdma_cm does not connect");
	}
	if (rc < 0)
		pl_verbs_link_fail(p, rc, err.msg);
}

static int on_route(struct pl_verbs_qp *q, struct pl_err *err)
{
	const struct pl_verbs_calls *v = q->link->peer->c->v;
	struct pl_verbs_intro m = intro_of(q);
	struct rdma_conn_param param = conn_param(&m);
	int rc = pl_verbs_qp_open(q, q->id, err);

	if (rc < 0)
		return rc;
	rc = v->connect(q->id, &param);
	return rc < 0 ? pl_err_set(err, -rc, "rdma_cm can't connect") : 0;
}

static int on_established(struct pl_verbs_qp *q,
			  const struct pl_verbs_intro *m, struct pl_err *err)
{
	struct pl_verbs_peer *p = q->link->peer;

	if (q->established)
		return 0;
	/* Who accepts has seen the other's token before. */
	if (pl_verbs_is_lower(p) && (!intro_ok(m, p) || m->index != q->index))
		return pl_err_set(err, EACCES, "somebody else answered");
	q->established = true;
	if (++q->link->established == q->link->count)
		pl_verbs_link_made(p);
	return 0;
}

/* What has happened, copied: an event is given back before it is acted on. */
struct cm_event {
	enum rdma_cm_event_type type;
	struct rdma_cm_id *id;
	int status;
	struct pl_verbs_intro intro;	/* zeros: there is none */
};

static void qp_event(struct pl_verbs_qp *q, const struct cm_event *e)
{
	struct pl_verbs_peer *p = q->link->peer;
	const struct pl_verbs_calls *v = p->c->v;
	struct pl_err err;
	int rc = 0;

	switch (e->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		/* Older libraries know no such option; it is a wish. */
		(void)v->ack_timeout(q->id, PL_VERBS_ACK_TIMEOUT);
		rc = v->resolve_route(q->id, PL_VERBS_ATTEMPT_MS);
		if (rc < 0)
			pl_err_set(&err, -rc, "no route by RDMA");
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		rc = on_route(q, &err);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		rc = on_established(q, &e->intro, &err);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		/* The other side has its reasons, and counts them. */
		if (p->in_use)
			pl_verbs_link_lose(p, -ECONNRESET);
		else if (p->state != PL_VERBS_UP)
			rc = pl_err_set(&err, ECONNRESET, "disconnected");
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		rc = e->status < 0 && e->status > -4096 ? e->status :
							  -EHOSTUNREACH;
		if (e->type == RDMA_CM_EVENT_REJECTED)
			rc = -ECONNREFUSED;
		pl_err_set(&err, -rc, "rdma_cm: %s", rdma_event_str(e->type));
		break;
	default:
		pl_debug("carrier: node=%s: rdma_cm: %s", p->base.node,
			 rdma_event_str(e->type));
	}
	if (rc < 0)
		pl_verbs_link_fail(p, rc, err.msg);
}

static void cm_event(struct pl_verbs_carrier *c, const struct cm_event *e)
{
	if (e->type == RDMA_CM_EVENT_DEVICE_REMOVAL)
		pl_verbs_dev_lost(c, "it was removed");
	else if (e->type == RDMA_CM_EVENT_CONNECT_REQUEST)
		on_request(c, e->id, &e->intro);
	else if (e->id != c->listen && e->id->context)
		qp_event(e->id->context, e);
}

void pl_verbs_cm_cb(evutil_socket_t fd, short what, void *arg)
{
	struct pl_verbs_carrier *c = arg;
	struct rdma_cm_event *ev;

	(void)fd;
	(void)what;
	/* An event may close the device, and with it the channel. */
	while (c->cm && !c->lost && c->v->event_get(c->cm, &ev) == 0) {
		struct cm_event e = { .type = ev->event,
				      .id = ev->id,
				      .status = ev->status };

		if ((e.type == RDMA_CM_EVENT_CONNECT_REQUEST ||
		     e.type == RDMA_CM_EVENT_ESTABLISHED) &&
		    ev->param.conn.private_data &&
		    ev->param.conn.private_data_len >= sizeof(e.intro))
			memcpy(&e.intro, ev->param.conn.private_data,
			       sizeof(e.intro));
		c->v->event_ack(ev);
		cm_event(c, &e);
	}
}
