/* shm/conn.c - the connection of a program to its agent */
#include "shm/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "common/util.h"
#include "shm/msg.h"
#include "shm/region.h"

struct pl_conn_note {
	STAILQ_ENTRY(pl_conn_note) next;
	enum pl_msg_type type;
	uint64_t id;
};

static int conn_broken(struct pl_conn *c, int rc)
{
	c->broken = rc;
	shutdown(c->fd, SHUT_RDWR);
	return rc;
}

/* Locked. What came without having been asked for. */
static void take_push(struct pl_conn *c, const struct pl_msg *m)
{
	struct pl_region *r;

	LIST_FOREACH(r, &c->regions, of_conn)
		if (r->id == m->id.id)
			pl_region_ended(r);
}

static bool is_push(const struct pl_msg *m)
{
	return m->h.type == PL_MSG_REGION_END && m->h.seq == 0;
}

static int take_error(struct pl_conn *c, const struct pl_msg *m, uint32_t seq,
		      struct pl_err *err)
{
	int code = m->error.code;

	if (code < 1 || code > 4095 || (m->h.seq && m->h.seq != seq))
		return conn_broken(c, pl_err_set(err, EPROTO, "the agent sent "
						 "an error that is not one"));
	pl_err_set(err, code, "%s", m->error.text);
	/* It answers nobody's request: the agent refused the connection. */
	if (m->h.seq == 0)
		conn_broken(c, -code);
	return -code;
}

/* Locked. The reply to seq, or a push, which is not the end yet: 1. */
static int take_reply(struct pl_conn *c, const struct pl_conn_call *call,
		      uint32_t seq, struct pl_msg *m, struct pl_err *err)
{
	if (is_push(m)) {
		take_push(c, m);
		return 1;
	}
	if (m->h.type == PL_MSG_ERROR)
		return take_error(c, m, seq, err);
	if (m->h.type != call->reply_type || m->h.seq != seq ||
	    (call->reply && m->len != call->reply_bytes) ||
	    m->n_fds != call->n_reply_fds) {
		pl_msg_drop(m);
		return conn_broken(c, pl_err_set(err, EPROTO, "the agent sent "
						 "a reply to something else"));
	}
	if (call->reply)
		memcpy(call->reply, m->bytes, call->reply_bytes);
	for (int i = 0; i < m->n_fds; i++)
		call->reply_fds[i] = pl_msg_take_fd(m, i);
	return 0;
}

static int call_locked(struct pl_conn *c, const struct pl_conn_call *call,
		       struct pl_err *err)
{
	const uint64_t deadline = pl_msg_deadline(call->timeout_ms);
	struct pl_msg m;
	int rc;

	if (c->broken)
		return pl_err_set(err, -c->broken, "the connection to the agent "
				  "is broken: %s", strerror(-c->broken));
	if (++c->seq == 0)
		++c->seq;
	rc = pl_msg_put(c->fd, call->request, call->request_bytes, call->type,
			c->seq, call->fds, call->n_fds);
	/* An agent that has hung up may have said why. */
	if (rc < 0 && rc != -ECONNRESET)
		return conn_broken(c, pl_err_set(err, -rc, "cannot send to the "
						 "agent: %s", strerror(-rc)));
	do {
		if (pl_now_ns() > deadline)
			rc = pl_err_set(err, ETIMEDOUT,
					"the agent does not answer");
		else
			rc = pl_msg_recv(c->fd, deadline, &m, err);
		/* Without its descriptors a reply is lost, but it was one. */
		if (rc < 0)
			return rc == -EMFILE ? rc : conn_broken(c, rc);
		rc = take_reply(c, call, c->seq, &m, err);
	} while (rc == 1);
	return rc;
}

/* --- notes -------------------------------------------------------------- */

static struct pl_conn_note *note_next(struct pl_conn *c)
{
	struct pl_conn_note *n;

	pthread_mutex_lock(&c->notes_lock);
	n = STAILQ_FIRST(&c->notes);
	if (n)
		STAILQ_REMOVE_HEAD(&c->notes, next);
	pthread_mutex_unlock(&c->notes_lock);
	return n;
}

static bool notes_wait(struct pl_conn *c)
{
	bool any;

	pthread_mutex_lock(&c->notes_lock);
	any = !STAILQ_EMPTY(&c->notes);
	pthread_mutex_unlock(&c->notes_lock);
	return any;
}

/* Locked. */
static void notes_tell(struct pl_conn *c)
{
	struct pl_conn_note *n;

	while ((n = note_next(c))) {
		struct pl_msg_id id = { .id = n->id };
		const struct pl_conn_call call = {
			.request = &id,
			.request_bytes = sizeof(id),
			.type = (uint16_t)n->type,
			.reply_type = PL_MSG_OK,
			.timeout_ms = PL_CONN_TELL_MS,
		};

		if (!c->broken)
			call_locked(c, &call, NULL);
		free(n);
	}
}

/*
 * Whoever finds the lock taken leaves the notes to the one who has it: that
 * one comes here after it has unlocked.
 */
static void notes_flush(struct pl_conn *c)
{
	while (notes_wait(c) && pthread_mutex_trylock(&c->lock) == 0) {
		notes_tell(c);
		pthread_mutex_unlock(&c->lock);
	}
}

void pl_conn_tell(struct pl_conn *conn, enum pl_msg_type type, uint64_t id)
{
	struct pl_conn_note *n = malloc(sizeof(*n));

	/* Without memory the agent learns it at the end of the connection. */
	if (!n)
		return;
	n->type = type;
	n->id = id;
	pthread_mutex_lock(&conn->notes_lock);
	STAILQ_INSERT_TAIL(&conn->notes, n, next);
	pthread_mutex_unlock(&conn->notes_lock);
	notes_flush(conn);
}

/* --- calls -------------------------------------------------------------- */

int pl_conn_call(struct pl_conn *conn, const struct pl_conn_call *call,
		 struct pl_err *err)
{
	int rc;

	pthread_mutex_lock(&conn->lock);
	rc = call_locked(conn, call, err);
	pthread_mutex_unlock(&conn->lock);
	notes_flush(conn);
	return rc;
}

void pl_conn_poll(struct pl_conn *conn)
{
	struct pl_msg m;
	int rc = 0;

	if (pthread_mutex_trylock(&conn->lock) != 0)
		return;
	while (!conn->broken && rc == 0) {
		rc = pl_msg_recv_now(conn->fd, &m, NULL);
		if (rc == 0 && is_push(&m)) {
			take_push(conn, &m);
			continue;
		}
		if (rc == 0) {
			pl_msg_drop(&m);
			rc = -EPROTO;
		}
		if (rc != -EAGAIN)
			conn_broken(conn, rc);
	}
	pthread_mutex_unlock(&conn->lock);
	notes_flush(conn);
}

void pl_conn_region_add(struct pl_conn *conn, struct pl_region *r)
{
	pthread_mutex_lock(&conn->lock);
	LIST_INSERT_HEAD(&conn->regions, r, of_conn);
	pthread_mutex_unlock(&conn->lock);
	notes_flush(conn);
}

void pl_conn_region_remove(struct pl_conn *conn, struct pl_region *r)
{
	pthread_mutex_lock(&conn->lock);
	LIST_REMOVE(r, of_conn);
	pthread_mutex_unlock(&conn->lock);
	notes_flush(conn);
}

/* --- opening and closing ------------------------------------------------ */

static int hello(struct pl_conn *c, struct pl_err *err)
{
	struct pl_msg_hello h = { .version_min = PL_WIRE_VERSION,
				  .version_max = PL_WIRE_VERSION };
	struct pl_msg_hello_ok ok;
	const struct pl_conn_call call = {
		.request = &h,
		.request_bytes = sizeof(h),
		.type = PL_MSG_HELLO,
		.reply_type = PL_MSG_HELLO_OK,
		.reply = &ok,
		.reply_bytes = sizeof(ok),
		.timeout_ms = PL_CONN_REPLY_MS,
	};
	int rc = pl_conn_call(c, &call, err);

	if (rc < 0)
		return rc;
	if (ok.version != PL_WIRE_VERSION)
		return pl_err_set(err, EPROTO, "the agent speaks version %u of "
				  "its protocol, this library version %u",
				  ok.version, PL_WIRE_VERSION);
	memcpy(c->info.node, ok.node, sizeof(c->info.node));
	memcpy(c->info.addr, ok.addr, sizeof(c->info.addr));
	return 0;
}

int pl_conn_attach(int fd, struct pl_conn **out, struct pl_err *err)
{
	const struct timeval tv = { .tv_sec = PL_CONN_REPLY_MS / 1000 };
	struct pl_conn *c = calloc(1, sizeof(*c));
	int rc;

	if (!c) {
		close(fd);
		return pl_err_set(err, ENOMEM, "out of memory");
	}
	c->fd = fd;
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->notes_lock, NULL);
	LIST_INIT(&c->regions);
	STAILQ_INIT(&c->notes);
	/* An agent that hangs does not take what it is sent. */
	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) < 0)
		rc = pl_err_sys(err, "cannot set a limit on the connection");
	else
		rc = hello(c, err);
	if (rc < 0)
		pl_close(c);
	else
		*out = c;
	return rc;
}

static int dial(struct pl_err *err)
{
	const struct timeval tv = { .tv_sec = PL_CONN_REPLY_MS / 1000 };
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	const socklen_t len = offsetof(struct sockaddr_un, sun_path) + 1 +
			      sizeof(PL_WIRE_SOCKET) - 1;
	pl_auto_fd fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return pl_err_sys(err, "cannot make a socket");
	memcpy(sa.sun_path + 1, PL_WIRE_SOCKET, sizeof(PL_WIRE_SOCKET) - 1);
	/* Also limits connect() while the agent's queue is full. */
	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) < 0)
		return pl_err_sys(err, "cannot set a limit on a socket");
	if (connect(fd, (const struct sockaddr *)&sa, len) == 0)
		return pl_take_fd(&fd);
	if (errno == ECONNREFUSED)
		return pl_err_set(err, ECONNREFUSED, "no agent serves this pod "
				  "(@podlane in its network namespace): is "
				  "podlaned running on this node, and did the "
				  "podlane CNI plugin make this pod?");
	if (errno == EAGAIN)
		errno = ETIMEDOUT;
	return pl_err_sys(err, "cannot connect to the agent at @podlane");
}

int pl_open(struct pl_conn **out, struct pl_err *err)
{
	int fd = dial(err);

	return fd < 0 ? fd : pl_conn_attach(fd, out, err);
}

void pl_close(struct pl_conn *conn)
{
	struct pl_conn_note *n;

	if (!conn)
		return;
	while ((n = note_next(conn)))
		free(n);
	close(conn->fd);
	pthread_mutex_destroy(&conn->lock);
	pthread_mutex_destroy(&conn->notes_lock);
	free(conn);
}

void pl_conn_info(const struct pl_conn *conn, struct pl_conn_info *info)
{
	*info = conn->info;
}
