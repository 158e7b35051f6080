/*
 * daemonset/remote_lane.c - lanes to other nodes: opened, ended
 *
 * Theory of operation
 *
 * peer_wire.h has the messages. A lane here has the pod's own segment, mapped
 * read-only, and a replica of the peer pod's segment, which the other node
 * writes with puts under in_key; what the pod writes is put under out_key
 * (remote_pump.c).
 *
 * A lane ends when one pod's end is over. That pod's agent sends what is left
 * in the ring, then counters with a final state, then LANE_END. The other agent
 * thereby knows that the replica is final: it tells its pod (wait words,
 * broker, doorbell hang-up), answers LANE_END and forgets the lane. So a lane
 * lives in an agent as long as puts may arrive for it or bytes of it have to be
 * sent, and no longer.
 *
 * remote_resume.c has what happens when connections or agents are lost.
 */
#include "daemonset/remote_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"
#include "daemonset/guard.h"
#include "daemonset/numa.h"

static void timer_cb(evutil_socket_t fd, short what, void *arg);

/* --- made and freed ------------------------------------------------------ */

uint64_t pl_rlane_no(const uint8_t uid[PL_PEER_UID])
{
	uint64_t no;

	memcpy(&no, uid, sizeof(no));
	return no & (UINT64_MAX >> 2);
}

struct pl_rlane *pl_rlane_find(struct pl_rnode *n, uint64_t no, bool opener)
{
	uint64_t key = no << 1 | opener;
	struct pl_rlane *l;

	HASH_FIND(hh, n->lanes, &key, sizeof(key), l);
	return l;
}

/* The lane that a message is about: its sender is the other side. */
struct pl_rlane *pl_rlane_of(struct pl_rnode *n, const struct pl_peer_hdr *h)
{
	return pl_rlane_find(n, h->no, !(h->flags & PL_PEER_OPENER));
}

void pl_rlane_id_set(struct pl_rlane *l, uint64_t id)
{
	struct pl_remote *r = l->node->r;

	if (l->id)
		HASH_DELETE(hh_id, r->lanes, l);
	l->id = id;
	if (id)
		HASH_ADD(hh_id, r->lanes, id, sizeof(l->id), l);
}

void pl_rlane_free(struct pl_rlane *l)
{
	struct event *ev[] = { l->ev_bell, l->ev_timer, l->ev_pump };

	pl_rlane_id_set(l, 0);
	HASH_DELETE(hh, l->node->lanes, l);
	if (l->in_key)
		pl_carrier_revoke(l->node->peer, l->in_key);
	if (l->source)
		pl_carrier_source_end(l->node->peer, l->source);
	for (size_t i = 0; i < PL_ARRAY_SIZE(ev); i++) {
		if (ev[i])
			event_free(ev[i]);
	}
	pl_carry_sum_add(&l->node->r->carried, l->rep.base);
	/* The pod sees the hang-up after it sees the final state. */
	pl_guard_close(&l->bell);
	pl_seg_close(&l->own);
	pl_seg_close(&l->rep);
	free(l);
}

struct pl_rlane *pl_rlane_new(struct pl_rnode *n, uint64_t no, bool opener,
				 enum pl_rlane_state state)
{
	struct pl_rlane *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->sink.notify = pl_rlane_notify;
	l->node = n;
	l->no = no;
	l->opener = opener;
	l->key = no << 1 | opener;
	l->state = state;
	l->bell = -1;
	l->own = l->rep = PL_SEG_NONE;
	HASH_ADD(hh, n->lanes, key, sizeof(l->key), l);
	l->ev_timer = event_new(n->r->base, -1, 0, timer_cb, l);
	l->ev_pump = event_new(n->r->base, -1, 0, pl_rlane_pump_cb, l);
	if (!l->ev_timer || !l->ev_pump) {
		pl_rlane_free(l);
		return NULL;
	}
	return l;
}

static uint32_t flags_of(const struct pl_rlane *l)
{
	return l->opener ? PL_PEER_OPENER : 0;
}

/* LANE_ACCEPT, LANE_READY */
static void key_send(struct pl_rlane *l, enum pl_peer_type type)
{
	struct pl_peer_lane_key m = {
		.h = pl_peer_head(type, sizeof(m), l->no, flags_of(l)),
		.key = l->in_key,
	};

	if (type == PL_PEER_LANE_ACCEPT) {
		m.ring_bytes = (uint32_t)l->own.data_bytes;
		if (l->resumes)
			m.h.flags |= PL_PEER_RESUMES;
	}
	pl_rnode_send(l->node, &m, sizeof(m), 0);
}

void pl_rlane_end_answer(struct pl_rnode *n, uint64_t no, uint32_t flags)
{
	struct pl_peer_hdr h = pl_peer_head(PL_PEER_LANE_END, sizeof(h), no,
					    flags);

	pl_rnode_send(n, &h, sizeof(h), 0);
}

void pl_rlane_end_send(struct pl_rlane *l)
{
	struct pl_peer_hdr h = pl_peer_head(PL_PEER_LANE_END, sizeof(h), l->no,
					    flags_of(l));

	if (l->end_sent)
		return;
	l->end_sent = true;
	pl_rnode_send(l->node, &h, sizeof(h), l->out_key);
}

/* The replica says that the peer is gone, if it does not say so already. */
static void final_state(struct pl_rlane *l)
{
	struct pl_lane_seg *rep = l->rep.base;

	if (!rep)
		return;
	if (atomic_load_explicit(&rep->state, memory_order_relaxed) <
	    PL_STATE_CLOSED)
		/* Pairs with the acquire of the pod's library. */
		atomic_store_explicit(&rep->state, PL_STATE_DEAD,
				      memory_order_release);
	if (l->bell >= 0)
		pl_rlane_ring(l);
}

/* The other side is over: tell pod and broker, and forget the lane. */
void pl_rlane_over(struct pl_rlane *l)
{
	struct pl_remote *r = l->node->r;
	bool is_awaited = l->state == PL_RLANE_INCOMING;
	uint64_t id = l->id;

	/* An agent that ends leaves it to the next one. */
	if (!r->ending || !l->resumes)
		final_state(l);
	pl_rlane_free(l);
	/* An answer of the listener would be for who is no more. */
	if (id && (!r->ending || is_awaited))
		pl_broker_lane_ended(r->broker, id);
}

/* A lane that pl_remote_connect began does not come about. */
static void lane_fail(struct pl_rlane *l, int status, const char *text)
{
	pl_remote_lane_done *done = l->done;
	bool quiet = l->node->r->ending;
	void *arg = l->arg;

	pl_rlane_free(l);
	if (!quiet)
		done(arg, status, text, NULL);
}

void pl_rlane_unreachable(struct pl_rlane *l)
{
	struct pl_err err;
	int reason = l->node->reason ? l->node->reason : -ETIMEDOUT;

	pl_err_set(&err, EHOSTUNREACH, "the agent of node %s can't be reached: "
		   "%s", l->node->name, strerror(-reason));
	lane_fail(l, -EHOSTUNREACH, err.msg);
}

static void timer_cb(evutil_socket_t fd, short what, void *arg)
{
	struct pl_rlane *l = arg;

	(void)fd;
	(void)what;
	switch (l->state) {
	case PL_RLANE_WAITING:
		pl_rlane_unreachable(l);
		break;
	case PL_RLANE_ASKED:
		pl_rlane_end_answer(l->node, l->no, PL_PEER_OPENER);
		lane_fail(l, -ETIMEDOUT, "nobody accepted the lane in time");
		break;
	case PL_RLANE_INCOMING:
		break;
	case PL_RLANE_OPEN:
		l->tick = true;
		pl_rlane_pump(l);
		break;
	}
}

/* Replica, its key, doorbell. *theirs: the pod's end, the caller's. */
int pl_rlane_equip(struct pl_rlane *l, uint32_t ring_bytes, int *theirs,
		      struct pl_err *err)
{
	struct pl_numa *numa = l->node->r->numa;
	int fds[2], rc;

	if (l->own.base)
		pl_numa_begin(numa, l->own.base);
	rc = pl_seg_lane_create(ring_bytes, &l->rep, err);
	pl_numa_end(numa);
	if (rc < 0)
		return rc;
	((struct pl_lane_seg *)l->rep.base)->additions = PL_LANE_CARRY;
	rc = pl_carrier_expose(l->node->peer, l->rep.fd, l->rep.base,
			       PL_SEG_CTL_BYTES + (size_t)ring_bytes, &l->sink,
			       &l->in_key);
	if (rc < 0)
		return pl_err_set(err, -rc, "cannot make a lane: %s",
				  strerror(-rc));
	rc = pl_bell_pair(fds, err);
	if (rc < 0)
		return rc;
	l->bell = fds[0];
	*theirs = fds[1];
	l->ev_bell = event_new(l->node->r->base, l->bell, EV_READ | EV_PERSIST,
			       pl_rlane_bell_cb, l);
	if (!l->ev_bell)
		return pl_err_set(err, ENOMEM, "out of memory");
	return 0;
}

int pl_rlane_own_open(struct pl_rlane *l, int seg_fd, uint32_t ring_bytes,
		    struct pl_err *err)
{
	int fd = fcntl(seg_fd, F_DUPFD_CLOEXEC, 3);

	if (fd < 0)
		return pl_err_sys(err, "cannot keep a segment");
	return pl_seg_lane_open(fd, ring_bytes, &l->own, err);
}

int pl_rlane_start(struct pl_rlane *l, struct pl_err *err)
{
	int rc;

	/* Who accepts shows its segment when the replica is made. */
	pl_numa_move(l->node->r->numa, l->rep.base,
		     PL_SEG_CTL_BYTES + l->rep.data_bytes, l->own.base);
	rc = pl_carrier_source(l->node->peer, l->own.fd, l->own.base,
			       PL_SEG_CTL_BYTES + l->own.data_bytes,
			       &l->source);
	if (rc == 0 && event_add(l->ev_bell, NULL) < 0)
		rc = -ENOMEM;
	if (rc < 0)
		return pl_err_set(err, -rc, "cannot start a lane: %s",
				  strerror(-rc));
	event_del(l->ev_timer);
	l->state = PL_RLANE_OPEN;
	l->stale = true;
	return 0;
}

/* --- the opener ---------------------------------------------------------- */

/* What is left of the time that the pod gave; -1: all. */
static int left_ms(const struct pl_rlane *l)
{
	uint64_t now = pl_now_ns();

	if (l->give_up_ns == UINT64_MAX)
		return -1;
	return now >= l->give_up_ns ?
		       0 : (int)((l->give_up_ns - now) / 1000000 + 1);
}

void pl_rlane_ask(struct pl_rlane *l)
{
	int ms = left_ms(l);

	event_del(l->ev_timer);
	l->state = l->node->is_up ? PL_RLANE_ASKED : PL_RLANE_WAITING;
	if (l->node->is_up) {
		l->ask.timeout_ms = ms;
		pl_rnode_send(l->node, &l->ask, sizeof(l->ask), 0);
	} else {
		int most = pl_rlane_may_come(l) ?
				   (int)(l->node->r->resume_ns / 1000000) :
				   PL_REMOTE_REACH_MS;

		ms = ms < 0 ? most : PL_MIN(ms, most);
	}
	if (ms >= 0)
		pl_rtimer(l->ev_timer, ms);
}

static int ask_make(struct pl_peer_lane_open *m, uint64_t no,
		    const struct pl_remote_lane *lane, struct pl_err *err)
{
	m->h = pl_peer_head(PL_PEER_LANE_OPEN, sizeof(*m), no, PL_PEER_OPENER |
			    (lane->resumes ? PL_PEER_RESUMES : 0));
	m->ring_bytes = lane->ring_bytes;
	memcpy(m->uid, lane->uid, sizeof(m->uid));
	pl_peer_addr_make(&m->src, &lane->src);
	pl_peer_addr_make(&m->dst, &lane->dst);
	if (pl_peer_name_make(m->ns, sizeof(m->ns), lane->src_ns) < 0 ||
	    pl_peer_name_make(m->service, sizeof(m->service),
			      lane->service) < 0)
		return pl_err_set(err, EINVAL, "a name is too long");
	return 0;
}

int pl_remote_connect(struct pl_remote *r, const struct pl_remote_lane *lane,
		      pl_remote_lane_done *done, void *arg, struct pl_err *err)
{
	struct pl_rnode *n;
	struct pl_rlane *l;
	int rc = pl_rnode_reach(r, lane->node->name, &n, err);

	if (rc < 0)
		return rc;
	if (pl_rlane_find(n, pl_rlane_no(lane->uid), true))
		return pl_err_set(err, EEXIST, "this lane is there");
	l = pl_rlane_new(n, pl_rlane_no(lane->uid), true, PL_RLANE_WAITING);
	if (!l)
		return pl_err_set(err, ENOMEM, "out of memory");
	rc = ask_make(&l->ask, l->no, lane, err);
	if (rc == 0)
		rc = pl_rlane_own_open(l, lane->seg_fd, lane->ring_bytes, err);
	if (rc < 0) {
		pl_rlane_free(l);
		return rc;
	}
	pl_rlane_id_set(l, lane->id);
	l->resumes = lane->resumes;
	l->done = done;
	l->arg = arg;
	l->give_up_ns = lane->timeout_ms < 0 ? UINT64_MAX : pl_now_ns() +
			(uint64_t)lane->timeout_ms * 1000000u;
	pl_rlane_ask(l);
	return 0;
}

void pl_rlane_on_accept(struct pl_rnode *n, const void *msg)
{
	struct pl_rlane *l;
	struct pl_peer_lane_key m;
	struct pl_remote_lane_up up = { .replica_fd = -1, .bell_fd = -1 };
	struct pl_err err;
	int rc;

	memcpy(&m, msg, sizeof(m));
	l = pl_rlane_of(n, &m.h);
	/* Asked for twice, as a connection was lost, it is accepted twice. */
	if (l && l->opener && l->state == PL_RLANE_OPEN)
		return;
	if (!l || !l->opener || l->state != PL_RLANE_ASKED) {
		pl_rlane_end_answer(n, m.h.no, PL_PEER_OPENER);
		return;
	}
	rc = m.key && pl_ring_bytes_valid(m.ring_bytes) ? 0 :
		pl_err_set(&err, EPROTO, "node %s accepted the lane in a way "
			   "that is not understood", n->name);
	if (rc == 0)
		rc = pl_rlane_equip(l, m.ring_bytes, &up.bell_fd, &err);
	if (rc == 0)
		rc = pl_rlane_start(l, &err);
	if (rc < 0) {
		pl_close_fd(&up.bell_fd);
		pl_rlane_end_answer(n, m.h.no, PL_PEER_OPENER);
		lane_fail(l, rc, err.msg);
		return;
	}
	l->out_key = m.key;
	l->resumes = l->resumes && (m.h.flags & PL_PEER_RESUMES);
	key_send(l, PL_PEER_LANE_READY);
	up.replica_fd = l->rep.fd;
	up.ring_bytes = m.ring_bytes;
	up.path = pl_carrier_path(n->peer);
	pl_rtimer(l->ev_pump, 0);
	/* May close the lane, which frees it later. */
	l->done(l->arg, 0, NULL, &up);
	pl_close_fd(&up.bell_fd);
}

void pl_rlane_on_refuse(struct pl_rnode *n, const void *msg)
{
	const struct pl_peer_refuse *m = msg;
	char text[PL_PEER_TEXT];
	struct pl_rlane *l = pl_rlane_find(n, m->h.no, true);
	int code = m->code;

	if (!l || l->state != PL_RLANE_ASKED)
		return;
	pl_peer_text(text, m->text);
	lane_fail(l, code > 0 && code < 4096 ? -code : -EPROTO, text);
}

/* --- the acceptor -------------------------------------------------------- */

static void incoming_done(void *arg, int status, const char *text, int seg_fd,
			  uint32_t ring_bytes)
{
	struct pl_rlane *l = arg;
	struct pl_rnode *n = l->node;
	struct pl_err err;
	uint64_t id = l->id;
	int rc = status;

	if (status < 0) {
		pl_rlane_id_set(l, 0);
		pl_err_set(&err, -status, "%s", text ? text : "refused");
	} else {
		rc = pl_rlane_own_open(l, seg_fd, ring_bytes, &err);
		if (rc == 0)
			rc = pl_rlane_start(l, &err);
	}
	if (rc == 0) {
		/* Another agent, or one that was lost, asks for it again. */
		if (!l->paused)
			key_send(l, PL_PEER_LANE_ACCEPT);
		return;
	}
	pl_peer_refuse_send(n, PL_PEER_LANE_REFUSE, l->no, rc, err.msg);
	final_state(l);
	pl_rlane_free(l);
	if (status == 0)
		pl_broker_lane_ended(n->r->broker, id);
}

static int incoming(struct pl_rlane *l, const struct pl_peer_lane_open *m,
		    struct pl_err *err)
{
	struct pl_broker_incoming in = {
		.src_ns = m->ns,
		.service = m->service,
		.ring_bytes = m->ring_bytes,
		.timeout_ms = m->timeout_ms,
		.path = pl_carrier_path(l->node->peer),
		.uid = m->uid,
	};
	pl_auto_fd theirs = -1;
	bool resumes = false;
	uint64_t id;
	int rc;

	if (pl_peer_addr_take(&m->src, &in.src) < 0 ||
	    pl_peer_addr_take(&m->dst, &in.dst) < 0 ||
	    !pl_peer_name_ok(m->ns, sizeof(m->ns), true) ||
	    !pl_peer_name_ok(m->service, sizeof(m->service), false) ||
	    !pl_ring_bytes_valid(m->ring_bytes) || m->timeout_ms < -1)
		return pl_err_set(err, EPROTO, "a request for a lane that is "
				  "not understood");
	rc = pl_rnode_speaks_for(l->node, &in.src, err);
	if (rc == 0)
		rc = pl_rlane_equip(l, m->ring_bytes, &theirs, err);
	if (rc < 0)
		return rc;
	in.replica_fd = l->rep.fd;
	in.bell_fd = theirs;
	rc = pl_broker_incoming(l->node->r->broker, &in, incoming_done, l, &id,
				&resumes, err);
	if (rc < 0)
		return rc;
	pl_rlane_id_set(l, id);
	l->ask = *m;
	l->resumes = resumes && (m->h.flags & PL_PEER_RESUMES);
	return 0;
}

/* The same request once more, of an agent that does not know what became. */
static int open_again(struct pl_rlane *l, const struct pl_peer_lane_open *m,
		      struct pl_err *err)
{
	const struct pl_lane_seg *rep = l->rep.base;

	if (memcmp(m->uid, l->ask.uid, sizeof(m->uid)) ||
	    memcmp(&m->src, &l->ask.src, sizeof(m->src)) ||
	    memcmp(&m->dst, &l->ask.dst, sizeof(m->dst)) ||
	    m->ring_bytes != l->rep.data_bytes || l->sent ||
	    atomic_load_explicit(&rep->head, memory_order_relaxed))
		return pl_err_set(err, EEXIST, "a lane of this uid is there");
	/* What its pod reads is what it was told first. */
	if (l->state == PL_RLANE_OPEN)
		key_send(l, PL_PEER_LANE_ACCEPT);
	else
		l->paused = false;
	return 0;
}

static int open_new(struct pl_rnode *n, const struct pl_peer_lane_open *m,
		    struct pl_err *err)
{
	struct pl_rlane *l = pl_rlane_new(n, m->h.no, false,
					  PL_RLANE_INCOMING);
	int rc;

	if (!l)
		return pl_err_set(err, ENOMEM, "out of memory");
	rc = incoming(l, m, err);
	if (rc < 0)
		pl_rlane_free(l);
	return rc;
}

void pl_rlane_on_open(struct pl_rnode *n, const void *msg)
{
	struct pl_peer_lane_open m;
	struct pl_rlane *l;
	struct pl_err err;
	int rc;

	memcpy(&m, msg, sizeof(m));
	l = pl_rlane_find(n, m.h.no, false);
	if (!(m.h.flags & PL_PEER_OPENER) || m.h.no != pl_rlane_no(m.uid))
		rc = pl_err_set(&err, EPROTO, "a request for a lane that is "
				"not understood");
	else
		rc = l ? open_again(l, &m, &err) : open_new(n, &m, &err);
	if (rc == -EACCES)
		pl_rnode_complain(n, &m.src, err.msg);
	if (rc < 0)
		pl_peer_refuse_send(n, PL_PEER_LANE_REFUSE, m.h.no, rc,
				    err.msg);
}

/* The key of the replica there: puts can begin. */
void pl_rlane_on_ready(struct pl_rnode *n, const void *msg)
{
	const struct pl_peer_lane_key *m = msg;
	struct pl_rlane *l = pl_rlane_of(n, &m->h);

	if (!l || l->opener || l->state != PL_RLANE_OPEN || l->out_key ||
	    !m->key) {
		pl_rlane_end_answer(n, m->h.no, 0);
		return;
	}
	l->out_key = m->key;
	l->paused = false;
	pl_rlane_pump(l);
}

/* --- ended --------------------------------------------------------------- */

void pl_rlane_on_end(struct pl_rnode *n, const void *msg)
{
	struct pl_rlane *l = pl_rlane_of(n, msg);

	if (!l)
		return;
	switch (l->state) {
	case PL_RLANE_WAITING:
	case PL_RLANE_ASKED:
		lane_fail(l, -ECONNRESET, "the other node gave the lane up");
		break;
	case PL_RLANE_INCOMING:
		pl_rlane_over(l);
		break;
	case PL_RLANE_OPEN:
		pl_rlane_end_send(l);
		pl_rlane_over(l);
		break;
	}
}

void pl_rlane_hangup(struct pl_rlane *l)
{
	const struct pl_lane_seg *own = l->own.base;

	event_del(l->ev_bell);
	if (l->closing)
		return;
	l->closing = true;
	/* Pairs with the release of pl_lane_close in the pod. */
	l->died = atomic_load_explicit(&own->state, memory_order_acquire) !=
		  PL_STATE_CLOSED;
}

void pl_remote_lane_close(struct pl_remote *r, uint64_t id, bool died)
{
	struct pl_rlane *l;

	HASH_FIND(hh_id, r->lanes, &id, sizeof(id), l);
	if (!l)
		return;
	pl_rlane_id_set(l, 0);
	switch (l->state) {
	case PL_RLANE_ASKED:
		pl_rlane_end_answer(l->node, l->no, PL_PEER_OPENER);
		pl_rlane_free(l);
		break;
	case PL_RLANE_WAITING:
		pl_rlane_free(l);
		break;
	case PL_RLANE_INCOMING:
		pl_peer_refuse_send(l->node, PL_PEER_LANE_REFUSE, l->no,
				    -ECONNREFUSED, "the listener has gone");
		pl_rlane_free(l);
		break;
	case PL_RLANE_OPEN:
		if (!l->closing)
			l->died = died;
		l->closing = true;
		pl_rlane_pump(l);
		break;
	}
}
