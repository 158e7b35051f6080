/*
 * rdma/tcp.h - what the files of the tcp carrier share; see tcp.c
 */
#ifndef RDMA_TCP_H
#define RDMA_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <event2/event.h>

/* A table that can't grow refuses the element: hh.tbl stays NULL. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

#include "rdma/carrier.h"
#include "rdma/tcp_wire.h"
#include "rdma/tls.h"

_Static_assert(PL_TCP_NODE == PL_CARRIER_NODE_BYTES, "names fit both ways");

#define PL_TCP_CONNS_DEFAULT 2
#define PL_TCP_DEAD_MS_DEFAULT 10000
#define PL_TCP_HANDSHAKE_MS 5000
#define PL_TCP_RETRY_FIRST_MS 20
#define PL_TCP_RETRY_MAX_MS 3000
/* Connections that have not said who they are. */
#define PL_TCP_PENDING_MAX 64
/* Backlog of one key. An empty queue takes a put of any size. */
#define PL_TCP_KEY_BYTES_MAX (4u << 20)
#define PL_TCP_KEY_OPS_MAX 512
#define PL_TCP_MESSAGES_MAX 4096
/* What a key may send before the next one's turn. */
#define PL_TCP_QUANTUM PL_TCP_FRAME_MAX
#define PL_TCP_BATCH_FRAMES 32
/* From this size on a frame's bytes go by sendfile instead of being copied. */
#define PL_TCP_FILE_BYTES (32u << 10)
#define PL_TCP_BATCH_BYTES (512u << 10)
/* What the kernel may hold back: a lane's bytes wait behind it. */
#define PL_TCP_NOTSENT_BYTES (512 << 10)
/* Per turn of the event loop and connection. */
#define PL_TCP_TURN_BYTES (4u << 20)
#define PL_TCP_STAGE_BYTES 4096
/* A receiver that lacks more than this of a frame sleeps until it is there. */
#define PL_TCP_LOWAT_BYTES (32u << 10)
/* A LINK, which may have a message in it. */
#define PL_TCP_LINK_MAX (PL_CARRIER_MSG_MAX + 64)
/* Keys that were revoked and of which puts may still be under way. */
#define PL_TCP_REVOKED_MAX 1024
#define PL_TCP_WHY_BYTES 256
/* What somebody who was not let in may still send. */
#define PL_TCP_ENDING_BYTES (64u << 10)

struct pl_tcp_peer;
struct pl_tcp_queue;

/* A put or a message that was asked for. */
struct pl_tcp_op {
	struct pl_tcp_op *prev, *next;
	struct pl_tcp_queue *q;
	enum pl_tcp_type type;
	uint8_t flags;
	const uint8_t *data;		/* a source, words, or text */
	size_t len, cut;		/* cut: of it in frames already */
	uint64_t offset, source;
	struct pl_tcp_source *file;	/* of a put by sendfile, or NULL */
	pl_put_done done;
	void *user;
	uint8_t *text;			/* of a message: ours */
	uint64_t words[PL_PUT_WORDS_MAX / 8];
};

/* What waits for one key (0: messages), in order. */
struct pl_tcp_queue {
	UT_hash_handle hh;
	struct pl_tcp_queue *prev, *next;	/* in an active list */
	struct pl_tcp_peer *peer;
	uint64_t key;
	struct pl_tcp_op *ops;		/* not sent to the last byte */
	struct pl_tcp_op *uncut;	/* first that is not all in frames */
	size_t bytes;
	unsigned int n_ops;
	size_t turn;			/* bytes of its present turn */
};

struct pl_tcp_out {
	struct pl_tcp_frame h;
	const uint8_t *data;
	struct pl_tcp_op *op;		/* NULL: dropped, send it anyhow */
	void *copy;
	struct pl_tcp_source *file;	/* where data is, or NULL */
	bool last;			/* of op */
};

/* Frames that are built: they go out as they are. */
struct pl_tcp_batch {
	struct pl_tcp_out f[PL_TCP_BATCH_FRAMES];
	unsigned int first, n;
	size_t bytes;
	size_t sent;			/* of f[first], header included */
};

/* Memory that the peer may put into; map NULL: revoked. */
struct pl_tcp_key {
	UT_hash_handle hh;
	struct pl_tcp_key *prev, *next;	/* in the peer's list of revoked ones */
	uint64_t key;
	uint8_t *map;
	size_t len;
	void *user;
};

struct pl_tcp_source {
	UT_hash_handle hh;
	uint64_t id;
	int fd;				/* -1: no sendfile from it */
	const uint8_t *map;
	size_t len;
};

struct pl_tcp_in {
	uint8_t stage[PL_TCP_STAGE_BYTES];	/* arrived and not looked at */
	size_t have;
	struct pl_tcp_frame h;
	bool body;			/* h is valid, its bytes arrive */
	size_t got;
	int lowat;			/* SO_RCVLOWAT */
	struct pl_tcp_key *key;		/* of a put; NULL: thrown away */
	uint8_t *to;			/* NULL: thrown away */
	uint64_t small[PL_TCP_LINK_MAX / 8];	/* words, a message, junk */
};

enum pl_tcp_phase {
	PL_TCP_CONNECTING,
	PL_TCP_SECURING,		/* handshake of TLS */
	PL_TCP_HELLO,			/* made by the peer, which says HELLO */
	PL_TCP_WELCOME,			/* made by us, HELLO is sent */
	PL_TCP_READY,			/* until its set is complete */
	PL_TCP_UP,
	PL_TCP_ENDING,			/* not let in: until it has read why */
	PL_TCP_CLOSED,			/* freed by the next turn of the loop */
};

struct pl_tcp_conn {
	struct pl_tcp_conn *prev, *next;	/* pending or closed */
	struct pl_tcp_carrier *t;
	struct pl_tcp_peer *peer;		/* NULL while pending */
	int fd;
	struct pl_tls *tls;			/* NULL: plain text */
	enum pl_tcp_phase phase;
	unsigned int index;
	uint64_t since_ns;			/* pending */
	struct pl_addr from;
	struct event *ev_read, *ev_write, *ev_flush;
	union {
		struct pl_tcp_hello hello;
		struct pl_tcp_welcome welcome;
	} intro;
	size_t intro_have;
	struct pl_tcp_queue *active;	/* have something to be cut */
	struct pl_tcp_batch out;
	struct pl_tcp_in in;
};

/* After so many silent ends in a row, something is not the same there. */
#define PL_TCP_SILENT_ASKS 3

enum pl_tcp_set {
	PL_TCP_SET_NONE,
	PL_TCP_SET_DIALING,
	PL_TCP_SET_ACCEPTING,
	PL_TCP_SET_UP,
};

struct pl_tcp_peer {
	struct pl_carrier_peer base;
	UT_hash_handle hh;		/* by base.node */
	struct pl_tcp_peer *next;		/* forgotten */
	struct pl_tcp_carrier *t;
	struct pl_addr addr;
	uint16_t port;
	bool wanted, forgotten;
	bool told;			/* that it can't be reached */
	int told_reason;
	char why[PL_TCP_WHY_BYTES];	/* it failed; "": as errno says */
	struct event *ev_timer;
	unsigned int attempts;
	unsigned int silent;		/* ends without an answer, in a row */
	uint64_t stale;

	enum pl_tcp_set state;
	uint64_t set, set_instance;
	unsigned int count, ready;
	struct pl_tcp_conn *conn[PL_CARRIER_CONNECTIONS_MAX];

	struct pl_tcp_key *keys, *revoked;
	unsigned int n_revoked, next_conn;
	struct pl_tcp_source *sources;
	uint64_t last_source;
	struct pl_tcp_queue *queues;
	size_t queued;
	unsigned int n_messages;
	struct pl_carrier_stats stats;
};

struct pl_tcp_carrier {
	struct pl_carrier base;
	char node[PL_TCP_NODE];
	struct pl_addr addr;
	unsigned int conns;
	int dead_ms;
	uint64_t instance;
	struct event_base *loop;
	struct pl_carrier_cb cb;
	void *arg;
	int listen_fd;
	struct event *ev_listen, *ev_resume, *ev_reap;
	struct pl_tcp_peer *peers, *forgotten;
	struct pl_tcp_conn *pending, *closed;
	unsigned int n_pending;
	struct pl_carrier_security security;
	struct pl_tls_keys *keys;		/* NULL: plain text */
	uint64_t complain_ns;
	unsigned int complaints;		/* since then */
	struct pl_tcp_op *free_ops;
	struct pl_tcp_queue *free_queues;
	unsigned int n_free_ops, n_free_queues;
};

static inline struct pl_tcp_peer *
pl_tcp_peer_of(const struct pl_carrier_peer *p)
{
	return (struct pl_tcp_peer *)(uintptr_t)p;
}

/* tcp.c */
uint64_t pl_tcp_random(void);
bool pl_tcp_name_ok(const char *name, size_t size);
/* A peer of this name that nobody wants yet, or NULL: no memory. */
struct pl_tcp_peer *pl_tcp_peer_new(struct pl_tcp_carrier *t,
				    const char *node);

/* tcp_congestion.c */
/* What `want` (see struct pl_carrier_config) comes to on this node. */
int pl_tcp_congestion_find(const char *want, char *name, struct pl_err *err);
void pl_tcp_congestion_use(const struct pl_tcp_carrier *t, int fd);

/* tcp_conn.c: sockets */
int pl_tcp_listen(struct pl_tcp_carrier *t, uint16_t port,
		  struct pl_err *err);
void pl_tcp_accept_cb(evutil_socket_t fd, short what, void *arg);
void pl_tcp_resume_cb(evutil_socket_t fd, short what, void *arg);
/* Socket and events; takes fd. NULL: no memory, fd is closed. */
struct pl_tcp_conn *pl_tcp_conn_new(struct pl_tcp_carrier *t, int fd);
/* A socket on its way to the peer, or -errno. */
int pl_tcp_conn_dial(const struct pl_tcp_peer *p);
void pl_tcp_conn_close(struct pl_tcp_conn *c);
void pl_tcp_conn_free(struct pl_tcp_conn *c);

/* tcp_set.c: who connects to whom, introductions, loss */
void pl_tcp_set_dial(struct pl_tcp_peer *p);
/* The set is lost or could not be made; retries when the peer is wanted. */
void pl_tcp_set_end(struct pl_tcp_peer *p, int reason);
void pl_tcp_set_timer_cb(evutil_socket_t fd, short what, void *arg);
/* In words why the set is going to end. */
void pl_tcp_set_why(struct pl_tcp_peer *p, const char *text);
/* Something to read, or to go on with, before the connection is up. */
void pl_tcp_set_intro(struct pl_tcp_conn *c);
/* A connection that we make has become writable. */
void pl_tcp_set_connected(struct pl_tcp_conn *c);

/* tcp_stream.c: plain text or TLS */
/* About somebody who was not let in; not too often. */
void pl_tcp_complain(struct pl_tcp_carrier *t, const char *node,
		     const struct pl_addr *from, const char *text);
void pl_tcp_keys_refresh(struct pl_carrier *base);
/* Before anything is said; for c->peer or, without one, whoever it is. */
int pl_tcp_stream_secure(struct pl_tcp_conn *c);
/* Bytes of an introduction, -EAGAIN or -errno, perhaps with err. */
ssize_t pl_tcp_stream_intro(struct pl_tcp_conn *c, void *buf, size_t len,
			    struct pl_err *err);
/* All of it at once. 0 or -ECONNRESET. */
int pl_tcp_stream_say(struct pl_tcp_conn *c, const void *data, size_t len);
/* Frames follow. -EPROTO: the introduction was not all that was said. */
int pl_tcp_stream_introduced(struct pl_tcp_conn *c);
/*
 * Bytes, -EAGAIN or -errno. iov is changed. held_only: with TLS, only what was
 * taken from the socket before.
 */
ssize_t pl_tcp_stream_read(struct pl_tcp_conn *c, struct iovec *iov,
			   unsigned int n, bool held_only);
/* With TLS: bytes that it has taken, or -1 and errno. iov may be empty. */
ssize_t pl_tcp_stream_write(struct pl_tcp_conn *c, const struct iovec *iov,
			    unsigned int n);

/* tcp_send.c */
int pl_tcp_put(struct pl_carrier_peer *p, uint64_t source, uint64_t key,
	       uint64_t offset, const void *local, size_t len,
	       unsigned int flags, pl_put_done done, void *user);
int pl_tcp_message(struct pl_carrier_peer *p, const void *data, size_t len,
		   uint64_t after);
/*
 * A message of a carrier that is made on top of this one, at most
 * PL_TCP_LINK_MAX bytes, for the callback `link` of its other side; as
 * pl_carrier_message without `after`, and in order with those.
 */
int pl_tcp_link(struct pl_carrier_peer *p, const void *data, size_t len);
void pl_tcp_send(struct pl_tcp_conn *c);
/* Everything that is queued: done with status. May call back. */
void pl_tcp_send_drop(struct pl_tcp_peer *p, int status);
int pl_tcp_source(struct pl_carrier_peer *p, int fd, const void *map,
		  size_t len, uint64_t *source);
void pl_tcp_source_end(struct pl_carrier_peer *p, uint64_t source);
/* Frees without calling back. */
void pl_tcp_send_free(struct pl_tcp_carrier *t);

/* tcp_recv.c */
void pl_tcp_recv(struct pl_tcp_conn *c);
int pl_tcp_expose(struct pl_carrier_peer *p, int fd, void *map, size_t len,
		  void *user, uint64_t *key);
int pl_tcp_extend(struct pl_carrier_peer *p, uint64_t key, int fd, size_t len);
void pl_tcp_revoke(struct pl_carrier_peer *p, uint64_t key);
/* Every key of the peer. */
void pl_tcp_recv_free(struct pl_tcp_peer *p);

#endif
