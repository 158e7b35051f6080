/*
 * pl_connect: show what a service sends, and say what to do if there is none
 *
 *   pl_connect ADDRESS SERVICE
 */
#include <err.h>
#include <errno.h>
#include <stdio.h>

#include <podlane.h>

static const char *advice(int code)
{
	switch (code) {
	case ECONNREFUSED:
		return "start it there";
	case EHOSTUNREACH:
		return "look for the pod's address";
	case EACCES:
		return "ask its owner, or the cluster's operator";
	case ETIMEDOUT:
	case ECONNRESET:
		return "try again";
	default:
		return "see pl_connect(3)";
	}
}

int main(int argc, char **argv)
{
	const struct pl_lane_opts opts = { .flags = PL_CHECKSUM,
					   .connect_timeout_ms = 5000 };
	struct pl_conn *conn;
	struct pl_lane *lane;
	struct pl_err why;
	char buf[4096];
	ssize_t n;

	if (argc != 3)
		errx(2, "usage: pl_connect ADDRESS SERVICE");
	if (pl_open(&conn, &why) < 0)
		errx(1, "%s", why.msg);
	if (pl_connect(conn, argv[1], argv[2], &opts, &lane, &why) < 0)
		errx(1, "%s; %s", why.msg, advice(why.code));
	while ((n = pl_lane_recv(lane, buf, sizeof(buf), 0)) > 0)
		fwrite(buf, 1, (size_t)n, stdout);
	pl_lane_close(lane);
	pl_close(conn);
	return n < 0;
}
