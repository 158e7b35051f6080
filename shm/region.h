/*
 * shm/region.h - the inside of a region; layout.h has the theory
 */
#ifndef SHM_REGION_H
#define SHM_REGION_H

#include <stdatomic.h>

#include "shm/podlane.h"
#include "shm/segment.h"

struct pl_conn;

struct pl_region {
	struct pl_seg seg;
	struct pl_region_seg *ctl;	/* read-only in readers */
	struct pl_seg watch;		/* owner's, or base NULL */
	int bell;			/* owner's, or -1 */
	bool owner;
	struct pl_conn *conn;		/* NULL in tests */
	uint64_t id;
	uint32_t rang;
	unsigned int spin;
	_Atomic bool ended;		/* the agent said so */
	struct pl_region_info info;
	struct pl_region *next;		/* list of conn */
};

/*
 * Take the segment (read-write from the owner, else read-only), the watch page
 * and bell of an owner (or PL_SEG_NONE and -1), also on failure.
 */
int pl_region_attach(struct pl_seg *seg, struct pl_seg *watch, int bell,
		     bool owner, const struct pl_region_info *info,
		     struct pl_conn *conn, uint64_t id, struct pl_region **out,
		     struct pl_err *err);
void pl_region_free(struct pl_region *r);

/* The agent reported the end of the owner: waiting ends. */
void pl_region_set_ended(struct pl_region *r);

#endif
