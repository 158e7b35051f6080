/* daemonset/seg_check.c - segments that pods hand over */
#include "daemonset/seg_check.h"

#include <errno.h>
#include <sys/mman.h>

#include "common/util.h"
#include "shm/segment.h"

#define REGION_CTL_BYTES offsetof(struct pl_region_seg, log)

static int map(int fd, size_t len, const void **out, struct pl_err *err)
{
	void *p = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return pl_err_sys(err, "cannot map the segment");
	*out = p;
	return 0;
}

int pl_seg_take_lane(int fd, uint32_t ring_bytes,
		     const struct pl_lane_seg **ctl, struct pl_err *err)
{
	const void *p = NULL;
	int rc = pl_seg_lane_check(fd, ring_bytes, err);

	if (rc < 0)
		return rc;
	rc = map(fd, sizeof(**ctl), &p, err);
	*ctl = p;
	return rc;
}

int pl_seg_take_region(int fd, uint64_t size, const struct pl_region_seg **ctl,
		       struct pl_err *err)
{
	const void *p = NULL;
	int rc = pl_seg_region_check(fd, size, err);

	if (rc < 0)
		return rc;
	rc = map(fd, REGION_CTL_BYTES, &p, err);
	*ctl = p;
	return rc;
}

void pl_seg_put_lane(const struct pl_lane_seg *ctl)
{
	if (ctl)
		munmap((void *)ctl, sizeof(*ctl));
}

void pl_seg_put_region(const struct pl_region_seg *ctl)
{
	if (ctl)
		munmap((void *)ctl, REGION_CTL_BYTES);
}
