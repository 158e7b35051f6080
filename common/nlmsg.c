/* common/nlmsg.c - netlink messages: attributes read */
#include "common/nlmsg.h"

#include <errno.h>
#include <string.h>

bool pl_nla_ok(const struct nlattr *a, size_t left)
{
	return left >= (size_t)NLA_HDRLEN && a->nla_len >= NLA_HDRLEN &&
	       a->nla_len <= left;
}

/* The padding of the last one may be missing. */
static size_t step(size_t len, size_t left)
{
	size_t n = NLA_ALIGN(len);

	return n < left ? n : left;
}

const struct nlattr *pl_nla_next(const struct nlattr *a, size_t *left)
{
	size_t n = step(a->nla_len, *left);

	*left -= n;
	return (const void *)((const char *)a + n);
}

void pl_nla_parse(const void *at, size_t len, const struct nlattr **tb, int max)
{
	const struct nlattr *a = at;

	memset(tb, 0, sizeof(*tb) * ((size_t)max + 1));
	for (; pl_nla_ok(a, len); a = pl_nla_next(a, &len))
		if (pl_nla_type(a) <= max)
			tb[pl_nla_type(a)] = a;
}

bool pl_nla_parse_nested(const struct nlattr *nest, const struct nlattr **tb,
			 int max)
{
	if (nest)
		pl_nla_parse(pl_nla_data(nest), pl_nla_len(nest), tb, max);
	return nest;
}

const struct nlattr *pl_nla_find(const void *at, size_t len, int type)
{
	const struct nlattr *a = at;

	for (; pl_nla_ok(a, len); a = pl_nla_next(a, &len))
		if (pl_nla_type(a) == type)
			return a;
	return NULL;
}

bool pl_nlmsg_ok(const struct nlmsghdr *h, size_t left)
{
	return left >= (size_t)NLMSG_HDRLEN && h->nlmsg_len >= NLMSG_HDRLEN &&
	       h->nlmsg_len <= left;
}

const struct nlmsghdr *pl_nlmsg_next(const struct nlmsghdr *h, size_t *left)
{
	size_t n = step(h->nlmsg_len, *left);

	*left -= n;
	return (const void *)((const char *)h + n);
}

/* The bytes behind both headers; -EPROTO. */
static int attrs(const struct nlmsghdr *h, size_t hdr_len, const char **at)
{
	size_t skip = NLMSG_HDRLEN + NLMSG_ALIGN(hdr_len);

	if (h->nlmsg_len < NLMSG_HDRLEN + hdr_len)
		return -EPROTO;
	*at = (const char *)h + skip;
	return h->nlmsg_len > skip ? (int)(h->nlmsg_len - skip) : 0;
}

int pl_nlmsg_parse(const struct nlmsghdr *h, size_t hdr_len,
		   const struct nlattr **tb, int max)
{
	const char *at;
	int n = attrs(h, hdr_len, &at);

	if (n >= 0)
		pl_nla_parse(at, (size_t)n, tb, max);
	return n < 0 ? n : 0;
}

const struct nlattr *pl_nlmsg_find(const struct nlmsghdr *h, size_t hdr_len,
				   int type)
{
	const char *at;
	int n = attrs(h, hdr_len, &at);

	return n < 0 ? NULL : pl_nla_find(at, (size_t)n, type);
}
