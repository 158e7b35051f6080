/* shm/listener.c - making lanes and regions through the agent */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/fdpass.h"
#include "common/util.h"
#include "shm/conn.h"
#include "shm/lane.h"
#include "shm/region.h"

#define CONNECT_TIMEOUT_MS 10000
/* The agent keeps the time of a request; this is how much it may be late. */
#define GRACE_MS 3000
#define REGION_RETRY_MS 10

struct pl_listener {
	int sock;
	uint32_t ring_bytes;
	struct pl_conn *conn;
	char service[PL_NAME_BYTES];
};

static int check_name(const char *what, const char *name, struct pl_err *err)
{
	if (pl_name_valid(name))
		return 0;
	return pl_err_set(err, EINVAL, "a %s name has 1 to %d characters of "
			  "[A-Za-z0-9._/:-]", what, PL_NAME_BYTES - 1);
}

static int check_addr(const char *addr, struct pl_err *err)
{
	if (strnlen(addr, PL_ADDR_BYTES) < PL_ADDR_BYTES)
		return 0;
	return pl_err_set(err, EINVAL, "a pod's address has at most %d "
			  "characters", PL_ADDR_BYTES - 1);
}

static uint32_t ring_of(const struct pl_lane_opts *opts)
{
	return opts && opts->ring_bytes ? opts->ring_bytes : PL_RING_DEFAULT;
}

/* --- lanes ---------------------------------------------------------------- */

int pl_listen(struct pl_conn *conn, const char *service,
	      const struct pl_lane_opts *opts, struct pl_listener **out,
	      struct pl_err *err)
{
	struct pl_msg_listen req = { .flags = opts ? opts->flags : 0 };
	struct pl_listener *l;
	union pl_reply m;
	int fd = -1;
	int rc = check_name("service", service, err);

	if (rc == 0 && !pl_ring_bytes_valid(ring_of(opts)))
		rc = pl_err_set(err, EINVAL, "ring_bytes must be a power of "
				"two, %u to %u", PL_RING_MIN, PL_RING_MAX);
	if (rc < 0)
		return rc;
	memcpy(req.service, service, strlen(service));
	rc = pl_conn_call(conn, &req, sizeof(req), PL_MSG_LISTEN, -1,
			  PL_MSG_LISTEN_OK, &m, &fd, 1, PL_REPLY_TIMEOUT_MS,
			  err);
	if (rc < 0)
		return rc;
	l = calloc(1, sizeof(*l));
	if (!l) {
		close(fd);
		return pl_err_set(err, ENOMEM, "out of memory");
	}
	l->sock = fd;
	l->ring_bytes = ring_of(opts);
	l->conn = conn;
	memcpy(l->service, service, strlen(service));
	*out = l;
	return 0;
}

int pl_listener_fd(const struct pl_listener *l)
{
	return l->sock;
}

void pl_unlisten(struct pl_listener *l)
{
	close(l->sock);
	free(l);
}

static bool lane_msg_valid(const struct pl_msg_lane *m)
{
	return pl_msg_text_valid(m->path, sizeof(m->path)) &&
	       pl_msg_text_valid(m->peer, sizeof(m->peer)) &&
	       pl_msg_text_valid(m->service, sizeof(m->service));
}

/* A lane out of what the agent sent; takes own and both descriptors. */
static int lane_of(struct pl_conn *conn, const struct pl_msg_lane *m,
		   struct pl_seg *own, int fds[2], struct pl_lane **out,
		   struct pl_err *err)
{
	struct pl_lane_info info = { .id = m->id };
	struct pl_seg peer = PL_SEG_NONE;
	int rc;

	if (!lane_msg_valid(m)) {
		close(fds[0]);
		rc = pl_err_set(err, EPROTO, "the agent sent a malformed "
				"message");
	} else {
		rc = pl_seg_lane_open(fds[0], m->ring_bytes, &peer, err);
	}
	if (rc < 0) {
		close(fds[1]);
		pl_seg_close(own);
		return rc;
	}
	memcpy(info.path, m->path, sizeof(info.path));
	memcpy(info.peer, m->peer, sizeof(info.peer));
	memcpy(info.service, m->service, sizeof(info.service));
	return pl_lane_attach(own, &peer, fds[1], &info, conn, out, err);
}

int pl_connect(struct pl_conn *conn, const char *pod_addr, const char *service,
	       const struct pl_lane_opts *opts, struct pl_lane **out,
	       struct pl_err *err)
{
	struct pl_msg_connect req = { .ring_bytes = ring_of(opts) };
	struct pl_seg own = PL_SEG_NONE;
	union pl_reply m;
	int fds[2], rc, wait_ms;

	rc = check_name("service", service, err);
	if (rc == 0)
		rc = check_addr(pod_addr, err);
	if (rc == 0)
		rc = pl_seg_lane_create(req.ring_bytes, &own, err);
	if (rc < 0)
		return rc;
	req.timeout_ms = opts && opts->connect_timeout_ms ?
			 opts->connect_timeout_ms : CONNECT_TIMEOUT_MS;
	wait_ms = req.timeout_ms < 0 ? -1 : req.timeout_ms + GRACE_MS;
	memcpy(req.addr, pod_addr, strlen(pod_addr));
	memcpy(req.service, service, strlen(service));
	rc = pl_conn_call(conn, &req, sizeof(req), PL_MSG_CONNECT, own.fd,
			  PL_MSG_CONNECT_OK, &m, fds, 2, wait_ms, err);
	if (rc < 0) {
		pl_seg_close(&own);
		return rc;
	}
	return lane_of(conn, &m.lane, &own, fds, out, err);
}

static int refuse(struct pl_listener *l, uint64_t id)
{
	struct pl_msg_ok msg = { .id = id };

	pl_msg_fill(&msg, PL_MSG_REJECT, 0);
	return pl_fdpass_send(l->sock, &msg, sizeof(msg), NULL, 0, 0);
}

static int answer(struct pl_listener *l, uint64_t id, int seg_fd)
{
	struct pl_msg_accept msg = { .id = id, .ring_bytes = l->ring_bytes };

	pl_msg_fill(&msg, PL_MSG_ACCEPT, 0);
	return pl_fdpass_send(l->sock, &msg, sizeof(msg), &seg_fd, 1, 0);
}

/* A message of the listener's socket: an INCOMING with two descriptors. */
static int receive_incoming(struct pl_listener *l, union pl_reply *m,
			    int fds[2], struct pl_err *err)
{
	int n;
	ssize_t r = pl_fdpass_recv(l->sock, m, sizeof(*m), fds, 2, &n,
				   MSG_DONTWAIT);

	if (r == -EAGAIN)
		return -EAGAIN;
	if (r == 0 || r == -ECONNRESET)
		return pl_err_set(err, ECONNRESET, "the agent has gone");
	if (r > 0 && pl_msg_valid(m, (size_t)r) &&
	    m->h.type == PL_MSG_INCOMING && n == 2)
		return 0;
	for (int i = 0; r > 0 && i < n; i++)
		close(fds[i]);
	return pl_err_set(err, EPROTO, "the agent sent a malformed message");
}

static int accept_one(struct pl_listener *l, struct pl_lane **out,
		      struct pl_err *err)
{
	struct pl_seg own = PL_SEG_NONE;
	struct pl_lane *lane = NULL;
	union pl_reply m;
	int fds[2];
	int rc = receive_incoming(l, &m, fds, err);

	if (rc < 0)
		return rc;
	rc = pl_seg_lane_create(l->ring_bytes, &own, err);
	if (rc < 0) {
		close(fds[0]);
		close(fds[1]);
	} else {
		rc = lane_of(l->conn, &m.lane, &own, fds, &lane, err);
	}
	if (rc < 0) {
		refuse(l, m.lane.id);
		return rc;
	}
	rc = answer(l, m.lane.id, lane->own_seg.fd);
	if (rc < 0) {
		pl_lane_free(lane);
		return pl_err_set(err, ECONNRESET, "the agent has gone");
	}
	*out = lane;
	return 0;
}

int pl_accept(struct pl_listener *l, int timeout_ms, struct pl_lane **out,
	      struct pl_err *err)
{
	uint64_t deadline = pl_now_ns() + (uint64_t)timeout_ms * 1000000u;

	for (;;) {
		struct pollfd p = { .fd = l->sock, .events = POLLIN };
		int rc = accept_one(l, out, err);
		int ms = -1;

		if (rc != -EAGAIN)
			return rc;
		if (timeout_ms >= 0) {
			uint64_t now = pl_now_ns();

			if (now >= deadline)
				return pl_err_set(err, ETIMEDOUT,
						  "nobody connected to %s",
						  l->service);
			ms = (int)((deadline - now) / 1000000u + 1);
		}
		poll(&p, 1, ms);
	}
}

/* --- regions -------------------------------------------------------------- */

static int region_of(struct pl_conn *conn, const struct pl_msg_region *m,
		     const char *name, struct pl_seg *seg, struct pl_seg *watch,
		     int bell, bool owner, struct pl_region **out,
		     struct pl_err *err)
{
	struct pl_region_info info = { .size = 0 };

	if (!pl_msg_text_valid(m->path, sizeof(m->path)) ||
	    !pl_msg_text_valid(m->owner, sizeof(m->owner))) {
		pl_seg_close(seg);
		pl_seg_close(watch);
		pl_close_fd(&bell);
		return pl_err_set(err, EPROTO, "the agent sent a malformed "
				  "message");
	}
	memcpy(info.path, m->path, sizeof(info.path));
	memcpy(info.owner, m->owner, sizeof(info.owner));
	memcpy(info.name, name, strlen(name));
	return pl_region_attach(seg, watch, bell, owner, &info, conn, m->id,
				out, err);
}

int pl_region_create(struct pl_conn *conn, const char *name, size_t size,
		     uint32_t flags, struct pl_region **out,
		     struct pl_err *err)
{
	struct pl_msg_region_create req = { .size = size, .flags = flags };
	struct pl_seg seg = PL_SEG_NONE, watch = PL_SEG_NONE;
	union pl_reply m;
	int fds[2], rc;

	rc = check_name("region", name, err);
	if (rc == 0)
		rc = pl_seg_region_create(size, &seg, err);
	if (rc < 0)
		return rc;
	memcpy(req.name, name, strlen(name));
	rc = pl_conn_call(conn, &req, sizeof(req), PL_MSG_REGION_CREATE,
			  seg.fd, PL_MSG_REGION_CREATE_OK, &m, fds, 2,
			  PL_REPLY_TIMEOUT_MS, err);
	if (rc < 0)
		goto fail;
	rc = pl_seg_watch_open(fds[0], &watch, err);
	if (rc < 0) {
		close(fds[1]);
		goto fail;
	}
	return region_of(conn, &m.region, name, &seg, &watch, fds[1], true,
			 out, err);
fail:
	pl_seg_close(&seg);
	return rc;
}

static int open_once(struct pl_conn *conn, const char *pod_addr,
		     const char *name, struct pl_region **out,
		     struct pl_err *err)
{
	struct pl_msg_region_open req = { .addr = "" };
	struct pl_seg seg = PL_SEG_NONE, none = PL_SEG_NONE;
	union pl_reply m;
	int fd, rc;

	memcpy(req.addr, pod_addr, strlen(pod_addr));
	memcpy(req.name, name, strlen(name));
	rc = pl_conn_call(conn, &req, sizeof(req), PL_MSG_REGION_OPEN, -1,
			  PL_MSG_REGION_OPEN_OK, &m, &fd, 1,
			  CONNECT_TIMEOUT_MS + GRACE_MS, err);
	if (rc == 0)
		rc = pl_seg_region_open(fd, m.region.size, &seg, err);
	if (rc == 0)
		rc = region_of(conn, &m.region, name, &seg, &none, -1, false,
			       out, err);
	if (rc == 0)
		pl_conn_region_opened(conn, *out);
	return rc;
}

int pl_region_open(struct pl_conn *conn, const char *pod_addr,
		   const char *name, int timeout_ms, struct pl_region **out,
		   struct pl_err *err)
{
	uint64_t deadline = pl_now_ns() + (uint64_t)timeout_ms * 1000000u;
	struct timespec pause = { .tv_nsec = REGION_RETRY_MS * 1000000 };
	int rc = check_name("region", name, err);

	if (rc == 0)
		rc = check_addr(pod_addr, err);
	if (rc < 0)
		return rc;
	for (;;) {
		rc = open_once(conn, pod_addr, name, out, err);
		if (rc != -ENOENT ||
		    (timeout_ms >= 0 && pl_now_ns() >= deadline))
			return rc;
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < 200000000)
			pause.tv_nsec *= 2;
	}
}
