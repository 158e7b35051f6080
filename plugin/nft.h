/*
 * plugin/nft.h - libnftables, loaded when there is something for it to do
 *
 * The library brings five others and more memory than the whole plugin, and
 * most pods need no rule. So it is not linked: pl_nft_open finds it when a
 * configuration asks for rules, or a table of ours has to be cleaned. See
 * docs/decisions.md.
 *
 * Text goes in and JSON comes out. The caller answers for what it puts in: a
 * quoted string of nft's language can't hold a quote at all.
 */
#ifndef PLUGIN_NFT_H
#define PLUGIN_NFT_H

#include <cjson/cJSON.h>

#include "common/err.h"

struct pl_nft;

/* -ENOTSUP when the library is not installed. */
int pl_nft_open(struct pl_nft **out, struct pl_err *err);
void pl_nft_close(struct pl_nft *n);

/*
 * All commands of script, or none. -EEXIST, -ENOENT and -EBUSY are the
 * kernel's; what it refuses with is in the message.
 */
int pl_nft_run(struct pl_nft *n, const char *script, struct pl_err *err);

/*
 * The answer to a "list" command: *out is the array "nftables" of
 * libnftables-json(5); to be deleted.
 */
int pl_nft_list(struct pl_nft *n, const char *cmd, cJSON **out,
		struct pl_err *err);

#endif
