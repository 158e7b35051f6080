/*
 * ipam/alloc.c - the commands of the allocator
 *
 * Each one opens the store (which takes the lock), opens the index or makes it
 * anew from the directory, works, and commits. An index that turns out to be
 * wrong on the way (a damaged block, an address that is taken though the index
 * has it free, an attachment's file that is not there) is made anew once and
 * the step is done again. Before an ADD fails because nothing is free, the
 * directory is looked at too, since empty files in it may be reclaimed.
 *
 * Addresses are given in turn, from the one after the last, as host-local does:
 * an address that was just given back is the last to be given again.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util.h"
#include "ipam/index.h"
#include "ipam/ipam.h"
#include "ipam/store.h"

/* Addresses of one attachment: one per set, and leftovers of other configs. */
#define KEY_ADDRS_MAX 64

/* A command at work. */
struct work {
	struct pl_store st;
	struct pl_index *ix;
	const struct pl_ipam_config *cfg;	/* NULL: needs no ranges */
	bool scanned;		/* the index is fresh from the directory */
	const struct pl_ipam_key *keep;		/* GC: sorted; else NULL */
	size_t n_keep;
	bool gc;
	unsigned int dropped;
	struct pl_err first;	/* GC: the first error */
	struct pl_err *err;
};

static struct pl_index_range index_range(const struct pl_ipam_range *r)
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

/* GC: is this reservation of a valid attachment? */
static bool is_kept(const struct work *w, const struct pl_reservation *r)
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
	struct work *w = arg;
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
static unsigned int pick_ranges(const struct work *w,
				struct pl_index_range *ranges)
{
	struct pl_index_range old[PL_INDEX_MAX_RANGES];
	unsigned int n_old, n = 0, k;

	for (; w->cfg && n < w->cfg->n_ranges; n++)
		ranges[n] = index_range(&w->cfg->ranges[n]);
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

static int rebuild(struct work *w)
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

static bool has_ranges(const struct work *w)
{
	for (unsigned int i = 0; w->cfg && i < w->cfg->n_ranges; i++) {
		struct pl_index_range r = index_range(&w->cfg->ranges[i]);

		if (pl_index_range_find(w->ix, &r) < 0)
			return false;
	}
	return true;
}

/* Open store and index. 1: there is no such directory (and create is unset). */
static int begin(struct work *w, const struct pl_ipam_where *where, bool create)
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
		rc = rebuild(w);
	if (rc < 0)
		pl_store_close(&w->st);
	return rc;
}

static void end(struct work *w)
{
	pl_store_commit(&w->st, w->ix);
	pl_index_destroy(w->ix);
	pl_store_close(&w->st);
}

/*
 * After a change of the directory: the index is to know of it. If that fails,
 * it is made anew, from the directory as it is now.
 */
static int note(struct work *w, int rc)
{
	return rc == 0 ? 0 : rebuild(w);
}

/* --- finding an attachment --- */

/*
 * One address that the index has for that hash: 1 ours, 0 another attachment
 * of the same hash, -EBADMSG the index is wrong.
 */
static int confirm(struct work *w, uint64_t hash, const struct pl_addr *addr,
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

static int try_find(struct work *w, const char *id, const char *ifname,
		    struct pl_addr *out)
{
	struct pl_addr addrs[KEY_ADDRS_MAX];
	uint64_t hash = pl_index_hash(id, ifname);
	int n = pl_index_find(w->ix, hash, addrs, KEY_ADDRS_MAX);
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

/*
 * The addresses of an attachment: their number. *as is the interface name that
 * they are filed under, which is "" for those of an old host-local.
 */
static int find_key(struct work *w, const char *id, const char *ifname,
		    struct pl_addr *out, const char **as)
{
	const char *names[2] = { ifname, "" };
	int rc = 0;

	for (int i = 0; rc == 0 && i < 2; i++) {
		*as = names[i];
		rc = try_find(w, id, *as, out);
		if (rc == -EBADMSG && !w->scanned) {
			rc = rebuild(w);
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

static int drop(struct work *w, const struct pl_addr *addr, const char *id,
		const char *ifname)
{
	int rc = pl_store_remove(&w->st, addr, w->err);

	if (rc < 0)
		return rc;
	/* Without an index an earlier step has failed to make one. */
	return note(w, !w->ix ? -EBADMSG :
		    pl_index_del(w->ix, pl_index_hash(id, ifname), addr));
}

static int drop_key(struct work *w, const char *id, const char *ifname)
{
	struct pl_addr addrs[KEY_ADDRS_MAX];
	const char *as;
	int n, rc = 0;

	/* Again only when there were more than fit. */
	do {
		n = find_key(w, id, ifname, addrs, &as);
		if (n < 0)
			return n;
		for (int i = 0; i < n; i++) {
			int r = drop(w, &addrs[i], id, as);

			if (r < 0 && rc == 0)
				rc = r;
		}
	} while (n == KEY_ADDRS_MAX && rc == 0);
	return rc;
}

int pl_ipam_del(const struct pl_ipam_where *where, const char *container_id,
		const char *ifname, struct pl_err *err)
{
	struct work w = { .err = err };
	int rc;

	pl_err_clear(err);
	rc = begin(&w, where, false);
	if (rc)
		return rc > 0 ? 0 : rc;
	rc = drop_key(&w, container_id, ifname);
	end(&w);
	return rc;
}

int pl_ipam_release(const struct pl_ipam_where *where,
		    const struct pl_addr *addr, struct pl_err *err)
{
	struct work w = { .err = err };
	struct pl_reservation r;
	int rc;

	pl_err_clear(err);
	rc = begin(&w, where, false);
	if (rc < 0)
		return rc;
	if (rc == 0) {
		rc = pl_store_read(&w.st, addr, &r);
		if (rc == 1)
			rc = drop(&w, addr, r.container_id, r.ifname);
		else if (rc == 0)
			rc = pl_store_remove(&w.st, addr, err) ?: rebuild(&w);
		end(&w);
	} else {
		rc = -ENOENT;
	}
	if (rc < 0 && err && !err->code) {
		char text[INET6_ADDRSTRLEN];

		pl_err_set(err, -rc, "%s is not reserved in network %s",
			   pl_addr_str(addr, text), where->network);
	}
	return rc;
}

int pl_ipam_gc(const struct pl_ipam_where *where,
	       const struct pl_ipam_key *valid, size_t n_valid,
	       unsigned int *dropped, struct pl_err *err)
{
	struct work w = { .err = err, .gc = true, .n_keep = n_valid };
	struct pl_ipam_key *sorted = calloc(n_valid + 1, sizeof(*sorted));
	int rc;

	pl_err_clear(err);
	if (!sorted)
		return pl_err_set(err, ENOMEM, "out of memory");
	if (n_valid)
		memcpy(sorted, valid, n_valid * sizeof(*sorted));
	qsort(sorted, n_valid, sizeof(*sorted), cmp_key);
	w.keep = sorted;
	rc = begin(&w, where, false);
	if (rc == 0)
		end(&w);
	free(sorted);
	if (dropped)
		*dropped = w.dropped;
	if (rc < 0)
		return rc;
	if (w.first.code && err)
		*err = w.first;
	return w.first.code ? -w.first.code : 0;
}

/* --- taking --- */

static bool in_range(const struct pl_ipam_range *r, const struct pl_addr *a)
{
	return r->start.family == a->family && pl_addr_cmp(&r->start, a) <= 0 &&
	       pl_addr_cmp(a, &r->end) <= 0;
}

static const struct pl_ipam_range *
range_in_set(const struct pl_ipam_config *cfg, unsigned int set,
	     const struct pl_addr *a)
{
	for (unsigned int i = 0; i < cfg->n_ranges; i++)
		if (cfg->ranges[i].set == set && in_range(&cfg->ranges[i], a))
			return &cfg->ranges[i];
	return NULL;
}

static bool is_gateway(const struct pl_ipam_config *cfg,
		       const struct pl_addr *a)
{
	for (unsigned int i = 0; i < cfg->n_ranges; i++)
		if (pl_addr_equal(&cfg->ranges[i].gateway, a))
			return true;
	return false;
}

/* A free address of one range within [from, to): 1, 0, -EBADMSG. */
static int free_in_range(struct work *w, unsigned int range, uint32_t from,
			 uint32_t to, struct pl_addr *out)
{
	const struct pl_ipam_range *r = &w->cfg->ranges[range];
	struct pl_index_range ir = index_range(r);
	int no = pl_index_range_find(w->ix, &ir);
	uint32_t pos = from;
	int rc;

	if (no < 0)
		return -EBADMSG;
	for (;;) {
		rc = pl_index_next_free(w->ix, (unsigned int)no, pos, &pos);
		if (rc <= 0 || pos >= to)
			return rc < 0 ? rc : 0;
		*out = pl_addr_add(&r->start, pos);
		if (!is_gateway(w->cfg, out))
			return 1;
		pos++;
	}
}

/*
 * A free address of a set, in turn after the last one: the rest of its range,
 * the other ranges, the beginning of its range.
 */
static int free_in_set(struct work *w, unsigned int set, struct pl_addr *out)
{
	const struct pl_ipam_config *cfg = w->cfg;
	unsigned int first = 0, n = 0, at = 0;
	struct pl_addr last;
	uint64_t after = 0;
	int rc;

	while (cfg->ranges[first].set != set)
		first++;
	while (first + n < cfg->n_ranges && cfg->ranges[first + n].set == set)
		n++;
	pl_store_last_get(&w->st, set, &last);
	for (unsigned int i = 0; last.family && i < n; i++) {
		if (!in_range(&cfg->ranges[first + i], &last))
			continue;
		at = i;
		after = pl_index_offset(&cfg->ranges[first + i].start, &last);
		after = after < PL_IPAM_RANGE_SPAN ? after + 1 : 0;
	}
	rc = free_in_range(w, first + at, (uint32_t)after, UINT32_MAX, out);
	for (unsigned int i = 1; rc == 0 && i < n; i++)
		rc = free_in_range(w, first + (at + i) % n, 0, UINT32_MAX, out);
	if (rc == 0)
		rc = free_in_range(w, first + at, 0, (uint32_t)after, out);
	return rc;
}

static int err_exhausted(struct work *w, unsigned int set,
			 enum pl_cni_code code)
{
	const struct pl_ipam_config *cfg = w->cfg;
	char a[INET6_ADDRSTRLEN], b[INET6_ADDRSTRLEN], list[256] = "";
	size_t used = 0;

	for (unsigned int i = 0; i < cfg->n_ranges; i++) {
		if (cfg->ranges[i].set != set || used >= sizeof(list))
			continue;
		used += (size_t)snprintf(list + used, sizeof(list) - used,
					 "%s%s-%s", used ? ", " : "",
					 pl_addr_str(&cfg->ranges[i].start, a),
					 pl_addr_str(&cfg->ranges[i].end, b));
	}
	return pl_cni_err(w->err, code, "no address is free in range set %u "
			  "(%s) of network %s: delete pods or configure more "
			  "addresses", set, list, cfg->where.network);
}

static int err_in_use(struct work *w, const struct pl_addr *addr)
{
	char text[INET6_ADDRSTRLEN], id[64] = "a file that cannot be read";
	struct pl_reservation r;

	if (pl_store_read(&w->st, addr, &r) == 1)
		snprintf(id, sizeof(id), "container %.48s", r.container_id);
	return pl_cni_err(w->err, PL_CNI_IN_USE, "the requested address %s is "
			  "reserved for %s", pl_addr_str(addr, text), id);
}

/* Reserve this address; -EEXIST when another has it. */
static int take(struct work *w, const struct pl_addr *addr, const char *id,
		const char *ifname)
{
	struct pl_reservation r;
	int rc = pl_store_reserve(&w->st, addr, id, ifname, w->err);

	/* What is there may be nobody's: an empty or garbled file. */
	if (rc == -EEXIST && pl_store_read(&w->st, addr, &r) == 0 &&
	    pl_store_remove(&w->st, addr, NULL) == 0) {
		rc = rebuild(w);
		if (rc == 0)
			rc = pl_store_reserve(&w->st, addr, id, ifname,
					      w->err);
	}
	if (rc < 0)
		return rc;
	rc = note(w, pl_index_add(w->ix, pl_index_hash(id, ifname), addr));
	if (rc < 0)
		pl_store_remove(&w->st, addr, NULL);
	return rc;
}

/* Any address of the set. */
static int take_next(struct work *w, unsigned int set, const char *id,
		     const char *ifname, struct pl_addr *out)
{
	int rc;

	for (;;) {
		rc = free_in_set(w, set, out);
		if (rc == 1) {
			rc = take(w, out, id, ifname);
			if (rc != -EEXIST)
				return rc;
		}
		/* Full, damaged or wrong: what does the directory say? */
		if (w->scanned)
			break;
		rc = rebuild(w);
		if (rc < 0)
			return rc;
	}
	if (rc == 0)
		return err_exhausted(w, set, PL_CNI_EXHAUSTED);
	return pl_err_set(w->err, -rc, "%s changes while it is locked",
			  w->st.path);
}

static int take_one(struct work *w, unsigned int set, const char *id,
		    const char *ifname, struct pl_ipam_ip *ip)
{
	const struct pl_ipam_config *cfg = w->cfg;
	const struct pl_addr *wanted = NULL;
	const struct pl_ipam_range *r;
	struct pl_addr addr;
	int rc;

	for (unsigned int i = 0; i < cfg->n_requested; i++)
		if (range_in_set(cfg, set, &cfg->requested[i]))
			wanted = &cfg->requested[i];
	if (wanted) {
		addr = *wanted;
		rc = take(w, &addr, id, ifname);
		if (rc == -EEXIST)
			return err_in_use(w, &addr);
	} else {
		rc = take_next(w, set, id, ifname, &addr);
	}
	if (rc < 0)
		return rc;
	pl_store_last_set(&w->st, set, &addr);
	r = range_in_set(cfg, set, &addr);
	ip->address = (struct pl_prefix){ addr, r->subnet.len };
	ip->gateway = r->gateway;
	return 0;
}

static int err_duplicate(struct work *w, const char *id, const char *ifname,
			 const struct pl_addr *addr)
{
	char text[INET6_ADDRSTRLEN];

	return pl_cni_err(w->err, PL_CNI_DUPLICATE, "interface %s of container "
			  "%.64s has the address %s already; DEL comes before "
			  "another ADD", ifname, id, pl_addr_str(addr, text));
}

/* An address that the attachment has, for this set: 1, 0: it has none. */
static int reuse(struct work *w, unsigned int set, const char *id,
		 const char *ifname, const struct pl_addr *have, int n,
		 struct pl_ipam_ip *ip)
{
	const struct pl_ipam_config *cfg = w->cfg;
	const struct pl_ipam_range *r = NULL;
	struct pl_reservation rsv;
	int rc = 0;

	while (n && !(r = range_in_set(cfg, set, &have[n - 1])))
		n--;
	if (!n)
		return 0;
	have = &have[n - 1];
	for (unsigned int i = 0; i < cfg->n_requested; i++)
		if (range_in_set(cfg, set, &cfg->requested[i]) &&
		    !pl_addr_equal(&cfg->requested[i], have))
			return err_duplicate(w, id, ifname, have);
	/* Its file may have been emptied; the index knows no less. */
	if (pl_store_read(&w->st, have, &rsv) == 0)
		rc = pl_store_remove(&w->st, have, w->err) ?:
		     pl_store_reserve(&w->st, have, id, ifname, w->err);
	if (rc < 0) {
		rebuild(w);
		return rc;
	}
	ip->address = (struct pl_prefix){ *have, r->subnet.len };
	ip->gateway = r->gateway;
	return 1;
}

static int add_sets(struct work *w, const char *id, const char *ifname,
		    const struct pl_addr *have, int n_have,
		    struct pl_ipam_result *out)
{
	struct pl_addr taken[PL_IPAM_MAX_SETS];
	struct pl_err *err = w->err;
	int n_taken = 0, rc = 0;

	for (unsigned int set = 0; rc >= 0 && set < w->cfg->n_sets; set++) {
		struct pl_ipam_ip *ip = &out->ips[set];

		rc = reuse(w, set, id, ifname, have, n_have, ip);
		if (rc)
			continue;
		rc = take_one(w, set, id, ifname, ip);
		if (rc == 0)
			taken[n_taken++] = ip->address.addr;
	}
	if (rc >= 0) {
		out->n_ips = w->cfg->n_sets;
		out->existed = n_taken == 0;
		return 0;
	}
	w->err = NULL;
	while (n_taken)
		drop(w, &taken[--n_taken], id, ifname);
	w->err = err;
	return rc;
}

int pl_ipam_add(const struct pl_ipam_config *cfg, const char *container_id,
		const char *ifname, unsigned int flags,
		struct pl_ipam_result *out, struct pl_err *err)
{
	struct work w = { .cfg = cfg, .err = err };
	struct pl_addr have[KEY_ADDRS_MAX];
	const char *as;
	int rc, n;

	pl_err_clear(err);
	memset(out, 0, sizeof(*out));
	rc = begin(&w, &cfg->where, true);
	if (rc < 0)
		return rc;
	n = find_key(&w, container_id, ifname, have, &as);
	if (n < 0)
		rc = n;
	else if (n && !(flags & PL_IPAM_REUSE))
		rc = err_duplicate(&w, container_id, ifname, &have[0]);
	else
		rc = add_sets(&w, container_id, ifname, have, n, out);
	end(&w);
	if (rc == 0)
		pl_err_clear(err);
	return rc;
}

/* --- looking --- */

static int check_addrs(struct work *w, const char *id, const char *ifname,
		       const struct pl_addr *addrs, size_t n_addrs)
{
	struct pl_addr have[KEY_ADDRS_MAX];
	char text[INET6_ADDRSTRLEN];
	const char *as;
	int n = find_key(w, id, ifname, have, &as);

	if (n < 0)
		return n;
	if (n == 0)
		return pl_cni_err(w->err, PL_CNI_CHECK_FAILED, "no address is "
				  "reserved for interface %s of container %.64s",
				  ifname, id);
	for (size_t i = 0; i < n_addrs; i++) {
		struct pl_reservation r;
		int k = 0;

		while (k < n && !pl_addr_equal(&have[k], &addrs[i]))
			k++;
		if (k == n || pl_store_read(&w->st, &addrs[i], &r) != 1)
			return pl_cni_err(w->err, PL_CNI_CHECK_FAILED,
					  "%s is not reserved for interface %s "
					  "of container %.64s",
					  pl_addr_str(&addrs[i], text), ifname,
					  id);
	}
	return 0;
}

int pl_ipam_check(const struct pl_ipam_where *where, const char *container_id,
		  const char *ifname, const struct pl_addr *addrs,
		  size_t n_addrs, struct pl_err *err)
{
	struct work w = { .err = err };
	int rc;

	pl_err_clear(err);
	rc = begin(&w, where, false);
	if (rc > 0)
		return pl_cni_err(err, PL_CNI_CHECK_FAILED, "network %s has no "
				  "reservations in %s", where->network,
				  where->data_dir);
	if (rc < 0)
		return rc;
	rc = check_addrs(&w, container_id, ifname, addrs, n_addrs);
	end(&w);
	return rc;
}

int pl_ipam_status(const struct pl_ipam_config *cfg, struct pl_err *err)
{
	struct pl_err why = { 0 };
	struct work w = { .cfg = cfg, .err = &why };
	struct pl_addr addr;
	int rc = begin(&w, &cfg->where, true);

	pl_err_clear(err);
	if (rc < 0)
		return pl_cni_err(err, PL_CNI_NOT_AVAILABLE,
				  "addresses cannot be reserved: %s", why.msg);
	for (unsigned int set = 0; rc == 0 && set < cfg->n_sets; set++) {
		int n = free_in_set(&w, set, &addr);

		if (n <= 0 && !w.scanned) {
			rc = rebuild(&w);
			n = rc < 0 ? rc : free_in_set(&w, set, &addr);
		}
		if (n <= 0 && rc == 0)
			rc = err_exhausted(&w, set, PL_CNI_NOT_AVAILABLE);
	}
	end(&w);
	if (rc < 0)
		return pl_cni_err(err, PL_CNI_NOT_AVAILABLE, "%s", why.msg);
	return 0;
}

struct lister {
	int (*fn)(const struct pl_ipam_entry *e, void *arg);
	void *arg;
};

static int list_entry(const struct pl_addr *addr,
		      const struct pl_reservation *r, void *arg)
{
	const struct lister *l = arg;
	struct pl_ipam_entry e = { .addr = *addr };

	if (!r || !*r->container_id || r->stale)
		return 0;
	e.container_id = r->container_id;
	e.ifname = r->ifname;
	return l->fn(&e, l->arg);
}

int pl_ipam_list(const struct pl_ipam_where *where,
		 int (*fn)(const struct pl_ipam_entry *e, void *arg), void *arg,
		 struct pl_err *err)
{
	struct lister l = { fn, arg };
	struct pl_err why = { 0 };
	struct pl_store st;
	int rc = pl_store_open(where, false, &st, &why);

	pl_err_clear(err);
	if (rc == -ENOENT)
		return 0;
	if (rc < 0) {
		if (err)
			*err = why;
		return rc;
	}
	rc = pl_store_scan(&st, list_entry, &l, err);
	pl_store_close(&st);
	return rc;
}
