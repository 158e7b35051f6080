/* daemonset/metrics_addresses.c - addresses of pods, for /metrics */
#include <inttypes.h>

#include "common/util.h"
#include "daemonset/agent_internal.h"
#include "daemonset/metrics_print.h"
#include "daemonset/notice.h"

void pl_metrics_addresses(const struct pl_agent *a, struct evbuffer *b)
{
	struct pl_ipam_usage u[PL_IPAM_MAX_RANGES];
	int n = pl_notice_addresses(a, u);
	char text[PL_PREFIX_STRLEN];

	family(b, "podlane_addresses", "gauge", "Addresses of pods that "
	       "podlane-ipam has; none where they come from elsewhere.");
	for (int i = 0; i < n; i++) {
		uint64_t used = PL_MIN(u[i].used, u[i].total);

		pl_prefix_str(&u[i].subnet, text);
		evbuffer_add_printf(b, "podlane_addresses{subnet=\"%s\","
				    "state=\"used\"} %" PRIu64 "\n"
				    "podlane_addresses{subnet=\"%s\","
				    "state=\"free\"} %" PRIu64 "\n", text,
				    used, text, u[i].total - used);
	}
}
