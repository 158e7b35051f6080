/*
 * rdma/verbs_queue.c - what waits to be put into a peer's memory
 *
 * Each key of the peer has a queue of what was asked for; it stays there until
 * its last work request is done (verbs_send.c). Queues of which something is
 * not under way are in their queue pair's active list.
 */
#include "rdma/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdma/tcp.h"

/* --- queues -------------------------------------------------------------- */

struct pl_verbs_out *pl_verbs_out_find(struct pl_verbs_peer *p, uint64_t key)
{
	struct pl_verbs_out *o;

	HASH_FIND(hh, p->outs, &key, sizeof(key), o);
	return o;
}

struct pl_verbs_out *pl_verbs_out_new(struct pl_verbs_peer *p, uint64_t key)
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

struct pl_verbs_op *pl_verbs_op_new(enum pl_verbs_op_type type, size_t len)
{
	struct pl_verbs_op *op = malloc(sizeof(*op));

	if (!op)
		return NULL;
	memset(op, 0, offsetof(struct pl_verbs_op, words));
	op->type = type;
	op->len = len;
	return op;
}

void pl_verbs_out_append(struct pl_verbs_out *o, struct pl_verbs_op *op)
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

void pl_verbs_out_cut(struct pl_verbs_out *o, size_t n)
{
	o->bytes -= n;
	o->peer->queued -= n;
}

void pl_verbs_slots_forget(struct pl_verbs_qp *q, const struct pl_verbs_op *op)
{
	for (uint64_t i = q->completed; i < q->posted; i++) {
		if (q->slots[i % q->depth].op == op)
			q->slots[i % q->depth].op = NULL;
	}
}

void pl_verbs_op_end(struct pl_verbs_op *op, int status)
{
	struct pl_verbs_out *o = op->q;
	pl_put_done done = op->done;
	void *user = op->user;

	pl_verbs_out_cut(o, op->len - op->cut);
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
			pl_verbs_op_end(o->ops, status);
		else
			out_free(o);
	}
}

/* --- what the peer says -------------------------------------------------- */

static bool entry_add(struct pl_verbs_peer *p,
		      const struct pl_verbs_key_entry *e)
{
	struct pl_verbs_out *o = pl_verbs_out_find(p, e->key);

	/* One that is in use stays what it is, but for more behind it. */
	if (o && p->in_use && (e->addr != o->addr || e->len < o->len))
		return true;
	if (!o)
		o = pl_verbs_out_new(p, e->key);
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
	struct pl_verbs_out *o = pl_verbs_out_find(p, key);
	struct pl_verbs_op *op;

	/* A callback may do anything: look anew each time. */
	for (unsigned int n = o ? o->n_ops : 0; n; n--) {
		op = droppable(o);
		if (!op)
			break;
		if (o->qp)
			pl_verbs_slots_forget(o->qp, op);
		pl_verbs_op_end(op, 0);
		o = pl_verbs_out_find(p, key);
		if (!o)
			return;
	}
	if (!o || o->revoked)
		return;
	if (!o->qp) {
		out_revoked(o);
		return;
	}
	op = pl_verbs_op_new(PL_VERBS_OP_WORDS, 0);
	/* Without memory for it, the peer's patience ends. */
	if (!op)
		return;
	o->revoked = true;
	pl_verbs_out_append(o, op);
}
