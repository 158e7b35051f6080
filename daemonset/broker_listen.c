/*
 * daemonset/broker_listen.c - listeners of pods, and what they answer
 *
 * A listener has a socket pair of its own: lanes are offered there and accepted
 * or rejected, and its end is the end of the listener.
 */
#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/fdpass.h"
#include "common/util.h"
#include "daemonset/broker_internal.h"
#include "daemonset/guard.h"
#include "shm/podlane.h"

struct pl_service *pl_service_find(struct pl_pod *pod, const char *name)
{
	struct pl_service *s;

	HASH_FIND_STR(pod->services, name, s);
	return s;
}

int pl_service_missing(const struct pl_broker *b, const struct pl_pod *pod,
		       const char *name, struct pl_err *err)
{
	if (pl_broker_is_settling(b, pod))
		return pl_err_set(err, EAGAIN, "the agent has just been "
				  "started, and nobody in that pod has told it "
				  "yet to listen on '%s'", name);
	return pl_err_set(err, ECONNREFUSED, "nobody in that pod listens on "
			  "'%s'", name);
}

void pl_service_end(struct pl_service *s)
{
	struct pl_pod *pod = s->client->pod;
	struct pl_lane_rec *l;

	HASH_DELETE(hh, pod->services, s);
	LIST_REMOVE(s, of_client);
	pod->usage.listeners--;
	while ((l = LIST_FIRST(&s->pending)))
		pl_lane_refuse(l, -ECONNREFUSED, "the listener was closed "
						 "before it took the lane");
	if (s->ev)
		event_free(s->ev);
	pl_guard_close(&s->fd);
	free(s);
}

static const char *on_accept(struct pl_service *s, const void *msg, size_t len,
			     const int *fds, int n_fds)
{
	struct pl_msg_accept m;

	if (len != sizeof(m) || n_fds != 1)
		return "an ACCEPT that is not well formed";
	memcpy(&m, msg, sizeof(m));
	pl_lane_accepted(s, m.id, m.ring_bytes, fds[0]);
	return NULL;
}

static const char *on_reject(struct pl_service *s, const void *msg, size_t len,
			     int n_fds)
{
	struct pl_lane_rec *l;
	struct pl_msg_ok m;

	if (len != sizeof(m) || n_fds != 0)
		return "a REJECT that is not well formed";
	memcpy(&m, msg, sizeof(m));
	LIST_FOREACH(l, &s->pending, of_svc)
		if (l->id == m.id)
			break;
	if (l)
		pl_lane_refuse(l, -ECONNREFUSED,
			       "the listener rejected the lane");
	return NULL;
}

static const char *answer(struct pl_service *s, const void *msg, size_t len,
			  const int *fds, int n_fds)
{
	const char *wrong = pl_msg_check(msg, len, s->client->version);
	struct pl_msg_hdr h;

	if (*wrong)
		return wrong;
	memcpy(&h, msg, sizeof(h));
	if (h.type == PL_MSG_ACCEPT)
		return on_accept(s, msg, len, fds, n_fds);
	if (h.type == PL_MSG_REJECT)
		return on_reject(s, msg, len, n_fds);
	return "an answer of an unknown type on a listener";
}

/* 1: there was one, 0: there is none, -ECONNRESET: the listener has ended. */
static int take_answer(struct pl_service *s)
{
	char buf[PL_WIRE_MAX] __attribute__((aligned(8)));
	int fds[PL_FDPASS_MAX], n_fds;
	const char *wrong = NULL;
	ssize_t n = pl_guard_recv(s->fd, buf, sizeof(buf), fds, PL_FDPASS_MAX,
				  &n_fds);

	if (n == -EAGAIN)
		return 0;
	if (n > 0)
		wrong = answer(s, buf, (size_t)n, fds, n_fds);
	else if (n < 0 && n != -ECONNRESET)
		wrong = "an answer that is too long, or with too many "
			"descriptors";
	for (int i = 0; i < n_fds; i++)
		pl_guard_close(&fds[i]);
	if (wrong)
		pl_pod_complain(s->client->pod, "ended listener '%s': %s",
				s->name, wrong);
	if (!wrong && n > 0)
		return 1;
	pl_service_end(s);
	return -ECONNRESET;
}

static void on_answer(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	take_answer(arg);
}

void pl_service_catch_up(struct pl_service *s)
{
	for (unsigned int i = s->n_pending; i && take_answer(s) > 0; i--)
		;
}

static int service_new(struct pl_client *c, const struct pl_msg_listen *m,
		       struct pl_service **out, struct pl_err *err)
{
	struct pl_pod *pod = c->pod;
	struct pl_service *s;
	int rc;

	if (pl_service_find(pod, m->service))
		return pl_err_set(err, EADDRINUSE,
				  "this pod listens on '%s' already",
				  m->service);
	rc = pl_quota_take(pod, &pod->usage.listeners,
			   pod->pods->limits.listeners, "listeners", 0, err);
	if (rc < 0)
		return rc;
	s = calloc(1, sizeof(*s));
	if (!s) {
		pod->usage.listeners--;
		return pl_err_set(err, ENOMEM, "out of memory");
	}
	memcpy(s->name, m->service, sizeof(s->name));
	s->flags = m->flags;
	s->client = c;
	s->broker = pod->pods->broker;
	s->fd = -1;
	LIST_INIT(&s->pending);
	LIST_INSERT_HEAD(&c->services, s, of_client);
	HASH_ADD_STR(pod->services, name, s);
	*out = s;
	return 0;
}

/* *theirs: the client's end. */
static int service_open(struct pl_service *s, int *theirs, struct pl_err *err)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return pl_err_sys(err, "cannot make a listener");
	s->fd = fds[0];
	*theirs = fds[1];
	s->ev = event_new(s->broker->base, s->fd, EV_READ | EV_PERSIST,
			  on_answer, s);
	if (!s->ev || event_add(s->ev, NULL) < 0)
		return pl_err_set(err, ENOMEM, "out of memory");
	return pl_pods_fd_scarce(s->client->pod->pods, fds[1], err);
}

const char *pl_broker_on_listen(struct pl_client *c, const void *msg, int *fds,
				int n_fds)
{
	struct pl_msg_ok a = { 0 };
	struct pl_service *s = NULL;
	struct pl_msg_listen m;
	struct pl_err err;
	pl_auto_fd theirs = -1;
	int rc;

	(void)fds;
	(void)n_fds;
	memcpy(&m, msg, sizeof(m));
	if (!pl_msg_name_ok(m.service, sizeof(m.service)) ||
	    (m.flags & ~PL_ALLOW_ANY))
		return "a LISTEN that is not well formed";
	rc = service_new(c, &m, &s, &err);
	if (rc == 0)
		rc = service_open(s, &theirs, &err);
	if (rc < 0) {
		if (s)
			pl_service_end(s);
		pl_client_send_error(c, m.h.seq, rc, err.msg);
		return NULL;
	}
	a.h = pl_msg_head(PL_MSG_LISTEN_OK, sizeof(a), m.h.seq);
	a.id = ++s->broker->last_id;
	pl_client_send(c, &a, &theirs, 1);
	return NULL;
}
