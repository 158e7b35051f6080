/*
 * lane_echo: a server that sends back what it gets, and a client that checks
 *
 *   lane_echo serve SERVICE [LANES]
 *       takes lanes to SERVICE, LANES of them or without end, one after the
 *       other, and sends back what comes
 *   lane_echo ask ADDRESS SERVICE [COUNT [BYTES]]
 *       sends COUNT messages of BYTES to the pod with that address, compares
 *       what comes back, and prints one line
 *
 * Build: gcc lane_echo.c -lpodlane
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <podlane.h>

#define BYTES_MAX (1u << 20)

static int fail(const char *what, const struct pl_err *err)
{
	fprintf(stderr, "lane_echo: %s: %s\n", what, err->msg);
	return 1;
}

/* In place: from the peer's ring into ours, one copy in all. */
static int echo(struct pl_lane *lane)
{
	for (;;) {
		const void *in;
		ssize_t n = pl_lane_peek(lane, 1, &in, 0);
		ssize_t sent;

		if (n <= 0)
			return (int)n;
		sent = pl_lane_send(lane, in, (size_t)n, 0);
		if (sent < 0)
			return (int)sent;
		pl_lane_consume(lane, (size_t)sent);
	}
}

static int serve(struct pl_conn *conn, const char *service, unsigned long lanes)
{
	const struct pl_lane_opts opts = { .flags = PL_ALLOW_ANY };
	struct pl_listener *listener;
	struct pl_err err;

	if (pl_listen(conn, service, &opts, &listener, &err) < 0)
		return fail("listen", &err);
	printf("listening on %s\n", service);
	fflush(stdout);
	for (unsigned long i = 0; !lanes || i < lanes; i++) {
		struct pl_lane_info info;
		struct pl_lane *lane;
		int rc;

		if (pl_accept(listener, -1, &lane, &err) < 0) {
			pl_unlisten(listener);
			return fail("accept", &err);
		}
		rc = echo(lane);
		pl_lane_info(lane, &info);
		printf("%s over %s: %llu bytes: %s\n", info.peer, info.path,
		       (unsigned long long)info.received_bytes,
		       rc < 0 ? strerror(-rc) : "ended");
		fflush(stdout);
		pl_lane_close(lane);
	}
	pl_unlisten(listener);
	return 0;
}

static int exchange(struct pl_lane *lane, unsigned long count, size_t bytes)
{
	static unsigned char out[BYTES_MAX], in[BYTES_MAX];

	for (unsigned long i = 0; i < count; i++) {
		ssize_t n;

		for (size_t k = 0; k < bytes; k++)
			out[k] = (unsigned char)(i * 31 + k * 7);
		n = pl_lane_send(lane, out, bytes, 0);
		if (n == (ssize_t)bytes)
			n = pl_lane_recv(lane, in, bytes, PL_WAITALL);
		if (n < 0)
			return (int)n;
		if (n != (ssize_t)bytes || memcmp(in, out, bytes))
			return -EBADMSG;
	}
	return 0;
}

static int ask(struct pl_conn *conn, const char *address, const char *service,
	       unsigned long count, size_t bytes)
{
	/* What is on its way must fit: the server sends while we still do. */
	const struct pl_lane_opts opts = { .ring_bytes = BYTES_MAX };
	struct pl_lane_info info;
	struct pl_lane *lane;
	struct pl_err err;
	int rc;

	if (pl_connect(conn, address, service, &opts, &lane, &err) < 0)
		return fail("connect", &err);
	rc = exchange(lane, count, bytes);
	pl_lane_info(lane, &info);
	pl_lane_close(lane);
	if (rc < 0) {
		fprintf(stderr, "lane_echo: %s: %s\n", address, strerror(-rc));
		return 1;
	}
	printf("%lu messages of %zu bytes came back from %s over %s\n", count,
	       bytes, info.peer, info.path);
	return 0;
}

static unsigned long number(int argc, char **argv, int i, unsigned long other)
{
	return i < argc ? strtoul(argv[i], NULL, 10) : other;
}

int main(int argc, char **argv)
{
	struct pl_conn *conn;
	struct pl_err err;
	size_t bytes = number(argc, argv, 5, 64);
	int rc = 2;

	if (argc < 3 || (strcmp(argv[1], "serve") &&
			 (strcmp(argv[1], "ask") || argc < 4)) ||
	    bytes == 0 || bytes > BYTES_MAX) {
		fprintf(stderr, "usage: lane_echo serve SERVICE [LANES]\n"
				"       lane_echo ask ADDRESS SERVICE [COUNT "
				"[BYTES]]\n");
		return 2;
	}
	if (pl_open(&conn, &err) < 0)
		return fail("open", &err);
	if (!strcmp(argv[1], "serve"))
		rc = serve(conn, argv[2], number(argc, argv, 3, 0));
	else
		rc = ask(conn, argv[2], argv[3], number(argc, argv, 4, 1000),
			 bytes);
	pl_close(conn);
	return rc;
}
