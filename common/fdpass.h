/*
 * common/fdpass.h - one message with descriptors over a Unix socket
 *
 * Needs libc only. Received descriptors are close-on-exec; descriptors beyond
 * max_fds are closed by the kernel and reported as -EPROTO.
 */
#ifndef COMMON_FDPASS_H
#define COMMON_FDPASS_H

#include <stddef.h>
#include <sys/types.h>

#define PL_FDPASS_MAX 4

/*
 * Send len bytes with n_fds descriptors (which the caller keeps). flags as for
 * sendmsg, MSG_NOSIGNAL is added. 0 or -errno; a partial send on a stream
 * socket is -EMSGSIZE.
 */
int pl_fdpass_send(int sock, const void *data, size_t len, const int *fds,
		   int n_fds, int flags);

/*
 * Receive one message. Returns its length (0: end of stream, or an empty
 * packet, without its descriptors) or -errno; -EMSGSIZE when it did not fit.
 * fds[0 .. *n_fds) then belong to the caller, the other elements up to max_fds
 * are -1. On error none are left open.
 */
ssize_t pl_fdpass_recv(int sock, void *data, size_t size, int *fds, int max_fds,
		       int *n_fds, int flags);

#endif
