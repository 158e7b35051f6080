/* common/nl_link.c - links: veth pairs, bridges, vxlan devices */
#include "common/nl_internal.h"

#include <errno.h>
#include <arpa/inet.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>

#include "common/util.h"

#ifndef RTEXT_FILTER_SKIP_STATS
#define RTEXT_FILTER_SKIP_STATS (1 << 3)
#endif

#define CREATE (NLM_F_CREATE | NLM_F_EXCL)

/* --- reading --- */

struct want {
	struct pl_link *link;
	struct pl_vxlan *vxlan;		/* or NULL */
};

static void parse_vxlan(const struct nlattr *data, struct pl_vxlan *v)
{
	struct nlattr *tb[IFLA_VXLAN_MAX + 1];

	memset(v, 0, sizeof(*v));
	if (!data || nla_parse_nested(tb, IFLA_VXLAN_MAX,
				      (struct nlattr *)data, NULL) < 0)
		return;
	v->vni = pl_nla_u32(tb[IFLA_VXLAN_ID]);
	v->port = pl_nla_be16(tb[IFLA_VXLAN_PORT]);
	v->link = (int)pl_nla_u32(tb[IFLA_VXLAN_LINK]);
	v->learning = pl_nla_u8(tb[IFLA_VXLAN_LEARNING]) != 0;
	if (tb[IFLA_VXLAN_LOCAL])
		pl_nla_addr(tb[IFLA_VXLAN_LOCAL], AF_INET, &v->local);
	else
		pl_nla_addr(tb[IFLA_VXLAN_LOCAL6], AF_INET6, &v->local);
}

static void parse_kind(const struct nlattr *info, const struct want *w)
{
	struct nlattr *tb[IFLA_INFO_MAX + 1];
	char slave[16];

	if (!info || nla_parse_nested(tb, IFLA_INFO_MAX,
				      (struct nlattr *)info, NULL) < 0)
		return;
	pl_nla_str(tb[IFLA_INFO_KIND], w->link->kind, sizeof(w->link->kind));
	if (w->vxlan && strcmp(w->link->kind, "vxlan") == 0)
		parse_vxlan(tb[IFLA_INFO_DATA], w->vxlan);
	pl_nla_str(tb[IFLA_INFO_SLAVE_KIND], slave, sizeof(slave));
	if (strcmp(slave, "bridge") == 0)
		pl_nla_port(tb[IFLA_INFO_SLAVE_DATA], w->link);
}

static int parse_link(const struct nlmsghdr *h, void *arg)
{
	const struct want *w = arg;
	struct pl_link *l = w->link;
	struct nlattr *tb[IFLA_MAX + 1];
	struct ifinfomsg *ifi = NLMSG_DATA(h);

	memset(l, 0, sizeof(*l));
	if (nlmsg_parse((struct nlmsghdr *)h, sizeof(*ifi), tb, IFLA_MAX,
			NULL) < 0)
		return -EPROTO;
	l->index = ifi->ifi_index;
	l->flags = ifi->ifi_flags;
	l->master = (int)pl_nla_u32(tb[IFLA_MASTER]);
	l->mtu = pl_nla_u32(tb[IFLA_MTU]);
	pl_nla_mac(tb[IFLA_ADDRESS], l->mac);
	pl_nla_str(tb[IFLA_IFNAME], l->name, sizeof(l->name));
	parse_kind(tb[IFLA_LINKINFO], w);
	if (strcmp(l->kind, "veth") == 0)
		l->peer_index = (int)pl_nla_u32(tb[IFLA_LINK]);
	return 0;
}

static int get(struct pl_nl *nl, const char *name, int index,
	       const struct want *w, struct pl_err *err)
{
	struct ifinfomsg ifi = { .ifi_index = index };
	struct pl_nlreq r;
	int rc;

	pl_nlreq_init(&r, RTM_GETLINK, 0, &ifi, sizeof(ifi));
	if (name)
		pl_nlreq_str(&r, IFLA_IFNAME, name);
	pl_nlreq_u32(&r, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
	rc = pl_nl_ask(nl, &r, parse_link, (void *)w, err);
	if (rc < 0 && name)
		pl_err_prefix(err, "link %s", name);
	else if (rc < 0)
		pl_err_prefix(err, "link %d", index);
	return rc;
}

/* The kernel rejects a longer name in words that help nobody. */
static int check_name(const char *name, struct pl_err *err)
{
	size_t n = strlen(name);

	if (n && n < PL_IFNAME_BYTES)
		return 0;
	return pl_err_set(err, EINVAL,
			  "'%s' is no interface name: 1 to %d characters",
			  name, PL_IFNAME_BYTES - 1);
}

int pl_nl_link_get(struct pl_nl *nl, const char *name, struct pl_link *out,
		   struct pl_err *err)
{
	struct want w = { .link = out };
	int rc = check_name(name, err);

	return rc < 0 ? rc : get(nl, name, 0, &w, err);
}

bool pl_nl_link_is_there(const char *name)
{
	struct pl_link link;
	struct pl_nl nl;
	int rc = pl_nl_open(&nl, -1, NULL);

	if (rc == 0)
		rc = pl_nl_link_get(&nl, name, &link, NULL);
	pl_nl_close(&nl);
	return rc != -ENODEV;
}

int pl_nl_link_by_index(struct pl_nl *nl, int index, struct pl_link *out,
			struct pl_err *err)
{
	struct want w = { .link = out };

	/* Index 0 would ask for no link in particular. */
	if (index <= 0)
		return pl_err_set(err, ENODEV, "link %d: No such device",
				  index);
	return get(nl, NULL, index, &w, err);
}

int pl_nl_vxlan_get(struct pl_nl *nl, const char *name, struct pl_link *link,
		    struct pl_vxlan *v, struct pl_err *err)
{
	struct want w = { link, v };
	int rc = check_name(name, err);

	memset(v, 0, sizeof(*v));
	if (rc == 0)
		rc = get(nl, name, 0, &w, err);
	if (rc == 0 && strcmp(link->kind, "vxlan"))
		return pl_err_set(err, EEXIST,
				  "link %s is there and no vxlan device", name);
	return rc;
}

struct link_walk {
	int (*fn)(const struct pl_link *link, void *arg);
	void *arg;
};

static int walk_link(const struct nlmsghdr *h, void *arg)
{
	struct link_walk *walk = arg;
	struct pl_link link;
	struct want w = { .link = &link };
	int rc = parse_link(h, &w);

	return rc < 0 ? rc : walk->fn(&link, walk->arg);
}

int pl_nl_link_each(struct pl_nl *nl,
		    int (*fn)(const struct pl_link *link, void *arg),
		    void *arg, struct pl_err *err)
{
	struct link_walk walk = { fn, arg };
	struct ifinfomsg ifi = { 0 };
	struct pl_nlreq r;

	pl_nlreq_init(&r, RTM_GETLINK, 0, &ifi, sizeof(ifi));
	pl_nlreq_u32(&r, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
	return pl_nl_dump(nl, &r, RTM_NEWLINK, walk_link, &walk, err);
}

/* --- changing --- */

int pl_nl_link_del(struct pl_nl *nl, int index, struct pl_err *err)
{
	struct ifinfomsg ifi = { .ifi_index = index };
	struct pl_nlreq r;
	int rc;

	pl_nlreq_init(&r, RTM_DELLINK, 0, &ifi, sizeof(ifi));
	rc = pl_nl_ack(nl, &r, err);
	if (rc < 0)
		pl_err_prefix(err, "cannot remove link %d", index);
	return rc;
}

int pl_nl_link_set(struct pl_nl *nl, int index, int master, uint32_t mtu,
		   int up, struct pl_err *err)
{
	struct ifinfomsg ifi = { .ifi_index = index };
	struct pl_nlreq r;
	int rc;

	if (up >= 0) {
		ifi.ifi_change = IFF_UP;
		ifi.ifi_flags = up ? IFF_UP : 0;
	}
	pl_nlreq_init(&r, RTM_NEWLINK, 0, &ifi, sizeof(ifi));
	if (mtu)
		pl_nlreq_u32(&r, IFLA_MTU, mtu);
	if (master >= 0)
		pl_nlreq_u32(&r, IFLA_MASTER, (uint32_t)master);
	rc = pl_nl_ack(nl, &r, err);
	if (rc < 0)
		pl_err_prefix(err, "cannot change link %d", index);
	return rc;
}

static void put_queues(struct pl_nlreq *r, const struct pl_veth *v)
{
	if (!v->queues)
		return;
	pl_nlreq_u32(r, IFLA_NUM_TX_QUEUES, v->queues);
	pl_nlreq_u32(r, IFLA_NUM_RX_QUEUES, v->queues);
}

/* What every new link has. */
static void put_common(struct pl_nlreq *r, const char *name, uint32_t mtu,
		       const uint8_t *mac)
{
	pl_nlreq_str(r, IFLA_IFNAME, name);
	if (mtu)
		pl_nlreq_u32(r, IFLA_MTU, mtu);
	if (mac)
		pl_nlreq_mac(r, IFLA_ADDRESS, mac);
}

int pl_nl_bridge_add(struct pl_nl *nl, const char *name, uint32_t mtu,
		     const uint8_t *mac, struct pl_err *err)
{
	struct ifinfomsg ifi = { 0 };
	struct nlattr *info;
	struct pl_nlreq r;
	int rc = check_name(name, err);

	if (rc < 0)
		return rc;
	pl_nlreq_init(&r, RTM_NEWLINK, CREATE, &ifi, sizeof(ifi));
	put_common(&r, name, mtu, mac);
	info = pl_nlreq_nest(&r, IFLA_LINKINFO);
	pl_nlreq_str(&r, IFLA_INFO_KIND, "bridge");
	pl_nlreq_unnest(&r, info);
	rc = pl_nl_ack(nl, &r, err);
	if (rc < 0)
		pl_err_prefix(err, "cannot create bridge %s", name);
	return rc;
}

static void put_peer(struct pl_nlreq *r, const struct pl_veth *v)
{
	struct ifinfomsg ifi = { 0 };
	struct nlattr *peer = pl_nlreq_nest(r, VETH_INFO_PEER);

	pl_nlreq_append(r, &ifi, sizeof(ifi));
	put_common(r, v->peer_name, v->mtu, v->mac);
	put_queues(r, v);
	if (v->peer_netns_fd >= 0)
		pl_nlreq_u32(r, IFLA_NET_NS_FD, (uint32_t)v->peer_netns_fd);
	pl_nlreq_unnest(r, peer);
}

int pl_nl_veth_add(struct pl_nl *nl, const struct pl_veth *v,
		   struct pl_err *err)
{
	struct ifinfomsg ifi = { 0 };
	struct nlattr *info, *data;
	struct pl_nlreq r;
	int rc = check_name(v->name, err);

	if (rc == 0)
		rc = check_name(v->peer_name, err);
	if (rc < 0)
		return rc;
	if (v->up)
		ifi.ifi_flags = ifi.ifi_change = IFF_UP;
	pl_nlreq_init(&r, RTM_NEWLINK, CREATE, &ifi, sizeof(ifi));
	put_common(&r, v->name, v->mtu, v->own_mac);
	put_queues(&r, v);
	if (v->master)
		pl_nlreq_u32(&r, IFLA_MASTER, (uint32_t)v->master);
	info = pl_nlreq_nest(&r, IFLA_LINKINFO);
	pl_nlreq_str(&r, IFLA_INFO_KIND, "veth");
	data = pl_nlreq_nest(&r, IFLA_INFO_DATA);
	put_peer(&r, v);
	pl_nlreq_unnest(&r, data);
	pl_nlreq_unnest(&r, info);
	rc = pl_nl_ack(nl, &r, err);
	if (rc < 0)
		pl_err_prefix(err, "cannot create veth %s with peer %s",
			      v->name, v->peer_name);
	return rc;
}

static void put_vxlan(struct pl_nlreq *r, const struct pl_vxlan *v)
{
	uint16_t port = htons(v->port);

	pl_nlreq_u32(r, IFLA_VXLAN_ID, v->vni);
	pl_nlreq_put(r, IFLA_VXLAN_PORT, &port, sizeof(port));
	pl_nlreq_u8(r, IFLA_VXLAN_LEARNING, v->learning);
	if (v->link)
		pl_nlreq_u32(r, IFLA_VXLAN_LINK, (uint32_t)v->link);
	if (v->local.family)
		pl_nlreq_addr(r, v->local.family == AF_INET6 ?
				 IFLA_VXLAN_LOCAL6 : IFLA_VXLAN_LOCAL,
			      &v->local);
}

int pl_nl_vxlan_add(struct pl_nl *nl, const struct pl_vxlan *v,
		    struct pl_err *err)
{
	struct ifinfomsg ifi = { 0 };
	struct nlattr *info, *data;
	struct pl_nlreq r;
	int rc = check_name(v->name, err);

	if (rc < 0)
		return rc;
	pl_nlreq_init(&r, RTM_NEWLINK, CREATE, &ifi, sizeof(ifi));
	put_common(&r, v->name, v->mtu, v->mac);
	info = pl_nlreq_nest(&r, IFLA_LINKINFO);
	pl_nlreq_str(&r, IFLA_INFO_KIND, "vxlan");
	data = pl_nlreq_nest(&r, IFLA_INFO_DATA);
	put_vxlan(&r, v);
	pl_nlreq_unnest(&r, data);
	pl_nlreq_unnest(&r, info);
	rc = pl_nl_ack(nl, &r, err);
	if (rc < 0)
		pl_err_prefix(err, "cannot create vxlan device %s (vni %u)",
			      v->name, v->vni);
	return rc;
}
