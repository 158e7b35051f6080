/*
 * rdma/verbs_send.c - queues of puts, work requests, their completions
 *
 * Each key of the peer has a queue of what was asked for; it stays there until
 * its last work request is done. Queues of which something is not under way
 * are in their queue pair's active list and take turns of PL_VERBS_CHUNK bytes.
 * What a queue pair has under way is bounded in number and in bytes, so that a
 * key with megabytes delays the others by PL_VERBS_WINDOW_BYTES at most.
 *
 * Work requests of one turn of the event loop are handed over as a chain, and
 * only the last one of a chain is signalled: completions on a queue pair come
 * in order, so it speaks for all before it.
 */
#include "rdma/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"
#include "rdma/tcp.h"

#define BOUNCE_CHUNKS (PL_VERBS_WINDOW_BYTES / PL_VERBS_CHUNK)
#define AFTER_MAX 256
#define STUCK_MS 5

/* --- queues -------------------------------------------------------------- */

static struct pl_verbs_out *out_find(struct pl_verbs_peer *p, uint64_t key)
{
	struct pl_verbs_out *o;

	HASH_FIND(hh, p->outs, &key, sizeof(key), o);
	return o;
}

static struct pl_verbs_out *out_new(struct pl_verbs_peer *p, uint64_t key)
{
	struct pl_verbs_out *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->peer = p;
	o->key = key;
	HASH_ADD(hh, p->outs, key, sizeof(o->key), o);
	if (!o->hh.tbl) {
		free(o);
		return NULL;
	}
	return o;
}

static void out_free(struct pl_verbs_out *o)
{
	HASH_DEL(o->peer->outs, o);
	free(o);
}

/* Everything is over that the peer waits for. */
static void out_revoked(struct pl_verbs_out *o)
{
	struct pl_verbs_revoke m = {
		.h = pl_verbs_head(PL_VERBS_REVOKED, sizeof(m)),
		.key = o->key,
	};

	/* When there is no room for it, the peer's patience ends. */
	(void)pl_tcp_link(o->peer->tcp, &m, sizeof(m));
	out_free(o);
}

static void schedule(struct pl_verbs_peer *p)
{
	event_active(p->ev_flush, EV_TIMEOUT, 0);
}

static void out_append(struct pl_verbs_out *o, struct pl_verbs_op *op)
{
	struct pl_verbs_peer *p = o->peer;

	if (!o->qp)
		o->qp = &p->link->qp[p->next_qp++ % p->link->count];
	op->q = o;
	DL_APPEND(o->ops, op);
	o->n_ops++;
	o->bytes += op->len;
	p->queued += op->len;
	if (!o->uncut) {
		o->uncut = op;
		o->turn = 0;
		DL_APPEND(o->qp->active, o);
	}
	schedule(p);
}

static void bytes_gone(struct pl_verbs_out *o, size_t n)
{
	o->bytes -= n;
	o->peer->queued -= n;
}

/* No slot speaks for it any more. */
static void slots_forget(struct pl_verbs_qp *q, const struct pl_verbs_op *op)
{
	for (uint64_t i = q->completed; i < q->posted; i++) {
		if (q->slots[i % q->depth].op == op)
			q->slots[i % q->depth].op = NULL;
	}
}

/* Takes an op out of its queue and says what became of it. May call back. */
static void op_end(struct pl_verbs_op *op, int status)
{
	struct pl_verbs_out *o = op->q;
	pl_put_done done = op->done;
	void *user = op->user;

	bytes_gone(o, op->len - op->cut);
	if (o->uncut == op) {
		o->uncut = op->next;
		if (!o->uncut && o->qp)
			DL_DELETE(o->qp->active, o);
	}
	DL_DELETE(o->ops, op);
	o->n_ops--;
	if (op->type == PL_VERBS_OP_BARRIER)
		o->peer->n_after--;
	free(op->text);
	free(op);
	if (o->revoked && !o->ops)
		out_revoked(o);
	if (done)
		done(user, status);
}

void pl_verbs_send_detach(struct pl_verbs_peer *p)
{
	struct pl_verbs_out *o, *tmp;

	HASH_ITER(hh, p->outs, o, tmp)
		o->qp = NULL;
}

void pl_verbs_send_drop(struct pl_verbs_peer *p, int status)
{
	/* A callback may drop the rest itself by forgetting the peer. */
	while (p->outs) {
		struct pl_verbs_out *o = p->outs;

		o->revoked = false;
		if (o->ops)
			op_end(o->ops, status);
		else
			out_free(o);
	}
}

/* --- sources ------------------------------------------------------------- */

static struct pl_verbs_source *source_find(struct pl_verbs_peer *p,
					   uint64_t id)
{
	struct pl_verbs_source *s;

	HASH_FIND(hh, p->sources, &id, sizeof(id), s);
	return s;
}

int pl_verbs_source(struct pl_carrier_peer *base, int fd, const void *map,
		    size_t len, uint64_t *source)
{
	struct pl_verbs_peer *p = pl_verbs_peer_of(base);
	struct pl_verbs_source *s = calloc(1, sizeof(*s));
	int rc = s ? pl_carrier_source(p->tcp, fd, map, len, &s->id) :
		     -ENOMEM;

	if (rc < 0) {
		free(s);
		return rc;
	}
	s->map = map;
	s->len = len;
	HASH_ADD(hh, p->sources, id, sizeof(s->id), s);
	if (!s->hh.tbl) {
		pl_carrier_source_end(p->tcp, s->id);
		free(s);
		return -ENOMEM;
	}
	*source = s->id;
	return 0;
}

static struct pl_verbs_op *op_of_source(struct pl_verbs_peer *p,
					uint64_t source)
{
	struct pl_verbs_out *o, *tmp;
	struct pl_verbs_op *op;

	HASH_ITER(hh, p->outs, o, tmp) {
		DL_FOREACH(o->ops, op) {
			if (op->source == source)
				return op;
		}
	}
	return NULL;
}

void pl_verbs_source_end(struct pl_carrier_peer *base, uint64_t source)
{
	struct pl_verbs_peer *p = pl_verbs_peer_of(base);
	struct pl_verbs_source *s = source_find(p, source);
	struct pl_verbs_op *op;

	if (!s)
		return;
	HASH_DEL(p->sources, s);
	while ((op = op_of_source(p, source))) {
		if (op->q->qp)
			slots_forget(op->q->qp, op);
		op_end(op, -ECANCELED);
	}
	/* Work requests under way hold the registration, and its pages. */
	pl_verbs_mr_put(s->mr);
	free(s);
	pl_carrier_source_end(p->tcp, source);
}

void pl_verbs_send_unregister(struct pl_verbs_peer *p)
{
	struct pl_verbs_source *s, *tmp;

	HASH_ITER(hh, p->sources, s, tmp) {
		pl_verbs_mr_put(s->mr);
		s->mr = NULL;
		s->refused = false;
	}
}

/* Registers it, at its first use; else it is copied. */
static void source_register(struct pl_verbs_peer *p, struct pl_verbs_source *s)
{
	struct pl_verbs_carrier *c = p->c;
	int why;

	if (s->mr || s->refused)
		return;
	s->mr = pl_verbs_mr_new(p, s->map, s->len, 0, &why);
	if (s->mr)
		return;
	s->refused = true;
	if (!c->bounce_said)
		pl_info("carrier: memory of pods can't be registered with the "
			"RDMA device (%s%s); it is copied into memory that is",
			strerror(-why), why == -EFAULT ? ": this kernel "
			"refuses what is mapped read-only" : "");
	c->bounce_said = true;
}

/* --- asking for something ------------------------------------------------ */

static struct pl_verbs_op *op_new(enum pl_verbs_op_type type, size_t len)
{
	struct pl_verbs_op *op = malloc(sizeof(*op));

	if (!op)
		return NULL;
	memset(op, 0, offsetof(struct pl_verbs_op, words));
	op->type = type;
	op->len = len;
	return op;
}

static bool is_words(uint64_t offset, size_t len)
{
	return len <= PL_PUT_WORDS_MAX && len % 8 == 0 && offset % 8 == 0;
}

static int put_check(const struct pl_verbs_out *o, size_t len,
		     uint64_t offset, unsigned int flags)
{
	if (len == 0 || (flags & ~PL_PUT_NOTIFY) || len > o->len ||
	    offset > o->len - len)
		return -EINVAL;
	if (o->n_ops && (o->n_ops + 2 > PL_VERBS_KEY_OPS_MAX ||
			 o->bytes + len > PL_VERBS_KEY_BYTES_MAX))
		return -ENOBUFS;
	return 0;
}

/*
 * The queue of a key, or NULL: tcp does it. A key that began with tcp, as the
 * peer has not told how to write there, stays with it: its puts are in order.
 */
static struct pl_verbs_out *out_for(struct pl_verbs_peer *p, uint64_t key)
{
	struct pl_verbs_out *o = p->in_use ? out_find(p, key) : NULL;

	if (p->in_use && !o && key) {
		o = out_new(p, key);
		if (o)
			o->by_tcp = true;
	}
	return o && !o->by_tcp ? o : NULL;
}

/* What comes of one put: a WRITE, a SEND, or a WRITE and a SEND behind it. */
static int ops_append(struct pl_verbs_out *o, struct pl_verbs_op *op,
		      unsigned int flags, pl_put_done done, void *user)
{
	struct pl_verbs_op *last = op;

	if (op->type == PL_VERBS_OP_WRITE && (flags & PL_PUT_NOTIFY)) {
		last = op_new(PL_VERBS_OP_WORDS, 0);
		if (!last) {
			free(op);
			return -ENOMEM;
		}
		last->source = op->source;
	}
	last->flags = flags;
	last->done = done;
	last->user = user;
	out_append(o, op);
	if (last != op)
		out_append(o, last);
	return 0;
}

int pl_verbs_put(struct pl_carrier_peer *base, uint64_t source, uint64_t key,
		 uint64_t offset, const void *local, size_t len,
		 unsigned int flags, pl_put_done done, void *user)
{
	struct pl_verbs_peer *p = pl_verbs_peer_of(base);
	struct pl_verbs_out *o = out_for(p, key);
	struct pl_verbs_source *s = NULL;
	struct pl_verbs_op *op;
	int rc;

	if (!base->is_up)
		return -ENOTCONN;
	if (!o)
		return pl_carrier_put(p->tcp, source, key, offset, local, len,
				      flags, done, user);
	rc = put_check(o, len, offset, flags);
	if (rc < 0)
		return rc;
	/* Nobody wants it any more; it takes its place in the order. */
	if (o->revoked)
		len = flags = 0;
	if (len > PL_PUT_WORDS_MAX) {
		s = source_find(p, source);
		if (!s || (const uint8_t *)local < s->map || len > s->len ||
		    (size_t)((const uint8_t *)local - s->map) > s->len - len)
			return -EINVAL;
		source_register(p, s);
	}
	op = op_new(is_words(offset, len) ? PL_VERBS_OP_WORDS :
					    PL_VERBS_OP_WRITE, len);
	if (!op)
		return -ENOMEM;
	op->offset = offset;
	op->source = source;
	op->from = s;
	op->data = local;
	if (!s) {
		memcpy(op->words, local, len);
		op->data = (const uint8_t *)op->words;
	}
	rc = ops_append(o, op, flags, done, user);
	if (rc < 0)
		return rc;
	p->stats.puts++;
	p->stats.put_bytes += len;
	p->stats.rdma_bytes += len;
	return 0;
}

int pl_verbs_message(struct pl_carrier_peer *base, const void *data,
		     size_t len, uint64_t after)
{
	struct pl_verbs_peer *p = pl_verbs_peer_of(base);
	struct pl_verbs_out *o = out_for(p, after);
	struct pl_verbs_op *op;

	if (!base->is_up)
		return -ENOTCONN;
	if (!o)
		return pl_carrier_message(p->tcp, data, len, after);
	if (len == 0 || len > PL_CARRIER_MSG_MAX)
		return -EMSGSIZE;
	if (p->n_after == AFTER_MAX)
		return -ENOBUFS;
	op = op_new(PL_VERBS_OP_BARRIER, 0);
	if (op)
		op->text = malloc(sizeof(*op->text) + len);
	if (!op || !op->text) {
		free(op);
		return -ENOMEM;
	}
	op->text->h = pl_verbs_head(PL_VERBS_AFTER, sizeof(*op->text) + len);
	memcpy(op->text + 1, data, len);
	p->n_after++;
	out_append(o, op);
	return 0;
}

/* --- work requests ------------------------------------------------------- */

struct chain {
	struct ibv_send_wr wr[PL_VERBS_BATCH];
	struct ibv_sge sge[PL_VERBS_BATCH];
	unsigned int n;
};

static bool has_slot(const struct pl_verbs_qp *q, unsigned int spare)
{
	return q->posted - q->completed + spare < q->depth;
}

static bool has_credit(const struct pl_verbs_qp *q)
{
	return q->sent - q->peer_got < PL_VERBS_CREDITS;
}

/* The next of the chain, with its slot. */
static struct pl_verbs_slot *wr_next(struct pl_verbs_qp *q, struct chain *ch,
				     enum ibv_wr_opcode opcode)
{
	struct pl_verbs_slot *slot = &q->slots[q->posted++ % q->depth];
	struct ibv_send_wr *wr = &ch->wr[ch->n];

	memset(slot, 0, sizeof(*slot));
	memset(wr, 0, sizeof(*wr));
	wr->wr_id = q->posted;
	wr->sg_list = &ch->sge[ch->n];
	wr->num_sge = 1;
	wr->opcode = opcode;
	if (ch->n)
		ch->wr[ch->n - 1].next = wr;
	ch->n++;
	q->link->peer->stats.work_requests++;
	return slot;
}

/* The bytes of the newest one: inline, if possible, or registered. */
static void wr_data(const struct pl_verbs_qp *q, struct chain *ch,
		    const void *data, size_t len, uint32_t lkey)
{
	struct ibv_send_wr *wr = &ch->wr[ch->n - 1];

	if (len <= q->inline_max)
		wr->send_flags |= IBV_SEND_INLINE;
	*wr->sg_list = (struct ibv_sge){ .addr = (uintptr_t)data,
					 .length = (uint32_t)len,
					 .lkey = lkey };
}

static void send_make(struct pl_verbs_qp *q, struct chain *ch,
		      enum pl_verbs_send_type type,
		      const struct pl_verbs_op *op)
{
	struct pl_verbs_send *m = &q->stage[q->posted % q->depth];
	struct pl_verbs_slot *slot = wr_next(q, ch, IBV_WR_SEND);

	*m = (struct pl_verbs_send){ .magic = PL_VERBS_MAGIC,
				     .type = (uint8_t)type,
				     .got = q->got,
				     .wrote = q->wrote };
	q->got_told = q->got;
	q->wrote = 0;
	if (op) {
		m->flags = (uint8_t)op->flags;
		m->len = (uint16_t)op->len;
		m->key = op->q->key;
		m->offset = op->offset;
		memcpy(m->words, op->words, op->len);
		slot->op = (struct pl_verbs_op *)(uintptr_t)op;
		q->sent++;
	}
	if (type == PL_VERBS_BARRIER)
		m->key = q->barrier;
	wr_data(q, ch, m, PL_VERBS_SEND_HDR + m->len, q->stage_mr->lkey);
}

/* Room for a chunk that has to be copied; NULL: not now, or *rc. */
static uint8_t *bounce_get(struct pl_verbs_qp *q, int *rc)
{
	struct pl_verbs_peer *p = q->link->peer;

	*rc = 0;
	if (!q->bounce) {
		q->bounce = malloc(PL_VERBS_WINDOW_BYTES);
		*rc = q->bounce ? p->c->v->mr_reg(p->pd, q->bounce,
						  PL_VERBS_WINDOW_BYTES, 0,
						  &q->bounce_mr) : -ENOMEM;
		if (*rc < 0) {
			free(q->bounce);
			q->bounce = NULL;
			return NULL;
		}
	}
	if (q->bounced - q->unbounced == BOUNCE_CHUNKS)
		return NULL;
	return q->bounce + q->bounced % BOUNCE_CHUNKS * PL_VERBS_CHUNK;
}

/* Where the chunk is read from. */
struct place {
	const uint8_t *data;
	uint32_t lkey;
	struct pl_verbs_mr *mr;
	bool bounced;
};

/* Small ones, whose bytes are the op's own, go inline or from the stage. */
static int place_find(struct pl_verbs_qp *q, const struct pl_verbs_op *op,
		      size_t n, struct place *at)
{
	uint8_t *room;
	int rc;

	*at = (struct place){ .data = op->data + op->cut };
	if (n <= q->inline_max)
		return 0;
	if (!op->from) {
		room = (uint8_t *)&q->stage[q->posted % q->depth];
		at->lkey = q->stage_mr->lkey;
	} else if (op->from->mr) {
		at->mr = op->from->mr;
		at->lkey = at->mr->mr->lkey;
		return 0;
	} else {
		room = bounce_get(q, &rc);
		if (!room)
			return rc < 0 ? rc : -EAGAIN;
		at->lkey = q->bounce_mr->lkey;
		at->bounced = true;
		q->bounced++;
		q->link->peer->stats.rdma_copied_bytes += n;
	}
	memcpy(room, at->data, n);
	at->data = room;
	return 0;
}

static int write_cut(struct pl_verbs_qp *q, struct chain *ch,
		     struct pl_verbs_op *op)
{
	size_t n = PL_MIN(op->len - op->cut, (size_t)PL_VERBS_CHUNK);
	struct pl_verbs_out *o = op->q;
	struct pl_verbs_slot *slot;
	struct place at;
	int rc;

	if (q->under_way && q->under_way + n > PL_VERBS_WINDOW_BYTES)
		return -EAGAIN;
	rc = place_find(q, op, n, &at);
	if (rc < 0)
		return rc;
	slot = wr_next(q, ch, IBV_WR_RDMA_WRITE);
	slot->bytes = n;
	slot->bounced = at.bounced;
	slot->mr = at.mr;
	if (at.mr)
		at.mr->refs++;
	ch->wr[ch->n - 1].wr.rdma.remote_addr = o->addr + op->offset + op->cut;
	ch->wr[ch->n - 1].wr.rdma.rkey = o->rkey;
	wr_data(q, ch, at.data, n, at.lkey);
	q->under_way += n;
	q->wrote += (uint32_t)n;
	op->cut += n;
	if (op->cut == op->len)
		slot->op = op;
	bytes_gone(o, n);
	return 0;
}

static int words_cut(struct pl_verbs_qp *q, struct chain *ch,
		     struct pl_verbs_op *op)
{
	if (!has_credit(q))
		return -EAGAIN;
	send_make(q, ch, PL_VERBS_WORDS, op);
	op->cut = op->len;
	bytes_gone(op->q, op->len);
	return 0;
}

/* Its message goes with it, so that their numbers are in one order. */
static int barrier_cut(struct pl_verbs_qp *q, struct chain *ch,
		       struct pl_verbs_op *op)
{
	struct pl_verbs_peer *p = q->link->peer;

	if (!has_credit(q))
		return -EAGAIN;
	op->text->qp = q->index;
	op->text->barrier = q->barrier + 1;
	if (pl_tcp_link(p->tcp, op->text, op->text->h.len) < 0) {
		pl_verbs_timer(p->ev_flush, STUCK_MS);
		return -EAGAIN;
	}
	q->barrier++;
	send_make(q, ch, PL_VERBS_BARRIER, op);
	return 0;
}

/* The next work request of the queue whose turn it is. -EAGAIN: not now. */
static int cut(struct pl_verbs_qp *q, struct chain *ch)
{
	static int (*const by_type[])(struct pl_verbs_qp *q, struct chain *ch,
				      struct pl_verbs_op *op) = {
		[PL_VERBS_OP_WRITE] = write_cut,
		[PL_VERBS_OP_WORDS] = words_cut,
		[PL_VERBS_OP_BARRIER] = barrier_cut,
	};
	struct pl_verbs_out *o = q->active;
	struct pl_verbs_op *op = o->uncut;
	size_t before = op->cut;
	int rc = by_type[op->type](q, ch, op);

	if (rc < 0)
		return rc;
	o->turn += op->cut - before + PL_VERBS_SEND_HDR;
	if (op->cut == op->len)
		o->uncut = op->next;
	if (!o->uncut) {
		DL_DELETE(q->active, o);
	} else if (o->turn >= PL_VERBS_CHUNK) {
		o->turn = 0;
		DL_DELETE(q->active, o);
		DL_APPEND(q->active, o);
	}
	return 0;
}

static int chain_post(struct pl_verbs_qp *q, struct chain *ch)
{
	struct pl_verbs_peer *p = q->link->peer;

	if (!ch->n)
		return 0;
	ch->wr[ch->n - 1].send_flags |= IBV_SEND_SIGNALED;
	p->stats.doorbells++;
	return p->c->v->send(q->id->qp, ch->wr);
}

/* Hands over what can be. 0, or what ends the link. */
static int qp_flush(struct pl_verbs_qp *q)
{
	int rc = 0;

	while (q->active && has_slot(q, PL_VERBS_DEPTH_SPARE)) {
		struct chain ch;

		ch.n = 0;
		while (rc == 0 && q->active && ch.n < PL_VERBS_BATCH &&
		       has_slot(q, PL_VERBS_DEPTH_SPARE))
			rc = cut(q, &ch);
		if (rc < 0 && rc != -EAGAIN)
			return rc;
		if (chain_post(q, &ch) < 0)
			return -EIO;
		if (rc == -EAGAIN)
			return 0;
	}
	return 0;
}

void pl_verbs_flush(struct pl_verbs_peer *p)
{
	struct pl_verbs_link *l = p->link;
	int rc = 0;

	if (!p->in_use || !l)
		return;
	for (unsigned int i = 0; rc == 0 && i < l->count; i++)
		rc = qp_flush(&l->qp[i]);
	if (rc < 0)
		pl_verbs_link_fail(p, rc, "work requests are refused");
	else if (p->c->polling != PL_POLLING_EVENT)
		pl_verbs_poll_start(l);
}

void pl_verbs_flush_cb(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	pl_verbs_flush(arg);
}

void pl_verbs_grant(struct pl_verbs_qp *q)
{
	struct pl_verbs_peer *p = q->link->peer;
	struct chain ch;

	if (q->got - q->got_told < PL_VERBS_CREDITS / 2 || !has_slot(q, 0) ||
	    !q->established)
		return;
	ch.n = 0;
	send_make(q, &ch, PL_VERBS_GRANT, NULL);
	if (chain_post(q, &ch) < 0)
		pl_verbs_link_fail(p, -EIO, "work requests are refused");
}

void pl_verbs_sent(struct pl_verbs_qp *q, uint64_t upto)
{
	struct pl_verbs_link *l = q->link;
	struct pl_verbs_peer *p = l->peer;

	if (upto > q->posted)
		return;
	while (p->link == l && q->completed < upto) {
		struct pl_verbs_slot s = q->slots[q->completed++ % q->depth];

		q->under_way -= s.bytes;
		q->unbounced += s.bounced;
		pl_verbs_mr_put(s.mr);
		if (s.op)
			op_end(s.op, 0);
	}
}

/* --- what the peer says -------------------------------------------------- */

static bool entry_add(struct pl_verbs_peer *p,
		      const struct pl_verbs_key_entry *e)
{
	struct pl_verbs_out *o = out_find(p, e->key);

	/* One that is in use stays what it is, but for more behind it. */
	if (o && p->in_use && (e->addr != o->addr || e->len < o->len))
		return true;
	if (!o)
		o = out_new(p, e->key);
	if (!o)
		return false;
	o->addr = e->addr;
	o->len = e->len;
	o->rkey = e->rkey;
	return true;
}

void pl_verbs_on_keys(struct pl_verbs_peer *p, const void *msg, size_t len)
{
	const struct pl_verbs_keys *m = msg;
	size_t n = (len - sizeof(m->h)) / sizeof(m->e[0]);

	/* Without memory for one, tcp does it. */
	for (size_t i = 0; i < n; i++) {
		if (m->e[i].key && !entry_add(p, &m->e[i]))
			return;
	}
}

/* Messages arrive all the same. */
static struct pl_verbs_op *droppable(const struct pl_verbs_out *o)
{
	struct pl_verbs_op *op;

	DL_FOREACH(o->ops, op) {
		if (op->type != PL_VERBS_OP_BARRIER)
			return op;
	}
	return NULL;
}

/*
 * Nothing more is put. What is under way goes on; behind it goes a SEND of no
 * words, and when that is done, the peer hears that all of it is over.
 */
void pl_verbs_on_revoke(struct pl_verbs_peer *p, uint64_t key)
{
	struct pl_verbs_out *o = out_find(p, key);
	struct pl_verbs_op *op;

	/* A callback may do anything: look anew each time. */
	for (unsigned int n = o ? o->n_ops : 0; n; n--) {
		op = droppable(o);
		if (!op)
			break;
		if (o->qp)
			slots_forget(o->qp, op);
		op_end(op, 0);
		o = out_find(p, key);
		if (!o)
			return;
	}
	if (!o || o->revoked)
		return;
	if (!o->qp) {
		out_revoked(o);
		return;
	}
	op = op_new(PL_VERBS_OP_WORDS, 0);
	/* Without memory for it, the peer's patience ends. */
	if (!op)
		return;
	o->revoked = true;
	out_append(o, op);
}
