/*
 * tests/system/deaths_pods.c - programs of pods that are killed at any moment
 *
 *   sink SERVICE        takes lanes and reads what comes until they end; has a
 *                       region "r"; until SIGTERM
 *   clients ADDR N      N programs one after the other: lanes to "m" and "v" of
 *                       there, a region of their own, that of there; killed
 *   sinks N             the same of sinks for "v"
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shm/podlane.h"

#define LANES 64
#define REGION_BYTES 300000
#define CONNECT_MS 200

static void pause_us(unsigned int us)
{
	const struct timespec ts = { us / 1000000, us % 1000000 * 1000L };

	nanosleep(&ts, NULL);
}

/* Reads what is there; an end makes room. */
static void drain(struct pl_lane **lane)
{
	static char buf[65536];
	ssize_t rc;

	if (!*lane)
		return;
	do {
		rc = pl_lane_recv(*lane, buf, sizeof(buf), PL_DONTWAIT);
	} while (rc > 0);
	if (rc == -EAGAIN)
		return;
	pl_lane_close(*lane);
	*lane = NULL;
}

static int sink(const char *service)
{
	static struct pl_lane *lanes[LANES];
	struct pl_listener *l;
	struct pl_region *r;
	struct pl_conn *conn;
	struct pl_err err = { 0 };
	size_t i;

	if (pl_open(&conn, &err) < 0 ||
	    pl_listen(conn, service, NULL, &l, &err) < 0 ||
	    pl_region_create(conn, *service == 'm' ? "r" : "v", REGION_BYTES,
			     0, &r, &err) < 0) {
		printf("failed: %s\n", err.msg);
		return 1;
	}
	printf("listening\n");
	fflush(stdout);
	for (;;) {
		for (i = 0; i < LANES && lanes[i]; i++)
			;
		if (i < LANES)
			pl_accept(l, 1, &lanes[i], NULL);
		for (i = 0; i < LANES; i++)
			drain(&lanes[i]);
		pl_region_publish(r, 0, REGION_BYTES, NULL);
	}
}

static int client(const char *addr)
{
	const struct pl_lane_opts o = { .connect_timeout_ms = CONNECT_MS };
	static const char bytes[20000];
	struct pl_lane *m = NULL, *v = NULL;
	struct pl_region *own, *other = NULL;
	struct pl_conn *conn;

	if (pl_open(&conn, NULL) < 0)
		return 1;
	pl_region_create(conn, "own", REGION_BYTES, 0, &own, NULL);
	pl_connect(conn, addr, "m", &o, &m, NULL);
	pl_region_open(conn, addr, "r", CONNECT_MS, &other, NULL);
	pl_connect(conn, addr, "v", &o, &v, NULL);
	for (;;) {
		if (m)
			pl_lane_send(m, bytes, sizeof(bytes), PL_DONTWAIT);
		if (v)
			pl_lane_send(v, bytes, sizeof(bytes), PL_DONTWAIT);
		if (other)
			pl_region_wait(other, pl_region_version(other) + 1, 1);
		pause_us(200);
	}
}

static int kill_them(const char *addr, unsigned long n)
{
	unsigned int seed = (unsigned int)getpid();

	for (unsigned long i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return 1;
		if (pid == 0) {
			if (!freopen("/dev/null", "w", stdout))
				_exit(1);
			_exit(addr ? client(addr) : sink("v"));
		}
		pause_us((unsigned int)rand_r(&seed) % 40000);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	printf("killed %lu\n", n);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "sink"))
		return sink(argv[2]);
	if (argc == 4 && !strcmp(argv[1], "clients"))
		return kill_them(argv[2], strtoul(argv[3], NULL, 10));
	if (argc == 3 && !strcmp(argv[1], "sinks"))
		return kill_them(NULL, strtoul(argv[2], NULL, 10));
	fprintf(stderr, "usage: deaths_pods COMMAND ARG...\n");
	return 2;
}
