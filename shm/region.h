/*
 * shm/region.h - memory that one pod writes and others read in place
 *
 * Theory of operation
 *
 * Owner: bytes, then the log entry of this version, then version (release),
 * then FUTEX_WAKE: readers can't say that they sleep, since they can't write
 * anything that the owner reads, so the call is made each time. The agent can
 * (struct pl_region_watch), and gets a byte in the bell.
 *
 * Reader: version is loaded with acquire; what was published up to it is then
 * there. It sleeps on the low half of version, in slices, and between them
 * looks at its connection, because nobody can write into the segment of an
 * owner that died: the agent tells (REGION_END). An agent that dies ends no
 * region.
 *
 * Of the segment only version and state are believed, within limits: a version
 * that goes back is a broken rule (-EPROTO for ever), whatever else the owner
 * does changes the bytes that it owns anyway.
 */
#ifndef SHM_REGION_H
#define SHM_REGION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/err.h"
#include "shm/podlane.h"
#include "shm/segment.h"
#include "shm/spin.h"

struct pl_conn;

struct pl_region {
	struct pl_seg seg;
	bool is_owner;
	uint64_t id;
	struct pl_conn *conn;		/* NULL: none */
	struct pl_region_info info;
	/* Owner. */
	struct pl_seg watch;		/* the agent's page, or none */
	int bell;			/* -1: none */
	uint64_t version;		/* published */
	/* Readers, any thread. */
	_Atomic uint64_t seen;		/* no thread saw a later version */
	_Atomic int error;		/* -EPROTO */
	_Atomic bool ended;		/* the agent said so */
	struct pl_spin spin;
	LIST_ENTRY(pl_region) of_conn;
};

/* The parts of a region; pl_region_attach takes all of them, always. */
struct pl_region_parts {
	struct pl_seg seg;		/* created (owner) or opened */
	bool is_owner;
	struct pl_seg watch;		/* PL_SEG_NONE: nobody watches */
	int bell;			/* -1: none */
	uint64_t id;
	struct pl_conn *conn;		/* told of the end, or NULL */
	const struct pl_region_info *info;	/* path, owner, name */
};

int pl_region_attach(const struct pl_region_parts *parts,
		     struct pl_region **out, struct pl_err *err);

/* The agent says that it has ended. */
void pl_region_ended(struct pl_region *r);

#endif
