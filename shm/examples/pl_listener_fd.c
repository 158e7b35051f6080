/*
 * pl_listener_fd: two services, one thread
 *
 *   pl_listener_fd SERVICE SERVICE LANES
 *
 * Says to whoever connects which of the two it came to.
 */
#include <err.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <podlane.h>

/* Returns whether there was one. */
static int greet(struct pl_listener *listener, const char *service)
{
	struct pl_lane *lane;
	struct pl_err why;
	int rc = pl_accept(listener, 0, &lane, &why);

	/* It may be readable for nothing. */
	if (rc == -ETIMEDOUT)
		return 0;
	if (rc < 0)
		errx(1, "%s", why.msg);
	if (pl_lane_send(lane, service, strlen(service), 0) > 0)
		pl_lane_send(lane, "\n", 1, 0);
	pl_lane_close(lane);
	return 1;
}

int main(int argc, char **argv)
{
	struct pl_listener *listener[2];
	struct pollfd fds[2];
	struct pl_conn *conn;
	struct pl_err why;
	long lanes = argc == 4 ? strtol(argv[3], NULL, 10) : 0;

	if (lanes < 1)
		errx(2, "usage: pl_listener_fd SERVICE SERVICE LANES");
	if (pl_open(&conn, &why) < 0)
		errx(1, "%s", why.msg);
	for (int i = 0; i < 2; i++) {
		if (pl_listen(conn, argv[1 + i], NULL, &listener[i], &why) < 0)
			errx(1, "%s", why.msg);
		fds[i].fd = pl_listener_fd(listener[i]);
		fds[i].events = POLLIN;
	}
	printf("listening on %s and %s\n", argv[1], argv[2]);
	fflush(stdout);
	while (lanes > 0) {
		if (poll(fds, 2, -1) < 0)
			err(1, "poll");
		for (int i = 0; i < 2; i++)
			if (fds[i].revents)
				lanes -= greet(listener[i], argv[1 + i]);
	}
	for (int i = 0; i < 2; i++)
		pl_unlisten(listener[i]);
	pl_close(conn);
	return 0;
}
