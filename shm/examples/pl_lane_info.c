/*
 * pl_lane_info: how the bytes of a lane travel
 *
 *   pl_lane_info ADDRESS SERVICE
 */
#include <err.h>
#include <stdio.h>

#include <podlane.h>

int main(int argc, char **argv)
{
	struct pl_lane_info info;
	struct pl_conn *conn;
	struct pl_lane *lane;
	struct pl_err why;

	if (argc != 3)
		errx(2, "usage: pl_lane_info ADDRESS SERVICE");
	if (pl_open(&conn, &why) < 0 ||
	    pl_connect(conn, argv[1], argv[2], NULL, &lane, &why) < 0)
		errx(1, "%s", why.msg);
	pl_lane_send(lane, "hello", 5, 0);
	pl_lane_info(lane, &info);
	printf("%s of %s over %s, rings of %u and %u bytes, %llu sent\n",
	       info.service, info.peer, info.path, info.send_ring_bytes,
	       info.recv_ring_bytes, (unsigned long long)info.sent_bytes);
	pl_lane_close(lane);
	pl_close(conn);
	return 0;
}
