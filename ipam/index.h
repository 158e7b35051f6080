/*
 * ipam/index.h - which addresses are taken, and by which attachment, in
 * constant time
 *
 * A cache of the network's directory: what it says can always be made anew
 * from there. The functions return -EBADMSG when the index is damaged and
 * -ENOMEM; the caller then drops it. Private to ipam/.
 */
#ifndef IPAM_INDEX_H
#define IPAM_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "common/inet.h"

#define PL_INDEX_FILE ".podlane.index"
#define PL_INDEX_TEMP ".podlane.index.new"
#define PL_INDEX_MAX_RANGES 64
#define PL_INDEX_BOOT_BYTES 40

/* A stretch of addresses that has a map of free and taken. */
struct pl_index_range {
	struct pl_addr start;
	uint32_t count;
};

/* What must hold for a stored index to be right. */
struct pl_index_stamp {
	uint64_t dev, ino;	/* of the directory */
	int64_t mtime_sec;	/* of the directory; nanoseconds must be 0 */
	char boot[PL_INDEX_BOOT_BYTES];
};

struct pl_index;

/*
 * Open the index of a directory. -ESTALE: it is from before a change of
 * another's (or a crash), -ENOENT, -EBADMSG.
 */
int pl_index_open(int dir_fd, const struct pl_index_stamp *stamp,
		  struct pl_index **out);

/*
 * The ranges of the stored index, whether it is stale or not; 0 when there is
 * none. ranges has room for PL_INDEX_MAX_RANGES.
 */
unsigned int pl_index_stored_ranges(int dir_fd, struct pl_index_range *ranges);

/* A new, empty index, in memory. */
int pl_index_create(const struct pl_index_range *ranges, unsigned int n,
		    struct pl_index **out);

/* Accepts NULL. */
void pl_index_destroy(struct pl_index *ix);

/* Number of that range, or -ENOENT. */
int pl_index_range_find(const struct pl_index *ix,
			const struct pl_index_range *range);

/*
 * The first free address at or after position pos of a range: 1 and *out, or 0.
 */
int pl_index_next_free(struct pl_index *ix, unsigned int range, uint32_t pos,
		       uint32_t *out);

/* Take addr for the attachment of that hash, in every range that has it. */
int pl_index_add(struct pl_index *ix, uint64_t hash,
		 const struct pl_addr *addr);
/* Free it. Not being there is -EBADMSG. */
int pl_index_del(struct pl_index *ix, uint64_t hash,
		 const struct pl_addr *addr);

/*
 * The addresses of that hash: up to max of them. Returns how many. Different
 * attachments may share a hash.
 */
int pl_index_find(struct pl_index *ix, uint64_t hash, struct pl_addr *addrs,
		  int max);

/* 1: every range that has addr has it as taken, 0. */
int pl_index_is_taken(struct pl_index *ix, const struct pl_addr *addr);

uint32_t pl_index_entries(const struct pl_index *ix);

/* Anything to be stored. */
bool pl_index_is_dirty(const struct pl_index *ix);

/*
 * Store it. The caller then gives the directory the time of the stamp, which
 * makes the index valid. A new index is stored under a temporary name and
 * renamed (which changes the directory).
 */
int pl_index_store(struct pl_index *ix, int dir_fd,
		   const struct pl_index_stamp *stamp);

/* a - start, or UINT64_MAX when that is negative or does not fit. */
uint64_t pl_index_offset(const struct pl_addr *start, const struct pl_addr *a);

/* The hash of an attachment. */
uint64_t pl_index_hash(const char *container_id, const char *ifname);

#endif
