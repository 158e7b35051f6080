/* common/nl_ct.c - the connections that the kernel tracks */
#include "common/nl_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <arpa/inet.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>

#define MSG(type) (NFNL_SUBSYS_CTNETLINK << 8 | (type))

struct forget {
	int family, proto;
	bool (*wanted)(const struct pl_addr *dst, uint16_t port, void *arg);
	void *arg;
	char *found;			/* tuples, each as its attribute is */
	size_t bytes;
	bool full;			/* no memory for more */
};

/* The member of a nest of nests; NULL: none. */
static struct nlattr *inner(struct nlattr *nest, int attr)
{
	return nest ? nla_find(nla_data(nest), nla_len(nest), attr) : NULL;
}

static bool matches(const struct forget *f, struct nlattr *tuple)
{
	struct nlattr *ip = inner(tuple, CTA_TUPLE_IP);
	struct nlattr *proto = inner(tuple, CTA_TUPLE_PROTO);
	bool v4 = f->family == AF_INET;
	struct pl_addr dst;

	if (pl_nla_u8(inner(proto, CTA_PROTO_NUM)) != f->proto)
		return false;
	pl_nla_addr(inner(ip, v4 ? CTA_IP_V4_DST : CTA_IP_V6_DST), f->family,
		    &dst);
	return dst.family &&
	       f->wanted(&dst, pl_nla_be16(inner(proto, CTA_PROTO_DST_PORT)),
			 f->arg);
}

static int look_at(const struct nlmsghdr *h, void *arg)
{
	struct nlattr *tuple = nlmsg_find_attr((struct nlmsghdr *)h,
					       sizeof(struct nfgenmsg),
					       CTA_TUPLE_ORIG);
	struct forget *f = arg;
	size_t n;
	char *p;

	if (!tuple || !matches(f, tuple))
		return 0;
	n = (size_t)nla_total_size(nla_len(tuple));
	p = realloc(f->found, f->bytes + n);
	if (!p) {
		f->full = true;
		return 0;
	}
	f->found = p;
	memset(p + f->bytes, 0, n);
	memcpy(p + f->bytes, tuple, tuple->nla_len);
	f->bytes += n;
	return 0;
}

/* One that ended meanwhile is as good. */
static int forget_all(struct pl_nl *nl, const struct forget *f,
		      const struct nfgenmsg *gen, struct pl_err *err)
{
	struct nlattr *tuple = (struct nlattr *)f->found;
	int left = (int)f->bytes, n = 0, rc;

	for (; nla_ok(tuple, left); tuple = nla_next(tuple, &left), n++) {
		struct pl_nlreq r;

		pl_nlreq_init(&r, MSG(IPCTNL_MSG_CT_DELETE), 0, gen,
			      sizeof(*gen));
		pl_nlreq_put(&r, CTA_TUPLE_ORIG | NLA_F_NESTED,
			     nla_data(tuple), (size_t)nla_len(tuple));
		rc = pl_nl_ack(nl, &r, err);
		if (rc < 0 && rc != -ENOENT)
			return rc;
	}
	return n;
}

int pl_nl_ct_forget(struct pl_nl *nl, int family, int proto,
		    bool (*wanted)(const struct pl_addr *dst, uint16_t port,
				   void *arg),
		    void *arg, struct pl_err *err)
{
	struct nfgenmsg gen = { .nfgen_family = (uint8_t)family,
				.version = NFNETLINK_V0 };
	struct forget f = { .family = family, .proto = proto, .wanted = wanted,
			    .arg = arg };
	struct pl_nlreq r;
	int rc;

	pl_nlreq_init(&r, MSG(IPCTNL_MSG_CT_GET), 0, &gen, sizeof(gen));
	rc = pl_nl_stream(nl, &r, look_at, &f, err);
	if (rc == 0 && f.full)
		rc = pl_err_set(err, ENOMEM, "out of memory");
	if (rc == 0)
		rc = forget_all(nl, &f, &gen, err);
	free(f.found);
	return rc;
}
