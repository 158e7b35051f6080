/*
 * common/nl_internal.h - requests to the kernel, between the parts of nl.c
 *
 * Messages are built with libnl's nlmsg and nla calls. libnl-route's objects
 * are not used: one veth costs them a dozen allocations and a cache lookup, a
 * plugin that links them pays for the load, and they have no way to place a
 * veth's peer by a namespace's descriptor.
 *
 * A pl_nlreq remembers that an attribute did not fit, so that builders need
 * not check each of them; sending it fails then.
 */
#ifndef COMMON_NL_INTERNAL_H
#define COMMON_NL_INTERNAL_H

#include <string.h>
#include <netlink/attr.h>
#include <netlink/msg.h>

#include "common/nl.h"

struct pl_nlreq {
	struct nl_msg *msg;	/* NULL: no memory */
	bool full;
};

/* type RTM_..., the header of that type; freed by what sends it. */
void pl_nlreq_init(struct pl_nlreq *r, int type, int flags, const void *hdr,
		   size_t len);
void pl_nlreq_put(struct pl_nlreq *r, int attr, const void *data, size_t len);
/* Raw bytes, for a header in the middle of attributes. */
void pl_nlreq_append(struct pl_nlreq *r, const void *data, size_t len);
struct nlattr *pl_nlreq_nest(struct pl_nlreq *r, int attr);
void pl_nlreq_unnest(struct pl_nlreq *r, struct nlattr *nest);

static inline void pl_nlreq_u8(struct pl_nlreq *r, int attr, uint8_t v)
{
	pl_nlreq_put(r, attr, &v, sizeof(v));
}

static inline void pl_nlreq_u32(struct pl_nlreq *r, int attr, uint32_t v)
{
	pl_nlreq_put(r, attr, &v, sizeof(v));
}

static inline void pl_nlreq_str(struct pl_nlreq *r, int attr, const char *s)
{
	pl_nlreq_put(r, attr, s, strlen(s) + 1);
}

static inline void pl_nlreq_mac(struct pl_nlreq *r, int attr,
				const uint8_t *mac)
{
	pl_nlreq_put(r, attr, mac, 6);
}

static inline void pl_nlreq_addr(struct pl_nlreq *r, int attr,
				 const struct pl_addr *a)
{
	pl_nlreq_put(r, attr, a->bytes, (size_t)pl_addr_bits(a) / 8);
}

/* Send, free, wait for the kernel's acknowledgement. */
int pl_nl_ack(struct pl_nl *nl, struct pl_nlreq *r, struct pl_err *err);

typedef int pl_nl_msg_fn(const struct nlmsghdr *h, void *arg);

/* Send, free, and pass the one message that is the answer to fn. */
int pl_nl_ask(struct pl_nl *nl, struct pl_nlreq *r, pl_nl_msg_fn *fn, void *arg,
	      struct pl_err *err);

/*
 * Send as a dump, free, gather all of it, then pass each message of type
 * want to fn. Returns 0, -errno, or what fn returned if that is not 0.
 */
int pl_nl_dump(struct pl_nl *nl, struct pl_nlreq *r, int want,
	       pl_nl_msg_fn *fn, void *arg, struct pl_err *err);

/*
 * Send as a dump, free, and pass each message to fn as it comes, so that it
 * does not matter how many there are. For tables that nobody can read as they
 * are at one moment: entries may be missed or come twice.
 */
int pl_nl_stream(struct pl_nl *nl, struct pl_nlreq *r, pl_nl_msg_fn *fn,
		 void *arg, struct pl_err *err);

/* Values of attributes that may be absent or short: 0, "", family 0 then. */
uint8_t pl_nla_u8(const struct nlattr *a);
uint16_t pl_nla_be16(const struct nlattr *a);
uint32_t pl_nla_u32(const struct nlattr *a);
void pl_nla_str(const struct nlattr *a, char *buf, size_t size);
bool pl_nla_mac(const struct nlattr *a, uint8_t *mac);
/* IFLA_INFO_SLAVE_DATA of a bridge's port */
void pl_nla_port(const struct nlattr *data, struct pl_link *l);
void pl_nla_addr(const struct nlattr *a, int family, struct pl_addr *out);

#endif
