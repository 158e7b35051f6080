/*
 * daemonset/broker_rules.c - pods that break the rules of what they share
 *
 * Who shares a lane or region with such a pod gets an error from its library,
 * or through its replica; here it is said in the log which pod it was. Of lanes
 * to other nodes and of regions that other nodes follow the remote part knows
 * at once. Lanes within the node run without the agent, which looks at their
 * counters now and then, and when an end is over. There, a head and a tail that
 * do not go together may be either pod's work, so both are named.
 */
#include <stdatomic.h>

#include "common/log.h"
#include "daemonset/broker_internal.h"

static struct pl_region_own *region_by_id(struct pl_broker *b, uint64_t id)
{
	struct pl_region_own *r;
	struct pl_pod *pod;

	for (pod = b->pods->by_ns; pod; pod = pod->hh.next)
		for (r = pod->regions; r; r = r->hh.next)
			if (r->id == id)
				return r;
	return NULL;
}

void pl_broker_broke(struct pl_broker *b, uint64_t id, const char *rule)
{
	struct pl_region_own *r = region_by_id(b, id);
	struct pl_lane_rec *l;

	if (r) {
		pl_pod_complain(r->client->pod, "broke the rules of region "
				"'%s': %s", r->name, rule);
		return;
	}
	HASH_FIND(hh, b->lanes, &id, sizeof(id), l);
	for (int i = 0; l && i < PL_ENDS; i++) {
		if (!l->ends[i].client)
			continue;
		pl_pod_complain(l->ends[i].client->pod, "broke the rules of "
				"lane=%llu service=%s: %s",
				(unsigned long long)id, l->service, rule);
		return;
	}
	pl_warn("id=%llu: a pod that has gone broke the rules: %s",
		(unsigned long long)id, rule);
}

/* Read in this order, a pair that is right never looks wrong. */
static bool go_together(const struct pl_lane_end *end,
			const struct pl_lane_end *peer)
{
	uint64_t tail, head;

	tail = atomic_load_explicit(&peer->ctl->tail, memory_order_acquire);
	head = atomic_load_explicit(&end->ctl->head, memory_order_acquire);
	if (tail > head)
		return false;
	tail = atomic_load_explicit(&peer->ctl->tail, memory_order_acquire);
	return tail >= head || head - tail <= end->ring_bytes;
}

void pl_lane_end_rules(struct pl_lane_end *end)
{
	struct pl_lane_rec *l = end->lane;
	const struct pl_lane_end *peer =
		&l->ends[end == &l->ends[PL_END_FROM] ? PL_END_TO :
							PL_END_FROM];
	const struct pl_pod *other = peer->client ? peer->client->pod : NULL;

	if (end->rules_told || !end->client || !end->ctl || end->is_remote)
		return;
	if (atomic_load_explicit(&end->ctl->state, memory_order_relaxed) >
	    PL_STATE_CLOSED) {
		end->rules_told = true;
		pl_pod_complain(end->client->pod, "broke the rules of "
				"lane=%llu service=%s: its state is none",
				(unsigned long long)l->id, l->service);
		return;
	}
	if (!peer->ctl || peer->is_remote || go_together(end, peer))
		return;
	end->rules_told = true;
	pl_pod_complain(end->client->pod, "lane=%llu service=%s: its head does "
			"not go with the tail of pod %s/%s; one of them breaks "
			"the rules", (unsigned long long)l->id, l->service,
			other ? other->ns : "?", other ? other->name : "?");
}
