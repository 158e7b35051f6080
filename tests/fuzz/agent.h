/*
 * tests/fuzz/agent.h - the agent's parts without namespaces, for fuzzers
 *
 * Two pods of different Kubernetes namespaces, whose connections are socket
 * pairs; what the pods send and the descriptors that come along are made up
 * here from the input.
 */
#ifndef TESTS_FUZZ_AGENT_H
#define TESTS_FUZZ_AGENT_H

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

#include "common/fdpass.h"
#include "daemonset/agent_internal.h"
#include "daemonset/client.h"
#include "daemonset/guard.h"
#include "shm/msg.h"
#include "shm/podlane.h"
#include "shm/segment.h"
#include "tests/fuzz/fuzz.h"

#define PODS 2
#define RING PL_RING_MIN
#define REGION_BYTES 4096u
#define SOCKS_MAX 12

struct fuzz_pod {
	struct pl_pod pod;
	struct pl_reg reg;
	struct pl_pod_counts counts;
};

struct fuzz_agent {
	struct event_base *base;
	struct pl_broker *broker;
	struct pl_pods *pods;
	struct pl_agent_conf conf;
	struct fuzz_pod pod[PODS];
	/* The pods' ends of connections and listeners; -1: none. */
	int sock[SOCKS_MAX];
	struct pl_seg lane, region;	/* good ones, to be handed in */
	int fd_free;			/* as the run began */
};

/* What pl_pods_add does, without a namespace. */
static inline void fuzz_pod_add(struct fuzz_agent *a, int i)
{
	struct fuzz_pod *p = &a->pod[i];
	struct pl_pod_addr *addr = &p->reg.addrs[0];
	char text[16];

	memset(p, 0, sizeof(*p));
	p->pod.pods = a->pods;
	p->pod.counts = &p->counts;
	p->pod.name = "pod";
	p->pod.ns = i ? "other" : "default";
	p->pod.listen_fd = -1;
	LIST_INIT(&p->pod.regs);
	LIST_INIT(&p->pod.clients);
	snprintf(text, sizeof(text), "10.1.0.%d", i + 1);
	HOLDS(pl_addr_parse(text, &addr->addr) == 0);
	p->reg.n_addrs = 1;
	p->reg.memory_limit = UINT64_MAX;
	p->reg.pod = &p->pod;
	LIST_INSERT_HEAD(&p->pod.regs, &p->reg, of_pod);
	addr->reg = &p->reg;
	HASH_ADD(hh, a->pods->by_addr, addr, sizeof(addr->addr), addr);
	addr->is_indexed = true;
}

static inline void fuzz_agent_init(struct fuzz_agent *a)
{
	struct pl_err err = { 0 };

	fuzz_dir_make();
	signal(SIGPIPE, SIG_IGN);
	HOLDS(pl_guard_init(&err) == 0);
	pl_agent_conf_default(&a->conf);
	snprintf(a->conf.state_dir, sizeof(a->conf.state_dir), "%s", fuzz_dir);
	a->conf.limits = (struct pl_limits){ .connections = 4,
					     .listeners = 4,
					     .lanes = 8,
					     .regions = 4,
					     .bytes = 4u << 20 };
	a->base = event_base_new();
	HOLDS(a->base);
	HOLDS(pl_broker_create(a->base, "node1", &a->broker, &err) == 0);
	HOLDS(pl_pods_create(a->base, a->broker, "node1", fuzz_dir, &a->conf,
			     &a->pods, &err) == 0);
	a->broker->pods = a->pods;
	for (int i = 0; i < PODS; i++)
		fuzz_pod_add(a, i);
	for (int i = 0; i < SOCKS_MAX; i++)
		a->sock[i] = -1;
	HOLDS(pl_seg_lane_create(RING, &a->lane, &err) == 0);
	HOLDS(pl_seg_region_create(REGION_BYTES, &a->region, &err) == 0);
}

static inline void fuzz_agent_fini(struct fuzz_agent *a)
{
	/* The pods are not among those that it frees. */
	for (int i = 0; i < PODS; i++)
		HASH_DEL(a->pods->by_addr, &a->pod[i].reg.addrs[0]);
	pl_seg_close(&a->lane);
	pl_seg_close(&a->region);
	pl_pods_destroy(a->pods);
	pl_broker_destroy(a->broker);
	event_base_free(a->base);
}

/* A few rounds: what one handler starts, the next one ends. */
static inline void fuzz_loop(struct fuzz_agent *a)
{
	for (int i = 0; i < 3; i++)
		event_base_loop(a->base, EVLOOP_NONBLOCK);
}

/* Closes fd when there is no room. */
static inline void fuzz_sock_keep(struct fuzz_agent *a, int fd)
{
	for (int i = 0; i < SOCKS_MAX; i++)
		if (a->sock[i] < 0) {
			a->sock[i] = fd;
			return;
		}
	close(fd);
}

static inline void fuzz_pod_connect(struct fuzz_agent *a, int pod)
{
	int fds[2];

	HOLDS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC |
			 SOCK_NONBLOCK, 0, fds) == 0);
	pl_client_accept(&a->pod[pod].pod, fds[0]);
	fuzz_sock_keep(a, fds[1]);
}

/* What pods do with what they get: keep listeners, drop the rest. */
static inline void fuzz_sock_drain(struct fuzz_agent *a, int i)
{
	char buf[PL_WIRE_MAX];
	int fds[PL_FDPASS_MAX], n_fds;
	struct pl_msg_hdr h;
	ssize_t n;

	while (a->sock[i] >= 0) {
		n = pl_fdpass_recv(a->sock[i], buf, sizeof(buf), fds,
				   PL_FDPASS_MAX, &n_fds, MSG_DONTWAIT);
		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			pl_close_fd(&a->sock[i]);
			return;
		}
		/* The agent never says anything that is not well formed. */
		HOLDS(n >= (ssize_t)sizeof(h));
		memcpy(&h, buf, sizeof(h));
		HOLDS(!*pl_msg_check(buf, (size_t)n, h.version));
		for (int j = 0; j < n_fds; j++) {
			if (h.type == PL_MSG_LISTEN_OK)
				fuzz_sock_keep(a, fds[j]);
			else
				close(fds[j]);
		}
	}
}

/* Descriptors that a pod may send along. */
static inline int fuzz_fd(struct fuzz_agent *a, uint8_t kind)
{
	int fds[2];

	switch (kind % 5) {
	case 0:
	case 1:
		return fcntl(a->lane.fd, F_DUPFD_CLOEXEC, 3);
	case 2:
		return fcntl(a->region.fd, F_DUPFD_CLOEXEC, 3);
	case 3:
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	default:
		HOLDS(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0,
				 fds) == 0);
		close(fds[1]);
		return fds[0];
	}
}

static inline void fuzz_sock_send(struct fuzz_agent *a, int sock,
				  const void *msg, size_t len,
				  const uint8_t *kinds, int n_fds)
{
	int fds[PL_FDPASS_MAX];

	if (sock < 0)
		return;
	for (int i = 0; i < n_fds; i++)
		fds[i] = fuzz_fd(a, kinds[i]);
	(void)!pl_fdpass_send(sock, msg, len, fds, n_fds, MSG_DONTWAIT);
	for (int i = 0; i < n_fds; i++)
		close(fds[i]);
}

/* Requests and the descriptors that come with them. */
static const struct fuzz_type {
	uint8_t type, n_fds;
} fuzz_types[] = {
	{ PL_MSG_HELLO, 0 },	     { PL_MSG_LISTEN, 0 },
	{ PL_MSG_CONNECT, 1 },	     { PL_MSG_LANE_CLOSE, 0 },
	{ PL_MSG_REGION_CREATE, 1 }, { PL_MSG_REGION_OPEN, 0 },
	{ PL_MSG_REGION_CLOSE, 0 },  { PL_MSG_ACCEPT, 1 },
	{ PL_MSG_REJECT, 0 },	     { PL_MSG_LANE_RESUME, 2 },
	{ PL_MSG_LANE_SHOW, 1 },     { PL_MSG_REGION_GROW, 1 },
	{ PL_MSG_REGION_MORE, 0 },
};

/* Of a few lanes; the remote part makes the same number of it, FUZZ_NO. */
#define FUZZ_NO(how) (1 + (how) % 4u)
static inline void fuzz_uid(uint8_t uid[PL_WIRE_UID], uint8_t how)
{
	const uint64_t no = FUZZ_NO(how);

	memset(uid, 0, PL_WIRE_UID);
	memcpy(uid, &no, sizeof(no));
}

/* Names, addresses and sizes that are there: requests meet something. */
static inline void fuzz_sense(void *msg, uint8_t type, uint8_t how)
{
	static const char *const addrs[] = { "10.1.0.1", "10.1.0.2",
					     "10.2.0.1", "10.9.9.9" };
	struct pl_msg_hello *hello = msg;
	struct pl_msg_connect *connect = msg;
	struct pl_msg_region_create *create = msg;
	struct pl_msg_lane_resume *resume = msg;
	char *name = NULL, *addr = NULL;

	switch (type) {
	case PL_MSG_HELLO:
		hello->version_min = hello->version_max =
			how & 1 ? PL_WIRE_VERSION : 1;
		break;
	case PL_MSG_LISTEN:
		name = ((struct pl_msg_listen *)msg)->service;
		break;
	case PL_MSG_CONNECT:
		connect->ring_bytes = RING;
		if (!(how & 0x20))
			fuzz_uid(connect->uid, how >> 2);
		name = connect->service;
		addr = connect->addr;
		break;
	case PL_MSG_ACCEPT:
		((struct pl_msg_accept *)msg)->ring_bytes = RING;
		break;
	case PL_MSG_REGION_CREATE:
		create->size = REGION_BYTES;
		create->max_size = how & 8 ? 4 * REGION_BYTES : 0;
		if (!(how & 0x20))
			fuzz_uid(create->uid, 0);
		name = create->name;
		break;
	case PL_MSG_REGION_GROW:
		((struct pl_msg_region_grow *)msg)->offset =
			pl_seg_round(REGION_BYTES);
		((struct pl_msg_region_grow *)msg)->bytes = PL_SEG_CTL_BYTES;
		fuzz_uid(((struct pl_msg_region_grow *)msg)->uid, 0);
		name = ((struct pl_msg_region_grow *)msg)->name;
		break;
	case PL_MSG_REGION_MORE:
		((struct pl_msg_region_more *)msg)->id = 1 + (how & 7);
		((struct pl_msg_region_more *)msg)->offset =
			pl_seg_round(REGION_BYTES);
		fuzz_uid(((struct pl_msg_region_more *)msg)->uid, 0);
		break;
	case PL_MSG_REGION_OPEN:
		name = ((struct pl_msg_region_open *)msg)->name;
		addr = ((struct pl_msg_region_open *)msg)->addr;
		break;
	case PL_MSG_LANE_RESUME:
	case PL_MSG_LANE_SHOW:
		resume->ring_bytes = resume->peer_ring_bytes = RING;
		resume->flags = how >> 3 & 1;
		fuzz_uid(resume->uid, how >> 2);
		memcpy(resume->self, addrs[0], 9);
		name = resume->service;
		addr = resume->peer;
		break;
	}
	if (name)
		memcpy(name, how & 0x10 ? "s" : "t", 2);
	if (addr)
		memcpy(addr, addrs[how & 3], 9);
}

/*
 * One message of a pod: bytes as they are, or of a type with its size, header
 * and descriptors right and (how & 0x80) with fields that mean something. how:
 * 0x40 all of the body is of the input, 0x20 version 1.
 */
static inline void fuzz_pod_message(struct fuzz_agent *a, struct fuzz *f)
{
	int sock = a->sock[fuzz_u8(f) % SOCKS_MAX];
	uint8_t which = fuzz_u8(f), how = fuzz_u8(f), kinds[PL_FDPASS_MAX];
	char msg[PL_WIRE_MAX + 8] __attribute__((aligned(8))) = { 0 };
	const struct fuzz_type *t;
	struct pl_msg_hdr h;
	uint32_t len;

	fuzz_take(f, kinds, sizeof(kinds));
	if (which % 16 >= PL_ARRAY_SIZE(fuzz_types)) {
		len = (uint32_t)fuzz_piece(f, msg, PL_WIRE_MAX);
		fuzz_sock_send(a, sock, msg, len, kinds, how % 5);
		return;
	}
	t = &fuzz_types[which % 16];
	h = pl_msg_head(t->type, 0, 1 + (how & 7));
	h.version = how & 0x20 ? 1 : PL_WIRE_VERSION;
	h.len = len = pl_msg_bytes(t->type, h.version);
	if (!len)
		return;
	fuzz_take(f, msg + sizeof(h), how & 0x40 ? len - sizeof(h) :
		  PL_MIN(len - sizeof(h), 16u));
	memcpy(msg, &h, sizeof(h));
	if (how & 0x80)
		fuzz_sense(msg, t->type, how);
	fuzz_sock_send(a, sock, msg, len, kinds, t->n_fds);
}

/* Every pod goes: nothing may be left of it. */
static inline void fuzz_agent_reset(struct fuzz_agent *a)
{
	for (int i = 0; i < SOCKS_MAX; i++)
		pl_close_fd(&a->sock[i]);
	/* One message of each connection is taken in a turn. */
	for (int i = 0; i < 1000; i++) {
		bool any = false;

		for (int j = 0; j < PODS; j++)
			any |= !LIST_EMPTY(&a->pod[j].pod.clients);
		if (!any)
			break;
		event_base_loop(a->base, EVLOOP_NONBLOCK);
	}
	for (int i = 0; i < PODS; i++) {
		const struct pl_pod *p = &a->pod[i].pod;

		HOLDS(LIST_EMPTY(&p->clients) && !p->services && !p->regions);
		HOLDS(!p->usage.connections && !p->usage.listeners &&
		      !p->usage.lanes && !p->usage.regions && !p->usage.bytes);
		memset(a->pod[i].pod.said, 0, sizeof(a->pod[i].pod.said));
	}
	/* The same ids for the same input. */
	a->broker->last_id = 0;
	HOLDS(fuzz_fd_free() == a->fd_free);
}

#endif
