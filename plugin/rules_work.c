/* plugin/rules_work.c - one piece of work on the rules of a namespace */
#include "plugin/rules_work.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"
#include "common/util.h"
#include "plugin/localnet.h"

/* A transaction takes a millisecond; a failed one, some dozens. */
#define LOCK_WAIT_MS 20000

/*
 * The file of a namespace is one inode for all who open it while it lives, so
 * a lock on it is a lock of the namespace; nothing has to be made or removed.
 * Everybody in the namespace may lock it. None of ours holds it for long, so
 * one who does must not keep pods from coming and going.
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
		if (ms == LOCK_WAIT_MS) {
			pl_warn("another process keeps /proc/self/ns/net "
				"locked; going on without the lock");
			return 0;
		}
		nanosleep(&step, NULL);
	}
	return 0;
}

static void end_script(struct pl_rules_work *w)
{
	if (w->out)
		fclose(w->out);
	free(w->script);
	w->out = NULL;
	w->script = NULL;
}

static int new_script(struct pl_rules_work *w, struct pl_err *err)
{
	end_script(w);
	w->out = open_memstream(&w->script, &w->script_bytes);
	return w->out ? 0 : pl_err_set(err, ENOMEM, "out of memory");
}

int pl_rules_look(struct pl_rules_work *w, struct pl_err *err)
{
	int rc = new_script(w, err);

	w->close_localnet = false;
	if (rc == 0 && !w->nl.sock)
		rc = pl_nl_open_netfilter(&w->nl, err);
	for (size_t t = 0; rc == 0 && t < PL_RULES_TABLES; t++) {
		const struct pl_rules_def *d = &pl_rules_defs[t];

		cJSON_Delete(w->list[t]);
		w->list[t] = NULL;
		w->dormant[t] = false;
		rc = pl_nl_nft_table(&w->nl, d->nfproto, d->name,
				     &w->dormant[t], err);
		w->there[t] = rc == 0;
		rc = rc == -ENOENT ? 0 : rc;
	}
	if (rc < 0)
		pl_err_prefix(err, "nftables");
	return rc;
}

int pl_rules_begin(struct pl_rules_work *w, struct pl_err *err)
{
	int rc;

	*w = (struct pl_rules_work){ .lock = -1 };
	rc = new_script(w, err);
	return rc == 0 ? lock_namespace(&w->lock, err) : rc;
}

void pl_rules_end(struct pl_rules_work *w)
{
	for (size_t t = 0; t < PL_RULES_TABLES; t++)
		cJSON_Delete(w->list[t]);
	pl_nft_close(w->nft);
	pl_nl_close(&w->nl);
	end_script(w);
	pl_close_fd(&w->lock);
	/* Without the lock: there may be a million connections. */
	if (w->done)
		pl_udp_forget(&w->udp);
	pl_udp_fini(&w->udp);
}

static int load(struct pl_rules_work *w, struct pl_err *err)
{
	return w->nft ? 0 : pl_nft_open(&w->nft, err);
}

int pl_rules_run(struct pl_rules_work *w, struct pl_err *err)
{
	int rc = load(w, err);

	if (rc == 0 && fflush(w->out))
		rc = pl_err_set(err, ENOMEM, "out of memory");
	/* While what guards it is still there. */
	if (rc == 0 && w->close_localnet)
		pl_localnet_close_all();
	if (rc == 0 && w->script_bytes)
		rc = pl_nft_run(w->nft, w->script, err);
	w->done = rc == 0;
	end_script(w);
	return rc;
}

/*
 * Of a dormant table libnftables 1.0.6 lists what no parser takes: its text for
 * the flag is whatever stands in memory.
 */
static int wake(struct pl_rules_work *w, size_t t, struct pl_err *err)
{
	char cmd[80];
	int rc;

	if (!w->dormant[t])
		return 0;
	snprintf(cmd, sizeof(cmd), "add table %s %s", pl_rules_defs[t].family,
		 pl_rules_defs[t].name);
	rc = pl_nft_run(w->nft, cmd, err);
	w->dormant[t] = rc < 0;
	return rc;
}

int pl_rules_list(struct pl_rules_work *w, struct pl_err *err)
{
	char cmd[80];
	int rc = load(w, err);

	for (size_t t = 0; rc == 0 && t < PL_RULES_TABLES; t++) {
		if (!w->there[t] || w->list[t])
			continue;
		rc = wake(w, t, err);
		if (rc < 0)
			break;
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

void pl_rules_tags_sort(struct pl_rules_tags *t)
{
	if (t->n)
		qsort(t->tags, t->n, sizeof(*t->tags), by_tag);
}

bool pl_rules_tags_have(const struct pl_rules_tags *t, const char *tag)
{
	return t->n && bsearch(tag, t->tags, t->n, sizeof(*t->tags), by_tag);
}

int pl_rules_tags_put(struct pl_rules_tags *t, const char *tag,
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
	return pl_rules_tags_put(t, tag, err);
}

struct drop {
	struct pl_rules_work *w;
	const struct pl_rules_tags *owners;
	const struct pl_rules_def *def;
};

static int is_others(const struct pl_rules_item *item, void *arg)
{
	const struct drop *d = arg;

	return item->kind == PL_RULES_ELEM && *item->owner &&
	       !pl_rules_tags_have(d->owners, item->owner);
}

static int drop_udp(const struct pl_rules_item *item, void *arg)
{
	struct drop *d = arg;
	struct pl_port p;

	if (item->kind == PL_RULES_ELEM &&
	    pl_rules_tags_have(d->owners, item->owner) &&
	    pl_port_read(item->name, item->key, &p))
		pl_udp_add(&d->w->udp, &p);
	return 0;
}

static int drop_item(const struct pl_rules_item *item, void *arg)
{
	struct drop *d = arg;
	const char *family = d->def->family, *table = d->def->name;
	FILE *out = d->w->out;

	if (item->kind == PL_RULES_ELEM &&
	    pl_rules_tags_have(d->owners, item->owner))
		fprintf(out, "delete element %s %s %s { %s }\n", family, table,
			item->name, item->key);
	else if (item->kind == PL_RULES_CHAIN &&
		 pl_rules_tags_have(d->owners, item->name))
		fprintf(out, "flush chain %s %s %s\ndelete chain %s %s %s\n",
			family, table, item->name, family, table, item->name);
	return 0;
}

/* A link that is gone has no name any more. */
static void drop_unguarded(struct drop *d)
{
	const cJSON *e;

	cJSON_ArrayForEach(e, pl_rules_set(d->w->list[PL_RULES_PORTS],
					   "localnet")) {
		if (cJSON_IsNumber(e))
			fprintf(d->w->out, "delete element %s %s localnet { "
				"%.0f }\n", d->def->family, d->def->name,
				e->valuedouble);
	}
}

int pl_rules_drop(struct pl_rules_work *w, const struct pl_rules_tags *owners,
		  bool empty, struct pl_err *err)
{
	int rc = pl_rules_list(w, err);

	for (size_t t = 0; rc == 0 && t < PL_RULES_TABLES; t++) {
		struct drop d = { .w = w, .owners = owners,
				  .def = &pl_rules_defs[t] };

		if (!w->list[t])
			continue;
		pl_rules_each(w->list[t], drop_udp, &d);
		if (!empty || pl_rules_each(w->list[t], is_others, &d)) {
			pl_rules_each(w->list[t], drop_item, &d);
			if (t == PL_RULES_PORTS)
				drop_unguarded(&d);
			continue;
		}
		fprintf(w->out, "delete table %s %s\n", d.def->family,
			d.def->name);
		w->close_localnet |= t == PL_RULES_PORTS;
	}
	return rc;
}

bool pl_rules_any(const struct pl_rules_work *w)
{
	for (size_t t = 0; t < PL_RULES_TABLES; t++) {
		if (w->there[t])
			return true;
	}
	return false;
}
