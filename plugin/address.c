/* plugin/address.c - addresses, by our allocator or by another IPAM plugin */
#include "plugin/address.h"

#include <errno.h>
#include <string.h>

#include "common/json.h"
#include "common/log.h"
#include "common/util.h"
#include "ipam/ipam.h"
#include "plugin/delegate.h"

#define OURS "podlane-ipam"

static bool none(const struct pl_call *c)
{
	return !*c->conf.ipam_type;
}

static bool ours(const char *type)
{
	return !strcmp(type, OURS);
}

static int no_memory(struct pl_err *err)
{
	return pl_err_set(err, ENOMEM, "out of memory");
}

/* --- another plugin --- */

static int execute(const struct pl_call *c, const char *command, cJSON **out,
		   struct pl_err *err)
{
	struct pl_delegate d = { .plugin = c->conf.ipam_type,
				 .path = c->env.path,
				 .command = command,
				 .conf = c->conf.json,
				 .lock_fd = c->lock_fd };
	pl_auto_json *mine = NULL;

	return pl_delegate(&d, out ? out : &mine, err);
}

static int add_delegated(const struct pl_call *c, struct pl_result *r,
			 struct pl_err *err)
{
	pl_auto_json *doc = NULL;
	struct pl_err why;
	int rc = execute(c, "ADD", &doc, err);

	if (rc == 0 && !doc)
		rc = pl_cni_err(err, PL_CNI_DECODE, "%s printed no result",
				c->conf.ipam_type);
	if (rc == 0) {
		rc = pl_result_parse(doc, r, &why);
		if (rc < 0)
			pl_cni_err(err, PL_CNI_DECODE, "result of %s: %s",
				   c->conf.ipam_type, why.msg);
	}
	if (rc == 0 && !r->n_ips)
		rc = pl_cni_err(err, PL_CNI_FAILED, "%s gave no address",
				c->conf.ipam_type);
	if (rc == 0)
		return 0;
	/* It may have reserved something all the same. */
	pl_result_fini(r);
	if (execute(c, "DEL", NULL, &why) < 0)
		pl_warn("after a failed ADD: %s", why.msg);
	return rc;
}

/* --- ours --- */

static int add_ours(const struct pl_call *c, struct pl_result *r,
		    struct pl_err *err)
{
	pl_auto_json *doc = NULL;
	struct pl_ipam_config cfg;
	struct pl_ipam_result res;
	struct pl_err why;
	int rc = pl_ipam_config_parse(c->conf.json, c->env.args, &cfg, err);

	if (rc == 0)
		rc = pl_ipam_add(&cfg, c->at.id, c->at.ifname, 0, &res, err);
	if (rc < 0)
		return rc;
	rc = pl_ipam_result_doc(&cfg, &res, PL_CNI_VERSION_LATEST, &doc, err);
	if (rc == 0)
		rc = pl_result_parse(doc, r, err);
	if (rc < 0 && pl_ipam_del(&cfg.where, c->at.id, c->at.ifname, &why) < 0)
		pl_warn("after a failed ADD: %s", why.msg);
	return rc;
}

int pl_address_add(const struct pl_call *c, struct pl_result *r,
		   struct pl_err *err)
{
	if (none(c))
		return 0;
	return ours(c->conf.ipam_type) ? add_ours(c, r, err) :
					 add_delegated(c, r, err);
}

static bool memo_ours(const struct pl_call *c, cJSON *memo, struct pl_err *err)
{
	struct pl_ipam_where where;

	if (pl_ipam_where_parse(c->conf.json, &where, err) < 0)
		return false;
	return cJSON_AddStringToObject(memo, "dataDir", where.data_dir) &&
	       cJSON_AddStringToObject(memo, "network", where.network);
}

/* The whole configuration: who knows what the plugin wants for its DEL. */
static bool memo_delegated(const struct pl_call *c, cJSON *memo)
{
	cJSON *copy = cJSON_Duplicate(c->conf.json, true);

	if (!copy)
		return false;
	if (cJSON_AddItemToObject(memo, "conf", copy))
		return true;
	cJSON_Delete(copy);
	return false;
}

cJSON *pl_address_memo(const struct pl_call *c, struct pl_err *err)
{
	const char *type = c->conf.ipam_type;
	pl_auto_json *memo = cJSON_CreateObject();
	bool ok = memo && cJSON_AddStringToObject(memo, "type", type);
	cJSON *ret;

	no_memory(err);
	if (ok && *type)
		ok = ours(type) ? memo_ours(c, memo, err) :
				  memo_delegated(c, memo);
	if (!ok)
		return NULL;
	ret = memo;
	memo = NULL;
	return ret;
}

static int del_ours(const struct pl_call *c, const struct pl_attach *at,
		    const cJSON *memo, struct pl_err *err)
{
	const char *dir = NULL, *network = NULL;
	struct pl_ipam_where where;
	int rc;

	if (!memo) {
		rc = pl_ipam_where_parse(c->conf.json, &where, err);
	} else {
		rc = pl_json_str(memo, "ipam", "dataDir", &dir, err);
		if (rc > 0)
			rc = pl_json_str(memo, "ipam", "network", &network,
					 err);
		if (rc <= 0 ||
		    pl_format(where.data_dir, sizeof(where.data_dir), "%s",
			      dir) < 0 ||
		    pl_format(where.network, sizeof(where.network), "%s",
			      network) < 0)
			return pl_err_set(err, EINVAL, "a damaged state file");
		rc = pl_cni_check_network(network, err);
	}
	return rc < 0 ? rc : pl_ipam_del(&where, at->id, at->ifname, err);
}

static int del_delegated(const struct pl_call *c, const struct pl_attach *at,
			 const char *type, const cJSON *conf,
			 struct pl_err *err)
{
	struct pl_delegate d = { .plugin = type,
				 .path = c->env.path,
				 .command = "DEL",
				 .id = at->id,
				 .ifname = at->ifname,
				 .conf = conf,
				 .lock_fd = c->lock_fd };
	pl_auto_json *out = NULL;

	if (strchr(type, '/'))
		return pl_err_set(err, EINVAL, "a damaged state file");
	return pl_delegate(&d, &out, err);
}

int pl_address_del(const struct pl_call *c, const struct pl_attach *at,
		   const cJSON *memo, struct pl_err *err)
{
	const cJSON *conf = c->conf.json;
	const char *type = c->conf.ipam_type;

	if (memo) {
		type = "";
		if (pl_json_str(memo, "ipam", "type", &type, err) < 0 ||
		    pl_json_obj(memo, "ipam", "conf", &conf, err) < 0)
			return -EINVAL;
	}
	if (!*type)
		return 0;
	if (ours(type))
		return del_ours(c, at, memo, err);
	return del_delegated(c, at, type, conf, err);
}

int pl_address_check(const struct pl_call *c, const struct pl_result *r,
		     int ifindex, struct pl_err *err)
{
	struct pl_addr addrs[PL_IPAM_MAX_SETS];
	struct pl_ipam_where where;
	size_t n = 0;
	int rc;

	if (none(c))
		return 0;
	if (!ours(c->conf.ipam_type))
		return execute(c, "CHECK", NULL, err);
	for (size_t i = 0; i < r->n_ips && n < PL_ARRAY_SIZE(addrs); i++) {
		if (r->ips[i].ifindex == ifindex)
			addrs[n++] = r->ips[i].addr.addr;
	}
	rc = pl_ipam_where_parse(c->conf.json, &where, err);
	if (rc < 0)
		return rc;
	return pl_ipam_check(&where, c->at.id, c->at.ifname, addrs, n, err);
}

int pl_address_status(const struct pl_call *c, struct pl_err *err)
{
	struct pl_ipam_config cfg;
	int rc;

	if (none(c))
		return 0;
	if (!ours(c->conf.ipam_type))
		return execute(c, "STATUS", NULL, err);
	rc = pl_ipam_config_parse(c->conf.json, NULL, &cfg, err);
	return rc < 0 ? rc : pl_ipam_status(&cfg, err);
}

static int gc_ours(const struct pl_call *c, const cJSON *valid,
		   struct pl_err *err)
{
	size_t n = (size_t)cJSON_GetArraySize(valid), i = 0;
	pl_auto_free struct pl_ipam_key *keys = calloc(n + 1, sizeof(*keys));
	struct pl_ipam_where where;
	const cJSON *e;
	int rc = pl_ipam_where_parse(c->conf.json, &where, err);

	if (!keys)
		return no_memory(err);
	if (rc < 0)
		return rc;
	/* Both strings are there: pl_cni_gc_valid looked. */
	cJSON_ArrayForEach(e, valid) {
		pl_json_str(e, "", "containerID", &keys[i].container_id, NULL);
		pl_json_str(e, "", "ifname", &keys[i].ifname, NULL);
		i++;
	}
	return pl_ipam_gc(&where, keys, n, NULL, err);
}

int pl_address_gc(const struct pl_call *c, const cJSON *valid,
		  struct pl_err *err)
{
	if (none(c))
		return 0;
	return ours(c->conf.ipam_type) ? gc_ours(c, valid, err) :
					 execute(c, "GC", NULL, err);
}
