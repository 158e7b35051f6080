/* plugin/vlan.c - VLANs of a pod's port */
#include "plugin/vlan.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "common/util.h"
#include "plugin/record.h"
#include "plugin/wire.h"

/* --- the configuration --- */

static bool in_trunk(const struct pl_vlan *v, unsigned int id)
{
	return id <= PL_VLAN_MAX && (v->trunk[id / 8] & 1u << id % 8);
}

static void add_trunk(struct pl_vlan *v, int64_t first, int64_t last)
{
	for (int64_t id = first; id <= last; id++)
		v->trunk[id / 8] |= (uint8_t)(1u << id % 8);
	v->has_trunk = true;
}

static int parse_trunk(const cJSON *j, const char *where, struct pl_vlan *v,
		       struct pl_err *err)
{
	int64_t id = 0, min = 0, max = 0;
	int has_id = pl_json_int(j, where, "id", 1, PL_VLAN_MAX, &id, err);
	int has_min, has_max;

	if (has_id < 0)
		return has_id;
	has_min = pl_json_int(j, where, "minID", 1, PL_VLAN_MAX, &min, err);
	if (has_min < 0)
		return has_min;
	has_max = pl_json_int(j, where, "maxID", 1, PL_VLAN_MAX, &max, err);
	if (has_max < 0)
		return has_max;
	if (has_min != has_max || (!has_id && !has_min) || min > max)
		return pl_err_set(err, EINVAL, "%s must have id, or minID and "
				  "maxID in this order", where);
	if (has_id)
		add_trunk(v, id, id);
	if (has_min)
		add_trunk(v, min, max);
	return 0;
}

int pl_vlan_parse(const cJSON *json, struct pl_vlan *v, struct pl_err *err)
{
	const cJSON *list = NULL, *j;
	int64_t access = 0;
	int n = 0;

	memset(v, 0, sizeof(*v));
	v->keep_default = true;
	if (pl_json_int(json, "", "vlan", 0, PL_VLAN_MAX, &access, err) < 0 ||
	    pl_json_bool(json, "", "preserveDefaultVlan", &v->keep_default,
			 err) < 0 ||
	    pl_json_arr(json, "", "vlanTrunk", &list, err) < 0)
		return -EINVAL;
	v->access = (uint16_t)access;
	cJSON_ArrayForEach(j, list) {
		char where[32];
		int rc;

		snprintf(where, sizeof(where), "vlanTrunk[%d]", n++);
		rc = parse_trunk(j, where, v, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* --- bridge and port --- */

int pl_vlan_bridge(struct pl_nl *host, const struct pl_link *br,
		   struct pl_err *err)
{
	struct pl_bridge_vlans has;
	int rc = pl_nl_bridge_vlans(host, br->index, &has, err);

	if (rc < 0 || has.filtering)
		return rc;
	return pl_nl_bridge_filter(host, br->index, err);
}

/* The kernel has put a new port into the bridge's default VLAN. */
static int leave_default(struct pl_nl *host, const struct pl_link *br,
			 int port, struct pl_err *err)
{
	struct pl_bridge_vlans has;
	int rc = pl_nl_bridge_vlans(host, br->index, &has, err);

	if (rc < 0 || !has.default_pvid)
		return rc;
	rc = pl_nl_port_vlan_del(host, port, has.default_pvid, err);
	return rc == -ENOENT ? 0 : rc;
}

static int add_trunks(struct pl_nl *host, const struct pl_vlan *v, int port,
		      struct pl_err *err)
{
	int rc = 0;

	for (unsigned int id = 1; rc == 0 && id <= PL_VLAN_MAX; id++) {
		unsigned int first = id;

		if (!in_trunk(v, id))
			continue;
		while (in_trunk(v, id + 1))
			id++;
		rc = pl_nl_port_vlan_add(host, port, (uint16_t)first,
					 (uint16_t)id, false, err);
	}
	return rc;
}

int pl_vlan_port(struct pl_nl *host, const struct pl_vlan *v,
		 const struct pl_link *br, const struct pl_link *port,
		 struct pl_err *err)
{
	int rc = 0;

	if (!v->keep_default)
		rc = leave_default(host, br, port->index, err);
	/* The access VLAN last: as a trunk it would lose its PVID again. */
	if (rc == 0)
		rc = add_trunks(host, v, port->index, err);
	if (rc == 0 && v->access)
		rc = pl_nl_port_vlan_add(host, port->index, v->access,
					 v->access, true, err);
	return rc;
}

/* --- the gateway --- */

/* Bridge and VLAN name the pair, so that ADDs at the same time meet. */
static int gateway_names(const struct pl_vlan *v, const struct pl_link *br,
			 char *name, char *peer, struct pl_err *err)
{
	char id[8];
	struct pl_attach at = { br->name, "vlan", id };

	snprintf(id, sizeof(id), "%u", v->access);
	pl_record_host_ifname(&at, peer);
	if (pl_format(name, PL_IFNAME_BYTES, "%s.%s", br->name, id) < 0)
		return pl_err_set(err, EINVAL, "the name %s.%s of the link of "
				  "the gateway is too long; choose a shorter "
				  "name for the key bridge", br->name, id);
	return 0;
}

static int make_gateway(struct pl_nl *host, const struct pl_vlan *v,
			const struct pl_link *br, const char *name,
			const char *peer, struct pl_err *err)
{
	uint8_t mac[6], own_mac[6];
	struct pl_veth pair = { .name = peer,
				.peer_name = name,
				.peer_netns_fd = -1,
				.mtu = br->mtu,
				.mac = mac,
				.own_mac = own_mac,
				.master = br->index,
				.up = true,
				.queues = 1 };
	struct pl_link port;
	int rc = pl_wire_random_mac(mac, err);

	if (rc == 0)
		rc = pl_wire_random_mac(own_mac, err);
	if (rc == 0)
		rc = pl_nl_veth_add(host, &pair, err);
	if (rc < 0)
		return rc;
	rc = pl_nl_link_get(host, peer, &port, err);
	if (rc < 0)
		return rc;
	rc = pl_vlan_port(host, v, br, &port, err);
	/* Half of it would be taken for all of it by the next ADD. */
	if (rc < 0)
		pl_nl_link_del(host, port.index, NULL);
	return rc;
}

int pl_vlan_gateway(struct pl_nl *host, const struct pl_vlan *v,
		    const struct pl_link *br, struct pl_link *gw,
		    struct pl_err *err)
{
	struct pl_vlan access = { .access = v->access,
				  .keep_default = v->keep_default };
	char name[PL_IFNAME_BYTES], peer[PL_IFNAME_BYTES];
	int rc = gateway_names(v, br, name, peer, err);

	if (rc == 0)
		rc = pl_nl_link_get(host, name, gw, err);
	if (rc == -ENODEV) {
		rc = make_gateway(host, &access, br, name, peer, err);
		if (rc == 0 || rc == -EEXIST)
			rc = pl_nl_link_get(host, name, gw, err);
	}
	if (rc == 0 && !(gw->flags & IFF_UP))
		rc = pl_nl_link_set(host, gw->index, -1, 0, 1, err);
	return rc;
}
