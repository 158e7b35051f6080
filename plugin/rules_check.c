/* plugin/rules_check.c - whether an attachment's rules are all there */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "ipam/cni.h"
#include "plugin/localnet.h"
#include "plugin/rules_work.h"

#define failed(err, ...) pl_cni_err(err, PL_CNI_CHECK_FAILED, __VA_ARGS__)

struct seen {
	const struct pl_rules *r;
	size_t table;
	size_t elems;
	unsigned int own_rules;
	unsigned int rules[PL_RULES_CHAINS];	/* of the table's chains */
};

static bool is_elem(const struct pl_ruleset *s,
		    const struct pl_rules_item *item)
{
	const struct pl_rules_elem *e = pl_ruleset_find(s, item->name,
							item->key);

	return e && !strcmp(e->data, item->data);
}

static int see(const struct pl_rules_item *item, void *arg)
{
	struct seen *s = arg;
	const struct pl_rules_chain *c = pl_rules_defs[s->table].chains;

	if (item->kind == PL_RULES_ELEM && !strcmp(item->owner, s->r->tag)) {
		s->elems += is_elem(&s->r->in[s->table], item);
	}
	if (item->kind != PL_RULES_RULE)
		return 0;
	if (!strcmp(item->name, s->r->tag))
		s->own_rules++;
	for (size_t i = 0; c[i].name; i++) {
		if (!strcmp(item->name, c[i].name))
			s->rules[i]++;
	}
	return 0;
}

static int check_table(const struct pl_rules *r, size_t t, const cJSON *list,
		       struct pl_err *err)
{
	const struct pl_rules_def *d = &pl_rules_defs[t];
	const struct pl_ruleset *want = &r->in[t];
	struct seen s = { .r = r, .table = t };

	if (!list)
		return failed(err, "nftables have no table %s %s", d->family,
			      d->name);
	pl_rules_each(list, see, &s);
	for (size_t i = 0; d->chains[i].name; i++) {
		if (s.rules[i] != d->chains[i].rules)
			return failed(err, "chain %s of nftables' table %s %s "
				      "has been changed", d->chains[i].name,
				      d->family, d->name);
	}
	if (s.elems != want->n_elems ||
	    s.own_rules != want->n_rules)
		return failed(err, "nftables' table %s %s has %zu of %zu "
			      "elements and %u of %zu rules of this attachment "
			      "(%s)", d->family, d->name, s.elems,
			      want->n_elems, s.own_rules, want->n_rules,
			      r->tag);
	return 0;
}

static int check_localnet(const struct pl_rules *r, struct pl_err *err)
{
	struct pl_localnet l;
	int rc;

	if (!r->local_to.family)
		return 0;
	rc = pl_localnet_find(&r->local_to, &l, err);
	if (rc == 0 && l.index && !l.on)
		rc = failed(err, "route_localnet of %s is off", l.name);
	return rc;
}

int pl_rules_check(const struct pl_rules *r, struct pl_err *err)
{
	struct pl_rules_work w;
	int rc = pl_rules_begin(&w, err);

	if (rc == 0)
		rc = pl_rules_look(&w, err);
	if (rc == 0)
		rc = pl_rules_list(&w, err);
	for (size_t t = 0; rc == 0 && t < PL_RULES_TABLES; t++) {
		if (pl_ruleset_wanted(&r->in[t]))
			rc = check_table(r, t, w.list[t], err);
	}
	if (rc == 0)
		rc = check_localnet(r, err);
	pl_rules_end(&w);
	return rc;
}
