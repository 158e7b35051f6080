/*
 * tests/system/agent_client.h - the wire protocol by hand, for test programs
 *
 * Every call that can't go wrong in a passing test ends the program with a
 * message when it does.
 */
#ifndef TESTS_SYSTEM_AGENT_CLIENT_H
#define TESTS_SYSTEM_AGENT_CLIENT_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/fdpass.h"
#include "shm/layout.h"
#include "shm/msg.h"
#include "shm/segment.h"
#include "shm/wire.h"

#define RING 65536u
#define WAIT_MS 10000

static inline void die(const char *what)
{
	printf("broken: %s: %s\n", what, strerror(errno));
	exit(9);
}

/* -1 with errno when nobody listens there. */
static inline int dial(void)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	const size_t n = strlen(PL_WIRE_SOCKET);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		die("socket");
	memcpy(sa.sun_path + 1, PL_WIRE_SOCKET, n);
	if (connect(fd, (struct sockaddr *)&sa,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				n)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* What this program speaks: WIRE=1 makes it a pod of the release before. */
static inline uint16_t wire(void)
{
	const char *v = getenv("WIRE");

	return v ? (uint16_t)strtoul(v, NULL, 10) : PL_WIRE_VERSION;
}

/* len as of the newest version; a wrong one stays wrong. */
static inline struct pl_msg_hdr head(uint16_t type, size_t len, uint32_t seq)
{
	uint16_t version = type == PL_MSG_HELLO ? 1 : wire();

	if (len == pl_msg_bytes(type, PL_WIRE_VERSION))
		len = pl_msg_bytes(type, version);
	return (struct pl_msg_hdr){ PL_WIRE_MAGIC, version, type, seq,
				    (uint32_t)len };
}

/* One message; returns its length, 0 at the end, -errno; -ETIMEDOUT. */
static inline ssize_t get(int fd, void *buf, size_t size, int *fds, int *n_fds,
			  int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (poll(&p, 1, timeout_ms) == 0)
		return -ETIMEDOUT;
	return pl_fdpass_recv(fd, buf, size, fds, PL_FDPASS_MAX, n_fds, 0);
}

/* A request and its answer, which replaces msg (PL_WIRE_MAX bytes). */
static inline uint16_t ask(int fd, void *msg, const int *fds, int n_fds,
			   int *got)
{
	struct pl_msg_hdr *h = msg;
	int n;

	if (pl_fdpass_send(fd, msg, h->len, fds, n_fds, 0) < 0)
		die("send");
	if (get(fd, msg, PL_WIRE_MAX, got, &n, WAIT_MS) <
	    (ssize_t)sizeof(*h))
		die("no answer");
	return h->type;
}

static inline int open_agent(void)
{
	union {
		struct pl_msg_hello m;
		char buf[PL_WIRE_MAX];
	} u = { .m = { head(PL_MSG_HELLO, sizeof(u.m), 1), 1, wire() } };
	int got[PL_FDPASS_MAX], fd = dial();

	if (fd < 0)
		die("connect to @podlane");
	if (ask(fd, &u, NULL, 0, got) != PL_MSG_HELLO_OK)
		die("HELLO was not answered");
	return fd;
}

/* An ERROR: prints it and ends the program with status 3. */
static inline void want(uint16_t type, uint16_t wanted, const void *msg)
{
	const struct pl_msg_error *e = msg;

	if (type == wanted)
		return;
	if (type != PL_MSG_ERROR)
		die("answer of a wrong type");
	printf("error %s: %s\n", strerrorname_np(e->code), e->text);
	exit(3);
}

/* Of data bytes behind the control block, all of them there. */
static inline int make_segment(size_t data, void **map)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	size_t size = pl_seg_file_bytes(data);

	if (fd < 0 || fallocate(fd, 0, 0, (off_t)size) < 0)
		die("memfd");
	*map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (*map == MAP_FAILED)
		die("mmap");
	return fd;
}

static inline void seal(int fd)
{
	if (fcntl(fd, F_ADD_SEALS, PL_SEG_SEALS) < 0)
		die("seal");
}

static inline int make_lane(struct pl_lane_seg **map)
{
	void *p;
	int fd = make_segment(RING, &p);

	*map = p;
	(*map)->magic = PL_LANE_MAGIC;
	(*map)->version = PL_LAYOUT_VERSION;
	(*map)->ring_bytes = RING;
	seal(fd);
	return fd;
}

static inline int make_region(size_t size, struct pl_region_seg **map)
{
	void *p;
	int fd = make_segment(size, &p);

	*map = p;
	(*map)->magic = PL_REGION_MAGIC;
	(*map)->version_layout = PL_LAYOUT_VERSION;
	(*map)->log_entries = PL_REGION_LOG;
	(*map)->size = size;
	seal(fd);
	return fd;
}

#endif
