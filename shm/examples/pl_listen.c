/*
 * pl_listen: tell everybody who connects how many came before
 *
 *   pl_listen SERVICE LANES
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>

#include <podlane.h>

int main(int argc, char **argv)
{
	const struct pl_lane_opts opts = { .ring_bytes = PL_RING_MIN,
					   .flags = PL_ALLOW_ANY };
	struct pl_listener *listener;
	struct pl_conn *conn;
	struct pl_err why;

	if (argc != 3)
		errx(2, "usage: pl_listen SERVICE LANES");
	if (pl_open(&conn, &why) < 0)
		errx(1, "%s", why.msg);
	if (pl_listen(conn, argv[1], &opts, &listener, &why) < 0)
		errx(1, "%s", why.msg);
	printf("listening on %s\n", argv[1]);
	fflush(stdout);
	for (long i = 0; i < strtol(argv[2], NULL, 10); i++) {
		struct pl_lane *lane;
		char line[80];
		int n = snprintf(line, sizeof(line), "%ld before you\n", i);

		if (pl_accept(listener, -1, &lane, &why) < 0)
			errx(1, "%s", why.msg);
		/* Who has gone again does not stop us. */
		if (pl_lane_send(lane, line, (size_t)n, 0) < 0)
			warnx("a client did not stay for its line");
		pl_lane_close(lane);
	}
	pl_unlisten(listener);
	pl_close(conn);
	return 0;
}
