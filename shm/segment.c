/* shm/segment.c - memory files with one writer, and their mappings */
#include "shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/util.h"
#include "shm/memroom.h"
#include "shm/podlane.h"

#define REGION_MAX (UINT64_C(1) << 46)
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
/* Left to everybody else when memory is reserved. */
#define ROOM_SPARE (UINT64_C(8) << 20)

bool pl_ring_bytes_valid(uint32_t ring_bytes)
{
	return ring_bytes >= PL_RING_MIN && ring_bytes <= PL_RING_MAX &&
	       (ring_bytes & (ring_bytes - 1)) == 0;
}

static int ring_bytes_err(uint32_t ring_bytes, int code, struct pl_err *err)
{
	return pl_err_set(err, code, "a ring of %u bytes: it must be a power of "
			  "two, %u to %u", ring_bytes, PL_RING_MIN,
			  PL_RING_MAX);
}

/* A size that the process may have; without this check SIGXFSZ would come. */
static int check_fsize(uint64_t bytes, struct pl_err *err)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_FSIZE, &r) == 0 && r.rlim_cur != RLIM_INFINITY &&
	    bytes > r.rlim_cur)
		return pl_err_set(err, EFBIG, "%" PRIu64 " bytes of shared "
				  "memory are beyond the limit on file sizes "
				  "(ulimit -f)", bytes);
	return 0;
}

static int memfd_open(const char *name, uint64_t bytes, struct pl_err *err)
{
	unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	pl_auto_fd fd = -1;
	int rc = check_fsize(bytes, err);

	if (rc < 0)
		return rc;
	fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)	/* before Linux 6.3 */
		fd = memfd_create(name, flags);
	if (fd < 0)
		return pl_err_sys(err, "cannot make shared memory");
	if (ftruncate(fd, (off_t)bytes) < 0)
		return pl_err_sys(err, "cannot make %" PRIu64 " bytes of shared "
				  "memory", bytes);
	return pl_take_fd(&fd);
}

static int no_room(uint64_t bytes, uint64_t room, struct pl_err *err)
{
	return pl_err_set(err, ENOMEM, "%" PRIu64 " MiB of shared memory are "
			  "needed and %" PRIu64 " MiB are left; raise the "
			  "pod's memory limit or use less", bytes >> 20,
			  room >> 20);
}

/* Take all of the memory now, or none. */
static int reserve(int fd, uint64_t bytes, struct pl_err *err)
{
	uint64_t room = pl_mem_room(bytes + ROOM_SPARE);
	int rc;

	if (room < bytes || room - bytes < ROOM_SPARE)
		return no_room(bytes, room, err);
	do {
		rc = fallocate(fd, 0, 0, (off_t)bytes);
	} while (rc < 0 && errno == EINTR);
	if (rc == 0)
		return 0;
	if (errno == ENOSPC || errno == ENOMEM)
		return no_room(bytes, 0, err);
	return pl_err_sys(err, "cannot reserve %" PRIu64 " bytes of shared "
			  "memory", bytes);
}

static int map_err(size_t bytes, struct pl_err *err)
{
	return pl_err_sys(err, "cannot map %zu bytes of shared memory", bytes);
}

/* Address space for so many bytes, aligned as huge pages want it. */
static void *place_for(size_t bytes)
{
	size_t extra;
	char *all, *at;

	all = mmap(NULL, bytes + PL_SEG_HUGE, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (all == MAP_FAILED)
		return NULL;
	extra = -(uintptr_t)all & (PL_SEG_HUGE - 1);
	at = all + extra;
	if (extra)
		munmap(all, extra);
	if (extra < PL_SEG_HUGE)
		munmap(at + bytes, PL_SEG_HUGE - extra);
	return at;
}

/*
 * Control block and data; a ring's data once more behind it, or (room) address
 * space in which more is mapped later.
 */
static int map_segment(struct pl_seg *s, int prot, size_t data_bytes, bool ring,
		       size_t room, struct pl_err *err)
{
	size_t once = pl_seg_file_bytes(data_bytes);
	size_t all = PL_MAX(once + (ring ? data_bytes : 0), room);
	void *place = all >= PL_SEG_HUGE ? place_for(all) : NULL;
	char *base;

	/* Without room any place will do. */
	if (!place && room > once)
		return map_err(all, err);
	base = mmap(place, room > once ? once : all, prot, MAP_SHARED |
		    (place ? MAP_FIXED : 0), s->fd, 0);
	if (base == MAP_FAILED) {
		int rc = map_err(all, err);

		if (place)
			munmap(place, all);
		return rc;
	}
	/* Replaces the part of the mapping that is beyond the file's end. */
	if (ring && mmap(base + once, data_bytes, prot, MAP_SHARED | MAP_FIXED,
			 s->fd, PL_SEG_CTL_BYTES) == MAP_FAILED) {
		int rc = map_err(all, err);

		munmap(base, all);
		return rc;
	}
	s->base = base;
	s->map_bytes = all;
	s->data_bytes = data_bytes;
	s->end_bytes = once - PL_SEG_CTL_BYTES;
	return 0;
}

/* Of transparent huge pages; 0: the kernel has none. */
static size_t huge_page_bytes(void)
{
	static const char path[] =
		"/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";
	pl_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[32];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	unsigned long long bytes;

	if (n <= 0)
		return 0;
	text[n] = '\0';
	bytes = strtoull(text, NULL, 10);
	/* Others are aligned for pages that are larger than this. */
	return bytes <= PL_SEG_HUGE ? (size_t)bytes : 0;
}

bool pl_seg_huge(struct pl_seg *s, size_t *at, size_t bytes)
{
	const size_t page = huge_page_bytes();
	const size_t file = pl_seg_file_bytes(s->data_bytes);
	size_t end = *at + PL_MIN(bytes, file - *at);

	if (page == 0)
		return false;
	for (; *at + page <= end; *at += page) {
		if (madvise((char *)s->base + *at, page, MADV_COLLAPSE) == 0)
			s->huge_bytes += page;
		else if (errno != EAGAIN && errno != EBUSY)
			return false;
	}
	return *at + page <= file;
}

static int seal(int fd, struct pl_err *err)
{
	if (fcntl(fd, F_ADD_SEALS, PL_SEG_SEALS) < 0)
		return pl_err_sys(err, "cannot seal shared memory");
	return 0;
}

/* Mapped and reserved, header and seals still missing. */
static int create(const char *name, size_t data_bytes, bool ring, size_t room,
		  struct pl_seg *out, struct pl_err *err)
{
	uint64_t bytes = pl_seg_file_bytes(data_bytes);
	struct pl_seg s = PL_SEG_NONE;
	int rc = memfd_open(name, bytes, err);

	if (rc < 0)
		return rc;
	s.fd = rc;
	/* Mapped first: a limit on address space (ulimit -v) costs nothing. */
	rc = map_segment(&s, PROT_READ | PROT_WRITE, data_bytes, ring, room,
			 err);
	if (rc == 0)
		rc = reserve(s.fd, bytes, err);
	if (rc < 0)
		pl_seg_close(&s);
	else
		*out = s;
	return rc;
}

static int sealed(struct pl_seg *s, struct pl_seg *out, struct pl_err *err)
{
	int rc = seal(s->fd, err);

	if (rc < 0)
		pl_seg_close(s);
	else
		*out = *s;
	return rc;
}

/*
 * Blocks beyond the end would count as if they were in it, and go when somebody
 * asks for the size that the file has. With the seals nobody can make others.
 */
static int drop_beyond(int fd, uint64_t bytes, struct pl_err *err)
{
	int rc;

	do {
		rc = ftruncate(fd, (off_t)bytes);
	} while (rc < 0 && errno == EINTR);
	return rc < 0 ? pl_err_set(err, EPROTO, "the segment can't be checked: "
				   "%s", strerror(errno)) : 0;
}

static int check_file(int fd, uint64_t bytes, struct pl_err *err)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs fs;
	struct stat st;

	if (seals < 0 || fstatfs(fd, &fs) < 0 || fs.f_type != TMPFS_MAGIC ||
	    fstat(fd, &st) < 0)
		return pl_err_set(err, EPROTO, "the segment is no memfd");
	if ((seals & PL_SEG_SEALS) != PL_SEG_SEALS)
		return pl_err_set(err, EPROTO, "the segment has the seals %#x, "
				  "not %#x", (unsigned int)seals,
				  (unsigned int)PL_SEG_SEALS);
	if ((uint64_t)st.st_size != bytes)
		return pl_err_set(err, EPROTO, "the segment has %" PRIu64
				  " bytes, not %" PRIu64,
				  (uint64_t)st.st_size, bytes);
	if (drop_beyond(fd, bytes, err) < 0)
		return -EPROTO;
	if (fstat(fd, &st) < 0 || (uint64_t)st.st_blocks * 512 < bytes)
		return pl_err_set(err, EPROTO, "the segment has holes");
	return 0;
}

static int read_header(int fd, void *h, size_t len, struct pl_err *err)
{
	if (pread(fd, h, len, 0) != (ssize_t)len)
		return pl_err_set(err, EPROTO, "the segment has no header");
	return 0;
}

int pl_seg_lane_check(int fd, uint32_t ring_bytes, struct pl_err *err)
{
	struct pl_lane_seg h;
	int rc;

	if (!pl_ring_bytes_valid(ring_bytes))
		return ring_bytes_err(ring_bytes, EPROTO, err);
	rc = check_file(fd, pl_seg_file_bytes(ring_bytes), err);
	if (rc == 0)
		rc = read_header(fd, &h, sizeof(h), err);
	if (rc < 0)
		return rc;
	if (h.magic != PL_LANE_MAGIC || h.version != PL_LAYOUT_VERSION ||
	    h.ring_bytes != ring_bytes)
		return pl_err_set(err, EPROTO, "the segment is no lane of "
				  "version %u with a ring of %u bytes",
				  PL_LAYOUT_VERSION, ring_bytes);
	return 0;
}

int pl_seg_region_check(int fd, size_t size, struct pl_err *err)
{
	const size_t len = offsetof(struct pl_region_seg, log);
	struct pl_region_seg h;
	int rc;

	if (size == 0 || size > REGION_MAX)
		return pl_err_set(err, EPROTO, "a region of %zu bytes", size);
	rc = check_file(fd, pl_seg_file_bytes(size), err);
	if (rc == 0)
		rc = read_header(fd, &h, len, err);
	if (rc < 0)
		return rc;
	if (h.magic != PL_REGION_MAGIC ||
	    h.version_layout != PL_LAYOUT_VERSION ||
	    h.log_entries != PL_REGION_LOG || h.size != size)
		return pl_err_set(err, EPROTO, "the segment is no region of "
				  "version %u with %zu bytes",
				  PL_LAYOUT_VERSION, size);
	return 0;
}

static int check_watch(int fd, struct pl_err *err)
{
	struct pl_region_watch h;
	int rc = check_file(fd, PL_WATCH_BYTES, err);

	if (rc == 0)
		rc = read_header(fd, &h, sizeof(h), err);
	if (rc < 0)
		return rc;
	if (h.magic != PL_WATCH_MAGIC || h.version_layout != PL_LAYOUT_VERSION)
		return pl_err_set(err, EPROTO, "the segment is no watch page "
				  "of version %u", PL_LAYOUT_VERSION);
	return 0;
}

int pl_seg_lane_create(uint32_t ring_bytes, struct pl_seg *out,
		       struct pl_err *err)
{
	struct pl_lane_seg *h;
	struct pl_seg s;
	int rc;

	if (!pl_ring_bytes_valid(ring_bytes))
		return ring_bytes_err(ring_bytes, EINVAL, err);
	rc = create("podlane-lane", ring_bytes, true, 0, &s, err);
	if (rc < 0)
		return rc;
	h = s.base;
	h->magic = PL_LANE_MAGIC;
	h->version = PL_LAYOUT_VERSION;
	h->ring_bytes = ring_bytes;
	h->additions = PL_LANE_COUNTS | PL_LANE_WAKES;
	return sealed(&s, out, err);
}

/* Address space for a region that may grow so far; 0: no more than it has. */
static size_t room_for(size_t size, size_t max)
{
	/* More than a page, so that whoever may grow has a place of its own. */
	return pl_seg_round(max) > pl_seg_round(size) ?
		       PL_MAX((size_t)pl_seg_file_bytes(max), PL_SEG_HUGE) : 0;
}

int pl_seg_region_create_max(size_t size, size_t max, struct pl_seg *out,
			     struct pl_err *err)
{
	struct pl_region_seg *h;
	struct pl_seg s;
	int rc;

	if (size == 0 || size > REGION_MAX)
		return pl_err_set(err, EINVAL, "a region of %zu bytes: it must "
				  "have 1 to %" PRIu64, size, REGION_MAX);
	rc = create("podlane-region", size, false, room_for(size, max), &s,
		    err);
	if (rc < 0)
		return rc;
	h = s.base;
	h->magic = PL_REGION_MAGIC;
	h->version_layout = PL_LAYOUT_VERSION;
	h->log_entries = PL_REGION_LOG;
	h->size = size;
	return sealed(&s, out, err);
}

int pl_seg_region_create(size_t size, struct pl_seg *out, struct pl_err *err)
{
	return pl_seg_region_create_max(size, size, out, err);
}

/* Its one page is smaller than a segment's, and is the agent's own. */
int pl_seg_watch_create(struct pl_seg *out, struct pl_err *err)
{
	struct pl_seg s = PL_SEG_NONE;
	struct pl_region_watch *h;
	int rc = memfd_open("podlane-watch", PL_WATCH_BYTES, err);

	if (rc < 0)
		return rc;
	s.fd = rc;
	h = mmap(NULL, PL_WATCH_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, s.fd,
		 0);
	if (h == MAP_FAILED) {
		rc = map_err(PL_WATCH_BYTES, err);
		pl_seg_close(&s);
		return rc;
	}
	s.base = h;
	s.map_bytes = PL_WATCH_BYTES;
	h->magic = PL_WATCH_MAGIC;
	h->version_layout = PL_LAYOUT_VERSION;
	return sealed(&s, out, err);
}

/* Takes fd; rc is what its check said. */
static int open_checked(int fd, int rc, size_t data_bytes, bool ring,
			size_t room, struct pl_seg *out, struct pl_err *err)
{
	struct pl_seg s = { .fd = fd };

	if (rc == 0)
		rc = map_segment(&s, PROT_READ, data_bytes, ring, room, err);
	if (rc < 0)
		pl_seg_close(&s);
	else
		*out = s;
	return rc;
}

int pl_seg_lane_open(int fd, uint32_t ring_bytes, struct pl_seg *out,
		     struct pl_err *err)
{
	int rc = pl_seg_lane_check(fd, ring_bytes, err);

	return open_checked(fd, rc, ring_bytes, true, 0, out, err);
}

int pl_seg_region_open_max(int fd, size_t size, size_t max, struct pl_seg *out,
			   struct pl_err *err)
{
	int rc = pl_seg_region_check(fd, size, err);

	return open_checked(fd, rc, size, false, room_for(size, max), out, err);
}

int pl_seg_region_open(int fd, size_t size, struct pl_seg *out,
		       struct pl_err *err)
{
	return pl_seg_region_open_max(fd, size, size, out, err);
}

/* --- parts ---------------------------------------------------------------- */

static char *part_place(const struct pl_seg *s)
{
	return (char *)pl_seg_data(s) + s->end_bytes;
}

static int part_map(struct pl_seg *s, int prot, int fd, size_t bytes,
		    struct pl_err *err)
{
	if (bytes == 0 || bytes % PL_SEG_CTL_BYTES ||
	    bytes > pl_seg_room(s) - s->end_bytes)
		return pl_err_set(err, EPROTO, "a region of %zu bytes can't "
				  "have %zu more", s->end_bytes, bytes);
	if (mmap(part_place(s), bytes, prot, MAP_SHARED | MAP_FIXED, fd, 0) ==
	    MAP_FAILED)
		return map_err(bytes, err);
	s->end_bytes += bytes;
	return 0;
}

void pl_seg_part_undo(struct pl_seg *s, size_t bytes)
{
	s->end_bytes -= bytes;
	/* Its address space stays taken; a failure leaves the part there. */
	if (mmap(part_place(s), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS |
		 MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		return;
}

int pl_seg_part_create(struct pl_seg *s, size_t bytes, int *fd,
		       struct pl_err *err)
{
	pl_auto_fd part = memfd_open("podlane-region", bytes, err);
	int rc;

	if (part < 0)
		return part;
	rc = part_map(s, PROT_READ | PROT_WRITE, part, bytes, err);
	if (rc < 0)
		return rc;
	rc = reserve(part, bytes, err);
	if (rc == 0)
		rc = seal(part, err);
	if (rc < 0)
		pl_seg_part_undo(s, bytes);
	else
		*fd = pl_take_fd(&part);
	return rc;
}

int pl_seg_part_check(int fd, size_t bytes, struct pl_err *err)
{
	return check_file(fd, bytes, err);
}

int pl_seg_part_open(struct pl_seg *s, int fd, size_t bytes,
		     struct pl_err *err)
{
	int rc = pl_seg_part_check(fd, bytes, err);

	return rc < 0 ? rc : part_map(s, PROT_READ, fd, bytes, err);
}

int pl_seg_watch_open(int fd, struct pl_seg *out, struct pl_err *err)
{
	struct pl_seg s = { .fd = fd };
	int rc = check_watch(fd, err);
	void *p;

	if (rc < 0)
		goto fail;
	p = mmap(NULL, PL_WATCH_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		rc = map_err(PL_WATCH_BYTES, err);
		goto fail;
	}
	s.base = p;
	s.map_bytes = PL_WATCH_BYTES;
	*out = s;
	return 0;
fail:
	pl_seg_close(&s);
	return rc;
}

static int map_over(void *at, size_t len, int fd, off_t from,
		    struct pl_err *err)
{
	/* The kernel puts one mapping in the other's place in one step. */
	if (mmap(at, len, PROT_READ, MAP_SHARED | MAP_FIXED, fd, from) ==
	    MAP_FAILED)
		return map_err(len, err);
	return 0;
}

/* Takes fd; rc is what was done with it. */
static int replaced(struct pl_seg *s, int fd, int rc)
{
	if (rc < 0) {
		pl_close_fd(&fd);
		return rc;
	}
	pl_close_fd(&s->fd);
	s->fd = fd;
	return 0;
}

int pl_seg_lane_replace(struct pl_seg *s, int fd, struct pl_err *err)
{
	const size_t once = pl_seg_file_bytes(s->data_bytes);
	int rc = pl_seg_lane_check(fd, (uint32_t)s->data_bytes, err);

	/*
	 * The second mapping of the ring first: who finds a newer head, which
	 * comes with the other, must find its bytes in both.
	 */
	if (rc == 0)
		rc = map_over((char *)s->base + once, s->data_bytes, fd,
			      PL_SEG_CTL_BYTES, err);
	if (rc == 0)
		rc = map_over(s->base, once, fd, 0, err);
	return replaced(s, fd, rc);
}

int pl_seg_region_replace(struct pl_seg *s, int fd, size_t size,
			  struct pl_err *err)
{
	const size_t all = pl_seg_file_bytes(size);
	int rc = pl_seg_region_check(fd, size, err);

	if (rc == 0 && (all > s->map_bytes ||
			all < PL_SEG_CTL_BYTES + s->end_bytes))
		rc = pl_err_set(err, EPROTO, "%zu bytes can't take the place "
				"of a region with %zu", size, s->end_bytes);
	if (rc == 0)
		rc = map_over(s->base, all, fd, 0, err);
	if (rc == 0) {
		s->data_bytes = size;
		s->end_bytes = all - PL_SEG_CTL_BYTES;
	}
	return replaced(s, fd, rc);
}

int pl_seg_watch_replace(struct pl_seg *s, int fd, struct pl_err *err)
{
	int rc = check_watch(fd, err);

	if (rc == 0)
		rc = map_over(s->base, s->map_bytes, fd, 0, err);
	return replaced(s, fd, rc);
}

void pl_seg_drop_fd(struct pl_seg *s)
{
	pl_close_fd(&s->fd);
}

void pl_seg_close(struct pl_seg *s)
{
	if (s->base && s->map_bytes)
		munmap(s->base, s->map_bytes);
	pl_close_fd(&s->fd);
	*s = PL_SEG_NONE;
}
