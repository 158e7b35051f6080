/*
 * bench/ps_wire.h - the wire between the nodes: its rate and its delay
 *
 * The veth pair between the nodes is as fast as the machine. To repeat what was
 * measured on real networks, each end gets a token bucket (tbf) for what it
 * sends, or netem where packets are to be late as well.
 */
#ifndef BENCH_PS_WIRE_H
#define BENCH_PS_WIRE_H

#include <stdint.h>

#include "common/err.h"

struct ps_wire {
	uint64_t bytes_per_s;		/* each way; 0: not limited */
	uint64_t delay_ns;		/* each way */
};

/* "10g", "2.5g", "500m", "10g,50us", "1g,1ms". -EINVAL says what to give. */
int ps_wire_parse(const char *text, struct ps_wire *w, struct pl_err *err);

/*
 * Limit what the link of this name in this namespace sends. -EOPNOTSUPP: the
 * kernel can't, err says which module it lacks.
 */
int ps_wire_apply(const struct ps_wire *w, const char *netns,
		  const char *link, struct pl_err *err);

#endif
