/*
 * daemonset/seg_check.h - segments that pods hand over
 *
 * What shm/segment.h asks of a segment is checked once, before it is passed on
 * or kept; then only the page of its counters stays mapped.
 */
#ifndef DAEMONSET_SEG_CHECK_H
#define DAEMONSET_SEG_CHECK_H

#include <stdint.h>

#include "common/err.h"
#include "shm/layout.h"

/* fd stays the caller's. *ctl: read-only; what is in it is not to be trusted */
int pl_seg_take_lane(int fd, uint32_t ring_bytes,
		     const struct pl_lane_seg **ctl, struct pl_err *err);
int pl_seg_take_region(int fd, uint64_t size, const struct pl_region_seg **ctl,
		       struct pl_err *err);

/* NULL: nothing. */
void pl_seg_put_lane(const struct pl_lane_seg *ctl);
void pl_seg_put_region(const struct pl_region_seg *ctl);

#endif
