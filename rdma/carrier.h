/*
 * rdma/carrier.h - carriers move bytes from a segment to its replica
 *
 * Theory of operation
 *
 * A carrier connects this agent with the agents of other nodes. It has one
 * data operation, an ordered one-sided write:
 *
 *     put(peer, key, offset, local address, length)
 *
 * which makes the peer's memory registered under key equal to the local
 * memory, at the same offset. Puts with the same key land in the order of
 * their calls. A put of at most PL_PUT_WORDS_MAX bytes whose offset and length
 * are multiples of 8 lands as whole 64-bit words, after all earlier puts of
 * that key. A put may be repeated: it writes the same bytes at the same place.
 * With PL_PUT_NOTIFY the peer's notify callback runs for key after this put
 * has landed.
 *
 * Local memory of a put must stay mapped until the carrier reports it done;
 * `done` is called once for each put that asked for it (a whole tail of earlier
 * puts of the same key is then done as well), or with a negative errno when the
 * connection broke first. The bytes must stay in place until the peer is known
 * to have them: until then newer ones may travel in their stead. (For a ring
 * that is so by its tail, for a region by what owner and readers agree on.)
 *
 * Beside puts a carrier brings ordered control messages between the agents.
 * The tcp carrier sends all of it over a few TCP connections per pair of
 * nodes: control messages use the first, each key uses one. So there is no
 * order between a message and a put, except: a message sent with `after` = key
 * is delivered after all earlier puts of that key (tcp: on that key's
 * connection). Messages without `after` are delivered in the order of their
 * calls.
 *
 * A key's owner revokes it after the peer said (by a message with `after`)
 * that it puts no more, or when it does not care: puts of a key that was
 * revoked a moment ago are thrown away, a key that never was ends the
 * connection.
 *
 * All calls and callbacks are made on the event loop's one thread. A callback
 * may call the carrier, but not destroy it; a peer that a callback forgets is
 * not touched by the carrier after that callback.
 */
#ifndef RDMA_CARRIER_H
#define RDMA_CARRIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/inet.h"

struct event_base;		/* libevent */
struct pl_carrier;
struct pl_carrier_peer;		/* one remote node */

#define PL_PUT_NOTIFY 0x1u
#define PL_PUT_WORDS_MAX 128u
#define PL_CARRIER_MSG_MAX 4096u
#define PL_CARRIER_NODE_BYTES 256	/* a node's name with its NUL */
#define PL_CARRIER_CONGESTION_BYTES 17	/* TCP_CA_NAME_MAX and a NUL */

struct pl_carrier_cb {
	/*
	 * A node wants to connect from this address: may it? Asked before
	 * anything else happens for it; NULL: only peers of
	 * pl_carrier_peer_get may.
	 */
	bool (*admit)(void *arg, const char *node, const struct pl_addr *from);
	/*
	 * Connected and introduced: peer->node is its name. A peer->instance
	 * other than the last time says that its agent was started anew and
	 * knows none of the keys that it gave out before.
	 */
	void (*up)(void *arg, struct pl_carrier_peer *peer);
	/*
	 * The connection broke, or couldn't be made (reason: negative errno):
	 * once after each `up`, and once when a new peer can't be reached.
	 * The carrier goes on trying for peers that this side wants; puts and
	 * messages that were queued are dropped (their done runs before this).
	 */
	void (*down)(void *arg, struct pl_carrier_peer *peer, int reason);
	/* A control message, at most PL_CARRIER_MSG_MAX bytes. */
	void (*message)(void *arg, struct pl_carrier_peer *peer,
			const void *data, size_t len);
	/* A put with PL_PUT_NOTIFY has landed; user as given to expose. */
	void (*notify)(void *arg, struct pl_carrier_peer *peer, uint64_t key,
		       void *user);
	/*
	 * For a carrier that is made on top of this one: what its other side
	 * said with pl_tcp_link, in order with the messages. NULL: nobody
	 * listens, and one byte says so to the other side.
	 */
	void (*link)(void *arg, struct pl_carrier_peer *peer, const void *data,
		     size_t len);
	/*
	 * Might admit let in anybody from this address? Others are turned away
	 * before anything is read. NULL: anybody may try.
	 */
	bool (*expects)(void *arg, const struct pl_addr *from);
};

/* How the agents know each other; see rdma/tls.h. */
enum pl_security {
	PL_SECURITY_UNSET,		/* refused: it must be said */
	PL_SECURITY_NONE,		/* plain text, addresses are believed */
	PL_SECURITY_PSK,		/* TLS 1.3 with a pre-shared key */
	PL_SECURITY_TLS,		/* TLS 1.3 with certificates of a CA */
};

static inline const char *pl_security_name(enum pl_security kind)
{
	switch (kind) {
	case PL_SECURITY_NONE:
		return "none";
	case PL_SECURITY_PSK:
		return "psk";
	case PL_SECURITY_TLS:
		return "tls";
	case PL_SECURITY_UNSET:
		break;
	}
	return "";
}

struct pl_carrier_security {
	enum pl_security kind;
	/*
	 * Once they know each other, agents go on in plain text: whoever can
	 * read or change what is under way between the nodes still can.
	 */
	bool plain;
	/* Paths; key is the certificate's, or a file of pre-shared keys. */
	const char *ca, *cert, *key;
	uint64_t rekey_bytes;		/* then new keys; 0: default */
};

/* How a carrier waits for what a device has done. */
enum pl_polling {
	PL_POLLING_ADAPTIVE,		/* look for a while, then sleep */
	PL_POLLING_EVENT,		/* sleep at once */
	PL_POLLING_BUSY,		/* look all the time: one CPU is lost */
};

struct pl_verbs_calls;

/* verbs: NULL and 0 are the defaults. */
struct pl_carrier_verbs {
	enum pl_polling polling;
	unsigned int retry_ms;		/* after the first failure */
	const char *device;		/* outlives it; NULL: any, and then */
	int port;			/* ... 0: any */
	int gid_index;			/* ... -1: any */
	const struct pl_verbs_calls *calls;	/* NULL: the libraries */
};

/* Of one pair of nodes; agents of both must mean the same by it. */
#define PL_CARRIER_CONNECTIONS_MAX 8

struct pl_carrier_config {
	const char *node;		/* own name */
	struct pl_addr listen_addr;	/* node address to listen on */
	uint16_t port;			/* 0: any, see struct pl_carrier */
	int connections;		/* to a node, to 8; 0: default */
	int dead_ms;			/* silent so long: down; 0: default */
	/*
	 * tcp: the congestion control of its connections. NULL or "auto": the
	 * node's, unless that is bbr: then cubic, or reno where that is all.
	 */
	const char *congestion;
	struct pl_carrier_security security;	/* its paths outlive it */
	struct pl_carrier_verbs verbs;
	struct event_base *base;
	struct pl_carrier_cb cb;
	void *arg;			/* of the callbacks */
};

struct pl_carrier_stats {
	uint64_t put_bytes, puts, messages, received_bytes, received_puts;
	uint64_t syscalls;
	/* verbs: of put_bytes, what went by RDMA; and what that took */
	uint64_t rdma_bytes, rdma_copied_bytes;
	uint64_t work_requests, doorbells, completions, polls, wakeups;
	uint64_t wire_bytes;		/* in work requests: payload, SENDs */
	uint64_t completion_errors;
	uint64_t fallbacks;		/* from verbs to tcp */
	unsigned int queue_pairs;	/* now, in use */
	unsigned int memory_regions;	/* now, of pods' memory and replicas */
};

typedef void (*pl_put_done)(void *user, int status);

/* What an implementation provides; everybody else calls pl_carrier_*. */
struct pl_carrier_ops {
	const char *name;
	int (*create)(const struct pl_carrier_config *cfg,
		      struct pl_carrier **out, struct pl_err *err);
	void (*destroy)(struct pl_carrier *c);
	struct pl_carrier_peer *(*peer_get)(struct pl_carrier *c,
					    const char *node,
					    const struct pl_addr *addr,
					    uint16_t port);
	void (*peer_forget)(struct pl_carrier_peer *p);
	int (*expose)(struct pl_carrier_peer *p, int fd, void *map,
		      size_t len, void *user, uint64_t *key);
	int (*extend)(struct pl_carrier_peer *p, uint64_t key, int fd,
		      size_t len);
	void (*revoke)(struct pl_carrier_peer *p, uint64_t key);
	int (*source)(struct pl_carrier_peer *p, int fd, const void *map,
		      size_t len, uint64_t *source);
	void (*source_end)(struct pl_carrier_peer *p, uint64_t source);
	int (*put)(struct pl_carrier_peer *p, uint64_t source, uint64_t key,
		   uint64_t offset, const void *local, size_t len,
		   unsigned int flags, pl_put_done done, void *user);
	int (*message)(struct pl_carrier_peer *p, const void *data, size_t len,
		       uint64_t after);
	void (*refresh)(struct pl_carrier *c);
	size_t (*queued)(const struct pl_carrier_peer *p);
	void (*stats)(const struct pl_carrier_peer *p,
		      struct pl_carrier_stats *st);
};

/* First member of every implementation's carrier and peer. */
struct pl_carrier {
	const struct pl_carrier_ops *ops;
	uint16_t port;			/* that it listens on */
	char congestion[PL_CARRIER_CONGESTION_BYTES];	/* tcp: in use */
	/*
	 * What lanes over it are shown to use: "tcp", "tcp+tls", or "tcp+auth"
	 * for plain text between agents that know each other.
	 */
	const char *path;
};

struct pl_carrier_peer {
	struct pl_carrier *carrier;
	char node[PL_CARRIER_NODE_BYTES];
	bool is_up;
	int reason;			/* why it isn't: -errno, 0: not tried */
	uint64_t instance;		/* of the last `up`; 0 before it */
	/* What moves the bytes of this peer; NULL: as its carrier says. */
	const char *path;
	void *user;			/* the agent's, NULL at first */
};

extern const struct pl_carrier_ops pl_carrier_tcp;
/*
 * Verbs where both nodes have them and they work, else tcp; and verbs or
 * nothing. Both only where PL_HAVE_VERBS is defined.
 */
extern const struct pl_carrier_ops pl_carrier_auto, pl_carrier_verbs;

/*
 * The carrier of this name. -EINVAL: there is none, or this build lacks it.
 * "auto" is always there: a build without verbs has tcp under that name.
 */
int pl_carrier_find(const char *name, const struct pl_carrier_ops **out,
		    struct pl_err *err);

/* The tcp carrier makes the process ignore SIGPIPE. */
static inline int pl_carrier_create(const struct pl_carrier_ops *ops,
				    const struct pl_carrier_config *cfg,
				    struct pl_carrier **out,
				    struct pl_err *err)
{
	return ops->create(cfg, out, err);
}

/*
 * The files of keys may have changed. (They are looked at before each new
 * connection, too; this is for saying early what is wrong with them.)
 */
static inline void pl_carrier_refresh(struct pl_carrier *c)
{
	if (c->ops->refresh)
		c->ops->refresh(c);
}

/* Ends every connection; no callback runs any more. */
static inline void pl_carrier_destroy(struct pl_carrier *c)
{
	c->ops->destroy(c);
}

/*
 * The peer of this name; connects to it (and reconnects, with back-off) when
 * no connection is there. Both sides may do so at once: one connection set
 * survives. A changed address is used from the next attempt on. A peer that
 * connects to us appears by the `up` callback without this call, and stays
 * (down or up) until it is forgotten. NULL: no memory, or no valid name.
 */
static inline struct pl_carrier_peer *
pl_carrier_peer_get(struct pl_carrier *c, const char *node,
		    const struct pl_addr *addr, uint16_t port)
{
	return c->ops->peer_get(c, node, addr, port);
}

/*
 * Stop trying, close, free. Its keys and sources are gone. Queued puts are done
 * with -ECANCELED before this returns; no other callback of this peer follows.
 */
static inline void pl_carrier_peer_forget(struct pl_carrier_peer *p)
{
	p->carrier->ops->peer_forget(p);
}

/*
 * Let this peer, and no other, put into [map, map + len), a writable mapping of
 * fd that stays valid until pl_carrier_revoke. The key is not guessable from
 * other keys. Survives reconnection of the peer, which is to learn of it by a
 * message that is sent after this call.
 */
static inline int pl_carrier_expose(struct pl_carrier_peer *p, int fd,
				    void *map, size_t len, void *user,
				    uint64_t *key)
{
	return p->carrier->ops->expose(p, fd, map, len, user, key);
}

/*
 * What was exposed has more memory right behind it, of fd: the key is for len
 * bytes in all from now on. Puts of both are of one key, and in order.
 */
static inline int pl_carrier_extend(struct pl_carrier_peer *p, uint64_t key,
				    int fd, size_t len)
{
	return p->carrier->ops->extend(p, key, fd, len);
}

/*
 * After this no put of that key writes any more, nor is notify called. (verbs:
 * puts of words do not; others that are under way may for a moment, in the file
 * if it is not mapped any more. What counts bytes does not count these.)
 */
static inline void pl_carrier_revoke(struct pl_carrier_peer *p, uint64_t key)
{
	p->carrier->ops->revoke(p, key);
}

/*
 * Register memory that puts read from: map is a mapping of fd from its start.
 * Both stay until pl_carrier_source_end. (verbs: a memory region; tcp: sends
 * from the file.) fd -1: memory without a file.
 */
static inline int pl_carrier_source(struct pl_carrier_peer *p, int fd,
				    const void *map, size_t len,
				    uint64_t *source)
{
	return p->carrier->ops->source(p, fd, map, len, source);
}

/*
 * Puts of it that are queued are completed from memory or dropped first (done
 * with -ECANCELED). (verbs: what is under way may be read for a moment more, if
 * it is not mapped any more, too.)
 */
static inline void pl_carrier_source_end(struct pl_carrier_peer *p,
					 uint64_t source)
{
	p->carrier->ops->source_end(p, source);
}

/*
 * Queue a put. local points into the source, and offset is where it goes in
 * the peer's memory. done may be NULL; it never runs inside this call.
 * -ENOTCONN: the peer is not up. -ENOBUFS: this key's queue is full, go on
 * after a done callback of an earlier put of the same key (other keys are not
 * concerned, and an empty queue is never full). -EINVAL: not within the source,
 * or empty.
 *
 * A put of at most PL_PUT_WORDS_MAX bytes is copied at once and needs no source
 * (0), so that counters can be put as they were checked, from the stack; with a
 * source it ends with that all the same.
 */
static inline int pl_carrier_put(struct pl_carrier_peer *p, uint64_t source,
				 uint64_t key, uint64_t offset,
				 const void *local, size_t len,
				 unsigned int flags, pl_put_done done,
				 void *user)
{
	return p->carrier->ops->put(p, source, key, offset, local, len, flags,
				    done, user);
}

/*
 * Queue a control message; it is copied. after: a key of the peer, 0: none.
 * -ENOTCONN; -ENOBUFS: the peer takes no more for the moment (some thousand are
 * waiting); -EMSGSIZE; -ENOMEM.
 */
static inline int pl_carrier_message(struct pl_carrier_peer *p,
				     const void *data, size_t len,
				     uint64_t after)
{
	return p->carrier->ops->message(p, data, len, after);
}

/* What a lane to this peer is shown to use. */
static inline const char *pl_carrier_path(const struct pl_carrier_peer *p)
{
	return p->path ? p->path : p->carrier->path;
}

/* Bytes queued and not yet handed to the network: for back-pressure. */
static inline size_t pl_carrier_queued(const struct pl_carrier_peer *p)
{
	return p->carrier->ops->queued(p);
}

static inline void pl_carrier_stats(const struct pl_carrier_peer *p,
				    struct pl_carrier_stats *st)
{
	p->carrier->ops->stats(p, st);
}

#endif
