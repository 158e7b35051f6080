/*
 * plugin/bandwidth.h - limits of a pod's bandwidth
 *
 * Keys and meaning are the reference bandwidth plugin's: ingress is what the
 * pod receives, rates are in bits per second, bursts in bits, and a packet
 * waits 25 ms at most. What the pod receives is limited at the host's end of
 * its pair; what it sends, on an ifb device of its own, to which that end
 * hands what comes from the pod. Lanes are not limited.
 */
#ifndef PLUGIN_BANDWIDTH_H
#define PLUGIN_BANDWIDTH_H

#include <stdbool.h>
#include <stdint.h>
#include <cjson/cJSON.h>

#include "common/nl.h"

/* Both 0: no limit. */
struct pl_rate {
	uint64_t bits_per_s, burst_bits;
};

struct pl_bandwidth {
	struct pl_rate ingress, egress;
};

/*
 * runtimeConfig.bandwidth, or without it the keys of the configuration itself.
 * -EINVAL: a rate without a burst, or the other way round, or too large a one.
 */
int pl_bandwidth_parse(const cJSON *json, struct pl_bandwidth *b,
		       struct pl_err *err);

bool pl_bandwidth_any(const struct pl_bandwidth *b);

/*
 * Set the limits of a new pair; mtu is the pair's. *ifb is made when the pod's
 * sending is limited, under that name. On failure it may be there.
 */
int pl_bandwidth_set(struct pl_nl *host, const struct pl_bandwidth *b,
		     const struct pl_link *port, const char *ifb_name,
		     struct pl_link *ifb, struct pl_err *err);

/* All of it is there; the message says what is not. -ENOENT */
int pl_bandwidth_check(struct pl_nl *host, const struct pl_bandwidth *b,
		       const struct pl_link *port, const char *ifb_name,
		       struct pl_err *err);

#endif
