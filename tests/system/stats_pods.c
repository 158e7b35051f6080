/*
 * tests/system/stats_pods.c - a pod whose lane has known statistics
 *
 *   talk ADDRESS SERVICE COUNT BYTES
 *       sends COUNT messages of BYTES to one that sends them back (lane_echo)
 *       and takes each back, says "done", and keeps the lane until it is killed
 *   chat ADDRESS SERVICE BYTES MS
 *       the same without an end, a message each MS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shm/podlane.h"

static int fail(const char *what, const struct pl_err *err)
{
	fprintf(stderr, "stats_pods: %s: %s\n", what, err->msg);
	return 1;
}

static int turn(struct pl_lane *l, char *buf, size_t bytes)
{
	const struct pl_err wrong = { .msg = "wrong bytes, or none" };

	if (pl_lane_send(l, buf, bytes, 0) != (ssize_t)bytes)
		return fail("send", &wrong);
	if (pl_lane_recv(l, buf, bytes, PL_WAITALL) != (ssize_t)bytes)
		return fail("recv", &wrong);
	return 0;
}

static int run(const char *addr, const char *service, long count, size_t bytes,
	       long ms)
{
	const struct timespec pause_ts = { ms / 1000, ms % 1000 * 1000000 };
	char *buf = calloc(1, bytes);
	struct pl_err err = { 0 };
	struct pl_conn *conn;
	struct pl_lane *l;

	if (!buf || pl_open(&conn, &err) < 0 ||
	    pl_connect(conn, addr, service, NULL, &l, &err) < 0)
		return fail("connect", &err);
	for (long i = 0; count < 0 || i < count; i++) {
		if (turn(l, buf, bytes))
			return 1;
		if (i == 0 && count < 0) {
			printf("started\n");
			fflush(stdout);
		}
		if (ms)
			nanosleep(&pause_ts, NULL);
	}
	printf("done\n");
	fflush(stdout);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	if (argc != 6)
		return 2;
	if (!strcmp(argv[1], "talk"))
		return run(argv[2], argv[3], strtol(argv[4], NULL, 10),
			   strtoul(argv[5], NULL, 10), 0);
	if (!strcmp(argv[1], "chat"))
		return run(argv[2], argv[3], -1, strtoul(argv[4], NULL, 10),
			   strtol(argv[5], NULL, 10));
	return 2;
}
