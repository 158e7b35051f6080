/* shm/listener.c - offering lanes, taking them, asking for them */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/util.h"
#include "shm/conn.h"
#include "shm/lane.h"
#include "shm/msg.h"

#define CONNECT_MS 10000
/* The agent gives up first; this is for one that does not. */
#define CONNECT_GRACE_MS 5000

struct pl_listener {
	struct pl_conn *conn;
	int fd;
	uint32_t ring_bytes;
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
	if (out->connect_timeout_ms < -1)
		return pl_err_set(err, EINVAL, "connect_timeout_ms %d",
				  out->connect_timeout_ms);
	return 0;
}

/* Both ends are there: the lane of m, with fds {peer's segment, doorbell}. */
static int make_lane(struct pl_conn *conn, const struct pl_msg_lane *m,
		     struct pl_seg own, int fds[2], struct pl_lane **out,
		     struct pl_err *err)
{
	struct pl_lane_info info = { .id = m->id };
	struct pl_lane_parts parts = { .own = own,
				       .bell = fds[1],
				       .conn = conn,
				       .info = &info };
	int rc = pl_seg_lane_open(fds[0], m->ring_bytes, &parts.peer, err);

	memcpy(info.path, m->path, sizeof(info.path));
	memcpy(info.peer, m->peer, sizeof(info.peer));
	memcpy(info.service, m->service, sizeof(info.service));
	if (rc == 0)
		return pl_lane_attach(&parts, out, err);
	pl_seg_close(&parts.own);
	pl_close_fd(&parts.bell);
	return rc;
}

/* --- listening ---------------------------------------------------------- */

int pl_listen(struct pl_conn *conn, const char *service,
	      const struct pl_lane_opts *opts, struct pl_listener **out,
	      struct pl_err *err)
{
	struct pl_msg_listen req = { 0 };
	struct pl_msg_ok ok;
	struct pl_lane_opts o;
	pl_auto_fd fd = -1;
	const struct pl_conn_call call = {
		.request = &req,
		.request_bytes = sizeof(req),
		.type = PL_MSG_LISTEN,
		.reply_type = PL_MSG_LISTEN_OK,
		.reply = &ok,
		.reply_bytes = sizeof(ok),
		.reply_fds = &fd,
		.n_reply_fds = 1,
		.timeout_ms = PL_CONN_REPLY_MS,
	};
	struct pl_listener *l;
	int rc = check_opts(opts, PL_ALLOW_ANY, &o, err);

	if (rc == 0)
		rc = pl_msg_set_name(req.service, service, "service", err);
	req.flags = o.flags;
	if (rc == 0)
		rc = pl_conn_call(conn, &call, err);
	if (rc < 0)
		return rc;
	if (!pl_msg_is_socket(fd, SOCK_SEQPACKET))
		return pl_err_set(err, EPROTO, "the agent sent a listener that "
				  "is none");
	l = calloc(1, sizeof(*l));
	if (!l)
		return pl_err_set(err, ENOMEM, "out of memory");
	l->conn = conn;
	l->ring_bytes = o.ring_bytes;
	l->fd = pl_take_fd(&fd);
	*out = l;
	return 0;
}

int pl_listener_fd(const struct pl_listener *l)
{
	return l->fd;
}

void pl_unlisten(struct pl_listener *l)
{
	if (!l)
		return;
	close(l->fd);
	free(l);
}

static void reject(struct pl_listener *l, uint64_t id)
{
	struct pl_msg_ok no = { .id = id };

	/* The agent notices by itself when it can't be told. */
	pl_msg_put(l->fd, &no, sizeof(no), PL_MSG_REJECT, 0, NULL, 0);
}

static int say_accept(struct pl_listener *l, const struct pl_msg_lane *m,
		      int seg_fd, struct pl_err *err)
{
	struct pl_msg_accept yes = { .id = m->id,
				     .ring_bytes = l->ring_bytes };
	int rc = pl_msg_put(l->fd, &yes, sizeof(yes), PL_MSG_ACCEPT, 0,
			    &seg_fd, 1);

	if (rc < 0)
		return pl_err_set(err, -rc, "cannot tell the agent that a lane "
				  "was accepted: %s", strerror(-rc));
	return 0;
}

/*
 * Take the lane that is offered. -EPROTO: what the peer sent is no good, which
 * is the peer's affair: the next one may be.
 */
static int take_lane(struct pl_listener *l, struct pl_msg *m,
		     struct pl_lane **out, struct pl_err *err)
{
	struct pl_seg own = PL_SEG_NONE;
	struct pl_lane *lane = NULL;
	int fds[2] = { pl_msg_take_fd(m, 0), pl_msg_take_fd(m, 1) };
	pl_auto_fd seg_fd = -1;
	int rc = pl_seg_lane_create(l->ring_bytes, &own, err);

	if (rc < 0) {
		pl_close_fd(&fds[0]);
		pl_close_fd(&fds[1]);
		goto no;
	}
	/* Sent only when the lane stands; the lane itself keeps none. */
	seg_fd = pl_take_fd(&own.fd);
	rc = make_lane(l->conn, &m->lane, own, fds, &lane, err);
	if (rc < 0)
		goto no;
	rc = say_accept(l, &m->lane, seg_fd, err);
	if (rc < 0) {
		lane->conn = NULL;
		pl_lane_close(lane);
		return rc;
	}
	*out = lane;
	return 0;
no:
	reject(l, m->lane.id);
	return rc;
}

int pl_accept(struct pl_listener *l, int timeout_ms, struct pl_lane **out,
	      struct pl_err *err)
{
	const uint64_t deadline = pl_msg_deadline(timeout_ms);
	struct pl_msg m;

	for (;;) {
		int rc = pl_msg_recv(l->fd, deadline, &m, err);

		if (rc == -ETIMEDOUT)
			return pl_err_set(err, ETIMEDOUT,
					  "nobody has connected");
		if (rc < 0)
			return rc;
		if (m.h.type != PL_MSG_INCOMING) {
			pl_msg_drop(&m);
			return pl_err_set(err, EPROTO, "the agent sent "
					  "something else than a lane to a "
					  "listener");
		}
		rc = take_lane(l, &m, out, err);
		if (rc != -EPROTO)
			return rc;
	}
}

/* --- connecting --------------------------------------------------------- */

static int ask_connect(struct pl_conn *conn, struct pl_msg_connect *req,
		       int seg_fd, struct pl_msg_lane *ok, int fds[2],
		       struct pl_err *err)
{
	const struct pl_conn_call call = {
		.request = req,
		.request_bytes = sizeof(*req),
		.type = PL_MSG_CONNECT,
		.reply_type = PL_MSG_CONNECT_OK,
		.fds = &seg_fd,
		.n_fds = 1,
		.reply = ok,
		.reply_bytes = sizeof(*ok),
		.reply_fds = fds,
		.n_reply_fds = 2,
		.timeout_ms = req->timeout_ms < 0 ? -1 :
						    req->timeout_ms +
						    CONNECT_GRACE_MS,
	};

	return pl_conn_call(conn, &call, err);
}

int pl_connect(struct pl_conn *conn, const char *pod_addr, const char *service,
	       const struct pl_lane_opts *opts, struct pl_lane **out,
	       struct pl_err *err)
{
	struct pl_msg_connect req = { 0 };
	struct pl_msg_lane ok;
	struct pl_lane_opts o;
	struct pl_seg own;
	int fds[2], rc = check_opts(opts, 0, &o, err);

	if (rc == 0)
		rc = pl_msg_set_addr(req.addr, pod_addr, err);
	if (rc == 0)
		rc = pl_msg_set_name(req.service, service, "service", err);
	if (rc == 0)
		rc = pl_seg_lane_create(o.ring_bytes, &own, err);
	if (rc < 0)
		return rc;
	req.ring_bytes = o.ring_bytes;
	req.timeout_ms = o.connect_timeout_ms;
	rc = ask_connect(conn, &req, own.fd, &ok, fds, err);
	if (rc < 0) {
		pl_seg_close(&own);
		return rc;
	}
	rc = make_lane(conn, &ok, own, fds, out, err);
	if (rc < 0)
		pl_conn_tell(conn, PL_MSG_LANE_CLOSE, ok.id);
	return rc;
}
