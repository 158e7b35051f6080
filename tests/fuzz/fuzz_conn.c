/*
 * tests/fuzz/fuzz_conn.c - what the library reads from its agent
 *
 * All that an agent will ever say is sent at once, any messages with any
 * descriptors, and then the end of the stream; then a program makes its calls.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "common/fdpass.h"
#include "shm/conn.h"
#include "shm/lane.h"
#include "shm/msg.h"
#include "tests/fuzz/fuzz.h"

#define RING PL_RING_MIN
#define REGION_BYTES 4096u
#define PACKETS_MAX 16
#define CALLS_MAX 8

static struct pl_seg lane, region, watch;

static const struct type {
	uint16_t type;
	uint8_t n_fds;
	char kinds[3];			/* of descriptors that are right */
} types[] = {
	{ PL_MSG_ERROR, 0, "" },	     { PL_MSG_OK, 0, "" },
	{ PL_MSG_HELLO_OK, 0, "" },	     { PL_MSG_LISTEN_OK, 1, "q" },
	{ PL_MSG_CONNECT_OK, 2, "ls" },	     { PL_MSG_INCOMING, 2, "ls" },
	{ PL_MSG_REGION_CREATE_OK, 2, "ws" }, { PL_MSG_REGION_OPEN_OK, 1, "r" },
	{ PL_MSG_REGION_END, 0, "" },	     { PL_MSG_LANE_RESUMED, 2, "ls" },
};

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct pl_err err = { 0 };

	(void)argc;
	(void)argv;
	HOLDS(pl_seg_lane_create(RING, &lane, &err) == 0);
	HOLDS(pl_seg_region_create(REGION_BYTES, &region, &err) == 0);
	HOLDS(pl_seg_watch_create(&watch, &err) == 0);
	return 0;
}

static int pair_end(int type)
{
	int fds[2];

	HOLDS(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) == 0);
	close(fds[1]);
	return fds[0];
}

static int make_fd(char kind, int listener)
{
	switch (kind) {
	case 'l':
		return fcntl(lane.fd, F_DUPFD_CLOEXEC, 3);
	case 'r':
		return fcntl(region.fd, F_DUPFD_CLOEXEC, 3);
	case 'w':
		return fcntl(watch.fd, F_DUPFD_CLOEXEC, 3);
	case 's':
		return pair_end(SOCK_STREAM);
	case 'q':
		return listener >= 0 ? fcntl(listener, F_DUPFD_CLOEXEC, 3) :
				       pair_end(SOCK_SEQPACKET);
	default:
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	}
}

static void packet_send(int sock, const void *msg, size_t len,
			const char *kinds, int n_fds, int listener)
{
	int fds[PL_FDPASS_MAX];

	for (int i = 0; i < n_fds; i++)
		fds[i] = make_fd(kinds[i], listener);
	(void)!pl_fdpass_send(sock, msg, len, fds, n_fds, MSG_DONTWAIT);
	for (int i = 0; i < n_fds; i++)
		close(fds[i]);
}

/* Sizes that fit the segments, so that what comes behind is reached. */
static void sizes(char *msg, uint16_t type, uint32_t version)
{
	if (type == PL_MSG_CONNECT_OK || type == PL_MSG_INCOMING)
		memcpy(msg + offsetof(struct pl_msg_lane, ring_bytes),
		       &(uint32_t){ RING }, 4);
	if (type == PL_MSG_REGION_CREATE_OK || type == PL_MSG_REGION_OPEN_OK)
		memcpy(msg + offsetof(struct pl_msg_region, size),
		       &(uint64_t){ REGION_BYTES }, 8);
	if (type == PL_MSG_HELLO_OK)
		memcpy(msg + offsetof(struct pl_msg_hello_ok, version),
		       &version, 4);
}

/*
 * how: 0x80 sizes are right, 0x40 all of the body is of the input, 0x20 version
 * 1.
 */
static void packet(int sock, struct fuzz *f, int listener)
{
	static const char any[] = "lrwsqx";
	uint8_t which = fuzz_u8(f), how = fuzz_u8(f);
	char msg[PL_WIRE_MAX + 8] __attribute__((aligned(8))) = { 0 };
	char kinds[PL_FDPASS_MAX];
	const struct type *t;
	struct pl_msg_hdr h;

	if (which % 16 >= PL_ARRAY_SIZE(types)) {
		size_t n;

		for (int i = 0; i < PL_FDPASS_MAX; i++)
			kinds[i] = any[fuzz_u8(f) % 6];
		n = fuzz_piece(f, msg, PL_WIRE_MAX);
		packet_send(sock, msg, n, kinds, how % 5, listener);
		return;
	}
	t = &types[which % 16];
	h = (struct pl_msg_hdr){ .magic = PL_WIRE_MAGIC,
				 .version = how & 0x20 ? 1 : 2,
				 .type = t->type,
				 .seq = how & 15 };
	h.len = pl_msg_bytes(h.type, h.version);
	if (!h.len)
		return;
	fuzz_take(f, msg + sizeof(h), how & 0x40 ? h.len - sizeof(h) : 8);
	memcpy(msg, &h, sizeof(h));
	if (how & 0x80)
		sizes(msg, t->type, h.version);
	for (int i = 0; i < t->n_fds; i++)
		kinds[i] = which & 0x80 ? any[fuzz_u8(f) % 6] : t->kinds[i];
	packet_send(sock, msg, h.len, kinds, t->n_fds, listener);
}

/* Our end of a connection on which all of this has been said; *agent's. */
static int preload(struct fuzz *f, int listener, int *agent)
{
	int fds[2], n = fuzz_u8(f) % PACKETS_MAX;

	HOLDS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0);
	for (int i = 0; i < n && f->left; i++)
		packet(fds[1], f, listener);
	shutdown(fds[1], SHUT_WR);
	*agent = fds[1];
	return fds[0];
}

static void use_lane(struct pl_lane *l)
{
	char buf[64];

	pl_lane_send(l, buf, 0, PL_DONTWAIT);
	pl_lane_recv(l, buf, sizeof(buf), PL_DONTWAIT);
	pl_lane_close(l);
}

static void call(struct pl_conn *c, uint8_t what)
{
	const struct pl_lane_opts opts = { .ring_bytes = RING,
					   .connect_timeout_ms = 1 };
	struct pl_err err = { 0 };
	struct pl_listener *s;
	struct pl_region *r;
	struct pl_lane *l;
	int rc = 0;

	switch (what % 5) {
	case 0:
		rc = pl_listen(c, "s", &opts, &s, &err);
		for (int i = 0; rc == 0 && i < 3; i++)
			if (pl_accept(s, 0, &l, NULL) == 0)
				use_lane(l);
		if (rc == 0)
			pl_unlisten(s);
		break;
	case 1:
		rc = pl_connect(c, "10.1.0.1", "s", &opts, &l, &err);
		if (rc == 0)
			use_lane(l);
		break;
	case 2:
		rc = pl_region_create(c, "r", REGION_BYTES, 0, &r, &err);
		if (rc == 0) {
			pl_region_publish(r, 0, 8, NULL);
			pl_region_close(r);
		}
		break;
	case 3:
		rc = pl_region_open(c, "10.1.0.1", "r", 0, &r, &err);
		if (rc == 0) {
			pl_region_wait(r, 1, 0);
			pl_region_close(r);
		}
		break;
	default:
		pl_conn_poll(c);
	}
	/* The text may be the agent's, who may have none. */
	HOLDS(rc == 0 || (rc < 0 && err.code == -rc));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz f = { data, size };
	uint8_t calls[CALLS_MAX];
	struct pl_err err = { 0 };
	struct pl_conn *c;
	int listener, fd, agent[2], fd_free = fuzz_fd_free();

	fuzz_take(&f, calls, sizeof(calls));
	listener = preload(&f, -1, &agent[0]);
	fd = preload(&f, listener, &agent[1]);
	if (pl_conn_attach(fd, &c, &err) == 0) {
		for (int i = 0; i < CALLS_MAX; i++)
			call(c, calls[i]);
		pl_close(c);
	}
	close(listener);
	close(agent[0]);
	close(agent[1]);
	HOLDS(fuzz_fd_free() == fd_free);
	return 0;
}
