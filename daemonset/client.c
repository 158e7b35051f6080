/* daemonset/client.c - one connection of a pod's library to the agent */
#include "daemonset/client.h"

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
#include "daemonset/pod.h"
#include "shm/msg.h"

struct pl_msg_hdr pl_msg_head(uint16_t type, uint32_t len, uint32_t seq)
{
	return (struct pl_msg_hdr){ .magic = PL_WIRE_MAGIC,
				    .version = PL_WIRE_VERSION_MIN,
				    .type = type,
				    .seq = seq,
				    .len = len };
}

const char *pl_msg_check(const void *data, size_t len, unsigned int version)
{
	struct pl_msg_hdr h;

	if (len < sizeof(h))
		return "a message shorter than its header";
	memcpy(&h, data, sizeof(h));
	if (h.magic != PL_WIRE_MAGIC)
		return "a message without the magic number";
	if (h.version != version)
		return "a message of another version than was agreed on";
	if (h.len != len)
		return "a message with a wrong length";
	if (len != pl_msg_bytes(h.type, version))
		return pl_msg_bytes(h.type, version) ?
			       "a message whose size is not that of its type" :
			       "a message of an unknown type";
	return "";
}

bool pl_msg_name_ok(const char *s, size_t size)
{
	return memchr(s, '\0', size) && pl_name_valid(s);
}

void pl_client_destroy(struct pl_client *c)
{
	pl_broker_client_gone(c->pod->pods->broker, c);
	if (c->ev)
		event_free(c->ev);
	if (c->doom_ev)
		event_free(c->doom_ev);
	pl_guard_close(&c->fd);
	LIST_REMOVE(c, of_pod);
	c->pod->usage.connections--;
	free(c);
}

static void on_doom(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	pl_client_destroy(arg);
}

void pl_client_doom(struct pl_client *c, const char *why)
{
	if (c->is_doomed)
		return;
	if (why)
		pl_pod_complain(c->pod, "closed a connection: %s", why);
	c->is_doomed = true;
	event_del(c->ev);
	event_active(c->doom_ev, EV_TIMEOUT, 0);
}

uint32_t pl_client_fit(const struct pl_client *c, void *msg)
{
	struct pl_msg_hdr h;

	memcpy(&h, msg, sizeof(h));
	h.version = (uint16_t)c->version;
	h.len = pl_msg_bytes(h.type, c->version);
	memcpy(msg, &h, sizeof(h));
	return h.len;
}

void pl_client_send(struct pl_client *c, void *msg, const int *fds, int n_fds)
{
	int rc;

	/* What an agent does while it ends is the next one's affair. */
	if (c->is_doomed || c->pod->pods->broker->ending)
		return;
	rc = pl_fdpass_send(c->fd, msg, pl_client_fit(c, msg), fds, n_fds,
			    MSG_DONTWAIT);
	if (rc == -EAGAIN)
		pl_client_doom(c, "it does not read its answers");
	else if (rc == -EPIPE || rc == -ECONNRESET)
		pl_client_doom(c, NULL);
	else if (rc < 0)
		pl_client_doom(c, strerror(-rc));
}

void pl_client_send_ok(struct pl_client *c, uint32_t seq, uint64_t id)
{
	struct pl_msg_ok m = { .h = pl_msg_head(PL_MSG_OK, sizeof(m), seq),
			       .id = id };

	pl_client_send(c, &m, NULL, 0);
}

void pl_client_send_error(struct pl_client *c, uint32_t seq, int status,
			  const char *text)
{
	struct pl_msg_error m = {
		.h = pl_msg_head(PL_MSG_ERROR, sizeof(m), seq),
		.code = status < 0 ? -status : EIO,
	};
	size_t n = strnlen(text, sizeof(m.text) - 1);

	memcpy(m.text, text, n);
	pl_client_send(c, &m, NULL, 0);
}

static const char *hello(struct pl_client *c, const void *msg, int *fds,
			 int n_fds)
{
	struct pl_msg_hello m;
	struct pl_msg_hello_ok a = { 0 };
	const struct pl_addr *addr = pl_pod_addr(c->pod, AF_INET);

	(void)fds;
	(void)n_fds;
	memcpy(&m, msg, sizeof(m));
	if (c->said_hello)
		return "HELLO came twice";
	if (m.version_min > PL_WIRE_VERSION ||
	    m.version_max < PL_WIRE_VERSION_MIN ||
	    m.version_min > m.version_max) {
		pl_client_send_error(c, m.h.seq, -EPROTO,
				     "the agent speaks versions 1 to 4 only; "
				     "use a libpodlane of the agent's release");
		return NULL;
	}
	a.h = pl_msg_head(PL_MSG_HELLO_OK, sizeof(a), m.h.seq);
	c->version = PL_MIN(m.version_max, PL_WIRE_VERSION);
	a.version = c->version;
	a.resume_ms = c->pod->pods->resume_ms;
	a.flags = c->pod->pods->checksum ? PL_HELLO_CHECKSUM : 0;
	snprintf(a.node, sizeof(a.node), "%.63s", c->pod->pods->node);
	snprintf(a.full_node, sizeof(a.full_node), "%s", c->pod->pods->node);
	if (addr)
		pl_addr_str(addr, a.addr);
	c->said_hello = true;
	pl_client_send(c, &a, NULL, 0);
	return NULL;
}

/*
 * A handler gets a whole message, with 0 in what its version does not have, and
 * n_fds descriptors, which the caller closes afterwards (take one by setting it
 * to -1). It answers, now or later, or returns what rule of the protocol was
 * broken.
 */
struct handler {
	const char *(*fn)(struct pl_client *c, const void *msg, int *fds,
			  int n_fds);
	int n_fds;
};

static const struct handler handlers[] = {
	[PL_MSG_HELLO] = { hello, 0 },
	[PL_MSG_LISTEN] = { pl_broker_on_listen, 0 },
	[PL_MSG_CONNECT] = { pl_broker_on_connect, 1 },
	[PL_MSG_LANE_CLOSE] = { pl_broker_on_lane_close, 0 },
	[PL_MSG_REGION_CREATE] = { pl_broker_on_region_create, 1 },
	[PL_MSG_REGION_OPEN] = { pl_broker_on_region_open, 0 },
	[PL_MSG_REGION_CLOSE] = { pl_broker_on_region_close, 0 },
	[PL_MSG_LANE_RESUME] = { pl_broker_on_lane_resume, 2 },
	[PL_MSG_LANE_SHOW] = { pl_broker_on_lane_show, 1 },
	[PL_MSG_REGION_GROW] = { pl_broker_on_region_grow, 1 },
	[PL_MSG_REGION_MORE] = { pl_broker_on_region_more, 0 },
};

/* Before HELLO any version may stand in the header: it says what it speaks. */
static unsigned int version_of(const struct pl_client *c, const void *msg,
			       size_t len)
{
	struct pl_msg_hdr h = { .version = 0 };

	memcpy(&h, msg, PL_MIN(len, sizeof(h)));
	return c->said_hello || h.version < PL_WIRE_VERSION_MIN ||
	       h.version > PL_WIRE_VERSION ? c->version : h.version;
}

static const char *dispatch(struct pl_client *c, const void *msg, size_t len,
			    int *fds, int n_fds)
{
	const char *wrong = pl_msg_check(msg, len, version_of(c, msg, len));
	const struct handler *hd;
	struct pl_msg_hdr h;

	if (*wrong)
		return wrong;
	memcpy(&h, msg, sizeof(h));
	hd = h.type < PL_ARRAY_SIZE(handlers) ? &handlers[h.type] : NULL;
	if (!hd || !hd->fn)
		return "a message of an unknown type";
	if (n_fds != hd->n_fds)
		return "a message with a wrong number of descriptors";
	if (h.seq == 0)
		return "a request with sequence number 0";
	if (!c->said_hello && h.type != PL_MSG_HELLO)
		return "a request before HELLO";
	return hd->fn(c, msg, fds, n_fds);
}

static void on_message(evutil_socket_t fd, short what, void *arg)
{
	struct pl_client *c = arg;
	char buf[PL_WIRE_MAX] __attribute__((aligned(8)));
	int fds[PL_FDPASS_MAX], n_fds;
	const char *wrong;
	ssize_t n;

	(void)what;
	n = pl_guard_recv(fd, buf, sizeof(buf), fds, PL_FDPASS_MAX, &n_fds);
	if (n == -EAGAIN)
		return;
	if (n == 0 || n == -ECONNRESET)
		return pl_client_doom(c, NULL);
	if (n < 0)
		return pl_client_doom(c, n == -EMSGSIZE ?
						 "a message that is too long" :
						 "too many descriptors");
	memset(buf + n, 0, sizeof(buf) - (size_t)n);
	wrong = dispatch(c, buf, (size_t)n, fds, n_fds);
	for (int i = 0; i < n_fds; i++)
		pl_guard_close(&fds[i]);
	if (wrong)
		pl_client_doom(c, wrong);
}

static struct pl_client *client_new(struct pl_pod *pod, int fd)
{
	struct pl_client *c = calloc(1, sizeof(*c));

	if (!c) {
		close(fd);
		return NULL;
	}
	c->pod = pod;
	c->fd = fd;
	c->version = PL_WIRE_VERSION_MIN;
	LIST_INIT(&c->services);
	LIST_INIT(&c->lane_ends);
	LIST_INIT(&c->regions);
	LIST_INIT(&c->openings);
	LIST_INIT(&c->parked);
	LIST_INSERT_HEAD(&pod->clients, c, of_pod);
	pod->usage.connections++;
	c->doom_ev = evtimer_new(pod->pods->base, on_doom, c);
	c->ev = event_new(pod->pods->base, fd, EV_READ | EV_PERSIST,
			  on_message, c);
	if (c->ev && c->doom_ev && event_add(c->ev, NULL) == 0)
		return c;
	pl_client_destroy(c);
	return NULL;
}

static void refuse(struct pl_pod *pod, int fd, const struct pl_err *err)
{
	struct pl_msg_error m = {
		.h = pl_msg_head(PL_MSG_ERROR, sizeof(m), 0),
		.code = err->code,
	};
	char hello_msg[sizeof(struct pl_msg_hello)];
	int n_fds;

	snprintf(m.text, sizeof(m.text), "%.255s", err->msg);
	pl_fdpass_send(fd, &m, sizeof(m), NULL, 0, MSG_DONTWAIT);
	/* A close with its HELLO unread would reset the connection. */
	pl_guard_recv(fd, hello_msg, sizeof(hello_msg), NULL, 0, &n_fds);
	pl_guard_close(&fd);
	pl_pod_complain(pod, "refused a connection: %s", err->msg);
}

void pl_client_accept(struct pl_pod *pod, int fd)
{
	const uint32_t n = pod->usage.connections;
	struct pl_err err;
	int rc = pl_pods_fd_scarce(pod->pods, fd, &err);

	if (rc == 0 && n >= pod->pods->limits.connections) {
		pl_pod_counts_event(pod->counts, PL_POD_REFUSED_QUOTA);
		rc = pl_err_set(&err, EDQUOT, "this pod has %u connections to "
				"its agent, its limit; close some, or raise "
				"limits.connections of podlaned", n);
	}
	if (rc < 0)
		refuse(pod, fd, &err);
	else if (!client_new(pod, fd))
		pl_error("out of memory for a connection");
}
