/*
 * daemonset/guard.h - descriptors from pods that do not want to be closed
 *
 * Theory of operation
 *
 * Whoever can send to a Unix socket can send descriptors. When they are not
 * taken, or the socket is closed while they are queued, the kernel closes them
 * in the name of the receiver; and if that was the last reference, the receiver
 * waits for whatever the close waits for. For a TCP connection with SO_LINGER
 * and data that its peer does not take that is as long as its owner likes:
 * one pod could stop the agent. That wait ends when a signal is pending, so the
 * calls that may close such descriptors run under an interval timer, which
 * costs two system calls. Doorbells are read too often for that: their
 * descriptors are taken, and closed one by one, if there are any at all.
 *
 * A file whose close flushes to a server that is gone (NFS) can't be
 * interrupted. Since Linux 6.16 doorbells refuse descriptors altogether.
 */
#ifndef DAEMONSET_GUARD_H
#define DAEMONSET_GUARD_H

#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"

/* Once, before the other calls: SIGALRM gets a handler that does nothing. */
int pl_guard_init(struct pl_err *err);

/* close(), and sets *fd to -1; may be called with -1. */
void pl_guard_close(int *fd);

/* pl_fdpass_recv with MSG_DONTWAIT. */
ssize_t pl_guard_recv(int sock, void *data, size_t size, int *fds, int max_fds,
		      int *n_fds);

/*
 * Take wake-ups from a doorbell, without waiting: their number, 0 at its end,
 * -errno.
 */
ssize_t pl_guard_drain(int bell);

/*
 * A doorbell: two connected, non-blocking ends, which refuse descriptors where
 * the kernel can.
 */
int pl_bell_pair(int fds[2], struct pl_err *err);

#endif
