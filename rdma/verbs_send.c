/*
 * rdma/verbs_send.c - from queues of puts to work requests, their completions
 *
 * Queues with something to send (verbs_queue.c) take turns of PL_VERBS_CHUNK
 * bytes. What a queue pair has under way is bounded in number and in bytes, so
 * that a key with megabytes delays the others by PL_VERBS_WINDOW_BYTES at most.
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
#define STUCK_MS 5

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

	q->link->peer->stats.wire_bytes += len;
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
	pl_verbs_out_cut(o, n);
	return 0;
}

static int words_cut(struct pl_verbs_qp *q, struct chain *ch,
		     struct pl_verbs_op *op)
{
	if (!has_credit(q))
		return -EAGAIN;
	send_make(q, ch, PL_VERBS_WORDS, op);
	op->cut = op->len;
	pl_verbs_out_cut(op->q, op->len);
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
			pl_verbs_op_end(s.op, 0);
	}
}
