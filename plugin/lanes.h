/*
 * plugin/lanes.h - whether a pod gets lanes, and how much it may share
 *
 * The configuration's key "lanes" ("enabled", the default, or "disabled") says
 * it for all pods, a pod's annotations for that pod. A runtime that knows the
 * capability io.kubernetes.cri.pod-annotations passes them on:
 *
 *   podlane.io/lanes: "enabled" | "disabled"
 *   podlane.io/memory-limit: a quantity of Kubernetes, "64Mi"
 *   podlane.io/allow: namespaces, "monitoring,serving", or "*"
 *
 * A pod without lanes is not registered with the agent and does not need one.
 */
#ifndef PLUGIN_LANES_H
#define PLUGIN_LANES_H

#include <stdbool.h>
#include <stdint.h>
#include <cjson/cJSON.h>

#include "common/agentapi.h"
#include "common/err.h"

#define PL_LANES_NO_LIMIT UINT64_MAX
/* What a JSON number holds exactly. */
#define PL_LANES_LIMIT_MAX (UINT64_C(1) << 53)

struct pl_lanes {
	bool enabled;
	uint64_t memory_limit;		/* bytes; PL_LANES_NO_LIMIT */
	char allow[PL_AGENT_ALLOW_MAX];	/* see common/agentapi.h; "": none */
};

/* -EINVAL: a word or a quantity that is none; *l is right up to there. */
int pl_lanes_parse(const cJSON *json, struct pl_lanes *l, struct pl_err *err);

/*
 * A quantity as Kubernetes writes it: digits with at most one point, then
 * nothing, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei, or e and an exponent; a
 * fraction of a byte is rounded up. -EINVAL, -ERANGE (above LIMIT_MAX)
 */
int pl_lanes_quantity(const char *s, uint64_t *bytes);

#endif
