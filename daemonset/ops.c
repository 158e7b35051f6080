/*
 * daemonset/ops.c - what the plugin and podlanectl may ask (common/agentapi.h)
 */
#include <errno.h>
#include <string.h>

#include "common/json.h"
#include "common/util.h"
#include "daemonset/agent_internal.h"

struct request {
	struct pl_agent *agent;
	const cJSON *json;
	int ns_fd;
	cJSON *answer;		/* what is added to {"ok": true} */
};

static int op_node(struct request *r, struct pl_err *err)
{
	const struct pl_agent *a = r->agent;
	const struct pl_node *n = pl_registry_by_name(pl_agent_registry(a),
						      a->args->node);
	const char *problem = "";
	char buf[PL_PREFIX_STRLEN];
	cJSON *cidrs;

	(void)err;
	if (a->registry)
		problem = pl_registry_source_problem(a->registry);
	cJSON_AddStringToObject(r->answer, "name", a->args->node);
	cJSON_AddNumberToObject(r->answer, "mtu", pl_overlay_mtu(&a->overlay));
	cidrs = cJSON_AddArrayToObject(r->answer, "podCIDRs");
	for (int i = 0; n && i < n->n_cidrs; i++)
		cJSON_AddItemToArray(cidrs, cJSON_CreateString(
			pl_prefix_str(&n->cidrs[i], buf)));
	cJSON_AddStringToObject(r->answer, "overlay",
				pl_overlay_state(&a->overlay));
	cJSON_AddStringToObject(r->answer, "version", PL_VERSION);
	cJSON_AddNumberToObject(r->answer, "pods",
				HASH_COUNT(a->pods->by_ns));
	cJSON_AddStringToObject(r->answer, "registry",
				*problem ? problem : "ok");
	problem = a->policy ? pl_policy_problem(a->policy) : "none";
	cJSON_AddStringToObject(r->answer, "policy",
				*problem ? problem : "ok");
	return 0;
}

static int op_add(struct request *r, struct pl_err *err)
{
	struct pl_reg reg;
	int rc = pl_reg_parse(r->json, &reg, err);

	if (rc == 0 && r->ns_fd < 0)
		rc = pl_err_set(err, EINVAL, "add came without the "
				"descriptor of the network namespace");
	if (rc == 0)
		rc = pl_pods_add(r->agent->pods, &reg, r->ns_fd, err);
	if (rc < 0) {
		pl_warn("add failed: %s", err->msg);
		return rc;
	}
	cJSON_AddStringToObject(r->answer, "socket", "@" PL_WIRE_SOCKET);
	return 0;
}

/* Always succeeds: what can't be a registration is none. */
static int op_del(struct request *r, struct pl_err *err)
{
	struct pl_reg reg;

	if (pl_reg_parse_key(r->json, NULL, &reg, err) == 0)
		pl_pods_del(r->agent->pods, reg.key);
	else
		pl_warn("del without effect: %s", err->msg);
	return 0;
}

static int op_check(struct request *r, struct pl_err *err)
{
	struct pl_reg reg;
	int rc = pl_reg_parse(r->json, &reg, err);

	return rc < 0 ? rc : pl_pods_check(r->agent->pods, &reg, err);
}

static int op_status(struct request *r, struct pl_err *err)
{
	int rc = op_node(r, err);

	return rc < 0 ? rc : pl_agent_ready(r->agent, err);
}

struct key {
	char name[PL_REG_KEY_BYTES];
	UT_hash_handle hh;
};

static void keys_free(struct key *keys)
{
	struct key *k, *next;

	HASH_ITER(hh, keys, k, next) {
		HASH_DEL(keys, k);
		free(k);
	}
}

static int keys_add(struct key **keys, const cJSON *j, const char *network,
		    struct pl_err *err)
{
	struct pl_reg reg;
	struct key *k;
	int rc = pl_reg_parse_key(j, network, &reg, err);

	if (rc < 0)
		return rc;
	HASH_FIND_STR(*keys, reg.key, k);
	if (k)
		return 0;
	k = calloc(1, sizeof(*k));
	if (!k)
		return pl_err_set(err, ENOMEM, "out of memory");
	memcpy(k->name, reg.key, sizeof(k->name));
	HASH_ADD_STR(*keys, name, k);
	return 0;
}

static bool keys_has(const char *name, void *arg)
{
	struct key *keys = arg, *k;

	HASH_FIND_STR(keys, name, k);
	return k != NULL;
}

/* A list that is wrong in one place drops nothing. */
static int op_gc(struct request *r, struct pl_err *err)
{
	const cJSON *valid = NULL, *v;
	const char *network = NULL;
	struct key *keys = NULL;
	int rc = pl_json_str(r->json, "", "network", &network, err);

	if (rc >= 0)
		rc = pl_json_arr(r->json, "", "valid", &valid, err);
	if (rc >= 0 && (!network || !valid))
		rc = pl_err_set(err, EINVAL,
				"gc needs \"network\" and \"valid\"");
	if (rc < 0)
		return rc;
	cJSON_ArrayForEach(v, valid) {
		rc = keys_add(&keys, v, network, err);
		if (rc < 0)
			break;
	}
	if (rc >= 0)
		cJSON_AddNumberToObject(r->answer, "dropped",
					pl_pods_gc(r->agent->pods, network,
						   keys_has, keys));
	keys_free(keys);
	return rc < 0 ? rc : 0;
}

static int add_list(struct request *r, const char *name, cJSON *list,
		    struct pl_err *err)
{
	if (!list)
		return pl_err_set(err, ENOMEM, "out of memory");
	cJSON_AddItemToObject(r->answer, name, list);
	return 0;
}

static int op_pods(struct request *r, struct pl_err *err)
{
	return add_list(r, "pods", pl_list_pods(r->agent->pods), err);
}

static int op_lanes(struct request *r, struct pl_err *err)
{
	return add_list(r, "lanes", pl_list_lanes(r->agent->broker), err);
}

static int op_regions(struct request *r, struct pl_err *err)
{
	return add_list(r, "regions", pl_list_regions(r->agent->broker), err);
}

static int op_nodes(struct request *r, struct pl_err *err)
{
	return add_list(r, "nodes", pl_list_nodes(r->agent->broker), err);
}

static int op_policy(struct request *r, struct pl_err *err)
{
	return add_list(r, "policy", pl_policy_rules(r->agent->policy), err);
}

static const struct op {
	const char *name;
	int (*fn)(struct request *r, struct pl_err *err);
} ops[] = {
	{ "node", op_node },	   { "add", op_add },
	{ "del", op_del },	   { "check", op_check },
	{ "status", op_status },   { "gc", op_gc },
	{ "pods", op_pods },	   { "lanes", op_lanes },
	{ "regions", op_regions }, { "nodes", op_nodes },
	{ "policy", op_policy },
};

static int counted(struct request *r, const struct op *op, struct pl_err *err)
{
	uint64_t began = pl_now_ns();
	int rc = op->fn(r, err);

	pl_op_count(r->agent->ops, op->name, rc, pl_now_ns() - began);
	return rc;
}

static int run(struct request *r, struct pl_err *err)
{
	const char *name = NULL;
	int rc = pl_json_str(r->json, "", "op", &name, err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; name && i < PL_ARRAY_SIZE(ops); i++)
		if (!strcmp(ops[i].name, name))
			return counted(r, &ops[i], err);
	return pl_err_set(err, ENOSYS, "this agent (version %s) knows no "
			  "operation '%.64s'", PL_VERSION, name ? name : "");
}

/* What another try may bring without anybody changing the request. */
static bool is_passing(int code)
{
	return code != EINVAL && code != ENOSYS && code != ENAMETOOLONG &&
	       code != ENOENT;
}

cJSON *pl_op_run(struct pl_agent *a, const char *line, size_t len, int ns_fd)
{
	struct request r = { .agent = a,
			     .ns_fd = ns_fd,
			     .answer = cJSON_CreateObject() };
	struct pl_err err = { 0 };
	cJSON *json = NULL;
	int rc = pl_json_parse(line, len, &json, &err);

	r.json = json;
	if (rc == 0)
		rc = run(&r, &err);
	cJSON_Delete(json);
	cJSON_AddBoolToObject(r.answer, "ok", rc == 0);
	if (rc < 0) {
		cJSON_AddNumberToObject(r.answer, "code", -rc);
		cJSON_AddStringToObject(r.answer, "msg", err.msg);
		cJSON_AddBoolToObject(r.answer, "retry", is_passing(-rc));
	}
	return r.answer;
}
