/* daemonset/broker_list.c - pods, lanes, regions and nodes as JSON */
#include <stdio.h>
#include <string.h>

#include "common/util.h"
#include "daemonset/broker_internal.h"
#include "shm/sum.h"

static void add_addr(cJSON *j, const char *key, const struct pl_addr *a)
{
	char buf[INET6_ADDRSTRLEN] = "";

	if (a->family)
		pl_addr_str(a, buf);
	cJSON_AddStringToObject(j, key, buf);
}

static void add_num(cJSON *j, const char *key, uint64_t v)
{
	cJSON_AddNumberToObject(j, key, (double)pl_stat(v));
}

void pl_pod_traffic(const struct pl_pod *pod, struct pl_flow *tx,
		    struct pl_flow *rx)
{
	const struct pl_client *c;
	const struct pl_lane_end *e;

	pl_pod_counts_flows(pod->counts, tx, rx);
	LIST_FOREACH(c, &pod->clients, of_pod)
		LIST_FOREACH(e, &c->lane_ends, of_client) {
			struct pl_flows f;

			pl_flows_read(e->ctl, &f);
			pl_flow_add(tx, &f.tx);
			pl_flow_add(rx, &f.rx);
		}
}

void pl_pod_wakes(const struct pl_pod *pod, struct pl_wakes *out)
{
	const struct pl_client *c;
	const struct pl_lane_end *e;

	pl_pod_counts_wakes(pod->counts, out);
	LIST_FOREACH(c, &pod->clients, of_pod)
		LIST_FOREACH(e, &c->lane_ends, of_client)
			pl_wakes_add(out, e->ctl);
}

static void add_traffic(cJSON *j, const struct pl_pod *pod)
{
	struct pl_flow tx, rx;

	pl_pod_traffic(pod, &tx, &rx);
	cJSON_AddItemToObject(j, "sent", pl_flow_json(&tx, true));
	cJSON_AddItemToObject(j, "received", pl_flow_json(&rx, true));
	add_num(j, "lanesEver", pod->usage.lanes +
		pl_stat_read(&pod->counts->events[PL_POD_LANES]));
	add_num(j, "complaints",
		pl_stat_read(&pod->counts->events[PL_POD_COMPLAINTS]));
}

static void add_limits(cJSON *j, const struct pl_pod *pod)
{
	const struct pl_limits *l = &pod->pods->limits;
	cJSON *k = cJSON_AddObjectToObject(j, "limits");

	add_num(k, "connections", l->connections);
	add_num(k, "listeners", l->listeners);
	add_num(k, "lanes", l->lanes);
	add_num(k, "regions", l->regions);
	add_num(k, "bytes", pl_pod_bytes_max(pod));
}

cJSON *pl_list_pods(const struct pl_pods *p)
{
	cJSON *list = cJSON_CreateArray();
	const struct pl_reg *reg;

	for (reg = p->regs; reg; reg = reg->hh.next) {
		const struct pl_usage *u = &reg->pod->usage;
		cJSON *j = pl_reg_json(reg);

		cJSON_AddBoolToObject(j, "listening",
				      reg->pod->listen_fd >= 0);
		add_num(j, "connections", u->connections);
		add_num(j, "listeners", u->listeners);
		add_num(j, "lanes", u->lanes);
		add_num(j, "regions", u->regions);
		add_num(j, "bytes", u->bytes);
		add_limits(j, reg->pod);
		cJSON_AddItemToObject(j, "refused", pl_counts_refused_json(
				      reg->pod->counts));
		add_traffic(j, reg->pod);
		cJSON_AddItemToArray(list, j);
	}
	return list;
}

/* "" for one of another node. */
static void add_pod(cJSON *j, const char *key, const struct pl_lane_end *e)
{
	const struct pl_pod *pod = e->client ? e->client->pod : NULL;
	char buf[320] = "";

	if (pod)
		snprintf(buf, sizeof(buf), "%s/%s", pod->ns, pod->name);
	cJSON_AddStringToObject(j, key, buf);
}

/* What one end says: how much it sent, and the rest if it counts. */
static void add_end(cJSON *j, const struct pl_lane_end *e, const char *bytes,
		    const char *messages, const char *sums, const char *end)
{
	struct pl_flows f;
	cJSON *k;

	pl_flows_read(e->ctl, &f);
	add_num(j, bytes, f.tx.n[PL_FLOW_BYTES]);
	if (f.has_counts || e->is_remote)
		add_num(j, messages, f.tx.n[PL_FLOW_MESSAGES]);
	cJSON_AddBoolToObject(j, sums, e->ctl && (atomic_load_explicit(
			      &e->ctl->sum, memory_order_relaxed) & PL_SUM_ON));
	if (e->is_remote) {
		k = pl_carry_json(e->ctl);
		if (k)
			cJSON_AddItemToObject(j, "carried", k);
		return;
	}
	k = cJSON_AddObjectToObject(j, end);
	cJSON_AddItemToObject(k, "sent", pl_flow_json(&f.tx, f.has_counts));
	cJSON_AddItemToObject(k, "received",
			      pl_flow_json(&f.rx, f.has_counts));
}

static const char *lane_state(const struct pl_lane_rec *l)
{
	const struct pl_lane_end *from = &l->ends[PL_END_FROM];
	const struct pl_lane_end *to = &l->ends[PL_END_TO];

	if (!l->is_open)
		return "connecting";
	if ((from->client || from->is_remote) && (to->client || to->is_remote))
		return "open";
	return "half closed";
}

/* With a carrier that can do both, bytes may go another way than at first. */
static const char *path_now(const struct pl_broker *b, const char *node,
			    const char *first)
{
	const char *now = node[0] && b->remote ?
				  pl_remote_path(b->remote, node) : NULL;

	return now ? now : first;
}

cJSON *pl_list_lanes(const struct pl_broker *b)
{
	cJSON *list = cJSON_CreateArray();
	const struct pl_lane_rec *l;

	for (l = b->lanes; l; l = l->hh.next) {
		const struct pl_lane_end *from = &l->ends[PL_END_FROM];
		const struct pl_lane_end *to = &l->ends[PL_END_TO];
		cJSON *j = cJSON_CreateObject();

		add_num(j, "id", l->id);
		add_addr(j, "from", &from->addr);
		add_addr(j, "to", &to->addr);
		add_pod(j, "fromPod", from);
		add_pod(j, "toPod", to);
		cJSON_AddStringToObject(j, "service", l->service);
		cJSON_AddStringToObject(j, "path",
					path_now(b, l->node, l->path));
		cJSON_AddStringToObject(j, "node", l->node);
		cJSON_AddStringToObject(j, "state", lane_state(l));
		add_end(j, from, "sentBytes", "sentMessages", "sentChecksum",
			"fromEnd");
		add_end(j, to, "receivedBytes", "receivedMessages",
			"receivedChecksum", "toEnd");
		cJSON_AddItemToArray(list, j);
	}
	return list;
}

static cJSON *region_json(const struct pl_region_own *r)
{
	const struct pl_addr *own = pl_pod_addr(r->client->pod, AF_INET);
	cJSON *j = cJSON_CreateObject();

	add_num(j, "id", r->id);
	cJSON_AddStringToObject(j, "name", r->name);
	add_addr(j, "owner", own ? own : &(struct pl_addr){ 0 });
	cJSON_AddStringToObject(j, "node", "");
	cJSON_AddStringToObject(j, "path", "shm");
	add_num(j, "sizeBytes", pl_region_size_now(r));
	add_num(j, "maxBytes", r->max_size);
	add_num(j, "version", atomic_load_explicit(&r->ctl->version,
						   memory_order_relaxed));
	add_num(j, "readers", r->n_openings);
	return j;
}

static cJSON *opening_json(const struct pl_broker *b,
			   const struct pl_region_opening *o)
{
	cJSON *j = cJSON_CreateObject();

	add_num(j, "id", o->id);
	cJSON_AddStringToObject(j, "name", o->name);
	add_addr(j, "owner", &o->owner);
	cJSON_AddStringToObject(j, "node", o->node);
	cJSON_AddStringToObject(j, "path", o->is_pending ? "opening" :
				path_now(b, o->node, o->path));
	/* What it has grown by is known in whole segments. */
	add_num(j, "sizeBytes", o->end > pl_seg_round(o->size) ? o->end :
								 o->size);
	cJSON_AddNullToObject(j, "version");
	add_num(j, "readers", 1);
	return j;
}

/* Own regions with the number of readers here, then each opened replica. */
cJSON *pl_list_regions(const struct pl_broker *b)
{
	cJSON *list = cJSON_CreateArray();
	const struct pl_region_opening *o;
	const struct pl_region_own *r;
	const struct pl_pod *pod;

	for (pod = b->pods->by_ns; pod; pod = pod->hh.next)
		for (r = pod->regions; r; r = r->hh.next)
			cJSON_AddItemToArray(list, region_json(r));
	for (o = b->openings; o; o = o->hh.next)
		if (!o->region)
			cJSON_AddItemToArray(list, opening_json(b, o));
	return list;
}

static void add_remote_node(const struct pl_remote_node *n, void *arg)
{
	cJSON *j = NULL, *k;

	cJSON_ArrayForEach(k, (cJSON *)arg) {
		const cJSON *name = cJSON_GetObjectItem(k, "name");

		if (name && !strcmp(name->valuestring, n->name))
			j = k;
	}
	if (!j)
		return;
	cJSON_AddStringToObject(j, "carrier", n->carrier);
	cJSON_AddStringToObject(j, "security", n->security);
	if (*n->congestion)
		cJSON_AddStringToObject(j, "congestionControl", n->congestion);
	cJSON_AddStringToObject(j, "state", n->state);
	add_num(j, "lanes", n->lanes);
	add_num(j, "replicas", n->replicas);
	add_num(j, "sentBytes", n->sent_bytes);
	add_num(j, "receivedBytes", n->received_bytes);
	if (!n->work_requests && !n->fallbacks)
		return;
	add_num(j, "rdmaBytes", n->rdma_bytes);
	add_num(j, "rdmaCopiedBytes", n->rdma_copied_bytes);
	add_num(j, "workRequests", n->work_requests);
	add_num(j, "completions", n->completions);
	add_num(j, "doorbells", n->doorbells);
	add_num(j, "wakeups", n->wakeups);
	add_num(j, "completionErrors", n->completion_errors);
	add_num(j, "fallbacks", n->fallbacks);
	add_num(j, "queuePairs", n->queue_pairs);
	add_num(j, "memoryRegions", n->memory_regions);
}

static cJSON *node_json(const struct pl_broker *b, const struct pl_node *n)
{
	cJSON *j = cJSON_CreateObject(), *cidrs;
	char buf[PL_PREFIX_STRLEN];

	cJSON_AddStringToObject(j, "name", n->name);
	add_addr(j, "address", &n->address);
	cidrs = cJSON_AddArrayToObject(j, "podCIDRs");
	for (int i = 0; i < n->n_cidrs; i++)
		cJSON_AddItemToArray(cidrs, cJSON_CreateString(
			pl_prefix_str(&n->cidrs[i], buf)));
	if (!strcmp(n->name, b->node))
		cJSON_AddStringToObject(j, "state", "this node");
	return j;
}

cJSON *pl_list_nodes(const struct pl_broker *b)
{
	cJSON *list = cJSON_CreateArray();

	for (size_t i = 0; b->registry && i < b->registry->n; i++)
		cJSON_AddItemToArray(list,
				     node_json(b, &b->registry->nodes[i]));
	if (b->remote)
		pl_remote_nodes(b->remote, add_remote_node, list);
	return list;
}
