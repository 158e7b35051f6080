/*
 * tests/unit/agent_stub.h - a stand-in agent for tests of the library
 *
 * A thread at the other end of a SOCK_SEQPACKET connection. It answers each
 * request as an agent with one pod would, unless the test spoils the answer.
 */
#ifndef TESTS_AGENT_STUB_H
#define TESTS_AGENT_STUB_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "common/fdpass.h"
#include "common/util.h"
#include "shm/conn.h"
#include "shm/msg.h"
#include "tests/unit/lane_pair.h"

#define STUB_FDS 6
#define STUB_RING PL_RING_MIN
#define STUB_REGION 100000u
#define STUB_ID 77u

/* An answer under construction; its descriptors are closed after sending. */
struct stub_answer {
	union {
		struct pl_msg_hdr h;
		struct pl_msg_error error;
		struct pl_msg_ok ok;
		struct pl_msg_hello_ok hello_ok;
		struct pl_msg_lane lane;
		struct pl_msg_region region;
		char bytes[PL_WIRE_MAX];
	};
	size_t len;
	int fds[STUB_FDS];
	int n_fds;
};

struct stub;
typedef bool stub_spoil(struct stub *s, uint16_t request,
			struct stub_answer *a);

struct stub {
	int sock;
	pthread_t thread;
	/* Called for each answer; false: do not send it. */
	stub_spoil *_Atomic spoil;
	void *arg;
	_Atomic unsigned int seen[PL_MSG_TYPES];	/* by type */
	/* What the stub holds of the last lane and region. */
	int lane_bell, listener, region_bell;
	struct pl_seg lane, region, watch;
};

static inline void stub_send(int sock, const struct stub_answer *a)
{
	union {
		char buf[CMSG_SPACE(sizeof(int) * STUB_FDS)];
		struct cmsghdr align;
	} ctl;
	struct iovec iov = { (void *)a->bytes, a->len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (a->n_fds) {
		size_t n = sizeof(int) * (size_t)a->n_fds;
		struct cmsghdr *c;

		memset(&ctl, 0, sizeof(ctl));
		msg.msg_control = ctl.buf;
		msg.msg_controllen = CMSG_SPACE(n);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n);
		memcpy(CMSG_DATA(c), a->fds, n);
	}
	if (sendmsg(sock, &msg, MSG_NOSIGNAL) < 0)
		return;		/* the library has hung up */
}

static inline void stub_head(struct stub_answer *a, uint16_t type, size_t len,
			     uint32_t seq)
{
	a->h = (struct pl_msg_hdr){ .magic = PL_WIRE_MAGIC,
				    .version = PL_WIRE_VERSION,
				    .type = type,
				    .seq = seq,
				    .len = (uint32_t)len };
	a->len = len;
}

static inline int stub_pair(int type, int *keep)
{
	int p[2];

	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, p) < 0)
		abort();
	if (*keep >= 0)
		close(*keep);
	*keep = p[0];
	return p[1];
}

static inline void stub_fd(struct stub_answer *a, int fd)
{
	if (fd < 0)
		abort();
	a->fds[a->n_fds++] = fd;
}

/* CONNECT_OK or INCOMING: a peer that is the stub itself. */
static inline void stub_lane(struct stub *s, struct stub_answer *a,
			     uint16_t type, uint32_t seq)
{
	stub_head(a, type, sizeof(a->lane), seq);
	pl_seg_close(&s->lane);
	if (pl_seg_lane_create(STUB_RING, &s->lane, NULL) < 0)
		abort();
	a->lane.id = STUB_ID;
	a->lane.ring_bytes = STUB_RING;
	memcpy(a->lane.path, "shm", 4);
	memcpy(a->lane.peer, "10.1.2.3", 9);
	memcpy(a->lane.service, "echo", 5);
	memcpy(a->lane.self, "10.1.2.4", 9);
	stub_fd(a, dup(s->lane.fd));
	stub_fd(a, stub_pair(SOCK_STREAM, &s->lane_bell));
}

static inline void stub_region(struct stub *s, struct stub_answer *a,
			       uint16_t type, uint32_t seq)
{
	stub_head(a, type, sizeof(a->region), seq);
	a->region.id = STUB_ID;
	a->region.size = a->region.max_size = STUB_REGION;
	memcpy(a->region.path, "shm", 4);
	memcpy(a->region.owner, "10.1.2.3", 9);
	if (type == PL_MSG_REGION_CREATE_OK) {
		pl_seg_close(&s->watch);
		if (pl_seg_watch_create(&s->watch, NULL) < 0)
			abort();
		stub_fd(a, dup(s->watch.fd));
		stub_fd(a, stub_pair(SOCK_STREAM, &s->region_bell));
		return;
	}
	pl_seg_close(&s->region);
	if (pl_seg_region_create(STUB_REGION, &s->region, NULL) < 0)
		abort();
	stub_fd(a, dup(s->region.fd));
}

static inline void stub_error(struct stub_answer *a, int code, uint32_t seq)
{
	stub_head(a, PL_MSG_ERROR, sizeof(a->error), seq);
	a->error.code = code;
	memset(a->error.text, 0, sizeof(a->error.text));
	memcpy(a->error.text, "the stub says no", 17);
}

static inline void stub_build(struct stub *s, const struct pl_msg_hdr *h,
			      struct stub_answer *a)
{
	switch (h->type) {
	case PL_MSG_HELLO:
		stub_head(a, PL_MSG_HELLO_OK, sizeof(a->hello_ok), h->seq);
		a->hello_ok.version = PL_WIRE_VERSION;
		memcpy(a->hello_ok.node, "node1", 6);
		memcpy(a->hello_ok.addr, "10.1.2.4", 9);
		break;
	case PL_MSG_LISTEN:
		stub_head(a, PL_MSG_LISTEN_OK, sizeof(a->ok), h->seq);
		stub_fd(a, stub_pair(SOCK_SEQPACKET, &s->listener));
		break;
	case PL_MSG_CONNECT:
		stub_lane(s, a, PL_MSG_CONNECT_OK, h->seq);
		break;
	case PL_MSG_REGION_CREATE:
		stub_region(s, a, PL_MSG_REGION_CREATE_OK, h->seq);
		break;
	case PL_MSG_REGION_OPEN:
		stub_region(s, a, PL_MSG_REGION_OPEN_OK, h->seq);
		break;
	default:
		stub_head(a, PL_MSG_OK, sizeof(a->ok), h->seq);
	}
}

static inline void stub_answer_free(struct stub_answer *a)
{
	for (int i = 0; i < a->n_fds; i++)
		close(a->fds[i]);
	a->n_fds = 0;
}

static inline void *stub_run(void *arg)
{
	struct stub *s = arg;

	for (;;) {
		char buf[PL_WIRE_MAX] __attribute__((aligned(8)));
		struct stub_answer a = { .n_fds = 0 };
		int fds[PL_FDPASS_MAX], n_fds;
		stub_spoil *spoil;
		struct pl_msg_hdr h;
		ssize_t n = pl_fdpass_recv(s->sock, buf, sizeof(buf), fds,
					   PL_FDPASS_MAX, &n_fds, 0);

		if (n < (ssize_t)sizeof(h))
			return NULL;
		for (int i = 0; i < n_fds; i++)
			close(fds[i]);
		memcpy(&h, buf, sizeof(h));
		stub_build(s, &h, &a);
		atomic_fetch_add(&s->seen[h.type], 1);
		spoil = atomic_load(&s->spoil);
		if (!spoil || spoil(s, h.type, &a))
			stub_send(s->sock, &a);
		stub_answer_free(&a);
	}
}

/* The library's end of the connection. */
static inline int stub_start(struct stub *s)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		abort();
	s->sock = fds[0];
	s->lane_bell = s->listener = s->region_bell = -1;
	s->lane = s->region = s->watch = PL_SEG_NONE;
	if (pthread_create(&s->thread, NULL, stub_run, s))
		abort();
	return fds[1];
}

/* After the library has closed its end, or to make it look as if it died. */
static inline void stub_stop(struct stub *s)
{
	shutdown(s->sock, SHUT_RDWR);
	pthread_join(s->thread, NULL);
	pl_close_fd(&s->sock);
	pl_close_fd(&s->lane_bell);
	pl_close_fd(&s->listener);
	pl_close_fd(&s->region_bell);
	pl_seg_close(&s->lane);
	pl_seg_close(&s->region);
	pl_seg_close(&s->watch);
}

/* Not asked for: a region has ended. */
static inline void stub_push_end(struct stub *s, uint64_t id)
{
	struct stub_answer a = { .n_fds = 0 };

	stub_head(&a, PL_MSG_REGION_END, sizeof(struct pl_msg_id), 0);
	a.ok.id = id;
	stub_send(s->sock, &a);
}

#endif
