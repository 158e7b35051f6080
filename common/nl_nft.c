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

static int read_dormant(const struct nlmsghdr *h, void *arg)
{
	struct nlattr *tb[NFTA_TABLE_MAX + 1];
	uint32_t flags = 0;
	bool *dormant = arg;

	if (nlmsg_parse((struct nlmsghdr *)h, sizeof(struct nfgenmsg), tb,
			NFTA_TABLE_MAX, NULL) < 0)
		return -EPROTO;
	flags = ntohl(pl_nla_u32(tb[NFTA_TABLE_FLAGS]));
	*dormant = flags & NFT_TABLE_F_DORMANT;
	return 0;
}

int pl_nl_nft_table(struct pl_nl *nl, int family, const char *table,
		    bool *dormant, struct pl_err *err)
{
	struct nfgenmsg gen = { .nfgen_family = (uint8_t)family,
				.version = NFNETLINK_V0 };
	struct pl_nlreq r;
	int rc;

	pl_nlreq_init(&r, MSG(NFT_MSG_GETTABLE), 0, &gen, sizeof(gen));
	pl_nlreq_str(&r, NFTA_TABLE_NAME, table);
	rc = pl_nl_ask(nl, &r, read_dormant, dormant, err);
	/* A kernel without nftables, or without this family, says so. */
	if (rc == -EINVAL || rc == -EOPNOTSUPP || rc == -EAFNOSUPPORT)
		rc = -ENOENT;
	return rc;
}
