/* common/nl_addr.c - addresses of links */
#include "common/nl_internal.h"

#include <errno.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>

static int change(struct pl_nl *nl, int type, int flags, int index,
		  const struct pl_prefix *addr, uint32_t ifa_flags,
		  struct pl_err *err)
{
	struct ifaddrmsg ifa = { .ifa_family = addr->addr.family,
				 .ifa_prefixlen = addr->len,
				 .ifa_index = (uint32_t)index };
	char text[PL_PREFIX_STRLEN];
	struct pl_nlreq r;
	int rc;

	pl_nlreq_init(&r, type, flags, &ifa, sizeof(ifa));
	pl_nlreq_addr(&r, IFA_LOCAL, &addr->addr);
	pl_nlreq_addr(&r, IFA_ADDRESS, &addr->addr);
	/* A /31 and a /32 have none. */
	if (type == RTM_NEWADDR && addr->addr.family == AF_INET &&
	    addr->len < 31) {
		struct pl_addr last = pl_prefix_last(addr);

		pl_nlreq_addr(&r, IFA_BROADCAST, &last);
	}
	if (ifa_flags)
		pl_nlreq_u32(&r, IFA_FLAGS, ifa_flags);
	rc = pl_nl_ack(nl, &r, err);
	if (rc < 0)
		pl_err_prefix(err, "cannot %s address %s %s link %d",
			      type == RTM_NEWADDR ? "add" : "remove",
			      pl_prefix_str(addr, text),
			      type == RTM_NEWADDR ? "to" : "from", index);
	return rc;
}

int pl_nl_addr_add(struct pl_nl *nl, int index, const struct pl_prefix *addr,
		   bool nodad, struct pl_err *err)
{
	bool dad = !nodad || addr->addr.family != AF_INET6;

	return change(nl, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, index, addr,
		      dad ? 0 : IFA_F_NODAD, err);
}

int pl_nl_addr_del(struct pl_nl *nl, int index, const struct pl_prefix *addr,
		   struct pl_err *err)
{
	return change(nl, RTM_DELADDR, 0, index, addr, 0, err);
}

struct addr_walk {
	int index;
	int (*fn)(int index, const struct pl_prefix *addr, void *arg);
	void *arg;
};

static int walk_addr(const struct nlmsghdr *h, void *arg)
{
	struct addr_walk *w = arg;
	struct nlattr *tb[IFA_MAX + 1];
	struct ifaddrmsg *ifa = NLMSG_DATA(h);
	struct pl_prefix p = { 0 };

	if (nlmsg_parse((struct nlmsghdr *)h, sizeof(*ifa), tb, IFA_MAX,
			NULL) < 0)
		return -EPROTO;
	if (w->index && (int)ifa->ifa_index != w->index)
		return 0;
	/* IFA_ADDRESS is the other end of a point-to-point address. */
	pl_nla_addr(tb[IFA_LOCAL] ? tb[IFA_LOCAL] : tb[IFA_ADDRESS],
		    ifa->ifa_family, &p.addr);
	p.len = ifa->ifa_prefixlen;
	if (!p.addr.family)
		return 0;
	return w->fn((int)ifa->ifa_index, &p, w->arg);
}

static int walk(struct pl_nl *nl, struct addr_walk *w, struct pl_err *err)
{
	struct ifaddrmsg ifa = { .ifa_index = (uint32_t)w->index };
	struct pl_nlreq r;

	pl_nlreq_init(&r, RTM_GETADDR, 0, &ifa, sizeof(ifa));
	return pl_nl_dump(nl, &r, RTM_NEWADDR, walk_addr, w, err);
}

static int settling(const struct nlmsghdr *h, void *arg)
{
	struct nlattr *tb[IFA_MAX + 1];
	struct ifaddrmsg *ifa = NLMSG_DATA(h);
	int *state = arg;
	uint32_t flags;

	if (nlmsg_parse((struct nlmsghdr *)h, sizeof(*ifa), tb, IFA_MAX,
			NULL) < 0)
		return -EPROTO;
	flags = tb[IFA_FLAGS] ? pl_nla_u32(tb[IFA_FLAGS]) : ifa->ifa_flags;
	if (flags & IFA_F_DADFAILED)
		return -EADDRINUSE;
	if (flags & IFA_F_TENTATIVE)
		*state = 1;
	return 0;
}

int pl_nl_addr_settled(struct pl_nl *nl, int index, struct pl_err *err)
{
	struct ifaddrmsg ifa = { .ifa_family = AF_INET6,
				 .ifa_index = (uint32_t)index };
	struct pl_nlreq r;
	int state = 0, rc;

	pl_nlreq_init(&r, RTM_GETADDR, 0, &ifa, sizeof(ifa));
	rc = pl_nl_dump(nl, &r, RTM_NEWADDR, settling, &state, err);
	if (rc == -EADDRINUSE)
		pl_err_set(err, EADDRINUSE, "another machine on the network "
			   "has an IPv6 address of link %d", index);
	return rc < 0 ? rc : state;
}

struct each {
	int (*fn)(const struct pl_prefix *addr, void *arg);
	void *arg;
};

static int pass_on(int index, const struct pl_prefix *addr, void *arg)
{
	struct each *e = arg;

	(void)index;
	return e->fn(addr, e->arg);
}

int pl_nl_addr_each(struct pl_nl *nl, int index,
		    int (*fn)(const struct pl_prefix *addr, void *arg),
		    void *arg, struct pl_err *err)
{
	struct each e = { fn, arg };
	struct addr_walk w = { index, pass_on, &e };

	return walk(nl, &w, err);
}

struct find {
	const struct pl_addr *addr;
	int index;
};

static int match(int index, const struct pl_prefix *addr, void *arg)
{
	struct find *f = arg;

	if (!pl_addr_equal(&addr->addr, f->addr))
		return 0;
	f->index = index;
	return 1;
}

int pl_nl_addr_find(struct pl_nl *nl, const struct pl_addr *addr, int *index,
		    struct pl_err *err)
{
	struct find f = { .addr = addr };
	struct addr_walk w = { 0, match, &f };
	char text[INET6_ADDRSTRLEN];
	int rc = walk(nl, &w, err);

	if (rc < 0)
		return rc;
	if (rc == 0)
		return pl_err_set(err, EADDRNOTAVAIL,
				  "no interface has the address %s",
				  pl_addr_str(addr, text));
	*index = f.index;
	return 0;
}
