/*
 * daemonset/remote_resume.c - lanes go on after a loss: of a connection, of the
 * other node's agent, of the agent before this one
 *
 * Theory of operation
 *
 * peer_wire.h has the messages. What is needed to go on is, for each direction:
 * the sending pod's ring, which keeps all bytes that the reader has not
 * consumed; and how far the replica at the reader's node has come, which that
 * node's agent says (LANE_SYNC). From there the bytes are put once more. It
 * does not matter who counted before.
 *
 * A connection is lost. A lane that is open pauses: nothing is put until the
 * other side has said how far its replica has come. A lane that is asked for is
 * asked for again, a lane that is offered to a pod here stays so.
 *
 * The other agent is a new one (its carrier has another instance). Its keys are
 * of no use any more; its pods will show it their lanes. A lane of a pod that
 * can't do that ends.
 *
 * This agent is the new one. A pod shows its own segment and the old replica
 * (pl_remote_lane_resume), both checked to be sealed lane segments. Counters in
 * them are checked against each other like those of any pod; what is wrong with
 * them is that pod's loss alone, as the other side checks what it is told. The
 * new replica gets the counters of the old one and the bytes between its pod's
 * tail and its head, so the pod may change from one to the other at any moment.
 * Numbers in wait words go on from where they were, so that the pod does not
 * take one for rung already; when it has changed over it rings its doorbell.
 *
 * What is paused for resume_ms ends, as if the other pod had died.
 */
#include "daemonset/remote_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"

#define NS_PER_MS UINT64_C(1000000)

/* --- how far we are ------------------------------------------------------ */

static void sync_send(struct pl_rlane *l, uint32_t flags)
{
	const struct pl_lane_seg *rep = l->rep.base;
	struct pl_peer_lane_sync m = {
		.h = pl_peer_head(PL_PEER_LANE_SYNC, sizeof(m), l->no,
				  (l->opener ? PL_PEER_OPENER : 0) | flags),
		.key = l->in_key,
		.have = atomic_load_explicit(&rep->head, memory_order_relaxed),
		.own_ring = (uint32_t)l->own.data_bytes,
		.rep_ring = (uint32_t)l->rep.data_bytes,
		.src = l->ask.src,
		.dst = l->ask.dst,
	};

	memcpy(m.uid, l->ask.uid, sizeof(m.uid));
	pl_rnode_send(l->node, &m, sizeof(m), 0);
}

/* Does the other side speak of the same lane? */
static bool is_same(const struct pl_rlane *l, const struct pl_peer_lane_sync *m)
{
	return !memcmp(m->uid, l->ask.uid, sizeof(m->uid)) &&
	       !memcmp(&m->src, &l->ask.src, sizeof(m->src)) &&
	       !memcmp(&m->dst, &l->ask.dst, sizeof(m->dst)) &&
	       m->own_ring == l->rep.data_bytes &&
	       m->rep_ring == l->own.data_bytes;
}

/* Their replica may lack what was sent, at most a ring of it. */
static bool have_ok(const struct pl_rlane *l, uint64_t have)
{
	uint64_t sent = l->sent, sum;

	/* Nobody here knows what was sent: the pod does. */
	if (l->resumed)
		sent = pl_rlane_head(l, &sum);
	return sent - have <= l->own.data_bytes;
}

static bool adopt(struct pl_rlane *l, const struct pl_peer_lane_sync *m)
{
	if (!m->key || (l->out_key && l->out_key != m->key) ||
	    !have_ok(l, m->have))
		return false;
	pl_carry_add(&pl_rlane_carry(l)->resumes, 1);
	l->out_key = m->key;
	l->sent_max = PL_MAX(l->sent_max, l->sent);
	l->sent = l->goal = m->have;
	l->summed_sum = 0;
	/* A final state counts only behind all bytes: it is put anew. */
	l->state_sent = PL_STATE_OPEN;
	l->stale = true;
	l->end_sent = false;
	l->paused = false;
	l->resumed = false;
	l->blocked = false;
	return true;
}

/* Of a lane that is not here: will its pod show it, or is it over? */
static void unknown(struct pl_rnode *n, const struct pl_peer_lane_sync *m)
{
	bool by_opener = m->h.flags & PL_PEER_OPENER;
	struct pl_addr pod;

	if (pl_peer_addr_take(by_opener ? &m->dst : &m->src, &pod) == 0 &&
	    pl_broker_may_show(n->r->broker, &pod))
		return;
	pl_rlane_end_answer(n, m->h.no, by_opener ? 0 : PL_PEER_OPENER);
}

void pl_rlane_on_sync(struct pl_rnode *n, const void *msg)
{
	const struct pl_peer_lane_sync *m = msg;
	struct pl_rlane *l = pl_rlane_of(n, &m->h);

	if (!l) {
		unknown(n, m);
		return;
	}
	/* Not open on this side: it is about to be asked for, or accepted. */
	if (l->state != PL_RLANE_OPEN)
		return;
	if (!is_same(l, m)) {
		pl_warn("node=%s lane=%llu: resumed as if it were another one",
			n->name, (unsigned long long)l->id);
		pl_rlane_end_answer(n, m->h.no, l->opener ? PL_PEER_OPENER : 0);
		return;
	}
	if (l->paused && !adopt(l, m)) {
		pl_warn("node=%s lane=%llu: resumed in a way that is not "
			"understood", n->name, (unsigned long long)l->id);
		l->out_key = m->key;
		pl_rlane_end_send(l);
		pl_rlane_over(l);
		return;
	}
	if (m->h.flags & PL_PEER_ASK)
		sync_send(l, 0);
	pl_rlane_pump(l);
}

/* --- nodes come and go --------------------------------------------------- */

void pl_rlane_up(struct pl_rlane *l)
{
	if (l->state == PL_RLANE_WAITING)
		pl_rlane_ask(l);
	else if (l->state == PL_RLANE_OPEN)
		sync_send(l, PL_PEER_ASK);
}

static void pause_lane(struct pl_rlane *l)
{
	if (!l->paused)
		l->paused_ns = pl_now_ns();
	l->paused = true;
}

bool pl_rlane_may_come(const struct pl_rlane *l)
{
	struct pl_addr src;

	return l->node->instance ||
	       (pl_peer_addr_take(&l->ask.src, &src) == 0 &&
		pl_broker_may_show(l->node->r->broker, &src));
}

void pl_rlane_down(struct pl_rlane *l)
{
	switch (l->state) {
	case PL_RLANE_WAITING:
	case PL_RLANE_ASKED:
		if (pl_rlane_may_come(l))
			pl_rlane_ask(l);
		else
			pl_rlane_unreachable(l);
		break;
	case PL_RLANE_INCOMING:
	case PL_RLANE_OPEN:
		pause_lane(l);
		break;
	}
}

void pl_rlane_restarted(struct pl_rlane *l)
{
	if (l->state == PL_RLANE_WAITING || l->state == PL_RLANE_ASKED)
		return;
	if (!l->resumes) {
		pl_rlane_over(l);
		return;
	}
	l->out_key = 0;
	/* Its pods have as much time as the agent had. */
	l->paused = true;
	l->paused_ns = pl_now_ns();
}

void pl_rlane_lost(struct pl_rlane *l)
{
	if (l->state == PL_RLANE_WAITING || l->state == PL_RLANE_ASKED)
		pl_rlane_unreachable(l);
	else
		pl_rlane_over(l);
}

uint64_t pl_rlane_left_ns(const struct pl_rlane *l, uint64_t now)
{
	uint64_t limit = l->node->r->resume_ns, since = now - l->paused_ns;

	if (!l->paused)
		return UINT64_MAX;
	/* Its pod is waiting for nothing but the end. */
	if (l->closing && l->node->is_up)
		limit = PL_MIN(limit, PL_REMOTE_LAST_MS * NS_PER_MS);
	return since >= limit ? 0 : limit - since;
}

/* --- lanes of the agent before ------------------------------------------- */

static uint32_t later(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0 ? a : b;
}

/* What can be read of the old replica, and the counters of its pod. */
static int fill(struct pl_rlane *l, const struct pl_seg *old,
		struct pl_err *err)
{
	const struct pl_lane_seg *from = old->base, *own = l->own.base;
	struct pl_lane_seg *to = l->rep.base;
	uint64_t state = atomic_load(&from->state);
	uint64_t head = atomic_load(&from->head);
	uint64_t peer_tail = atomic_load(&from->tail);
	uint64_t tail = atomic_load(&own->tail);
	uint64_t sum, sent = pl_rlane_head(l, &sum);
	size_t at = tail & (old->data_bytes - 1);

	if (state > PL_STATE_DEAD || head - tail > old->data_bytes ||
	    sent - peer_tail > l->own.data_bytes)
		return pl_err_set(err, EPROTO, "the counters of the lane that "
				  "is to be resumed contradict each other");
	memcpy((char *)pl_seg_data(&l->rep) + at,
	       (const char *)pl_seg_data(old) + at, head - tail);
	atomic_store(&to->head, head);
	atomic_store(&to->tail, peer_tail);
	atomic_store(&to->sum, atomic_load(&from->sum));
	atomic_store(&to->state, state);
	l->tail_sent = tail;
	l->wait_no = later(atomic_load(&from->rx_wait),
			   atomic_load(&from->tx_wait));
	l->closing = atomic_load(&own->state) >= PL_STATE_CLOSED;
	return 0;
}

static int fill_from(struct pl_rlane *l, int fd, uint32_t ring_bytes,
		     struct pl_err *err)
{
	struct pl_seg old = PL_SEG_NONE;
	int rc, copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	if (copy < 0)
		return pl_err_sys(err, "cannot keep a replica");
	rc = pl_seg_lane_open(copy, ring_bytes, &old, err);
	if (rc == 0)
		rc = fill(l, &old, err);
	pl_seg_close(&old);
	return rc;
}

static int lane_make(struct pl_rlane *l, const struct pl_remote_resume *in,
		     struct pl_remote_lane_up *up, struct pl_err *err)
{
	int rc = pl_rlane_own_open(l, in->seg_fd, in->ring_bytes, err);

	if (rc == 0)
		rc = pl_rlane_equip(l, in->peer_ring_bytes, &up->bell_fd, err);
	if (rc == 0)
		rc = fill_from(l, in->replica_fd, in->peer_ring_bytes, err);
	if (rc == 0)
		rc = pl_rlane_start(l, err);
	if (rc < 0)
		return rc;
	up->replica_fd = l->rep.fd;
	up->ring_bytes = in->peer_ring_bytes;
	up->path = pl_carrier_path(l->node->peer);
	return 0;
}

int pl_remote_lane_resume(struct pl_remote *r,
			  const struct pl_remote_resume *in,
			  struct pl_remote_lane_up *up, struct pl_err *err)
{
	const uint64_t no = pl_rlane_no(in->uid);
	struct pl_rnode *n;
	struct pl_rlane *l;
	int rc = pl_rnode_reach(r, in->node->name, &n, err);

	if (rc < 0)
		return rc;
	if (pl_rlane_find(n, no, in->opener))
		return pl_err_set(err, EEXIST, "this lane is there");
	l = pl_rlane_new(n, no, in->opener, PL_RLANE_OPEN);
	if (!l)
		return pl_err_set(err, ENOMEM, "out of memory");
	memcpy(l->ask.uid, in->uid, sizeof(l->ask.uid));
	pl_peer_addr_make(&l->ask.src, &in->src);
	pl_peer_addr_make(&l->ask.dst, &in->dst);
	l->resumes = l->resumed = true;
	pause_lane(l);
	up->bell_fd = -1;
	rc = lane_make(l, in, up, err);
	if (rc < 0) {
		pl_close_fd(&up->bell_fd);
		pl_rlane_free(l);
		return rc;
	}
	pl_rlane_id_set(l, in->id);
	if (n->is_up)
		sync_send(l, PL_PEER_ASK);
	pl_rnode_watch(n);
	return 0;
}
