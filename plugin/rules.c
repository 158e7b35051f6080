/* plugin/rules.c - what an attachment has in nftables */
#include "plugin/rules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "common/json.h"
#include "common/nl.h"
#include "common/util.h"
#include "ipam/cni.h"
#include "plugin/nft.h"
#include "plugin/rules_tables.h"

/* A transaction takes a millisecond; a failed one, some dozens. */
#define LOCK_WAIT_MS 20000
/* nftables takes 128 bytes. */
#define COMMENT_BYTES 128

/* --- what is wanted --- */

void pl_rules_init(struct pl_rules *r, const struct pl_attach *at)
{
	memset(r, 0, sizeof(*r));
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

static bool wants(const struct pl_ruleset *s)
{
	return s->n_elems || s->n_rules;
}

bool pl_rules_empty(const struct pl_rules *r)
{
	for (size_t t = 0; t < PL_RULES_TABLES; t++) {
		if (wants(&r->in[t]))
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

/* --- one piece of work on the tables of a namespace --- */

struct work {
	int lock;
	struct pl_nl nl;
	struct pl_nft *nft;		/* NULL: not needed yet */
	bool there[PL_RULES_TABLES];
	uint32_t users[PL_RULES_TABLES];	/* attachments in it */
	cJSON *list[PL_RULES_TABLES];	/* NULL: not read */
	char *script;
	size_t script_bytes;
	FILE *out;			/* writes script */
};

/*
 * The file of a namespace is one inode for all who open it while it lives, so
 * a lock on it is a lock of the namespace; nothing has to be made or removed.
 */
static int lock_namespace(int *fd, struct pl_err *err)
{
	struct timespec step = { .tv_nsec = 1000000 };

	*fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (*fd < 0)
		return pl_err_sys(err, "cannot open /proc/self/ns/net");
	for (int ms = 0; flock(*fd, LOCK_EX | LOCK_NB) < 0; ms++) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return pl_err_sys(err, "cannot lock the namespace");
		if (ms == LOCK_WAIT_MS)
			return pl_err_set(err, EBUSY, "another process changes "
					  "the rules of this namespace");
		nanosleep(&step, NULL);
	}
	return 0;
}

static int look(struct work *w, struct pl_err *err)
{
	int rc = pl_nl_open_netfilter(&w->nl, err);

	for (size_t t = 0; rc == 0 && t < PL_RULES_TABLES; t++) {
		const struct pl_rules_def *d = &pl_rules_defs[t];

		rc = pl_nl_nft_users(&w->nl, d->nfproto, d->name, "used",
				     &w->users[t], err);
		w->there[t] = rc == 0;
		rc = rc == -ENOENT ? 0 : rc;
	}
	if (rc < 0)
		pl_err_prefix(err, "nftables");
	return rc;
}

static int begin(struct work *w, struct pl_err *err)
{
	int rc;

	*w = (struct work){ .lock = -1 };
	w->out = open_memstream(&w->script, &w->script_bytes);
	if (!w->out)
		return pl_err_set(err, ENOMEM, "out of memory");
	rc = lock_namespace(&w->lock, err);
	return rc == 0 ? look(w, err) : rc;
}

static void end(struct work *w)
{
	for (size_t t = 0; t < PL_RULES_TABLES; t++)
		cJSON_Delete(w->list[t]);
	pl_nft_close(w->nft);
	pl_nl_close(&w->nl);
	if (w->out)
		fclose(w->out);
	free(w->script);
	pl_close_fd(&w->lock);
}

static int load(struct work *w, struct pl_err *err)
{
	return w->nft ? 0 : pl_nft_open(&w->nft, err);
}

/* Runs the script that was written, and begins a new one. */
static int run(struct work *w, struct pl_err *err)
{
	int rc = load(w, err);

	if (rc == 0 && fflush(w->out))
		rc = pl_err_set(err, ENOMEM, "out of memory");
	if (rc == 0 && w->script_bytes)
		rc = pl_nft_run(w->nft, w->script, err);
	rewind(w->out);
	return rc;
}

static int list(struct work *w, struct pl_err *err)
{
	char cmd[80];
	int rc = load(w, err);

	for (size_t t = 0; rc == 0 && t < PL_RULES_TABLES; t++) {
		if (!w->there[t] || w->list[t])
			continue;
		snprintf(cmd, sizeof(cmd), "list table %s %s",
			 pl_rules_defs[t].family, pl_rules_defs[t].name);
		rc = pl_nft_list(w->nft, cmd, &w->list[t], err);
	}
	return rc;
}

/* --- deleting: the same for one attachment and for many --- */

static int by_tag(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void sort(struct pl_rules_tags *t)
{
	if (t->n)
		qsort(t->tags, t->n, sizeof(*t->tags), by_tag);
}

/* Of a sorted list. */
static bool has(const struct pl_rules_tags *t, const char *tag)
{
	return t->n && bsearch(tag, t->tags, t->n, sizeof(*t->tags), by_tag);
}

static int add_tag(struct pl_rules_tags *t, const char *tag,
		   struct pl_err *err)
{
	char (*tags)[PL_RULES_TAG_BYTES];

	tags = reallocarray(t->tags, t->n + 1, sizeof(*tags));
	if (!tags)
		return pl_err_set(err, ENOMEM, "out of memory");
	t->tags = tags;
	snprintf(tags[t->n++], sizeof(*tags), "%s", tag);
	return 0;
}

int pl_rules_tags_add(struct pl_rules_tags *t, const struct pl_attach *at,
		      struct pl_err *err)
{
	char tag[PL_RULES_TAG_BYTES];

	pl_record_host_ifname(at, tag);
	return add_tag(t, tag, err);
}

struct drop {
	struct work *w;
	const struct pl_rules_tags *owners;
	const struct pl_rules_def *def;
	uint32_t attached;		/* of the owners, in this table */
};

static int count_attached(const struct pl_rules_item *item, void *arg)
{
	struct drop *d = arg;

	if (item->kind == PL_RULES_ELEM && !strcmp(item->name, "attached") &&
	    has(d->owners, item->key))
		d->attached++;
	return 0;
}

static int drop_item(const struct pl_rules_item *item, void *arg)
{
	struct drop *d = arg;
	const char *family = d->def->family, *table = d->def->name;
	FILE *out = d->w->out;

	if (item->kind == PL_RULES_ELEM && has(d->owners, item->owner))
		fprintf(out, "delete element %s %s %s { %s }\n", family, table,
			item->name, item->key);
	else if (item->kind == PL_RULES_CHAIN && has(d->owners, item->name))
		fprintf(out, "flush chain %s %s %s\ndelete chain %s %s %s\n",
			family, table, item->name, family, table, item->name);
	return 0;
}

/*
 * Writes what deletes all that the owners have; with the last attachment goes
 * its table.
 */
static int drop(struct work *w, const struct pl_rules_tags *owners,
		struct pl_err *err)
{
	int rc = list(w, err);

	for (size_t t = 0; rc == 0 && t < PL_RULES_TABLES; t++) {
		struct drop d = { .w = w, .owners = owners,
				  .def = &pl_rules_defs[t] };

		if (!w->list[t])
			continue;
		pl_rules_each(w->list[t], count_attached, &d);
		if (d.attached == w->users[t])
			fprintf(w->out, "delete table %s %s\n", d.def->family,
				d.def->name);
		else
			pl_rules_each(w->list[t], drop_item, &d);
	}
	return rc;
}

static bool any_table(const struct work *w)
{
	for (size_t t = 0; t < PL_RULES_TABLES; t++) {
		if (w->there[t])
			return true;
	}
	return false;
}

int pl_rules_del(const struct pl_attach *at, struct pl_err *err)
{
	char tag[PL_RULES_TAG_BYTES];
	struct pl_rules_tags one = { &tag, 1 };
	struct work w;
	int rc = begin(&w, err);

	pl_record_host_ifname(at, tag);
	if (rc == 0 && any_table(&w)) {
		rc = drop(&w, &one, err);
		if (rc == 0)
			rc = run(&w, err);
	}
	end(&w);
	return rc;
}

struct gc {
	const char *network;		/* its tag */
	const struct pl_rules_tags *keep;
	struct pl_rules_tags stale;
	struct pl_err *err;
};

static int find_stale(const struct pl_rules_item *item, void *arg)
{
	struct gc *g = arg;

	if (item->kind != PL_RULES_ELEM || strcmp(item->name, "attached") ||
	    strcmp(item->network, g->network) || has(g->keep, item->owner))
		return 0;
	return add_tag(&g->stale, item->owner, g->err);
}

int pl_rules_gc(const char *network, struct pl_rules_tags *keep,
		struct pl_err *err)
{
	const struct pl_attach net = { network, "", "" };
	char tag[PL_RULES_TAG_BYTES];
	struct gc g = { .network = tag, .keep = keep, .err = err };
	struct work w;
	int rc = begin(&w, err);

	pl_record_host_ifname(&net, tag);
	sort(keep);
	if (rc == 0 && any_table(&w))
		rc = list(&w, err);
	for (size_t t = 0; rc == 0 && t < PL_RULES_TABLES; t++)
		rc = pl_rules_each(w.list[t], find_stale, &g);
	sort(&g.stale);
	if (rc == 0 && g.stale.n)
		rc = drop(&w, &g.stale, err);
	if (rc == 0 && g.stale.n)
		rc = run(&w, err);
	free(g.stale.tags);
	end(&w);
	return rc;
}

/* --- making --- */

/* For people, behind the two tags; nothing that could end nft's string. */
static void make_comment(const struct pl_attach *at, const char *tag, char *buf)
{
	const struct pl_attach net = { at->network, "", "" };
	char net_tag[PL_RULES_TAG_BYTES];

	pl_record_host_ifname(&net, net_tag);
	snprintf(buf, COMMENT_BYTES, "%s %s %s/%s/%s", tag, net_tag,
		 at->network, at->id, at->ifname);
	for (; *buf; buf++) {
		if (!strchr("abcdefghijklmnopqrstuvwxyz"
			    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _.:@/-",
			    *buf))
			*buf = '?';
	}
}

static void make_table(FILE *out, const struct pl_rules *r, size_t t,
		       const char *comment)
{
	const struct pl_rules_def *d = &pl_rules_defs[t];
	const struct pl_ruleset *s = &r->in[t];
	const char *f = d->family, *n = d->name;

	fputs(d->script, out);
	if (s->n_rules)
		fprintf(out, "create chain %s %s %s\n", f, n, r->tag);
	for (size_t i = 0; i < s->n_rules; i++)
		fprintf(out, "add rule %s %s %s %s\n", f, n, r->tag,
			s->rules[i]);
	for (size_t i = 0; i < s->n_elems; i++) {
		const struct pl_rules_elem *e = &s->elems[i];

		fprintf(out, "create element %s %s %s { %s comment \"%s\"%s%s }"
			"\n", f, n, e->set, e->key, comment,
			*e->data ? " : " : "", e->data);
	}
	fprintf(out, "create element %s %s attached { %s comment \"%s\" : "
		"jump used }\n", f, n, r->tag, comment);
}

static void make(FILE *out, const struct pl_rules *r,
		 const struct pl_attach *at)
{
	char comment[COMMENT_BYTES];

	make_comment(at, r->tag, comment);
	for (size_t t = 0; t < PL_RULES_TABLES; t++) {
		if (wants(&r->in[t]))
			make_table(out, r, t, comment);
	}
}

int pl_rules_add(const struct pl_rules *r, const struct pl_attach *at,
		 struct pl_err *err)
{
	struct work w;
	int rc = begin(&w, err);

	if (rc == 0) {
		make(w.out, r, at);
		rc = run(&w, err);
	}
	end(&w);
	return rc;
}
