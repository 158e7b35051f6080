/*
 * pl_lane_recv: how many bytes a service sends, and how that ends
 *
 *   pl_lane_recv ADDRESS SERVICE
 */
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <podlane.h>

int main(int argc, char **argv)
{
	unsigned long long bytes = 0;
	struct pl_conn *conn;
	struct pl_lane *lane;
	struct pl_err why;
	char buf[65536];
	ssize_t n;

	if (argc != 3)
		errx(2, "usage: pl_lane_recv ADDRESS SERVICE");
	if (pl_open(&conn, &why) < 0 ||
	    pl_connect(conn, argv[1], argv[2], NULL, &lane, &why) < 0)
		errx(1, "%s", why.msg);
	while ((n = pl_lane_recv(lane, buf, sizeof(buf), 0)) > 0)
		bytes += (unsigned long long)n;
	pl_lane_close(lane);
	pl_close(conn);
	if (n == -ECONNRESET)
		printf("%llu bytes, then the peer died\n", bytes);
	else if (n < 0)
		printf("%llu bytes, then %s\n", bytes, strerror((int)-n));
	else
		printf("%llu bytes, all of them\n", bytes);
	return n < 0;
}
