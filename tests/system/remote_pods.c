/*
 * tests/system/remote_pods.c - what the pods of remote.sh do
 *
 *   remote_pods COMMAND [ARG...]
 *
 * Each command prints what it found, one line a fact, and fails on the first
 * byte that is not what it must be.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util.h"
#include "shm/podlane.h"

#define STEP 100003u
#define LIMIT_MS 60000

struct flow {
	struct pl_lane *lane;
	uint64_t total;
	uint8_t seed;
	const char *wrong;
};

static int fail(const char *what, ssize_t rc, const struct pl_err *err)
{
	fprintf(stderr, "%s: %s\n", what,
		err && err->msg[0] ? err->msg : strerror((int)-rc));
	return 1;
}

static void say(const char *what, uint64_t n)
{
	printf("%s %llu\n", what, (unsigned long long)n);
	fflush(stdout);
}

static uint8_t byte_at(uint64_t at, uint8_t seed)
{
	return (uint8_t)((at * 2654435761u >> 9) ^ at ^ seed);
}

/* --- lanes ------------------------------------------------------------ */

static void *sender(void *arg)
{
	struct flow *f = arg;
	uint8_t buf[STEP];
	uint64_t at = 0;

	while (at < f->total) {
		size_t n = PL_MIN(f->total - at, 1 + at * 31 % STEP);
		ssize_t r;

		for (size_t i = 0; i < n; i++)
			buf[i] = byte_at(at + i, f->seed);
		r = pl_lane_send(f->lane, buf, n, 0);
		if (r != (ssize_t)n) {
			f->wrong = r < 0 ? strerror((int)-r) : "a short send";
			return NULL;
		}
		at += n;
	}
	return NULL;
}

/* Receives until total, or the end: how many came. *end: what ended it. */
static uint64_t receive(struct pl_lane *lane, uint64_t total, uint8_t seed,
			ssize_t *end)
{
	uint8_t buf[STEP];
	uint64_t at = 0;

	*end = 1;
	while (at < total) {
		*end = pl_lane_recv(lane, buf, PL_MIN(total - at, STEP), 0);
		if (*end <= 0)
			break;
		for (ssize_t i = 0; i < *end; i++, at++) {
			if (buf[i] == byte_at(at, seed))
				continue;
			fprintf(stderr, "byte %llu is wrong\n",
				(unsigned long long)at);
			exit(1);
		}
	}
	return at;
}

static int listen_one(const char *service, struct pl_conn **conn,
		      struct pl_lane **lane)
{
	struct pl_listener *l;
	struct pl_err err = { 0 };
	int rc = pl_open(conn, &err);

	if (rc == 0)
		rc = pl_listen(*conn, service, NULL, &l, &err);
	if (rc < 0)
		return fail("listen", rc, &err);
	say("listening", 1);
	rc = pl_accept(l, LIMIT_MS, lane, &err);
	if (rc < 0)
		return fail("accept", rc, &err);
	pl_unlisten(l);
	pl_lane_set_timeout(*lane, LIMIT_MS);
	return 0;
}

static int connect_one(const char *addr, const char *service,
		       struct pl_conn **conn, struct pl_lane **lane)
{
	struct pl_lane_info info;
	struct pl_err err = { 0 };
	int rc = pl_open(conn, &err);

	if (rc == 0)
		rc = pl_connect(*conn, addr, service, NULL, lane, &err);
	if (rc < 0)
		return fail("connect", rc, &err);
	pl_lane_info(*lane, &info);
	printf("path %s\n", info.path);
	fflush(stdout);
	pl_lane_set_timeout(*lane, LIMIT_MS);
	return 0;
}

/* Both ways at once, then a handshake of ends. */
static int stream(struct pl_lane *lane, uint64_t total, bool first)
{
	struct flow f = { .lane = lane, .total = total, .seed = first };
	pthread_t t;
	ssize_t end;
	uint64_t n;

	if (pthread_create(&t, NULL, sender, &f))
		return fail("thread", -EAGAIN, NULL);
	n = receive(lane, total, !first, &end);
	pthread_join(t, NULL);
	if (f.wrong)
		fprintf(stderr, "send: %s\n", f.wrong);
	say("received", n);
	pl_lane_shutdown(lane);
	/* The peer's end in good order, so that all of ours has been read. */
	if (end > 0)
		receive(lane, ~0ull, 0, &end);
	say("end", (uint64_t)-end);
	return f.wrong || n != total || end != 0;
}

static int cmd_stream_listen(char **arg)
{
	struct pl_conn *conn;
	struct pl_lane *lane;

	if (listen_one("stream", &conn, &lane))
		return 1;
	if (stream(lane, strtoull(arg[0], NULL, 10), false))
		return 1;
	pl_lane_close(lane);
	pl_close(conn);
	return 0;
}

static int cmd_stream_connect(char **arg)
{
	struct pl_conn *conn;
	struct pl_lane *lane;

	if (connect_one(arg[0], "stream", &conn, &lane))
		return 1;
	if (stream(lane, strtoull(arg[1], NULL, 10), true))
		return 1;
	pl_lane_close(lane);
	pl_close(conn);
	return 0;
}

/* Reads what the peer sends until its end, whatever that is. */
static int cmd_drain_listen(char **arg)
{
	struct pl_conn *conn;
	struct pl_lane *lane;
	ssize_t end, rc;

	(void)arg;
	if (listen_one("drain", &conn, &lane))
		return 1;
	say("received", receive(lane, ~0ull, 0, &end));
	say("end", (uint64_t)-end);
	rc = pl_lane_send(lane, "x", 1, 0);
	say("send", (uint64_t)(rc < 0 ? -rc : 0));
	pl_lane_close(lane);
	pl_close(conn);
	return 0;
}

/* Sends; then closes, or waits to be killed. */
static int cmd_drain_connect(char **arg)
{
	struct flow f = { .total = strtoull(arg[1], NULL, 10) };
	struct pl_conn *conn;

	if (connect_one(arg[0], "drain", &conn, &f.lane))
		return 1;
	sender(&f);
	if (f.wrong)
		return fail(f.wrong, 0, NULL);
	say("sent", f.total);
	if (!strcmp(arg[2], "wait"))
		sleep(LIMIT_MS / 1000);
	pl_lane_close(f.lane);
	pl_close(conn);
	return 0;
}

/* --- regions ---------------------------------------------------------- */

static void fill(uint64_t *p, size_t from, size_t to, uint64_t version)
{
	for (size_t i = from / 8; i < to / 8; i++)
		p[i] = i * 0x9e3779b97f4a7c15ull ^ version;
}

/* Publishes rounds times all of it, piece by piece, for each line it reads. */
static int cmd_own(char **arg)
{
	size_t size = strtoull(arg[0], NULL, 10), piece = 1u << 20;
	struct pl_region *r;
	struct pl_err err = { 0 };
	struct pl_conn *conn;
	uint64_t v = 0;
	char line[16];
	int rc = pl_open(&conn, &err);

	if (rc == 0)
		rc = pl_region_create(conn, "params", size, PL_HUGE, &r,
				      &err);
	if (rc < 0)
		return fail("create", rc, &err);
	say("created", size);
	while (fgets(line, sizeof(line), stdin)) {
		for (size_t at = 0; at < size; at += piece) {
			fill(pl_region_data(r), at, PL_MIN(at + piece, size),
			     v + 1);
			rc = pl_region_publish(r, at, PL_MIN(piece, size - at),
					       &v);
			if (rc < 0)
				return fail("publish", rc, NULL);
		}
		say("published", v);
	}
	pl_region_close(r);
	pl_close(conn);
	return 0;
}

static int check_region(struct pl_region *r, uint64_t version)
{
	size_t size = pl_region_size(r), piece = 1u << 20;
	uint64_t n = (size + piece - 1) / piece;
	const uint64_t *p = pl_region_data(r);

	for (size_t i = 0; i < size / 8; i++) {
		/* Version that published this piece last. */
		uint64_t v = version - n + i * 8 / piece + 1;

		if (p[i] == (i * 0x9e3779b97f4a7c15ull ^ v))
			continue;
		fprintf(stderr, "word %zu of version %llu is wrong\n", i,
			(unsigned long long)version);
		return 1;
	}
	return 0;
}

/* Waits for the version, checks all bytes, then waits for the region's end. */
static int cmd_read(char **arg)
{
	uint64_t version = strtoull(arg[1], NULL, 10);
	struct pl_region_info info;
	struct pl_region *r;
	struct pl_err err = { 0 };
	struct pl_conn *conn;
	int rc = pl_open(&conn, &err);

	if (rc == 0)
		rc = pl_region_open(conn, arg[0], "params", LIMIT_MS, &r, &err);
	if (rc < 0)
		return fail("open", rc, &err);
	pl_region_info(r, &info);
	printf("path %s\n", info.path);
	fflush(stdout);
	rc = pl_region_wait(r, version, LIMIT_MS);
	if (rc < 0)
		return fail("wait", rc, NULL);
	if (check_region(r, version))
		return 1;
	say("version", version);
	rc = pl_region_wait(r, version + 1, LIMIT_MS);
	say("end", (uint64_t)-rc);
	pl_region_close(r);
	pl_close(conn);
	return 0;
}

static const struct {
	const char *name;
	int n_args;
	int (*fn)(char **arg);
} commands[] = {
	{ "stream-listen", 1, cmd_stream_listen },
	{ "stream-connect", 2, cmd_stream_connect },
	{ "drain-listen", 0, cmd_drain_listen },
	{ "drain-connect", 3, cmd_drain_connect },
	{ "own", 1, cmd_own },
	{ "read", 2, cmd_read },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < PL_ARRAY_SIZE(commands); i++) {
		if (!strcmp(commands[i].name, argv[1]) &&
		    argc - 2 == commands[i].n_args)
			return commands[i].fn(argv + 2);
	}
	fprintf(stderr, "usage: remote_pods COMMAND ARG...\n");
	return 2;
}
