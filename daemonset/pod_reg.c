/*
 * daemonset/pod_reg.c - a registration from and to JSON
 *
 * The same form is in requests of the plugin and in records.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "common/json.h"
#include "common/util.h"
#include "daemonset/pod.h"

/* What CNI allows in names of networks and containers. */
static bool is_name(const char *s)
{
	if (!isalnum((unsigned char)*s))
		return false;
	for (; *s; s++)
		if (!isalnum((unsigned char)*s) && !strchr("_.-", *s))
			return false;
	return true;
}

static bool is_ifname(const char *s)
{
	if (!*s || !strcmp(s, ".") || !strcmp(s, ".."))
		return false;
	for (; *s; s++)
		if (!isgraph((unsigned char)*s) || strchr("/:@", *s))
			return false;
	return true;
}

static bool is_text(const char *s)
{
	for (; *s; s++)
		if (iscntrl((unsigned char)*s))
			return false;
	return true;
}

static bool is_allow(const char *s)
{
	return pl_agent_allow_check(s) == 0;
}

static bool is_path(const char *s)
{
	return *s == '/' && is_text(s);
}

/* Copies a text; absent is an error where must is set. */
static int text(const cJSON *j, const char *where, const char *key, char *buf,
		size_t size, bool (*is_good)(const char *), bool must,
		struct pl_err *err)
{
	const char *s = NULL;
	int rc = pl_json_str(j, where, key, &s, err);

	if (rc < 0)
		return rc;
	if (!s)
		return must ? pl_err_set(err, EINVAL, "%s%s%s is missing",
					 where, *where ? "." : "", key) :
			      0;
	if (!is_good(s))
		return pl_err_set(err, EINVAL, "%s%s%s is not well formed: "
				  "'%.200s'", where, *where ? "." : "", key, s);
	if (pl_format(buf, size, "%s", s) < 0)
		return pl_err_set(err, EINVAL, "%s%s%s is longer than %zu "
				  "bytes", where, *where ? "." : "", key,
				  size - 1);
	return 0;
}
#define TEXT(j, where, key, buf, is_good, must, err) \
	text(j, where, key, buf, sizeof(buf), is_good, must, err)

int pl_reg_parse_key(const cJSON *j, const char *network, struct pl_reg *reg,
		     struct pl_err *err)
{
	int rc = 0;

	if (network)
		rc = pl_format(reg->network, sizeof(reg->network), "%s",
			       network) < 0 ?
			     pl_err_set(err, EINVAL, "network is too long") :
			     0;
	else
		rc = TEXT(j, "", "network", reg->network, is_name, true, err);
	if (rc == 0)
		rc = TEXT(j, "", "containerID", reg->container, is_name, true,
			  err);
	if (rc == 0)
		rc = TEXT(j, "", "ifname", reg->ifname, is_ifname, true, err);
	if (rc == 0 && pl_format(reg->key, sizeof(reg->key), "%s@%s@%s",
				 reg->network, reg->container,
				 reg->ifname) < 0)
		rc = pl_err_set(err, EINVAL, "network and containerID are "
				"together longer than %d bytes",
				PL_REG_KEY_BYTES - 20);
	return rc;
}

static int parse_addrs(const cJSON *j, struct pl_reg *reg, struct pl_err *err)
{
	const cJSON *list = NULL, *a;
	int rc = pl_json_arr(j, "", "addresses", &list, err);

	if (rc < 0)
		return rc;
	cJSON_ArrayForEach(a, list) {
		struct pl_prefix p;

		if (!cJSON_IsString(a) ||
		    pl_prefix_parse(a->valuestring, &p) < 0)
			return pl_err_set(err, EINVAL, "addresses[%u] must be "
					  "like \"10.1.2.3/24\"", reg->n_addrs);
		if (reg->n_addrs == PL_REG_ADDRS_MAX)
			return pl_err_set(err, EINVAL, "more than %d addresses",
					  PL_REG_ADDRS_MAX);
		reg->addrs[reg->n_addrs].addr = p.addr;
		reg->addrs[reg->n_addrs++].prefix_len = p.len;
	}
	return 0;
}

static int parse_undo(const cJSON *j, struct pl_reg_undo *undo,
		      struct pl_err *err)
{
	const cJSON *u = NULL;
	int rc = pl_json_obj(j, "", "undo", &u, err);

	if (rc <= 0)
		return rc;
	rc = TEXT(u, "undo", "plugin", undo->plugin, is_path, true, err);
	if (rc == 0)
		rc = TEXT(u, "undo", "stateDir", undo->state_dir, is_path, true,
			  err);
	if (rc == 0)
		rc = TEXT(u, "undo", "cniPath", undo->cni_path, is_text, false,
			  err);
	if (rc == 0)
		rc = TEXT(u, "undo", "link", undo->link, is_ifname, false, err);
	return rc;
}

int pl_reg_parse(const cJSON *j, struct pl_reg *reg, struct pl_err *err)
{
	const cJSON *pod = NULL;
	int64_t limit = -1;
	int rc;

	memset(reg, 0, sizeof(*reg));
	reg->memory_limit = UINT64_MAX;
	rc = pl_reg_parse_key(j, NULL, reg, err);
	if (rc == 0)
		rc = TEXT(j, "", "netns", reg->netns, is_path, true, err);
	if (rc == 0)
		rc = parse_addrs(j, reg, err);
	if (rc == 0)
		rc = parse_undo(j, &reg->undo, err);
	if (rc == 0)
		rc = pl_json_int(j, "", "memoryLimit", 0, INT64_C(1) << 53,
				 &limit, err);
	if (rc > 0)
		reg->memory_limit = (uint64_t)limit;
	if (rc >= 0)
		rc = TEXT(j, "", "allow", reg->allow, is_allow, false, err);
	if (rc >= 0)
		rc = pl_json_obj(j, "", "pod", &pod, err);
	if (rc <= 0)
		return rc;
	rc = TEXT(pod, "pod", "name", reg->pod_name, is_text, false, err);
	if (rc == 0)
		rc = TEXT(pod, "pod", "namespace", reg->pod_ns, is_text, false,
			  err);
	if (rc == 0)
		rc = TEXT(pod, "pod", "uid", reg->pod_uid, is_text, false, err);
	return rc;
}

static cJSON *addrs_json(const struct pl_reg *reg)
{
	cJSON *list = cJSON_CreateArray();

	for (uint32_t i = 0; i < reg->n_addrs; i++) {
		struct pl_prefix p = { reg->addrs[i].addr,
				       reg->addrs[i].prefix_len };
		char buf[PL_PREFIX_STRLEN];

		cJSON_AddItemToArray(list,
				     cJSON_CreateString(pl_prefix_str(&p,
								      buf)));
	}
	return list;
}

cJSON *pl_reg_json(const struct pl_reg *reg)
{
	cJSON *j = cJSON_CreateObject(), *pod;

	cJSON_AddStringToObject(j, "network", reg->network);
	cJSON_AddStringToObject(j, "containerID", reg->container);
	cJSON_AddStringToObject(j, "ifname", reg->ifname);
	cJSON_AddStringToObject(j, "netns", reg->netns);
	cJSON_AddItemToObject(j, "addresses", addrs_json(reg));
	if (reg->memory_limit != UINT64_MAX)
		cJSON_AddNumberToObject(j, "memoryLimit",
					(double)reg->memory_limit);
	if (*reg->allow)
		cJSON_AddStringToObject(j, "allow", reg->allow);
	pod = cJSON_AddObjectToObject(j, "pod");
	cJSON_AddStringToObject(pod, "name", reg->pod_name);
	cJSON_AddStringToObject(pod, "namespace", reg->pod_ns);
	cJSON_AddStringToObject(pod, "uid", reg->pod_uid);
	return j;
}
