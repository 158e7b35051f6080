/*
 * lane_fork: send back what comes, with a child for each lane
 *
 *   lane_fork SERVICE LANES
 *
 * The child goes on with its parent's lane. What it does not need it closes,
 * which its parent does not notice. The parent keeps the lane until the child
 * has exited, and then ends it.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <podlane.h>

static int serve(struct pl_lane *lane)
{
	char buf[4096];
	ssize_t n;

	while ((n = pl_lane_recv(lane, buf, sizeof(buf), 0)) > 0)
		if (pl_lane_send(lane, buf, (size_t)n, 0) != n)
			return 1;
	return n < 0;
}

int main(int argc, char **argv)
{
	long lanes = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
	struct pl_listener *listener;
	struct pl_conn *conn;
	struct pl_err why;

	if (lanes < 1)
		errx(2, "usage: lane_fork SERVICE LANES");
	if (pl_open(&conn, &why) < 0 ||
	    pl_listen(conn, argv[1], NULL, &listener, &why) < 0)
		errx(1, "%s", why.msg);
	printf("listening on %s\n", argv[1]);
	fflush(stdout);
	for (long i = 0; i < lanes; i++) {
		struct pl_lane *lane;
		int status = 0;
		pid_t pid;

		if (pl_accept(listener, -1, &lane, &why) < 0)
			errx(1, "%s", why.msg);
		pid = fork();
		if (pid < 0)
			err(1, "fork");
		if (pid == 0) {
			pl_unlisten(listener);
			_exit(serve(lane));
		}
		/* One at a time; a larger server waits in a table of lanes. */
		if (waitpid(pid, &status, 0) != pid || status)
			warnx("a lane was not served well");
		pl_lane_close(lane);
	}
	pl_unlisten(listener);
	pl_close(conn);
	printf("served %ld lanes\n", lanes);
	return 0;
}
