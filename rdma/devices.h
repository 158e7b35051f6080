/*
 * rdma/devices.h - which RDMA devices this machine has, from sysfs
 *
 * Needs no RDMA library and no privilege. Threads: all of it is reentrant.
 */
#ifndef RDMA_DEVICES_H
#define RDMA_DEVICES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/inet.h"

#define PL_RDMA_DEVICES "/sys/class/infiniband"
#define PL_RDMA_NAME_BYTES 64		/* IB_DEVICE_NAME_MAX */
#define PL_RDMA_GIDS_MAX 64

/*
 * An address by which rdma_cm finds a port of a device: of RoCE v2 an entry of
 * the port's table of GIDs, else an address of the device's network interface.
 */
struct pl_rdma_gid {
	char device[PL_RDMA_NAME_BYTES];
	int port;			/* from 1 on */
	int index;			/* of the GID; -1: it is none */
	bool is_active;			/* its port is */
	int numa;			/* node that it is near to; -1: any */
	struct pl_addr addr;
};

/* What the configuration wants. */
struct pl_rdma_want {
	const char *device;		/* NULL: any, and then so is the rest */
	int port;			/* 0: any */
	int index;			/* -1: any */
	struct pl_addr addr;		/* of this node: better than others */
};

/* Whether there is any device; root: PL_RDMA_DEVICES. */
bool pl_rdma_there(const char *root);

/* At most max of them, ordered by device, port and index; returns how many. */
size_t pl_rdma_gids(const char *root, struct pl_rdma_gid *out, size_t max);

/*
 * The one to use: what is wanted, of these first this node's address, then
 * active ports, then near_numa (-1: nothing is near), then the order of the
 * list. -ENODEV: there is none; the message names those that there are.
 */
int pl_rdma_choose(const struct pl_rdma_gid *all, size_t n,
		   const struct pl_rdma_want *want, int near_numa,
		   const struct pl_rdma_gid **out, struct pl_err *err);

#endif
