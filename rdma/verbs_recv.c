/*
 * rdma/verbs_recv.c - memory that the peer may write, SENDs that arrive
 *
 * WRITEs arrive without our doing. What we see is a SEND: words that have to be
 * stored, a barrier that a message waits for, or room that the peer has.
 */
#include "rdma/verbs.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"
#include "rdma/tcp.h"

#define KEY_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

/* --- keys ---------------------------------------------------------------- */

static struct pl_verbs_key *key_find(struct pl_verbs_peer *p, uint64_t key)
{
	struct pl_verbs_key *k;

	HASH_FIND(hh, p->keys, &key, sizeof(key), k);
	return k;
}

static void key_unregister(struct pl_verbs_key *k)
{
	while (k->mr) {
		struct pl_verbs_mr *older = k->mr->older;

		pl_verbs_mr_put(k->mr);
		k->mr = older;
	}
}

static void key_free(struct pl_verbs_peer *p, struct pl_verbs_key *k)
{
	HASH_DEL(p->keys, k);
	key_unregister(k);
	free(k);
}

/* Registered; otherwise tcp does it, and why has been said. */
static bool key_register(struct pl_verbs_peer *p, struct pl_verbs_key *k)
{
	int why;

	if (k->mr || k->refused || !k->map)
		return k->mr && k->map;
	k->mr = pl_verbs_mr_new(p, k->map, k->len, KEY_ACCESS, &why);
	k->refused = !k->mr;
	if (k->refused)
		pl_warn("carrier: node=%s: tcp moves what it sends into %zu "
			"bytes here, as they can't be registered: %s",
			p->base.node, k->len, strerror(-why));
	return k->mr;
}

static struct pl_verbs_key_entry entry_of(const struct pl_verbs_key *k)
{
	return (struct pl_verbs_key_entry){ .key = k->key,
					    .addr = (uintptr_t)k->map,
					    .len = k->len,
					    .rkey = k->mr->mr->rkey };
}

static int keys_flush(struct pl_verbs_peer *p, struct pl_verbs_keys *m,
		      size_t n)
{
	size_t len = sizeof(m->h) + n * sizeof(m->e[0]);

	if (n == 0)
		return 0;
	m->h = pl_verbs_head(PL_VERBS_KEYS, len);
	return pl_tcp_link(p->tcp, m, len);
}

int pl_verbs_keys_send(struct pl_verbs_peer *p)
{
	struct pl_verbs_key *k, *tmp;
	struct pl_verbs_keys m;
	size_t n = 0;
	int rc = 0;

	HASH_ITER(hh, p->keys, k, tmp) {
		if (rc < 0 || !key_register(p, k))
			continue;
		m.e[n++] = entry_of(k);
		if (n < PL_VERBS_KEYS_MAX)
			continue;
		rc = keys_flush(p, &m, n);
		n = 0;
	}
	return rc < 0 ? rc : keys_flush(p, &m, n);
}

int pl_verbs_expose(struct pl_carrier_peer *base, int fd, void *map,
		    size_t len, void *user, uint64_t *key)
{
	struct pl_verbs_peer *p = pl_verbs_peer_of(base);
	struct pl_verbs_key *k = calloc(1, sizeof(*k));
	struct pl_verbs_keys m;
	int rc = k ? pl_carrier_expose(p->tcp, fd, map, len, user, &k->key) :
		     -ENOMEM;

	if (rc < 0) {
		free(k);
		return rc;
	}
	k->map = map;
	k->len = len;
	k->user = user;
	HASH_ADD(hh, p->keys, key, sizeof(k->key), k);
	if (!k->hh.tbl) {
		pl_carrier_revoke(p->tcp, k->key);
		free(k);
		return -ENOMEM;
	}
	*key = k->key;
	/* It goes before whatever tells the key to the other node's agent. */
	if (p->state >= PL_VERBS_HALF && key_register(p, k)) {
		m.e[0] = entry_of(k);
		if (keys_flush(p, &m, 1) < 0)
			pl_debug("carrier: node=%s: no room for a key, tcp "
				 "does it", p->base.node);
	}
	return 0;
}

/* The peer has WRITEs under way with what it knew of the key: that stays. */
static int key_extend(struct pl_verbs_peer *p, struct pl_verbs_key *k,
		      size_t len)
{
	struct pl_verbs_keys m;
	struct pl_verbs_mr *mr;
	int rc;

	mr = pl_verbs_mr_new(p, k->map, len, KEY_ACCESS, &rc);
	if (!mr)
		return rc;
	m.e[0] = (struct pl_verbs_key_entry){ .key = k->key,
					      .addr = (uintptr_t)k->map,
					      .len = len,
					      .rkey = mr->mr->rkey };
	rc = keys_flush(p, &m, 1);
	if (rc < 0) {
		pl_verbs_mr_put(mr);
		return rc;
	}
	mr->older = k->mr;
	k->mr = mr;
	return 0;
}

int pl_verbs_extend(struct pl_carrier_peer *base, uint64_t key, int fd,
		    size_t len)
{
	struct pl_verbs_peer *p = pl_verbs_peer_of(base);
	struct pl_verbs_key *k = key_find(p, key);
	int rc = 0;

	if (!k || !k->map || len < k->len)
		return -EINVAL;
	if (k->mr && p->state >= PL_VERBS_HALF)
		rc = key_extend(p, k, len);
	if (rc == 0)
		rc = pl_carrier_extend(p->tcp, key, fd, len);
	if (rc == 0)
		k->len = len;
	return rc;
}

void pl_verbs_revoke(struct pl_carrier_peer *base, uint64_t key)
{
	struct pl_verbs_peer *p = pl_verbs_peer_of(base);
	struct pl_verbs_key *k = key_find(p, key);
	struct pl_verbs_revoke m = {
		.h = pl_verbs_head(PL_VERBS_REVOKE, sizeof(m)),
		.key = key,
	};

	if (!k || !k->map)
		return;
	pl_carrier_revoke(p->tcp, key);
	k->map = NULL;
	if (p->state >= PL_VERBS_HALF)
		(void)pl_tcp_link(p->tcp, &m, sizeof(m));
	if (!k->mr || p->state < PL_VERBS_HALF) {
		key_free(p, k);
		return;
	}
	k->until_ns = pl_now_ns() + PL_VERBS_REVOKE_MS * UINT64_C(1000000);
	DL_APPEND(p->dying, k);
	if (!event_pending(p->ev_revoke, EV_TIMEOUT, NULL))
		pl_verbs_timer(p->ev_revoke, PL_VERBS_REVOKE_MS);
}

static void bury(struct pl_verbs_peer *p, struct pl_verbs_key *k)
{
	DL_DELETE(p->dying, k);
	key_free(p, k);
}

void pl_verbs_on_revoked(struct pl_verbs_peer *p, uint64_t key)
{
	struct pl_verbs_key *k = key_find(p, key);

	if (k && !k->map)
		bury(p, k);
}

void pl_verbs_revoke_cb(evutil_socket_t fd, short what, void *arg)
{
	struct pl_verbs_peer *p = arg;
	uint64_t now = pl_now_ns();

	(void)fd;
	(void)what;
	/* Whoever still puts there breaks his queue pairs. */
	while (p->dying && p->dying->until_ns <= now)
		bury(p, p->dying);
	if (p->dying)
		pl_verbs_timer(p->ev_revoke, (unsigned int)
			       ((p->dying->until_ns - now) / 1000000 + 1));
}

void pl_verbs_keys_bury(struct pl_verbs_peer *p)
{
	while (p->dying)
		bury(p, p->dying);
}

void pl_verbs_keys_unregister(struct pl_verbs_peer *p)
{
	struct pl_verbs_key *k, *tmp;

	HASH_ITER(hh, p->keys, k, tmp) {
		key_unregister(k);
		k->refused = false;
	}
}

void pl_verbs_recv_free(struct pl_verbs_peer *p)
{
	struct pl_verbs_key *k, *tmp;

	pl_verbs_keys_bury(p);
	HASH_ITER(hh, p->keys, k, tmp)
		key_free(p, k);
}

/* --- messages that wait -------------------------------------------------- */

static void held_free(struct pl_verbs_peer *p, struct pl_verbs_held *h)
{
	DL_DELETE(p->held, h);
	p->n_held--;
	free(h);
}

void pl_verbs_held_drop(struct pl_verbs_peer *p)
{
	while (p->held)
		held_free(p, p->held);
}

/* A number that may have gone round. */
static bool is_there(const struct pl_verbs_peer *p, uint32_t qp, uint32_t no)
{
	return (int32_t)(p->link->qp[qp].barrier_seen - no) >= 0;
}

static void message(struct pl_verbs_peer *p, const void *data, size_t len)
{
	if (p->c->cb.message)
		p->c->cb.message(p->c->arg, &p->base, data, len);
}

const char *pl_verbs_on_after(struct pl_verbs_peer *p, const void *msg,
			      size_t len)
{
	const struct pl_verbs_after *m = msg;
	struct pl_verbs_held *h;

	if (len <= sizeof(*m) || len - sizeof(*m) > PL_CARRIER_MSG_MAX)
		return "a message of a wrong form";
	if (!p->in_use || m->qp >= p->link->count)
		return "a message that waits for nothing";
	len -= sizeof(*m);
	if (is_there(p, m->qp, m->barrier)) {
		message(p, m + 1, len);
		return NULL;
	}
	if (p->n_held == PL_VERBS_HELD_MAX)
		return "more messages than may wait";
	h = malloc(sizeof(*h) + len);
	if (!h)
		return "a message for which there is no memory";
	h->qp = m->qp;
	h->barrier = m->barrier;
	h->len = len;
	memcpy(h->data, m + 1, len);
	DL_APPEND(p->held, h);
	p->n_held++;
	return NULL;
}

/* Each callback may end the link, and with it all that is held. */
static void barrier(struct pl_verbs_qp *q, uint32_t no)
{
	struct pl_verbs_link *l = q->link;
	struct pl_verbs_peer *p = l->peer;
	struct pl_verbs_held *h;

	q->barrier_seen = no;
	while (p->link == l) {
		DL_FOREACH(p->held, h) {
			if (h->qp == q->index && is_there(p, h->qp, h->barrier))
				break;
		}
		if (!h)
			return;
		DL_DELETE(p->held, h);
		p->n_held--;
		message(p, h->data, h->len);
		free(h);
	}
}

/* --- SENDs --------------------------------------------------------------- */

/* Pairs with the acquire loads of whoever reads the exposed memory. */
static void words_store(uint8_t *to, const uint64_t *words, size_t len)
{
	for (size_t i = 0; i < len / 8; i++)
		atomic_store_explicit((_Atomic uint64_t *)(void *)(to + 8 * i),
				      words[i], memory_order_release);
}

static const char *words(struct pl_verbs_peer *p,
			 const struct pl_verbs_send *m)
{
	struct pl_verbs_key *k = key_find(p, m->key);

	p->stats.received_puts++;
	p->stats.received_bytes += m->len;
	/* Revoked a moment ago: thrown away. */
	if (!k || !k->map)
		return NULL;
	if (m->len > k->len || m->offset > k->len - m->len)
		return "a put out of bounds";
	words_store(k->map + m->offset, m->words, m->len);
	if ((m->flags & PL_PUT_NOTIFY) && p->c->cb.notify)
		p->c->cb.notify(p->c->arg, &p->base, k->key, k->user);
	return NULL;
}

static bool form_ok(const struct pl_verbs_send *m, size_t len)
{
	return len >= PL_VERBS_SEND_HDR && m->magic == PL_VERBS_MAGIC &&
	       len == PL_VERBS_SEND_HDR + m->len && m->len % 8 == 0 &&
	       m->offset % 8 == 0 && !(m->flags & ~PL_PUT_NOTIFY) &&
	       (m->type == PL_VERBS_WORDS || m->len == 0);
}

const char *pl_verbs_arrived(struct pl_verbs_qp *q,
			     const struct pl_verbs_send *m, size_t len)
{
	struct pl_verbs_peer *p = q->link->peer;

	if (!form_ok(m, len))
		return "a SEND of a wrong form";
	/* No more than we have sent, no less than it said before. */
	if (m->got - q->peer_got > q->sent - q->peer_got)
		return "a SEND that counts wrong";
	q->peer_got = m->got;
	p->stats.received_bytes += m->wrote;
	if (m->type == PL_VERBS_GRANT)
		return NULL;
	q->got++;
	if (m->type == PL_VERBS_BARRIER) {
		barrier(q, (uint32_t)m->key);
		return NULL;
	}
	if (m->type != PL_VERBS_WORDS)
		return "a SEND of no kind";
	return words(p, m);
}
