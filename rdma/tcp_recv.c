/*
 * rdma/tcp_recv.c - frames that arrive, and the memory that they may touch
 *
 * One receive fills two places: the rest of the present frame's body where it
 * belongs, then the staging buffer. What is staged is then taken apart: a
 * header, its body as far as it is there, the next header ... A put's bytes go
 * to the exposed memory itself, small ones (words) to a buffer first, from
 * which they are stored word by word with release order: whoever reads a
 * counter of such a put with an acquire load sees all puts before it.
 */
#include "rdma/tcp.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/log.h"
#include "common/util.h"

/* --- keys ---------------------------------------------------------------- */

int pl_tcp_expose(struct pl_carrier_peer *base, int fd, void *map, size_t len,
		  void *user, uint64_t *key)
{
	struct pl_tcp_peer *p = pl_tcp_peer_of(base);
	struct pl_tcp_key *k = calloc(1, sizeof(*k)), *other;

	(void)fd;
	if (!k)
		return -ENOMEM;
	do {
		k->key = pl_tcp_random() & ~7ull;
		k->key |= p->next_conn++ & 7;
		HASH_FIND(hh, p->keys, &k->key, sizeof(k->key), other);
	} while (other || !k->key);
	k->map = map;
	k->len = len;
	k->user = user;
	HASH_ADD(hh, p->keys, key, sizeof(k->key), k);
	if (!k->hh.tbl) {
		free(k);
		return -ENOMEM;
	}
	*key = k->key;
	return 0;
}

int pl_tcp_extend(struct pl_carrier_peer *base, uint64_t key, int fd,
		  size_t len)
{
	struct pl_tcp_peer *p = pl_tcp_peer_of(base);
	struct pl_tcp_key *k;

	(void)fd;
	HASH_FIND(hh, p->keys, &key, sizeof(key), k);
	if (!k || !k->map || len < k->len)
		return -EINVAL;
	k->len = len;
	return 0;
}

void pl_tcp_revoke(struct pl_carrier_peer *base, uint64_t key)
{
	struct pl_tcp_peer *p = pl_tcp_peer_of(base);
	struct pl_tcp_key *k;

	HASH_FIND(hh, p->keys, &key, sizeof(key), k);
	if (!k || !k->map)
		return;
	for (unsigned int i = 0; i < PL_CARRIER_CONNECTIONS_MAX; i++) {
		struct pl_tcp_conn *c = p->conn[i];

		if (c && c->in.key == k) {
			c->in.key = NULL;
			c->in.to = NULL;
		}
	}
	k->map = NULL;
	DL_APPEND(p->revoked, k);
	if (++p->n_revoked <= PL_TCP_REVOKED_MAX)
		return;
	k = p->revoked;
	DL_DELETE(p->revoked, k);
	p->n_revoked--;
	HASH_DEL(p->keys, k);
	free(k);
}

void pl_tcp_recv_free(struct pl_tcp_peer *p)
{
	struct pl_tcp_key *k, *tmp;

	HASH_ITER(hh, p->keys, k, tmp) {
		HASH_DEL(p->keys, k);
		free(k);
	}
	p->revoked = NULL;
}

/* --- frames -------------------------------------------------------------- */

static bool is_words(const struct pl_tcp_frame *h)
{
	return h->len <= PL_PUT_WORDS_MAX && h->len % 8 == 0 &&
	       h->offset % 8 == 0;
}

/* NULL, or what is wrong with the header. */
static const char *put_begin(struct pl_tcp_conn *c)
{
	const struct pl_tcp_frame *h = &c->in.h;
	struct pl_tcp_key *k;

	if (h->len > PL_TCP_FRAME_MAX || (h->flags & ~PL_PUT_NOTIFY))
		return "a put of a wrong form";
	HASH_FIND(hh, c->peer->keys, &h->key, sizeof(h->key), k);
	if (!k)
		return "a put with an unknown key";
	if (!k->map)
		return NULL;
	if (h->len > k->len || h->offset > k->len - h->len)
		return "a put out of bounds";
	c->in.key = k;
	c->in.to = is_words(h) ? (uint8_t *)c->in.small : k->map + h->offset;
	return NULL;
}

static const char *frame_begin(struct pl_tcp_conn *c)
{
	const struct pl_tcp_frame *h = &c->in.h;

	c->in.body = true;
	c->in.got = 0;
	c->in.key = NULL;
	c->in.to = NULL;
	if (h->magic != PL_TCP_FRAME_MAGIC || h->len == 0)
		return "no frame where one must be";
	if (h->type == PL_TCP_PUT)
		return put_begin(c);
	if ((h->type != PL_TCP_MESSAGE && h->type != PL_TCP_LINK) || h->flags ||
	    h->key || h->offset ||
	    h->len > (h->type == PL_TCP_LINK ? PL_TCP_LINK_MAX :
					       PL_CARRIER_MSG_MAX))
		return "a frame of a wrong form";
	c->in.to = (uint8_t *)c->in.small;
	return NULL;
}

/* Pairs with the acquire loads of whoever reads the exposed memory. */
static void words_store(const struct pl_tcp_in *in)
{
	uint8_t *to = in->key->map + in->h.offset;

	for (size_t i = 0; i < in->h.len / 8; i++)
		atomic_store_explicit((_Atomic uint64_t *)(void *)(to + 8 * i),
				      in->small[i], memory_order_release);
}

/* May call back, and so may close the connection. */
static void frame_end(struct pl_tcp_conn *c)
{
	struct pl_tcp_peer *p = c->peer;
	struct pl_tcp_carrier *t = c->t;
	struct pl_tcp_in *in = &c->in;
	struct pl_tcp_key *k = in->key;

	in->body = false;
	in->key = NULL;
	if (in->h.type != PL_TCP_LINK)
		p->stats.received_bytes += in->h.len;
	if (in->h.type == PL_TCP_MESSAGE) {
		if (t->cb.message)
			t->cb.message(t->arg, &p->base, in->small, in->h.len);
		return;
	}
	if (in->h.type == PL_TCP_LINK) {
		if (t->cb.link)
			t->cb.link(t->arg, &p->base, in->small, in->h.len);
		else if (in->h.len > 1)
			/* Nobody listens; when it can't be said, he waits. */
			(void)pl_tcp_link(&p->base, "", 1);
		return;
	}
	p->stats.received_puts++;
	if (!k)
		return;
	if (in->to == (uint8_t *)in->small) {
		in->key = k;
		words_store(in);
		in->key = NULL;
	}
	if ((in->h.flags & PL_PUT_NOTIFY) && t->cb.notify)
		t->cb.notify(t->arg, &p->base, k->key, k->user);
}

/* What is staged, from `at` on, goes to the present frame's body. */
static size_t body_take(struct pl_tcp_in *in, size_t at)
{
	size_t n = PL_MIN(in->have - at, in->h.len - in->got);

	if (in->to)
		memcpy(in->to + in->got, in->stage + at, n);
	in->got += n;
	return n;
}

/* Returns 0, or -EPROTO; the connection may be closed afterwards. */
static int stage_parse(struct pl_tcp_conn *c)
{
	struct pl_tcp_in *in = &c->in;
	size_t at = 0;

	while (c->phase == PL_TCP_UP && in->have - at >= sizeof(in->h)) {
		const char *wrong;

		memcpy(&in->h, in->stage + at, sizeof(in->h));
		at += sizeof(in->h);
		wrong = frame_begin(c);
		if (wrong) {
			pl_error("carrier: node=%s sent %s; closing",
				 c->peer->base.node, wrong);
			return -EPROTO;
		}
		at += body_take(in, at);
		if (in->got < in->h.len)
			break;
		frame_end(c);
	}
	memmove(in->stage, in->stage + at, in->have - at);
	in->have -= at;
	return 0;
}

static unsigned int recv_places(struct pl_tcp_in *in, struct iovec iov[2])
{
	unsigned int n = 0;

	if (in->body) {
		size_t left = in->h.len - in->got;

		if (!in->to && left > sizeof(in->small)) {
			iov[0].iov_base = in->small;
			iov[0].iov_len = sizeof(in->small);
			return 1;
		}
		iov[n].iov_base = in->to ? in->to + in->got :
					   (uint8_t *)in->small;
		iov[n++].iov_len = left;
	}
	iov[n].iov_base = in->stage + in->have;
	iov[n++].iov_len = sizeof(in->stage) - in->have;
	return n;
}

/* n bytes came into the places of recv_places. */
static int recv_took(struct pl_tcp_conn *c, size_t n)
{
	struct pl_tcp_in *in = &c->in;

	if (in->body) {
		size_t body = PL_MIN(n, in->h.len - in->got);

		in->got += body;
		n -= body;
		if (in->got < in->h.len)
			return 0;
		frame_end(c);
		if (c->phase != PL_TCP_UP)
			return 0;
	}
	in->have += n;
	return stage_parse(c);
}

/*
 * Be woken when all of a large frame is there: a wake-up for each segment costs
 * more than its copy.
 */
static void set_lowat(struct pl_tcp_conn *c)
{
	struct pl_tcp_in *in = &c->in;
	size_t left = in->body ? in->h.len - in->got : 0;
	/* Records are longer than what is in them; one may be half there. */
	size_t held = c->tls ? pl_tls_held(c->tls) + PL_TCP_LOWAT_BYTES : 0;
	int want;

	left -= PL_MIN(left, held);
	want = left > PL_TCP_LOWAT_BYTES ? (int)left : 1;
	if (want == in->lowat)
		return;
	if (setsockopt(c->fd, SOL_SOCKET, SO_RCVLOWAT, &want,
		       sizeof(want)) == 0)
		in->lowat = want;
	c->peer->stats.syscalls++;
}

/* Returns when there is no more at the moment, or it is others' turn. */
static void recv_turn(struct pl_tcp_conn *c)
{
	struct pl_tcp_peer *p = c->peer;
	size_t taken = 0;

	while (c->phase == PL_TCP_UP) {
		/* What TLS holds, nobody would wake us for. */
		bool over = taken >= PL_TCP_TURN_BYTES;
		struct iovec iov[2];
		unsigned int places;
		size_t room = 0;
		ssize_t n;
		int rc;

		if (over && !c->tls)
			return;
		places = recv_places(&c->in, iov);
		for (unsigned int i = 0; i < places; i++)
			room += iov[i].iov_len;
		n = pl_tcp_stream_read(c, iov, places, over);
		if (n == -EAGAIN)
			return;
		if (n < 0) {
			pl_tcp_set_end(p, (int)n);
			return;
		}
		rc = recv_took(c, (size_t)n);
		if (rc < 0 && c->phase == PL_TCP_UP)
			pl_tcp_set_end(p, rc);
		taken += (size_t)n;
		/* Less than asked for: there is no more at the moment. */
		if ((size_t)n < room)
			return;
	}
}

void pl_tcp_recv(struct pl_tcp_conn *c)
{
	recv_turn(c);
	if (c->phase == PL_TCP_UP)
		set_lowat(c);
}
