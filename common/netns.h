/*
 * common/netns.h - enter a network namespace and come back
 *
 * setns() moves the calling thread only. A thread that can't come back must not
 * go on: pl_netns_leave then aborts the process, as anything else would run in
 * a foreign namespace.
 */
#ifndef COMMON_NETNS_H
#define COMMON_NETNS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

/*
 * Open path and check that it is a network namespace (nsfs, of the network
 * type). -ENOENT: gone; -EINVAL: something else is there.
 */
int pl_netns_open(const char *path, int *fd, struct pl_err *err);

/* Device and inode, which together name a namespace while it lives. */
int pl_netns_id(int fd, uint64_t *dev, uint64_t *ino);
bool pl_netns_same(int fd_a, int fd_b);

/* Enter fd; *home is to be given to pl_netns_leave. */
int pl_netns_enter(int fd, int *home, struct pl_err *err);
void pl_netns_leave(int home);

#endif
