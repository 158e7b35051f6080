/*
 * rdma/verbs_dev.c - the RDMA device of the verbs carrier, and registrations
 *
 * sysfs says which devices there are; rdma_cm knows which one has an address:
 * whoever listens there has found it. A device may go away at any time (its
 * driver is unloaded, the link is deleted): then everything made of it goes at
 * once, and from time to time somebody looks whether it is there again.
 */
#include "rdma/verbs.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/log.h"
#include "common/util.h"

union sockaddr_any {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

static void sockaddr_make(union sockaddr_any *out, const struct pl_addr *a,
			  uint16_t port)
{
	memset(out, 0, sizeof(*out));
	if (a->family == AF_INET6) {
		out->in6.sin6_family = AF_INET6;
		out->in6.sin6_port = htons(port);
		memcpy(&out->in6.sin6_addr, a->bytes, 16);
	} else {
		out->in.sin_family = AF_INET;
		out->in.sin_port = htons(port);
		memcpy(&out->in.sin_addr, a->bytes, 4);
	}
}

int pl_verbs_resolve(struct pl_verbs_carrier *c, struct rdma_cm_id *id,
		     const struct pl_addr *to, uint16_t port)
{
	union sockaddr_any src, dst;

	sockaddr_make(&src, &c->addr, 0);
	sockaddr_make(&dst, to, port);
	return c->v->resolve_addr(id, &src.sa, &dst.sa,
				  PL_VERBS_ATTEMPT_MS);
}

/* --- opened and closed --------------------------------------------------- */

/* Of a queue pair or a queue: the whole link ends, and is made anew. */
static void link_event(const struct pl_verbs_link *l, enum ibv_event_type type)
{
	pl_verbs_link_fail(l->peer, -EIO, type == IBV_EVENT_QP_ACCESS_ERR ?
			   "it wrote where it may not" :
			   ibv_event_type_str(type));
}

/* What else happens shows in completions and connections. */
static void async_event(struct pl_verbs_carrier *c,
			const struct ibv_async_event *ev)
{
	const struct pl_verbs_qp *q;

	switch (ev->event_type) {
	case IBV_EVENT_DEVICE_FATAL:
		pl_verbs_dev_lost(c, "the device has failed");
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		q = ev->element.qp->qp_context;
		link_event(q->link, ev->event_type);
		break;
	case IBV_EVENT_CQ_ERR:
		link_event(ev->element.cq->cq_context, ev->event_type);
		break;
	default:
		pl_info("carrier: RDMA device %s: %s", c->v->device_name(c->ctx),
			ibv_event_type_str(ev->event_type));
	}
}

static void async_cb(evutil_socket_t fd, short what, void *arg)
{
	struct pl_verbs_carrier *c = arg;
	struct ibv_async_event ev;

	(void)fd;
	(void)what;
	while (c->ctx && c->v->async_get(c->ctx, &ev) == 0) {
		const struct ibv_async_event copy = ev;

		/* Who destroys something waits for its events. */
		c->v->async_ack(&ev);
		async_event(c, &copy);
	}
}

/*
 * Which address to listen at. A device that has had this node's address is
 * waited for when it is gone: others take its place only by configuration.
 */
static int choose(struct pl_verbs_carrier *c, struct pl_err *err)
{
	struct pl_rdma_gid all[PL_RDMA_GIDS_MAX];
	const struct pl_rdma_gid *g;
	size_t n;
	int rc;

	c->addr = c->want.addr;
	if (!c->v->there())
		return pl_err_set(err, ENODEV, "this machine has no RDMA "
				  "device");
	n = c->v->gids(all, PL_ARRAY_SIZE(all));
	rc = pl_rdma_choose(all, n, &c->want, -1, &g, err);
	if (rc < 0)
		return c->want.device ? rc : 0;
	if (pl_addr_equal(&g->addr, &c->want.addr))
		c->own_addr = true;
	else if (c->own_addr && !c->want.device)
		return 0;
	c->addr = g->addr;
	return 0;
}

static int listen_open(struct pl_verbs_carrier *c, struct pl_err *err)
{
	char text[INET6_ADDRSTRLEN];
	union sockaddr_any sa;
	int rc;

	rc = c->v->events_open(&c->cm);
	if (rc < 0)
		return pl_err_set(err, -rc, "rdma_cm can't be used: %s",
				  strerror(-rc));
	rc = c->v->id_open(c->cm, NULL, &c->listen);
	if (rc < 0)
		return pl_err_set(err, -rc, "rdma_cm can't be used: %s",
				  strerror(-rc));
	sockaddr_make(&sa, &c->addr, 0);
	rc = c->v->bind(c->listen, &sa.sa);
	if (rc == 0 && !c->listen->verbs)
		rc = -ENODEV;
	if (rc < 0)
		return pl_err_set(err, ENODEV, "no RDMA device has the address "
				  "%s (%s)",
				  pl_addr_str(&c->addr, text), strerror(-rc));
	rc = c->v->listen(c->listen, 16);
	if (rc < 0)
		return pl_err_set(err, -rc, "rdma_cm can't listen on %s: %s",
				  pl_addr_str(&c->addr, text), strerror(-rc));
	c->ctx = c->listen->verbs;
	c->port = c->v->port(c->listen);
	return 0;
}

static int parts_open(struct pl_verbs_carrier *c, struct pl_err *err)
{
	int rc = c->v->device_query(c->ctx, &c->attr);

	if (rc == 0)
		rc = c->v->channel_open(c->ctx, &c->channel);
	if (rc < 0)
		return pl_err_set(err, -rc, "RDMA device %s can't be used: %s",
				  c->v->device_name(c->ctx), strerror(-rc));
	c->ev_cm = event_new(c->loop, c->cm->fd, EV_READ | EV_PERSIST,
			     pl_verbs_cm_cb, c);
	c->ev_channel = event_new(c->loop, c->channel->fd,
				  EV_READ | EV_PERSIST, pl_verbs_channel_cb, c);
	c->ev_async = event_new(c->loop, c->ctx->async_fd,
				EV_READ | EV_PERSIST, async_cb, c);
	if (!c->ev_cm || !c->ev_channel || !c->ev_async ||
	    event_add(c->ev_cm, NULL) < 0 ||
	    event_add(c->ev_channel, NULL) < 0 ||
	    event_add(c->ev_async, NULL) < 0)
		return pl_err_set(err, ENOMEM, "out of memory");
	return 0;
}

int pl_verbs_dev_open(struct pl_verbs_carrier *c, struct pl_err *err)
{
	char text[INET6_ADDRSTRLEN];
	int rc = choose(c, err);

	if (rc == 0)
		rc = listen_open(c, err);
	if (rc == 0)
		rc = parts_open(c, err);
	if (rc < 0) {
		pl_verbs_dev_close(c);
		return rc;
	}
	c->reopens = 0;
	c->had_device = true;
	pl_info("carrier: RDMA device %s, address %s, rdma_cm port %u",
		c->v->device_name(c->ctx), pl_addr_str(&c->addr, text),
		c->port);
	return 0;
}

void pl_verbs_dev_close(struct pl_verbs_carrier *c)
{
	struct event **ev[] = { &c->ev_cm, &c->ev_channel, &c->ev_async };

	for (size_t i = 0; i < PL_ARRAY_SIZE(ev); i++) {
		if (*ev[i])
			event_free(*ev[i]);
		*ev[i] = NULL;
	}
	pl_verbs_links_reap(c, true);
	if (c->channel)
		c->v->channel_close(c->channel);
	if (c->listen)
		c->v->id_close(c->listen);
	if (c->lost)
		c->v->device_abandon(c->ctx);
	if (c->cm)
		c->v->events_close(c->cm);
	c->channel = NULL;
	c->listen = NULL;
	c->cm = NULL;
	c->ctx = NULL;
	c->lost = false;
}

void pl_verbs_dev_lost(struct pl_verbs_carrier *c, const char *why)
{
	if (c->lost || !c->ctx)
		return;
	pl_warn("carrier: RDMA device %s: %s; lanes use tcp until it is there "
		"again", c->v->device_name(c->ctx), why);
	c->lost = true;
	event_active(c->ev_reap, EV_TIMEOUT, 0);
}

/* Where there never was a device, a look now and then is enough. */
void pl_verbs_dev_later(struct pl_verbs_carrier *c)
{
	bool soon = c->had_device || c->v->there();
	unsigned int shift = soon ? PL_MIN(c->reopens, 5u) : 5;

	pl_verbs_timer(c->ev_reopen, PL_MIN(c->retry_ms << shift,
					    PL_VERBS_RETRY_MAX_MS));
}

void pl_verbs_dev_reopen_cb(evutil_socket_t fd, short what, void *arg)
{
	struct pl_verbs_carrier *c = arg;
	struct pl_err err;

	(void)fd;
	(void)what;
	if (c->ctx)
		return;
	if (pl_verbs_dev_open(c, &err) == 0) {
		pl_verbs_link_device(c, true);
		return;
	}
	pl_debug("carrier: still no RDMA: %s", err.msg);
	c->reopens++;
	pl_verbs_dev_later(c);
}

/* --- registrations ------------------------------------------------------- */

const char *pl_verbs_memlock(char *out, size_t size)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_MEMLOCK, &rl) < 0 || rl.rlim_cur == RLIM_INFINITY)
		pl_format(out, size, "out of memory, or of the device's own "
			  "limits");
	else
		pl_format(out, size, "the limit of locked memory is %llu "
			  "bytes. Set LimitMEMLOCK=infinity in the agent's "
			  "unit, or ulimit -l unlimited",
			  (unsigned long long)rl.rlim_cur);
	return out;
}

static void memlock_say(struct pl_verbs_carrier *c, size_t len)
{
	char why[PL_VERBS_MEMLOCK_BYTES];

	if (c->memlock_said)
		return;
	c->memlock_said = true;
	pl_warn("carrier: %zu bytes can't be registered with the RDMA device: "
		"%s; until then tcp moves them", len,
		pl_verbs_memlock(why, sizeof(why)));
}

struct pl_verbs_mr *pl_verbs_mr_new(struct pl_verbs_peer *p, const void *map,
				    size_t len, int access, int *why)
{
	struct pl_verbs_carrier *c = p->c;
	struct pl_verbs_mr *m = calloc(1, sizeof(*m));
	int rc = m ? 0 : -ENOMEM;

	if (rc == 0 && !p->pd)
		rc = c->v->pd_alloc(c->ctx, &p->pd);
	if (rc == 0) {
		rc = c->v->mr_reg(p->pd, (void *)(uintptr_t)map, len, access,
				  &m->mr);
		if (rc == -ENOMEM || rc == -EAGAIN)
			memlock_say(c, len);
	}
	*why = rc;
	if (rc < 0) {
		free(m);
		return NULL;
	}
	m->peer = p;
	m->refs = 1;
	p->stats.memory_regions++;
	return m;
}

void pl_verbs_mr_put(struct pl_verbs_mr *m)
{
	if (!m || --m->refs)
		return;
	m->peer->stats.memory_regions--;
	m->peer->c->v->mr_dereg(m->mr);
	free(m);
}
