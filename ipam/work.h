/*
 * ipam/work.h - a command of the allocator at work
 *
 * pl_work_begin, then the steps, then pl_work_end, in one function. Private to
 * ipam/.
 */
#ifndef IPAM_WORK_H
#define IPAM_WORK_H

#include "ipam/index.h"
#include "ipam/ipam.h"
#include "ipam/store.h"

/* Addresses of one attachment: one per set, and leftovers of other configs. */
#define PL_WORK_ADDRS_MAX 64

struct pl_work {
	struct pl_store st;
	struct pl_index *ix;	/* NULL when it could not be made anew */
	const struct pl_ipam_config *cfg;	/* NULL: needs no ranges */
	bool scanned;		/* the index is fresh from the directory */
	bool gc;		/* drop all but keep */
	const struct pl_ipam_key *keep;		/* see pl_work_sort */
	size_t n_keep;
	unsigned int dropped;	/* reservations, by making the index anew */
	struct pl_err first;	/* the first that could not be dropped */
	struct pl_err *err;	/* of the command; may be NULL */
};

/*
 * Open store and index. 1: there is no such directory (and create is unset);
 * then, and on error, there is nothing to end.
 */
int pl_work_begin(struct pl_work *w, const struct pl_ipam_where *where,
		  bool create);

/* Commit and close. */
void pl_work_end(struct pl_work *w);

/* Make the index anew from the directory, and drop what is nobody's. */
int pl_work_rebuild(struct pl_work *w);

/*
 * The addresses of an attachment: their number, at most PL_WORK_ADDRS_MAX. *as
 * is the interface name that they are filed under, which is "" for those of an
 * old host-local.
 */
int pl_work_find(struct pl_work *w, const char *id, const char *ifname,
		 struct pl_addr *out, const char **as);

/*
 * After a change of the directory, with the result of telling the index: when
 * that failed, the index is made anew from the directory as it is now.
 */
int pl_work_note(struct pl_work *w, int rc);

/* Give one address of an attachment back. */
int pl_work_drop(struct pl_work *w, const struct pl_addr *addr, const char *id,
		 const char *ifname);

/* The addresses of a range that the index maps. */
struct pl_index_range pl_work_index_range(const struct pl_ipam_range *r);

/* The order in which keep has to be. */
void pl_work_sort(struct pl_ipam_key *keys, size_t n);

#endif
