/* common/nl_port.c - flags of links and settings of bridge ports */
#include "common/nl_internal.h"

#include <linux/if_link.h>
#include <linux/ip.h>
#include <linux/rtnetlink.h>
#include <net/if.h>

#include "common/util.h"

int pl_nl_link_flags(struct pl_nl *nl, int index, unsigned int mask,
		     unsigned int flags, struct pl_err *err)
{
	struct ifinfomsg ifi = { .ifi_index = index,
				 .ifi_change = mask,
				 .ifi_flags = flags & mask };
	struct pl_nlreq r;
	int rc;

	pl_nlreq_init(&r, RTM_NEWLINK, 0, &ifi, sizeof(ifi));
	rc = pl_nl_ack(nl, &r, err);
	if (rc < 0)
		pl_err_prefix(err, "cannot change flags of link %d", index);
	return rc;
}

int pl_nl_link_up_notify(struct pl_nl *nl, int index, struct pl_err *err)
{
	struct ifinfomsg ifi = { .ifi_index = index, .ifi_flags = IFF_UP,
				 .ifi_change = IFF_UP };
	struct nlattr *families, *inet, *conf;
	struct pl_nlreq r;
	int rc;

	pl_nlreq_init(&r, RTM_NEWLINK, 0, &ifi, sizeof(ifi));
	families = pl_nlreq_nest(&r, IFLA_AF_SPEC);
	inet = pl_nlreq_nest(&r, AF_INET);
	conf = pl_nlreq_nest(&r, IFLA_INET_CONF);
	pl_nlreq_u32(&r, IPV4_DEVCONF_ARP_NOTIFY, 1);
	pl_nlreq_unnest(&r, conf);
	pl_nlreq_unnest(&r, inet);
	pl_nlreq_unnest(&r, families);
	rc = pl_nl_ack(nl, &r, err);
	if (rc < 0)
		pl_err_prefix(err, "cannot bring link %d up", index);
	return rc;
}

int pl_nl_link_mac(struct pl_nl *nl, int index, const uint8_t *mac,
		   struct pl_err *err)
{
	struct ifinfomsg ifi = { .ifi_index = index };
	struct pl_nlreq r;
	int rc;

	pl_nlreq_init(&r, RTM_NEWLINK, 0, &ifi, sizeof(ifi));
	pl_nlreq_mac(&r, IFLA_ADDRESS, mac);
	rc = pl_nl_ack(nl, &r, err);
	if (rc < 0)
		pl_err_prefix(err, "cannot set the MAC of link %d", index);
	return rc;
}

static const struct {
	unsigned int flag;
	int attr;
} port_flags[] = {
	{ PL_PORT_HAIRPIN, IFLA_BRPORT_MODE },
	{ PL_PORT_ISOLATED, IFLA_BRPORT_ISOLATED },
};

void pl_nla_port(const struct nlattr *data, struct pl_link *l)
{
	struct nlattr *tb[IFLA_BRPORT_MAX + 1];

	if (!data || nla_parse_nested(tb, IFLA_BRPORT_MAX,
				      (struct nlattr *)data, NULL) < 0)
		return;
	l->port_state = pl_nla_u8(tb[IFLA_BRPORT_STATE]);
	for (size_t i = 0; i < PL_ARRAY_SIZE(port_flags); i++) {
		if (pl_nla_u8(tb[port_flags[i].attr]))
			l->port_flags |= (uint8_t)port_flags[i].flag;
	}
}

int pl_nl_port_set(struct pl_nl *nl, int index, unsigned int flags,
		   struct pl_err *err)
{
	struct ifinfomsg ifi = { .ifi_index = index };
	struct nlattr *info, *data;
	struct pl_nlreq r;
	int rc;

	pl_nlreq_init(&r, RTM_NEWLINK, 0, &ifi, sizeof(ifi));
	info = pl_nlreq_nest(&r, IFLA_LINKINFO);
	pl_nlreq_str(&r, IFLA_INFO_SLAVE_KIND, "bridge");
	data = pl_nlreq_nest(&r, IFLA_INFO_SLAVE_DATA);
	for (size_t i = 0; i < PL_ARRAY_SIZE(port_flags); i++) {
		if (flags & port_flags[i].flag)
			pl_nlreq_u8(&r, port_flags[i].attr, 1);
	}
	pl_nlreq_unnest(&r, data);
	pl_nlreq_unnest(&r, info);
	rc = pl_nl_ack(nl, &r, err);
	if (rc < 0)
		pl_err_prefix(err, "cannot set hairpin mode or isolation of "
			      "link %d", index);
	return rc;
}
