/* common/nl_port.c - flags of links and settings of bridge ports */
#include "common/nl_internal.h"

#include <linux/if_link.h>
#include <linux/rtnetlink.h>

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

int pl_nl_port_hairpin(struct pl_nl *nl, int index, bool on,
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
	pl_nlreq_u8(&r, IFLA_BRPORT_MODE, on);
	pl_nlreq_unnest(&r, data);
	pl_nlreq_unnest(&r, info);
	rc = pl_nl_ack(nl, &r, err);
	if (rc < 0)
		pl_err_prefix(err, "cannot set hairpin mode of link %d", index);
	return rc;
}
