/* shm/conn.c - the connection to the agent; wire.h has the protocol */
#include "shm/conn.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/fdpass.h"
#include "common/util.h"
#include "shm/region.h"

static void close_all(int *fds, int n)
{
	for (int i = 0; i < n; i++)
		pl_close_fd(&fds[i]);
}

/* --- messages ------------------------------------------------------------- */

/* With the lock held: a message that is no reply. */
static void pushed(struct pl_conn *c, const union pl_reply *m)
{
	struct pl_region *r = c->regions;

	while (r && r->id != m->id.id)
		r = r->next;
	if (r)
		pl_region_set_ended(r);
}

/*
 * Receive one message, *n_fds: in the most, out the number of descriptors.
 * -EAGAIN: none is there. Everything but an interrupted wait ends the
 * connection.
 */
static int receive(struct pl_conn *c, union pl_reply *m, int *fds, int *n_fds)
{
	ssize_t r = pl_fdpass_recv(c->sock, m, sizeof(*m), fds, PL_FDPASS_MAX,
				   n_fds, MSG_DONTWAIT);

	if (r == -EAGAIN)
		return -EAGAIN;
	if (r > 0 && pl_msg_valid(m, (size_t)r))
		return 0;
	if (r >= 0)
		close_all(fds, *n_fds);
	c->dead = true;
	shutdown(c->sock, SHUT_RDWR);
	return r == 0 || r == -ECONNRESET ? -ECONNRESET : -EPROTO;
}

static int await(struct pl_conn *c, uint64_t deadline)
{
	struct pollfd p = { .fd = c->sock, .events = POLLIN };
	int ms = -1, r;

	if (deadline != UINT64_MAX) {
		uint64_t now = pl_now_ns();

		if (now >= deadline)
			return -ETIMEDOUT;
		ms = (int)PL_MIN((deadline - now) / 1000000u + 1, 1u << 30);
	}
	r = poll(&p, 1, ms);
	return r < 0 && errno != EINTR ? -errno : 0;
}

/* The reply to seq; others are taken care of. */
static int receive_reply(struct pl_conn *c, uint32_t seq, uint64_t deadline,
			 union pl_reply *m, int *fds, int *n_fds)
{
	for (;;) {
		int rc = receive(c, m, fds, n_fds);

		if (rc == -EAGAIN) {
			rc = await(c, deadline);
			if (rc < 0)
				return rc;
			continue;
		}
		if (rc < 0)
			return rc;
		if (m->h.seq == seq)
			return 0;
		close_all(fds, *n_fds);
		if (m->h.type == PL_MSG_REGION_END)
			pushed(c, m);
		/* Else: late reply to a request that was given up. */
	}
}

static int reply_error(const union pl_reply *m, struct pl_err *err)
{
	int code = m->error.code;

	if (code <= 0 || code > 4095 ||
	    !pl_msg_text_valid(m->error.text, sizeof(m->error.text)))
		return pl_err_set(err, EPROTO, "the agent sent a malformed "
				  "error");
	return pl_err_set(err, code, "%s", m->error.text);
}

static int failed(struct pl_err *err, int rc)
{
	if (rc == -ECONNRESET || rc == -EPIPE)
		return pl_err_set(err, ECONNRESET, "the agent has gone; "
				  "connect again with pl_open");
	if (rc == -ETIMEDOUT)
		return pl_err_set(err, ETIMEDOUT, "the agent did not answer "
				  "in time");
	if (rc == -EPROTO)
		return pl_err_set(err, EPROTO, "the agent sent a malformed "
				  "message");
	return pl_err_set(err, -rc, "agent: %s", strerror(-rc));
}

static int call_locked(struct pl_conn *c, void *request, size_t len,
		       uint16_t type, int fd, union pl_reply *m, int *fds,
		       int *n_fds, uint64_t deadline)
{
	int rc;

	if (c->dead)
		return -ECONNRESET;
	if (++c->seq == 0)
		c->seq = 1;
	pl_msg_fill(request, type, c->seq);
	rc = pl_fdpass_send(c->sock, request, len, &fd, fd >= 0, 0);
	if (rc < 0) {
		c->dead = c->dead || rc == -EPIPE || rc == -ECONNRESET;
		return rc;
	}
	return receive_reply(c, c->seq, deadline, m, fds, n_fds);
}

int pl_conn_call(struct pl_conn *c, void *request, size_t len, uint16_t type,
		 int fd, uint16_t want_type, union pl_reply *reply, int *fds,
		 int n_fds, int timeout_ms, struct pl_err *err)
{
	uint64_t deadline = timeout_ms < 0 ? UINT64_MAX :
			    pl_now_ns() + (uint64_t)timeout_ms * 1000000u;
	int got[PL_FDPASS_MAX];
	int n = 0, rc;

	pthread_mutex_lock(&c->lock);
	rc = call_locked(c, request, len, type, fd, reply, got, &n, deadline);
	pthread_mutex_unlock(&c->lock);
	if (rc < 0)
		return failed(err, rc);
	if (reply->h.type == want_type && n == n_fds) {
		for (int i = 0; i < n; i++)
			fds[i] = got[i];
		return 0;
	}
	close_all(got, n);
	if (reply->h.type == PL_MSG_ERROR)
		return reply_error(reply, err);
	return failed(err, -EPROTO);
}

void pl_conn_events(struct pl_conn *c)
{
	int fds[PL_FDPASS_MAX];
	union pl_reply m;
	int n;

	/* Somebody who holds it reads the messages. */
	if (pthread_mutex_trylock(&c->lock))
		return;
	while (!c->dead && receive(c, &m, fds, &n) == 0) {
		close_all(fds, n);
		if (m.h.type == PL_MSG_REGION_END)
			pushed(c, &m);
	}
	pthread_mutex_unlock(&c->lock);
}

/* --- open and close ------------------------------------------------------- */

static int connect_agent(struct pl_err *err)
{
	static const char name[] = PL_WIRE_SOCKET;
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	pl_auto_fd s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
				    1 + sizeof(name) - 1);

	if (s < 0)
		return pl_err_sys(err, "cannot make a socket");
	memcpy(sa.sun_path + 1, name, sizeof(name) - 1);
	if (connect(s, (struct sockaddr *)&sa, len) < 0)
		return pl_err_sys(err, "no agent serves this pod at @%s (was "
				  "the pod wired by the podlane plugin, and "
				  "is podlaned running?)", name);
	return pl_take_fd(&s);
}

static int hello(struct pl_conn *c, struct pl_err *err)
{
	struct pl_msg_hello req = { .version_min = PL_WIRE_VERSION,
				    .version_max = PL_WIRE_VERSION };
	union pl_reply m;
	int rc = pl_conn_call(c, &req, sizeof(req), PL_MSG_HELLO, -1,
			      PL_MSG_HELLO_OK, &m, NULL, 0,
			      PL_REPLY_TIMEOUT_MS, err);

	if (rc < 0)
		return rc;
	if (m.hello.version != PL_WIRE_VERSION ||
	    !pl_msg_text_valid(m.hello.node, sizeof(m.hello.node)) ||
	    !pl_msg_text_valid(m.hello.addr, sizeof(m.hello.addr)))
		return failed(err, -EPROTO);
	memcpy(c->info.node, m.hello.node, sizeof(c->info.node));
	memcpy(c->info.addr, m.hello.addr, sizeof(c->info.addr));
	return 0;
}

int pl_conn_start(int sock, struct pl_conn **out, struct pl_err *err)
{
	struct pl_conn *c = calloc(1, sizeof(*c));
	int rc;

	if (!c) {
		close(sock);
		return pl_err_set(err, ENOMEM, "out of memory");
	}
	c->sock = sock;
	pthread_mutex_init(&c->lock, NULL);
	rc = hello(c, err);
	if (rc < 0) {
		pl_close(c);
		return rc;
	}
	*out = c;
	return 0;
}

int pl_open(struct pl_conn **out, struct pl_err *err)
{
	int sock = connect_agent(err);

	return sock < 0 ? sock : pl_conn_start(sock, out, err);
}

void pl_close(struct pl_conn *c)
{
	if (!c)
		return;
	close(c->sock);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

void pl_conn_info(const struct pl_conn *c, struct pl_conn_info *info)
{
	*info = c->info;
}

/* --- what lanes and regions ask ------------------------------------------- */

static void tell_end(struct pl_conn *c, uint16_t type, uint64_t id)
{
	struct pl_msg_id req = { .id = id };
	union pl_reply m;

	pl_conn_call(c, &req, sizeof(req), type, -1, PL_MSG_OK, &m, NULL, 0,
		     PL_REPLY_TIMEOUT_MS, NULL);
}

void pl_conn_lane_closed(struct pl_conn *c, uint64_t id)
{
	tell_end(c, PL_MSG_LANE_CLOSE, id);
}

void pl_conn_region_opened(struct pl_conn *c, struct pl_region *r)
{
	pthread_mutex_lock(&c->lock);
	r->next = c->regions;
	c->regions = r;
	pthread_mutex_unlock(&c->lock);
}

void pl_conn_region_closed(struct pl_conn *c, struct pl_region *r)
{
	struct pl_region **p;

	pthread_mutex_lock(&c->lock);
	for (p = &c->regions; *p && *p != r; p = &(*p)->next)
		;
	if (*p)
		*p = r->next;
	pthread_mutex_unlock(&c->lock);
	tell_end(c, PL_MSG_REGION_CLOSE, r->id);
}
