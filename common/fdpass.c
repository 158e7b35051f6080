/* common/fdpass.c - one message with descriptors over a Unix socket */
#include "common/fdpass.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

union control {
	char buf[CMSG_SPACE(sizeof(int) * PL_FDPASS_MAX)];
	struct cmsghdr align;
};

int pl_fdpass_send(int sock, const void *data, size_t len, const int *fds,
		   int n_fds, int flags)
{
	struct iovec iov = { (void *)data, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	union control ctl;
	ssize_t r;

	if (n_fds < 0 || n_fds > PL_FDPASS_MAX)
		return -EINVAL;
	if (n_fds) {
		size_t bytes = sizeof(int) * (size_t)n_fds;
		struct cmsghdr *c;

		memset(&ctl, 0, sizeof(ctl));
		msg.msg_control = ctl.buf;
		msg.msg_controllen = CMSG_SPACE(bytes);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(bytes);
		memcpy(CMSG_DATA(c), fds, bytes);
	}
	do {
		r = sendmsg(sock, &msg, flags | MSG_NOSIGNAL);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	return (size_t)r == len ? 0 : -EMSGSIZE;
}

/* Moves what the kernel installed to fds[]; closes what does not fit. */
static int collect(struct msghdr *msg, int *fds, int max_fds)
{
	int n = 0, over = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c;
	     c = CMSG_NXTHDR(msg, c)) {
		size_t count;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int),
			       sizeof(fd));
			if (n < max_fds) {
				fds[n++] = fd;
			} else {
				close(fd);
				over = 1;
			}
		}
	}
	return over ? -EPROTO : n;
}

static void drop(int *fds, int max_fds)
{
	for (int i = 0; i < max_fds; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

ssize_t pl_fdpass_recv(int sock, void *data, size_t size, int *fds, int max_fds,
		       int *n_fds, int flags)
{
	struct iovec iov = { data, size };
	union control ctl;
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = ctl.buf,
			      .msg_controllen = sizeof(ctl.buf) };
	ssize_t r;
	int n;

	for (int i = 0; i < max_fds; i++)
		fds[i] = -1;
	*n_fds = 0;
	do {
		r = recvmsg(sock, &msg, flags | MSG_CMSG_CLOEXEC);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	n = collect(&msg, fds, max_fds);
	if (n < 0 || (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		drop(fds, max_fds);
		return (msg.msg_flags & MSG_TRUNC) ? -EMSGSIZE : -EPROTO;
	}
	/* An empty packet reads as the end: nobody would close these. */
	if (r == 0)
		drop(fds, max_fds);
	else
		*n_fds = n;
	return r;
}
