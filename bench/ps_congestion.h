/*
 * bench/ps_congestion.h - the TCP congestion control of namespaces and sockets
 *
 * A comparison of transports that both use TCP means little without it: bbr
 * paces what it sends, reno and cubic do not. A new network namespace starts
 * with what the machine has; sockets take what their namespace has when they
 * are made.
 */
#ifndef BENCH_PS_CONGESTION_H
#define BENCH_PS_CONGESTION_H

#include "common/err.h"

/* A name and its NUL: TCP_CA_NAME_MAX of the kernel. */
#define PS_CONGESTION_BYTES 16

/*
 * For the sockets to come of the namespace at path. -ENOENT: this kernel does
 * not have it; -EPERM: it may not be used in namespaces. Both say what to do.
 */
int ps_congestion_set(const char *netns, const char *name, struct pl_err *err);

/* name has PS_CONGESTION_BYTES. */
int ps_congestion_get(const char *netns, char *name, struct pl_err *err);

/* That of a TCP socket; "" when fd is none. */
void ps_congestion_of(int fd, char *name);

#endif
