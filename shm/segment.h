/*
 * shm/segment.h - memory files with one writer, and their mappings
 *
 * Theory of operation
 *
 * The owner creates a segment: a memfd whose memory is reserved at once, which
 * is mapped read-write, gets its header, and is then sealed (PL_SEG_SEALS), so
 * that nobody can get a second writable mapping, shrink it or punch a hole
 * into it. Others open what they were handed. Before that is mapped, read-only,
 * it must be
 *
 *   tmpfs memory   (huge pages may be missing when they are touched: SIGBUS),
 *   sealed         (so what is checked next stays true),
 *   of that size, and all of it there: the first reader of a hole would pay
 *                  for the page, and could be killed for it,
 *   with the header of its kind, which is looked at in a private copy.
 *
 * A lane's ring is mapped twice, back to back, behind the control block: each
 * stretch of at most ring_bytes is contiguous wherever it starts. Sizes in the
 * file are multiples of PL_SEG_CTL_BYTES, which every page size divides.
 *
 * A region that may grow is mapped at the start of as much address space as it
 * may ever need; parts, segments without a control block, follow there, each
 * sealed and checked as all segments are. So its data never moves.
 *
 * A mapping outlives its descriptor, and a child of fork has it too.
 *
 * Huge pages are the kernel's transparent ones: memory that is there already is
 * moved into them (madvise(2), MADV_COLLAPSE, Linux 6.1), which works whatever
 * /sys/kernel/mm/transparent_hugepage/shmem_enabled says, unless that is
 * "deny". Mappings of large segments begin at an address that they fit.
 */
#ifndef SHM_SEGMENT_H
#define SHM_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "shm/layout.h"

struct pl_seg {
	int fd;			/* the memfd, owned; -1: none any more */
	void *base;		/* control block; NULL: no mapping */
	size_t map_bytes;	/* of address space, owned; 0: borrowed */
	size_t data_bytes;	/* of the ring or the region */
	size_t end_bytes;	/* region: of data that is mapped, with parts */
	size_t huge_bytes;	/* of the file, by pl_seg_huge */
};

#define PL_SEG_NONE ((struct pl_seg){ .fd = -1 })

static inline void *pl_seg_data(const struct pl_seg *s)
{
	return (char *)s->base + PL_SEG_CTL_BYTES;
}

/* Huge pages are not larger than this, or not used. */
#define PL_SEG_HUGE ((size_t)2 << 20)

/* Bytes of the file of a lane or region with this much data. */
static inline uint64_t pl_seg_file_bytes(uint64_t data_bytes)
{
	const uint64_t mask = PL_SEG_CTL_BYTES - 1;

	return PL_SEG_CTL_BYTES + ((data_bytes + mask) & ~mask);
}

/* A power of two, PL_RING_MIN to PL_RING_MAX. */
bool pl_ring_bytes_valid(uint32_t ring_bytes);

/*
 * A fresh lane segment: writable, sealed, counters 0. The descriptor is there
 * to be handed out; whoever maps it can only read. -EINVAL: not a valid size.
 * -ENOMEM: the machine, the control group or a limit of the process has not
 * enough memory left.
 */
int pl_seg_lane_create(uint32_t ring_bytes, struct pl_seg *out,
		       struct pl_err *err);

/*
 * Is it what pl_seg_lane_open would map? For who hands it on: fd stays the
 * caller's. -EPROTO.
 */
int pl_seg_lane_check(int fd, uint32_t ring_bytes, struct pl_err *err);
int pl_seg_region_check(int fd, size_t size, struct pl_err *err);

/* Check and map a lane segment of somebody else. Takes fd, always. -EPROTO. */
int pl_seg_lane_open(int fd, uint32_t ring_bytes, struct pl_seg *out,
		     struct pl_err *err);

/* The same for a region of size bytes of data, which may grow to max. */
int pl_seg_region_create_max(size_t size, size_t max, struct pl_seg *out,
			     struct pl_err *err);
int pl_seg_region_open_max(int fd, size_t size, size_t max, struct pl_seg *out,
			   struct pl_err *err);
/* One that does not grow. */
int pl_seg_region_create(size_t size, struct pl_seg *out, struct pl_err *err);
int pl_seg_region_open(int fd, size_t size, struct pl_seg *out,
		       struct pl_err *err);

/* So many bytes of data end where a part can begin: at a multiple. */
static inline size_t pl_seg_round(size_t data_bytes)
{
	return (size_t)pl_seg_file_bytes(data_bytes) - PL_SEG_CTL_BYTES;
}

/* How many bytes of data there is address space for. */
static inline size_t pl_seg_room(const struct pl_seg *s)
{
	return s->map_bytes - PL_SEG_CTL_BYTES;
}

/*
 * One more part of a region, writable, at its end. bytes: a multiple of
 * PL_SEG_CTL_BYTES that there is address space for. *fd: to be handed out.
 */
int pl_seg_part_create(struct pl_seg *s, size_t bytes, int *fd,
		       struct pl_err *err);
/* Take the last part back. */
void pl_seg_part_undo(struct pl_seg *s, size_t bytes);
/* Is it what pl_seg_part_open would map? -EPROTO. */
int pl_seg_part_check(int fd, size_t bytes, struct pl_err *err);
/* Check and map a part of somebody else; fd stays the caller's. */
int pl_seg_part_open(struct pl_seg *s, int fd, size_t bytes,
		     struct pl_err *err);

/*
 * Move up to `bytes` of a segment that was made here into huge pages, from *at
 * on, which is 0 at first. Returns whether there is more to do: not at the end,
 * nor when the kernel has or knows none. Takes 0.1 to 4 ms a MiB. The segment
 * may be in use.
 */
bool pl_seg_huge(struct pl_seg *s, size_t *at, size_t bytes);

/* The page of struct pl_region_watch that the agent makes for each owner. */
int pl_seg_watch_create(struct pl_seg *out, struct pl_err *err);
int pl_seg_watch_open(int fd, struct pl_seg *out, struct pl_err *err);

/*
 * Put another lane segment of the same size in the place of one that is mapped
 * read-only, at the same address, while others read there. It must have all
 * that can be read of the old one; what is newer is seen with its head. Takes
 * fd, always. On failure s is as before, as far as it is read.
 */
int pl_seg_lane_replace(struct pl_seg *s, int fd, struct pl_err *err);
/*
 * The same for a region, parts included: data must not be older, and size not
 * less than what is mapped.
 */
int pl_seg_region_replace(struct pl_seg *s, int fd, size_t size,
			  struct pl_err *err);
/* And for a watch page. */
int pl_seg_watch_replace(struct pl_seg *s, int fd, struct pl_err *err);

/* Close the descriptor and keep the mapping. */
void pl_seg_drop_fd(struct pl_seg *s);

/* Unmap and close; may be repeated. */
void pl_seg_close(struct pl_seg *s);

/*
 * The rules of every ring, on copies that were read once. known_head and tail
 * are what was last found right (tail <= known_head <= tail + size); a head of
 * the peer is right when it did not go back and leaves what was not consumed
 * yet in place.
 */
static inline bool pl_ring_head_valid(uint64_t head, uint64_t known_head,
				      uint64_t tail, uint64_t size)
{
	return head - known_head <= size - (known_head - tail);
}

/* The peer's tail: it did not go back, nor beyond what was written. */
static inline bool pl_ring_tail_valid(uint64_t tail, uint64_t known_tail,
				      uint64_t head)
{
	return tail - known_tail <= head - known_tail;
}

#endif
