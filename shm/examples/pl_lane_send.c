/*
 * pl_lane_send: a question and its answer, of a service that repeats questions
 *
 *   pl_lane_send ADDRESS SERVICE TEXT
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <podlane.h>

int main(int argc, char **argv)
{
	size_t len = argc == 4 ? strlen(argv[3]) : 0;
	struct pl_conn *conn;
	struct pl_lane *lane;
	struct pl_err why;
	char *answer;
	ssize_t n;

	if (len == 0)
		errx(2, "usage: pl_lane_send ADDRESS SERVICE TEXT");
	answer = malloc(len);
	if (!answer)
		err(1, "memory");
	if (pl_open(&conn, &why) < 0 ||
	    pl_connect(conn, argv[1], argv[2], NULL, &lane, &why) < 0)
		errx(1, "%s", why.msg);
	/* All of it is sent: there is no PL_DONTWAIT, and no limit of time. */
	n = pl_lane_send(lane, argv[3], len, 0);
	if (n < 0)
		errx(1, "send: %s", strerror((int)-n));
	n = pl_lane_recv(lane, answer, len, PL_WAITALL);
	if (n < 0)
		errx(1, "receive: %s", strerror((int)-n));
	printf("%.*s\n", (int)n, answer);
	pl_lane_close(lane);
	pl_close(conn);
	free(answer);
	return (size_t)n != len;
}
