/*
 * daemonset/broker_lane.c - lanes: from a request to connect to the end
 *
 * Theory of operation
 *
 * A lane is awaited at first: FROM has asked, TO's listener has been offered
 * it. Then it is open. What ends it while it is awaited:
 *
 *   TO rejects, its listener or client ends, time is up   pl_lane_refuse
 *   FROM's client ends, or its node withdraws             pl_lane_rec_free
 *
 * Between two pods of this node the doorbell is a socket pair that the two
 * hold, so after CONNECT_OK the agent has nothing to do but to count. When TO
 * accepts a lane whose FROM has gone, its doorbell has hung up already.
 */
#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/fdpass.h"
#include "common/log.h"
#include "common/util.h"
#include "daemonset/broker_internal.h"
#include "daemonset/guard.h"
#include "daemonset/seg_check.h"
#include "shm/msg.h"
#include "shm/segment.h"

#define PENDING_MAX 128		/* lanes that one listener is offered */

struct pl_lane_rec *pl_lane_rec_new(struct pl_broker *b, const char *service,
				struct pl_err *err)
{
	struct pl_lane_rec *l = calloc(1, sizeof(*l));

	if (!l) {
		pl_err_set(err, ENOMEM, "out of memory");
		return NULL;
	}
	l->id = ++b->last_id;
	l->broker = b;
	l->bell_fd = -1;
	for (int i = 0; i < PL_ENDS; i++)
		l->ends[i].lane = l;
	snprintf(l->service, sizeof(l->service), "%s", service);
	snprintf(l->path, sizeof(l->path), "shm");
	HASH_ADD(hh, b->lanes, id, sizeof(l->id), l);
	return l;
}

int pl_lane_charge(struct pl_lane_end *end, struct pl_client *c, uint64_t bytes,
		   struct pl_err *err)
{
	uint32_t one = 0;
	int rc = pl_quota_take(c->pod, &one, 1, "bytes", bytes, err);

	if (rc == 0)
		end->bytes += bytes;
	return rc;
}

int pl_lane_end_attach(struct pl_lane_end *end, struct pl_client *c,
		       uint64_t bytes, struct pl_err *err)
{
	struct pl_pod *pod = c->pod;
	int rc = pl_quota_take(pod, &pod->usage.lanes, pod->pods->limits.lanes,
			       "lanes", bytes, err);

	if (rc < 0)
		return rc;
	end->bytes = bytes;
	end->client = c;
	LIST_INSERT_HEAD(&c->lane_ends, end, of_client);
	return 0;
}

void pl_lane_end_look(struct pl_lane_end *end)
{
	const struct pl_lane_rec *l = end->lane;
	char from[INET6_ADDRSTRLEN] = "", to[INET6_ADDRSTRLEN] = "";
	struct pl_flows f;

	pl_lane_end_rules(end);
	pl_flows_read(end->ctl, &f);
	if (end->sum_told || !end->client || !f.rx.n[PL_FLOW_BAD_SUMS])
		return;
	end->sum_told = true;
	if (l->ends[PL_END_FROM].addr.family)
		pl_addr_str(&l->ends[PL_END_FROM].addr, from);
	if (l->ends[PL_END_TO].addr.family)
		pl_addr_str(&l->ends[PL_END_TO].addr, to);
	pl_pod_complain(end->client->pod, "checksum mismatch: lane=%llu "
			"service=%s from=%s to=%s path=%s node=%s: bytes came "
			"to this pod changed, or it says so; the lane has "
			"ended", (unsigned long long)l->id, l->service, from,
			to, l->path, l->node);
}

void pl_broker_look_sums(struct pl_broker *b)
{
	struct pl_lane_rec *l;

	for (l = b->lanes; l; l = l->hh.next)
		for (int i = 0; i < PL_ENDS; i++)
			pl_lane_end_look(&l->ends[i]);
}

static void end_detach(struct pl_lane_end *end)
{
	struct pl_usage *u;

	if (!end->client)
		return;
	pl_lane_end_look(end);
	if (!end->lane->broker->ending)
		pl_pod_counts_end(end->client->pod->counts, end->ctl);
	u = &end->client->pod->usage;
	u->lanes--;
	u->bytes -= end->bytes;
	LIST_REMOVE(end, of_client);
	end->client = NULL;
	end->bytes = 0;
}

/* What only an awaited lane has. */
static void settle(struct pl_lane_rec *l)
{
	if (l->svc) {
		LIST_REMOVE(l, of_svc);
		l->svc->n_pending--;
		l->svc = NULL;
	}
	if (l->timer)
		event_free(l->timer);
	l->timer = NULL;
	pl_close_fd(&l->bell_fd);
	l->seq = 0;
}

void pl_lane_rec_free(struct pl_lane_rec *l)
{
	settle(l);
	for (int i = 0; i < PL_ENDS; i++) {
		end_detach(&l->ends[i]);
		pl_seg_put_lane(l->ends[i].ctl);
	}
	HASH_DELETE(hh, l->broker->lanes, l);
	free(l);
}

void pl_lane_refuse(struct pl_lane_rec *l, int status, const char *text)
{
	struct pl_client *from = l->ends[PL_END_FROM].client;
	pl_broker_incoming_done *done = l->done;
	void *arg = l->done_arg;
	uint32_t seq = l->seq;

	pl_lane_rec_free(l);
	if (from && seq)
		pl_client_send_error(from, seq, pl_broker_later(from, status,
							-ECONNREFUSED), text);
	if (done)
		done(arg, status, text, -1, 0);
}

static void on_timeout(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	pl_lane_refuse(arg, -ETIMEDOUT, "the listener has not taken the lane "
					"in time");
}

static int set_timeout(struct pl_lane_rec *l, int timeout_ms,
		       struct pl_err *err)
{
	const struct timeval tv = { .tv_sec = timeout_ms / 1000,
				    .tv_usec = timeout_ms % 1000 * 1000 };

	if (timeout_ms < 0)
		return 0;
	l->timer = evtimer_new(l->broker->base, on_timeout, l);
	if (!l->timer || event_add(l->timer, &tv) < 0)
		return pl_err_set(err, ENOMEM, "out of memory");
	return 0;
}

static void addr_text(const struct pl_addr *a, char out[PL_WIRE_ADDR])
{
	if (a->family)
		pl_addr_str(a, out);
}

void pl_lane_describe(const struct pl_lane_end *end, struct pl_msg_lane *m)
{
	const struct pl_lane_rec *l = end->lane;
	bool is_from = end == &l->ends[PL_END_FROM];
	const struct pl_lane_end *peer =
		&l->ends[is_from ? PL_END_TO : PL_END_FROM];

	m->id = l->id;
	m->ring_bytes = peer->ring_bytes;
	memcpy(m->path, l->path, sizeof(m->path));
	memcpy(m->service, l->service, sizeof(m->service));
	memcpy(m->uid, l->uid, sizeof(m->uid));
	addr_text(&peer->addr, m->peer);
	addr_text(&end->addr, m->self);
}

/*
 * A pod may have as many lanes waiting as there are places left: whatever some
 * pods do, another one finds a place (dynamic thresholds of shared buffers,
 * Choudhury and Hahne, 1998).
 */
static bool has_place(const struct pl_service *s, const struct pl_lane_rec *l)
{
	const struct pl_addr *from = &l->ends[PL_END_FROM].addr;
	const struct pl_lane_rec *other;
	uint32_t own = 0;

	LIST_FOREACH(other, &s->pending, of_svc)
		own += pl_addr_equal(&other->ends[PL_END_FROM].addr, from);
	return own < PENDING_MAX - s->n_pending;
}

static int no_place(const struct pl_lane_rec *l, struct pl_service *s,
		    struct pl_err *err)
{
	struct pl_client *from = l->ends[PL_END_FROM].client;

	pl_pod_counts_event(s->client->pod->counts, PL_POD_REFUSED_HALF_OPEN);
	if (from)
		pl_pod_complain(from->pod, "has too many lanes waiting for the "
				"listener '%s'", l->service);
	return pl_err_set(err, ECONNREFUSED, "too many lanes wait for the "
			  "listener '%s' already", l->service);
}

int pl_lane_offer(struct pl_lane_rec *l, struct pl_service *s, int seg_fd,
		  int bell_fd, int timeout_ms, struct pl_err *err)
{
	struct pl_msg_lane m = { 0 };
	const int fds[] = { seg_fd, bell_fd };
	int rc = has_place(s, l) ? 0 : -EAGAIN;

	m.h = pl_msg_head(PL_MSG_INCOMING, sizeof(m), 0);
	pl_lane_describe(&l->ends[PL_END_TO], &m);
	if (rc == 0)
		rc = pl_fdpass_send(s->fd, &m, pl_client_fit(s->client, &m),
				    fds, 2, MSG_DONTWAIT);
	if (rc == -EAGAIN)
		return no_place(l, s, err);
	if (rc < 0)
		return pl_err_set(err, ECONNREFUSED, "the listener '%s' can't "
				  "be told of the lane: %s", l->service,
				  strerror(-rc));
	l->svc = s;
	s->n_pending++;
	LIST_INSERT_HEAD(&s->pending, l, of_svc);
	return set_timeout(l, timeout_ms, err);
}

void pl_lane_connected(struct pl_lane_rec *l, int seg_fd, int bell_fd)
{
	struct pl_lane_end *from = &l->ends[PL_END_FROM];
	struct pl_msg_lane m = { 0 };
	const int fds[] = { seg_fd, bell_fd };

	m.h = pl_msg_head(PL_MSG_CONNECT_OK, sizeof(m), l->seq);
	pl_lane_describe(from, &m);
	pl_client_send(from->client, &m, fds, 2);
}

/* Checks TO's segment and counts it. */
static int take_segment(struct pl_lane_rec *l, struct pl_client *c,
			uint32_t ring_bytes, int fd, struct pl_err *err)
{
	struct pl_lane_end *to = &l->ends[PL_END_TO];

	if (pl_seg_take_lane(fd, ring_bytes, &to->ctl, err) < 0) {
		pl_pod_complain(c->pod, "accepted a lane wrongly: %s",
				err->msg);
		return pl_err_set(err, ECONNREFUSED, "the listener accepted "
				  "the lane wrongly");
	}
	to->ring_bytes = ring_bytes;
	return pl_lane_charge(to, c, pl_seg_file_bytes(ring_bytes), err);
}

void pl_lane_accepted(struct pl_service *s, uint64_t id, uint32_t ring_bytes,
		      int fd)
{
	pl_broker_incoming_done *done;
	struct pl_lane_rec *l;
	struct pl_err err;
	int rc;

	HASH_FIND(hh, s->broker->lanes, &id, sizeof(id), l);
	if (!l || l->svc != s)	/* its time was up, or FROM is gone */
		return;
	rc = take_segment(l, s->client, ring_bytes, fd, &err);
	if (rc < 0) {
		pl_lane_refuse(l, rc, err.msg);
		return;
	}
	done = l->done;
	l->done = NULL;
	l->is_open = true;
	if (l->ends[PL_END_FROM].client)
		pl_lane_connected(l, fd, l->bell_fd);
	settle(l);
	pl_debug("lane=%llu open path=%s service=%s", (unsigned long long)id,
		 l->path, l->service);
	if (done)
		done(l->done_arg, 0, "", fd, ring_bytes);
}

static int connect_local(struct pl_lane_rec *l, struct pl_pod *pod, int seg_fd,
			 int timeout_ms, struct pl_err *err)
{
	const struct pl_pod *from = l->ends[PL_END_FROM].client->pod;
	struct pl_service *s = pl_service_find(pod, l->service);
	int bell[2], rc;

	if (!s)
		return pl_service_missing(l->broker, pod, l->service, err);
	rc = pl_broker_policy(pod, s->flags, from->ns, PL_POLICY_SERVICE,
			      l->service, err);
	if (rc < 0)
		return rc;
	rc = pl_lane_end_attach(&l->ends[PL_END_TO], s->client, 0, err);
	if (rc < 0)
		return rc;
	rc = pl_bell_pair(bell, err);
	if (rc < 0)
		return rc;
	l->bell_fd = bell[0];
	rc = pl_pods_fd_scarce(pod->pods, bell[1], err);
	if (rc == 0)
		rc = pl_lane_offer(l, s, seg_fd, bell[1], timeout_ms, err);
	close(bell[1]);
	return rc;
}

/* FROM's side of a lane: its segment, its address. */
static int set_from(struct pl_lane_rec *l, struct pl_client *c,
		    uint32_t ring_bytes, int fd, struct pl_err *err)
{
	struct pl_lane_end *from = &l->ends[PL_END_FROM];
	const struct pl_addr *own = pl_pod_addr(c->pod,
						l->ends[PL_END_TO].addr.family);
	int rc = pl_seg_take_lane(fd, ring_bytes, &from->ctl, err);

	if (rc < 0) {
		pl_pod_complain(c->pod, "CONNECT refused: %s", err->msg);
		return rc;
	}
	if (own)
		from->addr = *own;
	from->ring_bytes = ring_bytes;
	return pl_lane_end_attach(from, c, pl_seg_file_bytes(ring_bytes), err);
}

static int connect_lane(struct pl_client *c, const struct pl_msg_connect *m,
			struct pl_addr *dst, int fd, struct pl_err *err)
{
	struct pl_broker *b = c->pod->pods->broker;
	const struct pl_node *node;
	struct pl_lane_rec *l;
	struct pl_pod *pod;
	int rc = pl_broker_find(b, dst, &pod, &node, err);

	if (rc < 0)
		return rc;
	l = pl_lane_rec_new(b, m->service, err);
	if (!l)
		return -ENOMEM;
	l->ends[PL_END_TO].addr = *dst;
	memcpy(l->uid, m->uid, sizeof(l->uid));
	if (!pl_uid_is_set(m->uid) && pl_uid_draw(l->uid, err) < 0) {
		pl_lane_rec_free(l);
		return -err->code;
	}
	rc = set_from(l, c, m->ring_bytes, fd, err);
	if (rc == 0)
		rc = pod ? connect_local(l, pod, fd, m->timeout_ms, err) :
			   pl_lane_connect_remote(l, node, fd, m->timeout_ms,
						  err);
	if (rc < 0) {
		pl_lane_rec_free(l);
		return rc;
	}
	l->seq = m->h.seq;
	return 0;
}

const char *pl_broker_on_connect(struct pl_client *c, const void *msg,
				 int *fds, int n_fds)
{
	struct pl_msg_connect m;
	struct pl_addr dst;
	struct pl_err err;
	int rc;

	memcpy(&m, msg, sizeof(m));
	if (!pl_msg_name_ok(m.service, sizeof(m.service)) ||
	    !memchr(m.addr, 0, sizeof(m.addr)) || m.timeout_ms < -1)
		return "a CONNECT that is not well formed";
	if (pl_addr_parse(m.addr, &dst) < 0)
		rc = pl_err_set(&err, EINVAL, "'%s' is no address of a pod",
				m.addr);
	else
		rc = connect_lane(c, &m, &dst, fds[0], &err);
	if (rc == -EINPROGRESS)
		rc = pl_broker_park(c, &dst, msg, fds, n_fds, m.timeout_ms,
				    pl_broker_on_connect, &err);
	if (rc == -EACCES)
		pl_pod_complain(c->pod, "may not connect: %s", err.msg);
	rc = pl_broker_later(c, rc, -ECONNREFUSED);
	if (rc < 0)
		pl_client_send_error(c, m.h.seq, rc, err.msg);
	return NULL;
}

void pl_lane_end_close(struct pl_lane_end *end, bool died)
{
	struct pl_lane_rec *l = end->lane;
	const struct pl_lane_end *other = &l->ends[PL_END_FROM];
	struct pl_remote *remote = l->broker->remote;
	bool is_from = end == other;

	if (is_from)
		other = &l->ends[PL_END_TO];
	if (!l->is_open && !is_from) {
		pl_lane_refuse(l, -ECONNREFUSED,
			       "the listener closed the lane");
		return;
	}
	if (other->is_remote && remote)
		pl_remote_lane_close(remote, l->id, died);
	end_detach(end);
	if (!l->is_open || other->is_remote || !other->client)
		pl_lane_rec_free(l);
}

/* The lane that c closes; whether c has accepted it is known by then. */
static struct pl_lane_rec *closing(struct pl_client *c, uint64_t id)
{
	struct pl_broker *b = c->pod->pods->broker;
	struct pl_lane_rec *l;

	HASH_FIND(hh, b->lanes, &id, sizeof(id), l);
	if (!l || !l->svc || l->svc->client != c)
		return l;
	pl_service_catch_up(l->svc);
	HASH_FIND(hh, b->lanes, &id, sizeof(id), l);
	return l;
}

/* A lane that has ended already is no error: the ways may cross. */
const char *pl_broker_on_lane_close(struct pl_client *c, const void *msg,
				    int *fds, int n_fds)
{
	struct pl_lane_rec *l;
	struct pl_msg_id m;

	(void)fds;
	(void)n_fds;
	memcpy(&m, msg, sizeof(m));
	l = closing(c, m.id);
	for (int i = 0; l && i < PL_ENDS; i++) {
		if (l->ends[i].client != c)
			continue;
		pl_lane_end_close(&l->ends[i], false);
		break;
	}
	pl_client_send_ok(c, m.h.seq, m.id);
	return NULL;
}
