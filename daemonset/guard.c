/* daemonset/guard.c - descriptors from pods that do not want to be closed */
#include "daemonset/guard.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/fdpass.h"

#define GUARD_MS 100
#define GUARD_AGAIN_MS 10	/* each further one that lingers */
#define SCM_MAX_FD 253		/* the kernel's limit for one message */
#define BELL_BYTES 64

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83	/* Linux 6.16 */
#endif

static void on_alarm(int sig)
{
	(void)sig;
}

/* No SA_RESTART: the signal is to interrupt. */
int pl_guard_init(struct pl_err *err)
{
	const struct sigaction sa = { .sa_handler = on_alarm };

	if (sigaction(SIGALRM, &sa, NULL) < 0)
		return pl_err_sys(err, "cannot set a signal handler");
	return 0;
}

static void set_timer(int first_ms, int again_ms)
{
	const struct itimerval it = {
		.it_value = { .tv_usec = first_ms * 1000 },
		.it_interval = { .tv_usec = again_ms * 1000 },
	};

	setitimer(ITIMER_REAL, &it, NULL);
}

void pl_guard_close(int *fd)
{
	if (*fd < 0)
		return;
	set_timer(GUARD_MS, GUARD_AGAIN_MS);
	close(*fd);
	set_timer(0, 0);
	*fd = -1;
}

ssize_t pl_guard_recv(int sock, void *data, size_t size, int *fds, int max_fds,
		      int *n_fds)
{
	ssize_t n;

	set_timer(GUARD_MS, GUARD_AGAIN_MS);
	n = pl_fdpass_recv(sock, data, size, fds, max_fds, n_fds,
			   MSG_DONTWAIT);
	set_timer(0, 0);
	return n;
}

static void close_all(struct msghdr *msg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c;
	     c = CMSG_NXTHDR(msg, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			pl_guard_close(&fd);
		}
	}
}

ssize_t pl_guard_drain(int bell)
{
	union {
		char buf[CMSG_SPACE(sizeof(int) * SCM_MAX_FD)];
		struct cmsghdr align;
	} ctl;
	char buf[BELL_BYTES];
	struct iovec iov = { buf, sizeof(buf) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = ctl.buf,
			      .msg_controllen = sizeof(ctl.buf) };
	ssize_t n = recvmsg(bell, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0)
		return -errno;
	if (msg.msg_controllen)
		close_all(&msg);
	return n;
}

/* An older kernel has no such option: pl_guard_drain closes what comes. */
static void refuse_fds(int sock)
{
	const int off = 0;

	if (setsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off)) < 0)
		return;
}

int pl_bell_pair(int fds[2], struct pl_err *err)
{
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
		       fds) < 0)
		return pl_err_sys(err, "cannot make a doorbell");
	refuse_fds(fds[0]);
	refuse_fds(fds[1]);
	return 0;
}
