/*
 * daemonset/overlay.c - the IP network between the pods of all nodes
 *
 * Each node has one VXLAN device. Its MAC follows from the node's name and its
 * addresses are the network addresses of the node's pod ranges, which no pod
 * has. So every node knows, from the registry alone, what each peer's device is
 * called on the wire, and needs for a peer:
 *
 *   route       the peer's pod range  via its network address, taken as on link
 *   neighbour   that network address  is at the peer's MAC, permanently
 *   forwarding  the peer's MAC        is behind the peer's node address
 *
 * Nothing is learnt and nothing is flooded. Pods' own frames never cross: the
 * nodes route.
 */
#include "daemonset/overlay_internal.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "common/log.h"
#include "common/util.h"

/* Outer Ethernet is not in the MTU; inner Ethernet, VXLAN, UDP and IP are. */
#define OVERHEAD_V4 (14 + 8 + 8 + 20)
#define OVERHEAD_V6 (14 + 8 + 8 + 40)
#define MTU_MIN 576
#define MTU_MIN_V6 1280
#define VNI_MAX ((1 << 24) - 1)

/* --- configuration --- */

static int parse_type(const cJSON *obj, const char *where,
		      struct pl_overlay_conf *c, struct pl_err *err)
{
	const char *type = "vxlan";

	if (pl_json_str(obj, where, "type", &type, err) < 0)
		return -EINVAL;
	if (strcmp(type, "vxlan") == 0)
		c->type = PL_OVERLAY_VXLAN;
	else if (strcmp(type, "none") == 0)
		c->type = PL_OVERLAY_NONE;
	else
		return pl_err_set(err, EINVAL,
				  "%s.type must be \"vxlan\" or \"none\", "
				  "not \"%s\"", where, type);
	return 0;
}

static int parse_device(const cJSON *obj, const char *where,
			struct pl_overlay_conf *c, struct pl_err *err)
{
	const char *name = "podlane.1";

	if (pl_json_str(obj, where, "device", &name, err) < 0)
		return -EINVAL;
	if (!*name || strpbrk(name, "/: \t\n%") || !strcmp(name, ".") ||
	    !strcmp(name, "..") ||
	    pl_format(c->device, sizeof(c->device), "%s", name) < 0)
		return pl_err_set(err, EINVAL,
				  "%s.device: '%s' is no interface name",
				  where, name);
	return 0;
}

int pl_overlay_conf_parse(const cJSON *obj, const char *where,
			  struct pl_overlay_conf *out, struct pl_err *err)
{
	static const char *const keys[] = { "type", "device", "vni", "port",
					    "mtu", NULL };
	int64_t vni = 1, port = 8472, mtu = 0;

	memset(out, 0, sizeof(*out));
	if (obj && pl_json_only(obj, where, keys, err) < 0)
		return -EINVAL;
	if (parse_type(obj, where, out, err) < 0 ||
	    parse_device(obj, where, out, err) < 0 ||
	    pl_json_int(obj, where, "vni", 1, VNI_MAX, &vni, err) < 0 ||
	    pl_json_int(obj, where, "port", 1, 65535, &port, err) < 0 ||
	    pl_json_int(obj, where, "mtu", MTU_MIN, 65535, &mtu, err) < 0)
		return -EINVAL;
	out->vni = (uint32_t)vni;
	out->port = (uint16_t)port;
	out->mtu = (uint32_t)mtu;
	return 0;
}

/* --- the whole --- */

static void set_state(struct pl_overlay *o, const char *reason)
{
	char was[PL_OVERLAY_STATE_BYTES];

	memcpy(was, o->state, sizeof(was));
	if (reason)
		snprintf(o->state, sizeof(o->state), "down: %.*s",
			 PL_OVERLAY_STATE_BYTES - 7, reason);
	else
		snprintf(o->state, sizeof(o->state), "up");
	if (strcmp(was, o->state))
		pl_log(reason ? PL_LOG_WARN : PL_LOG_INFO, "overlay %s is %s",
		       o->conf.device, o->state);
}

int pl_overlay_init(struct pl_overlay *o, const struct pl_overlay_conf *conf,
		    const char *node, struct pl_err *err)
{
	memset(o, 0, sizeof(*o));
	o->conf = *conf;
	snprintf(o->state, sizeof(o->state), "down: not yet set up");
	if (pl_format(o->node, sizeof(o->node), "%s", node) < 0)
		return pl_err_set(err, EINVAL, "the node's name is too long");
	return pl_nl_open(&o->nl, -1, err);
}

void pl_overlay_fini(struct pl_overlay *o)
{
	pl_nl_close(&o->nl);
}

const char *pl_overlay_state(const struct pl_overlay *o)
{
	return o->state;
}

uint32_t pl_overlay_mtu(const struct pl_overlay *o)
{
	return o->mtu;
}

void pl_overlay_mac(const char *node, uint8_t mac[6])
{
	/* FNV-1a, then mixed so that similar names differ in all bytes. */
	uint64_t h = 0xcbf29ce484222325u;

	for (; *node; node++)
		h = (h ^ (uint8_t)*node) * 0x100000001b3u;
	h = (h ^ h >> 33) * 0xff51afd7ed558ccdu;
	h ^= h >> 33;
	for (int i = 0; i < 6; i++)
		mac[i] = (uint8_t)(h >> 8 * i);
	/* Locally administered, of one station. */
	mac[0] = (uint8_t)((mac[0] & 0xfc) | 0x02);
}

static int own_node(const struct pl_overlay *o, const struct pl_registry *reg,
		    const struct pl_node **own, struct pl_err *err)
{
	*own = reg ? pl_registry_by_name(reg, o->node) : NULL;
	if (!*own)
		return pl_err_set(err, ENOENT,
				  "node %s is not in the registry; add it, or "
				  "give its name with --node", o->node);
	return 0;
}

static int find_underlay(struct pl_overlay *o, const struct pl_node *own,
			 struct pl_underlay *u, struct pl_err *err)
{
	int index, rc;

	u->local = own->address;
	rc = pl_nl_addr_find(&o->nl, &own->address, &index, err);
	if (rc == 0)
		rc = pl_nl_link_by_index(&o->nl, index, &u->link, err);
	if (rc < 0)
		pl_err_prefix(err, "node %s", own->name);
	return rc;
}

static bool has_v6(const struct pl_node *n)
{
	for (int i = 0; i < n->n_cidrs; i++)
		if (n->cidrs[i].addr.family == AF_INET6)
			return true;
	return false;
}

static int derive_mtu(struct pl_overlay *o, const struct pl_node *own,
		      const struct pl_underlay *u, struct pl_err *err)
{
	uint32_t overhead = u->local.family == AF_INET6 ? OVERHEAD_V6 :
							  OVERHEAD_V4;
	uint32_t least = has_v6(own) ? MTU_MIN_V6 : MTU_MIN;
	uint32_t most = u->link.mtu > overhead ? u->link.mtu - overhead : 0;
	uint32_t mtu = o->conf.mtu ? o->conf.mtu : most;

	if (mtu > most)
		return pl_err_set(err, EINVAL, "overlay.mtu %u is more than "
				  "%u, which %s can carry", mtu, most,
				  u->link.name);
	if (mtu < least)
		return pl_err_set(err, EINVAL,
				  "an MTU of %u is too small, at least %u is "
				  "needed", mtu, least);
	o->mtu = mtu;
	return 0;
}

/* A route to such a node would lead its packets into the overlay itself. */
static int check_ranges(const struct pl_registry *reg, struct pl_err *err)
{
	char text[INET6_ADDRSTRLEN];

	for (size_t i = 0; i < reg->n; i++) {
		const struct pl_node *n = &reg->nodes[i];
		const struct pl_node *m = pl_registry_by_pod(reg, &n->address);

		if (m)
			return pl_err_set(err, EINVAL, "the address %s of node "
					  "%s lies in a pod range of node %s",
					  pl_addr_str(&n->address, text),
					  n->name, m->name);
	}
	return 0;
}

static int sync_vxlan(struct pl_overlay *o, const struct pl_registry *reg,
		      struct pl_err *err)
{
	const struct pl_node *own;
	struct pl_underlay u;
	int rc, index;

	rc = own_node(o, reg, &own, err);
	if (rc == 0)
		rc = check_ranges(reg, err);
	if (rc == 0)
		rc = find_underlay(o, own, &u, err);
	if (rc == 0)
		rc = derive_mtu(o, own, &u, err);
	if (rc == 0)
		rc = pl_overlay_forwarding(own, u.link.name, err);
	if (rc == 0)
		rc = pl_overlay_device(o, &u, &index, err);
	if (rc == 0 && !(u.link.flags & IFF_UP))
		rc = pl_err_set(err, ENETDOWN, "%s, which has this node's "
				"address, is down", u.link.name);
	if (rc < 0) {
		set_state(o, err->msg);
		return rc;
	}
	set_state(o, NULL);
	return pl_overlay_entries(o, index, reg, own, err);
}

/* --- none --- */

struct best {
	int index;
	uint32_t priority;
};

static int default_route(const struct pl_route *r, void *arg)
{
	struct best *b = arg;

	if (r->dst.len || r->table || !r->index)
		return 0;
	if (!b->index || r->priority < b->priority) {
		b->index = r->index;
		b->priority = r->priority;
	}
	return 0;
}

/* The MTU of the node's own interface, else of where the default route goes. */
static int sync_none(struct pl_overlay *o, const struct pl_registry *reg,
		     struct pl_err *err)
{
	const struct pl_node *own;
	struct best b = { 0, 0 };
	struct pl_link link;
	int rc = -ENOENT;

	set_state(o, NULL);
	o->mtu = o->conf.mtu;
	if (o->mtu)
		return 0;
	if (own_node(o, reg, &own, NULL) == 0)
		rc = pl_nl_addr_find(&o->nl, &own->address, &b.index, NULL);
	if (rc < 0)
		rc = pl_nl_route_each(&o->nl, 0, default_route, &b, err);
	if (rc < 0 || !b.index)
		return rc;
	rc = pl_nl_link_by_index(&o->nl, b.index, &link, err);
	if (rc == 0)
		o->mtu = link.mtu;
	return rc;
}

int pl_overlay_sync(struct pl_overlay *o, const struct pl_registry *reg,
		    struct pl_err *err)
{
	struct pl_err own = { 0 };

	if (!err)
		err = &own;
	return o->conf.type == PL_OVERLAY_NONE ? sync_none(o, reg, err) :
						 sync_vxlan(o, reg, err);
}

int pl_overlay_teardown(struct pl_overlay *o, struct pl_err *err)
{
	struct pl_link link;
	struct pl_vxlan v;
	int rc;

	if (o->conf.type == PL_OVERLAY_NONE)
		return 0;
	rc = pl_nl_vxlan_get(&o->nl, o->conf.device, &link, &v, err);
	/* A device of that name but another kind is not ours. */
	if (rc == -ENODEV || rc == -EEXIST) {
		pl_err_clear(err);
		rc = 0;
	} else if (rc == 0) {
		rc = pl_nl_link_del(&o->nl, link.index, err);
		if (rc == 0)
			pl_info("overlay %s: removed", o->conf.device);
	}
	if (rc == 0)
		snprintf(o->state, sizeof(o->state), "down: removed");
	return rc;
}
