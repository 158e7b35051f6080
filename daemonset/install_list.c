/*
 * daemonset/install_list.c - the configuration of the network, for the runtime
 *
 * Runtimes take the first file by name that ends with .conf, .conflist or
 * .json. The text is made the same each time, so comparing it says whether
 * somebody changed the file.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/agentapi.h"
#include "common/json.h"
#include "common/util.h"
#include "daemonset/install.h"

#define MARK "podlane.io/managed"
#define FILE_MAX (1u << 20)
#define ANNOTATIONS "io.kubernetes.cri.pod-annotations"

int pl_conflist_path(const struct pl_install_conf *c, char path[PATH_MAX],
		     struct pl_err *err)
{
	int rc = pl_format(path, PATH_MAX, "%s/%s", c->conf_dir, c->file);

	return rc < 0 ? pl_err_set(err, -rc, "cni.confDir is too long") : 0;
}

/* --- files that are there --- */

static int is_conf(const struct dirent *d)
{
	const char *dot = strrchr(d->d_name, '.');

	return dot && (!strcmp(dot, ".conf") || !strcmp(dot, ".conflist") ||
		       !strcmp(dot, ".json"));
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* The first for which fn returns true; "": none. */
static void find(const char *dir, bool (*fn)(const char *name, void *arg),
		 void *arg, char name[NAME_MAX + 1])
{
	struct dirent **all;
	int n = scandir(dir, &all, is_conf, by_name);

	name[0] = '\0';
	for (int i = 0; i < n; i++) {
		if (!name[0] && fn(all[i]->d_name, arg))
			snprintf(name, NAME_MAX + 1, "%s", all[i]->d_name);
		free(all[i]);
	}
	if (n >= 0)
		free(all);
}

static bool any(const char *name, void *arg)
{
	(void)name;
	(void)arg;
	return true;
}

void pl_conflist_first(const char *dir, char name[NAME_MAX + 1])
{
	find(dir, any, NULL, name);
}

static cJSON *load(const char *dir, const char *name, char **text)
{
	pl_auto_free char *buf = NULL;
	char path[PATH_MAX];
	cJSON *j = NULL;
	size_t len;

	if (pl_format(path, sizeof(path), "%s/%s", dir, name) < 0 ||
	    pl_file_read(path, FILE_MAX, &buf, &len, NULL) < 0)
		return NULL;
	if (pl_json_parse(buf, len, &j, NULL) < 0)
		j = NULL;
	if (text)
		*text = pl_take_ptr(&buf);
	return j;
}

static bool is_marked(const cJSON *j)
{
	return cJSON_GetObjectItemCaseSensitive(j, MARK) != NULL;
}

enum pl_conflist_whose pl_conflist_look(const struct pl_install_conf *c,
					char **text)
{
	char path[PATH_MAX];
	cJSON *j;
	bool ours;

	if (text)
		*text = NULL;
	if (pl_conflist_path(c, path, NULL) < 0 || access(path, F_OK) < 0)
		return PL_CONFLIST_NONE;
	j = load(c->conf_dir, c->file, text);
	ours = is_marked(j);
	cJSON_Delete(j);
	return ours ? PL_CONFLIST_OURS : PL_CONFLIST_FOREIGN;
}

/* --- what both modes have --- */

static cJSON *plugin(const struct pl_install_conf *c, const char *run_dir)
{
	cJSON *j = cJSON_CreateObject(), *caps;
	char sock[PATH_MAX + sizeof(PL_AGENT_SOCKET)];

	snprintf(sock, sizeof(sock), "%s/%s", run_dir, PL_AGENT_SOCKET);
	cJSON_AddStringToObject(j, "type", "podlane");
	cJSON_AddStringToObject(j, "agentSocket", sock);
	cJSON_AddStringToObject(j, "stateDir", c->state_dir);
	caps = cJSON_AddObjectToObject(j, "capabilities");
	cJSON_AddTrueToObject(caps, ANNOTATIONS);
	return j;
}

static int print(cJSON *list, const char *source, char **text,
		 struct pl_err *err)
{
	cJSON *mark;

	cJSON_DeleteItemFromObjectCaseSensitive(list, MARK);
	mark = cJSON_AddObjectToObject(list, MARK);
	if (*source)
		cJSON_AddStringToObject(mark, "extends", source);
	cJSON_AddStringToObject(mark, "by", "podlaned; its changes last");
	*text = mark ? cJSON_Print(list) : NULL;
	return *text ? 0 : pl_err_set(err, ENOMEM, "out of memory");
}

/* --- standalone --- */

static void add_ranges(cJSON *ipam, const struct pl_node *node)
{
	cJSON *ranges = cJSON_AddArrayToObject(ipam, "ranges");

	for (int i = 0; i < node->n_cidrs; i++) {
		char buf[PL_PREFIX_STRLEN];
		cJSON *set = cJSON_CreateArray(), *r = cJSON_CreateObject();

		cJSON_AddStringToObject(r, "subnet",
					pl_prefix_str(&node->cidrs[i], buf));
		cJSON_AddItemToArray(set, r);
		cJSON_AddItemToArray(ranges, set);
	}
}

static void make_standalone(const struct pl_install_conf *c, cJSON *list,
			    const struct pl_node *node, const char *run_dir)
{
	static const char *const extra[] = { "portMappings", "bandwidth",
					     "dns", "mac" };
	cJSON *p = plugin(c, run_dir), *caps, *ipam;

	caps = cJSON_GetObjectItem(p, "capabilities");
	for (size_t i = 0; i < PL_ARRAY_SIZE(extra); i++)
		cJSON_AddTrueToObject(caps, extra[i]);
	cJSON_AddStringToObject(p, "bridge", c->bridge);
	cJSON_AddTrueToObject(p, "isDefaultGateway");
	cJSON_AddTrueToObject(p, "hairpinMode");
	cJSON_AddBoolToObject(p, "ipMasq", c->ip_masq);
	ipam = cJSON_AddObjectToObject(p, "ipam");
	cJSON_AddStringToObject(ipam, "type", "podlane-ipam");
	cJSON_AddStringToObject(ipam, "dataDir", c->data_dir);
	add_ranges(ipam, node);
	cJSON_AddStringToObject(list, "cniVersion", "1.0.0");
	cJSON_AddStringToObject(list, "name", c->network);
	cJSON_AddItemToArray(cJSON_AddArrayToObject(list, "plugins"), p);
}

/* --- chained --- */

struct search {
	const struct pl_install_conf *c;
	cJSON *list;			/* found */
};

/* A file of one plugin is a list of one. */
static cJSON *as_list(cJSON *j)
{
	static const char *const both[] = { "cniVersion", "name" };
	cJSON *list;

	if (cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(j, "plugins")))
		return j;
	if (!cJSON_IsString(cJSON_GetObjectItemCaseSensitive(j, "type"))) {
		cJSON_Delete(j);
		return NULL;
	}
	list = cJSON_CreateObject();
	for (size_t i = 0; i < PL_ARRAY_SIZE(both); i++)
		cJSON_AddItemToObject(list, both[i], cJSON_Duplicate(
			cJSON_GetObjectItemCaseSensitive(j, both[i]), true));
	cJSON_AddItemToArray(cJSON_AddArrayToObject(list, "plugins"), j);
	return list;
}

static bool extendable(const char *name, void *arg)
{
	struct search *s = arg;
	cJSON *j;

	if (!strcmp(name, s->c->file) ||
	    (*s->c->extend && strcmp(name, s->c->extend)))
		return false;
	j = load(s->c->conf_dir, name, NULL);
	if (j && is_marked(j)) {
		cJSON_Delete(j);
		return false;
	}
	s->list = j ? as_list(j) : NULL;
	return s->list != NULL;
}

static bool has_podlane(const cJSON *plugins)
{
	const cJSON *p, *t;

	cJSON_ArrayForEach(p, plugins) {
		t = cJSON_GetObjectItemCaseSensitive(p, "type");
		if (cJSON_IsString(t) && !strcmp(t->valuestring, "podlane"))
			return true;
	}
	return false;
}

static int make_chained(const struct pl_install_conf *c, const char *run_dir,
			cJSON **list, char source[NAME_MAX + 1],
			struct pl_err *err)
{
	struct search s = { .c = c };
	cJSON *plugins;

	find(c->conf_dir, extendable, &s, source);
	if (!*source)
		return pl_err_set(err, ENOENT, "%s has no configuration of a "
				  "network%s%s that podlane could go behind; "
				  "install one, or set cni.mode to "
				  "\"standalone\"", c->conf_dir,
				  *c->extend ? " by the name " : "", c->extend);
	*list = s.list;
	plugins = cJSON_GetObjectItemCaseSensitive(s.list, "plugins");
	if (has_podlane(plugins))
		return pl_err_set(err, EEXIST, "%s/%s has the podlane plugin "
				  "already; remove it there, or the section "
				  "\"cni\" here", c->conf_dir, source);
	cJSON_AddItemToArray(plugins, plugin(c, run_dir));
	return 0;
}

int pl_conflist_make(const struct pl_install_conf *c,
		     const struct pl_node *node, const char *run_dir,
		     char **text,
		     char source[NAME_MAX + 1], struct pl_err *err)
{
	pl_auto_json *list = NULL;
	int rc = 0;

	source[0] = '\0';
	if (c->mode == PL_CNI_CHAINED) {
		rc = make_chained(c, run_dir, &list, source, err);
	} else if (!node || !node->n_cidrs) {
		rc = pl_err_set(err, ENOENT, "the registry has no pod ranges "
				"for this node; give it some (podCIDRs)");
	} else {
		list = cJSON_CreateObject();
		make_standalone(c, list, node, run_dir);
	}
	return rc < 0 ? rc : print(list, source, text, err);
}
