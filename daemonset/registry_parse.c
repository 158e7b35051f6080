/* daemonset/registry_parse.c - the registry's file format */
#include "daemonset/registry_file.h"

#include <errno.h>
#include <string.h>

#include "common/json.h"
#include "common/util.h"

#define WHERE_BYTES (PL_NODE_NAME_BYTES + 32)

static int missing(const char *where, const char *key, struct pl_err *err)
{
	return pl_err_set(err, EINVAL, "%s.%s is missing", where, key);
}

static int read_name(const cJSON *obj, char *where, size_t index,
		     struct pl_node *node, struct pl_err *err)
{
	const char *name = NULL;
	int rc = pl_json_str(obj, where, "name", &name, err);

	if (rc == 0)
		return missing(where, "name", err);
	if (rc < 0)
		return rc;
	rc = pl_format(node->name, sizeof(node->name), "%s", name);
	if (rc < 0)
		return pl_err_set(err, EINVAL,
				  "%s.name must have at most %d characters",
				  where, PL_NODE_NAME_BYTES - 1);
	pl_format(where, WHERE_BYTES, "nodes[%zu] (%s)", index, node->name);
	return 0;
}

static int read_address(const cJSON *obj, const char *where,
			struct pl_node *node, struct pl_err *err)
{
	const char *text = NULL;
	int rc = pl_json_str(obj, where, "address", &text, err);

	if (rc == 0)
		return missing(where, "address", err);
	if (rc < 0)
		return rc;
	if (pl_addr_parse(text, &node->address) < 0)
		return pl_err_set(err, EINVAL, "%s.address: '%s' is not an "
				  "IPv4 or IPv6 address", where, text);
	return 0;
}

static int read_cidrs(const cJSON *obj, const char *where, struct pl_node *node,
		      struct pl_err *err)
{
	const cJSON *list = NULL, *v;
	int rc = pl_json_arr(obj, where, "podCIDRs", &list, err);

	if (rc == 0)
		return missing(where, "podCIDRs", err);
	if (rc < 0)
		return rc;
	cJSON_ArrayForEach(v, list) {
		if (node->n_cidrs == PL_NODE_CIDRS_MAX)
			return pl_err_set(err, EINVAL,
					  "%s.podCIDRs: more than %d ranges",
					  where, PL_NODE_CIDRS_MAX);
		if (!cJSON_IsString(v) ||
		    pl_prefix_parse(v->valuestring,
				    &node->cidrs[node->n_cidrs]) < 0)
			return pl_err_set(err, EINVAL, "%s.podCIDRs[%u] must "
					  "be a range such as 10.88.1.0/24, "
					  "not '%s'", where, node->n_cidrs,
					  cJSON_IsString(v) ? v->valuestring :
							      "another type");
		node->n_cidrs++;
	}
	return 0;
}

static int read_node(const cJSON *obj, size_t index, struct pl_registry *out,
		     struct pl_err *err)
{
	static const char *const keys[] = { "name", "address", "podCIDRs",
					    "port", NULL };
	struct pl_node node = { .port = 0 };
	char where[WHERE_BYTES];
	int64_t port = 0;
	int rc;

	pl_format(where, sizeof(where), "nodes[%zu]", index);
	if (!cJSON_IsObject(obj))
		return pl_err_set(err, EINVAL, "%s must be an object", where);
	rc = read_name(obj, where, index, &node, err);
	if (rc == 0)
		rc = pl_json_only(obj, where, keys, err);
	if (rc == 0)
		rc = read_address(obj, where, &node, err);
	if (rc == 0)
		rc = read_cidrs(obj, where, &node, err);
	if (rc == 0)
		rc = pl_json_int(obj, where, "port", 1, 65535, &port, err);
	if (rc < 0)
		return rc;
	node.port = (uint16_t)port;
	return pl_registry_add(out, &node, err);
}

int pl_registry_parse(const cJSON *json, struct pl_registry *out,
		      struct pl_err *err)
{
	static const char *const keys[] = { "nodes", NULL };
	const cJSON *list = NULL, *v;
	size_t i = 0;
	int rc;

	if (!cJSON_IsObject(json))
		return pl_err_set(err, EINVAL,
				  "the registry must be an object: "
				  "{\"nodes\": [...]}");
	rc = pl_json_only(json, "", keys, err);
	if (rc == 0)
		rc = pl_json_arr(json, "", "nodes", &list, err);
	if (rc == 0)
		return pl_err_set(err, EINVAL, "nodes is missing");
	if (rc < 0)
		return rc;
	cJSON_ArrayForEach(v, list) {
		rc = read_node(v, i++, out, err);
		if (rc < 0)
			return rc;
	}
	return pl_registry_seal(out, err);
}
