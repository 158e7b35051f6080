/*
 * pl_lane_set_timeout: wait for a service that never speaks first, then ask it
 *
 *   pl_lane_set_timeout ADDRESS SERVICE
 *
 * The service sends back what it gets.
 */
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <podlane.h>

int main(int argc, char **argv)
{
	struct pl_conn *conn;
	struct pl_lane *lane;
	struct pl_err why;
	char c = 0;
	ssize_t n;

	if (argc != 3)
		errx(2, "usage: pl_lane_set_timeout ADDRESS SERVICE");
	if (pl_open(&conn, &why) < 0 ||
	    pl_connect(conn, argv[1], argv[2], NULL, &lane, &why) < 0)
		errx(1, "%s", why.msg);
	pl_lane_set_timeout(lane, 50);
	n = pl_lane_recv(lane, &c, 1, 0);
	if (n != -ETIMEDOUT)
		errx(1, "something came: %zd", n);
	printf("nothing came in 50 ms\n");
	/* The lane is as it was. */
	pl_lane_set_timeout(lane, -1);
	n = pl_lane_send(lane, "?", 1, 0);
	if (n == 1)
		n = pl_lane_recv(lane, &c, 1, 0);
	if (n < 0)
		errx(1, "%s", strerror((int)-n));
	printf("then '%c' came\n", c);
	pl_lane_close(lane);
	pl_close(conn);
	return 0;
}
