/*
 * tests/unit/verbs_fake.h - an RDMA device that is not there, for tests
 *
 * One device, at 127.0.0.1, and what the carrier calls of it (verbs_calls.h),
 * in memory. Work requests are carried out by the event loop, in the order of
 * their queue pair, as a device would: keys, domains and bounds are checked,
 * bytes are read when their turn comes, unless they were inline.
 *
 * Faults: a call fails the Nth time (fake_fail), a work request gets an error
 * (wr_error_at), queue pairs stand still (hold) or take turns in another order
 * (backwards), completions come late (late), the device goes (fake_remove).
 *
 * It checks its user, too: what is closed must be open and have nothing in it,
 * completion queues must not overflow, nothing is left in the end (fake_fini).
 */
#ifndef TESTS_VERBS_FAKE_H
#define TESTS_VERBS_FAKE_H

#include "tests/unit/verbs_fake_cm.h"

/* --- queue pairs --------------------------------------------------------- */

static inline int fake_qp_create(struct rdma_cm_id *id, struct ibv_pd *pd,
				 struct ibv_qp_init_attr *attr)
{
	int rc = fake_fails(FAKE_QP_CREATE);
	struct fake_qp *q;

	if (rc < 0)
		return rc;
	if (attr->cap.max_inline_data > fk.inline_max)
		return -EINVAL;
	if (fk.max_qp && fk.n_qps >= (unsigned int)fk.max_qp)
		return -ENOMEM;
	assert_non_null(attr->srq);
	q = fake_alloc(sizeof(*q));
	q->qp.qp_context = attr->qp_context;
	q->qp.pd = pd;
	q->qp.send_cq = attr->send_cq;
	q->qp.recv_cq = attr->recv_cq;
	q->qp.srq = attr->srq;
	q->qp.qp_num = ++fk.last_qp;
	q->depth = attr->cap.max_send_wr;
	q->inline_max = attr->cap.max_inline_data;
	q->next = fk.qps;
	fk.qps = q;
	fk.n_qps++;
	((struct fake_pd *)pd)->users++;
	((struct fake_cq *)attr->send_cq)->users++;
	((struct fake_srq *)attr->srq)->users++;
	id->qp = &q->qp;
	return 0;
}

static inline void fake_qp_destroy(struct rdma_cm_id *id)
{
	struct fake_qp *q = (struct fake_qp *)id->qp, **at = &fk.qps;

	while (*at != q)
		at = &(*at)->next;
	*at = q->next;
	fk.n_qps--;
	if (q->peer) {
		q->peer->peer = NULL;
		q->peer->error = true;
		fake_schedule();
	}
	while (q->wrs) {
		struct fake_wr *w = q->wrs;

		q->wrs = w->next;
		free(w->data);
		free(w);
	}
	((struct fake_pd *)q->qp.pd)->users--;
	((struct fake_cq *)q->qp.send_cq)->users--;
	((struct fake_srq *)q->qp.srq)->users--;
	free(q);
	id->qp = NULL;
}

/* --- devices ------------------------------------------------------------- */

static inline bool fake_there(void)
{
	return fk.there || fk.others;
}

static inline size_t fake_gids(struct pl_rdma_gid *out, size_t max)
{
	static const struct pl_rdma_gid own = {
		.device = "fake0", .port = 1, .index = 1, .is_active = true,
		.numa = -1,
		.addr = { .family = AF_INET, .bytes = { 127, 0, 0, 1 } },
	};
	size_t n = 0;

	assert_true(max >= 2);
	if (fk.there)
		out[n++] = own;
	if (fk.others) {
		out[n] = own;
		memcpy(out[n].device, "fake1", sizeof("fake1"));
		out[n++].addr.bytes[3] = 2;
	}
	return n;
}

static inline int fake_query(struct ibv_context *ctx,
			     struct ibv_device_attr *out)
{
	(void)ctx;
	*out = (struct ibv_device_attr){ .max_qp = fk.max_qp ? fk.max_qp : 1000,
					 .max_qp_wr = 1000, .max_cq = 1000,
					 .max_cqe = 100000, .max_srq = 1000,
					 .max_pd = 1000 };
	return fake_fails(FAKE_QUERY);
}

static inline bool fake_port_active(struct ibv_context *ctx, uint8_t port)
{
	(void)ctx;
	assert_int_equal(port, 1);
	/* It is said somewhat late. */
	return !fk.port_down || pl_now_ns() < fk.down_ns + 1000000;
}

static inline const char *fake_name(struct ibv_context *ctx)
{
	(void)ctx;
	return "fake0";
}

static inline int fake_async_get(struct ibv_context *ctx,
				 struct ibv_async_event *out)
{
	eventfd_t n;

	if (!fk.event_there)
		return -EAGAIN;
	(void)eventfd_read(ctx->async_fd, &n);
	fk.event_there = false;
	*out = fk.event;
	return 0;
}

/* An event of the device's last queue pair, or of its queue. */
static inline void fake_async(enum ibv_event_type type)
{
	fk.event = (struct ibv_async_event){ .event_type = type };
	if (type == IBV_EVENT_CQ_ERR)
		fk.event.element.cq = fk.qps->qp.send_cq;
	else
		fk.event.element.qp = &fk.qps->qp;
	fk.event_there = true;
	assert_int_equal(eventfd_write(fk.ctx.async_fd, 1), 0);
}

static inline void fake_async_ack(struct ibv_async_event *ev)
{
	(void)ev;
}

/* Nothing of it may be in use. */
static inline void fake_abandon(struct ibv_context *ctx)
{
	assert_ptr_equal(ctx, &fk.ctx);
	fk.abandoned++;
}

static inline int fake_pd_alloc(struct ibv_context *ctx, struct ibv_pd **out)
{
	int rc = fake_fails(FAKE_PD);
	struct fake_pd *p;

	*out = NULL;
	if (rc < 0)
		return rc;
	p = fake_alloc(sizeof(*p));
	p->pd.context = ctx;
	fk.n_pds++;
	*out = &p->pd;
	return 0;
}

static inline void fake_pd_free(struct ibv_pd *pd)
{
	assert_int_equal(((struct fake_pd *)pd)->users, 0);
	fk.n_pds--;
	free(pd);
}

static inline int fake_mr_reg(struct ibv_pd *pd, void *map, size_t len,
			      int access, struct ibv_mr **out)
{
	int rc = fake_fails(FAKE_MR);
	struct fake_mr *m;

	*out = NULL;
	if (rc < 0)
		return rc;
	if (fk.read_only && map == fk.read_only)
		return -EFAULT;
	if (fk.memlock && fk.locked + len > fk.memlock)
		return -ENOMEM;
	m = fake_alloc(sizeof(*m));
	m->mr.pd = pd;
	m->mr.addr = map;
	m->mr.length = len;
	m->mr.lkey = m->mr.rkey = ++fk.last_key * 256 + 7;
	m->access = access;
	m->next = fk.mrs;
	fk.mrs = m;
	fk.n_mrs++;
	fk.locked += len;
	((struct fake_pd *)pd)->users++;
	*out = &m->mr;
	return 0;
}

static inline void fake_mr_dereg(struct ibv_mr *mr)
{
	struct fake_mr *m = (struct fake_mr *)mr, **at = &fk.mrs;

	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	fk.n_mrs--;
	fk.locked -= mr->length;
	((struct fake_pd *)mr->pd)->users--;
	free(m);
}

/* --- completions --------------------------------------------------------- */

static inline int fake_channel_open(struct ibv_context *ctx,
				    struct ibv_comp_channel **out)
{
	int rc = fake_fails(FAKE_CHANNEL);
	struct ibv_comp_channel *ch;

	*out = NULL;
	if (rc < 0)
		return rc;
	ch = fake_alloc(sizeof(*ch));
	ch->context = ctx;
	ch->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	fk.n_comp++;
	*out = ch;
	return 0;
}

static inline void fake_channel_close(struct ibv_comp_channel *ch)
{
	for (struct fake_cq *c = fk.cqs; c; c = c->next)
		assert_ptr_not_equal(c->cq.channel, ch);
	fk.n_comp--;
	close(ch->fd);
	free(ch);
}

static inline int fake_channel_next(struct ibv_comp_channel *ch, void **user)
{
	for (struct fake_cq *c = fk.cqs; c; c = c->next) {
		if (c->cq.channel != ch || !c->event)
			continue;
		c->event = false;
		*user = c->cq.cq_context;
		return 0;
	}
	fake_unsignal(ch->fd);
	return -EAGAIN;
}

static inline int fake_cq_open(struct ibv_context *ctx, int entries, void *user,
			       struct ibv_comp_channel *ch, struct ibv_cq **out)
{
	int rc = fake_fails(FAKE_CQ);
	struct fake_cq *c;

	*out = NULL;
	if (rc < 0)
		return rc;
	c = fake_alloc(sizeof(*c));
	c->cq.context = ctx;
	c->cq.cqe = entries;
	c->cq.cq_context = user;
	c->cq.channel = ch;
	c->wc = fake_alloc((size_t)entries * sizeof(*c->wc));
	c->next = fk.cqs;
	fk.cqs = c;
	*out = &c->cq;
	return 0;
}

static inline void fake_cq_close(struct ibv_cq *cq)
{
	struct fake_cq *c = (struct fake_cq *)cq, **at = &fk.cqs;

	assert_int_equal(c->users, 0);
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	free(c->wc);
	free(c);
}

static inline void fake_complete(struct ibv_cq *cq, const struct ibv_wc *wc)
{
	struct fake_cq *c = (struct fake_cq *)cq;

	assert_true(c->n < (unsigned int)cq->cqe);
	c->wc[c->n++] = *wc;
	if (!c->armed)
		return;
	c->armed = false;
	c->event = true;
	fake_signal(cq->channel->fd);
}

static inline int fake_cq_poll(struct ibv_cq *cq, int n, struct ibv_wc *out)
{
	struct fake_cq *c = (struct fake_cq *)cq;
	int rc = fake_fails(FAKE_POLL);

	if (rc < 0)
		return rc;
	n = PL_MIN(n, (int)c->n);
	memcpy(out, c->wc, (size_t)n * sizeof(*out));
	c->n -= (unsigned int)n;
	memmove(c->wc, c->wc + n, c->n * sizeof(*out));
	return n;
}

static inline int fake_cq_arm(struct ibv_cq *cq)
{
	((struct fake_cq *)cq)->armed = true;
	return fake_fails(FAKE_ARM);
}

static inline int fake_srq_open(struct ibv_pd *pd, uint32_t entries,
				struct ibv_srq **out)
{
	int rc = fake_fails(FAKE_SRQ);
	struct fake_srq *s;

	(void)entries;
	*out = NULL;
	if (rc < 0)
		return rc;
	s = fake_alloc(sizeof(*s));
	s->srq.pd = pd;
	((struct fake_pd *)pd)->users++;
	fk.n_srqs++;
	*out = &s->srq;
	return 0;
}

static inline void fake_srq_close(struct ibv_srq *srq)
{
	struct fake_srq *s = (struct fake_srq *)srq;

	assert_int_equal(s->users, 0);
	while (s->recv) {
		struct fake_recv *r = s->recv;

		s->recv = r->next;
		free(r);
	}
	((struct fake_pd *)srq->pd)->users--;
	fk.n_srqs--;
	free(s);
}

static inline int fake_srq_post(struct ibv_srq *srq, struct ibv_recv_wr *wr)
{
	struct fake_recv *r, **at = &((struct fake_srq *)srq)->recv;
	int rc = fake_fails(FAKE_SRQ_POST);

	if (rc < 0)
		return rc;
	r = fake_alloc(sizeof(*r));
	r->id = wr->wr_id;
	r->sge = *wr->sg_list;
	while (*at)
		at = &(*at)->next;
	*at = r;
	fake_schedule();
	return 0;
}

/* --- work requests ------------------------------------------------------- */

static inline int fake_send(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct fake_qp *q = (struct fake_qp *)qp;
	struct fake_wr **at = &q->wrs;
	int rc = fake_fails(FAKE_SEND);

	while (*at)
		at = &(*at)->next;
	for (; rc == 0 && wr; wr = wr->next) {
		struct fake_wr *w = fake_alloc(sizeof(*w));

		if (++q->n > q->depth)
			fail_msg("the send queue overflows");
		w->wr = *wr;
		w->addr = wr->sg_list->addr;
		w->len = wr->sg_list->length;
		w->lkey = wr->sg_list->lkey;
		w->data = fake_alloc(w->len + 1);
		memcpy(w->data, (void *)(uintptr_t)w->addr, w->len);
		if (wr->send_flags & IBV_SEND_INLINE)
			assert_true(w->len <= q->inline_max);
		*at = w;
		at = &w->next;
	}
	fake_schedule();
	return rc;
}

static inline struct fake_mr *fake_mr_find(const struct ibv_pd *pd,
					   uint32_t key, uint64_t addr,
					   uint64_t len)
{
	for (struct fake_mr *m = fk.mrs; m; m = m->next) {
		uint64_t at = (uintptr_t)m->mr.addr;

		if (m->mr.rkey == key && m->mr.pd == pd && addr >= at &&
		    len <= m->mr.length && addr - at <= m->mr.length - len)
			return m;
	}
	return NULL;
}

/* Memory may be unmapped while it is registered. */
static inline bool fake_copy(void *to, const void *from, size_t len, bool out)
{
	struct iovec mine = { out ? (void *)(uintptr_t)from : to, len };
	struct iovec other = { out ? to : (void *)(uintptr_t)from, len };

	return (out ? process_vm_writev(getpid(), &mine, 1, &other, 1, 0) :
		process_vm_readv(getpid(), &mine, 1, &other, 1, 0)) ==
	       (ssize_t)len;
}

static inline enum ibv_wc_status fake_write(struct fake_qp *q,
					    const struct fake_wr *w)
{
	uint64_t to = w->wr.wr.rdma.remote_addr;
	struct fake_mr *m = fake_mr_find(q->peer->qp.pd, w->wr.wr.rdma.rkey, to,
					 w->len);

	if (!m || !(m->access & IBV_ACCESS_REMOTE_WRITE))
		return IBV_WC_REM_ACCESS_ERR;
	(void)fake_copy((void *)(uintptr_t)to, w->data, w->len, true);
	return IBV_WC_SUCCESS;
}

/* IBV_WC_RNR_RETRY_EXC_ERR: there is no buffer yet. */
static inline enum ibv_wc_status fake_deliver(struct fake_qp *q,
					      const struct fake_wr *w)
{
	struct fake_qp *p = q->peer;
	struct fake_srq *s = (struct fake_srq *)p->qp.srq;
	struct fake_recv *r = s->recv;
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS,
			     .opcode = IBV_WC_RECV,
			     .byte_len = w->len,
			     .qp_num = p->qp.qp_num };

	if (!r)
		return IBV_WC_RNR_RETRY_EXC_ERR;
	if (w->len > r->sge.length)
		return IBV_WC_REM_INV_REQ_ERR;
	assert_non_null(fake_mr_find(p->qp.pd, r->sge.lkey, r->sge.addr,
				     r->sge.length));
	memcpy((void *)(uintptr_t)r->sge.addr, w->data, w->len);
	wc.wr_id = r->id;
	s->recv = r->next;
	free(r);
	fake_complete(p->qp.recv_cq, &wc);
	return IBV_WC_SUCCESS;
}

static inline void fake_wr_done(struct fake_qp *q, enum ibv_wc_status status)
{
	struct fake_wr *w = q->wrs;
	struct ibv_wc wc = { .wr_id = w->wr.wr_id,
			     .status = status,
			     .opcode = w->wr.opcode == IBV_WR_SEND ?
					       IBV_WC_SEND : IBV_WC_RDMA_WRITE,
			     .qp_num = q->qp.qp_num };
	bool told = (w->wr.send_flags & IBV_SEND_SIGNALED) ||
		    status != IBV_WC_SUCCESS;

	q->wrs = w->next;
	free(w->data);
	free(w);
	q->unsignalled++;
	if (!told)
		return;
	q->n -= q->unsignalled;
	q->unsignalled = 0;
	fake_complete(q->qp.send_cq, &wc);
}

static inline void fake_qp_error(struct fake_qp *q)
{
	q->error = true;
	while (q->wrs)
		fake_wr_done(q, IBV_WC_WR_FLUSH_ERR);
}

static inline enum ibv_wc_status fake_wr_run(struct fake_qp *q)
{
	struct fake_wr *w = q->wrs;
	bool is_inline = w->wr.send_flags & IBV_SEND_INLINE;

	if (++fk.wrs == fk.wr_error_at)
		return fk.wr_error;
	if (!q->peer || q->peer->error)
		return IBV_WC_RETRY_EXC_ERR;
	if (!is_inline && !fake_mr_find(q->qp.pd, w->lkey, w->addr, w->len))
		return IBV_WC_LOC_PROT_ERR;
	if (!is_inline)
		(void)fake_copy(w->data, (void *)(uintptr_t)w->addr, w->len,
				false);
	return w->wr.opcode == IBV_WR_SEND ? fake_deliver(q, w) :
					     fake_write(q, w);
}

/* Returns whether something could be done. */
static inline bool fake_qp_run(struct fake_qp *q)
{
	enum ibv_wc_status status;

	if (!q->wrs)
		return false;
	if (q->error) {
		fake_qp_error(q);
		return true;
	}
	status = fake_wr_run(q);
	if (status == IBV_WC_RNR_RETRY_EXC_ERR)
		return false;
	fake_wr_done(q, status);
	if (status == IBV_WC_SUCCESS)
		return true;
	if (q->peer && status == IBV_WC_REM_ACCESS_ERR)
		fake_qp_error(q->peer);
	fake_qp_error(q);
	return true;
}

static inline void fake_run_cb(evutil_socket_t fd, short what, void *arg)
{
	struct timeval soon = { 0, 1000 };
	struct fake_qp *order[256];
	unsigned int n = 0, turns = fk.late ? 1 : 64;
	bool any = true;

	(void)fd;
	(void)what;
	(void)arg;
	if (fk.hold) {
		fk.hold--;
		event_add(fk.ev_run, &soon);
		return;
	}
	for (struct fake_qp *q = fk.qps; q && n < 256; q = q->next)
		order[n++] = q;
	while (any && turns--) {
		any = false;
		for (unsigned int i = 0; i < n; i++)
			any |= fake_qp_run(order[fk.backwards ? n - 1 - i : i]);
	}
	fk.hold = fk.late;
	if (any)
		fake_schedule();
}

/* --- the device ---------------------------------------------------------- */

static const struct pl_verbs_calls fake_calls = {
	.there = fake_there, .gids = fake_gids,
	.events_open = fake_events_open, .events_close = fake_events_close,
	.event_get = fake_event_get, .event_ack = fake_event_ack,
	.id_open = fake_id_open, .id_close = fake_id_close,
	.bind = fake_bind, .listen = fake_listen, .port = fake_port,
	.resolve_addr = fake_resolve_addr,
	.resolve_route = fake_resolve_route,
	.ack_timeout = fake_ack_timeout,
	.connect = fake_connect, .accept = fake_accept, .reject = fake_reject,
	.disconnect = fake_disconnect,
	.qp_create = fake_qp_create, .qp_destroy = fake_qp_destroy,
	.device_query = fake_query, .port_active = fake_port_active,
	.device_name = fake_name,
	.async_get = fake_async_get, .async_ack = fake_async_ack,
	.device_abandon = fake_abandon,
	.pd_alloc = fake_pd_alloc, .pd_free = fake_pd_free,
	.mr_reg = fake_mr_reg, .mr_dereg = fake_mr_dereg,
	.channel_open = fake_channel_open, .channel_close = fake_channel_close,
	.channel_next = fake_channel_next,
	.cq_open = fake_cq_open, .cq_close = fake_cq_close,
	.cq_poll = fake_cq_poll, .cq_arm = fake_cq_arm,
	.srq_open = fake_srq_open, .srq_close = fake_srq_close,
	.srq_post = fake_srq_post, .send = fake_send,
};

static inline void fake_init(struct event_base *base)
{
	memset(&fk, 0, sizeof(fk));
	fk.base = base;
	fk.ev_run = event_new(base, -1, 0, fake_run_cb, NULL);
	fk.ctx.device = &fk.device;
	fk.ctx.async_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	fk.there = true;
	fk.inline_max = 220;
}

/* The driver goes: everybody is told, and all queue pairs stop. */
static inline void fake_remove(void)
{
	fk.there = false;
	for (struct fake_qp *q = fk.qps; q; q = q->next)
		fake_qp_error(q);
	for (struct fake_id *i = fk.ids; i; i = i->next)
		fake_event(i, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL, NULL, 0);
}

/* What is under way fails, and messages of rdma_cm do harm (see verbs_qp.c). */
static inline void fake_port_goes(void)
{
	fk.port_down = true;
	fk.down_ns = pl_now_ns();
	for (struct fake_qp *q = fk.qps; q; q = q->next)
		fake_qp_error(q);
}

/* Nothing is under way. */
static inline bool fake_settled(void)
{
	for (struct fake_qp *q = fk.qps; q; q = q->next) {
		if (q->wrs)
			return false;
	}
	return true;
}

/* Nothing of it is left. */
static inline void fake_fini(void)
{
	event_free(fk.ev_run);
	close(fk.ctx.async_fd);
	assert_null(fk.ids);
	assert_null(fk.qps);
	assert_null(fk.mrs);
	assert_null(fk.cqs);
	assert_int_equal(fk.n_pds + fk.n_srqs + fk.n_channels + fk.n_comp, 0);
}

#endif
