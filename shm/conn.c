/* shm/conn.c - the connection of a program to its agent: requests, pushes */
#include "shm/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <time.h>

#include "common/util.h"
#include "shm/msg.h"

/* A reply that is so many requests late belongs to nothing any more. */
#define LATE_MAX 1024

struct pl_conn_note {
	STAILQ_ENTRY(pl_conn_note) next;
	enum pl_msg_type type;
	uint64_t id;
	uint32_t epoch;
};

static int broken(struct pl_conn *c, int why)
{
	c->broken = why;
	if (c->fd >= 0)
		shutdown(c->fd, SHUT_RDWR);
	pthread_cond_broadcast(&c->moved);
	return why;
}

int pl_conn_lose(struct pl_conn *c, int why)
{
	if (!c->has_keeper || c->broken || why != -ECONNRESET)
		return c->broken ? c->broken : broken(c, why);
	if (!c->away)
		c->away_ns = pl_now_ns();
	c->away = true;
	/* The keeper sees that. */
	if (c->fd >= 0)
		shutdown(c->fd, SHUT_RDWR);
	return why;
}

bool pl_conn_is_ours(const struct pl_conn *conn)
{
	return conn->pid == getpid();
}

/* --- what was not asked for ---------------------------------------------- */

static void note_add(struct pl_conn *c, enum pl_msg_type type, uint64_t id,
		     uint32_t epoch)
{
	struct pl_conn_note *n = malloc(sizeof(*n));

	/* Without memory the agent learns it at the end of the connection. */
	if (!n)
		return;
	n->type = type;
	n->id = id;
	n->epoch = epoch;
	pthread_mutex_lock(&c->notes_lock);
	STAILQ_INSERT_TAIL(&c->notes, n, next);
	pthread_mutex_unlock(&c->notes_lock);
}

/* Locked. */
static void take_push(struct pl_conn *c, const struct pl_msg *m)
{
	struct pl_conn_obj *o;

	pthread_mutex_lock(&c->objs_lock);
	LIST_FOREACH(o, &c->objs, of_conn)
		if (o->ops->ended)
			o->ops->ended(o, m->id.id, c->epoch);
	/* It may be of something that is just being made. */
	c->ended[c->n_ended++ % PL_CONN_ENDED] =
		(struct pl_conn_ended){ m->id.id, c->epoch };
	pthread_mutex_unlock(&c->objs_lock);
}

static bool is_push(const struct pl_msg *m)
{
	return m->h.type == PL_MSG_REGION_END && m->h.seq == 0;
}

static bool is_late(const struct pl_conn *c, const struct pl_msg *m)
{
	return m->h.seq && c->seq - m->h.seq - 1 < LATE_MAX;
}

/* Whoever asked for it has given up. */
static void take_late(struct pl_conn *c, struct pl_msg *m)
{
	pl_msg_drop(m);
	c->late = false;
	if (m->h.type == PL_MSG_CONNECT_OK || m->h.type == PL_MSG_LANE_RESUMED)
		note_add(c, PL_MSG_LANE_CLOSE, m->lane.id, c->epoch);
	else if (m->h.type == PL_MSG_REGION_CREATE_OK ||
		 m->h.type == PL_MSG_REGION_OPEN_OK)
		note_add(c, PL_MSG_REGION_CLOSE, m->region.id, c->epoch);
}

/* --- requests ------------------------------------------------------------ */

static int take_error(struct pl_conn *c, const struct pl_msg *m, uint32_t seq,
		      struct pl_err *err)
{
	int code = m->error.code;

	if (code < 1 || code > 4095 || (m->h.seq && m->h.seq != seq))
		return broken(c, pl_err_set(err, EPROTO, "the agent sent an "
					    "error that is not one"));
	pl_err_set(err, code, "%s", m->error.text);
	/* It answers nobody's request: the agent refused the connection. */
	if (m->h.seq == 0)
		broken(c, -code);
	return -code;
}

/* Locked. The reply to seq, or something else, which is not the end yet: 1. */
static int take_reply(struct pl_conn *c, const struct pl_conn_call *call,
		      uint32_t seq, struct pl_msg *m, struct pl_err *err)
{
	if (is_push(m)) {
		take_push(c, m);
		return 1;
	}
	if (is_late(c, m)) {
		take_late(c, m);
		return 1;
	}
	c->late = false;
	if (m->h.type == PL_MSG_ERROR)
		return take_error(c, m, seq, err);
	if (m->h.type != call->reply_type || m->h.seq != seq ||
	    (m->h.version != c->version && m->h.type != PL_MSG_HELLO_OK) ||
	    m->n_fds != call->n_reply_fds) {
		pl_msg_drop(m);
		return broken(c, pl_err_set(err, EPROTO, "the agent sent a "
					    "reply to something else"));
	}
	if (call->reply)
		memcpy(call->reply, m->bytes, call->reply_bytes);
	for (int i = 0; i < m->n_fds; i++)
		call->reply_fds[i] = pl_msg_take_fd(m, i);
	return 0;
}

/* Locked. 1: go on. */
static int recv_some(struct pl_conn *c, const struct pl_conn_call *call,
		     uint64_t deadline, struct pl_err *err)
{
	struct pl_msg m;
	int rc;

	if (pl_now_ns() > deadline)
		rc = pl_err_set(err, ETIMEDOUT, "the agent does not answer");
	else
		rc = pl_msg_recv(c->fd, deadline, &m, err);
	/* Its reply will be late; others' may come meanwhile. */
	if (rc == -ETIMEDOUT) {
		c->late = true;
		return rc;
	}
	/* Without its descriptors a reply is lost, but it was one. */
	if (rc < 0)
		return rc == -EMFILE ? rc : pl_conn_lose(c, rc);
	return take_reply(c, call, c->seq, &m, err);
}

static int put_request(struct pl_conn *c, const struct pl_conn_call *call,
		       struct pl_err *err)
{
	int rc;

	if (!pl_msg_bytes(call->type, c->version))
		return pl_err_set(err, EPROTO, "the agent is of a release that "
				  "does not know this request");
	if (++c->seq == 0)
		++c->seq;
	rc = pl_msg_put(c->fd, c->version, call->request,
			(enum pl_msg_type)call->type, c->seq, call->fds,
			call->n_fds);
	/* An agent that has hung up may have said why. */
	if (rc == 0 || rc == -ECONNRESET)
		return 0;
	return broken(c, pl_err_set(err, -rc, "cannot send to the agent: %s",
				    strerror(-rc)));
}

static int call_locked(struct pl_conn *c, const struct pl_conn_call *call,
		       uint64_t deadline, struct pl_err *err)
{
	int rc;

	if (c->broken)
		return pl_err_set(err, -c->broken, "the connection to the agent "
				  "is broken: %s", strerror(-c->broken));
	if (c->fd < 0)
		return pl_err_set(err, ECONNRESET, "the agent has gone");
	rc = put_request(c, call, err);
	if (rc < 0)
		return rc;
	do {
		rc = recv_some(c, call, deadline, err);
	} while (rc == 1);
	if (rc == 0 && call->epoch)
		*call->epoch = c->epoch;
	return rc;
}

/* Locked. Until there is an agent, or none for good. */
static int wait_agent(struct pl_conn *c, uint64_t deadline, struct pl_err *err)
{
	const struct timespec ts = {
		.tv_sec = (time_t)(deadline / 1000000000u),
		.tv_nsec = (long)(deadline % 1000000000u),
	};

	while (c->away && !c->broken) {
		if (deadline == UINT64_MAX)
			pthread_cond_wait(&c->moved, &c->lock);
		else if (pthread_cond_timedwait(&c->moved, &c->lock, &ts))
			break;
	}
	if (!c->away || c->broken)
		return 0;
	return pl_err_set(err, ETIMEDOUT, "the agent has gone, and none has "
			  "come in its place in time");
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
static void note_tell(struct pl_conn *c, const struct pl_conn_note *n)
{
	struct pl_msg_id id = { .id = n->id };
	const struct pl_conn_call call = { .request = &id,
					   .type = (uint16_t)n->type,
					   .reply_type = PL_MSG_OK };

	/* Another agent does not know it, or another thing by this id. */
	if (c->broken || c->fd < 0 || n->epoch != c->epoch)
		return;
	if (c->late)
		put_request(c, &call, NULL);
	else
		call_locked(c, &call, pl_msg_deadline(PL_CONN_TELL_MS), NULL);
}

/*
 * Whoever finds the lock taken leaves the notes to the one who has it: that
 * one comes here after it has unlocked.
 */
void pl_conn_flush(struct pl_conn *c)
{
	struct pl_conn_note *n;

	while (notes_wait(c) && pthread_mutex_trylock(&c->lock) == 0) {
		while ((n = note_next(c))) {
			note_tell(c, n);
			free(n);
		}
		pthread_mutex_unlock(&c->lock);
	}
}

void pl_conn_tell(struct pl_conn *conn, enum pl_msg_type type, uint64_t id,
		  uint32_t epoch)
{
	if (!pl_conn_is_ours(conn))
		return;
	note_add(conn, type, id, epoch);
	pl_conn_flush(conn);
}

/* --- calls -------------------------------------------------------------- */

int pl_conn_call(struct pl_conn *conn, const struct pl_conn_call *call,
		 struct pl_err *err)
{
	const uint64_t deadline = pl_msg_deadline(call->timeout_ms);
	uint64_t last = deadline;
	int rc;

	if (!pl_conn_is_ours(conn))
		return pl_err_set(err, EPERM, "this process is a child of the "
				  "one that is connected to the agent: call "
				  "pl_open in it");
	if (call->timeout_ms >= 0)
		last += (uint64_t)call->grace_ms * 1000000u;
	pthread_mutex_lock(&conn->lock);
	do {
		rc = wait_agent(conn, deadline, err);
		if (rc == 0)
			rc = call_locked(conn, call, last, err);
	} while (rc == -ECONNRESET && conn->away && !conn->broken);
	pthread_mutex_unlock(&conn->lock);
	pl_conn_flush(conn);
	return rc;
}

int pl_conn_call_once(struct pl_conn *conn, const struct pl_conn_call *call,
		      struct pl_err *err)
{
	int rc;

	pthread_mutex_lock(&conn->lock);
	rc = call_locked(conn, call, pl_msg_deadline(call->timeout_ms), err);
	pthread_mutex_unlock(&conn->lock);
	pl_conn_flush(conn);
	return rc;
}

void pl_conn_poll(struct pl_conn *conn)
{
	struct pl_msg m;
	int rc = 0;

	if (!pl_conn_is_ours(conn) ||
	    pthread_mutex_trylock(&conn->lock) != 0)
		return;
	while (!conn->broken && conn->fd >= 0 && rc == 0) {
		rc = pl_msg_recv_now(conn->fd, &m, NULL);
		if (rc == 0 && is_push(&m)) {
			take_push(conn, &m);
		} else if (rc == 0 && (is_late(conn, &m) ||
				       m.h.seq == conn->seq)) {
			take_late(conn, &m);
		} else if (rc == 0) {
			pl_msg_drop(&m);
			rc = -EPROTO;
		}
		if (rc < 0 && rc != -EAGAIN)
			pl_conn_lose(conn, rc);
	}
	pthread_mutex_unlock(&conn->lock);
	pl_conn_flush(conn);
}

/* --- objects ------------------------------------------------------------ */

void pl_conn_obj_lose(struct pl_conn_obj *o)
{
	if (!o->is_lost)
		o->ops->lost(o);
	o->is_lost = true;
}

/* With objs_lock. */
static void recheck(struct pl_conn_obj *o)
{
	const struct pl_conn_ended *e = o->conn->ended;

	for (unsigned int i = 0; o->ops->ended && i < PL_CONN_ENDED; i++)
		if (e[i].id)
			o->ops->ended(o, e[i].id, e[i].epoch);
}

void pl_conn_obj_recheck(struct pl_conn_obj *o)
{
	pthread_mutex_lock(&o->conn->objs_lock);
	recheck(o);
	pthread_mutex_unlock(&o->conn->objs_lock);
}

void pl_conn_obj_add(struct pl_conn *conn, struct pl_conn_obj *o,
		     const struct pl_conn_obj_ops *ops, uint32_t epoch)
{
	o->ops = ops;
	o->conn = conn;
	o->epoch = epoch;
	pthread_mutex_lock(&conn->objs_lock);
	LIST_INSERT_HEAD(&conn->objs, o, of_conn);
	recheck(o);
	if (conn->away && ops->away)
		ops->away(o);
	if (conn->broken && conn->has_keeper)
		pl_conn_obj_lose(o);
	pthread_mutex_unlock(&conn->objs_lock);
	/* The agent of that epoch may have gone meanwhile. */
	pl_keeper_poke(conn);
}

void pl_conn_obj_remove(struct pl_conn_obj *o)
{
	struct pl_conn *c = o->conn;

	if (c && pl_conn_is_ours(c)) {
		pthread_mutex_lock(&c->objs_lock);
		while (o->busy)
			pthread_cond_wait(&c->idle, &c->objs_lock);
		LIST_REMOVE(o, of_conn);
		pthread_mutex_unlock(&c->objs_lock);
	}
	o->conn = NULL;
}

/* --- opening and closing ------------------------------------------------ */

int pl_conn_hello(struct pl_conn *c, int timeout_ms, struct pl_err *err)
{
	struct pl_msg_hello h = { .version_min = PL_WIRE_VERSION_MIN,
				  .version_max = PL_WIRE_VERSION };
	struct pl_msg_hello_ok ok;
	const struct pl_conn_call call = { .request = &h,
					   .type = PL_MSG_HELLO,
					   .reply_type = PL_MSG_HELLO_OK,
					   .reply = &ok,
					   .reply_bytes = sizeof(ok) };
	const struct timeval tv = { .tv_sec = PL_CONN_REPLY_MS / 1000 };
	int rc;

	/* An agent that hangs does not take what it is sent. */
	if (setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) < 0)
		return pl_err_sys(err, "cannot set a limit on the connection");
	c->version = PL_WIRE_VERSION_MIN;
	rc = call_locked(c, &call, pl_msg_deadline(timeout_ms), err);
	if (rc < 0)
		return rc;
	if (ok.version < PL_WIRE_VERSION_MIN || ok.version > PL_WIRE_VERSION ||
	    ok.version != ok.h.version)
		return pl_err_set(err, EPROTO, "the agent speaks version %u of "
				  "its protocol, this library %u to %u",
				  ok.version, PL_WIRE_VERSION_MIN,
				  PL_WIRE_VERSION);
	c->version = ok.version;
	c->sums = ok.flags & PL_HELLO_CHECKSUM;
	c->resume_ms = ok.resume_ms ? ok.resume_ms : PL_CONN_RESUME_MS;
	/* What the first agent said; programs read it without the lock. */
	if (!c->has_keeper) {
		memcpy(c->info.node, ok.node, sizeof(c->info.node));
		memcpy(c->info.addr, ok.addr, sizeof(c->info.addr));
		/* An agent of before version 3 has the short one only. */
		if (ok.full_node[0])
			memcpy(c->node, ok.full_node, sizeof(c->node));
		else
			memcpy(c->node, ok.node, sizeof(ok.node));
	}
	return 0;
}

static void cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

int pl_conn_attach(int fd, struct pl_conn **out, struct pl_err *err)
{
	struct pl_conn *c = calloc(1, sizeof(*c));
	int rc;

	if (!c) {
		close(fd);
		return pl_err_set(err, ENOMEM, "out of memory");
	}
	c->fd = fd;
	c->pid = getpid();
	c->poke_fd = -1;
	c->epoch = 1;
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->notes_lock, NULL);
	pthread_mutex_init(&c->objs_lock, NULL);
	cond_init(&c->moved);
	cond_init(&c->idle);
	LIST_INIT(&c->objs);
	STAILQ_INIT(&c->notes);
	rc = pl_conn_hello(c, PL_CONN_REPLY_MS, err);
	if (rc < 0)
		pl_close(c);
	else
		*out = c;
	return rc;
}

int pl_conn_open(pl_conn_dial *dial, void *arg, struct pl_conn **out,
		 struct pl_err *err)
{
	int fd = dial(arg, err), rc;
	struct pl_conn *c;

	if (fd < 0)
		return fd;
	rc = pl_conn_attach(fd, &c, err);
	if (rc < 0)
		return rc;
	c->dial = dial;
	c->dial_arg = arg;
	rc = pl_keeper_start(c, err);
	if (rc < 0)
		pl_close(c);
	else
		*out = c;
	return rc;
}

static int dial_agent(void *arg, struct pl_err *err)
{
	const struct timeval tv = { .tv_sec = PL_CONN_REPLY_MS / 1000 };
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	const socklen_t len = offsetof(struct sockaddr_un, sun_path) + 1 +
			      sizeof(PL_WIRE_SOCKET) - 1;
	pl_auto_fd fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	(void)arg;
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
	return pl_conn_open(dial_agent, NULL, out, err);
}

static void conn_fini(struct pl_conn *c)
{
	struct pl_conn_note *n;

	while ((n = note_next(c)))
		free(n);
	pthread_cond_destroy(&c->moved);
	pthread_cond_destroy(&c->idle);
	pthread_mutex_destroy(&c->lock);
	pthread_mutex_destroy(&c->notes_lock);
	pthread_mutex_destroy(&c->objs_lock);
}

void pl_close(struct pl_conn *conn)
{
	bool is_ours;

	if (!conn)
		return;
	is_ours = pl_conn_is_ours(conn);
	pl_keeper_stop(conn);
	/* Even if a child of fork has the descriptor, too. */
	if (is_ours && conn->fd >= 0)
		shutdown(conn->fd, SHUT_RDWR);
	pl_close_fd(&conn->fd);
	if (is_ours)
		conn_fini(conn);
	free(conn);
}

void pl_conn_info(const struct pl_conn *conn, struct pl_conn_info *info)
{
	*info = conn->info;
}

const char *pl_conn_node(const struct pl_conn *conn)
{
	return conn->node;
}
