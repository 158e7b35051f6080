/* common/nl_route.c - routes */
#include "common/nl_internal.h"

#include <errno.h>
#include <linux/netconf.h>
#include <linux/rtnetlink.h>

#include "common/util.h"

static uint8_t usual_scope(const struct pl_route *r)
{
	if (r->dst.addr.family == AF_INET6 || r->gw.family)
		return RT_SCOPE_UNIVERSE;
	return RT_SCOPE_LINK;
}

static void put_metrics(struct pl_nlreq *q, const struct pl_route *r)
{
	struct nlattr *nest;

	if (!r->mtu && !r->advmss)
		return;
	nest = pl_nlreq_nest(q, RTA_METRICS);
	if (r->mtu)
		pl_nlreq_u32(q, RTAX_MTU, r->mtu);
	if (r->advmss)
		pl_nlreq_u32(q, RTAX_ADVMSS, r->advmss);
	pl_nlreq_unnest(q, nest);
}

static void put_gateway(struct pl_nlreq *q, const struct pl_route *r)
{
	struct {
		uint16_t family;
		uint8_t bytes[16];
	} via = { .family = r->gw.family };

	if (!r->gw.family)
		return;
	if (r->gw.family == r->dst.addr.family) {
		pl_nlreq_addr(q, RTA_GATEWAY, &r->gw);
		return;
	}
	/* IPv4 behind an IPv6 next hop. */
	memcpy(via.bytes, r->gw.bytes, sizeof(via.bytes));
	pl_nlreq_put(q, RTA_VIA, &via,
		     2 + (size_t)pl_addr_bits(&r->gw) / 8);
}

static void put_route(struct pl_nlreq *q, const struct pl_route *r)
{
	struct pl_addr dst = pl_prefix_first(&r->dst);

	if (r->dst.len)
		pl_nlreq_addr(q, RTA_DST, &dst);
	put_gateway(q, r);
	if (r->index)
		pl_nlreq_u32(q, RTA_OIF, (uint32_t)r->index);
	if (r->priority)
		pl_nlreq_u32(q, RTA_PRIORITY, r->priority);
	if (r->table)
		pl_nlreq_u32(q, RTA_TABLE, r->table);
}

static struct rtmsg header(const struct pl_route *r)
{
	struct rtmsg m = { .rtm_family = r->dst.addr.family,
			   .rtm_dst_len = r->dst.len,
			   .rtm_table = RT_TABLE_MAIN };

	if (r->table)
		m.rtm_table = r->table < 256 ? (uint8_t)r->table :
					       RT_TABLE_UNSPEC;
	return m;
}

static void explain(const struct pl_route *r, const char *verb,
		    struct pl_err *err)
{
	char dst[PL_PREFIX_STRLEN], gw[INET6_ADDRSTRLEN] = "";

	pl_prefix_str(&r->dst, dst);
	if (r->gw.family)
		pl_addr_str(&r->gw, gw);
	pl_err_prefix(err, "cannot %s route %s%s%s on link %d", verb, dst,
		      *gw ? " via " : "", gw, r->index);
}

int pl_nl_route_add(struct pl_nl *nl, const struct pl_route *r, bool replace,
		    struct pl_err *err)
{
	struct rtmsg m = header(r);
	struct pl_nlreq q;
	int rc;

	m.rtm_protocol = RTPROT_STATIC;
	m.rtm_type = RTN_UNICAST;
	m.rtm_scope = r->scope < 0 ? usual_scope(r) : (uint8_t)r->scope;
	m.rtm_flags = r->onlink ? RTNH_F_ONLINK : 0;
	pl_nlreq_init(&q, RTM_NEWROUTE,
		      NLM_F_CREATE | (replace ? NLM_F_REPLACE : NLM_F_EXCL),
		      &m, sizeof(m));
	put_route(&q, r);
	put_metrics(&q, r);
	rc = pl_nl_ack(nl, &q, err);
	if (rc < 0)
		explain(r, "add", err);
	return rc;
}

int pl_nl_route_del(struct pl_nl *nl, const struct pl_route *r,
		    struct pl_err *err)
{
	struct rtmsg m = header(r);
	struct pl_nlreq q;
	int rc;

	/* "Nowhere" matches any scope. */
	m.rtm_scope = r->scope < 0 ? RT_SCOPE_NOWHERE : (uint8_t)r->scope;
	pl_nlreq_init(&q, RTM_DELROUTE, 0, &m, sizeof(m));
	put_route(&q, r);
	rc = pl_nl_ack(nl, &q, err);
	if (rc < 0)
		explain(r, "remove", err);
	return rc;
}

struct route_walk {
	int (*fn)(const struct pl_route *r, void *arg);
	void *arg;
};

static void parse_metrics(const struct nlattr *a, struct pl_route *r)
{
	struct nlattr *tb[RTAX_MAX + 1];

	if (!a || nla_parse_nested(tb, RTAX_MAX, (struct nlattr *)a, NULL) < 0)
		return;
	r->mtu = pl_nla_u32(tb[RTAX_MTU]);
	r->advmss = pl_nla_u32(tb[RTAX_ADVMSS]);
}

static void parse_via(struct nlattr *a, struct pl_addr *gw)
{
	uint16_t family;

	memset(gw, 0, sizeof(*gw));
	if (nla_len(a) != 2 + 4 && nla_len(a) != 2 + 16)
		return;
	memcpy(&family, nla_data(a), sizeof(family));
	gw->family = (uint8_t)family;
	memcpy(gw->bytes, (char *)nla_data(a) + 2, (size_t)nla_len(a) - 2);
}

static int walk_route(const struct nlmsghdr *h, void *arg)
{
	struct route_walk *w = arg;
	struct nlattr *tb[RTA_MAX + 1];
	struct rtmsg *m = NLMSG_DATA(h);
	struct pl_route r = { .dst.len = 0 };

	if (nlmsg_parse((struct nlmsghdr *)h, sizeof(*m), tb, RTA_MAX,
			NULL) < 0)
		return -EPROTO;
	if (m->rtm_type != RTN_UNICAST || (m->rtm_flags & RTM_F_CLONED))
		return 0;
	pl_nla_addr(tb[RTA_DST], m->rtm_family, &r.dst.addr);
	r.dst.addr.family = m->rtm_family;
	r.dst.len = m->rtm_dst_len;
	pl_nla_addr(tb[RTA_GATEWAY], m->rtm_family, &r.gw);
	if (tb[RTA_VIA])
		parse_via(tb[RTA_VIA], &r.gw);
	r.index = (int)pl_nla_u32(tb[RTA_OIF]);
	r.onlink = (m->rtm_flags & RTNH_F_ONLINK) != 0;
	r.priority = pl_nla_u32(tb[RTA_PRIORITY]);
	r.table = tb[RTA_TABLE] ? pl_nla_u32(tb[RTA_TABLE]) : m->rtm_table;
	if (r.table == RT_TABLE_MAIN)
		r.table = 0;
	r.scope = m->rtm_scope;
	parse_metrics(tb[RTA_METRICS], &r);
	return w->fn(&r, w->arg);
}

int pl_nl_route_each(struct pl_nl *nl, int family,
		     int (*fn)(const struct pl_route *r, void *arg), void *arg,
		     struct pl_err *err)
{
	static const uint8_t families[] = { AF_INET, AF_INET6 };
	struct route_walk w = { fn, arg };

	for (size_t i = 0; i < PL_ARRAY_SIZE(families); i++) {
		struct rtmsg m = { .rtm_family = families[i] };
		struct pl_nlreq q;
		int rc;

		if (family && family != families[i])
			continue;
		pl_nlreq_init(&q, RTM_GETROUTE, 0, &m, sizeof(m));
		rc = pl_nl_dump(nl, &q, RTM_NEWROUTE, walk_route, &w, err);
		if (rc)
			return rc;
	}
	return 0;
}

struct way {
	int index;
	bool direct;
};

static int read_way(const struct nlmsghdr *h, void *arg)
{
	struct nlmsghdr *m = (struct nlmsghdr *)h;
	struct way *w = arg;

	w->index = (int)pl_nla_u32(nlmsg_find_attr(m, sizeof(struct rtmsg),
						   RTA_OIF));
	w->direct = !nlmsg_find_attr(m, sizeof(struct rtmsg), RTA_GATEWAY) &&
		    !nlmsg_find_attr(m, sizeof(struct rtmsg), RTA_VIA);
	return 0;
}

int pl_nl_route_to(struct pl_nl *nl, const struct pl_addr *addr, int *index,
		   bool *direct, struct pl_err *err)
{
	struct rtmsg m = { .rtm_family = addr->family,
			   .rtm_dst_len = (uint8_t)pl_addr_bits(addr) };
	char text[INET6_ADDRSTRLEN];
	struct way w = { 0 };
	struct pl_nlreq q;
	int rc;

	pl_nlreq_init(&q, RTM_GETROUTE, 0, &m, sizeof(m));
	pl_nlreq_addr(&q, RTA_DST, addr);
	rc = pl_nl_ask(nl, &q, read_way, &w, err);
	*index = w.index;
	*direct = w.direct;
	if (rc == 0 && !*index)
		rc = pl_err_set(err, ENETUNREACH, "no link");
	if (rc < 0)
		pl_err_prefix(err, "cannot find the way to %s",
			      pl_addr_str(addr, text));
	return rc;
}

static int read_forwarding(const struct nlmsghdr *h, void *arg)
{
	const struct nlattr *a;
	int *forwards = arg;

	a = nlmsg_find_attr((struct nlmsghdr *)h, sizeof(struct netconfmsg),
			    NETCONFA_FORWARDING);
	*forwards = pl_nla_u32(a) != 0;
	return a ? 0 : -EPROTO;
}

int pl_nl_forwards(struct pl_nl *nl, int family, struct pl_err *err)
{
	struct netconfmsg m = { .ncm_family = (uint8_t)family };
	int forwards = 0, rc;
	struct pl_nlreq q;

	pl_nlreq_init(&q, RTM_GETNETCONF, 0, &m, sizeof(m));
	pl_nlreq_u32(&q, NETCONFA_IFINDEX, (uint32_t)NETCONFA_IFINDEX_ALL);
	rc = pl_nl_ask(nl, &q, read_forwarding, &forwards, err);
	if (rc < 0)
		pl_err_prefix(err, "cannot see whether packets are forwarded");
	return rc < 0 ? rc : forwards;
}
