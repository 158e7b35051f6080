/*
 * tests/unit/remote_util.h - two nodes' remote parts on loopback, for tests
 *
 * The brokers are stand-ins, defined here; pods are rings in this process,
 * moved by hand, so that they can also do what they may not.
 */
#ifndef TESTS_REMOTE_UTIL_H
#define TESTS_REMOTE_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "common/log.h"
#include "common/util.h"
#include "daemonset/broker.h"
#include "daemonset/remote.h"
#include "shm/fence.h"
#include "shm/msg.h"
#include "shm/segment.h"
#include "tests/unit/loop_util.h"

#define WAIT_NS 30000000000ull
/* One pod's end of a lane. */
struct pod {
	uint64_t id;
	struct pl_seg own, peer;
	int bell;
	uint64_t head, tail;
	uint32_t rang_rx, rang_tx;
	int status;			/* of connect: 1 while it is awaited */
	char text[256];
	char path[16];
	uint8_t uid[PL_WIRE_UID];
	bool opener;
};

/* A region of a pod here. */
struct region {
	struct pl_seg seg;
	size_t max_size;		/* 0: it does not grow */
	struct pl_broker_part parts[4];
	unsigned int n_parts;
	struct pl_region_watch *watch;
	struct pl_seg watch_seg;
	int bell[2];			/* the broker's, the pod's */
	uint32_t rang;
	uint64_t version;
};

struct reader {
	uint64_t id;
	int status;			/* 1: awaited, 2: ended */
	uint64_t size;
	struct pl_seg seg;
	char text[256];
	uint8_t uid[PL_WIRE_UID];
};

struct pl_broker {
	struct pl_remote *remote;
	struct pl_registry reg;
	struct pl_node nodes[2];
	uint32_t order[2];		/* by address */
	uint64_t last_id;
	uint64_t ended[64];		/* ids of pl_broker_lane_ended */
	unsigned int n_ended;
	unsigned int n_broke;		/* pl_broker_broke */
	int refuse;			/* incoming: this errno at once */
	pl_broker_incoming_done *done;	/* of the incoming that waits */
	void *arg;
	struct pod in;			/* of it */
	char src_ns[64], service[64];
	int resume_ms;
	bool may_show;			/* its pods, what they had before */
	bool in_old;			/* pods that accept do not resume */
	struct region *region;		/* "r" of any pod; NULL: none */
	uint64_t region_id;
	uint8_t region_uid[PL_WIRE_UID];
	const char *allowed_ns;
	struct reader *readers[8];
};

struct nodes {
	struct event_base *base;
	struct pl_broker a, b;
};

/* --- the stand-in -------------------------------------------------------- */

static inline void pod_take(struct pod *p, int replica_fd, int bell_fd,
			    uint32_t ring)
{
	struct pl_err err = { 0 };

	p->bell = fcntl(bell_fd, F_DUPFD_CLOEXEC, 3);
	assert_true(p->bell >= 0);
	if (pl_seg_lane_open(fcntl(replica_fd, F_DUPFD_CLOEXEC, 3), ring,
			     &p->peer, &err) < 0)
		fail_msg("%s", err.msg);
}

int pl_broker_incoming(struct pl_broker *b, const struct pl_broker_incoming *in,
		       pl_broker_incoming_done *done, void *arg, uint64_t *id,
		       bool *resumes, struct pl_err *err)
{
	if (b->refuse)
		return pl_err_set(err, b->refuse, "refused at once");
	assert_null(b->done);
	memset(&b->in, 0, sizeof(b->in));
	b->in.own = PL_SEG_NONE;
	pod_take(&b->in, in->replica_fd, in->bell_fd, in->ring_bytes);
	snprintf(b->src_ns, sizeof(b->src_ns), "%s", in->src_ns);
	snprintf(b->service, sizeof(b->service), "%s", in->service);
	b->in.id = *id = ++b->last_id;
	memcpy(b->in.uid, in->uid, sizeof(b->in.uid));
	*resumes = !b->in_old;
	b->done = done;
	b->arg = arg;
	return 0;
}

bool pl_broker_may_show(struct pl_broker *b, const struct pl_addr *pod)
{
	(void)pod;
	return b->may_show;
}

bool pl_broker_has_pod(struct pl_broker *b, const struct pl_addr *addr)
{
	(void)b;
	(void)addr;
	return false;
}

void pl_broker_lane_ended(struct pl_broker *b, uint64_t id)
{
	if (b->done && b->in.id == id)
		b->done = NULL;
	assert_true(b->n_ended < PL_ARRAY_SIZE(b->ended));
	b->ended[b->n_ended++] = id;
}

void pl_broker_broke(struct pl_broker *b, uint64_t id, const char *rule)
{
	(void)id;
	(void)rule;
	b->n_broke++;
}

static inline uint64_t region_size(const struct region *r)
{
	struct pl_region_seg *h = r->seg.base;

	return PL_MAX(atomic_load(&h->grown), r->seg.data_bytes);
}

int pl_broker_region_lookup(struct pl_broker *b, const struct pl_addr *owner,
			    const char *name, const char *reader_ns,
			    struct pl_broker_region *out, struct pl_err *err)
{
	(void)owner;
	if (!b->region && b->may_show)
		return pl_err_set(err, EAGAIN, "not yet");
	if (!b->region || strcmp(name, "r"))
		return pl_err_set(err, ENOENT, "no such region");
	if (b->allowed_ns && strcmp(b->allowed_ns, reader_ns))
		return pl_err_set(err, EACCES, "not for you");
	*out = (struct pl_broker_region){
		.id = b->region_id,
		.uid = b->region_uid,
		.fd = b->region->seg.fd,
		.size = b->region->seg.data_bytes,
		.size_now = region_size(b->region),
		.max_size = PL_MAX(b->region->max_size,
				   b->region->seg.data_bytes),
		.parts = b->region->parts,
		.n_parts = b->region->n_parts,
		.bell_fd = b->region->bell[0],
		.watch = b->region->watch,
	};
	return 0;
}

void pl_broker_region_ended(struct pl_broker *b, uint64_t id)
{
	for (size_t i = 0; i < PL_ARRAY_SIZE(b->readers); i++) {
		if (!b->readers[i] || b->readers[i]->id != id)
			continue;
		assert_int_equal(b->readers[i]->status, 0);
		b->readers[i]->status = 2;
		b->readers[i] = NULL;
		return;
	}
	fail_msg("an unknown region ended");
}

static inline bool is_ended(const struct pl_broker *b, uint64_t id)
{
	for (unsigned int i = 0; i < b->n_ended; i++) {
		if (b->ended[i] == id)
			return true;
	}
	return false;
}

/* --- nodes --------------------------------------------------------------- */

static inline uint16_t free_port(const char *addr)
{
	struct sockaddr_in sa = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(sa);

	inet_pton(AF_INET, addr, &sa.sin_addr);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	close(fd);
	return ntohs(sa.sin_port);
}

static inline struct pl_addr addr(const char *text)
{
	struct pl_addr a;

	assert_int_equal(pl_addr_parse(text, &a), 0);
	return a;
}

static inline void node_start(struct nodes *n, struct pl_broker *b,
			      const char *name)
{
	struct pl_remote_config cfg = { .base = n->base,
					.broker = b,
					.node = name,
					.carrier = "tcp",
					.security = { PL_SECURITY_NONE },
					.resume_ms = b->resume_ms,
					.registry = &b->reg };
	struct pl_err err = { 0 };

	if (pl_remote_create(&cfg, &b->remote, &err) < 0)
		fail_msg("%s", err.msg);
}

static inline void broker_registry(struct pl_broker *b)
{
	b->order[1] = 1;
	b->reg = (struct pl_registry){ .nodes = b->nodes,
				       .n = 2,
				       .by_addr = b->order };
}

static inline void nodes_init(struct nodes *n)
{
	struct pl_node node[2] = { { .name = "node-a",
				     .address = addr("127.0.0.1"),
				     .port = free_port("127.0.0.1") },
				   { .name = "node-b",
				     .address = addr("127.0.0.2"),
				     .port = free_port("127.0.0.2") } };

	memset(n, 0, sizeof(*n));
	pl_log_init("test", getenv("VERBOSE") ? PL_LOG_DEBUG : PL_LOG_ERROR);
	n->base = event_base_new();
	memcpy(n->a.nodes, node, sizeof(node));
	memcpy(n->b.nodes, node, sizeof(node));
	broker_registry(&n->a);
	broker_registry(&n->b);
	node_start(n, &n->a, "node-a");
	node_start(n, &n->b, "node-b");
}

static inline void nodes_fini(struct nodes *n)
{
	if (n->a.remote)
		pl_remote_destroy(n->a.remote);
	if (n->b.remote)
		pl_remote_destroy(n->b.remote);
	event_base_free(n->base);
}

/* Breaks every TCP connection of this process. */
static inline void cut(void)
{
	for (int fd = 3; fd < 1024; fd++) {
		struct sockaddr_in sa;
		socklen_t len = sizeof(sa);

		if (getpeername(fd, (struct sockaddr *)&sa, &len) == 0 &&
		    sa.sin_family == AF_INET)
			shutdown(fd, SHUT_RDWR);
	}
}

static inline void last_node(const struct pl_remote_node *node, void *arg)
{
	struct pl_remote_node *out = arg;

	*out = *node;
	out->state = !strcmp(node->state, "up") ? "up" : "not up";
}

static inline struct pl_remote_node node_info(struct pl_broker *b)
{
	struct pl_remote_node info = { 0 };

	pl_remote_nodes(b->remote, last_node, &info);
	return info;
}

/* --- pods' ends of lanes ------------------------------------------------- */

static inline void on_connected(void *arg, int status, const char *text,
				const struct pl_remote_lane_up *up)
{
	struct pod *p = arg;

	assert_int_equal(p->status, 1);
	p->status = status;
	if (status < 0) {
		snprintf(p->text, sizeof(p->text), "%s", text);
		return;
	}
	snprintf(p->path, sizeof(p->path), "%s", up->path);
	pod_take(p, up->replica_fd, up->bell_fd, up->ring_bytes);
}

static inline struct pl_lane_seg *own(struct pod *p)
{
	return p->own.base;
}

static inline const struct pl_lane_seg *peer(struct pod *p)
{
	return p->peer.base;
}

/* From b's pod to a's service, unless other is given. */
static inline void pod_ask(struct pl_broker *from, struct pod *p,
			   int timeout_ms)
{
	const struct pl_node *to = strcmp(node_info(from).name, "node-a") ?
					   &from->nodes[1] : &from->nodes[0];
	struct pl_remote_lane lane = { .node = to,
				       .src = addr("10.88.2.2"),
				       .dst = addr("10.88.1.2"),
				       .src_ns = "team",
				       .service = "echo",
				       .ring_bytes =
					       (uint32_t)p->own.data_bytes,
				       .seg_fd = p->own.fd,
				       .timeout_ms = timeout_ms,
				       .uid = p->uid,
				       .resumes = true };
	struct pl_err err = { 0 };

	p->status = 1;
	lane.id = p->id = ++from->last_id;
	if (pl_remote_connect(from->remote, &lane, on_connected, p, &err) < 0)
		fail_msg("%s", err.msg);
}

static inline void pod_connect(struct pl_broker *from, struct pod *p,
			       uint32_t ring, int timeout_ms)
{
	struct pl_err err = { 0 };

	memset(p, 0, sizeof(*p));
	p->bell = -1;
	p->peer = PL_SEG_NONE;
	p->opener = true;
	assert_int_equal(pl_uid_draw(p->uid, &err), 0);
	assert_int_equal(pl_seg_lane_create(ring, &p->own, &err), 0);
	pod_ask(from, p, timeout_ms);
}

/* The pod that listens takes the lane. */
static inline void pod_accept(struct pl_broker *b, struct pod *p, uint32_t ring)
{
	pl_broker_incoming_done *done = b->done;
	struct pl_err err = { 0 };

	assert_non_null(done);
	*p = b->in;
	b->done = NULL;
	assert_int_equal(pl_seg_lane_create(ring, &p->own, &err), 0);
	done(b->arg, 0, NULL, p->own.fd, ring);
}

static inline void pods_connect(struct nodes *n, struct pod *pa, struct pod *pb,
				uint32_t ring_a, uint32_t ring_b)
{
	pod_connect(&n->b, pb, ring_b, 5000);
	RUN_UNTIL(n->base, n->a.done);
	pod_accept(&n->a, pa, ring_a);
	RUN_UNTIL(n->base, pb->status == 0);
}

/* What a library does when there is another agent. */
static inline int pod_resume(struct pl_broker *b, struct pod *p,
			     struct pl_err *err)
{
	const bool on_a = !strcmp(node_info(b).name, "node-b");
	struct pl_remote_resume in = {
		.node = &b->nodes[on_a],
		.opener = p->opener,
		.src = addr("10.88.2.2"),
		.dst = addr("10.88.1.2"),
		.uid = p->uid,
		.ring_bytes = (uint32_t)p->own.data_bytes,
		.peer_ring_bytes = (uint32_t)p->peer.data_bytes,
		.seg_fd = p->own.fd,
		.replica_fd = p->peer.fd,
	};
	struct pl_remote_lane_up up;
	int rc, fd;

	in.id = p->id = ++b->last_id;
	rc = pl_remote_lane_resume(b->remote, &in, &up, err);
	if (rc < 0)
		return rc;
	fd = fcntl(up.replica_fd, F_DUPFD_CLOEXEC, 3);
	assert_int_equal(pl_seg_lane_replace(&p->peer, fd, err), 0);
	close(p->bell);
	p->bell = up.bell_fd;
	(void)!send(p->bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	return 0;
}

static inline void pod_ring(struct pod *p)
{
	(void)!send(p->bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static inline void pod_wake(struct pod *p)
{
	uint32_t rx, tx;

	pl_fence();
	rx = atomic_load(&((struct pl_lane_seg *)p->peer.base)->rx_wait);
	tx = atomic_load(&((struct pl_lane_seg *)p->peer.base)->tx_wait);
	if (rx && rx != p->rang_rx)
		pod_ring(p);
	if (tx && tx != p->rang_tx)
		pod_ring(p);
	p->rang_rx = rx;
	p->rang_tx = tx;
}

/* Bytes of a stream, by position. */
static inline uint8_t stream_byte(uint64_t at, uint8_t seed)
{
	return (uint8_t)((at * 2654435761u >> 7) ^ at ^ seed);
}

/* Writes up to want bytes of the stream; returns how many. */
static inline size_t pod_write(struct pod *p, size_t want, uint8_t seed)
{
	const struct pl_lane_seg *from = p->peer.base;
	uint64_t tail = atomic_load(&from->tail);
	size_t ring = p->own.data_bytes, n;
	uint8_t *data = pl_seg_data(&p->own);

	assert_true(p->head - tail <= ring);
	n = PL_MIN(want, ring - (p->head - tail));
	for (size_t i = 0; i < n; i++)
		data[(p->head + i) & (ring - 1)] =
			stream_byte(p->head + i, seed);
	p->head += n;
	if (n) {
		atomic_store_explicit(&own(p)->head, p->head,
				      memory_order_release);
		pod_wake(p);
	}
	return n;
}

/* Reads and checks up to want bytes. */
static inline size_t pod_read(struct pod *p, size_t want, uint8_t seed)
{
	uint64_t head = atomic_load_explicit(
		&((struct pl_lane_seg *)p->peer.base)->head,
		memory_order_acquire);
	size_t ring = p->peer.data_bytes, n;
	const uint8_t *data = pl_seg_data(&p->peer);

	assert_true(head - p->tail <= ring);
	n = PL_MIN(want, head - p->tail);
	for (size_t i = 0; i < n; i++) {
		if (data[(p->tail + i) & (ring - 1)] !=
		    stream_byte(p->tail + i, seed))
			fail_msg("byte %llu is wrong",
				 (unsigned long long)(p->tail + i));
	}
	p->tail += n;
	if (n) {
		atomic_store_explicit(&own(p)->tail, p->tail,
				      memory_order_release);
		pod_wake(p);
	}
	return n;
}

static inline uint64_t pod_peer_state(struct pod *p)
{
	return atomic_load(&((struct pl_lane_seg *)p->peer.base)->state);
}

static inline bool pod_hung_up(struct pod *p)
{
	char c[16];
	ssize_t n;

	do {
		n = recv(p->bell, c, sizeof(c), MSG_DONTWAIT);
	} while (n > 0);
	return n == 0 || (n < 0 && errno != EAGAIN);
}

static inline void pod_set_state(struct pod *p, uint64_t state)
{
	atomic_store_explicit(&own(p)->state, state, memory_order_release);
	pod_ring(p);
}

/* Its memory and doorbell are gone, as if its process were. */
static inline void pod_die(struct pod *p)
{
	if (p->bell >= 0)
		close(p->bell);
	p->bell = -1;
	pl_seg_close(&p->own);
	pl_seg_close(&p->peer);
}

/* In good order, as pl_lane_close does it. */
static inline void pod_close(struct pl_broker *b, struct pod *p)
{
	if (p->own.base)
		pod_set_state(p, PL_STATE_CLOSED);
	if (!is_ended(b, p->id))
		pl_remote_lane_close(b->remote, p->id, false);
	pod_die(p);
}

#endif
