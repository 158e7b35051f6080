/* rdma/tcp_conn.c - sockets of the tcp carrier: listen, accept, dial, close */
#include "rdma/tcp.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"
#include "common/util.h"

union sockaddr_any {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

static socklen_t sockaddr_make(union sockaddr_any *out,
			       const struct pl_addr *a, uint16_t port)
{
	memset(out, 0, sizeof(*out));
	if (a->family == AF_INET6) {
		out->in6.sin6_family = AF_INET6;
		out->in6.sin6_port = htons(port);
		memcpy(&out->in6.sin6_addr, a->bytes, 16);
		return sizeof(out->in6);
	}
	out->in.sin_family = AF_INET;
	out->in.sin_port = htons(port);
	memcpy(&out->in.sin_addr, a->bytes, 4);
	return sizeof(out->in);
}

static struct pl_addr sockaddr_addr(const union sockaddr_any *s)
{
	struct pl_addr a = { .family = (uint8_t)s->sa.sa_family };

	if (a.family == AF_INET) {
		memcpy(a.bytes, &s->in.sin_addr, 4);
	} else if (IN6_IS_ADDR_V4MAPPED(&s->in6.sin6_addr)) {
		a.family = AF_INET;
		memcpy(a.bytes, s->in6.sin6_addr.s6_addr + 12, 4);
	} else {
		memcpy(a.bytes, &s->in6.sin6_addr, 16);
	}
	return a;
}

static bool addr_is_any(const struct pl_addr *a)
{
	static const uint8_t zero[16];

	return !memcmp(a->bytes, zero, sizeof(zero));
}

int pl_tcp_listen(struct pl_tcp_carrier *t, uint16_t port, struct pl_err *err)
{
	union sockaddr_any sa;
	socklen_t len = sockaddr_make(&sa, &t->addr, port);
	char text[INET6_ADDRSTRLEN];
	int one = 1;

	if (t->addr.family != AF_INET && t->addr.family != AF_INET6)
		return pl_err_set(err, EINVAL, "no address to listen on");
	pl_auto_fd fd = socket(t->addr.family,
			       SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return pl_err_sys(err, "cannot make a TCP socket");
	/* What it accepts inherits it. */
	pl_tcp_congestion_use(t, fd);
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    bind(fd, &sa.sa, len) < 0 || listen(fd, 64) < 0)
		return pl_err_sys(err, "cannot listen on %s port %u (for "
				  "other nodes' agents)",
				  pl_addr_str(&t->addr, text), port);
	if (getsockname(fd, &sa.sa, &len) < 0)
		return pl_err_sys(err, "cannot read a socket's address");
	t->base.port = ntohs(t->addr.family == AF_INET6 ? sa.in6.sin6_port :
							  sa.in.sin_port);
	t->listen_fd = pl_take_fd(&fd);
	return 0;
}

/* Seconds between probes of an idle connection so that dead_ms is kept. */
static void set_options(int fd, int dead_ms)
{
	int idle = PL_MAX(dead_ms / 2000, 1), every = PL_MAX(dead_ms / 4000, 1);
	const struct {
		int level, name, value;
	} opt[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },
		{ IPPROTO_TCP, TCP_NOTSENT_LOWAT, PL_TCP_NOTSENT_BYTES },
		{ IPPROTO_TCP, TCP_USER_TIMEOUT, dead_ms },
		{ IPPROTO_TCP, TCP_KEEPIDLE, idle },
		{ IPPROTO_TCP, TCP_KEEPINTVL, every },
		{ IPPROTO_TCP, TCP_KEEPCNT, 3 },
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
	};

	for (size_t i = 0; i < PL_ARRAY_SIZE(opt); i++) {
		if (setsockopt(fd, opt[i].level, opt[i].name, &opt[i].value,
			       sizeof(int)) < 0)
			pl_debug("carrier: option %d of a connection: %s",
				 opt[i].name, strerror(errno));
	}
}

int pl_tcp_conn_dial(const struct pl_tcp_peer *p)
{
	union sockaddr_any sa;
	socklen_t len;
	int one = 1;

	if (p->addr.family != AF_INET && p->addr.family != AF_INET6)
		return -EAFNOSUPPORT;
	pl_auto_fd fd = socket(p->addr.family,
			       SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	pl_tcp_congestion_use(p->t, fd);
	/* From the node's own address: the peer compares it with its list. */
	if (p->t->addr.family == p->addr.family && !addr_is_any(&p->t->addr)) {
		len = sockaddr_make(&sa, &p->t->addr, 0);
		if (setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one,
			       sizeof(one)) < 0 ||
		    bind(fd, &sa.sa, len) < 0)
			return -errno;
	}
	len = sockaddr_make(&sa, &p->addr, p->port);
	if (connect(fd, &sa.sa, len) < 0 && errno != EINPROGRESS)
		return -errno;
	return pl_take_fd(&fd);
}

static void lost(struct pl_tcp_conn *c, int reason)
{
	if (c->peer)
		pl_tcp_set_end(c->peer, reason);
	else
		pl_tcp_conn_close(c);
}

static void read_cb(evutil_socket_t fd, short what, void *arg)
{
	struct pl_tcp_conn *c = arg;

	(void)fd;
	if (what & EV_TIMEOUT)
		lost(c, -ETIMEDOUT);
	else if (c->phase == PL_TCP_UP)
		pl_tcp_recv(c);
	else
		pl_tcp_set_intro(c);
}

static void write_cb(evutil_socket_t fd, short what, void *arg)
{
	struct pl_tcp_conn *c = arg;

	(void)fd;
	(void)what;
	if (c->phase == PL_TCP_CONNECTING)
		pl_tcp_set_connected(c);
	else if (c->phase == PL_TCP_SECURING)
		pl_tcp_set_intro(c);
	else if (c->phase == PL_TCP_UP)
		pl_tcp_send(c);
}

static void flush_cb(evutil_socket_t fd, short what, void *arg)
{
	struct pl_tcp_conn *c = arg;

	(void)fd;
	(void)what;
	/* A full socket goes on when it is writable. */
	if (c->phase == PL_TCP_UP && !event_pending(c->ev_write, EV_WRITE, 0))
		pl_tcp_send(c);
}

struct pl_tcp_conn *pl_tcp_conn_new(struct pl_tcp_carrier *t, int fd)
{
	struct pl_tcp_conn *c = calloc(1, sizeof(*c));

	if (!c) {
		close(fd);
		return NULL;
	}
	c->t = t;
	c->fd = fd;
	c->ev_read = event_new(t->loop, fd, EV_READ | EV_PERSIST, read_cb, c);
	c->ev_write = event_new(t->loop, fd, EV_WRITE, write_cb, c);
	c->ev_flush = event_new(t->loop, -1, 0, flush_cb, c);
	if (!c->ev_read || !c->ev_write || !c->ev_flush) {
		pl_tcp_conn_free(c);
		return NULL;
	}
	set_options(fd, t->dead_ms);
	return c;
}

void pl_tcp_conn_close(struct pl_tcp_conn *c)
{
	if (c->phase == PL_TCP_CLOSED)
		return;
	event_del(c->ev_read);
	event_del(c->ev_write);
	event_del(c->ev_flush);
	if (!c->peer) {
		DL_DELETE(c->t->pending, c);
		c->t->n_pending--;
	}
	c->peer = NULL;
	c->phase = PL_TCP_CLOSED;
	pl_close_fd(&c->fd);
	DL_APPEND(c->t->closed, c);
	event_active(c->t->ev_reap, EV_TIMEOUT, 0);
}

void pl_tcp_conn_free(struct pl_tcp_conn *c)
{
	struct event *ev[] = { c->ev_read, c->ev_write, c->ev_flush };

	for (size_t i = 0; i < PL_ARRAY_SIZE(ev); i++) {
		if (ev[i])
			event_free(ev[i]);
	}
	for (unsigned int i = c->out.first; i < c->out.n; i++)
		free(c->out.f[i].copy);
	pl_tls_destroy(c->tls);
	pl_close_fd(&c->fd);
	free(c);
}

/* A connection that has to say HELLO within a time. */
static void pending_add(struct pl_tcp_carrier *t, int fd,
			const union sockaddr_any *sa)
{
	struct timeval tv = { PL_TCP_HANDSHAKE_MS / 1000, 0 };
	struct pl_addr from = sockaddr_addr(sa);
	struct pl_tcp_conn *c;

	if (t->cb.expects && !t->cb.expects(t->arg, &from)) {
		pl_tcp_complain(t, "?", &from, "no node has this address");
		close(fd);
		return;
	}
	c = pl_tcp_conn_new(t, fd);
	if (!c)
		return;
	if (pl_tcp_stream_secure(c) < 0) {
		pl_tcp_conn_free(c);
		return;
	}
	if (t->n_pending == PL_TCP_PENDING_MAX)
		pl_tcp_conn_close(t->pending);
	c->phase = c->tls ? PL_TCP_SECURING : PL_TCP_HELLO;
	c->from = from;
	c->since_ns = pl_now_ns();
	DL_APPEND(t->pending, c);
	t->n_pending++;
	event_add(c->ev_read, &tv);
}

void pl_tcp_resume_cb(evutil_socket_t fd, short what, void *arg)
{
	struct pl_tcp_carrier *t = arg;

	(void)fd;
	(void)what;
	event_add(t->ev_listen, NULL);
}

void pl_tcp_accept_cb(evutil_socket_t fd, short what, void *arg)
{
	struct timeval pause = { 1, 0 };
	struct pl_tcp_carrier *t = arg;

	(void)what;
	for (int i = 0; i < 16; i++) {
		union sockaddr_any sa;
		socklen_t len = sizeof(sa);
		int s = accept4(fd, &sa.sa, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (s >= 0) {
			pending_add(t, s, &sa);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if (errno == EAGAIN)
			return;
		/* Out of descriptors or memory: the event would spin. */
		pl_warn("carrier: cannot accept a connection: %s",
			strerror(errno));
		event_del(t->ev_listen);
		event_add(t->ev_resume, &pause);
		return;
	}
}
