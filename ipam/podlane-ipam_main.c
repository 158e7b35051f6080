/*
 * ipam/podlane-ipam_main.c - the CNI IPAM plugin
 *
 * Standard output carries one JSON document and nothing else. Success of ADD is
 * the result, of VERSION the versions, of the others nothing.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "common/process.h"
#include "common/util.h"
#include "ipam/cni.h"
#include "ipam/ipam.h"

/* The configuration as ADD and STATUS need it, with code 7 where it is bad. */
static int parse(const struct pl_cni_env *env, const struct pl_cni_conf *conf,
		 struct pl_ipam_config *cfg, struct pl_err *err)
{
	return pl_ipam_config_parse(conf->json, env->args, cfg, err);
}

static int cmd_add(const struct pl_cni_env *env, const struct pl_cni_conf *conf,
		   struct pl_err *err)
{
	struct pl_ipam_config cfg;
	struct pl_ipam_result res;
	cJSON *doc = NULL;
	int rc;

	rc = parse(env, conf, &cfg, err);
	if (rc == 0)
		rc = pl_ipam_add(&cfg, env->container_id, env->ifname, 0, &res,
				 err);
	if (rc < 0)
		return rc;
	rc = pl_ipam_result_doc(&cfg, &res, conf->version_text, &doc, err);
	if (rc == 0)
		rc = pl_cni_print(STDOUT_FILENO, doc, err);
	cJSON_Delete(doc);
	/* Nobody has learned of the addresses, so nobody would return them. */
	if (rc < 0)
		pl_ipam_del(&cfg.where, env->container_id, env->ifname, NULL);
	return rc;
}

static int cmd_del(const struct pl_cni_env *env, const struct pl_cni_conf *conf,
		   struct pl_err *err)
{
	struct pl_ipam_where where;
	int rc = pl_ipam_where_parse(conf->json, &where, err);

	if (rc < 0)
		return rc;
	return pl_ipam_del(&where, env->container_id, env->ifname, err);
}

/* The addresses of prevResult that are of our ranges have to be reserved. */
static size_t own_addrs(const struct pl_cni_conf *conf,
			const struct pl_ipam_config *cfg, struct pl_addr *addrs)
{
	const cJSON *prev = pl_json_member(conf->json, "prevResult");
	const cJSON *ips = pl_json_member(prev, "ips"), *e;
	size_t n = 0;

	cJSON_ArrayForEach(e, ips) {
		const char *text = cJSON_GetStringValue(
			pl_json_member(e, "address"));
		struct pl_prefix p;

		if (!text || pl_prefix_parse(text, &p) < 0)
			continue;
		for (unsigned int i = 0; i < cfg->n_ranges; i++)
			if (n < PL_IPAM_MAX_SETS &&
			    pl_prefix_contains(&cfg->ranges[i].subnet,
					       &p.addr)) {
				addrs[n++] = p.addr;
				break;
			}
	}
	return n;
}

static int cmd_check(const struct pl_cni_env *env,
		     const struct pl_cni_conf *conf, struct pl_err *err)
{
	struct pl_ipam_config cfg;
	struct pl_addr addrs[PL_IPAM_MAX_SETS];
	int rc = parse(env, conf, &cfg, err);
	size_t n;

	if (rc < 0)
		return rc;
	n = own_addrs(conf, &cfg, addrs);
	return pl_ipam_check(&cfg.where, env->container_id, env->ifname, addrs,
			     n, err);
}

static int cmd_gc(const struct pl_cni_env *env, const struct pl_cni_conf *conf,
		  struct pl_err *err)
{
	pl_auto_free struct pl_ipam_key *keys = NULL;
	struct pl_ipam_where where;
	const cJSON *list, *e;
	size_t n = 0;
	int rc;

	(void)env;
	rc = pl_ipam_where_parse(conf->json, &where, err);
	if (rc == 0)
		rc = pl_cni_gc_valid(conf->json, &list, err);
	if (rc < 0)
		return rc;
	keys = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof(*keys));
	if (!keys)
		return pl_err_set(err, ENOMEM, "out of memory");
	cJSON_ArrayForEach(e, list) {
		keys[n].container_id = cJSON_GetStringValue(
			pl_json_member(e, "containerID"));
		keys[n++].ifname = cJSON_GetStringValue(
			pl_json_member(e, "ifname"));
	}
	return pl_ipam_gc(&where, keys, n, NULL, err);
}

static int cmd_status(const struct pl_cni_env *env,
		      const struct pl_cni_conf *conf, struct pl_err *err)
{
	struct pl_ipam_config cfg;
	int rc = parse(env, conf, &cfg, err);

	return rc < 0 ? rc : pl_ipam_status(&cfg, err);
}

static int cmd_version(const struct pl_cni_env *env,
		       const struct pl_cni_conf *conf, struct pl_err *err)
{
	cJSON *doc = pl_cni_version_doc(conf->version_text);
	int rc = pl_cni_print(STDOUT_FILENO, doc, err);

	(void)env;
	cJSON_Delete(doc);
	return rc;
}

static int (*const commands[])(const struct pl_cni_env *env,
			       const struct pl_cni_conf *conf,
			       struct pl_err *err) = {
	[PL_CNI_ADD] = cmd_add,
	[PL_CNI_DEL] = cmd_del,
	[PL_CNI_CHECK] = cmd_check,
	[PL_CNI_VERSION] = cmd_version,
	[PL_CNI_GC] = cmd_gc,
	[PL_CNI_STATUS] = cmd_status,
};

int main(void)
{
	struct pl_cni_conf conf = { .version_text = PL_CNI_VERSION_LATEST };
	struct pl_err err = { 0 };
	struct pl_cni_env env;
	int rc;

	/* A reader that went away is an error of write(), to be undone. */
	signal(SIGPIPE, SIG_IGN);
	rc = pl_process_init(&err);
	if (rc == 0)
		rc = pl_cni_env_read(&env, &err);
	if (rc == 1) {
		fprintf(stderr, "podlane-ipam " PL_VERSION ": CNI IPAM plugin, "
			"versions " PL_CNI_VERSION_DEFAULT " to "
			PL_CNI_VERSION_LATEST ". See podlane-ipam(8).\n");
		return 0;
	}
	/* For the version of the error document. */
	if (rc < 0)
		pl_cni_conf_read(STDIN_FILENO, PL_CNI_VERSION, &conf, NULL);
	else
		rc = pl_cni_conf_read(STDIN_FILENO, env.cmd, &conf, &err);
	if (rc == 0)
		rc = commands[env.cmd](&env, &conf, &err);
	if (rc < 0)
		pl_cni_print_err(STDOUT_FILENO, conf.version_text, &err, NULL);
	pl_cni_conf_fini(&conf);
	return rc < 0;
}
