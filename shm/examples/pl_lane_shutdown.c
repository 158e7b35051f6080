/*
 * pl_lane_shutdown: send standard input, say that this was all, and show what
 * comes back until the other side has said the same
 *
 *   pl_lane_shutdown ADDRESS SERVICE
 */
#include <err.h>
#include <stdio.h>
#include <string.h>

#include <podlane.h>

int main(int argc, char **argv)
{
	struct pl_conn *conn;
	struct pl_lane *lane;
	struct pl_err why;
	char buf[4096];
	ssize_t n = 0;
	size_t len;
	int rc;

	if (argc != 3)
		errx(2, "usage: pl_lane_shutdown ADDRESS SERVICE");
	if (pl_open(&conn, &why) < 0 ||
	    pl_connect(conn, argv[1], argv[2], NULL, &lane, &why) < 0)
		errx(1, "%s", why.msg);
	/* What comes back meanwhile waits in the ring, which holds 1 MiB. */
	while (n >= 0 && (len = fread(buf, 1, sizeof(buf), stdin)) > 0)
		n = pl_lane_send(lane, buf, len, 0);
	if (n < 0)
		errx(1, "send: %s", strerror((int)-n));
	rc = pl_lane_shutdown(lane);
	if (rc < 0)
		errx(1, "shutdown: %s", strerror(-rc));
	while ((n = pl_lane_recv(lane, buf, sizeof(buf), 0)) > 0)
		fwrite(buf, 1, (size_t)n, stdout);
	if (n < 0)
		errx(1, "receive: %s", strerror((int)-n));
	pl_lane_close(lane);
	pl_close(conn);
	return 0;
}
