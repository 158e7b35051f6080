/*
 * ipam/work.c - what the commands of the allocator have in common
 *
 * Each one opens the store (which takes the lock), opens the index or makes it
 * anew from the directory, works, and commits. An index that turns out to be
 * wrong on the way (a damaged block, an address that is taken though the index
 * has it free, an attachment's file that is not there) is made anew once and
 * the step is done again.
 */
#include "ipam/work.h"

#include <errno.h>
#include <string.h>

#include "common/util.h"

struct pl_index_range pl_work_index_range(const struct pl_ipam_range *r)
{
	uint64_t n = pl_index_offset(&r->start, &r->end);

	return (struct pl_index_range){
		.start = r->start,
		.count = n < PL_IPAM_RANGE_SPAN ? (uint32_t)n + 1 :
						  PL_IPAM_RANGE_SPAN,
	};
}

/* --- the index, out of the directory --- */

static int cmp_key(const void *a, const void *b)
{
	const struct pl_ipam_key *x = a, *y = b;
	int d = strcmp(x->container_id, y->container_id);

	return d ? d : strcmp(x->ifname, y->ifname);
}

static int cmp_id(const void *a, const void *b)
{
	const struct pl_ipam_key *x = a, *y = b;

	return strcmp(x->container_id, y->container_id);
}

void pl_work_sort(struct pl_ipam_key *keys, size_t n)
{
	qsort(keys, n, sizeof(*keys), cmp_key);
}

/* GC: is this reservation of a valid attachment? */
static bool is_kept(const struct pl_work *w, const struct pl_reservation *r)
{
	struct pl_ipam_key key = { r->container_id, r->ifname };

	/* Of an old host-local, which kept no interface names. */
	if (!*r->ifname)
		return w->n_keep && bsearch(&key, w->keep, w->n_keep,
					    sizeof(key), cmp_id);
	return w->n_keep && bsearch(&key, w->keep, w->n_keep, sizeof(key),
				    cmp_key);
}

static int scan_entry(const struct pl_addr *addr,
		      const struct pl_reservation *r, void *arg)
{
	struct pl_work *w = arg;
	struct pl_err err = { 0 };
	uint64_t hash = 0;
	bool readable = r && *r->container_id;

	if (!r || r->stale || (w->gc && readable && !is_kept(w, r))) {
		if (pl_store_remove(&w->st, addr, &err) == 0) {
			w->dropped++;
			return 0;
		}
		/* It stays, so it is taken. */
		if (!w->first.code)
			w->first = err;
	}
	if (readable)
		hash = pl_index_hash(r->container_id, r->ifname);
	return pl_index_add(w->ix, hash, addr);
}

/* The ranges of the configuration, and those of the old index for the rest. */
static unsigned int pick_ranges(const struct pl_work *w,
				struct pl_index_range *ranges)
{
	struct pl_index_range old[PL_INDEX_MAX_RANGES];
	unsigned int n_old, n = 0, k;

	for (; w->cfg && n < w->cfg->n_ranges; n++)
		ranges[n] = pl_work_index_range(&w->cfg->ranges[n]);
	n_old = pl_index_stored_ranges(w->st.dir_fd, old);
	for (unsigned int i = 0; i < n_old && n < PL_INDEX_MAX_RANGES; i++) {
		for (k = 0; k < n; k++)
			if (ranges[k].count == old[i].count &&
			    pl_addr_equal(&ranges[k].start, &old[i].start))
				break;
		if (k == n)
			ranges[n++] = old[i];
	}
	return n;
}

int pl_work_rebuild(struct pl_work *w)
{
	struct pl_index_range ranges[PL_INDEX_MAX_RANGES];
	int rc;

	pl_index_destroy(w->ix);
	w->ix = NULL;
	rc = pl_index_create(ranges, pick_ranges(w, ranges), &w->ix);
	if (rc == 0)
		rc = pl_store_scan(&w->st, scan_entry, w, w->err);
	if (rc == -ENOMEM || rc == -ENOSPC)
		pl_err_set(w->err, -rc, "cannot index the reservations in %s: "
			   "%s", w->st.path, strerror(-rc));
	w->scanned = rc == 0;
	if (rc < 0) {
		pl_index_destroy(w->ix);
		w->ix = NULL;
	}
	return rc;
}

static bool has_ranges(const struct pl_work *w)
{
	for (unsigned int i = 0; w->cfg && i < w->cfg->n_ranges; i++) {
		struct pl_index_range r;

		r = pl_work_index_range(&w->cfg->ranges[i]);
		if (pl_index_range_find(w->ix, &r) < 0)
			return false;
	}
	return true;
}

int pl_work_begin(struct pl_work *w, const struct pl_ipam_where *where,
		  bool create)
{
	struct pl_err err = { 0 };
	int rc = pl_store_open(where, create, &w->st, &err);

	if (rc == -ENOENT && !create)
		return 1;
	if (rc < 0) {
		if (w->err)
			*w->err = err;
		return rc;
	}
	rc = w->gc ? -ESTALE :
	     pl_index_open(w->st.dir_fd, &w->st.stamp, &w->ix);
	if (rc < 0 || !has_ranges(w))
		rc = pl_work_rebuild(w);
	if (rc < 0)
		pl_store_close(&w->st);
	return rc;
}

void pl_work_end(struct pl_work *w)
{
	pl_store_commit(&w->st, w->ix);
	pl_index_destroy(w->ix);
	pl_store_close(&w->st);
}

int pl_work_note(struct pl_work *w, int rc)
{
	return rc == 0 ? 0 : pl_work_rebuild(w);
}

/* --- finding an attachment --- */

/*
 * One address that the index has for that hash: 1 ours, 0 another attachment
 * of the same hash, -EBADMSG the index is wrong.
 */
static int confirm(struct pl_work *w, uint64_t hash, const struct pl_addr *addr,
		   const char *id, const char *ifname)
{
	struct pl_reservation r;
	int rc = pl_store_read(&w->st, addr, &r);

	/* Emptied in place: the index is the last to know whose it was. */
	if (rc == 0)
		return 1;
	if (rc < 0)
		return rc == -ENOENT ? -EBADMSG : rc;
	if (!strcmp(r.container_id, id) && !strcmp(r.ifname, ifname))
		return 1;
	return pl_index_hash(r.container_id, r.ifname) == hash ? 0 : -EBADMSG;
}

static int try_find(struct pl_work *w, const char *id, const char *ifname,
		    struct pl_addr *out)
{
	struct pl_addr addrs[PL_WORK_ADDRS_MAX];
	uint64_t hash = pl_index_hash(id, ifname);
	int n = pl_index_find(w->ix, hash, addrs, PL_WORK_ADDRS_MAX);
	int found = 0;

	for (int i = 0; i < n; i++) {
		int rc = confirm(w, hash, &addrs[i], id, ifname);

		if (rc < 0)
			return rc;
		if (rc)
			out[found++] = addrs[i];
	}
	return n < 0 ? n : found;
}

int pl_work_find(struct pl_work *w, const char *id, const char *ifname,
		 struct pl_addr *out, const char **as)
{
	const char *names[2] = { ifname, "" };
	int rc = 0;

	for (int i = 0; rc == 0 && i < 2; i++) {
		*as = names[i];
		rc = try_find(w, id, *as, out);
		if (rc == -EBADMSG && !w->scanned) {
			rc = pl_work_rebuild(w);
			if (rc == 0)
				rc = try_find(w, id, *as, out);
		}
	}
	if (rc < 0 && w->err && !w->err->code)
		pl_err_set(w->err, -rc, "cannot read the reservations in %s: "
			   "%s", w->st.path, strerror(-rc));
	return rc;
}

/* --- giving back --- */

int pl_work_drop(struct pl_work *w, const struct pl_addr *addr, const char *id,
		 const char *ifname)
{
	int rc = pl_store_remove(&w->st, addr, w->err);

	if (rc < 0)
		return rc;
	/* Without an index an earlier step has failed to make one. */
	return pl_work_note(w, !w->ix ? -EBADMSG :
		    pl_index_del(w->ix, pl_index_hash(id, ifname), addr));
}
