/*
 * bench/ps_tcp.c - connections of the overlay transport
 */
#include "bench/ps_overlay.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "common/util.h"

#define MAPPED "::ffff:"

static int resolve(const char *addr, unsigned int port, int flags,
		   struct addrinfo **out, struct pl_err *err)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | flags };
	char text[8];
	int r;

	snprintf(text, sizeof(text), "%u", port);
	r = getaddrinfo(addr, text, &hints, out);
	if (r)
		return pl_err_set(err, EINVAL, "address %s: %s",
				  addr, gai_strerror(r));
	return 0;
}

/* A peer whose node has gone is noticed within these times. */
static void tune(int fd)
{
	const int on = 1, idle_s = 2, gone_ms = 10000;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &gone_ms,
		   sizeof(gone_ms));
}

static int connect_once(const struct addrinfo *ai, int *out)
{
	pl_auto_fd fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	ps_tcp_timeout(fd, 5);
	tune(fd);
	if (connect(fd, ai->ai_addr, ai->ai_addrlen))
		return -errno;
	*out = pl_take_fd(&fd);
	return 0;
}

int ps_tcp_connect(const char *addr, unsigned int port, unsigned int timeout_s,
		   int *fd, struct pl_err *err)
{
	const struct timespec pause = { .tv_nsec = 20000000 };
	uint64_t end = pl_now_ns() + timeout_s * 1000000000ull;
	struct addrinfo *ai;
	int r;

	r = resolve(addr, port, 0, &ai, err);
	if (r)
		return r;
	while ((r = connect_once(ai, fd)) && pl_now_ns() < end)
		nanosleep(&pause, NULL);
	freeaddrinfo(ai);
	if (r)
		return pl_err_set(err, -r, "no server at %s port %u after "
				  "%u s: %s", addr, port, timeout_s,
				  strerror(-r));
	return 0;
}

static int listen_on(const char *addr, unsigned int port, int *out,
		     struct pl_err *err)
{
	struct addrinfo *ai;
	const int on = 1;
	int r;

	r = resolve(addr, port, AI_PASSIVE, &ai, err);
	if (r)
		return r;
	pl_auto_fd fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (fd < 0 || bind(fd, ai->ai_addr, ai->ai_addrlen) ||
	    listen(fd, PS_WORKERS_MAX))
		r = pl_err_sys(err, "listening on %s port %u", addr, port);
	freeaddrinfo(ai);
	if (r)
		return r;
	*out = pl_take_fd(&fd);
	return 0;
}

int ps_tcp_listen(const char *addr, unsigned int port, int *fd,
		  struct pl_err *err)
{
	/* Where IPv6 is switched off, only the second can be had. */
	if (!addr && !listen_on("::", port, fd, NULL))
		return 0;
	return listen_on(addr ? addr : "0.0.0.0", port, fd, err);
}

int ps_tcp_accept(int listener, uint64_t deadline_ns, int *fd,
		  struct pl_err *err)
{
	struct pollfd p = { .fd = listener, .events = POLLIN };
	uint64_t now;
	int r;

	do {
		now = pl_now_ns();
		if (now >= deadline_ns)
			return -ETIMEDOUT;
		r = poll(&p, 1, (int)((deadline_ns - now) / 1000000u + 1));
	} while (r == 0 || (r < 0 && errno == EINTR));
	*fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (*fd < 0)
		return pl_err_sys(err, "accepting a worker");
	tune(*fd);
	return 0;
}

void ps_tcp_timeout(int fd, unsigned int seconds)
{
	struct timeval t = { .tv_sec = seconds };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t));
}

int ps_tcp_send(int fd, const void *data, size_t len)
{
	const char *at = data;
	ssize_t n;

	for (; len; at += n, len -= (size_t)n) {
		n = send(fd, at, len, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			n = 0;
		if (n < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
	}
	return 0;
}

int ps_tcp_recv(int fd, void *data, size_t len)
{
	char *at = data;
	ssize_t n;

	for (; len; at += n, len -= (size_t)n) {
		n = recv(fd, at, len, MSG_WAITALL);
		if (n == 0)
			return -ECONNRESET;
		if (n < 0 && errno == EINTR)
			n = 0;
		if (n < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
	}
	return 0;
}

static void text_of(const struct sockaddr_storage *a, char *buf, size_t size)
{
	if (getnameinfo((const struct sockaddr *)a, sizeof(*a), buf,
			(socklen_t)size, NULL, 0, NI_NUMERICHOST))
		snprintf(buf, size, "unknown");
	/* An IPv4 client of a socket for both families. */
	if (!strncmp(buf, MAPPED, strlen(MAPPED)) && strchr(buf, '.'))
		memmove(buf, buf + strlen(MAPPED), strlen(buf) -
			strlen(MAPPED) + 1);
}

void ps_tcp_peer(int fd, char *buf, size_t size)
{
	struct sockaddr_storage a = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(a);

	getpeername(fd, (struct sockaddr *)&a, &len);
	text_of(&a, buf, size);
}

const char *ps_tcp_path(const struct ps_job *job, int fd)
{
	struct sockaddr_storage a = { .ss_family = AF_UNSPEC };
	char own[64], peer[64];
	socklen_t len = sizeof(a);

	if (getsockname(fd, (struct sockaddr *)&a, &len))
		return "unknown";
	text_of(&a, own, sizeof(own));
	ps_tcp_peer(fd, peer, sizeof(peer));
	if (!strncmp(peer, "127.", 4) || !strcmp(own, peer))
		return "loopback-tcp";
	return job->o.transports == PS_HOST ? "host-tcp" : "overlay-tcp";
}

unsigned int ps_tcp_port(const struct ps_job *job, uint32_t rank)
{
	return job->o.port + (job->o.transports == PS_HOST ? rank : 0);
}
