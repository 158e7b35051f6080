/* plugin/nft.c - libnftables, loaded when there is something for it to do */
#include "plugin/nft.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/util.h"

#define LIBRARY "libnftables.so.1"
#define PACKAGE "libnftables1"

/* Of nftables/libnftables.h, whose package we do without; libnftables(3). */
#define OUTPUT_JSON (1u << 4)
#define OUTPUT_NUMERIC_PROTO (1u << 7)

struct nft_ctx;

struct pl_nft {
	void *lib;
	struct nft_ctx *ctx;
	struct nft_ctx *(*ctx_new)(uint32_t flags);
	void (*ctx_free)(struct nft_ctx *ctx);
	int (*buffer_output)(struct nft_ctx *ctx);
	int (*buffer_error)(struct nft_ctx *ctx);
	const char *(*output)(struct nft_ctx *ctx);
	const char *(*error)(struct nft_ctx *ctx);
	void (*set_flags)(struct nft_ctx *ctx, unsigned int flags);
	int (*run)(struct nft_ctx *ctx, const char *buf);
};

static const struct symbol {
	const char *name;
	size_t at;
} symbols[] = {
	{ "nft_ctx_new", offsetof(struct pl_nft, ctx_new) },
	{ "nft_ctx_free", offsetof(struct pl_nft, ctx_free) },
	{ "nft_ctx_buffer_output", offsetof(struct pl_nft, buffer_output) },
	{ "nft_ctx_buffer_error", offsetof(struct pl_nft, buffer_error) },
	{ "nft_ctx_get_output_buffer", offsetof(struct pl_nft, output) },
	{ "nft_ctx_get_error_buffer", offsetof(struct pl_nft, error) },
	{ "nft_ctx_output_set_flags", offsetof(struct pl_nft, set_flags) },
	{ "nft_run_cmd_from_buffer", offsetof(struct pl_nft, run) },
};

static int load(struct pl_nft *n, struct pl_err *err)
{
	const char *why;

	n->lib = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL);
	for (size_t i = 0; n->lib && i < PL_ARRAY_SIZE(symbols); i++) {
		void *sym = dlsym(n->lib, symbols[i].name);

		if (!sym) {
			dlclose(n->lib);
			n->lib = NULL;
			break;
		}
		memcpy((char *)n + symbols[i].at, &sym, sizeof(sym));
	}
	if (n->lib)
		return 0;
	why = dlerror();
	return pl_err_set(err, ENOTSUP, "cannot load " LIBRARY ", which ipMasq, "
			  "portMappings and macspoofchk need; install it with: "
			  "apt-get install --no-install-recommends " PACKAGE
			  " (%s)", why ? why : "it lacks a function");
}

int pl_nft_open(struct pl_nft **out, struct pl_err *err)
{
	struct pl_nft *n = calloc(1, sizeof(*n));
	int rc;

	if (!n)
		return pl_err_set(err, ENOMEM, "out of memory");
	rc = load(n, err);
	if (rc < 0)
		goto free_it;
	n->ctx = n->ctx_new(0);
	if (n->ctx && !n->buffer_output(n->ctx) && !n->buffer_error(n->ctx)) {
		*out = n;
		return 0;
	}
	rc = pl_err_set(err, ENOMEM, "libnftables does not start");
	if (n->ctx)
		n->ctx_free(n->ctx);
	dlclose(n->lib);
free_it:
	free(n);
	return rc;
}

void pl_nft_close(struct pl_nft *n)
{
	if (!n)
		return;
	n->ctx_free(n->ctx);
	dlclose(n->lib);
	free(n);
}

/* Only text says what failed: "Error: WHAT: strerror" and the command. */
static int failed(struct pl_nft *n, struct pl_err *err)
{
	static const int codes[] = { EEXIST, ENOENT, EBUSY, EPERM, EOPNOTSUPP,
				     EMFILE, ENOSPC };
	const char *text = n->error(n->ctx);
	int code = EIO;
	char line[256];

	text = text && *text ? text : "Error: it does not say why";
	if (!strncmp(text, "Error: ", 7))
		text += 7;
	snprintf(line, sizeof(line), "%.*s", (int)strcspn(text, "\n"), text);
	for (size_t i = 0; i < PL_ARRAY_SIZE(codes); i++) {
		if (strstr(line, strerror(codes[i])))
			code = codes[i];
	}
	return pl_err_set(err, code, "nftables: %s", line);
}

int pl_nft_run(struct pl_nft *n, const char *script, struct pl_err *err)
{
	n->set_flags(n->ctx, 0);
	return n->run(n->ctx, script) ? failed(n, err) : 0;
}

int pl_nft_list(struct pl_nft *n, const char *cmd, cJSON **out,
		struct pl_err *err)
{
	pl_auto_json *doc = NULL;
	const char *text;
	cJSON *list;

	n->set_flags(n->ctx, OUTPUT_JSON | OUTPUT_NUMERIC_PROTO);
	if (n->run(n->ctx, cmd))
		return failed(n, err);
	text = n->output(n->ctx);
	if (!text || pl_json_parse(text, strlen(text), &doc, err) < 0)
		return pl_err_set(err, EPROTO, "nftables: \"%s\" gave no JSON",
				  cmd);
	list = cJSON_DetachItemFromObjectCaseSensitive(doc, "nftables");
	if (!cJSON_IsArray(list)) {
		cJSON_Delete(list);
		return pl_err_set(err, EPROTO, "nftables: \"%s\" gave no list",
				  cmd);
	}
	*out = list;
	return 0;
}
