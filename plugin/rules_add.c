/*
 * plugin/rules_add.c - making an attachment's rules
 *
 * First all of them are tried. Where the kernel says that there is something
 * already, we look what that is: what the same attachment left earlier, or one
 * that is gone, is deleted in the same transaction as ours are made; so is
 * another's claim to an address that is ours now.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"
#include "ipam/cni.h"
#include "plugin/localnet.h"
#include "plugin/port.h"
#include "plugin/rules_work.h"

/* nftables takes 128 bytes. */
#define COMMENT_BYTES 128

/* --- the script --- */

/* For people, behind the two tags; nothing that could end nft's string. */
static void make_comment(const struct pl_attach *at, const struct pl_rules *r,
			 char *buf)
{
	const struct pl_attach net = { at->network, "", "" };
	char net_tag[PL_RULES_TAG_BYTES];

	pl_record_host_ifname(&net, net_tag);
	snprintf(buf, COMMENT_BYTES, "%s %s %s%s/%s/%s", r->tag, net_tag,
		 r->chained ? PL_RULES_CHAINED : "", at->network, at->id,
		 at->ifname);
	for (; *buf; buf++) {
		if (!strchr("abcdefghijklmnopqrstuvwxyz"
			    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _.:@/-",
			    *buf))
			*buf = '?';
	}
}

void pl_rules_write(FILE *out, const struct pl_rules *r, size_t t)
{
	const struct pl_rules_def *d = &pl_rules_defs[t];
	const struct pl_ruleset *s = &r->in[t];

	fputs(d->script, out);
	if (s->n_rules)
		fprintf(out, "create chain %s %s %s\n", d->family, d->name,
			r->tag);
	for (size_t i = 0; i < s->n_rules; i++)
		fprintf(out, "add rule %s %s %s %s\n", d->family, d->name,
			r->tag, s->rules[i]);
}

static void write_elems(FILE *out, const struct pl_rules *r, size_t t,
			const char *comment)
{
	const struct pl_rules_def *d = &pl_rules_defs[t];
	const struct pl_ruleset *s = &r->in[t];

	for (size_t i = 0; i < s->n_elems; i++) {
		const struct pl_rules_elem *e = &s->elems[i];

		if (i == 0 || strcmp(e->set, e[-1].set))
			fprintf(out, "%screate element %s %s %s {",
				i ? " }\n" : "", d->family, d->name, e->set);
		fprintf(out, " %s comment \"%s\"%s%s,", e->key, comment,
			*e->data ? " : " : "", e->data);
	}
	if (s->n_elems)
		fputs(" }\n", out);
}

static void make(struct pl_rules_work *w, const struct pl_rules *r,
		 const struct pl_attach *at, const struct pl_localnet *l)
{
	const struct pl_rules_def *ports = &pl_rules_defs[PL_RULES_PORTS];
	char comment[COMMENT_BYTES];

	make_comment(at, r, comment);
	for (size_t t = 0; t < PL_RULES_TABLES; t++) {
		if (!pl_ruleset_wanted(&r->in[t]))
			continue;
		pl_rules_write(w->out, r, t);
		write_elems(w->out, r, t, comment);
	}
	/* Again, if it is there: who has deleted it did not close the link. */
	if (l->index)
		fprintf(w->out, "add element %s %s localnet { %d }\n",
			ports->family, ports->name, l->index);
}

/* --- what is in the way --- */

struct clash {
	struct pl_rules_work *w;
	const struct pl_rules *r;
	size_t table;
	struct pl_rules_tags gone;
	struct pl_err *err;
};

static bool wanted(const struct clash *c, const struct pl_rules_item *item)
{
	return pl_ruleset_find(&c->r->in[c->table], item->name, item->key);
}

static int port_taken(const struct pl_port *p, const char *who,
		      struct pl_err *err)
{
	char text[PL_PORT_STRLEN];

	return pl_cni_err(err, PL_CNI_DUPLICATE,
			  "hostPort %s is taken by %s; choose another one, or "
			  "delete that attachment", pl_port_str(p, text),
			  *who ? who : "somebody");
}

/* Much may be of one owner. */
static bool is_last(const struct pl_rules_tags *t, const char *tag)
{
	return t->n && !strcmp(t->tags[t->n - 1], tag);
}

static int find_gone(const struct pl_rules_item *item, void *arg)
{
	struct clash *c = arg;
	const char *tag = c->r->tag;
	struct pl_port port;

	if (item->kind == PL_RULES_CHAIN && !strcmp(item->name, tag))
		return pl_rules_tags_put(&c->gone, tag, c->err);
	if (item->kind != PL_RULES_ELEM)
		return 0;
	if (!strcmp(item->owner, tag))
		return pl_rules_tags_put(&c->gone, tag, c->err);
	if (!pl_port_read(item->name, item->key, &port) ||
	    !wanted(c, item) ||
	    is_last(&c->gone, item->owner))
		return 0;
	if (!*item->owner || item->chained ||
	    pl_nl_link_is_there(item->owner))
		return port_taken(&port, item->who, c->err);
	pl_warn("taking over a port of %s, which is gone", item->who);
	return pl_rules_tags_put(&c->gone, item->owner, c->err);
}

/* An address that is ours now. */
static int write_claims(const struct pl_rules_item *item, void *arg)
{
	struct clash *c = arg;
	const struct pl_rules_def *d = &pl_rules_defs[c->table];
	struct pl_port port;

	if (item->kind == PL_RULES_ELEM &&
	    !pl_port_read(item->name, item->key, &port) &&
	    wanted(c, item) &&
	    !pl_rules_tags_have(&c->gone, item->owner))
		fprintf(c->w->out, "delete element %s %s %s { %s }\n",
			d->family, d->name, item->name, item->key);
	return 0;
}

/* Writes what deletes it. */
static int clear(struct clash *c, struct pl_err *err)
{
	struct pl_rules_work *w = c->w;
	int rc = pl_rules_look(w, err);

	if (rc == 0)
		rc = pl_rules_list(w, err);
	for (c->table = 0; rc == 0 && c->table < PL_RULES_TABLES; c->table++)
		rc = pl_rules_each(w->list[c->table], find_gone, c);
	if (rc < 0)
		return rc;
	pl_rules_tags_sort(&c->gone);
	for (c->table = 0; c->table < PL_RULES_TABLES; c->table++)
		pl_rules_each(w->list[c->table], write_claims, c);
	return pl_rules_drop(w, &c->gone, false, err);
}

/* --- */

static void expect(struct pl_rules_work *w, const struct pl_rules *r)
{
	const struct pl_ruleset *s = &r->in[PL_RULES_PORTS];
	struct pl_port p;

	for (size_t i = 0; i < s->n_elems; i++) {
		if (pl_port_read(s->elems[i].set, s->elems[i].key, &p))
			pl_udp_add(&w->udp, &p);
	}
}

static int add(struct pl_rules_work *w, const struct pl_rules *r,
	       const struct pl_attach *at, const struct pl_localnet *l,
	       struct pl_err *err)
{
	struct clash c = { .w = w, .r = r, .err = err };
	int rc;

	expect(w, r);
	make(w, r, at, l);
	rc = pl_rules_run(w, err);
	if (rc != -EEXIST)
		return rc;
	rc = clear(&c, err);
	if (rc == 0) {
		make(w, r, at, l);
		rc = pl_rules_run(w, err);
	}
	free(c.gone.tags);
	return rc;
}

int pl_rules_add(const struct pl_rules *r, const struct pl_attach *at,
		 struct pl_err *err)
{
	struct pl_localnet l = { 0 };
	struct pl_rules_work w;
	struct pl_err why;
	int rc = pl_rules_begin(&w, err);

	if (rc == 0 && r->local_to.family)
		rc = pl_localnet_find(&r->local_to, &l, err);
	if (rc == 0)
		rc = add(&w, r, at, &l, err);
	if (rc < 0) {
		pl_rules_end(&w);
		return rc;
	}
	/* Only now, since the rules keep others from saying 127.0.0.1. */
	if (l.index)
		rc = pl_localnet_open(&l, err);
	pl_rules_end(&w);
	if (rc < 0 && pl_rules_del(at, true, &why) < 0)
		pl_error("%s", why.msg);
	return rc;
}
