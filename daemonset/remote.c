/*
 * daemonset/remote.c - lanes and regions whose other end is on another node
 *
 * The calls of remote.h that concern all of the remote part, and the carrier's
 * callbacks: who may connect, who is up, and what to do with a message. The
 * other files are listed in remote_internal.h.
 *
 * The carrier lives while the registry has this node, at one address; when
 * either changes, all remote lanes and replicas end and a new one is made.
 * Nodes are connected when a pod wants something of them, and stay connected.
 */
#include "daemonset/remote_internal.h"

#include <errno.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"
#include "daemonset/numa.h"

/* --- messages ------------------------------------------------------------ */

static const struct {
	size_t len;
	void (*fn)(struct pl_rnode *n, const void *msg);
} messages[PL_PEER_TYPES] = {
	[PL_PEER_LANE_OPEN] = { sizeof(struct pl_peer_lane_open),
				pl_rlane_on_open },
	[PL_PEER_LANE_ACCEPT] = { sizeof(struct pl_peer_lane_key),
				  pl_rlane_on_accept },
	[PL_PEER_LANE_REFUSE] = { sizeof(struct pl_peer_refuse),
				  pl_rlane_on_refuse },
	[PL_PEER_LANE_READY] = { sizeof(struct pl_peer_lane_key),
				 pl_rlane_on_ready },
	[PL_PEER_LANE_END] = { sizeof(struct pl_peer_hdr), pl_rlane_on_end },
	[PL_PEER_LANE_SYNC] = { sizeof(struct pl_peer_lane_sync),
				pl_rlane_on_sync },
	[PL_PEER_REGION_FIND] = { sizeof(struct pl_peer_region_find),
				  pl_rown_on_find },
	[PL_PEER_REGION_FOUND] = { sizeof(struct pl_peer_region_found),
				   pl_rread_on_found },
	[PL_PEER_REGION_REFUSE] = { sizeof(struct pl_peer_refuse),
				    pl_rread_on_refuse },
	[PL_PEER_REGION_SUB] = { sizeof(struct pl_peer_region_sub),
				 pl_rown_on_sub },
	[PL_PEER_REGION_UNSUB] = { sizeof(struct pl_peer_hdr),
				   pl_rown_on_unsub },
	[PL_PEER_REGION_END] = { sizeof(struct pl_peer_region_end),
				 pl_rread_on_end },
	[PL_PEER_REGION_LATER] = { sizeof(struct pl_peer_hdr),
				   pl_rread_on_later },
	[PL_PEER_POD_FIND] = { sizeof(struct pl_peer_pod), pl_rfind_on_find },
	[PL_PEER_POD_FOUND] = { sizeof(struct pl_peer_pod),
				pl_rfind_on_found },
	[PL_PEER_REGION_MORE] = { sizeof(struct pl_peer_region_more),
				  pl_rown_on_more },
};

static struct pl_rnode *node_of(struct pl_remote *r,
				struct pl_carrier_peer *peer)
{
	struct pl_rnode *n = peer->user;

	if (!n) {
		n = peer->user = pl_rnode_get(r, peer->node);
		if (n)
			n->peer = peer;
	}
	return n;
}

static void message_cb(void *arg, struct pl_carrier_peer *peer,
		       const void *data, size_t len)
{
	/* Aligned, and read where it is: the carrier does not change it. */
	const struct pl_peer_hdr *h = data;
	struct pl_rnode *n = node_of(arg, peer);

	if (!n)
		return;
	if (len < sizeof(*h) || h->magic != PL_PEER_MAGIC ||
	    h->version != PL_PEER_VERSION || h->type >= PL_PEER_TYPES ||
	    !messages[h->type].fn || len != messages[h->type].len ||
	    h->len != len || (h->flags & ~PL_PEER_FLAGS)) {
		pl_warn("node=%s: a message that is not understood (version "
			"%u, type %u, %zu bytes); are both agents of one "
			"release?", peer->node, len < sizeof(*h) ? 0 :
			h->version, len < sizeof(*h) ? 0 : h->type, len);
		return;
	}
	messages[h->type].fn(n, data);
}

/* --- the carrier --------------------------------------------------------- */

static bool admit_cb(void *arg, const char *node, const struct pl_addr *from)
{
	struct pl_remote *r = arg;
	const struct pl_node *at = pl_registry_by_name(r->registry, node);

	return at && pl_addr_equal(&at->address, from);
}

static bool expects_cb(void *arg, const struct pl_addr *from)
{
	struct pl_remote *r = arg;

	return pl_registry_by_address(r->registry, from);
}

static void up_cb(void *arg, struct pl_carrier_peer *peer)
{
	struct pl_rnode *n = node_of(arg, peer);

	if (n)
		pl_rnode_up(n, peer);
	else
		pl_error("node=%s: out of memory", peer->node);
}

static void down_cb(void *arg, struct pl_carrier_peer *peer, int reason)
{
	struct pl_rnode *n = node_of(arg, peer);

	if (n)
		pl_rnode_down(n, reason);
}

static void notify_cb(void *arg, struct pl_carrier_peer *peer, uint64_t key,
		      void *user)
{
	struct pl_rsink *s = user;

	(void)arg;
	(void)peer;
	(void)key;
	s->notify(s);
}

static int carrier_start(struct pl_remote *r, struct pl_err *err)
{
	const struct pl_node *self = pl_registry_by_name(r->registry, r->node);
	struct pl_carrier_config cfg = {
		.node = r->node,
		.connections = r->connections,
		.dead_ms = r->dead_ms,
		.congestion = r->congestion,
		.verbs = r->verbs,
		.security = r->security,
		.base = r->base,
		.cb = { .admit = admit_cb,
			.up = up_cb,
			.down = down_cb,
			.message = message_cb,
			.notify = notify_cb,
			.expects = expects_cb },
		.arg = r,
	};
	int rc;

	if (!self)
		return 0;
	cfg.listen_addr = self->address;
	cfg.port = r->port ? r->port : self->port;
	rc = pl_carrier_create(r->ops, &cfg, &r->carrier, err);
	if (rc < 0) {
		r->carrier = NULL;
		return rc;
	}
	r->self = *self;
	pl_info("carrier=%s security=%s: other nodes reach this one at port "
		"%u, congestion control %s", r->carrier->path,
		pl_security_name(r->security.kind), r->carrier->port,
		r->carrier->congestion);
	return 0;
}

static void carrier_stop(struct pl_remote *r)
{
	struct pl_rnode *n, *tmp;

	HASH_ITER(hh, r->nodes, n, tmp)
		pl_rnode_free(n);
	if (r->carrier)
		pl_carrier_destroy(r->carrier);
	r->carrier = NULL;
}

/* --- created, updated, destroyed ----------------------------------------- */

int pl_remote_create(const struct pl_remote_config *cfg, struct pl_remote **out,
		     struct pl_err *err)
{
	const struct pl_carrier_ops *ops;
	struct pl_remote *r;
	int rc = pl_carrier_find(cfg->carrier, &ops, err);

	if (rc < 0)
		return rc;
	r = calloc(1, sizeof(*r));
	if (!r)
		return pl_err_set(err, ENOMEM, "out of memory");
	r->base = cfg->base;
	r->broker = cfg->broker;
	r->node = cfg->node;
	r->ops = ops;
	r->port = cfg->port;
	r->connections = cfg->connections;
	r->dead_ms = cfg->dead_ms;
	r->congestion = cfg->congestion;
	r->verbs = cfg->verbs;
	r->security = cfg->security;
	r->registry = cfg->registry;
	r->resume_ns = (uint64_t)(cfg->resume_ms ? cfg->resume_ms :
				  PL_REMOTE_RESUME_MS) * 1000000u;
	rc = carrier_start(r, err);
	if (rc < 0) {
		free(r);
		return rc;
	}
	r->numa = pl_numa_open();
	if (r->numa)
		pl_info("NUMA: %u nodes; a replica lies where its pod's memory "
			"does", pl_numa_count(r->numa));
	*out = r;
	return 0;
}

void pl_remote_destroy(struct pl_remote *r)
{
	struct pl_rown *own, *tmp;

	r->ending = true;
	carrier_stop(r);
	HASH_ITER(hh, r->owns, own, tmp)
		pl_rown_free(own);
	pl_rfind_free_all(r);
	pl_numa_close(r->numa);
	free(r);
}

void pl_remote_refresh(struct pl_remote *r)
{
	if (r->carrier)
		pl_carrier_refresh(r->carrier);
}

void pl_remote_update(struct pl_remote *r, const struct pl_registry *now)
{
	const struct pl_node *self = pl_registry_by_name(now, r->node);
	struct pl_rnode *n, *tmp;
	struct pl_err err;

	r->registry = now;
	if (r->carrier && (!self ||
			   !pl_addr_equal(&self->address, &r->self.address) ||
			   (!r->port && self->port != r->self.port))) {
		pl_info("node=%s: its address has changed, lanes to other "
			"nodes end", r->node);
		carrier_stop(r);
	}
	if (!r->carrier && carrier_start(r, &err) < 0)
		pl_error("no lanes to other nodes: %s", err.msg);
	HASH_ITER(hh, r->nodes, n, tmp) {
		if (!pl_registry_by_name(now, n->name))
			pl_rnode_free(n);
		else if (n->peer && !n->is_up)
			pl_rnode_want(n, &err);
	}
}

/* Of the last attempt, which may have failed for another reason than others. */
static int down_reason(const struct pl_rnode *n)
{
	return n->peer && n->peer->reason ? n->peer->reason : n->reason;
}

void pl_remote_carried(const struct pl_remote *r, struct pl_carry_sum *sum)
{
	const struct pl_rnode *n;
	const struct pl_rlane *l;

	*sum = r->carried;
	for (n = r->nodes; n; n = n->hh.next)
		for (l = n->lanes; l; l = l->hh.next)
			pl_carry_sum_add(sum, l->rep.base);
}

const char *pl_remote_path(const struct pl_remote *r, const char *node)
{
	struct pl_rnode *n;

	HASH_FIND_STR(r->nodes, node, n);
	return n && n->peer ? pl_carrier_path(n->peer) : NULL;
}

void pl_remote_nodes(struct pl_remote *r,
		     void (*fn)(const struct pl_remote_node *n, void *arg),
		     void *arg)
{
	for (size_t i = 0; i < r->registry->n; i++) {
		const char *name = r->registry->nodes[i].name;
		struct pl_remote_node out = { .name = name,
					      .carrier = r->ops->name,
					      .security = pl_security_name(
						      r->security.kind),
					      .congestion = "",
					      .state = "idle" };
		struct pl_carrier_stats st = { 0 };
		struct pl_rnode *n;
		char state[64];

		if (!strcmp(name, r->node))
			continue;
		if (r->carrier) {
			out.carrier = r->carrier->path;
			out.congestion = r->carrier->congestion;
		}
		HASH_FIND_STR(r->nodes, name, n);
		if (n && n->is_up)
			out.state = "up";
		else if (n && down_reason(n)) {
			pl_format(state, sizeof(state), "down: %s",
				  strerror(-down_reason(n)));
			out.state = state;
		}
		if (n && n->peer) {
			pl_carrier_stats(n->peer, &st);
			out.carrier = pl_carrier_path(n->peer);
		}
		out.lanes = n ? HASH_COUNT(n->lanes) : 0;
		out.replicas = n ? HASH_COUNT(n->reps) : 0;
		out.sent_bytes = st.put_bytes;
		out.rdma_bytes = st.rdma_bytes;
		out.rdma_copied_bytes = st.rdma_copied_bytes;
		out.work_requests = st.work_requests;
		out.completions = st.completions;
		out.doorbells = st.doorbells;
		out.wakeups = st.wakeups;
		out.completion_errors = st.completion_errors;
		out.fallbacks = st.fallbacks;
		out.queue_pairs = st.queue_pairs;
		out.memory_regions = st.memory_regions;
		out.received_bytes = st.received_bytes;
		fn(&out, arg);
	}
}
