/*
 * rdma/tcp_stream.c - the bytes of a connection: as they are, or through TLS
 *
 * With security each connection begins with a handshake of TLS, and nothing
 * else is said before it. Introductions are read without taking a byte more
 * than theirs from the socket: where the configuration says that agents only
 * prove who they are, frames follow in plain text.
 */
#include "rdma/tcp.h"

#include <errno.h>
#include <sys/socket.h>

#include "common/log.h"
#include "common/util.h"

#define COMPLAINTS 10
#define COMPLAINTS_NS UINT64_C(60000000000)

void pl_tcp_complain(struct pl_tcp_carrier *t, const char *node,
		     const struct pl_addr *from, const char *text)
{
	char buf[INET6_ADDRSTRLEN];
	uint64_t now = pl_now_ns();

	if (now - t->complain_ns > COMPLAINTS_NS) {
		t->complain_ns = now;
		t->complaints = 0;
	}
	if (++t->complaints > COMPLAINTS)
		return;
	pl_warn("carrier: refused node=%s address=%s: %s%s", node,
		pl_addr_str(from, buf), text, t->complaints == COMPLAINTS ?
		" (more of these in the next minute are not shown)" : "");
}

void pl_tcp_keys_refresh(struct pl_carrier *base)
{
	struct pl_tcp_carrier *t = (struct pl_tcp_carrier *)base;
	struct pl_err err = { 0 };
	int rc = t->keys ? pl_tls_keys_refresh(t->keys, &err) : 0;

	if (rc < 0)
		pl_error("carrier: %s; the keys that were read before stay in "
			 "use", err.msg);
	else if (rc > 0)
		pl_info("carrier: keys have changed, connections that are made "
			"from now on use them");
}

int pl_tcp_stream_secure(struct pl_tcp_conn *c)
{
	if (!c->t->keys)
		return 0;
	pl_tcp_keys_refresh(&c->t->base);
	c->tls = pl_tls_create(c->t->keys, c->peer ? c->peer->base.node : NULL);
	return c->tls ? 0 : -ENOMEM;
}

ssize_t pl_tcp_stream_intro(struct pl_tcp_conn *c, void *buf, size_t len,
			    struct pl_err *err)
{
	struct iovec iov = { buf, len };
	ssize_t n;

	if (c->tls)
		return pl_tls_read(c->tls, c->fd, PL_TLS_EXACT, &iov, 1, err);
	n = recv(c->fd, buf, len, 0);
	if (n > 0)
		return n;
	if (n == 0)
		return -ECONNRESET;
	return errno == EINTR ? -EAGAIN : -errno;
}

int pl_tcp_stream_say(struct pl_tcp_conn *c, const void *data, size_t len)
{
	struct iovec iov = { (void *)(uintptr_t)data, len };

	if (!c->tls)
		return send(c->fd, data, len, MSG_NOSIGNAL) == (ssize_t)len ?
		       0 : -ECONNRESET;
	if (pl_tls_write(c->tls, &iov, 1) != (ssize_t)len ||
	    pl_tls_flush(c->tls, c->fd) < 0)
		return -ECONNRESET;
	return 0;
}

int pl_tcp_stream_introduced(struct pl_tcp_conn *c)
{
	if (!c->tls)
		return 0;
	if (pl_tls_held(c->tls))
		return -EPROTO;
	if (c->t->security.plain) {
		pl_tls_destroy(c->tls);
		c->tls = NULL;
	}
	return 0;
}

ssize_t pl_tcp_stream_read(struct pl_tcp_conn *c, struct iovec *iov,
			   unsigned int n, bool held_only)
{
	struct pl_carrier_stats *st = &c->peer->stats;
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = n };
	struct pl_err err = { 0 };
	ssize_t got;

	if (!c->tls) {
		got = recvmsg(c->fd, &msg, 0);
		st->syscalls++;
		if (got > 0)
			return got;
		if (got == 0)
			return -ECONNRESET;
		return errno == EINTR ? -EAGAIN : -errno;
	}
	got = pl_tls_read(c->tls, c->fd, held_only ? PL_TLS_HELD :
						     PL_TLS_AHEAD, iov, n,
			  &err);
	st->syscalls += pl_tls_syscalls(c->tls);
	if (got < 0 && err.code)
		pl_tcp_set_why(c->peer, err.msg);
	return got;
}

ssize_t pl_tcp_stream_write(struct pl_tcp_conn *c, const struct iovec *iov,
			    unsigned int n)
{
	ssize_t taken = pl_tls_write(c->tls, iov, n);
	int rc = taken < 0 ? (int)taken : pl_tls_flush(c->tls, c->fd);

	c->peer->stats.syscalls += pl_tls_syscalls(c->tls);
	if (rc == 0 || (rc == -EAGAIN && taken > 0))
		return taken;
	errno = -rc;
	return -1;
}
