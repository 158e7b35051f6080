/*
 * pl_accept: send back what comes, with a thread for each lane
 *
 *   pl_accept SERVICE LANES
 */
#include <err.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <podlane.h>

static void *serve(void *arg)
{
	struct pl_lane *lane = arg;
	char buf[4096];
	ssize_t n;

	while ((n = pl_lane_recv(lane, buf, sizeof(buf), 0)) > 0)
		if (pl_lane_send(lane, buf, (size_t)n, 0) != n)
			break;
	pl_lane_close(lane);
	return NULL;
}

int main(int argc, char **argv)
{
	long lanes = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
	struct pl_listener *listener;
	struct pl_conn *conn;
	struct pl_err why;
	pthread_t *threads;

	if (lanes < 1 || lanes > 1000)
		errx(2, "usage: pl_accept SERVICE LANES");
	threads = calloc((size_t)lanes, sizeof(*threads));
	if (!threads)
		err(1, "memory");
	if (pl_open(&conn, &why) < 0 ||
	    pl_listen(conn, argv[1], NULL, &listener, &why) < 0)
		errx(1, "%s", why.msg);
	printf("listening on %s\n", argv[1]);
	fflush(stdout);
	for (long i = 0; i < lanes; i++) {
		struct pl_lane *lane;

		if (pl_accept(listener, -1, &lane, &why) < 0)
			errx(1, "%s", why.msg);
		if (pthread_create(&threads[i], NULL, serve, lane))
			errx(1, "no thread for a lane");
	}
	/* Lanes go on without their listener, not without the connection. */
	pl_unlisten(listener);
	for (long i = 0; i < lanes; i++)
		pthread_join(threads[i], NULL);
	pl_close(conn);
	free(threads);
	printf("served %ld lanes\n", lanes);
	return 0;
}
