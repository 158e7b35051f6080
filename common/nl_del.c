/*
 * common/nl_del.c - delete a link without waiting for the kernel's garbage
 *
 * RTM_DELLINK takes the device out of the namespace, announces it to
 * RTNLGRP_LINK, and then waits for RCU readers before it frees the memory and
 * acknowledges. The first part takes under 1 ms, the wait some 15. So a child
 * sends the request while the parent listens for the announcement.
 */
#include "common/nl.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util.h"

#define DEL_TIMEOUT_MS 10000

struct del_request {
	struct nlmsghdr h;
	struct ifinfomsg i;
};

struct del_answer {
	struct nlmsghdr h;
	struct nlmsgerr e;
};

/* Sends the request and returns the kernel's answer as a positive errno. */
static int request_del(int sock, int index)
{
	struct del_request req = {
		.h = { .nlmsg_len = sizeof(req),
		       .nlmsg_type = RTM_DELLINK,
		       .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
		       .nlmsg_seq = 1 },
		.i = { .ifi_family = AF_UNSPEC, .ifi_index = index },
	};
	union {
		struct del_answer a;
		char room[4096];
	} in;
	ssize_t r;

	if (send(sock, &req, sizeof(req), 0) < 0)
		return errno;
	do {
		r = recv(sock, &in, sizeof(in), 0);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return errno;
	if ((size_t)r < sizeof(in.a) || in.a.h.nlmsg_type != NLMSG_ERROR)
		return EPROTO;
	return -in.a.e.error;
}

/*
 * Keeps the socket and its end of the pipe that tells the parent of its exit,
 * and nothing that somebody else may wait for: a runtime reads the plugin's
 * standard output until every copy of it is closed.
 */
static void child(int sock, int end, int index)
{
	sock = fcntl(sock, F_DUPFD, 3);	/* if the parent had closed 0 to 2 */
	end = fcntl(end, F_DUPFD, 3);
	if (sock < 0 || end < 0 || dup2(sock, 0) < 0 || dup2(end, 1) < 0)
		_exit(errno);
	syscall(SYS_close_range, 2u, ~0u, 0u);
	setsid();
	_exit(request_del(0, index) & 0xff);
}

static bool announces(const char *buf, size_t len, int index)
{
	const struct nlmsghdr *h = (const void *)buf;

	for (; NLMSG_OK(h, len); h = NLMSG_NEXT(h, len)) {
		const struct ifinfomsg *i = NLMSG_DATA(h);

		/* The bridge announces the end of a port as AF_BRIDGE. */
		if (h->nlmsg_type == RTM_DELLINK &&
		    h->nlmsg_len >= NLMSG_LENGTH(sizeof(*i)) &&
		    i->ifi_family == AF_UNSPEC && i->ifi_index == index)
			return true;
	}
	return false;
}

/* 1: gone, 0: look again, -ENOBUFS: announcements were lost. */
static int read_announcement(int mon, int index)
{
	_Alignas(struct nlmsghdr) char buf[32768];
	ssize_t r = recv(mon, buf, sizeof(buf), MSG_DONTWAIT);

	if (r < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	return announces(buf, (size_t)r, index);
}

static int child_result(pid_t pid, int index, struct pl_err *err)
{
	int st = 0;

	while (waitpid(pid, &st, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(st) && WEXITSTATUS(st) == 0)
		return 0;
	st = WIFEXITED(st) ? WEXITSTATUS(st) : ECHILD;
	return pl_err_set(err, st, "cannot delete link %d: %s", index,
			  strerror(st));
}

/* Until the announcement, or the end of the child (end becomes readable). */
static int wait_gone(int mon, int end, pid_t pid, int index, struct pl_err *err)
{
	uint64_t limit = pl_now_ns() + DEL_TIMEOUT_MS * 1000000ull;
	struct pollfd p[2] = { { .fd = mon, .events = POLLIN },
			       { .fd = end, .events = POLLIN } };

	while (pl_now_ns() < limit) {
		int r;

		if (poll(p, 2, 100) < 0 && errno != EINTR)
			return pl_err_sys(err, "poll");
		r = read_announcement(mon, index);
		if (r > 0)
			return 0;
		if (r < 0)
			p[0].fd = -1;
		if (r <= 0 && p[1].revents)
			return child_result(pid, index, err);
		p[1].revents = 0;
	}
	return pl_err_set(err, ETIMEDOUT, "link %d is still there after %d s",
			  index, DEL_TIMEOUT_MS / 1000);
}

/*
 * Only what announces() looks for: where many links come and go at once, each
 * plugin would wake up for all of the others'. Numbers are loaded as those of
 * the network.
 */
static int listen_for(int mon, int index)
{
	const uint32_t type_at = offsetof(struct nlmsghdr, nlmsg_type);
	const uint32_t index_at = NLMSG_HDRLEN +
				  offsetof(struct ifinfomsg, ifi_index);
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, type_at),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htons(RTM_DELLINK), 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, index_at),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl((uint32_t)index), 0,
			 1),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog prog = { PL_ARRAY_SIZE(code), code };
	struct sockaddr_nl sa = { .nl_family = AF_NETLINK,
				  .nl_groups = RTMGRP_LINK };

	if (setsockopt(mon, SOL_SOCKET, SO_ATTACH_FILTER, &prog,
		       sizeof(prog)) < 0)
		return -1;
	return bind(mon, (struct sockaddr *)&sa, sizeof(sa));
}

int pl_nl_link_del_quick(int index, struct pl_err *err)
{
	pl_auto_fd mon = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC,
				NETLINK_ROUTE);
	pl_auto_fd req = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC,
				NETLINK_ROUTE);
	pl_auto_fd end = -1;
	int p[2];
	pid_t pid;

	if (mon < 0 || req < 0 || pipe2(p, O_CLOEXEC) < 0)
		return pl_err_sys(err, "cannot make a netlink socket");
	end = p[0];
	if (listen_for(mon, index) < 0) {
		close(p[1]);
		return pl_err_sys(err, "cannot listen for link changes");
	}
	pid = fork();
	if (pid == 0)
		child(req, p[1], index);
	close(p[1]);
	if (pid < 0)
		return pl_err_sys(err, "cannot fork");
	return wait_gone(mon, end, pid, index, err);
}
