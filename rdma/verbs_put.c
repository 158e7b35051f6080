/*
 * rdma/verbs_put.c - memory that puts read from, and asking for puts
 */
#include "rdma/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"

/* Messages of one peer that wait behind puts. */
#define AFTER_MAX 256

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
			pl_verbs_slots_forget(op->q->qp, op);
		pl_verbs_op_end(op, -ECANCELED);
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
	struct pl_verbs_out *o = p->in_use ? pl_verbs_out_find(p, key) : NULL;

	if (p->in_use && !o && key) {
		o = pl_verbs_out_new(p, key);
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
		last = pl_verbs_op_new(PL_VERBS_OP_WORDS, 0);
		if (!last) {
			free(op);
			return -ENOMEM;
		}
		last->source = op->source;
	}
	last->flags = flags;
	last->done = done;
	last->user = user;
	pl_verbs_out_append(o, op);
	if (last != op)
		pl_verbs_out_append(o, last);
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
	op = pl_verbs_op_new(is_words(offset, len) ? PL_VERBS_OP_WORDS :
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
	op = pl_verbs_op_new(PL_VERBS_OP_BARRIER, 0);
	if (op)
		op->text = malloc(sizeof(*op->text) + len);
	if (!op || !op->text) {
		free(op);
		return -ENOMEM;
	}
	op->text->h = pl_verbs_head(PL_VERBS_AFTER, sizeof(*op->text) + len);
	memcpy(op->text + 1, data, len);
	p->n_after++;
	pl_verbs_out_append(o, op);
	return 0;
}
