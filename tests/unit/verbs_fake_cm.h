/* tests/unit/verbs_fake_cm.h - rdma_cm for verbs_fake.h */
#ifndef TESTS_VERBS_FAKE_CM_H
#define TESTS_VERBS_FAKE_CM_H

#include "tests/unit/verbs_fake_state.h"

static inline int fake_events_open(struct rdma_event_channel **out)
{
	int rc = fake_fails(FAKE_EVENTS_OPEN);
	struct fake_channel *c;

	*out = NULL;
	if (rc < 0)
		return rc;
	c = fake_alloc(sizeof(*c));
	c->ch.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	fk.n_channels++;
	*out = &c->ch;
	return 0;
}

static inline void fake_events_close(struct rdma_event_channel *ch)
{
	struct fake_channel *c = (struct fake_channel *)ch;

	for (struct fake_id *i = fk.ids; i; i = i->next)
		assert_ptr_not_equal(i->id.channel, ch);
	while (c->events) {
		struct fake_event *e = c->events;

		c->events = e->next;
		free(e);
	}
	close(ch->fd);
	free(c);
	fk.n_channels--;
}

static inline void fake_event(struct fake_id *id, enum rdma_cm_event_type type,
			      int status, struct fake_id *listen,
			      const void *data, size_t len)
{
	struct fake_channel *c = (struct fake_channel *)id->id.channel;
	struct fake_event *e = fake_alloc(sizeof(*e)), **at = &c->events;

	e->ev.id = &id->id;
	e->ev.listen_id = listen ? &listen->id : NULL;
	e->ev.event = type;
	e->ev.status = status;
	/* As with RoCE: zeros behind it. */
	if (data) {
		memcpy(e->data, data, len);
		e->ev.param.conn.private_data = e->data;
		e->ev.param.conn.private_data_len = 56;
	}
	while (*at)
		at = &(*at)->next;
	*at = e;
	fake_signal(c->ch.fd);
}

static inline int fake_event_get(struct rdma_event_channel *ch,
				 struct rdma_cm_event **out)
{
	struct fake_channel *c = (struct fake_channel *)ch;
	struct fake_event *e = c->events;

	if (!e) {
		fake_unsignal(ch->fd);
		return -EAGAIN;
	}
	c->events = e->next;
	*out = &e->ev;
	return 0;
}

static inline void fake_event_ack(struct rdma_cm_event *ev)
{
	free(ev);
}

static inline struct fake_id *fake_id_new(struct rdma_event_channel *ch,
					  void *user)
{
	struct fake_id *i = fake_alloc(sizeof(*i));

	i->id.channel = ch;
	i->id.context = user;
	i->next = fk.ids;
	fk.ids = i;
	return i;
}

static inline int fake_id_open(struct rdma_event_channel *ch, void *user,
			       struct rdma_cm_id **out)
{
	int rc = fake_fails(FAKE_ID_OPEN);

	if (rc == 0)
		*out = &fake_id_new(ch, user)->id;
	return rc;
}

static inline void fake_part(struct fake_id *i)
{
	struct fake_id *p = i->peer;

	assert_false(p && fk.port_down && fk.there);
	i->peer = NULL;
	if (!p)
		return;
	p->peer = NULL;
	if (p->connected) {
		if (p->id.qp)
			((struct fake_qp *)p->id.qp)->error = true;
		fake_schedule();
		fake_event(p, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, NULL, 0);
	} else {
		fake_event(p, RDMA_CM_EVENT_REJECTED, 8, NULL, NULL, 0);
	}
}

static inline void fake_id_free(struct fake_id *i)
{
	struct fake_id **at = &fk.ids;

	while (*at != i)
		at = &(*at)->next;
	*at = i->next;
	free(i);
}

/* Its events go with it, and with a listener who knocks there. */
static inline void fake_id_close(struct rdma_cm_id *id)
{
	struct fake_channel *c = (struct fake_channel *)id->channel;
	struct fake_event **e = &c->events;

	assert_null(id->qp);
	fake_part((struct fake_id *)id);
	while (*e) {
		struct fake_event *x = *e;
		struct fake_id *from = (struct fake_id *)x->ev.id;

		if (x->ev.id != id && x->ev.listen_id != id) {
			e = &x->next;
			continue;
		}
		*e = x->next;
		if (x->ev.listen_id == id) {
			fake_part(from);
			fake_id_free(from);
		}
		free(x);
	}
	fake_id_free((struct fake_id *)id);
}

static inline int fake_bind(struct rdma_cm_id *id, struct sockaddr *sa)
{
	int rc = fake_fails(FAKE_BIND);
	struct sockaddr_in *in = (struct sockaddr_in *)sa;

	if (rc < 0)
		return rc;
	if (!(fk.there && in->sin_addr.s_addr == htonl(INADDR_LOOPBACK)) &&
	    !(fk.others && in->sin_addr.s_addr == htonl(INADDR_LOOPBACK + 1)))
		return -ENODEV;
	((struct fake_id *)id)->port = ++fk.last_port;
	id->verbs = &fk.ctx;
	id->port_num = 1;
	return 0;
}

static inline int fake_listen(struct rdma_cm_id *id, int backlog)
{
	(void)backlog;
	((struct fake_id *)id)->listens = true;
	return fake_fails(FAKE_LISTEN);
}

static inline uint16_t fake_port(struct rdma_cm_id *id)
{
	return ((struct fake_id *)id)->port;
}

static inline int fake_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src,
				    struct sockaddr *dst, int timeout_ms)
{
	int rc = fake_fails(FAKE_RESOLVE_ADDR);
	bool there;

	(void)src;
	assert_true(timeout_ms > 0);
	if (rc < 0)
		return rc;
	((struct fake_id *)id)->to =
		ntohs(((struct sockaddr_in *)dst)->sin_port);
	there = fk.there || fk.others;
	if (!there || fk.port_down) {
		fake_event((struct fake_id *)id, RDMA_CM_EVENT_ADDR_ERROR,
			   -ENODEV, NULL, NULL, 0);
		return 0;
	}
	id->verbs = &fk.ctx;
	id->port_num = 1;
	fake_event((struct fake_id *)id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL,
		   NULL, 0);
	return 0;
}

static inline int fake_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	int rc = fake_fails(FAKE_RESOLVE_ROUTE);

	assert_true(timeout_ms > 0);
	if (rc == 0)
		fake_event((struct fake_id *)id, RDMA_CM_EVENT_ROUTE_RESOLVED,
			   0, NULL, NULL, 0);
	return rc;
}

static inline int fake_ack_timeout(struct rdma_cm_id *id, uint8_t exponent)
{
	(void)id;
	(void)exponent;
	return -ENOSYS;
}

static inline int fake_connect(struct rdma_cm_id *id,
			       struct rdma_conn_param *param)
{
	struct fake_id *i = (struct fake_id *)id, *l, *n;
	int rc = fake_fails(FAKE_CONNECT);

	if (rc < 0)
		return rc;
	assert_non_null(id->qp);
	for (l = fk.ids; l && !(l->listens && l->port == i->to); l = l->next)
		;
	if (!l) {
		fake_event(i, RDMA_CM_EVENT_REJECTED, 8, NULL, NULL, 0);
		return 0;
	}
	n = fake_id_new(l->id.channel, l->id.context);
	n->id.verbs = &fk.ctx;
	n->id.port_num = 1;
	n->peer = i;
	i->peer = n;
	fake_event(n, RDMA_CM_EVENT_CONNECT_REQUEST, 0, l,
		   param->private_data, param->private_data_len);
	return 0;
}

static inline int fake_accept(struct rdma_cm_id *id,
			      struct rdma_conn_param *param)
{
	struct fake_id *i = (struct fake_id *)id, *p = i->peer;
	int rc = fake_fails(FAKE_ACCEPT);

	if (rc < 0)
		return rc;
	assert_non_null(id->qp);
	if (!p)
		return -EINVAL;
	/* The other one has given up, its id waits: it answers no more. */
	if (!p->id.qp)
		return 0;
	i->connected = p->connected = true;
	((struct fake_qp *)id->qp)->peer = (struct fake_qp *)p->id.qp;
	((struct fake_qp *)p->id.qp)->peer = (struct fake_qp *)id->qp;
	fake_event(p, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, param->private_data,
		   param->private_data_len);
	fake_event(i, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, NULL, 0);
	return 0;
}

static inline int fake_reject(struct rdma_cm_id *id)
{
	fake_part((struct fake_id *)id);
	return 0;
}

static inline int fake_disconnect(struct rdma_cm_id *id)
{
	fake_part((struct fake_id *)id);
	return 0;
}

#endif
