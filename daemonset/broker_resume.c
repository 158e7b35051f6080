/*
 * daemonset/broker_resume.c - what pods show that an agent before this one knew
 *
 * Theory of operation
 *
 * Nothing that a pod says of a lane is believed. It is of the pod in whose
 * namespace it says so, and the address of its own end must be that pod's. What
 * it shows as segments is checked as at first, and counted against its quotas.
 * With whom the lane is, the other side checks, or its agent: uid and addresses
 * must be those of a lane of theirs (remote_resume.c). So a pod can only get
 * back what is between it and somebody who says the same.
 *
 * A lane within the node goes on without its agent: what a pod shows of it
 * serves lists and quotas. The ends come one by one and are put together by
 * their uid. A pod that lies there lies about itself.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"
#include "daemonset/broker_internal.h"
#include "daemonset/seg_check.h"
#include "shm/msg.h"
#include "shm/segment.h"

/* An address as text, or an empty one; true when it is neither. */
static bool addr_wrong(const char *text, struct pl_addr *out)
{
	memset(out, 0, sizeof(*out));
	return !memchr(text, 0, PL_WIRE_ADDR) ||
	       (*text && pl_addr_parse(text, out) < 0);
}

static bool is_well_formed(const struct pl_msg_lane_resume *m,
			   struct pl_addr *self, struct pl_addr *peer)
{
	return pl_msg_name_ok(m->service, sizeof(m->service)) &&
	       !addr_wrong(m->self, self) && !addr_wrong(m->peer, peer) &&
	       !(m->flags & ~PL_RESUME_OPENER) && pl_uid_is_set(m->uid) &&
	       pl_ring_bytes_valid(m->ring_bytes) &&
	       pl_ring_bytes_valid(m->peer_ring_bytes);
}

/* Is it this pod's own? One without addresses had none at first either. */
static int check_self(struct pl_client *c, const struct pl_addr *self,
		      struct pl_err *err)
{
	if (!self->family ? !pl_pod_addr(c->pod, AF_INET) :
			    pl_pods_by_addr(c->pod->pods, self) == c->pod)
		return 0;
	return pl_err_set(err, EACCES, "a lane that is shown to the agent must "
			  "be of an address of this pod");
}

/* The end of a client whose segment this is. */
static int take_end(struct pl_lane_end *end, struct pl_client *c,
		    const struct pl_msg_lane_resume *m, int seg_fd,
		    uint64_t bytes, struct pl_err *err)
{
	int rc = pl_seg_take_lane(seg_fd, m->ring_bytes, &end->ctl, err);

	if (rc < 0)
		return rc;
	end->ring_bytes = m->ring_bytes;
	return pl_lane_end_attach(end, c, bytes, err);
}

/* --- lanes to other nodes ------------------------------------------------- */

static void resumed(struct pl_lane_rec *l, const struct pl_lane_end *end,
		    const struct pl_remote_lane_up *up, uint32_t seq)
{
	struct pl_msg_lane m = { 0 };

	m.h = pl_msg_head(PL_MSG_LANE_RESUMED, sizeof(m), seq);
	pl_lane_describe(end, &m);
	l->is_open = true;
	pl_client_send(end->client, &m,
		       (int[]){ up->replica_fd, up->bell_fd }, 2);
}

static int resume_remote(struct pl_lane_rec *l, struct pl_lane_end *end,
			 const struct pl_msg_lane_resume *m, int *fds,
			 const struct pl_node *node, struct pl_err *err)
{
	struct pl_lane_end *from = &l->ends[PL_END_FROM];
	struct pl_lane_end *to = &l->ends[PL_END_TO];
	struct pl_lane_end *peer = end == from ? to : from;
	const struct pl_remote_resume r = {
		.id = l->id,
		.node = node,
		.opener = end == from,
		.src = from->addr,
		.dst = to->addr,
		.uid = l->uid,
		.ring_bytes = m->ring_bytes,
		.peer_ring_bytes = m->peer_ring_bytes,
		.seg_fd = fds[0],
		.replica_fd = fds[1],
	};
	struct pl_remote_lane_up up;
	int rc = pl_remote_lane_resume(l->broker->remote, &r, &up, err);

	if (rc < 0)
		return rc;
	peer->is_remote = true;
	peer->ring_bytes = up.ring_bytes;
	snprintf(l->path, sizeof(l->path), "%s", up.path);
	snprintf(l->node, sizeof(l->node), "%s", node->name);
	rc = pl_seg_take_lane(up.replica_fd, up.ring_bytes, &peer->ctl, err);
	if (rc == 0)
		resumed(l, end, &up, m->h.seq);
	else
		pl_remote_lane_close(l->broker->remote, l->id, true);
	pl_close_fd(&up.bell_fd);
	return rc;
}

static int resume_lane(struct pl_client *c, const struct pl_msg_lane_resume *m,
		       const struct pl_addr *self, struct pl_addr *peer,
		       int *fds, struct pl_err *err)
{
	struct pl_broker *b = c->pod->pods->broker;
	bool opener = m->flags & PL_RESUME_OPENER;
	struct pl_lane_end *end;
	const struct pl_node *node;
	struct pl_lane_rec *l;
	struct pl_pod *pod;
	int rc = pl_broker_find(b, peer, &pod, &node, err);

	if (rc < 0)
		return rc;
	if (!node)
		return pl_err_set(err, EPROTO, "the other pod is on this node");
	l = pl_lane_rec_new(b, m->service, err);
	if (!l)
		return -ENOMEM;
	memcpy(l->uid, m->uid, sizeof(l->uid));
	end = &l->ends[opener ? PL_END_FROM : PL_END_TO];
	l->ends[PL_END_FROM].addr = opener ? *self : *peer;
	l->ends[PL_END_TO].addr = opener ? *peer : *self;
	rc = take_end(end, c, m, fds[0], pl_seg_file_bytes(m->ring_bytes) +
		      pl_seg_file_bytes(m->peer_ring_bytes), err);
	if (rc == 0)
		rc = resume_remote(l, end, m, fds, node, err);
	if (rc == 0)
		return 0;
	/* It is shown again, or lost; it is counted then, if at all. */
	pl_seg_put_lane(end->ctl);
	end->ctl = NULL;
	pl_lane_rec_free(l);
	return rc;
}

const char *pl_broker_on_lane_resume(struct pl_client *c, const void *msg,
				     int *fds, int n_fds)
{
	struct pl_msg_lane_resume m;
	struct pl_addr self, peer;
	struct pl_err err;
	int rc;

	memcpy(&m, msg, sizeof(m));
	if (!is_well_formed(&m, &self, &peer) || !peer.family)
		return "a LANE_RESUME that is not well formed";
	rc = check_self(c, &self, &err);
	if (rc == 0)
		rc = resume_lane(c, &m, &self, &peer, fds, &err);
	if (rc == -EINPROGRESS)
		rc = pl_broker_park(c, &peer, msg, fds, n_fds, -1,
				    pl_broker_on_lane_resume, &err);
	if (rc == 0)
		return NULL;
	if (rc == -EPROTO || rc == -EACCES)
		pl_pod_complain(c->pod, "LANE_RESUME refused: %s", err.msg);
	pl_client_send_error(c, m.h.seq, rc, err.msg);
	return NULL;
}

/* --- lanes within the node ------------------------------------------------ */

static bool is_of(const struct pl_lane_rec *l,
		  const struct pl_msg_lane_resume *m,
		  const struct pl_addr *from, const struct pl_addr *to)
{
	return !memcmp(l->uid, m->uid, sizeof(l->uid)) &&
	       !strcmp(l->path, "shm") && !strcmp(l->service, m->service) &&
	       pl_addr_equal(&l->ends[PL_END_FROM].addr, from) &&
	       pl_addr_equal(&l->ends[PL_END_TO].addr, to);
}

/* The lane whose other end was shown already, or a new one. */
static struct pl_lane_rec *shown_rec(struct pl_broker *b,
				     const struct pl_msg_lane_resume *m,
				     const struct pl_addr *from,
				     const struct pl_addr *to,
				     struct pl_err *err)
{
	const int i = m->flags & PL_RESUME_OPENER ? PL_END_FROM : PL_END_TO;
	struct pl_lane_rec *l, *tmp;

	/* Not one whose listener has yet to answer: that end is taken. */
	HASH_ITER(hh, b->lanes, l, tmp)
		if (l->is_open && is_of(l, m, from, to) &&
		    !l->ends[i].client && !l->ends[i].ring_bytes)
			return l;
	l = pl_lane_rec_new(b, m->service, err);
	if (!l)
		return NULL;
	memcpy(l->uid, m->uid, sizeof(l->uid));
	l->ends[PL_END_FROM].addr = *from;
	l->ends[PL_END_TO].addr = *to;
	l->is_open = true;
	return l;
}

static int show_lane(struct pl_client *c, const struct pl_msg_lane_resume *m,
		     const struct pl_addr *self, const struct pl_addr *peer,
		     int fd, struct pl_err *err)
{
	bool opener = m->flags & PL_RESUME_OPENER;
	struct pl_lane_rec *l = shown_rec(c->pod->pods->broker, m,
					  opener ? self : peer,
					  opener ? peer : self, err);
	struct pl_lane_end *end;
	int rc;

	if (!l)
		return -ENOMEM;
	end = &l->ends[opener ? PL_END_FROM : PL_END_TO];
	rc = take_end(end, c, m, fd, pl_seg_file_bytes(m->ring_bytes), err);
	if (rc == 0) {
		pl_client_send_ok(c, m->h.seq, l->id);
		return 0;
	}
	pl_seg_put_lane(end->ctl);
	end->ctl = NULL;
	end->ring_bytes = 0;
	if (!l->ends[PL_END_FROM].client && !l->ends[PL_END_TO].client)
		pl_lane_rec_free(l);
	return rc;
}

const char *pl_broker_on_lane_show(struct pl_client *c, const void *msg,
				   int *fds, int n_fds)
{
	struct pl_msg_lane_resume m;
	struct pl_addr self, peer;
	struct pl_err err;
	int rc;

	(void)n_fds;
	memcpy(&m, msg, sizeof(m));
	if (!is_well_formed(&m, &self, &peer))
		return "a LANE_SHOW that is not well formed";
	rc = check_self(c, &self, &err);
	if (rc == 0)
		rc = show_lane(c, &m, &self, &peer, fds[0], &err);
	if (rc < 0)
		pl_client_send_error(c, m.h.seq, rc, err.msg);
	return NULL;
}
