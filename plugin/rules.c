/* plugin/rules.c - what an attachment has in nftables */
#include "plugin/rules.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "plugin/localnet.h"
#include "plugin/port.h"
#include "plugin/rules_work.h"


/* --- what is wanted --- */

void pl_rules_init(struct pl_rules *r, const struct pl_attach *at,
		   bool chained)
{
	memset(r, 0, sizeof(*r));
	r->chained = chained;
	pl_record_host_ifname(at, r->tag);
}

void pl_rules_fini(struct pl_rules *r)
{
	for (size_t t = 0; t < PL_RULES_TABLES; t++) {
		for (size_t i = 0; i < r->in[t].n_rules; i++)
			free(r->in[t].rules[i]);
		free(r->in[t].rules);
		free(r->in[t].elems);
	}
	memset(r, 0, sizeof(*r));
}

bool pl_ruleset_wanted(const struct pl_ruleset *s)
{
	return s->n_elems || s->n_rules;
}

bool pl_rules_empty(const struct pl_rules *r)
{
	for (size_t t = 0; t < PL_RULES_TABLES; t++) {
		if (pl_ruleset_wanted(&r->in[t]))
			return false;
	}
	return true;
}

int pl_rules_elem(struct pl_rules *r, enum pl_rules_table table,
		  const char *set, const char *key, const char *data,
		  struct pl_err *err)
{
	struct pl_ruleset *s = &r->in[table];
	struct pl_rules_elem *e;

	e = reallocarray(s->elems, s->n_elems + 1, sizeof(*e));
	if (!e)
		return pl_err_set(err, ENOMEM, "out of memory");
	s->elems = e;
	e += s->n_elems;
	e->set = set;
	if (pl_format(e->key, sizeof(e->key), "%s", key) < 0 ||
	    pl_format(e->data, sizeof(e->data), "%s", data ? data : "") < 0)
		return pl_err_set(err, ENAMETOOLONG, "%s is too long", key);
	s->n_elems++;
	return 0;
}

static int by_key(const void *a, const void *b)
{
	const struct pl_rules_elem *x = a, *y = b;
	int c = strcmp(x->set, y->set);

	return c ? c : strcmp(x->key, y->key);
}

static int twice(const struct pl_rules_elem *a, const struct pl_rules_elem *b,
		 struct pl_err *err)
{
	char text[PL_PORT_STRLEN];
	struct pl_port p;

	if (pl_port_read(a->set, a->key, &p))
		return pl_err_set(err, EINVAL, "hostPort %s is wanted twice, "
				  "for %s and %s", pl_port_str(&p, text),
				  a->data, b->data);
	return pl_err_set(err, EINVAL, "%s in %s leads to both %s and %s",
			  a->key, a->set, a->data, b->data);
}

int pl_rules_settle(struct pl_rules *r, struct pl_err *err)
{
	for (size_t t = 0; t < PL_RULES_TABLES; t++) {
		struct pl_ruleset *s = &r->in[t];
		size_t n = 0;

		if (s->n_elems)
			qsort(s->elems, s->n_elems, sizeof(*s->elems), by_key);
		for (size_t i = 0; i < s->n_elems; i++) {
			struct pl_rules_elem *e = &s->elems[i];

			if (!n || by_key(e, &s->elems[n - 1]))
				s->elems[n++] = *e;
			else if (strcmp(e->data, s->elems[n - 1].data))
				return twice(&s->elems[n - 1], e, err);
		}
		s->n_elems = n;
	}
	return 0;
}

const struct pl_rules_elem *pl_ruleset_find(const struct pl_ruleset *s,
					    const char *set, const char *key)
{
	struct pl_rules_elem e = { .set = set };

	if (!s->n_elems || pl_format(e.key, sizeof(e.key), "%s", key) < 0)
		return NULL;
	return bsearch(&e, s->elems, s->n_elems, sizeof(e), by_key);
}

int pl_rules_rule(struct pl_rules *r, enum pl_rules_table table,
		  struct pl_err *err, const char *fmt, ...)
{
	struct pl_ruleset *s = &r->in[table];
	char **rules = reallocarray(s->rules, s->n_rules + 1, sizeof(*rules));
	va_list ap;
	int n;

	if (!rules)
		return pl_err_set(err, ENOMEM, "out of memory");
	s->rules = rules;
	va_start(ap, fmt);
	n = vasprintf(&rules[s->n_rules], fmt, ap);
	va_end(ap);
	if (n < 0)
		return pl_err_set(err, ENOMEM, "out of memory");
	s->n_rules++;
	return 0;
}

/* --- deleting --- */

/*
 * Others of nftables' users do not know our lock: what they delete after we
 * read it makes our transaction fail, and then we read again.
 */
#define TRIES 5

static int again(int (*fn)(struct pl_rules_work *w, void *arg,
			   struct pl_err *err),
		 void *arg, bool ports, struct pl_err *err)
{
	struct pl_rules_work w;
	int tries = TRIES;
	int rc = pl_rules_begin(&w, err);

	while (rc == 0) {
		rc = pl_rules_look(&w, err);
		if (rc == 0 && pl_rules_any(&w))
			rc = fn(&w, arg, err);
		if (rc != -ENOENT)
			break;
		rc = --tries ? 0 : pl_err_set(err, EAGAIN, "nftables: the "
					      "rules change all the time");
	}
	if (rc == 0 && ports && !w.there[PL_RULES_PORTS])
		pl_localnet_close_all();
	pl_rules_end(&w);
	return rc;
}

static int del(struct pl_rules_work *w, void *arg, struct pl_err *err)
{
	int rc = pl_rules_drop(w, arg, true, err);

	return rc == 0 ? pl_rules_run(w, err) : rc;
}

int pl_rules_del(const struct pl_attach *at, bool ports, struct pl_err *err)
{
	char tag[PL_RULES_TAG_BYTES];
	struct pl_rules_tags one = { &tag, 1 };

	pl_record_host_ifname(at, tag);
	return again(del, &one, ports, err);
}

struct gc {
	char network[PL_RULES_TAG_BYTES];	/* its tag */
	int (*fn)(struct pl_rules_tags *t, void *arg, struct pl_err *err);
	void *arg;
	struct pl_rules_tags keep, stale;
	struct pl_err *err;
};

static int find_stale(const struct pl_rules_item *item, void *arg)
{
	struct gc *g = arg;

	if (item->kind != PL_RULES_ELEM || strcmp(item->network, g->network) ||
	    pl_rules_tags_have(&g->keep, item->owner))
		return 0;
	return pl_rules_tags_put(&g->stale, item->owner, g->err);
}

static int gc(struct pl_rules_work *w, void *arg, struct pl_err *err)
{
	struct gc *g = arg;
	int rc = pl_rules_list(w, err);

	g->keep.n = g->stale.n = 0;
	if (rc == 0)
		rc = g->fn(&g->keep, g->arg, err);
	pl_rules_tags_sort(&g->keep);
	for (size_t t = 0; rc == 0 && t < PL_RULES_TABLES; t++)
		rc = pl_rules_each(w->list[t], find_stale, g);
	pl_rules_tags_sort(&g->stale);
	return rc == 0 && g->stale.n ? del(w, &g->stale, err) : rc;
}

int pl_rules_gc(const char *network,
		int (*keep)(struct pl_rules_tags *t, void *arg,
			    struct pl_err *err),
		void *arg, struct pl_err *err)
{
	const struct pl_attach net = { network, "", "" };
	struct gc g = { .fn = keep, .arg = arg, .err = err };
	int rc;

	pl_record_host_ifname(&net, g.network);
	rc = again(gc, &g, true, err);
	free(g.keep.tags);
	free(g.stale.tags);
	return rc;
}
