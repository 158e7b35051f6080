/*
 * bench/resolve.h - host names of other pods, as a cluster's DNS has them
 */
#ifndef BENCH_RESOLVE_H
#define BENCH_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* Of a DNS name, RFC 1035 2.3.4, and the NUL. */
#define BENCH_HOST_BYTES 254

/* An IP address, or what may be a name: "10.0.0.256" is neither. */
bool bench_host_valid(const char *host);

/*
 * The first address of a name, or of an address, as text. -EHOSTUNREACH: there
 * is none, or none yet: the name of a pod comes with the pod.
 */
int bench_resolve(const char *host, char *addr, size_t size,
		  struct pl_err *err);

/* The same, asking again until end_ns of pl_now_ns(). */
int bench_resolve_wait(const char *host, uint64_t end_ns, char *addr,
		       size_t size, struct pl_err *err);

#endif
