/*
 * pl_lane_set_spin: CPU time of waiting for answers, with spinning and without
 *
 *   pl_lane_set_spin ADDRESS SERVICE QUESTIONS
 *
 * The service sends back what it gets.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <podlane.h>

/* CPU time of this process for one question, in microseconds. */
static double ask(struct pl_lane *lane, long questions)
{
	clock_t before = clock();

	for (long i = 0; i < questions; i++) {
		char c = 'q';
		ssize_t n = pl_lane_send(lane, &c, 1, 0);

		if (n == 1)
			n = pl_lane_recv(lane, &c, 1, 0);
		if (n != 1)
			errx(1, "%s", n < 0 ? strerror((int)-n) : "it ended");
	}
	return (double)(clock() - before) * 1e6 / CLOCKS_PER_SEC /
	       (double)questions;
}

int main(int argc, char **argv)
{
	long questions = argc == 4 ? strtol(argv[3], NULL, 10) : 0;
	struct pl_conn *conn;
	struct pl_lane *lane;
	struct pl_err why;

	if (questions < 1)
		errx(2, "usage: pl_lane_set_spin ADDRESS SERVICE QUESTIONS");
	if (pl_open(&conn, &why) < 0 ||
	    pl_connect(conn, argv[1], argv[2], NULL, &lane, &why) < 0)
		errx(1, "%s", why.msg);
	for (int may = 1; may >= 0; may--) {
		pl_lane_set_spin(lane, may);
		printf("%s: %.1f us of CPU a question\n",
		       may ? "may spin" : "sleeps", ask(lane, questions));
	}
	pl_lane_close(lane);
	pl_close(conn);
	return 0;
}
