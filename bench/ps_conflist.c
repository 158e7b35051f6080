/*
 * bench/ps_conflist.c - a pod is wired as by a container runtime
 *
 * The runtime reads the list of plugins, and executes each with its part of the
 * list, the list's name and version, and the result of the one before: in
 * order for ADD, backwards with the result of ADD for DEL.
 */
#include "bench/ps_cluster.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/exec.h"
#include "common/json.h"
#include "common/netns.h"
#include "common/util.h"

#define DEL_TRIES 5

#define CONFLIST "10-podlane.conflist"
#define CONFLIST_MAX (1u << 20)

int ps_conflist_write(const struct ps_cluster *c, unsigned int node,
		      struct pl_err *err)
{
	pl_auto_json *doc = cJSON_CreateObject();
	cJSON *plugin = cJSON_CreateObject(), *ipam, *sets, *set, *range;
	char text[PS_FILE_BYTES];

	cJSON_AddStringToObject(doc, "cniVersion", "1.0.0");
	cJSON_AddStringToObject(doc, "name", "podlane");
	cJSON_AddItemToArray(cJSON_AddArrayToObject(doc, "plugins"), plugin);
	cJSON_AddStringToObject(plugin, "type", "podlane");
	cJSON_AddStringToObject(plugin, "bridge", "podlane0");
	cJSON_AddBoolToObject(plugin, "isDefaultGateway", true);
	pl_format(text, sizeof(text), "%s/n%u/run/agent.sock", c->dir, node);
	cJSON_AddStringToObject(plugin, "agentSocket", text);
	pl_format(text, sizeof(text), "%s/n%u/cni", c->dir, node);
	cJSON_AddStringToObject(plugin, "stateDir", text);
	ipam = cJSON_AddObjectToObject(plugin, "ipam");
	cJSON_AddStringToObject(ipam, "type", "podlane-ipam");
	pl_format(text, sizeof(text), "%s/n%u/ipam", c->dir, node);
	cJSON_AddStringToObject(ipam, "dataDir", text);
	sets = cJSON_AddArrayToObject(ipam, "ranges");
	set = cJSON_CreateArray();
	range = cJSON_CreateObject();
	cJSON_AddItemToArray(sets, set);
	cJSON_AddItemToArray(set, range);
	snprintf(text, sizeof(text), "10.88.%u.0/24", node);
	cJSON_AddStringToObject(range, "subnet", text);
	snprintf(text, sizeof(text), "n%u/" CONFLIST, node);
	return ps_cluster_save(c, text, doc, err);
}

/* The first folder of CNI_PATH that has the plugin. */
static int find_plugin(const char *cni_path, const char *type, char *path,
		       size_t size, struct pl_err *err)
{
	if (pl_exec_find(cni_path, type, path, size) == 0)
		return 0;
	return pl_err_set(err, ENOENT, "no CNI plugin %s in %s; build it with "
			  "make, or say --cni-bin DIR", type, cni_path);
}

static int load(const struct ps_cluster *c, const struct ps_pod *pod,
		cJSON **list, const cJSON **plugins, struct pl_err *err)
{
	char path[PS_FILE_BYTES];
	int rc;

	pl_format(path, sizeof(path), "%s/n%u/" CONFLIST, c->dir, pod->node);
	rc = pl_json_load(path, list, err);
	if (rc < 0)
		return rc;
	rc = pl_json_arr(*list, "", "plugins", plugins, err);
	return rc == 0 ? pl_err_set(err, EINVAL, "%s: no plugins", path) :
			 PL_MIN(rc, 0);
}

/* The configuration of one plugin of the list as it gets it. */
static char *plugin_conf(const cJSON *list, const cJSON *plugin,
			 const char *prev)
{
	pl_auto_json *conf = cJSON_Duplicate(plugin, true);
	const char *const keys[] = { "cniVersion", "name" };

	if (!conf)
		return NULL;
	for (size_t i = 0; i < PL_ARRAY_SIZE(keys); i++) {
		const cJSON *v = cJSON_GetObjectItemCaseSensitive(list,
								  keys[i]);

		cJSON_AddItemToObject(conf, keys[i], cJSON_Duplicate(v, true));
	}
	if (prev)
		cJSON_AddItemToObject(conf, "prevResult", cJSON_Parse(prev));
	return cJSON_PrintUnformatted(conf);
}

/* One plugin in the node's namespace. *result (or NULL): what it printed. */
static int execute(const struct ps_cluster *c, const struct ps_pod *pod,
		   const cJSON *list, const cJSON *plugin, const char *command,
		   const char *prev, char **result, struct pl_err *err)
{
	pl_auto_free char *conf = plugin_conf(list, plugin, prev);
	char path[PS_FILE_BYTES], args[160];
	struct cni_exec e = { .plugin = path, .id = pod->name, .args = args,
			      .cni_path = c->programs.cni_path,
			      .ifname = "eth0", .conf = conf };
	const bool is_del = !strcmp(command, "DEL");
	const char *type = "";
	pl_auto_fd ns = -1;
	uint64_t took;
	int home, rc;

	if (!conf)
		return pl_err_set(err, ENOMEM, "out of memory");
	snprintf(args, sizeof(args), "IgnoreUnknown=1;K8S_POD_NAMESPACE="
		 "default;K8S_POD_NAME=%s", pod->name);
	pl_json_str(plugin, "", "type", &type, NULL);
	rc = find_plugin(c->programs.cni_path, type, path, sizeof(path), err);
	if (rc == 0)
		rc = pl_netns_open(c->node[pod->node - 1].netns, &ns, err);
	if (rc == 0)
		rc = pl_netns_enter(ns, &home, err);
	if (rc < 0)
		return rc;
	/*
	 * A terminal's Ctrl-C can still hit a plugin that is being started. DEL
	 * may be repeated, and must not be left out.
	 */
	for (int tries = 0; tries < (is_del ? DEL_TRIES : 1); tries++) {
		rc = cni_exec(&e, command, &pod->ns, &took, result, err);
		if (rc != -ECHILD)
			break;
	}
	pl_netns_leave(home);
	return rc;
}

static int read_address(struct ps_pod *pod, struct pl_err *err)
{
	pl_auto_json *doc = NULL;
	const cJSON *ips = NULL;
	const char *s = "";

	if (pl_json_parse(pod->result, strlen(pod->result), &doc, NULL) < 0 ||
	    pl_json_arr(doc, "", "ips", &ips, NULL) <= 0 ||
	    pl_json_str(cJSON_GetArrayItem(ips, 0), "", "address", &s,
			NULL) <= 0)
		return pl_err_set(err, EPROTO, "no address in the result %s",
				  pod->result);
	if (pl_format(pod->addr, sizeof(pod->addr), "%.*s",
		      (int)strcspn(s, "/"), s) < 0)
		return pl_err_set(err, EPROTO, "address %s is too long", s);
	return 0;
}

int ps_conflist_add(const struct ps_cluster *c, struct ps_pod *pod,
		    struct pl_err *err)
{
	pl_auto_json *list = NULL;
	const cJSON *plugins, *plugin;
	int rc = load(c, pod, &list, &plugins, err);

	if (rc < 0)
		return rc;
	cJSON_ArrayForEach(plugin, plugins) {
		char *result = NULL;

		rc = execute(c, pod, list, plugin, "ADD", pod->result,
			     &result, err);
		if (rc < 0)
			return rc;
		free(pod->result);
		pod->result = result;
	}
	return read_address(pod, err);
}

int ps_conflist_del(const struct ps_cluster *c, struct ps_pod *pod,
		    struct pl_err *err)
{
	pl_auto_json *list = NULL;
	const cJSON *plugins;
	int rc = load(c, pod, &list, &plugins, err), r, i;

	i = rc < 0 ? 0 : cJSON_GetArraySize(plugins);
	while (i-- > 0) {
		r = execute(c, pod, list, cJSON_GetArrayItem(plugins, i),
			    "DEL", pod->result, NULL, rc ? NULL : err);
		rc = rc ? rc : r;
	}
	free(pod->result);
	pod->result = NULL;
	return rc;
}
