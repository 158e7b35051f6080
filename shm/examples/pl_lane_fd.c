/*
 * pl_lane_fd: many lanes, one thread
 *
 *   pl_lane_fd SERVICE LANES
 *
 * Sends back what comes over any of the lanes, until LANES of them have ended.
 */
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include <podlane.h>

static void watch(int epoll, int fd, struct pl_lane *lane)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = lane };

	if (fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
		err(1, "epoll");
}

/* One that was accepted; it may turn out that there is none. */
static void take(int epoll, struct pl_listener *listener)
{
	struct pl_lane *lane;
	struct pl_err why;
	int rc = pl_accept(listener, 0, &lane, &why);

	if (rc == 0)
		watch(epoll, pl_lane_fd(lane), lane);
	else if (rc != -ETIMEDOUT)
		errx(1, "%s", why.msg);
}

/* What has come; returns whether the lane has ended. */
static int serve(struct pl_lane *lane)
{
	char buf[4096];
	ssize_t n = pl_lane_recv(lane, buf, sizeof(buf), PL_DONTWAIT);

	if (n == -EAGAIN)
		return 0;
	/* May wait for space. A server of strangers would use PL_OUT. */
	if (n > 0 && pl_lane_send(lane, buf, (size_t)n, 0) == n)
		return 0;
	pl_lane_close(lane);
	return 1;
}

int main(int argc, char **argv)
{
	long lanes = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct pl_listener *listener;
	struct epoll_event ev;
	struct pl_conn *conn;
	struct pl_err why;

	if (lanes < 1)
		errx(2, "usage: pl_lane_fd SERVICE LANES");
	if (pl_open(&conn, &why) < 0 ||
	    pl_listen(conn, argv[1], NULL, &listener, &why) < 0)
		errx(1, "%s", why.msg);
	watch(epoll, pl_listener_fd(listener), NULL);
	printf("listening on %s\n", argv[1]);
	fflush(stdout);
	while (lanes > 0 && epoll_wait(epoll, &ev, 1, -1) == 1) {
		if (!ev.data.ptr)
			take(epoll, listener);
		else
			lanes -= serve(ev.data.ptr);
	}
	pl_unlisten(listener);
	pl_close(conn);
	return 0;
}
