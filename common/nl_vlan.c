/*
 * common/nl_vlan.c - VLANs of a bridge and its ports
 *
 * Messages of the family AF_BRIDGE, which a kernel without
 * CONFIG_BRIDGE_VLAN_FILTERING refuses with EOPNOTSUPP.
 */
#include "common/nl_internal.h"

#include <errno.h>
#include <linux/if_bridge.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

static int refused(int rc, struct pl_err *err)
{
	if (rc == -EOPNOTSUPP)
		pl_err_set(err, EOPNOTSUPP, "this kernel's bridges know no "
			   "VLANs (CONFIG_BRIDGE_VLAN_FILTERING)");
	return rc;
}

static int parse_bridge(const struct nlmsghdr *h, void *arg)
{
	struct nlattr *tb[IFLA_MAX + 1], *info[IFLA_INFO_MAX + 1];
	struct nlattr *br[IFLA_BR_MAX + 1];
	struct pl_bridge_vlans *v = arg;

	if (nlmsg_parse((struct nlmsghdr *)h, sizeof(struct ifinfomsg), tb,
			IFLA_MAX, NULL) < 0)
		return -EPROTO;
	if (!tb[IFLA_LINKINFO] ||
	    nla_parse_nested(info, IFLA_INFO_MAX, tb[IFLA_LINKINFO],
			     NULL) < 0 ||
	    !info[IFLA_INFO_DATA] ||
	    nla_parse_nested(br, IFLA_BR_MAX, info[IFLA_INFO_DATA], NULL) < 0)
		return 0;
	v->filtering = pl_nla_u8(br[IFLA_BR_VLAN_FILTERING]) != 0;
	if (br[IFLA_BR_VLAN_DEFAULT_PVID] &&
	    nla_len(br[IFLA_BR_VLAN_DEFAULT_PVID]) >= 2)
		v->default_pvid = nla_get_u16(br[IFLA_BR_VLAN_DEFAULT_PVID]);
	return 0;
}

int pl_nl_bridge_vlans(struct pl_nl *nl, int index, struct pl_bridge_vlans *out,
		       struct pl_err *err)
{
	struct ifinfomsg ifi = { .ifi_index = index };
	struct pl_nlreq r;

	memset(out, 0, sizeof(*out));
	pl_nlreq_init(&r, RTM_GETLINK, 0, &ifi, sizeof(ifi));
	return pl_nl_ask(nl, &r, parse_bridge, out, err);
}

int pl_nl_bridge_filter(struct pl_nl *nl, int index, struct pl_err *err)
{
	struct ifinfomsg ifi = { .ifi_index = index };
	struct nlattr *info, *data;
	struct pl_nlreq r;
	int rc;

	pl_nlreq_init(&r, RTM_NEWLINK, 0, &ifi, sizeof(ifi));
	info = pl_nlreq_nest(&r, IFLA_LINKINFO);
	pl_nlreq_str(&r, IFLA_INFO_KIND, "bridge");
	data = pl_nlreq_nest(&r, IFLA_INFO_DATA);
	pl_nlreq_u8(&r, IFLA_BR_VLAN_FILTERING, 1);
	pl_nlreq_unnest(&r, data);
	pl_nlreq_unnest(&r, info);
	rc = refused(pl_nl_ack(nl, &r, err), err);
	if (rc < 0)
		pl_err_prefix(err, "cannot turn on VLANs of bridge %d", index);
	return rc;
}

/* One attribute for a single VLAN, two for the ends of a range. */
static void put_vlans(struct pl_nlreq *r, uint16_t first, uint16_t last,
		      uint16_t flags)
{
	struct bridge_vlan_info v = { .flags = flags, .vid = first };
	struct nlattr *spec = pl_nlreq_nest(r, IFLA_AF_SPEC);

	if (first < last) {
		v.flags = flags | BRIDGE_VLAN_INFO_RANGE_BEGIN;
		pl_nlreq_put(r, IFLA_BRIDGE_VLAN_INFO, &v, sizeof(v));
		v.flags = flags | BRIDGE_VLAN_INFO_RANGE_END;
		v.vid = last;
	}
	pl_nlreq_put(r, IFLA_BRIDGE_VLAN_INFO, &v, sizeof(v));
	pl_nlreq_unnest(r, spec);
}

static int change(struct pl_nl *nl, int type, int index, uint16_t first,
		  uint16_t last, uint16_t flags, struct pl_err *err)
{
	struct ifinfomsg ifi = { .ifi_family = AF_BRIDGE, .ifi_index = index };
	struct pl_nlreq r;
	int rc;

	pl_nlreq_init(&r, type, 0, &ifi, sizeof(ifi));
	put_vlans(&r, first, last, flags);
	rc = refused(pl_nl_ack(nl, &r, err), err);
	if (rc < 0)
		pl_err_prefix(err, "cannot %s VLAN %u to %u of port %d",
			      type == RTM_SETLINK ? "add" : "remove", first,
			      last, index);
	return rc;
}

int pl_nl_port_vlan_add(struct pl_nl *nl, int index, uint16_t first,
			uint16_t last, bool access, struct pl_err *err)
{
	return change(nl, RTM_SETLINK, index, first, last,
		      access ? BRIDGE_VLAN_INFO_PVID |
				       BRIDGE_VLAN_INFO_UNTAGGED : 0, err);
}

int pl_nl_port_vlan_del(struct pl_nl *nl, int index, uint16_t vid,
			struct pl_err *err)
{
	return change(nl, RTM_DELLINK, index, vid, vid, 0, err);
}
