/*
 * common/nlmsg.h - netlink messages: attributes read and written
 *
 * What the kernel sends is walked by the lengths that it gives, and never past
 * the end of what is there. See docs/decisions.md for why this is no library's.
 */
#ifndef COMMON_NLMSG_H
#define COMMON_NLMSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <linux/netlink.h>

/* --- attributes; of the payload: --- */

static inline const void *pl_nla_data(const struct nlattr *a)
{
	return (const char *)a + NLA_HDRLEN;
}

static inline size_t pl_nla_len(const struct nlattr *a)
{
	return a->nla_len - (size_t)NLA_HDRLEN;
}

static inline int pl_nla_type(const struct nlattr *a)
{
	return a->nla_type & NLA_TYPE_MASK;
}

/* Is there a whole one at a, with *left bytes from there on? */
bool pl_nla_ok(const struct nlattr *a, size_t left);
const struct nlattr *pl_nla_next(const struct nlattr *a, size_t *left);

/* tb[type] for each type up to max: the last one of it, or NULL. */
void pl_nla_parse(const void *at, size_t len, const struct nlattr **tb,
		  int max);
/* The members of a nest; false: it is NULL. */
bool pl_nla_parse_nested(const struct nlattr *nest, const struct nlattr **tb,
			 int max);
/* The first one of a type, or NULL. */
const struct nlattr *pl_nla_find(const void *at, size_t len, int type);

/* --- messages, whose attributes follow a header of hdr_len bytes --- */

bool pl_nlmsg_ok(const struct nlmsghdr *h, size_t left);
const struct nlmsghdr *pl_nlmsg_next(const struct nlmsghdr *h, size_t *left);

static inline const void *pl_nlmsg_data(const struct nlmsghdr *h)
{
	return (const char *)h + NLMSG_HDRLEN;
}

/* -EPROTO: too short for the header. */
int pl_nlmsg_parse(const struct nlmsghdr *h, size_t hdr_len,
		   const struct nlattr **tb, int max);
const struct nlattr *pl_nlmsg_find(const struct nlmsghdr *h, size_t hdr_len,
				   int type);

#endif
