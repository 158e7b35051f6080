/*
 * tests/fuzz/fuzz_segment.c - descriptors that are said to be segments
 *
 * A file of any kind, size and seals with any header. What is accepted is used
 * as a lane and as a region: nothing in it can hurt the reader.
 */
#include <fcntl.h>
#include <limits.h>
#include <sys/socket.h>

#include "shm/lane.h"
#include "shm/region.h"
#include "tests/fuzz/fuzz.h"

/* A header that is right, of a lane or a region. */
static size_t header(struct fuzz *f, void *to, uint32_t bytes)
{
	struct pl_lane_seg lane = { .magic = PL_LANE_MAGIC,
				    .version = PL_LAYOUT_VERSION,
				    .ring_bytes = bytes };
	struct pl_region_seg *region = to;

	if (fuzz_u8(f) & 1) {
		memcpy(to, &lane, sizeof(lane));
		return sizeof(lane);
	}
	memset(to, 0, sizeof(*region));
	region->magic = PL_REGION_MAGIC;
	region->version_layout = PL_LAYOUT_VERSION;
	region->log_entries = PL_REGION_LOG;
	region->size = bytes;
	return offsetof(struct pl_region_seg, log);
}

/* how: 0x80 with a header, 0x40 of which some bytes are wrong, 0x20 no hole. */
static int make(struct fuzz *f, uint32_t data_bytes)
{
	static const uint32_t sizes[] = { PL_WATCH_BYTES, PL_SEG_CTL_BYTES,
					  2 * PL_SEG_CTL_BYTES,
					  3 * PL_SEG_CTL_BYTES, 100, 0 };
	uint8_t how = fuzz_u8(f), seals = fuzz_u8(f);
	uint32_t bytes = sizes[how % 8 % PL_ARRAY_SIZE(sizes)];
	struct pl_region_seg h;
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	size_t n;

	HOLDS(fd >= 0 && ftruncate(fd, bytes) == 0);
	if (how & 0x80) {
		n = header(f, &h, data_bytes);
		if (how & 0x40)
			fuzz_take(f, (char *)&h + fuzz_u8(f) % 120, 8);
		HOLDS(pwrite(fd, &h, n, 0) == (ssize_t)n);
	}
	if (bytes && (how & 0x20))
		HOLDS(fallocate(fd, 0, 0, bytes) == 0);
	if (seals)
		fcntl(fd, F_ADD_SEALS, seals & 0x80 ? PL_SEG_SEALS :
						      (int)(seals & 0x1f));
	return fd;
}

static void as_lane(int fd, uint32_t ring)
{
	struct pl_lane_parts parts = { .own = PL_SEG_NONE };
	struct pl_err err = { 0 };
	struct pl_lane *l;
	char buf[128];
	int fds[2];

	if (pl_seg_lane_open(dup(fd), ring, &parts.peer, &err) < 0) {
		HOLDS(err.code > 0 && err.msg[0]);
		return;
	}
	HOLDS(pl_seg_lane_create(PL_RING_MIN, &parts.own, &err) == 0);
	HOLDS(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	parts.bell = fds[0];
	HOLDS(pl_lane_attach(&parts, &l, &err) == 0);
	pl_lane_recv(l, buf, sizeof(buf), PL_DONTWAIT);
	pl_lane_send(l, buf, sizeof(buf), PL_DONTWAIT);
	pl_lane_close(l);
	close(fds[1]);
}

static void as_region(int fd, size_t size)
{
	struct pl_region_parts parts = { .watch = PL_SEG_NONE, .bell = -1 };
	struct pl_region_info info = { .name = "r" };
	struct pl_err err = { 0 };
	struct pl_region *r;

	if (pl_seg_region_open(dup(fd), size, &parts.seg, &err) < 0) {
		HOLDS(err.code > 0 && err.msg[0]);
		return;
	}
	parts.info = &info;
	HOLDS(pl_region_attach(&parts, &r, &err) == 0);
	HOLDS(pl_region_size(r) == size);
	pl_region_version(r);
	pl_region_wait(r, 1, 0);
	HOLDS(((volatile char *)pl_region_data(r))[size - 1] >= CHAR_MIN);
	pl_region_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz f = { data, size };
	struct pl_seg watch = PL_SEG_NONE;
	uint8_t what = fuzz_u8(&f);
	uint32_t bytes = what & 0x80 ? fuzz_u32(&f) : PL_RING_MIN << what % 3;
	int fd = make(&f, bytes);

	as_lane(fd, bytes);
	as_region(fd, bytes);
	if (pl_seg_watch_open(dup(fd), &watch, NULL) == 0)
		pl_seg_close(&watch);
	close(fd);
	return 0;
}
