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
 * region; region_resume.c says how it goes on with the next one.
 *
 * A region that grows: grow.c.
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
#include "shm/conn.h"
#include "shm/podlane.h"
#include "shm/segment.h"
#include "shm/spin.h"

struct pl_region {
	struct pl_seg seg;		/* grows with objs_lock held */
	size_t max_size;
	_Atomic size_t size;		/* of data that can be used */
	bool is_owner;
	pid_t pid;			/* not that of a child of fork */
	struct pl_conn_obj obj;
	/* The agent's, and its epoch; 0: it has none. With objs_lock. */
	uint64_t id;
	uint32_t id_epoch;
	struct pl_region_info info;
	uint8_t uid[PL_WIRE_UID];	/* 0: another agent can't know it */
	uint32_t flags;			/* owner: PL_ALLOW_ANY */
	/* The next agent's replica, until it has what this one has. */
	struct pl_seg next;		/* with objs_lock */
	bool next_ended;
	/* Owner. */
	struct pl_seg watch;		/* the agent's page, or none */
	int bell;			/* -1: none */
	struct pl_region_part {
		int fd;
		size_t offset, bytes;
	} parts[PL_REGION_PARTS - 1];	/* that it has grown by */
	unsigned int n_parts;		/* with objs_lock */
	bool is_unsaid;			/* the last one, to the agent */
	/* Readers, any thread. */
	_Atomic uint64_t seen;		/* no thread saw a later version */
	_Atomic int error;		/* -EPROTO */
	_Atomic bool ended;		/* the agent said so */
	struct pl_spin spin;
};

/* The parts of a region; pl_region_attach takes all of them, always. */
struct pl_region_parts {
	struct pl_seg seg;		/* created (owner) or opened */
	bool is_owner;
	struct pl_seg watch;		/* PL_SEG_NONE: nobody watches */
	int bell;			/* -1: none */
	const struct pl_region_info *info;	/* path, owner, name */
	/* What the agent said, and when; NULL: it has no agent. */
	struct pl_conn *conn;
	uint32_t epoch;
	const struct pl_msg_region *msg;
	uint32_t flags;
};

int pl_region_attach(const struct pl_region_parts *parts,
		     struct pl_region **out, struct pl_err *err);

/* No more will come. */
void pl_region_ended(struct pl_region *r);

/* --- region_grow.c -------------------------------------------------------- */

/* A reader: has it grown beyond what is mapped? For after version was read. */
static inline bool pl_region_is_behind(const struct pl_region *r)
{
	const struct pl_region_seg *h = r->seg.base;

	/* Pairs with the release in pl_region_grow, or the agent's. */
	return !r->is_owner &&
	       atomic_load_explicit(&h->grown, memory_order_acquire) >
		       atomic_load_explicit(&r->size, memory_order_acquire);
}

/* Map what it has grown by. -EAGAIN: it is not there yet. */
int pl_region_catch_up(struct pl_region *r);

/* What of `size` is usable of the segments that are mapped. With objs_lock. */
void pl_region_resize(struct pl_region *r);

/* Show the agent of this moment what the region has grown by. */
int pl_region_show_parts(struct pl_region *r);

/* The descriptors of its parts. */
void pl_region_drop_parts(struct pl_region *r);

/* --- region_open.c -------------------------------------------------------- */

/* Announce it; *fds: watch page and bell. With `again` by the keeper. */
int pl_region_ask_create(struct pl_conn *conn, bool again,
			 struct pl_msg_region_create *req, int seg_fd,
			 struct pl_msg_region *ok, int fds[2], uint32_t *epoch,
			 struct pl_err *err);
int pl_region_ask_open(struct pl_conn *conn, bool again,
		       struct pl_msg_region_open *req, struct pl_msg_region *ok,
		       int *fd, uint32_t *epoch, struct pl_err *err);

/* --- region_resume.c ------------------------------------------------------ */

/* Hang it into the connection of the parts, if they have one. */
void pl_region_join(struct pl_region *r, const struct pl_region_parts *p);
/* Tell the agent that nobody has it any more. */
void pl_region_part(struct pl_region *r);

#endif
