/*
 * ipam/verify.c - is a network's directory in order?
 *
 * Looks at all of it under the lock and changes nothing. An index that is not
 * of the directory as it is now is in order: the next command makes it anew.
 * One that says it is must agree with every file.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "common/util.h"
#include "ipam/ipam.h"
#include "ipam/store.h"

/* Of one hash. */
#define VERIFY_ADDRS_MAX 64

struct verify {
	struct pl_store st;
	struct pl_index *ix;	/* NULL: there is none that counts */
	uint32_t n_files;	/* that are named like addresses */
	unsigned int n_reserved;
	int (*fn)(const struct pl_ipam_problem *p, void *arg);
	void *arg;
};

static int report(struct verify *v, const char *file, const char *text)
{
	struct pl_ipam_problem p = { file, text };

	return v->fn(&p, v->arg);
}

/* Another allocator's files and ours, beside the reservations. */
static bool is_known(const char *name)
{
	static const char *const prefixes[] = {
		"last_reserved_ip.", ".podlane.",
	};

	for (size_t i = 0; i < PL_ARRAY_SIZE(prefixes); i++)
		if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
			return true;
	return !strcmp(name, "lock") || !strcmp(name, ".") ||
	       !strcmp(name, "..");
}

/* 1 when the index has this reservation, and the address as taken. */
static int is_indexed(struct verify *v, const struct pl_addr *addr,
		      const struct pl_reservation *r)
{
	struct pl_addr have[VERIFY_ADDRS_MAX];
	uint64_t hash = *r->container_id ?
			pl_index_hash(r->container_id, r->ifname) : 0;
	int n = pl_index_find(v->ix, hash, have, PL_ARRAY_SIZE(have));

	for (int i = 0; i < n; i++)
		if (pl_addr_equal(&have[i], addr))
			return pl_index_is_taken(v->ix, addr);
	/* There may be more than fit. */
	return n < 0 ? n : n == PL_ARRAY_SIZE(have);
}

static int verify_entry(struct verify *v, const char *name,
			const struct pl_addr *addr)
{
	struct pl_reservation r = { 0 };
	int rc = pl_store_read(&v->st, addr, &r);

	if (rc == -ENOENT)
		return 0;
	v->n_files++;
	if (rc < 0)
		return report(v, name, "cannot be read; its address is not "
			      "given out");
	if (rc == 0)
		return report(v, name, "is empty or holds no reservation; its "
			      "address will be given out");
	if (r.stale)
		return report(v, name, "is of before the last boot; its "
			      "address will be given out");
	v->n_reserved++;
	if (v->ix && is_indexed(v, addr, &r) != 1)
		return report(v, name, "is not in the index; remove "
			      PL_INDEX_FILE);
	return 0;
}

static int verify_file(struct verify *v, const char *name)
{
	char again[INET6_ADDRSTRLEN];
	struct pl_addr addr;

	if (is_known(name))
		return 0;
	if (pl_addr_parse(name, &addr) < 0)
		return report(v, name, "is no file of an address allocator; "
			      "it has no effect");
	if (strcmp(pl_addr_str(&addr, again), name))
		return report(v, name, "is not how this address is written; "
			      "it has no effect");
	return verify_entry(v, name, &addr);
}

static int verify_files(struct verify *v, struct pl_err *err)
{
	int fd = openat(v->st.dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	int rc = 0;

	if (!dir) {
		rc = pl_err_sys(err, "cannot read %s", v->st.path);
		pl_close_fd(&fd);
		return rc;
	}
	do {
		errno = 0;
		e = readdir(dir);
		if (e)
			rc = verify_file(v, e->d_name);
	} while (e && rc == 0);
	if (!e && errno)
		rc = pl_err_sys(err, "cannot read %s", v->st.path);
	closedir(dir);
	return rc;
}

int pl_ipam_verify(const struct pl_ipam_where *where,
		   int (*fn)(const struct pl_ipam_problem *p, void *arg),
		   void *arg, unsigned int *reserved, struct pl_err *err)
{
	struct verify v = { .fn = fn, .arg = arg };
	struct pl_err why = { 0 };
	int rc = pl_store_open(where, false, &v.st, &why);

	pl_err_clear(err);
	*reserved = 0;
	if (rc == -ENOENT)
		return 0;
	if (rc < 0) {
		if (err)
			*err = why;
		return rc;
	}
	rc = pl_index_open(v.st.dir_fd, &v.st.stamp, &v.ix);
	if (rc < 0 && rc != -ENOENT && rc != -ESTALE)
		rc = report(&v, PL_INDEX_FILE, "is damaged; the next command "
			    "makes it anew");
	else
		rc = 0;
	if (rc == 0)
		rc = verify_files(&v, err);
	if (rc == 0 && v.ix && pl_index_entries(v.ix) > v.n_files)
		rc = report(&v, PL_INDEX_FILE, "has addresses that are not "
			    "reserved; remove it");
	*reserved = v.n_reserved;
	pl_index_destroy(v.ix);
	pl_store_close(&v.st);
	return rc;
}
