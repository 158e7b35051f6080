/* tests/unit/carrier_util.h - ends of carriers on loopback, for tests */
#ifndef TESTS_CARRIER_UTIL_H
#define TESTS_CARRIER_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <event2/event.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"
#include "common/util.h"
#include "rdma/carrier.h"
#include "tests/unit/loop_util.h"
#include "tests/unit/tls_util.h"

#define WAIT_NS 20000000000ull

/* Of which kind ends are; set by group setups. */
static struct {
	const struct pl_carrier_ops *ops;	/* NULL: tcp */
	struct pl_carrier_verbs verbs;
	void (*begin)(struct event_base *base);	/* of each test */
	void (*end)(void);
	/* Has the device, which goes on for a moment, come to an end? */
	bool (*settled)(void);
	/* How they know each other; NONE until one of the ends_* functions. */
	enum pl_security kind;
	bool plain;
	struct pki pki;			/* node-a, node-b, node-c, psk */
} ends = { .kind = PL_SECURITY_NONE };

/* One agent's carrier and what it was told. */
struct end {
	struct files files;
	struct pl_carrier *c;
	struct pl_carrier_peer *peer;	/* of the last up */
	const char *refuse;		/* node that is not admitted */
	bool deaf;			/* to what carriers say */
	int ups, downs, messages, notifies, admits, links;
	int reason;
	uint64_t last_key;
	char last[PL_CARRIER_MSG_MAX], last_link[64];
	size_t last_len;
	void (*on_message)(struct end *e);
	void (*on_notify)(struct end *e);
	void *test;
};

static inline bool end_admit(void *arg, const char *node,
			     const struct pl_addr *from)
{
	struct end *e = arg;

	e->admits++;
	assert_int_equal(from->family, AF_INET);
	return !e->refuse || strcmp(e->refuse, node);
}

static inline void end_up(void *arg, struct pl_carrier_peer *peer)
{
	struct end *e = arg;

	assert_true(peer->is_up);
	e->peer = peer;
	e->ups++;
}

static inline void end_down(void *arg, struct pl_carrier_peer *peer, int reason)
{
	struct end *e = arg;

	assert_false(peer->is_up);
	assert_true(reason < 0);
	e->reason = reason;
	e->downs++;
}

static inline void end_message(void *arg, struct pl_carrier_peer *peer,
			       const void *data, size_t len)
{
	struct end *e = arg;

	(void)peer;
	memcpy(e->last, data, len);
	e->last_len = len;
	e->messages++;
	if (e->on_message)
		e->on_message(e);
}

static inline void end_notify(void *arg, struct pl_carrier_peer *peer,
			      uint64_t key, void *user)
{
	struct end *e = arg;

	(void)peer;
	(void)user;
	e->last_key = key;
	e->notifies++;
	if (e->on_notify)
		e->on_notify(e);
}

static inline void end_link(void *arg, struct pl_carrier_peer *peer,
			    const void *data, size_t len)
{
	struct end *e = arg;

	(void)peer;
	memcpy(e->last_link, data, PL_MIN(len, sizeof(e->last_link)));
	e->last_len = len;
	e->links++;
}

static inline struct pl_addr loopback(void)
{
	struct pl_addr a;

	assert_int_equal(pl_addr_parse("127.0.0.1", &a), 0);
	return a;
}

static inline int ends_make(enum pl_security kind, bool plain)
{
	ends.kind = kind;
	ends.plain = plain;
	pki_init(&ends.pki);
	leaf_write(&ends.pki, "node-a", "DNS:node-a", &ends.pki.ca, DAY_S);
	leaf_write(&ends.pki, "node-b", "DNS:node-b", &ends.pki.ca, DAY_S);
	leaf_write(&ends.pki, "node-c", "DNS:node-c", &ends.pki.ca, DAY_S);
	text_write(&ends.pki, "psk", KEY_1);
	return 0;
}

/* Group setups, and their teardown. */
static inline int ends_psk(void **state)
{
	(void)state;
	return ends_make(PL_SECURITY_PSK, false);
}

static inline int ends_tls(void **state)
{
	(void)state;
	return ends_make(PL_SECURITY_TLS, false);
}

static inline int ends_auth(void **state)
{
	(void)state;
	return ends_make(PL_SECURITY_TLS, true);
}

static inline int ends_fini(void **state)
{
	(void)state;
	pki_fini(&ends.pki);
	ends.kind = PL_SECURITY_NONE;
	return 0;
}

static inline struct pl_carrier_security end_security(struct end *e,
						      const char *node)
{
	struct pl_carrier_security s = { .kind = ends.kind };

	if (s.kind == PL_SECURITY_PSK)
		s = psk_of(&ends.pki, &e->files, "psk");
	else if (s.kind == PL_SECURITY_TLS)
		s = tls_of(&ends.pki, &e->files, "ca", node);
	s.plain = ends.plain;
	return s;
}

static inline struct pl_carrier_config end_config(struct end *e,
						  struct event_base *base,
						  const char *node,
						  uint16_t port)
{
	struct pl_carrier_config cfg = {
		.node = node,
		.listen_addr = loopback(),
		.port = port,
		.security = end_security(e, node),
		.verbs = ends.verbs,
		.base = base,
		.cb = { .admit = end_admit, .up = end_up, .down = end_down,
			.message = end_message, .notify = end_notify,
			.link = e->deaf ? NULL : end_link },
		.arg = e,
	};

	return cfg;
}

static inline void end_create(struct end *e, struct event_base *base,
			      const char *node, uint16_t port)
{
	struct pl_carrier_config cfg = end_config(e, base, node, port);
	struct pl_err err = { 0 };

	if (pl_carrier_create(ends.ops ? ends.ops : &pl_carrier_tcp, &cfg,
			      &e->c, &err) < 0)
		fail_msg("%s", err.msg);
	assert_true(e->c->port != 0);
}

static inline void end_dial(struct end *e, const char *node,
			    const struct end *to)
{
	struct pl_addr a = loopback();

	assert_non_null(pl_carrier_peer_get(e->c, node, &a, to->c->port));
}

struct memory {
	int fd;
	uint8_t *map;
	size_t len;
	uint64_t id;			/* key or source */
};

static inline void memory_init(struct memory *m, size_t len)
{
	m->fd = memfd_create("test", MFD_CLOEXEC);
	assert_true(m->fd >= 0);
	assert_int_equal(ftruncate(m->fd, (off_t)len), 0);
	m->map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
	assert_true(m->map != MAP_FAILED);
	m->len = len;
}

static inline void memory_fini(struct memory *m)
{
	munmap(m->map, m->len);
	close(m->fd);
}

static inline void memory_fill(struct memory *m, uint64_t seed)
{
	uint64_t x = seed * 2654435761u + 1;

	for (size_t i = 0; i + 8 <= m->len; i += 8) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(m->map + i, &x, 8);
	}
}

#endif
