/*
 * common/nl_nft.c - one question to nftables, by a plain netlink message
 *
 * Everything else is libnftables' business, which a plugin loads only when
 * there is something to do: this says whether there is.
 */
#include "common/nl_internal.h"

#include <errno.h>
#include <arpa/inet.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#define MSG(type) (NFNL_SUBSYS_NFTABLES << 8 | (type))

static int read_users(const struct nlmsghdr *h, void *arg)
{
	struct nlattr *a = nlmsg_find_attr((struct nlmsghdr *)h,
					   sizeof(struct nfgenmsg),
					   NFTA_CHAIN_USE);

	*(uint32_t *)arg = ntohl(pl_nla_u32(a));
	return 0;
}

int pl_nl_nft_users(struct pl_nl *nl, int family, const char *table,
		    const char *chain, uint32_t *users, struct pl_err *err)
{
	struct nfgenmsg gen = { .nfgen_family = (uint8_t)family,
				.version = NFNETLINK_V0 };
	struct pl_nlreq r;
	int rc;

	pl_nlreq_init(&r, MSG(NFT_MSG_GETCHAIN), 0, &gen, sizeof(gen));
	pl_nlreq_str(&r, NFTA_CHAIN_TABLE, table);
	pl_nlreq_str(&r, NFTA_CHAIN_NAME, chain);
	rc = pl_nl_ask(nl, &r, read_users, users, err);
	/* A kernel without nftables, or without this family, says so. */
	if (rc == -EINVAL || rc == -EOPNOTSUPP || rc == -EAFNOSUPPORT)
		rc = -ENOENT;
	return rc;
}
