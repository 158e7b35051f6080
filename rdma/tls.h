/*
 * rdma/tls.h - agents prove to each other who they are: TLS 1.3
 *
 * pl_tls_keys is what the files of the configuration say, pl_tls one
 * connection. A connection has buffers of its own between TLS and its socket,
 * so that a system call moves many records. It never reads more from the socket
 * than it was asked to: when `exact` says so, not one byte past the record that
 * was needed, so that plain text may follow on the same socket.
 *
 * With certificates each side must show one that the cluster's CA signed. The
 * side that connects also checks that it is the peer's whose name it knows; the
 * accepting side learns the name later and then asks pl_tls_is_peer. Names are
 * DNS subject alternative names without wildcards.
 *
 * A pre-shared key proves that the peer is one of the nodes that have it, not
 * which one. As an attacker could send a node's own messages back to it, what
 * is said inside must name both ends, and each must refuse its own name.
 *
 * One thread; nothing is shared between connections but keys.
 */
#ifndef RDMA_TLS_H
#define RDMA_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "common/err.h"
#include "rdma/carrier.h"

struct pl_tls_keys;
struct pl_tls;

/*
 * Reads the files; s (and its paths) must outlive the result. -EPERM: others
 * can read a secret. -EINVAL: a file is not what it must be, or the certificate
 * is not for `node`. A certificate that is not valid today is warned about.
 */
int pl_tls_keys_open(const struct pl_carrier_security *s, const char *node,
		     struct pl_tls_keys **out, struct pl_err *err);
/* Connections that are there keep what they need. NULL is none. */
void pl_tls_keys_close(struct pl_tls_keys *k);

/*
 * 1: the files have changed and were read again; 0: they have not, or not since
 * they were found to be wrong; -errno: they are wrong, what was read before
 * stays in use.
 */
int pl_tls_keys_refresh(struct pl_tls_keys *k, struct pl_err *err);

/* peer: whom we connect to; NULL: accept. NULL is returned without memory. */
struct pl_tls *pl_tls_create(struct pl_tls_keys *k, const char *peer);
/* NULL is none. Says nothing to the peer. */
void pl_tls_destroy(struct pl_tls *t);

/*
 * Goes on with the handshake as far as fd (non-blocking) lets it. 0: both are
 * who they must be. -EAGAIN: when it is readable, or writable where
 * pl_tls_unsent says so. Else it has failed and err says why: -EKEYREJECTED,
 * -EKEYEXPIRED, -EPROTO, -ECONNRESET.
 */
int pl_tls_handshake(struct pl_tls *t, int fd, struct pl_err *err);

/* After the handshake: may the peer call itself this node? */
bool pl_tls_is_peer(const struct pl_tls *t, const char *node);

enum pl_tls_fill {
	PL_TLS_HELD,			/* only what was read from fd before */
	PL_TLS_EXACT,			/* also from fd, what this needs */
	PL_TLS_AHEAD,			/* also from fd, what is there */
};

/*
 * Fills iov (changed) as far as possible. Less than asked for: there is no more
 * at the moment. -EAGAIN, -ECONNRESET, or as pl_tls_handshake with err set.
 */
ssize_t pl_tls_read(struct pl_tls *t, int fd, enum pl_tls_fill fill,
		    struct iovec *iov, size_t n, struct pl_err *err);

/* Bytes that were read from the socket and not yet from here, at least. */
size_t pl_tls_held(const struct pl_tls *t);

/*
 * Encrypts from iov what the buffer takes, in whole or in part: the number of
 * bytes, which are not needed any more; 0: flush first. -EIO.
 */
ssize_t pl_tls_write(struct pl_tls *t, const struct iovec *iov, size_t n);

/* Sends what is encrypted. 0: all is sent; -EAGAIN; -errno. */
int pl_tls_flush(struct pl_tls *t, int fd);

/* Bytes that are encrypted and not sent. */
size_t pl_tls_unsent(const struct pl_tls *t);

/* System calls since this was last asked. */
unsigned int pl_tls_syscalls(struct pl_tls *t);

#endif
