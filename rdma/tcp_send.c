/*
 * rdma/tcp_send.c - queues of puts and messages, frames, sendmsg
 *
 * A key's queue holds what was asked for and is not sent to the last byte. A
 * connection's active list holds the queues of which something is not cut into
 * frames yet; its first one has the turn. Frames that are cut form the batch,
 * which is sent as it is, whatever becomes of the queues meanwhile: a frame
 * whose put was dropped is still completed, from a copy.
 *
 * Large frames go by sendfile from the source's memory file: the kernel refers
 * to its pages and copies nothing on this node. What is read from them for a
 * retransmission may thus be newer than the put; the peer has such bytes
 * already and drops them. With TLS all is copied by encrypting it, and sent
 * means encrypted.
 */
#include "rdma/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#include "common/util.h"

#define FREE_MAX 256	/* spare puts and queues that are kept, of each */

/* --- puts and queues ----------------------------------------------------- */

static struct pl_tcp_op *op_new(struct pl_tcp_carrier *t)
{
	struct pl_tcp_op *op = t->free_ops;

	if (!op)
		return malloc(sizeof(*op));
	LL_DELETE(t->free_ops, op);
	t->n_free_ops--;
	return op;
}

static void op_free(struct pl_tcp_carrier *t, struct pl_tcp_op *op)
{
	free(op->text);
	if (t->n_free_ops == FREE_MAX) {
		free(op);
		return;
	}
	LL_PREPEND(t->free_ops, op);
	t->n_free_ops++;
}

static void queue_free(struct pl_tcp_carrier *t, struct pl_tcp_queue *q)
{
	if (t->n_free_queues == FREE_MAX) {
		free(q);
		return;
	}
	LL_PREPEND(t->free_queues, q);
	t->n_free_queues++;
}

static struct pl_tcp_queue *queue_new(struct pl_tcp_peer *p, uint64_t key)
{
	struct pl_tcp_carrier *t = p->t;
	struct pl_tcp_queue *q = t->free_queues;

	if (q) {
		LL_DELETE(t->free_queues, q);
		t->n_free_queues--;
	} else {
		q = malloc(sizeof(*q));
		if (!q)
			return NULL;
	}
	memset(q, 0, sizeof(*q));
	q->peer = p;
	q->key = key;
	HASH_ADD(hh, p->queues, key, sizeof(q->key), q);
	if (!q->hh.tbl) {
		queue_free(t, q);
		return NULL;
	}
	return q;
}

static struct pl_tcp_queue *queue_of(struct pl_tcp_peer *p, uint64_t key)
{
	struct pl_tcp_queue *q;

	HASH_FIND(hh, p->queues, &key, sizeof(key), q);
	return q ? q : queue_new(p, key);
}

static struct pl_tcp_conn *queue_conn(const struct pl_tcp_queue *q)
{
	struct pl_tcp_peer *p = q->peer;

	return p->count ? p->conn[q->key % p->count] : NULL;
}

/* The last of an idle queue's puts has gone. */
static void queue_put(struct pl_tcp_queue *q)
{
	if (q->ops)
		return;
	HASH_DEL(q->peer->queues, q);
	queue_free(q->peer->t, q);
}

static void queue_append(struct pl_tcp_queue *q, struct pl_tcp_op *op)
{
	struct pl_tcp_conn *c = queue_conn(q);

	op->q = q;
	DL_APPEND(q->ops, op);
	q->n_ops++;
	q->bytes += op->len;
	q->peer->queued += op->len;
	if (!q->uncut) {
		q->uncut = op;
		q->turn = 0;
		DL_APPEND(c->active, q);
	}
	event_active(c->ev_flush, EV_TIMEOUT, 0);
}

/* Takes a put out of its queue and says what became of it. May call back. */
static void op_end(struct pl_tcp_op *op, int status)
{
	struct pl_tcp_queue *q = op->q;
	struct pl_tcp_peer *p = q->peer;
	pl_put_done done = op->done;
	void *user = op->user;

	if (q->uncut == op) {
		q->uncut = op->next;
		if (!q->uncut && queue_conn(q))
			DL_DELETE(queue_conn(q)->active, q);
	}
	DL_DELETE(q->ops, op);
	q->n_ops--;
	if (op->type != PL_TCP_PUT)
		p->n_messages--;
	op_free(p->t, op);
	queue_put(q);
	if (done)
		done(user, status);
}

/* Bytes of an op that are sent, or never will be. */
static void op_bytes_gone(struct pl_tcp_op *op, size_t n)
{
	op->q->bytes -= n;
	op->q->peer->queued -= n;
}

/* --- asking for something ------------------------------------------------ */

/* The source, if local to local + len lies within it. */
static struct pl_tcp_source *source_of(struct pl_tcp_peer *p, uint64_t id,
				       const uint8_t *local, size_t len)
{
	struct pl_tcp_source *s;

	HASH_FIND(hh, p->sources, &id, sizeof(id), s);
	if (!s || local < s->map || len > s->len ||
	    (size_t)(local - s->map) > s->len - len)
		return NULL;
	return s;
}

int pl_tcp_put(struct pl_carrier_peer *base, uint64_t source, uint64_t key,
	       uint64_t offset, const void *local, size_t len,
	       unsigned int flags, pl_put_done done, void *user)
{
	struct pl_tcp_peer *p = pl_tcp_peer_of(base);
	bool small = len <= PL_PUT_WORDS_MAX;
	struct pl_tcp_source *s = NULL;
	struct pl_tcp_queue *q;
	struct pl_tcp_op *op;

	if (!base->is_up)
		return -ENOTCONN;
	if (!small)
		s = source_of(p, source, local, len);
	if (len == 0 || !key || (flags & ~PL_PUT_NOTIFY) || (!small && !s))
		return -EINVAL;
	q = queue_of(p, key);
	if (!q)
		return -ENOMEM;
	if (q->n_ops && (q->n_ops >= PL_TCP_KEY_OPS_MAX ||
			 q->bytes + len > PL_TCP_KEY_BYTES_MAX))
		return -ENOBUFS;
	op = op_new(p->t);
	if (!op) {
		queue_put(q);
		return -ENOMEM;
	}
	op->type = PL_TCP_PUT;
	op->flags = (uint8_t)flags;
	op->len = len;
	op->cut = 0;
	op->offset = offset;
	op->source = source;
	op->file = s && s->fd >= 0 ? s : NULL;
	op->done = done;
	op->user = user;
	op->text = NULL;
	op->data = local;
	if (small) {
		memcpy(op->words, local, len);
		op->data = (const uint8_t *)op->words;
	}
	queue_append(q, op);
	p->stats.puts++;
	p->stats.put_bytes += len;
	return 0;
}

static int text_append(struct pl_tcp_peer *p, enum pl_tcp_type type,
		       const void *data, size_t len, uint64_t after)
{
	struct pl_tcp_queue *q;
	struct pl_tcp_op *op;
	uint8_t *text;

	if (!p->base.is_up)
		return -ENOTCONN;
	if (p->n_messages >= PL_TCP_MESSAGES_MAX)
		return -ENOBUFS;
	text = malloc(len);
	q = text ? queue_of(p, after) : NULL;
	op = q ? op_new(p->t) : NULL;
	if (!op) {
		if (q)
			queue_put(q);
		free(text);
		return -ENOMEM;
	}
	memcpy(text, data, len);
	*op = (struct pl_tcp_op){ .type = type,
				  .len = len,
				  .data = text,
				  .text = text };
	p->n_messages++;
	p->stats.messages++;
	queue_append(q, op);
	return 0;
}

int pl_tcp_message(struct pl_carrier_peer *base, const void *data, size_t len,
		   uint64_t after)
{
	if (len == 0 || len > PL_CARRIER_MSG_MAX)
		return -EMSGSIZE;
	return text_append(pl_tcp_peer_of(base), PL_TCP_MESSAGE, data, len,
			   after);
}

int pl_tcp_link(struct pl_carrier_peer *base, const void *data, size_t len)
{
	if (len == 0 || len > PL_TCP_LINK_MAX)
		return -EMSGSIZE;
	return text_append(pl_tcp_peer_of(base), PL_TCP_LINK, data, len, 0);
}

void pl_tcp_send_drop(struct pl_tcp_peer *p, int status)
{
	/* A callback may drop the rest itself by forgetting the peer. */
	while (p->queues) {
		struct pl_tcp_op *op = p->queues->ops;

		op_bytes_gone(op, p->queues->bytes);
		p->queues->bytes = 0;
		op_end(op, status);
	}
}

/* --- sources ------------------------------------------------------------- */

int pl_tcp_source(struct pl_carrier_peer *base, int fd, const void *map,
		  size_t len, uint64_t *source)
{
	struct pl_tcp_peer *p = pl_tcp_peer_of(base);
	struct pl_tcp_source *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->id = ++p->last_source;
	s->fd = fd;
	s->map = map;
	s->len = len;
	HASH_ADD(hh, p->sources, id, sizeof(s->id), s);
	if (!s->hh.tbl) {
		free(s);
		return -ENOMEM;
	}
	*source = s->id;
	return 0;
}

/* Frames of this source stay what they are: from a copy. 0 or -ENOMEM. */
static int batch_keep(struct pl_tcp_batch *b, uint64_t source)
{
	for (unsigned int i = b->first; i < b->n; i++) {
		struct pl_tcp_out *o = &b->f[i];

		if (!o->op || o->op->source != source)
			continue;
		o->copy = malloc(o->h.len);
		if (!o->copy)
			return -ENOMEM;
		memcpy(o->copy, o->data, o->h.len);
		o->data = o->copy;
		o->file = NULL;
		op_bytes_gone(o->op, o->h.len);
		o->op = NULL;
	}
	return 0;
}

static struct pl_tcp_op *op_of_source(struct pl_tcp_peer *p, uint64_t source)
{
	struct pl_tcp_queue *q, *tmp;
	struct pl_tcp_op *op;

	HASH_ITER(hh, p->queues, q, tmp) {
		DL_FOREACH(q->ops, op) {
			if (op->source == source)
				return op;
		}
	}
	return NULL;
}

void pl_tcp_source_end(struct pl_carrier_peer *base, uint64_t source)
{
	struct pl_tcp_peer *p = pl_tcp_peer_of(base);
	struct pl_tcp_source *s;
	struct pl_tcp_op *op;
	int rc = 0;

	HASH_FIND(hh, p->sources, &source, sizeof(source), s);
	if (!s)
		return;
	HASH_DEL(p->sources, s);
	for (int i = 0; i < PL_CARRIER_CONNECTIONS_MAX && rc == 0; i++) {
		if (p->conn[i])
			rc = batch_keep(&p->conn[i]->out, source);
	}
	if (rc < 0)
		pl_tcp_set_end(p, rc);
	while ((op = op_of_source(p, source))) {
		op_bytes_gone(op, op->len - op->cut);
		op_end(op, -ECANCELED);
	}
	free(s);
}

/* --- frames -------------------------------------------------------------- */

/* The next frame of the queue whose turn it is. */
static void batch_cut(struct pl_tcp_conn *c)
{
	struct pl_tcp_queue *q = c->active;
	struct pl_tcp_op *op = q->uncut;
	struct pl_tcp_out *o = &c->out.f[c->out.n++];
	size_t n = PL_MIN(op->len - op->cut, (size_t)PL_TCP_FRAME_MAX);

	o->op = op;
	o->copy = NULL;
	o->data = op->data + op->cut;
	o->file = n >= PL_TCP_FILE_BYTES && !c->tls ? op->file : NULL;
	o->last = op->cut + n == op->len;
	o->h = (struct pl_tcp_frame){ .magic = PL_TCP_FRAME_MAGIC,
				      .type = (uint8_t)op->type,
				      .len = (uint32_t)n };
	if (op->type == PL_TCP_PUT) {
		o->h.flags = o->last ? op->flags : 0;
		o->h.key = q->key;
		o->h.offset = op->offset + op->cut;
	}
	op->cut += n;
	c->out.bytes += sizeof(o->h) + n;
	q->turn += sizeof(o->h) + n;
	if (o->last)
		q->uncut = op->next;
	if (!q->uncut) {
		DL_DELETE(c->active, q);
	} else if (q->turn >= PL_TCP_QUANTUM) {
		q->turn = 0;
		DL_DELETE(c->active, q);
		DL_APPEND(c->active, q);
	}
}

static void batch_fill(struct pl_tcp_conn *c)
{
	struct pl_tcp_batch *b = &c->out;

	b->first = b->n = 0;
	b->bytes = b->sent = 0;
	while (c->active && b->n < PL_TCP_BATCH_FRAMES &&
	       b->bytes < PL_TCP_BATCH_BYTES)
		batch_cut(c);
}

/* Up to the body of the first frame by sendfile, if there is one: *more. */
static unsigned int batch_iov(const struct pl_tcp_batch *b, struct iovec *iov,
			      bool *more)
{
	size_t skip = b->sent;
	unsigned int n = 0;

	*more = false;
	for (unsigned int i = b->first; i < b->n; i++) {
		const struct pl_tcp_out *o = &b->f[i];

		if (skip < sizeof(o->h)) {
			iov[n].iov_base = (uint8_t *)(uintptr_t)&o->h + skip;
			iov[n++].iov_len = sizeof(o->h) - skip;
			skip = 0;
		} else {
			skip -= sizeof(o->h);
		}
		*more = o->file;
		if (*more)
			break;
		iov[n].iov_base = (uint8_t *)(uintptr_t)o->data + skip;
		iov[n++].iov_len = o->h.len - skip;
		skip = 0;
	}
	return n;
}

/* n more bytes are with the kernel. May call back and close c. */
static void batch_sent(struct pl_tcp_conn *c, size_t n)
{
	struct pl_tcp_batch *b = &c->out;

	b->sent += n;
	while (c->phase == PL_TCP_UP && b->first < b->n) {
		struct pl_tcp_out *o = &b->f[b->first];
		size_t whole = sizeof(o->h) + o->h.len;

		if (b->sent < whole)
			return;
		b->sent -= whole;
		b->first++;
		free(o->copy);
		o->copy = NULL;
		if (!o->op)
			continue;
		op_bytes_gone(o->op, o->h.len);
		if (o->last)
			op_end(o->op, 0);
	}
}

/* The rest of the first frame, whose header is sent. */
static ssize_t send_file(struct pl_tcp_conn *c)
{
	struct pl_tcp_out *o = &c->out.f[c->out.first];
	size_t at = c->out.sent - sizeof(o->h);
	off_t pos = o->data - o->file->map + (off_t)at;
	ssize_t n = sendfile(c->fd, o->file->fd, &pos, o->h.len - at);

	if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR ||
				errno == EPIPE || errno == ECONNRESET)))
		return n;
	/* No file for it (or it is shorter): copy, here and from now on. */
	o->file->fd = -1;
	o->file = NULL;
	errno = EINTR;
	return -1;
}

static ssize_t send_some(struct pl_tcp_conn *c)
{
	const struct pl_tcp_out *o = &c->out.f[c->out.first];
	struct iovec iov[2 * PL_TCP_BATCH_FRAMES];
	struct msghdr msg = { .msg_iov = iov };
	bool more;

	if (c->tls)
		return pl_tcp_stream_write(c, iov,
					   batch_iov(&c->out, iov, &more));
	c->peer->stats.syscalls++;
	if (o->file && o->file->fd < 0)
		c->out.f[c->out.first].file = NULL;
	if (o->file && c->out.sent >= sizeof(o->h))
		return send_file(c);
	msg.msg_iovlen = batch_iov(&c->out, iov, &more);
	return sendmsg(c->fd, &msg, MSG_NOSIGNAL | (more ? MSG_MORE : 0));
}

void pl_tcp_send(struct pl_tcp_conn *c)
{
	struct pl_tcp_peer *p = c->peer;
	size_t taken = 0;

	while (c->phase == PL_TCP_UP) {
		ssize_t n;

		if (c->out.first == c->out.n)
			batch_fill(c);
		if (c->out.first == c->out.n &&
		    !(c->tls && pl_tls_unsent(c->tls)))
			return;
		n = send_some(c);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN) {
			pl_tcp_set_end(p, -errno);
			return;
		}
		if (n > 0) {
			batch_sent(c, (size_t)n);
			taken += (size_t)n;
		}
		if (c->phase != PL_TCP_UP)
			return;
		/* Full, or others' turn: go on when it is writable. */
		if (n < 0 || taken >= PL_TCP_TURN_BYTES) {
			event_add(c->ev_write, NULL);
			return;
		}
	}
}

void pl_tcp_send_free(struct pl_tcp_carrier *t)
{
	struct pl_tcp_queue *q, *qtmp;
	struct pl_tcp_op *op, *otmp;

	LL_FOREACH_SAFE(t->free_ops, op, otmp)
		free(op);
	LL_FOREACH_SAFE(t->free_queues, q, qtmp)
		free(q);
}
