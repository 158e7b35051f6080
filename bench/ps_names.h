/*
 * bench/ps_names.h - how a role is told where the others are
 *
 * A name with a '%' stands for one name per rank, so that "worker-%.ps" are
 * all workers of a job, however many it has. Names become addresses when the
 * role starts.
 */
#ifndef BENCH_PS_NAMES_H
#define BENCH_PS_NAMES_H

#include "bench/ps_options.h"

/* The rank in the place of '%', for n ranks; other lists stay. */
int ps_names_expand(struct ps_addrs *list, unsigned int n, const char *option,
		    struct pl_err *err);

/*
 * Of those that this job's strategy talks to. Waits for them, o->timeout_s at
 * most.
 */
int ps_names_resolve(struct ps_opts *o, struct pl_err *err);

#endif
