/*
 * daemonset/metrics_peers.c - the numbers of other nodes, for /metrics
 *
 * All series of one name stand together, so nodes are looked at once, into a
 * buffer per name. Nodes that nothing was ever wanted of have no series.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/util.h"
#include "daemonset/metrics.h"
#include "daemonset/metrics_print.h"
#include "daemonset/remote.h"

enum family {
	F_UP, F_LANES, F_REPLICAS, F_BYTES, F_QPS, F_MRS, F_WRS, F_ERRORS,
	F_FALLBACKS, FAMILIES,
};

static const char *const families[FAMILIES][3] = {
	[F_UP] = { "podlane_peer_up", "gauge",
		   "Whether the agents are connected." },
	[F_LANES] = { "podlane_peer_lanes", "gauge",
		      "Lanes with that node." },
	[F_REPLICAS] = { "podlane_peer_region_replicas", "gauge",
			 "Replicas here of regions of that node, one for all "
			 "readers." },
	[F_BYTES] = { "podlane_peer_bytes_total", "counter",
		      "Bytes that carriers moved, since the agents "
		      "connected." },
	[F_QPS] = { "podlane_verbs_queue_pairs", "gauge",
		    "RDMA queue pairs in use with that node." },
	[F_MRS] = { "podlane_verbs_memory_regions", "gauge",
		    "Registrations of pods' memory and of replicas for it." },
	[F_WRS] = { "podlane_verbs_work_requests_total", "counter",
		    "Work requests that were posted for it." },
	[F_ERRORS] = { "podlane_verbs_completion_errors_total", "counter",
		       "Work requests that the device has failed." },
	[F_FALLBACKS] = { "podlane_verbs_fallbacks_total", "counter",
			  "How often lanes went from RDMA to TCP." },
};

struct peers {
	struct evbuffer *b[FAMILIES];
	unsigned int n_up, n_verbs;
	bool failed;
};

static void add(struct peers *p, enum family f, const char *node,
		const char *label, uint64_t v)
{
	if (evbuffer_add_printf(p->b[f], "%s{node=\"%s\"%s} %" PRIu64 "\n",
				families[f][0], node, label, v) < 0)
		p->failed = true;
}

static void see(const struct pl_remote_node *n, void *arg)
{
	bool is_up = !strcmp(n->state, "up");
	struct peers *p = arg;
	char name[LABEL_BYTES];

	p->n_up += is_up;
	p->n_verbs += n->queue_pairs > 0;
	if (!strcmp(n->state, "idle"))
		return;
	escape(n->name, name);
	add(p, F_UP, name, "", is_up);
	add(p, F_LANES, name, "", n->lanes);
	add(p, F_REPLICAS, name, "", n->replicas);
	add(p, F_BYTES, name, ",direction=\"sent\"", n->sent_bytes);
	add(p, F_BYTES, name, ",direction=\"received\"", n->received_bytes);
	/* Of nodes that RDMA was never used with: nothing. */
	if (!n->queue_pairs && !n->work_requests && !n->fallbacks)
		return;
	add(p, F_QPS, name, "", n->queue_pairs);
	add(p, F_MRS, name, "", n->memory_regions);
	add(p, F_WRS, name, "", n->work_requests);
	add(p, F_ERRORS, name, "", n->completion_errors);
	add(p, F_FALLBACKS, name, "", n->fallbacks);
}

int pl_metrics_peers(struct pl_remote *r, struct evbuffer *out)
{
	struct peers p = { .n_up = 0 };

	for (int f = 0; f < FAMILIES; f++) {
		p.b[f] = evbuffer_new();
		p.failed |= !p.b[f];
	}
	if (!p.failed)
		pl_remote_nodes(r, see, &p);
	for (int f = 0; f < FAMILIES; f++) {
		if (!p.failed) {
			family(out, families[f][0], families[f][1],
			       families[f][2]);
			evbuffer_add_buffer(out, p.b[f]);
		}
		if (p.b[f])
			evbuffer_free(p.b[f]);
	}
	one(out, "podlane_peers_connected", "gauge", "Nodes whose agents are "
	    "connected with this one.", p.n_up);
	one(out, "podlane_verbs_connections", "gauge", "Nodes that lanes go to "
	    "by RDMA.", p.n_verbs);
	return p.failed ? -ENOMEM : 0;
}
