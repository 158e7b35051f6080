/*
 * ipam/alloc.c - taking addresses
 *
 * Addresses are given in turn, from the one after the last, as host-local does:
 * an address that was just given back is the last to be given again. Before an
 * ADD fails because nothing is free, the directory is looked at, since empty
 * files in it may be reclaimed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util.h"
#include "ipam/ipam.h"
#include "ipam/work.h"

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
static int free_in_range(struct pl_work *w, unsigned int range, uint32_t from,
			 uint32_t to, struct pl_addr *out)
{
	const struct pl_ipam_range *r = &w->cfg->ranges[range];
	struct pl_index_range ir = pl_work_index_range(r);
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
static int free_in_set(struct pl_work *w, unsigned int set, struct pl_addr *out)
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

static int err_exhausted(struct pl_work *w, unsigned int set,
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

static int err_in_use(struct pl_work *w, const struct pl_addr *addr)
{
	char text[INET6_ADDRSTRLEN], id[64] = "a file that cannot be read";
	struct pl_reservation r;

	if (pl_store_read(&w->st, addr, &r) == 1)
		snprintf(id, sizeof(id), "container %.48s", r.container_id);
	return pl_cni_err(w->err, PL_CNI_IN_USE, "the requested address %s is "
			  "reserved for %s", pl_addr_str(addr, text), id);
}

/* Reserve this address; -EEXIST when another has it. */
static int take(struct pl_work *w, const struct pl_addr *addr, const char *id,
		const char *ifname)
{
	struct pl_reservation r;
	int rc = pl_store_reserve(&w->st, addr, id, ifname, w->err);

	/* What is there may be nobody's: an empty or garbled file. */
	if (rc == -EEXIST && pl_store_read(&w->st, addr, &r) == 0 &&
	    pl_store_remove(&w->st, addr, NULL) == 0) {
		rc = pl_work_rebuild(w);
		if (rc == 0)
			rc = pl_store_reserve(&w->st, addr, id, ifname,
					      w->err);
	}
	if (rc < 0)
		return rc;
	rc = pl_work_note(w, pl_index_add(w->ix, pl_index_hash(id, ifname),
					  addr));
	if (rc < 0)
		pl_store_remove(&w->st, addr, NULL);
	return rc;
}

/* Any address of the set. */
static int take_next(struct pl_work *w, unsigned int set, const char *id,
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
		rc = pl_work_rebuild(w);
		if (rc < 0)
			return rc;
	}
	if (rc == 0)
		return err_exhausted(w, set, PL_CNI_EXHAUSTED);
	return pl_err_set(w->err, -rc, "%s changes while it is locked",
			  w->st.path);
}

static int take_one(struct pl_work *w, unsigned int set, const char *id,
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

static int err_duplicate(struct pl_work *w, const char *id, const char *ifname,
			 const struct pl_addr *addr)
{
	char text[INET6_ADDRSTRLEN];

	return pl_cni_err(w->err, PL_CNI_DUPLICATE, "interface %s of container "
			  "%.64s has the address %s already; DEL comes before "
			  "another ADD", ifname, id, pl_addr_str(addr, text));
}

/* An address that the attachment has, for this set: 1, 0: it has none. */
static int reuse(struct pl_work *w, unsigned int set, const char *id,
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
		pl_work_rebuild(w);
		return rc;
	}
	ip->address = (struct pl_prefix){ *have, r->subnet.len };
	ip->gateway = r->gateway;
	return 1;
}

static int add_sets(struct pl_work *w, const char *id, const char *ifname,
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
		pl_work_drop(w, &taken[--n_taken], id, ifname);
	w->err = err;
	return rc;
}

int pl_ipam_add(const struct pl_ipam_config *cfg, const char *container_id,
		const char *ifname, unsigned int flags,
		struct pl_ipam_result *out, struct pl_err *err)
{
	struct pl_work w = { .cfg = cfg, .err = err };
	struct pl_addr have[PL_WORK_ADDRS_MAX];
	const char *as;
	int rc, n;

	pl_err_clear(err);
	memset(out, 0, sizeof(*out));
	rc = pl_work_begin(&w, &cfg->where, true);
	if (rc < 0)
		return rc;
	n = pl_work_find(&w, container_id, ifname, have, &as);
	if (n < 0)
		rc = n;
	else if (n && !(flags & PL_IPAM_REUSE))
		rc = err_duplicate(&w, container_id, ifname, &have[0]);
	else
		rc = add_sets(&w, container_id, ifname, have, n, out);
	pl_work_end(&w);
	if (rc == 0)
		pl_err_clear(err);
	return rc;
}

int pl_ipam_status(const struct pl_ipam_config *cfg, struct pl_err *err)
{
	struct pl_err why = { 0 };
	struct pl_work w = { .cfg = cfg, .err = &why };
	struct pl_addr addr;
	int rc = pl_work_begin(&w, &cfg->where, true);

	pl_err_clear(err);
	if (rc < 0)
		return pl_cni_err(err, PL_CNI_NOT_AVAILABLE,
				  "addresses cannot be reserved: %s", why.msg);
	for (unsigned int set = 0; rc == 0 && set < cfg->n_sets; set++) {
		int n = free_in_set(&w, set, &addr);

		if (n <= 0 && !w.scanned) {
			rc = pl_work_rebuild(&w);
			n = rc < 0 ? rc : free_in_set(&w, set, &addr);
		}
		if (n <= 0 && rc == 0)
			rc = err_exhausted(&w, set, PL_CNI_NOT_AVAILABLE);
	}
	pl_work_end(&w);
	if (rc < 0)
		return pl_cni_err(err, PL_CNI_NOT_AVAILABLE, "%s", why.msg);
	return 0;
}
