/*
 * plugin/rules_check.c - whether an attachment's rules are all there
 *
 * How nftables list a rule depends on the version of everything below us. So
 * what there should be is made a second time, in a network namespace of its own
 * that ends with the check, and the two lists are compared. Only elements are
 * compared with what we would write: those of other pods are in the same sets.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "common/util.h"
#include "ipam/cni.h"
#include "plugin/localnet.h"
#include "plugin/rules_work.h"

#define failed(err, ...) pl_cni_err(err, PL_CNI_CHECK_FAILED, __VA_ARGS__)

/* --- how it should be --- */

static int make_model(const struct pl_rules *r, struct pl_rules_work *model,
		      struct pl_err *err)
{
	int rc = pl_rules_begin(model, err);

	if (rc < 0)
		return rc;
	for (size_t t = 0; t < PL_RULES_TABLES; t++) {
		if (pl_ruleset_wanted(&r->in[t]))
			pl_rules_write(model->out, r, t);
	}
	rc = pl_rules_run(model, err);
	if (rc == 0)
		rc = pl_rules_look(model, err);
	return rc == 0 ? pl_rules_list(model, err) : rc;
}

/* own_ns: the namespace that we are in, and come back to. */
static int elsewhere(const struct pl_rules *r, int own_ns,
		     struct pl_rules_work *model, struct pl_err *err)
{
	int rc;

	if (unshare(CLONE_NEWNET) < 0)
		return pl_err_sys(err, "cannot make a network namespace");
	rc = make_model(r, model, err);
	if (setns(own_ns, CLONE_NEWNET) < 0)
		return pl_err_sys(err, "cannot get back to the node's network "
				  "namespace");
	return rc;
}

/* --- definitions and rules --- */

static const cJSON *get(const cJSON *obj, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(obj, key);
}

static bool has_name(const cJSON *obj, const char *key, const char *name)
{
	const char *s = cJSON_GetStringValue(get(obj, key));

	return s && !strcmp(s, name);
}

/* All but these is the same in every namespace, and for every pod. */
static bool counts(const cJSON *member)
{
	return strcmp(member->string, "handle") &&
	       strcmp(member->string, "elem");
}

static bool is_part_of(const cJSON *a, const cJSON *b)
{
	const cJSON *m;

	cJSON_ArrayForEach(m, a) {
		if (counts(m) && !cJSON_Compare(m, get(b, m->string), true))
			return false;
	}
	return true;
}

static bool same(const cJSON *a, const cJSON *b)
{
	return is_part_of(a, b) && is_part_of(b, a);
}

/* From this entry of a list on. */
static const cJSON *next_rule(const cJSON *e, const char *chain)
{
	while (e && !has_name(get(e, "rule"), "chain", chain))
		e = e->next;
	return e;
}

static bool same_rules(const cJSON *a, const cJSON *b, const char *chain)
{
	a = next_rule(a->child, chain);
	b = next_rule(b->child, chain);
	while (a && b && same(a->child, b->child)) {
		a = next_rule(a->next, chain);
		b = next_rule(b->next, chain);
	}
	return !a && !b;
}

/* kind: "table", "chain", "set" or "map" */
static const cJSON *find(const cJSON *list, const char *kind, const char *name)
{
	const cJSON *e;

	cJSON_ArrayForEach(e, list) {
		if (has_name(get(e, kind), "name", name))
			return get(e, kind);
	}
	return NULL;
}

static int check_entries(const cJSON *list, const cJSON *model,
			 const struct pl_rules_def *d, struct pl_err *err)
{
	const cJSON *e;

	cJSON_ArrayForEach(e, model) {
		const char *kind = e->child ? e->child->string : "";
		const char *name = cJSON_GetStringValue(get(e->child, "name"));
		const cJSON *have;

		if (!name || !strcmp(kind, "rule"))
			continue;
		have = find(list, kind, name);
		if (!have)
			return failed(err, "nftables' table %s %s has no %s %s",
				      d->family, d->name, kind, name);
		if (!same(e->child, have) ||
		    (!strcmp(kind, "chain") && !same_rules(list, model, name)))
			return failed(err, "%s %s of nftables' table %s %s has "
				      "been changed", kind, name, d->family,
				      d->name);
	}
	return 0;
}

/* --- elements --- */

struct seen {
	const struct pl_rules *r;
	size_t table, elems;
};

static int see(const struct pl_rules_item *item, void *arg)
{
	struct seen *s = arg;
	const struct pl_rules_elem *e;

	if (item->kind != PL_RULES_ELEM || strcmp(item->owner, s->r->tag))
		return 0;
	e = pl_ruleset_find(&s->r->in[s->table], item->name, item->key);
	s->elems += e && !strcmp(e->data, item->data);
	return 0;
}

static int check_table(const struct pl_rules *r, size_t t, const cJSON *list,
		       const cJSON *model, struct pl_err *err)
{
	const struct pl_rules_def *d = &pl_rules_defs[t];
	struct seen s = { .r = r, .table = t };
	int rc;

	if (!list)
		return failed(err, "nftables have no table %s %s", d->family,
			      d->name);
	rc = check_entries(list, model, d, err);
	if (rc < 0)
		return rc;
	pl_rules_each(list, see, &s);
	if (s.elems != r->in[t].n_elems)
		return failed(err, "nftables' table %s %s has %zu of %zu "
			      "elements of this attachment (%s)", d->family,
			      d->name, s.elems, r->in[t].n_elems, r->tag);
	return 0;
}

/* --- */

static int check_localnet(const struct pl_rules *r, const cJSON *ports,
			  struct pl_err *err)
{
	const cJSON *e;
	struct pl_localnet l;
	int rc;

	if (!r->local_to.family)
		return 0;
	rc = pl_localnet_find(&r->local_to, &l, err);
	if (rc < 0 || !l.index)
		return rc;
	if (!l.on)
		return failed(err, "route_localnet of %s is off", l.name);
	cJSON_ArrayForEach(e, pl_rules_set(ports, "localnet")) {
		if (cJSON_IsString(e) && !strcmp(e->valuestring, l.name))
			return 0;
	}
	return failed(err, "nothing keeps others from saying 127.0.0.1 on %s",
		      l.name);
}

/* Only what this attachment is in, as it is. */
static int list_wanted(const struct pl_rules *r, struct pl_rules_work *w,
		       struct pl_err *err)
{
	for (size_t t = 0; t < PL_RULES_TABLES; t++) {
		const struct pl_rules_def *d = &pl_rules_defs[t];

		w->there[t] &= pl_ruleset_wanted(&r->in[t]);
		if (w->there[t] && w->dormant[t])
			return failed(err, "nftables' table %s %s is dormant: "
				      "somebody has switched it off; \"nft add "
				      "table %s %s\" switches it on", d->family,
				      d->name, d->family, d->name);
	}
	return pl_rules_list(w, err);
}

static int check(const struct pl_rules *r, struct pl_rules_work *w,
		 struct pl_rules_work *model, struct pl_err *err)
{
	int rc = pl_rules_begin(w, err);

	if (rc == 0)
		rc = pl_rules_look(w, err);
	if (rc == 0)
		rc = list_wanted(r, w, err);
	if (rc == 0)
		rc = elsewhere(r, w->lock, model, err);
	for (size_t t = 0; rc == 0 && t < PL_RULES_TABLES; t++) {
		if (pl_ruleset_wanted(&r->in[t]))
			rc = check_table(r, t, w->list[t], model->list[t], err);
	}
	return rc == 0 ? check_localnet(r, w->list[PL_RULES_PORTS], err) : rc;
}

int pl_rules_check(const struct pl_rules *r, struct pl_err *err)
{
	struct pl_rules_work w, model = { .lock = -1 };
	int rc = check(r, &w, &model, err);

	pl_rules_end(&model);
	pl_rules_end(&w);
	return rc;
}
