/*
 * shm/lane_resume.c - lanes go on with another agent
 *
 * Theory of operation
 *
 * A lane within the node needs no agent. When there is another one, it is shown
 * (LANE_SHOW), so that it is counted and listed; whatever comes of that, the
 * lane goes on.
 *
 * A lane to another node has a replica of the peer's segment, which only its
 * agent can write, and a doorbell to that agent. Both end with the agent. What
 * that leaves is enough to go on from: the replica as it was, which can still
 * be read; the own segment, with all bytes that the peer has not consumed; and
 * the counters of both. The doorbell of an agent that ended the lane in good
 * order hangs up after a final state stands in the replica, that of one that
 * died without. The next agent (LANE_RESUME) makes a replica that has all that
 * can be read of the old one, and a doorbell.
 *
 * Its replica is mapped over the old one while the program reads there. That is
 * right at any moment, in the middle of a copy too: the bytes between the tail
 * and the head are the same in both, and so is what is behind the second
 * mapping of the ring, which is replaced first; a newer head is only seen in
 * the new one. The doorbell's descriptor keeps its number (dup3). Whoever had
 * looked at the old wait words did not ring for the new ones, so the doorbell
 * is rung once for the agent to look. Its numbers in the wait words go on from
 * the old ones, so that nobody takes them for rung already; ours are in our
 * segment.
 *
 * Closing waits until the agent says that the other node has everything, by a
 * final state in the replica. As long as it has not said so, the own segment
 * must be there to be shown to the next one.
 */
#include <string.h>
#include <unistd.h>

#include "common/util.h"
#include "shm/lane.h"
#include "shm/msg.h"

static struct pl_lane *lane_of(struct pl_conn_obj *o)
{
	return (struct pl_lane *)((char *)o - offsetof(struct pl_lane, obj));
}

static bool is_final(const struct pl_lane *l)
{
	/* Pairs with the agent's release: there is nothing after it. */
	return atomic_load_explicit(&l->peer->state, memory_order_acquire) >=
	       PL_STATE_CLOSED;
}

void pl_lane_away(struct pl_lane *l, uint32_t link)
{
	/* Not if it has been replaced since. */
	if (!pl_link_is_away(link))
		atomic_compare_exchange_strong(&l->link, &link, link | 1);
}

static void on_away(struct pl_conn_obj *o)
{
	struct pl_lane *l = lane_of(o);

	if (!l->resumes || is_final(l))
		return;
	pl_lane_away(l, pl_lane_link(l));
	pl_lane_fd_unbell(l);
}

static void on_lost(struct pl_conn_obj *o)
{
	struct pl_lane *l = lane_of(o);

	if (!l->resumes)
		return;
	atomic_store_explicit(&l->hung_up, true, memory_order_release);
	pl_lane_stir(l);
	if (pl_lane_has_fd(l))
		pl_lane_fd_signal(l);
}

/* --- showing it ----------------------------------------------------------- */

static struct pl_msg_lane_resume request_of(const struct pl_lane *l)
{
	struct pl_msg_lane_resume m = {
		.ring_bytes = (uint32_t)l->tx.size,
		.peer_ring_bytes = (uint32_t)l->rx.size,
		.flags = l->is_opener ? PL_RESUME_OPENER : 0,
	};

	memcpy(m.peer, l->info.peer, sizeof(m.peer));
	memcpy(m.service, l->info.service, sizeof(m.service));
	memcpy(m.self, l->self, sizeof(m.self));
	memcpy(m.uid, l->uid, sizeof(m.uid));
	return m;
}

static int show(struct pl_lane *l)
{
	struct pl_msg_lane_resume m = request_of(l);
	struct pl_msg_ok ok;
	const struct pl_conn_call call = { .request = &m,
					   .type = PL_MSG_LANE_SHOW,
					   .reply_type = PL_MSG_OK,
					   .fds = &l->own_seg.fd,
					   .n_fds = 1,
					   .reply = &ok,
					   .reply_bytes = sizeof(ok),
					   .timeout_ms = PL_CONN_REPLY_MS };
	int rc;

	l->id = 0;
	if (l->own_seg.fd < 0)
		return 0;
	rc = pl_conn_call_once(l->obj.conn, &call, NULL);
	if (rc == 0)
		l->id = ok.id;
	/* An agent that does not want it can do without. */
	return rc == -ECONNRESET ? rc : 0;
}

/* Everything that is new is put where the old one is. Takes the fds. */
static int exchange(struct pl_lane *l, int fds[2])
{
	pl_auto_fd bell = fds[1];
	int rc = pl_seg_lane_replace(&l->peer_seg, fds[0], NULL);

	if (rc < 0)
		return rc;
	if (!pl_msg_is_socket(bell, SOCK_STREAM))
		return -EPROTO;
	pl_lane_fd_unbell(l);
	if (dup3(bell, l->bell, O_CLOEXEC) < 0)
		return -errno;
	pl_lane_bell_ready(l);
	atomic_store(&l->link, (pl_lane_link(l) | 1) + 1);
	pl_lane_fd_bell(l);
	pl_lane_stir(l);
	pl_lane_ring(l);
	if (pl_lane_has_fd(l))
		pl_lane_fd_signal(l);
	return 0;
}

static int resume(struct pl_lane *l)
{
	struct pl_msg_lane_resume m = request_of(l);
	const int own[2] = { l->own_seg.fd, l->peer_seg.fd };
	struct pl_msg_lane ok;
	int fds[2];
	const struct pl_conn_call call = { .request = &m,
					   .type = PL_MSG_LANE_RESUME,
					   .reply_type = PL_MSG_LANE_RESUMED,
					   .fds = own,
					   .n_fds = 2,
					   .reply = &ok,
					   .reply_bytes = sizeof(ok),
					   .reply_fds = fds,
					   .n_reply_fds = 2,
					   .timeout_ms = PL_CONN_REPLY_MS };
	uint32_t epoch = l->obj.conn->epoch;
	int rc = pl_conn_call_once(l->obj.conn, &call, NULL);

	if (rc < 0)
		return rc;
	rc = exchange(l, fds);
	if (rc < 0) {
		pl_conn_tell(l->obj.conn, PL_MSG_LANE_CLOSE, ok.id, epoch);
		return -EPROTO;
	}
	l->id = ok.id;
	return 0;
}

static int on_resume(struct pl_conn_obj *o)
{
	struct pl_lane *l = lane_of(o);

	if (!l->resumes)
		return show(l);
	if (!is_final(l))
		return resume(l);
	/* It ended before the agent did. */
	l->id = 0;
	return 0;
}

static const struct pl_conn_obj_ops lane_ops = {
	.resume = on_resume,
	.away = on_away,
	.lost = on_lost,
};

/* --- begin and end -------------------------------------------------------- */

void pl_lane_join(struct pl_lane *l, const struct pl_lane_parts *p)
{
	if (p->conn && p->msg && pl_uid_is_set(p->msg->uid)) {
		memcpy(l->self, p->msg->self, sizeof(l->self));
		memcpy(l->uid, p->msg->uid, sizeof(l->uid));
		l->resumes = p->conn->has_keeper && l->is_carried;
	}
	/* Mappings stay; descriptors are kept to be shown. */
	if (!l->resumes)
		pl_seg_drop_fd(&l->peer_seg);
	if (!pl_uid_is_set(l->uid))
		pl_seg_drop_fd(&l->own_seg);
	if (p->conn)
		pl_conn_obj_add(p->conn, &l->obj, &lane_ops, p->epoch);
}

static void linger(struct pl_lane *l)
{
	uint64_t end = pl_now_ns() +
		       (uint64_t)l->obj.conn->resume_ms * 1000000u;

	for (;;) {
		uint32_t turn = atomic_load(&l->turn);
		uint64_t now = pl_now_ns();

		if (now >= end || is_final(l) ||
		    atomic_load_explicit(&l->hung_up, memory_order_relaxed))
			return;
		pl_lane_doze(l, turn, end - now);
	}
}

void pl_lane_part(struct pl_lane *l)
{
	struct pl_conn *c = l->obj.conn;

	if (!c)
		return;
	if (l->resumes && !l->error)
		linger(l);
	pl_conn_obj_remove(&l->obj);
	if (l->id)
		pl_conn_tell(c, PL_MSG_LANE_CLOSE, l->id, l->obj.epoch);
}
