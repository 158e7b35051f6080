/* ipam/commands.c - giving addresses back, and looking at them */
#include <errno.h>
#include <string.h>

#include "common/util.h"
#include "ipam/ipam.h"
#include "ipam/work.h"

static int drop_key(struct pl_work *w, const char *id, const char *ifname)
{
	struct pl_addr addrs[PL_WORK_ADDRS_MAX];
	const char *as;
	int n, rc = 0;

	/* Again only when there were more than fit. */
	do {
		n = pl_work_find(w, id, ifname, addrs, &as);
		if (n < 0)
			return n;
		for (int i = 0; i < n; i++) {
			int r = pl_work_drop(w, &addrs[i], id, as);

			if (r < 0 && rc == 0)
				rc = r;
		}
	} while (n == PL_WORK_ADDRS_MAX && rc == 0);
	return rc;
}

int pl_ipam_del(const struct pl_ipam_where *where, const char *container_id,
		const char *ifname, struct pl_err *err)
{
	struct pl_work w = { .err = err };
	int rc;

	pl_err_clear(err);
	rc = pl_work_begin(&w, where, false);
	if (rc)
		return rc > 0 ? 0 : rc;
	rc = drop_key(&w, container_id, ifname);
	pl_work_end(&w);
	return rc;
}

int pl_ipam_release(const struct pl_ipam_where *where,
		    const struct pl_addr *addr, struct pl_err *err)
{
	struct pl_work w = { .err = err };
	struct pl_reservation r;
	int rc;

	pl_err_clear(err);
	rc = pl_work_begin(&w, where, false);
	if (rc < 0)
		return rc;
	if (rc == 0) {
		rc = pl_store_read(&w.st, addr, &r);
		if (rc == 1)
			rc = pl_work_drop(&w, addr, r.container_id, r.ifname);
		else if (rc == 0)
			rc = pl_store_remove(&w.st, addr, err) ?:
			     pl_work_rebuild(&w);
		pl_work_end(&w);
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
	struct pl_work w = { .err = err, .gc = true, .n_keep = n_valid };
	struct pl_ipam_key *sorted = calloc(n_valid + 1, sizeof(*sorted));
	int rc;

	pl_err_clear(err);
	if (!sorted)
		return pl_err_set(err, ENOMEM, "out of memory");
	if (n_valid)
		memcpy(sorted, valid, n_valid * sizeof(*sorted));
	pl_work_sort(sorted, n_valid);
	w.keep = sorted;
	rc = pl_work_begin(&w, where, false);
	if (rc == 0)
		pl_work_end(&w);
	free(sorted);
	if (dropped)
		*dropped = w.dropped;
	if (rc < 0)
		return rc;
	if (w.first.code && err)
		*err = w.first;
	return w.first.code ? -w.first.code : 0;
}

static int check_addrs(struct pl_work *w, const char *id, const char *ifname,
		       const struct pl_addr *addrs, size_t n_addrs)
{
	struct pl_addr have[PL_WORK_ADDRS_MAX];
	char text[INET6_ADDRSTRLEN];
	const char *as;
	int n = pl_work_find(w, id, ifname, have, &as);

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
	struct pl_work w = { .err = err };
	int rc;

	pl_err_clear(err);
	rc = pl_work_begin(&w, where, false);
	if (rc > 0)
		return pl_cni_err(err, PL_CNI_CHECK_FAILED, "network %s has no "
				  "reservations in %s", where->network,
				  where->data_dir);
	if (rc < 0)
		return rc;
	rc = check_addrs(&w, container_id, ifname, addrs, n_addrs);
	pl_work_end(&w);
	return rc;
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
