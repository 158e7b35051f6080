/*
 * rdma/verbs.c - the verbs carrier: puts by RDMA between the pods' memories
 *
 * Theory of operation
 *
 * This carrier is made on top of the tcp carrier. tcp connects the agents,
 * lets them know each other, brings all messages, and moves bytes where verbs
 * do not. Puts go by RDMA as soon as both sides have made a few reliable-
 * connected queue pairs (two, unless configured).
 *
 * Making them (verbs_link.c). The node whose name is lower offers, the other
 * one answers with an offer, or says that it has no verbs. An offer has an
 * address and port of rdma_cm and a random token; the queue pairs are made by
 * rdma_cm, which works with RoCE, InfiniBand and iWARP, and both sides show the
 * other's token in what rdma_cm carries along. So only who is on the agents'
 * channel can connect. When all queue pairs are made, each side tells its keys
 * and that it is ready. Only then is the peer `up` for the owner of the
 * carrier, unless that takes too long.
 *
 * One path at a time. From `up` to `down` a key's puts go one way: by verbs
 * when the peer is up with verbs and its registration of that memory is known,
 * else by tcp. When verbs fail in service (a completion with an error, retries
 * in vain, a device that goes), the tcp connections are ended as well: that is
 * `down`, after which the owner asks the peer how far it has come and repeats
 * the rest. The queue pairs are gone on both sides before `up` comes again, so
 * nothing of before arrives late. The next `up` is with tcp, at once; queue
 * pairs are tried beside it, and when they are made, connections are ended once
 * more to go over to them. Thus loss, fallback and return are one mechanism,
 * the one that every lane has anyhow.
 *
 * A put of data is cut into RDMA WRITEs. A put of words (counters) is a SEND
 * with these words, behind the WRITEs on the same queue pair: the other agent
 * has to be told in any case, and it stores the words itself, with release
 * order. So a lane's message costs two work requests, the order of data and
 * counters rests on what all transports promise of a SEND behind a WRITE, and
 * nothing is needed that iWARP lacks (immediate data, atomics).
 *
 * SENDs need receive buffers: those of a peer share one queue, each queue pair
 * has PL_VERBS_CREDITS of them, and each SEND says how many of the other's have
 * been taken. So no sender relies on "receiver not ready", which iWARP lacks.
 *
 * A message `after` a key's puts goes by tcp, as all messages do; behind the
 * puts goes a SEND, the barrier, and the receiver holds the message until the
 * barrier has come.
 *
 * Protection. Each peer has a protection domain of its own, so a key of one
 * peer is worth nothing on another's queue pairs, and guessing keys breaks the
 * queue pairs of who guesses. A revoked key stays registered until the peer
 * has said that its last put of it is over (or a time has passed): a
 * registration that goes away under a put would break the queue pairs for all
 * lanes. Counters are stored by the agent, which looks at its own list of
 * keys, so nothing that comes late can be seen.
 *
 * Memory. What puts read from is registered when it is first used. Older
 * kernels (before 6.3 or so) refuse a mapping that is read-only; such memory is
 * copied into a registered buffer first, and counted as that.
 *
 * Polling (verbs_poll.c). A link that works is looked at in each turn of the
 * event loop; after a while without completions it is armed, and the device
 * wakes the loop.
 */
#include "rdma/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"
#include "rdma/tcp.h"

/* --- peers --------------------------------------------------------------- */

static void peer_free(struct pl_verbs_peer *p)
{
	struct event *ev[] = { p->ev_timer, p->ev_flush, p->ev_revoke };

	for (size_t i = 0; i < PL_ARRAY_SIZE(ev); i++) {
		if (ev[i])
			event_free(ev[i]);
	}
	free(p);
}

static struct pl_verbs_peer *peer_of(struct pl_verbs_carrier *c,
				     struct pl_carrier_peer *tcp)
{
	struct pl_verbs_peer *p = tcp->user;

	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->base.carrier = &c->base;
	memcpy(p->base.node, tcp->node, sizeof(p->base.node));
	p->c = c;
	p->tcp = tcp;
	p->ev_timer = event_new(c->loop, -1, 0, pl_verbs_link_timer_cb, p);
	p->ev_flush = event_new(c->loop, -1, 0, pl_verbs_flush_cb, p);
	p->ev_revoke = event_new(c->loop, -1, 0, pl_verbs_revoke_cb, p);
	if (!p->ev_timer || !p->ev_flush || !p->ev_revoke) {
		peer_free(p);
		return NULL;
	}
	tcp->user = p;
	DL_APPEND(c->peers, p);
	return p;
}

void pl_verbs_timer(struct event *ev, unsigned int ms)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };

	event_add(ev, &tv);
}

void pl_verbs_tell_up(struct pl_verbs_peer *p, bool verbs)
{
	struct pl_verbs_carrier *c = p->c;

	if (p->base.is_up || !p->tcp_up || (c->only && !verbs))
		return;
	p->in_use = verbs;
	p->stats.fallbacks += p->was_verbs && !verbs;
	p->was_verbs = verbs;
	p->base.is_up = true;
	p->base.instance = p->tcp->instance;
	p->base.path = verbs ? "verbs" : pl_carrier_path(p->tcp);
	p->base.reason = 0;
	p->told = false;
	if (c->cb.up)
		c->cb.up(c->arg, &p->base);
}

static void tell_down(struct pl_verbs_peer *p, int reason)
{
	struct pl_verbs_carrier *c = p->c;
	bool first = p->base.is_up || !p->told;

	p->base.is_up = false;
	p->base.reason = reason;
	p->in_use = false;
	pl_verbs_send_drop(p, reason);
	if (!first || p->forgotten)
		return;
	p->told = true;
	if (c->cb.down)
		c->cb.down(c->arg, &p->base, reason);
}

/* --- what the tcp carrier says ------------------------------------------- */

static bool admit_cb(void *arg, const char *node, const struct pl_addr *from)
{
	struct pl_verbs_carrier *c = arg;

	return c->cb.admit(c->arg, node, from);
}

static bool expects_cb(void *arg, const struct pl_addr *from)
{
	struct pl_verbs_carrier *c = arg;

	return c->cb.expects(c->arg, from);
}

static void up_cb(void *arg, struct pl_carrier_peer *tcp)
{
	struct pl_verbs_peer *p = peer_of(arg, tcp);

	if (!p) {
		pl_error("carrier: node=%s: out of memory", tcp->node);
		return;
	}
	p->tcp_up = true;
	pl_verbs_link_start(p);
}

static void down_cb(void *arg, struct pl_carrier_peer *tcp, int reason)
{
	struct pl_verbs_peer *p = peer_of(arg, tcp);

	if (!p)
		return;
	p->tcp_up = false;
	pl_verbs_link_end(p);
	tell_down(p, reason);
}

/* The other side is up for its owner, whatever has been tried here. */
static bool other_is_up(struct pl_verbs_peer *p)
{
	if (!p)
		return false;
	if (!p->base.is_up && !p->c->only)
		pl_verbs_link_fail(p, -ECANCELED, "the other node uses tcp");
	return p->base.is_up;
}

static void message_cb(void *arg, struct pl_carrier_peer *tcp,
		       const void *data, size_t len)
{
	struct pl_verbs_carrier *c = arg;
	struct pl_verbs_peer *p = tcp->user;

	if (other_is_up(p) && c->cb.message)
		c->cb.message(c->arg, &p->base, data, len);
}

static void notify_cb(void *arg, struct pl_carrier_peer *tcp, uint64_t key,
		      void *user)
{
	struct pl_verbs_carrier *c = arg;
	struct pl_verbs_peer *p = tcp->user;

	if (other_is_up(p) && c->cb.notify)
		c->cb.notify(c->arg, &p->base, key, user);
}

static void link_cb(void *arg, struct pl_carrier_peer *tcp, const void *data,
		    size_t len)
{
	struct pl_verbs_peer *p = peer_of(arg, tcp);

	if (p && p->tcp_up)
		pl_verbs_link_heard(p, data, len);
}

/* --- the carrier's calls ------------------------------------------------- */

static struct pl_carrier_peer *verbs_peer_get(struct pl_carrier *base,
					      const char *node,
					      const struct pl_addr *addr,
					      uint16_t port)
{
	struct pl_verbs_carrier *c = pl_verbs_carrier_of(base);
	struct pl_carrier_peer *tcp = pl_carrier_peer_get(c->tcp, node, addr,
							  port);
	struct pl_verbs_peer *p = tcp ? peer_of(c, tcp) : NULL;

	return p ? &p->base : NULL;
}

/* All but its tcp peer, which is gone or goes by itself. */
static void peer_drop(struct pl_verbs_peer *p)
{
	struct pl_verbs_carrier *c = p->c;
	struct pl_verbs_source *s, *tmp;

	p->forgotten = true;
	p->base.is_up = p->tcp_up = p->in_use = false;
	pl_verbs_link_end(p);
	pl_verbs_send_drop(p, -ECANCELED);
	pl_verbs_send_unregister(p);
	HASH_ITER(hh, p->sources, s, tmp) {
		HASH_DEL(p->sources, s);
		free(s);
	}
	pl_verbs_recv_free(p);
	if (p->pd)
		c->v->pd_free(p->pd);
	p->pd = NULL;
	event_del(p->ev_timer);
	event_del(p->ev_flush);
	event_del(p->ev_revoke);
	DL_DELETE(c->peers, p);
	LL_PREPEND(c->forgotten, p);
	event_active(c->ev_reap, EV_TIMEOUT, 0);
}

static void verbs_peer_forget(struct pl_carrier_peer *base)
{
	struct pl_verbs_peer *p = pl_verbs_peer_of(base);

	p->forgotten = true;
	p->tcp->user = NULL;
	pl_carrier_peer_forget(p->tcp);
	peer_drop(p);
}

static void reap(struct pl_verbs_carrier *c)
{
	struct pl_verbs_peer *p, *tmp;

	pl_verbs_links_reap(c, false);
	LL_FOREACH_SAFE(c->forgotten, p, tmp) {
		LL_DELETE(c->forgotten, p);
		peer_free(p);
	}
}

static void reap_cb(evutil_socket_t fd, short what, void *arg)
{
	struct pl_verbs_carrier *c = arg;

	(void)fd;
	(void)what;
	reap(c);
	if (!c->lost)
		return;
	pl_verbs_link_device(c, false);
	pl_verbs_dev_close(c);
	pl_verbs_timer(c->ev_reopen, c->retry_ms);
}

/* Nobody is told of anything any more. */
static void mute(struct pl_verbs_carrier *c)
{
	struct pl_verbs_out *o, *tmp;
	struct pl_verbs_peer *p;
	struct pl_verbs_op *op;

	memset(&c->cb, 0, sizeof(c->cb));
	DL_FOREACH(c->peers, p) {
		HASH_ITER(hh, p->outs, o, tmp) {
			DL_FOREACH(o->ops, op)
				op->done = NULL;
		}
	}
}

static void verbs_destroy(struct pl_carrier *base)
{
	struct pl_verbs_carrier *c = pl_verbs_carrier_of(base);
	struct event *ev[] = { c->ev_poll, c->ev_reap, c->ev_reopen };

	mute(c);
	/* tcp's done callbacks are its owner's: it drops them itself. */
	for (struct pl_verbs_peer *p = c->peers; p; p = p->next)
		pl_verbs_link_end(p);
	if (c->tcp)
		pl_carrier_destroy(c->tcp);
	c->tcp = NULL;
	while (c->peers)
		peer_drop(c->peers);
	reap(c);
	pl_verbs_dev_close(c);
	for (size_t i = 0; i < PL_ARRAY_SIZE(ev); i++) {
		if (ev[i])
			event_free(ev[i]);
	}
	free(c);
}

static int events_make(struct pl_verbs_carrier *c)
{
	c->ev_poll = event_new(c->loop, -1, 0, pl_verbs_poll_cb, c);
	c->ev_reap = event_new(c->loop, -1, 0, reap_cb, c);
	c->ev_reopen = event_new(c->loop, -1, 0, pl_verbs_dev_reopen_cb, c);
	return c->ev_poll && c->ev_reap && c->ev_reopen ? 0 : -ENOMEM;
}

/* Without a device "auto" is tcp, until there is one. */
static int start(struct pl_verbs_carrier *c,
		 const struct pl_carrier_config *cfg, struct pl_err *err)
{
	struct pl_carrier_config tcp = *cfg;
	struct pl_err why;
	int rc = events_make(c);

	if (rc < 0)
		return pl_err_set(err, -rc, "out of memory");
	tcp.arg = c;
	tcp.cb = (struct pl_carrier_cb){ .admit = cfg->cb.admit ? admit_cb :
							      NULL,
					 .up = up_cb,
					 .down = down_cb,
					 .message = message_cb,
					 .notify = notify_cb,
					 .expects = cfg->cb.expects ?
							    expects_cb : NULL,
					 .link = link_cb };
	rc = pl_carrier_create(&pl_carrier_tcp, &tcp, &c->tcp, err);
	if (rc < 0)
		return rc;
	c->base.port = c->tcp->port;
	c->base.path = c->only ? "verbs" : c->tcp->path;
	memcpy(c->base.congestion, c->tcp->congestion,
	       sizeof(c->base.congestion));
	rc = pl_verbs_dev_open(c, &why);
	if (rc == 0)
		return 0;
	if (c->only)
		return pl_err_set(err, -rc, "carrier \"verbs\": %s", why.msg);
	/* A machine without RDMA is nothing to speak of. */
	pl_log(c->want.device ? PL_LOG_WARN :
	       c->v->there() ? PL_LOG_INFO : PL_LOG_DEBUG,
	       "carrier: no RDMA, lanes use tcp: %s", why.msg);
	pl_verbs_dev_later(c);
	return 0;
}

static int create(const struct pl_carrier_config *cfg, bool only,
		  struct pl_carrier **out, struct pl_err *err)
{
	struct pl_verbs_carrier *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return pl_err_set(err, ENOMEM, "out of memory");
	c->base.ops = only ? &pl_carrier_verbs : &pl_carrier_auto;
	c->only = only;
	c->v = cfg->verbs.calls ? cfg->verbs.calls : &pl_verbs_real;
	c->polling = cfg->verbs.polling;
	c->retry_ms = cfg->verbs.retry_ms ? cfg->verbs.retry_ms :
					    PL_VERBS_RETRY_FIRST_MS;
	c->qps = cfg->connections > 0 ? PL_MIN((unsigned int)cfg->connections,
					       PL_VERBS_QPS_MAX) :
					PL_VERBS_QPS_DEFAULT;
	c->want = (struct pl_rdma_want){ .device = cfg->verbs.device,
					 .port = cfg->verbs.port,
					 .index = cfg->verbs.gid_index,
					 .addr = cfg->listen_addr };
	c->loop = cfg->base;
	c->cb = cfg->cb;
	c->arg = cfg->arg;
	pl_spin_init(&c->spin);
	rc = start(c, cfg, err);
	if (rc < 0) {
		verbs_destroy(&c->base);
		return rc;
	}
	/* The tcp carrier has looked whether it is one. */
	memcpy(c->node, cfg->node, strlen(cfg->node));
	*out = &c->base;
	return 0;
}

/* RDMA has no encryption: where it was asked for, tcp does everything. */
static bool is_encrypted(const struct pl_carrier_config *cfg)
{
	return cfg->security.kind != PL_SECURITY_NONE && !cfg->security.plain;
}

static int auto_create(const struct pl_carrier_config *cfg,
		       struct pl_carrier **out, struct pl_err *err)
{
	const struct pl_verbs_calls *v = cfg->verbs.calls ? cfg->verbs.calls :
							    &pl_verbs_real;

	if (!is_encrypted(cfg))
		return create(cfg, false, out, err);
	if (v->there())
		pl_info("carrier: RDMA does not encrypt, lanes use tcp; "
			"\"encrypt\": false allows RDMA");
	return pl_carrier_create(&pl_carrier_tcp, cfg, out, err);
}

static int verbs_create(const struct pl_carrier_config *cfg,
			struct pl_carrier **out, struct pl_err *err)
{
	if (is_encrypted(cfg))
		return pl_err_set(err, EINVAL, "carrier \"verbs\": RDMA does "
				  "not encrypt; say \"encrypt\": false, or use "
				  "another carrier");
	return create(cfg, true, out, err);
}

static void verbs_refresh(struct pl_carrier *base)
{
	pl_carrier_refresh(pl_verbs_carrier_of(base)->tcp);
}

static size_t verbs_queued(const struct pl_carrier_peer *base)
{
	const struct pl_verbs_peer *p = pl_verbs_peer_of(base);

	return p->queued + pl_carrier_queued(p->tcp);
}

/* Of both; the tcp carrier counts neither its messages' nor RDMA's bytes. */
static void verbs_stats(const struct pl_carrier_peer *base,
			struct pl_carrier_stats *st)
{
	const struct pl_verbs_peer *p = pl_verbs_peer_of(base);
	const struct pl_carrier_stats *v = &p->stats;

	pl_carrier_stats(p->tcp, st);
	st->put_bytes += v->put_bytes;
	st->puts += v->puts;
	st->received_bytes += v->received_bytes;
	st->received_puts += v->received_puts;
	st->syscalls += v->syscalls;
	st->rdma_bytes = v->rdma_bytes;
	st->rdma_copied_bytes = v->rdma_copied_bytes;
	st->work_requests = v->work_requests;
	st->doorbells = v->doorbells;
	st->completions = v->completions;
	st->polls = v->polls;
	st->wakeups = v->wakeups;
	st->wire_bytes = v->wire_bytes;
	st->completion_errors = v->completion_errors;
	st->fallbacks = v->fallbacks;
	st->queue_pairs = p->in_use && p->link ? p->link->count : 0;
	st->memory_regions = v->memory_regions;
}

#define OPS(label, make) {						\
	.name = label,							\
	.create = make,							\
	.destroy = verbs_destroy,					\
	.peer_get = verbs_peer_get,					\
	.peer_forget = verbs_peer_forget,				\
	.expose = pl_verbs_expose,					\
	.extend = pl_verbs_extend,					\
	.revoke = pl_verbs_revoke,					\
	.source = pl_verbs_source,					\
	.source_end = pl_verbs_source_end,				\
	.put = pl_verbs_put,						\
	.message = pl_verbs_message,					\
	.refresh = verbs_refresh,					\
	.queued = verbs_queued,						\
	.stats = verbs_stats,						\
}
const struct pl_carrier_ops pl_carrier_auto = OPS("auto", auto_create);
const struct pl_carrier_ops pl_carrier_verbs = OPS("verbs", verbs_create);
