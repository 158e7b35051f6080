/*
 * shm/listener.c - offering lanes, taking them, asking for them
 *
 * A listener's socket pair ends with the agent; the next one makes another. So
 * what a program polls is an epoll descriptor over it, and over an event that
 * says that there will be none. What the agent that has gone had still offered
 * is dropped: whoever wants to connect asks again.
 *
 * To make a segment takes as long as all the rest of making a lane. So once a
 * listener has taken a lane it makes that of the next one before it waits.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>

#include "common/util.h"
#include "shm/conn.h"
#include "shm/lane.h"
#include "shm/msg.h"

#define CONNECT_MS 10000
/* The agent gives up first; this is for one that does not. */
#define AGAIN_NS 20000000u

struct pl_listener {
	struct pl_conn_obj obj;
	struct pl_msg_listen request;
	uint32_t ring_bytes;
	bool sums;
	int wait_fd;		/* epoll over the next two */
	int lost_fd;		/* readable: there will be no agent */
	pthread_mutex_t lock;
	int fd;			/* our end; -1: its agent has gone */
	uint32_t epoch;		/* of fd */
	bool is_lost;
	bool has_taken;		/* a lane; more may follow */
	struct pl_seg spare;	/* for the next one */
};

static int check_opts(const struct pl_lane_opts *opts, uint32_t flags,
		      struct pl_lane_opts *out, struct pl_err *err)
{
	const struct pl_lane_opts none = { 0 };

	*out = opts ? *opts : none;
	if (!out->ring_bytes)
		out->ring_bytes = PL_RING_DEFAULT;
	if (!out->connect_timeout_ms)
		out->connect_timeout_ms = CONNECT_MS;
	if (!pl_ring_bytes_valid(out->ring_bytes))
		return pl_err_set(err, EINVAL, "ring_bytes %u is no power of "
				  "two from %u to %u", out->ring_bytes,
				  PL_RING_MIN, PL_RING_MAX);
	if (out->flags & ~flags)
		return pl_err_set(err, EINVAL, "unknown flags %#x",
				  out->flags & ~flags);
	return pl_msg_check_timeout(out->connect_timeout_ms,
				    "connect_timeout_ms", err);
}

/* Both ends are there: the lane of m, with fds {peer's segment, doorbell}. */
static int make_lane(struct pl_lane_parts *parts, struct pl_seg own,
		     int fds[2], struct pl_lane **out, struct pl_err *err)
{
	const struct pl_msg_lane *m = parts->msg;
	struct pl_lane_info info = { .id = m->id };
	int rc = pl_seg_lane_open(fds[0], m->ring_bytes, &parts->peer, err);

	parts->own = own;
	parts->bell = fds[1];
	parts->info = &info;
	memcpy(info.path, m->path, sizeof(info.path));
	memcpy(info.peer, m->peer, sizeof(info.peer));
	memcpy(info.service, m->service, sizeof(info.service));
	if (rc == 0)
		return pl_lane_attach(parts, out, err);
	pl_seg_close(&parts->own);
	pl_close_fd(&parts->bell);
	return rc;
}

/* --- listening ---------------------------------------------------------- */

static int watch(struct pl_listener *l, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return epoll_ctl(l->wait_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

/* With the lock. The agent's descriptors are gone, or are about to be. */
static void fd_drop(struct pl_listener *l)
{
	if (l->fd >= 0)
		epoll_ctl(l->wait_fd, EPOLL_CTL_DEL, l->fd, NULL);
	pl_close_fd(&l->fd);
}

static int ask_listen(struct pl_listener *l, bool first, struct pl_conn *conn,
		      int *fd, uint32_t *epoch, struct pl_err *err)
{
	struct pl_msg_ok ok;
	const struct pl_conn_call call = {
		.request = &l->request,
		.type = PL_MSG_LISTEN,
		.reply_type = PL_MSG_LISTEN_OK,
		.reply = &ok,
		.reply_bytes = sizeof(ok),
		.reply_fds = fd,
		.n_reply_fds = 1,
		.timeout_ms = PL_CONN_REPLY_MS,
		.epoch = epoch,
	};
	int rc = first ? pl_conn_call(conn, &call, err) :
			 pl_conn_call_once(conn, &call, err);

	if (rc < 0)
		return rc;
	if (pl_msg_is_socket(*fd, SOCK_SEQPACKET))
		return 0;
	pl_close_fd(fd);
	return pl_err_set(err, EPROTO, "the agent sent a listener that is "
			  "none");
}

/* Takes fd. */
static int fd_take(struct pl_listener *l, int fd, uint32_t epoch)
{
	int rc;

	pthread_mutex_lock(&l->lock);
	fd_drop(l);
	l->fd = fd;
	l->epoch = epoch;
	rc = watch(l, fd);
	pthread_mutex_unlock(&l->lock);
	return rc;
}

static struct pl_listener *listener_of(struct pl_conn_obj *o)
{
	return (struct pl_listener *)((char *)o -
				      offsetof(struct pl_listener, obj));
}

static int on_resume(struct pl_conn_obj *o)
{
	struct pl_listener *l = listener_of(o);
	uint32_t epoch;
	int fd, rc = ask_listen(l, false, o->conn, &fd, &epoch, NULL);

	/* Our own one, of an agent that has not noticed our absence yet. */
	if (rc == -EADDRINUSE)
		return -EAGAIN;
	return rc < 0 ? rc : fd_take(l, fd, epoch);
}

static void on_away(struct pl_conn_obj *o)
{
	struct pl_listener *l = listener_of(o);

	pthread_mutex_lock(&l->lock);
	fd_drop(l);
	pthread_mutex_unlock(&l->lock);
}

static void on_lost(struct pl_conn_obj *o)
{
	struct pl_listener *l = listener_of(o);
	const uint64_t one = 1;

	pthread_mutex_lock(&l->lock);
	l->is_lost = true;
	pthread_mutex_unlock(&l->lock);
	if (write(l->lost_fd, &one, sizeof(one)) < 0)
		return;
}

static const struct pl_conn_obj_ops listener_ops = {
	/* After lanes: one that was accepted is not to be offered again. */
	.rank = 1,
	.resume = on_resume,
	.away = on_away,
	.lost = on_lost,
};

static void listener_free(struct pl_listener *l)
{
	pl_close_fd(&l->fd);
	pl_close_fd(&l->wait_fd);
	pl_close_fd(&l->lost_fd);
	pl_seg_close(&l->spare);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

static int listener_new(struct pl_listener **out, struct pl_err *err)
{
	struct pl_listener *l = calloc(1, sizeof(*l));

	if (!l)
		return pl_err_set(err, ENOMEM, "out of memory");
	pthread_mutex_init(&l->lock, NULL);
	l->fd = -1;
	l->spare = PL_SEG_NONE;
	l->wait_fd = epoll_create1(EPOLL_CLOEXEC);
	l->lost_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->wait_fd < 0 || l->lost_fd < 0 || watch(l, l->lost_fd) < 0) {
		int rc = pl_err_sys(err, "cannot make a listener");

		listener_free(l);
		return rc;
	}
	*out = l;
	return 0;
}

int pl_listen(struct pl_conn *conn, const char *service,
	      const struct pl_lane_opts *opts, struct pl_listener **out,
	      struct pl_err *err)
{
	struct pl_lane_opts o;
	struct pl_listener *l = NULL;
	uint32_t epoch;
	int fd, rc = check_opts(opts, PL_ALLOW_ANY | PL_CHECKSUM, &o, err);

	if (rc == 0)
		rc = listener_new(&l, err);
	if (rc < 0)
		return rc;
	l->ring_bytes = o.ring_bytes;
	l->request.flags = o.flags & PL_ALLOW_ANY;
	l->sums = o.flags & PL_CHECKSUM;
	rc = pl_msg_set_name(l->request.service, service, "service", err);
	if (rc == 0)
		rc = ask_listen(l, true, conn, &fd, &epoch, err);
	if (rc == 0) {
		rc = fd_take(l, fd, epoch);
		if (rc < 0)
			pl_err_set(err, -rc, "cannot watch a listener: %s",
				   strerror(-rc));
	}
	if (rc < 0) {
		listener_free(l);
		return rc;
	}
	pl_conn_obj_add(conn, &l->obj, &listener_ops, epoch);
	*out = l;
	return 0;
}

int pl_listener_fd(const struct pl_listener *l)
{
	return l->wait_fd;
}

void pl_unlisten(struct pl_listener *l)
{
	bool is_ours;

	if (!l)
		return;
	is_ours = pl_conn_is_ours(l->obj.conn);
	pl_conn_obj_remove(&l->obj);
	/* The agent is to see it even if a child of fork has the descriptor. */
	if (is_ours && l->fd >= 0)
		shutdown(l->fd, SHUT_RDWR);
	listener_free(l);
}

/*
 * An answer to what this agent has offered, and no other. -ECONNRESET: that one
 * has gone.
 */
static int answer(struct pl_listener *l, uint32_t epoch, void *msg,
		  enum pl_msg_type type, const int *fds, int n_fds)
{
	int rc = -ECONNRESET;

	pthread_mutex_lock(&l->lock);
	if (l->fd >= 0 && l->epoch == epoch)
		rc = pl_msg_put(l->fd, l->obj.conn->version, msg, type, 0, fds,
				n_fds);
	pthread_mutex_unlock(&l->lock);
	return rc;
}

static void reject(struct pl_listener *l, uint64_t id, uint32_t epoch)
{
	struct pl_msg_ok no = { .id = id };

	/* The agent notices by itself when it can't be told. */
	answer(l, epoch, &no, PL_MSG_REJECT, NULL, 0);
}

static int say_accept(struct pl_listener *l, const struct pl_msg_lane *m,
		      uint32_t epoch, int seg_fd, struct pl_err *err)
{
	struct pl_msg_accept yes = { .id = m->id,
				     .ring_bytes = l->ring_bytes };
	int rc = answer(l, epoch, &yes, PL_MSG_ACCEPT, &seg_fd, 1);

	if (rc < 0)
		return pl_err_set(err, -rc, "cannot tell the agent that a lane "
				  "was accepted: %s", strerror(-rc));
	return 0;
}

/* Before waiting. Without memory for it the next lane is the one to say so. */
static void spare_make(struct pl_listener *l)
{
	struct pl_seg s = PL_SEG_NONE;
	bool wanted;

	pthread_mutex_lock(&l->lock);
	wanted = l->has_taken && l->spare.fd < 0;
	pthread_mutex_unlock(&l->lock);
	if (!wanted || pl_seg_lane_create(l->ring_bytes, &s, NULL) < 0)
		return;
	pthread_mutex_lock(&l->lock);
	if (l->spare.fd < 0) {
		l->spare = s;
		s = PL_SEG_NONE;
	}
	pthread_mutex_unlock(&l->lock);
	pl_seg_close(&s);
}

static int segment_take(struct pl_listener *l, struct pl_seg *out,
			struct pl_err *err)
{
	pthread_mutex_lock(&l->lock);
	*out = l->spare;
	l->spare = PL_SEG_NONE;
	l->has_taken = true;
	pthread_mutex_unlock(&l->lock);
	return out->fd >= 0 ? 0 : pl_seg_lane_create(l->ring_bytes, out, err);
}

/*
 * Take the lane that is offered. -EPROTO: what the peer sent is no good, which
 * is the peer's affair: the next one may be.
 */
static int take_lane(struct pl_listener *l, struct pl_msg *m, uint32_t epoch,
		     struct pl_lane **out, struct pl_err *err)
{
	struct pl_lane_parts parts = { .conn = l->obj.conn,
				       .epoch = epoch,
				       .sums = l->sums || l->obj.conn->sums,
				       .msg = &m->lane };
	int fds[2] = { pl_msg_take_fd(m, 0), pl_msg_take_fd(m, 1) };
	struct pl_seg own = PL_SEG_NONE;
	struct pl_lane *lane = NULL;
	pl_auto_fd seg_fd = -1;
	int rc = segment_take(l, &own, err);

	if (rc < 0) {
		pl_close_fd(&fds[0]);
		pl_close_fd(&fds[1]);
		goto no;
	}
	seg_fd = fcntl(own.fd, F_DUPFD_CLOEXEC, 3);
	if (seg_fd < 0) {
		rc = pl_err_sys(err, "cannot keep a descriptor");
		pl_close_fd(&fds[0]);
		pl_close_fd(&fds[1]);
		pl_seg_close(&own);
		goto no;
	}
	/* Sent only when the lane stands. */
	rc = make_lane(&parts, own, fds, &lane, err);
	if (rc < 0)
		goto no;
	rc = say_accept(l, &m->lane, epoch, seg_fd, err);
	if (rc < 0) {
		/* There is nobody to tell, or to wait for. */
		pl_conn_obj_remove(&lane->obj);
		pl_lane_close(lane);
		return rc;
	}
	*out = lane;
	return 0;
no:
	reject(l, m->lane.id, epoch);
	return rc;
}

/* -EAGAIN: nothing is offered now. */
static int take_offer(struct pl_listener *l, struct pl_msg *m, uint32_t *epoch,
		      struct pl_err *err)
{
	int rc = -EAGAIN;

	pthread_mutex_lock(&l->lock);
	*epoch = l->epoch;
	if (l->fd >= 0)
		rc = pl_msg_recv_now(l->fd, m, err);
	if (rc == -ECONNRESET && l->obj.conn->has_keeper) {
		fd_drop(l);
		rc = -EAGAIN;
	}
	if (l->is_lost)
		rc = pl_err_set(err, ECONNRESET, "the agent has gone, and "
				"none has come in its place in time");
	pthread_mutex_unlock(&l->lock);
	return rc;
}

int pl_accept(struct pl_listener *l, int timeout_ms, struct pl_lane **out,
	      struct pl_err *err)
{
	const uint64_t deadline = pl_msg_deadline(timeout_ms);
	int bad = pl_msg_check_timeout(timeout_ms, "timeout_ms", err);
	uint32_t epoch;
	struct pl_msg m;

	if (bad < 0)
		return bad;
	if (!pl_conn_is_ours(l->obj.conn))
		return pl_err_set(err, EPERM, "this process is a child of the "
				  "one that listens: call pl_open and "
				  "pl_listen in it");
	for (;;) {
		int rc = take_offer(l, &m, &epoch, err);

		if (rc == -EAGAIN) {
			if (timeout_ms)
				spare_make(l);
			if (pl_msg_wait(l->wait_fd, deadline) == -ETIMEDOUT)
				return pl_err_set(err, ETIMEDOUT,
						  "nobody has connected");
			continue;
		}
		if (rc < 0)
			return rc;
		if (m.h.type != PL_MSG_INCOMING) {
			pl_msg_drop(&m);
			return pl_err_set(err, EPROTO, "the agent sent "
					  "something else than a lane to a "
					  "listener");
		}
		rc = take_lane(l, &m, epoch, out, err);
		if (rc != -EPROTO &&
		    (rc != -ECONNRESET || !l->obj.conn->has_keeper))
			return rc;
	}
}

/* --- connecting --------------------------------------------------------- */

static int ask_connect(struct pl_conn *conn, struct pl_msg_connect *req,
		       int seg_fd, struct pl_msg_lane *ok, int fds[2],
		       uint32_t *epoch, struct pl_err *err)
{
	const struct pl_conn_call call = {
		.request = req,
		.type = PL_MSG_CONNECT,
		.reply_type = PL_MSG_CONNECT_OK,
		.fds = &seg_fd,
		.n_fds = 1,
		.reply = ok,
		.reply_bytes = sizeof(*ok),
		.reply_fds = fds,
		.n_reply_fds = 2,
		.timeout_ms = req->timeout_ms,
		.grace_ms = PL_CONN_GRACE_MS,
		.epoch = epoch,
	};

	return pl_conn_call(conn, &call, err);
}

/* An agent may not know yet who listens: until it does, or time is up. */
static int connect_by(struct pl_conn *conn, struct pl_msg_connect *req,
		      int seg_fd, struct pl_msg_lane *ok, int fds[2],
		      uint32_t *epoch, struct pl_err *err)
{
	const uint64_t deadline = pl_msg_deadline(req->timeout_ms);
	const struct timespec pause = { .tv_nsec = AGAIN_NS };
	uint64_t now;
	int rc;

	while ((rc = ask_connect(conn, req, seg_fd, ok, fds, epoch, err)) ==
	       -EAGAIN) {
		now = pl_now_ns();
		if (now >= deadline)
			return pl_err_set(err, ECONNREFUSED,
					  "nobody listens there, as far as an "
					  "agent knows that was started a "
					  "moment ago");
		if (deadline != UINT64_MAX)
			req->timeout_ms = (int32_t)((deadline - now) / 1000000 +
						    1);
		nanosleep(&pause, NULL);
	}
	return rc;
}

int pl_connect(struct pl_conn *conn, const char *pod_addr, const char *service,
	       const struct pl_lane_opts *opts, struct pl_lane **out,
	       struct pl_err *err)
{
	struct pl_msg_connect req = { 0 };
	struct pl_msg_lane ok;
	struct pl_lane_parts parts = { .conn = conn,
				       .msg = &ok,
				       .is_opener = true };
	struct pl_lane_opts o;
	struct pl_seg own;
	int fds[2], rc = check_opts(opts, PL_CHECKSUM, &o, err);

	if (rc == 0)
		rc = pl_msg_set_addr(req.addr, pod_addr, err);
	if (rc == 0)
		rc = pl_msg_set_name(req.service, service, "service", err);
	if (rc == 0)
		rc = pl_uid_draw(req.uid, err);
	if (rc == 0)
		rc = pl_seg_lane_create(o.ring_bytes, &own, err);
	if (rc < 0)
		return rc;
	parts.sums = (o.flags & PL_CHECKSUM) || conn->sums;
	req.ring_bytes = o.ring_bytes;
	req.timeout_ms = o.connect_timeout_ms;
	rc = connect_by(conn, &req, own.fd, &ok, fds, &parts.epoch, err);
	if (rc < 0) {
		pl_seg_close(&own);
		return rc;
	}
	rc = make_lane(&parts, own, fds, out, err);
	if (rc < 0)
		pl_conn_tell(conn, PL_MSG_LANE_CLOSE, ok.id, parts.epoch);
	return rc;
}
