/* common/nl_neigh.c - neighbours and the forwarding entries of a vxlan */
#include "common/nl_internal.h"

#include <errno.h>
#include <stdio.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>

#define SET (NLM_F_CREATE | NLM_F_REPLACE)

static struct ndmsg neigh_header(int index, const struct pl_addr *ip)
{
	return (struct ndmsg){ .ndm_family = ip->family, .ndm_ifindex = index,
			       .ndm_state = NUD_PERMANENT };
}

int pl_nl_neigh_set(struct pl_nl *nl, int index, const struct pl_addr *ip,
		    const uint8_t *mac, struct pl_err *err)
{
	struct ndmsg m = neigh_header(index, ip);
	char text[INET6_ADDRSTRLEN];
	struct pl_nlreq r;
	int rc;

	pl_nlreq_init(&r, RTM_NEWNEIGH, SET, &m, sizeof(m));
	pl_nlreq_addr(&r, NDA_DST, ip);
	pl_nlreq_mac(&r, NDA_LLADDR, mac);
	rc = pl_nl_ack(nl, &r, err);
	if (rc < 0)
		pl_err_prefix(err, "cannot set neighbour %s on link %d",
			      pl_addr_str(ip, text), index);
	return rc;
}

int pl_nl_neigh_del(struct pl_nl *nl, int index, const struct pl_addr *ip,
		    struct pl_err *err)
{
	struct ndmsg m = neigh_header(index, ip);
	char text[INET6_ADDRSTRLEN];
	struct pl_nlreq r;
	int rc;

	pl_nlreq_init(&r, RTM_DELNEIGH, 0, &m, sizeof(m));
	pl_nlreq_addr(&r, NDA_DST, ip);
	rc = pl_nl_ack(nl, &r, err);
	if (rc < 0)
		pl_err_prefix(err, "cannot remove neighbour %s from link %d",
			      pl_addr_str(ip, text), index);
	return rc;
}

static int fdb(struct pl_nl *nl, int type, int flags, int index,
	       const uint8_t *mac, const struct pl_addr *dst,
	       struct pl_err *err)
{
	struct ndmsg m = { .ndm_family = AF_BRIDGE, .ndm_ifindex = index,
			   .ndm_state = NUD_PERMANENT, .ndm_flags = NTF_SELF };
	struct pl_nlreq r;
	int rc;

	pl_nlreq_init(&r, type, flags, &m, sizeof(m));
	pl_nlreq_mac(&r, NDA_LLADDR, mac);
	if (dst)
		pl_nlreq_addr(&r, NDA_DST, dst);
	rc = pl_nl_ack(nl, &r, err);
	if (rc < 0)
		pl_err_prefix(err, "cannot %s forwarding entry "
			      "%02x:%02x:%02x:%02x:%02x:%02x of link %d",
			      type == RTM_NEWNEIGH ? "set" : "remove", mac[0],
			      mac[1], mac[2], mac[3], mac[4], mac[5], index);
	return rc;
}

int pl_nl_fdb_set(struct pl_nl *nl, int index, const uint8_t *mac,
		  const struct pl_addr *dst, struct pl_err *err)
{
	return fdb(nl, RTM_NEWNEIGH, SET, index, mac, dst, err);
}

int pl_nl_fdb_del(struct pl_nl *nl, int index, const uint8_t *mac,
		  const struct pl_addr *dst, struct pl_err *err)
{
	return fdb(nl, RTM_DELNEIGH, 0, index, mac, dst, err);
}

struct neigh_walk {
	int index;
	int (*fn)(const struct pl_neigh *n, void *arg);
	void *arg;
};

/* The address's length tells its family where the header says AF_BRIDGE. */
static int walk_neigh(const struct nlmsghdr *h, void *arg)
{
	struct neigh_walk *w = arg;
	struct nlattr *tb[NDA_MAX + 1];
	struct ndmsg *m = NLMSG_DATA(h);
	struct pl_neigh n = { 0 };
	struct nlattr *dst;

	if (nlmsg_parse((struct nlmsghdr *)h, sizeof(*m), tb, NDA_MAX,
			NULL) < 0)
		return -EPROTO;
	dst = tb[NDA_DST];
	if (m->ndm_ifindex != w->index || !dst ||
	    !pl_nla_mac(tb[NDA_LLADDR], n.mac))
		return 0;
	pl_nla_addr(dst, nla_len(dst) == 16 ? AF_INET6 : AF_INET, &n.ip);
	n.permanent = (m->ndm_state & NUD_PERMANENT) != 0;
	return n.ip.family ? w->fn(&n, w->arg) : 0;
}

static int walk(struct pl_nl *nl, int family, struct neigh_walk *w,
		struct pl_err *err)
{
	struct ndmsg m = { .ndm_family = (uint8_t)family };
	struct pl_nlreq r;

	pl_nlreq_init(&r, RTM_GETNEIGH, 0, &m, sizeof(m));
	pl_nlreq_u32(&r, NDA_IFINDEX, (uint32_t)w->index);
	return pl_nl_dump(nl, &r, RTM_NEWNEIGH, walk_neigh, w, err);
}

int pl_nl_neigh_each(struct pl_nl *nl, int index,
		     int (*fn)(const struct pl_neigh *n, void *arg), void *arg,
		     struct pl_err *err)
{
	struct neigh_walk w = { index, fn, arg };
	int rc = walk(nl, AF_INET, &w, err);

	return rc ? rc : walk(nl, AF_INET6, &w, err);
}

int pl_nl_fdb_each(struct pl_nl *nl, int index,
		   int (*fn)(const struct pl_neigh *n, void *arg), void *arg,
		   struct pl_err *err)
{
	struct neigh_walk w = { index, fn, arg };

	return walk(nl, AF_BRIDGE, &w, err);
}
