/*
 * pl_lane_reserve: write numbers where the peer reads them
 *
 *   pl_lane_reserve ADDRESS SERVICE COUNT
 *
 * To a service that adds them up, such as that of pl_lane_peek(3).
 */
#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <podlane.h>

/* As many of 1, 2, ... as there is space for; returns the next one. */
static uint64_t write_some(struct pl_lane *lane, uint64_t next, uint64_t last)
{
	uint64_t *to;
	void *at;
	ssize_t room = pl_lane_reserve(lane, sizeof(*to), &at, 0);
	size_t n = 0;
	int rc;

	if (room < 0)
		errx(1, "reserve: %s", strerror((int)-room));
	/* Only whole numbers were committed, so this is aligned. */
	room /= (ssize_t)sizeof(*to);
	for (to = at; n < (size_t)room && next <= last; n++)
		to[n] = next++;
	rc = pl_lane_commit(lane, n * sizeof(*to));
	if (rc < 0)
		errx(1, "commit: %s", strerror(-rc));
	return next;
}

int main(int argc, char **argv)
{
	uint64_t next = 1, last, sum;
	struct pl_conn *conn;
	struct pl_lane *lane;
	struct pl_err why;

	if (argc != 4)
		errx(2, "usage: pl_lane_reserve ADDRESS SERVICE COUNT");
	last = strtoul(argv[3], NULL, 10);
	if (pl_open(&conn, &why) < 0 ||
	    pl_connect(conn, argv[1], argv[2], NULL, &lane, &why) < 0)
		errx(1, "%s", why.msg);
	while (next <= last)
		next = write_some(lane, next, last);
	pl_lane_shutdown(lane);
	if (pl_lane_recv(lane, &sum, sizeof(sum), PL_WAITALL) != sizeof(sum))
		errx(1, "no sum came");
	printf("the sum of 1 to %llu is %llu\n", (unsigned long long)last,
	       (unsigned long long)sum);
	pl_lane_close(lane);
	pl_close(conn);
	return 0;
}
