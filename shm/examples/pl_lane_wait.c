/*
 * pl_lane_wait: send and receive at once, in one thread
 *
 *   pl_lane_wait ADDRESS SERVICE BYTES
 *
 * The service sends back what it gets. More is under way than both rings hold,
 * so who would only send first, and then receive, would wait for ever.
 */
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <podlane.h>

/* What could be moved now. */
static size_t moved(ssize_t n)
{
	if (n == -EAGAIN)
		return 0;
	if (n <= 0)
		errx(1, "%s", n < 0 ? strerror((int)-n) : "it has ended");
	return (size_t)n;
}

int main(int argc, char **argv)
{
	static char out[65536], in[65536];
	size_t bytes, sent = 0, got = 0;
	struct pl_conn *conn;
	struct pl_lane *lane;
	struct pl_err why;

	if (argc != 4)
		errx(2, "usage: pl_lane_wait ADDRESS SERVICE BYTES");
	bytes = strtoul(argv[3], NULL, 10);
	if (pl_open(&conn, &why) < 0 ||
	    pl_connect(conn, argv[1], argv[2], NULL, &lane, &why) < 0)
		errx(1, "%s", why.msg);
	while (got < bytes) {
		size_t left = bytes - sent;
		int events = pl_lane_wait(lane, left ? PL_IN | PL_OUT : PL_IN,
					  10000);

		if (events < 0)
			errx(1, "wait: %s", strerror(-events));
		if (events & PL_OUT)
			sent += moved(pl_lane_send(lane, out,
						   left < sizeof(out) ?
						   left : sizeof(out),
						   PL_DONTWAIT));
		if (events & PL_IN)
			got += moved(pl_lane_recv(lane, in, sizeof(in),
						  PL_DONTWAIT));
	}
	printf("%zu bytes there and back\n", got);
	pl_lane_close(lane);
	pl_close(conn);
	return 0;
}
