/*
 * ipam/store.h - the directory of a network: one file per reserved address
 *
 * Everything happens under the lock of the directory, from pl_store_open to
 * pl_store_close. Private to ipam/.
 */
#ifndef IPAM_STORE_H
#define IPAM_STORE_H

#include <stdbool.h>

#include "common/err.h"
#include "common/inet.h"
#include "ipam/index.h"
#include "ipam/ipam.h"

#define PL_STORE_LOCK_WAIT_MS 30000

struct pl_store {
	char path[PATH_MAX];		/* for messages */
	int dir_fd;
	int lock_fd;
	struct pl_index_stamp stamp;	/* as found; mtime -1: unknown */
	bool changed;			/* the directory, by us */
	bool unsure;			/* a file could not be read */
};

/* What a reservation's file says. */
struct pl_reservation {
	char container_id[PL_CNI_ID_MAX + 1];
	char ifname[PL_CNI_IFNAME_MAX + 1];	/* "": of an old host-local */
	bool stale;				/* made by us in another boot */
};

/* create: make the directory when it is missing; else that is -ENOENT. */
int pl_store_open(const struct pl_ipam_where *where, bool create,
		  struct pl_store *st, struct pl_err *err);
void pl_store_close(struct pl_store *st);

/*
 * Write the index and put the directory's time to it, which makes the two one
 * again. Nothing to do when neither changed. Failure costs the next command a
 * reading of the directory and is no error.
 */
void pl_store_commit(struct pl_store *st, struct pl_index *ix);

/* 1: *out, 0: empty or not of the format, -ENOENT, another -errno. */
int pl_store_read(const struct pl_store *st, const struct pl_addr *addr,
		  struct pl_reservation *out);

/* The file appears with all of its content. -EEXIST. */
int pl_store_reserve(struct pl_store *st, const struct pl_addr *addr,
		     const char *container_id, const char *ifname,
		     struct pl_err *err);

/* Not being there is success. */
int pl_store_remove(struct pl_store *st, const struct pl_addr *addr,
		    struct pl_err *err);

/*
 * The address that host-local's last_reserved_ip.SET names; family 0 when there
 * is none. Setting it may fail without harm.
 */
void pl_store_last_get(const struct pl_store *st, unsigned int set,
		       struct pl_addr *out);
void pl_store_last_set(struct pl_store *st, unsigned int set,
		       const struct pl_addr *addr);

/*
 * Every file that is named like an address; what a crash left half-made is
 * removed. r is NULL when the content is no reservation; its container_id is
 * "" when the file could not be read. fn may remove the file. Stops when fn
 * returns anything but 0, and returns that.
 */
int pl_store_scan(struct pl_store *st,
		  int (*fn)(const struct pl_addr *addr,
			    const struct pl_reservation *r, void *arg),
		  void *arg, struct pl_err *err);

#endif
