/*
 * tests/system/sum_pods.c - pods whose bytes change on their way
 *
 *   take SERVICE
 *       takes one lane to SERVICE and all that comes; prints "received N" and
 *       "end ERRNO" (0: in good order), and keeps the lane until it is killed
 *   send ADDRESS SERVICE COUNT FLAGS
 *       sends COUNT times 64 bytes that begin with FLIPME, over a lane with
 *       these flags, shuts it down and waits for the peer's end
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/podlane.h"

static int fail(const char *what, const struct pl_err *err)
{
	fprintf(stderr, "sum_pods: %s: %s\n", what, err->msg);
	return 1;
}

static void say(const char *what, long long n)
{
	printf("%s %lld\n", what, n);
	fflush(stdout);
}

static int take(const char *service)
{
	struct pl_listener *listener;
	struct pl_err err = { 0 };
	struct pl_conn *conn;
	struct pl_lane *l;
	long long got = 0;
	char buf[1000];
	ssize_t n;

	if (pl_open(&conn, &err) < 0 ||
	    pl_listen(conn, service, NULL, &listener, &err) < 0)
		return fail("listen", &err);
	say("listening", 0);
	if (pl_accept(listener, 30000, &l, &err) < 0)
		return fail("accept", &err);
	pl_lane_set_timeout(l, 30000);
	while ((n = pl_lane_recv(l, buf, sizeof(buf), 0)) > 0)
		got += n;
	say("received", got);
	say("end", -n);
	pl_lane_close(l);
	for (;;)
		pause();
}

static int lane_open(const char *addr, const char *service, uint32_t flags,
		     struct pl_lane **l)
{
	const struct pl_lane_opts opts = { .flags = flags };
	struct pl_err err = { 0 };
	struct pl_conn *conn;

	if (pl_open(&conn, &err) < 0 ||
	    pl_connect(conn, addr, service, &opts, l, &err) < 0)
		return fail("connect", &err);
	return 0;
}

static int send_marks(char **a)
{
	long count = strtol(a[2], NULL, 10);
	struct pl_lane *l;
	char buf[64];

	if (lane_open(a[0], a[1], (uint32_t)strtoul(a[3], NULL, 0), &l))
		return 1;
	memset(buf, '.', sizeof(buf));
	memcpy(buf, "FLIPME", 6);
	for (long i = 0; i < count; i++)
		if (pl_lane_send(l, buf, sizeof(buf), 0) !=
		    (ssize_t)sizeof(buf))
			break;
	pl_lane_shutdown(l);
	say("peer ended", pl_lane_recv(l, buf, 1, 0));
	pl_lane_close(l);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "take"))
		return take(argv[2]);
	if (argc == 6 && !strcmp(argv[1], "send"))
		return send_marks(argv + 2);
	return 2;
}
