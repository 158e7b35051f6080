/*
 * pl_lane_peek: add up numbers where they are
 *
 *   pl_lane_peek SERVICE
 *
 * Takes one lane, and answers with the sum at the end of the stream.
 */
#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <podlane.h>

static int add_up(struct pl_lane *lane, uint64_t *sum)
{
	const void *at;
	ssize_t n;

	*sum = 0;
	while ((n = pl_lane_peek(lane, sizeof(*sum), &at, 0)) > 0) {
		const uint64_t *number = at;
		size_t count = (size_t)n / sizeof(*number);

		/* Less than was wanted: the stream ended within a number. */
		if (count == 0)
			errx(1, "%zd bytes are no number", n);
		for (size_t i = 0; i < count; i++)
			*sum += number[i];
		pl_lane_consume(lane, count * sizeof(*number));
	}
	return (int)n;
}

int main(int argc, char **argv)
{
	struct pl_listener *listener;
	struct pl_conn *conn;
	struct pl_lane *lane;
	struct pl_err why;
	uint64_t sum;
	int rc;

	if (argc != 2)
		errx(2, "usage: pl_lane_peek SERVICE");
	if (pl_open(&conn, &why) < 0 ||
	    pl_listen(conn, argv[1], NULL, &listener, &why) < 0)
		errx(1, "%s", why.msg);
	printf("listening on %s\n", argv[1]);
	fflush(stdout);
	if (pl_accept(listener, -1, &lane, &why) < 0)
		errx(1, "%s", why.msg);
	rc = add_up(lane, &sum);
	if (rc < 0)
		errx(1, "%s", strerror(-rc));
	if (pl_lane_send(lane, &sum, sizeof(sum), 0) != sizeof(sum))
		errx(1, "nobody waits for the sum");
	pl_lane_close(lane);
	pl_unlisten(listener);
	pl_close(conn);
	return 0;
}
