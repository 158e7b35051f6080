/* daemonset/overlay_internal.h - between the parts of the overlay */
#ifndef DAEMONSET_OVERLAY_INTERNAL_H
#define DAEMONSET_OVERLAY_INTERNAL_H

#include "daemonset/overlay.h"

/* The interface that carries the encapsulated packets. */
struct pl_underlay {
	struct pl_link link;
	struct pl_addr local;
};

/* Make the device as it should be; *index is then its index. */
int pl_overlay_device(struct pl_overlay *o, const struct pl_underlay *u,
		      int *index, struct pl_err *err);

/*
 * Addresses, routes, neighbours and forwarding entries of device index. The
 * first failure is returned, after everything else was done.
 */
int pl_overlay_entries(struct pl_overlay *o, int index,
		       const struct pl_registry *reg, const struct pl_node *own,
		       struct pl_err *err);

/* Let this node forward the packets of its pods. */
int pl_overlay_forwarding(const struct pl_node *own, const char *underlay,
			  struct pl_err *err);

#endif
