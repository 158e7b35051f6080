/*
 * bench/ps_usage.h - what a run takes: CPU time by role, bytes on the wire
 *
 * Counters are looked at all the time while a run goes on, so that afterwards
 * the interval that the workers measured can be cut out of them.
 */
#ifndef BENCH_PS_USAGE_H
#define BENCH_PS_USAGE_H

#include <stdint.h>

#include "common/err.h"
#include "bench/ps_child.h"
#include "bench/ps_cluster.h"

enum ps_counter {
	PS_BUSY,		/* all cores, interrupts included; ns */
	PS_CPU_SERVERS, PS_CPU_WORKERS, PS_CPU_AGENTS,	/* ns */
	PS_WIRE_OUT, PS_WIRE_BACK,	/* node 1 to 2, 2 to 1; bytes */
	PS_COUNTERS,
};

struct ps_usage;

/*
 * Of children at work, the first n_servers of which are servers. Both stay the
 * caller's, and are only read.
 */
int ps_usage_create(const struct ps_cluster *c, const struct ps_child *child,
		    unsigned int n, unsigned int n_servers,
		    struct ps_usage **out, struct pl_err *err);
void ps_usage_destroy(struct ps_usage *u);

void ps_usage_sample(struct ps_usage *u);

/*
 * How far the counter went from one time of pl_now_ns() to another. Between
 * two samples it is taken to go evenly.
 */
double ps_usage_between(const struct ps_usage *u, enum ps_counter which,
			uint64_t from_ns, uint64_t to_ns);

#endif
