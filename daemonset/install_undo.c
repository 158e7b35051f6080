/*
 * daemonset/install_undo.c - all that Podlane put on a node, away again
 *
 * First what makes runtimes execute our plugin, last the records that say what
 * is ours. So it may be killed anywhere and executed again. Attachments are
 * undone by the plugin itself, whose GC with no valid attachment gives back
 * interfaces, addresses and rules.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <linux/netfilter.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/agentapi.h"
#include "common/exec.h"
#include "common/json.h"
#include "common/tree.h"
#include "common/util.h"
#include "daemonset/agent.h"
#include "daemonset/counts.h"
#include "daemonset/install.h"
#include "daemonset/kube_conf.h"
#include "daemonset/kube_publish.h"
#include "daemonset/rundir.h"

#define SHOWN_MAX 3
#define ENV_VARS 5
#define ENV_BYTES (PATH_MAX + 32)
#define RECORD_MAX (1u << 20)

struct undo {
	const struct pl_uninstall_args *a;
	const struct pl_install_conf *cni;
	struct pl_nl nl;
	struct pl_err *err;
	unsigned int n;			/* things that were there */
};

/* True: it is to be done. */
static bool doing(struct undo *u, const char *what, const char *name)
{
	printf("%s %s %s\n", u->a->dry_run ? "would remove" : "removing", what,
	       name);
	u->n++;
	return !u->a->dry_run;
}

static int drop_file(struct undo *u, const char *path)
{
	if (access(path, F_OK) < 0 || !doing(u, "file", path))
		return 0;
	if (unlink(path) < 0 && errno != ENOENT)
		return pl_err_sys(u->err, "cannot remove %s", path);
	return 0;
}

static int drop_in(struct undo *u, const char *dir, const char *name)
{
	char path[PATH_MAX];

	if (pl_format(path, sizeof(path), "%s/%s", dir, name) < 0)
		return pl_err_set(u->err, ENAMETOOLONG, "%s is too long", dir);
	if (!u->a->dry_run)
		pl_install_sweep(path);
	return drop_file(u, path);
}

static int drop_tree(struct undo *u, const char *dir, const char *name)
{
	char path[PATH_MAX];
	int rc;

	if (pl_format(path, sizeof(path), "%s%s%s", dir, *name ? "/" : "",
		      name) < 0)
		return pl_err_set(u->err, ENAMETOOLONG, "%s is too long", dir);
	if (access(path, F_OK) < 0 || !doing(u, "folder", path))
		return 0;
	rc = pl_tree_remove(path);
	return rc < 0 ? pl_err_set(u->err, -rc, "cannot remove %s: %s", path,
				   strerror(-rc)) : 0;
}

/* Only when there is nothing in it, and nothing is mounted there. */
static void drop_empty(struct undo *u, const char *dir)
{
	if (!u->a->dry_run && rmdir(dir) == 0)
		printf("removing folder %s\n", dir);
}

static bool is_type(DIR *f, const char *name, mode_t type)
{
	struct stat st;

	return name[0] != '.' &&
	       fstatat(dirfd(f), name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       (st.st_mode & S_IFMT) == type;
}

/* fn for each folder in dir (S_IFDIR), or for each file (S_IFREG). */
static int each(struct undo *u, const char *dir, mode_t type,
		int (*fn)(struct undo *u, const char *name, void *arg),
		void *arg)
{
	struct dirent *d;
	DIR *f = opendir(dir);
	int rc = 0;

	if (!f)
		return errno == ENOENT || errno == ENOTDIR ? 0 :
			       pl_err_sys(u->err, "cannot read %s", dir);
	while (rc == 0 && (d = readdir(f)))
		if (is_type(f, d->d_name, type))
			rc = fn(u, d->d_name, arg);
	closedir(f);
	return rc;
}

/* --- pods that are still wired --- */

struct wired {
	const char *dir;
	unsigned int n;
	char names[PL_ERR_MSG_BYTES / 2];
};

static int count_one(struct undo *u, const char *name, void *arg)
{
	struct wired *w = arg;
	pl_auto_free char *text = NULL;
	pl_auto_json *j = NULL;
	const char *link = NULL;
	char path[PATH_MAX];
	struct pl_link there;
	size_t len, at = strlen(w->names);

	if (pl_format(path, sizeof(path), "%s/%s", w->dir, name) < 0 ||
	    pl_file_read(path, RECORD_MAX, &text, &len, NULL) < 0 ||
	    pl_json_parse(text, len, &j, NULL) < 0)
		return 0;
	/* Without an interface of ours the pod goes on without us. */
	if (pl_json_str(j, "", "link", &link, NULL) <= 0 ||
	    pl_nl_link_get(&u->nl, link, &there, NULL) < 0)
		return 0;
	if (w->n++ < SHOWN_MAX)
		snprintf(w->names + at, sizeof(w->names) - at, "%s%.80s",
			 at ? ", " : "", name);
	return 0;
}

static int count_network(struct undo *u, const char *name, void *arg)
{
	struct wired *w = arg;
	char path[PATH_MAX];

	if (pl_format(path, sizeof(path), "%s/%s", u->cni->state_dir, name) < 0)
		return 0;
	w->dir = path;
	return each(u, path, S_IFREG, count_one, w);
}

static int check_wired(struct undo *u)
{
	struct wired w = { 0 };
	int rc = each(u, u->cni->state_dir, S_IFDIR, count_network, &w);

	if (rc < 0 || !w.n)
		return rc;
	if (u->a->force || u->a->dry_run) {
		printf("%s %u pods that are wired (%s%s)\n",
		       u->a->dry_run ? "would cut off" : "cutting off", w.n,
		       w.names, w.n > SHOWN_MAX ? ", ..." : "");
		return 0;
	}
	return pl_err_set(u->err, EBUSY, "%u pods are still wired by podlane "
			  "(%s%s); move them first (kubectl drain), or cut "
			  "them off with --force", w.n, w.names,
			  w.n > SHOWN_MAX ? ", ..." : "");
}

/* --- the plugin gives back what it gave --- */

static int gc_input(struct undo *u, const char *network)
{
	pl_auto_json *conf = cJSON_CreateObject();
	pl_auto_free char *text = NULL;

	cJSON_AddStringToObject(conf, "cniVersion", "1.1.0");
	cJSON_AddStringToObject(conf, "name", network);
	cJSON_AddStringToObject(conf, "type", "podlane");
	cJSON_AddStringToObject(conf, "stateDir", u->cni->state_dir);
	cJSON_AddStringToObject(conf, "agentPolicy", "optional");
	cJSON_AddArrayToObject(conf, "cni.dev/valid-attachments");
	text = cJSON_PrintUnformatted(conf);
	return text ? pl_exec_input(text, u->err) :
		      pl_err_set(u->err, ENOMEM, "out of memory");
}

static int gc_env(struct undo *u, char (*text)[ENV_BYTES], char **env)
{
	const char *name[ENV_VARS] = { "CNI_COMMAND", "CNI_CONTAINERID",
				       "CNI_IFNAME", "CNI_PATH", "PATH" };
	const char *value[ENV_VARS] = { "GC", "", "", u->cni->bin_dir,
					"/usr/sbin:/usr/bin:/sbin:/bin" };

	for (int i = 0; i < ENV_VARS; i++) {
		if (pl_format(text[i], ENV_BYTES, "%s=%s", name[i],
			      value[i]) < 0)
			return pl_err_set(u->err, ENAMETOOLONG,
					  "cni.binDir is too long");
		env[i] = text[i];
	}
	env[ENV_VARS] = NULL;
	return 0;
}

static int gc_run(struct undo *u, const char *plugin, const char *network)
{
	char text[ENV_VARS][ENV_BYTES], *env[ENV_VARS + 1];
	int status, rc = gc_env(u, text, env);
	pid_t pid;

	if (rc < 0)
		return rc;

	pl_auto_fd in = gc_input(u, network);

	if (in < 0)
		return in;
	rc = pl_exec_spawn(plugin, env, in, STDERR_FILENO, &pid);
	if (rc < 0)
		return pl_err_set(u->err, -rc, "cannot execute %s: %s (podlaned "
				  "install puts it there)", plugin,
				  strerror(-rc));
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return pl_err_sys(u->err, "cannot wait for %s", plugin);
	return status ? pl_err_set(u->err, EIO, "%s could not give back the "
				   "attachments of network %s; what it says is "
				   "above", plugin, network) : 0;
}

static int undo_network(struct undo *u, const char *name, void *arg)
{
	char plugin[PATH_MAX], dir[PATH_MAX];
	int rc = 0;

	(void)arg;
	if (pl_format(dir, sizeof(dir), "%s/%s", u->cni->state_dir, name) < 0 ||
	    pl_format(plugin, sizeof(plugin), "%s/podlane",
		      u->cni->bin_dir) < 0)
		return pl_err_set(u->err, ENAMETOOLONG, "cni.stateDir is too "
				  "long");
	if (doing(u, "attachments of network", name))
		rc = gc_run(u, plugin, name);
	if (rc == 0)
		rc = drop_tree(u, u->cni->data_dir, name);
	if (rc == 0)
		drop_empty(u, dir);
	return rc;
}

/* --- the steps --- */

static int undo_list(struct undo *u)
{
	char path[PATH_MAX];
	enum pl_conflist_whose whose = pl_conflist_look(u->cni, NULL);
	int rc = pl_conflist_path(u->cni, path, u->err);

	if (rc < 0)
		return rc;
	if (whose == PL_CONFLIST_OURS)
		return drop_in(u, u->cni->conf_dir, u->cni->file);
	if (whose == PL_CONFLIST_FOREIGN)
		printf("leaving file %s, which podlaned did not write\n", path);
	if (!u->a->dry_run)
		pl_install_sweep(path);
	return 0;
}

static int undo_pods(struct undo *u)
{
	int rc = each(u, u->cni->state_dir, S_IFDIR, undo_network, NULL);

	/* The allocator's folder may be there without a record. */
	if (rc == 0)
		rc = drop_tree(u, u->cni->data_dir, u->cni->network);
	return rc;
}

/* The plugin's: the last attachment's end took them away. */
static int check_rules(struct undo *u)
{
	static const struct {
		int family;
		const char *family_name, *name;
	} tables[] = {
		{ NFPROTO_INET, "inet", "podlane_masq" },
		{ NFPROTO_INET, "inet", "podlane_ports" },
		{ NFPROTO_BRIDGE, "bridge", "podlane_mac" },
	};
	struct pl_nl nl;
	int rc = pl_nl_open_netfilter(&nl, u->err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < PL_ARRAY_SIZE(tables) && !u->a->dry_run; i++) {
		bool dormant;

		if (pl_nl_nft_table(&nl, tables[i].family, tables[i].name,
				    &dormant, NULL) < 0)
			continue;
		rc = pl_err_set(u->err, EBUSY, "the table %s of nftables is "
				"still there, for another stateDir; remove it "
				"with: nft delete table %s %s", tables[i].name,
				tables[i].family_name, tables[i].name);
		break;
	}
	pl_nl_close(&nl);
	return rc;
}

struct ports {
	int bridge;
	char name[PL_IFNAME_BYTES];	/* of one; "": none */
};

static int find_port(const struct pl_link *link, void *arg)
{
	struct ports *p = arg;

	if (link->master == p->bridge)
		memcpy(p->name, link->name, sizeof(p->name));
	return 0;
}

static int undo_bridge(struct undo *u)
{
	pl_auto_json *j = NULL;
	char path[PATH_MAX];
	const char *name = NULL;
	struct pl_link link;
	struct ports p = { 0 };
	bool ours = false;
	int rc;

	if (pl_format(path, sizeof(path), "%s/%s", u->a->conf->state_dir,
		      PL_INSTALL_BRIDGE) < 0 ||
	    pl_json_load(path, &j, NULL) < 0 ||
	    pl_json_str(j, "", "name", &name, NULL) <= 0 ||
	    pl_json_bool(j, "", "ours", &ours, NULL) <= 0 || !ours ||
	    pl_nl_link_get(&u->nl, name, &link, NULL) < 0 ||
	    strcmp(link.kind, "bridge"))
		return 0;
	p.bridge = link.index;
	rc = pl_nl_link_each(&u->nl, find_port, &p, u->err);
	if (rc == 0 && *p.name && !u->a->dry_run)
		rc = pl_err_set(u->err, EBUSY, "%s is a port of the bridge %s "
				"and not podlane's; take it out: ip link set "
				"%s nomaster", p.name, name, p.name);
	if (rc == 0 && doing(u, "link", name))
		rc = pl_nl_link_del(&u->nl, link.index, u->err);
	return rc;
}

static int undo_overlay(struct undo *u)
{
	struct pl_overlay o;
	struct pl_link link;
	struct pl_vxlan v;
	int rc;

	if (u->a->conf->overlay.type == PL_OVERLAY_NONE ||
	    pl_nl_vxlan_get(&u->nl, u->a->conf->overlay.device, &link, &v,
			    NULL) < 0 ||
	    !doing(u, "link", link.name))
		return 0;
	rc = pl_overlay_init(&o, &u->a->conf->overlay, "", u->err);
	if (rc < 0)
		return rc;
	rc = pl_overlay_teardown(&o, u->err);
	pl_overlay_fini(&o);
	return rc;
}

static int undo_plugin(const char *path, bool is_ours, void *arg)
{
	struct undo *u = arg;

	if (!u->a->dry_run)
		pl_install_sweep(path);
	return is_ours ? drop_file(u, path) : 0;
}

static int undo_files(struct undo *u)
{
	int rc = pl_install_files_each(u->a->conf->state_dir, undo_plugin, u,
				       u->err);

	return rc < 0 ? rc : drop_tree(u, PL_INSTALL_LIB_DIR, "");
}

/* Ours for as long as this runs, so it is nothing that was found. */
static void drop_lock(struct undo *u)
{
	char path[PATH_MAX];

	if (!u->a->dry_run &&
	    pl_format(path, sizeof(path), "%s/lock", u->a->run_dir) > 0)
		unlink(path);
}

/* The records last, as they say what the steps before have to do. */
static int undo_state(struct undo *u)
{
	static const char *const files[] = { "nodes.json", PL_INSTALL_BRIDGE,
					     PL_INSTALL_RECORD };
	const char *dir = u->a->conf->state_dir;
	int rc = drop_tree(u, dir, "pods");

	for (size_t i = 0; rc == 0 && i < PL_ARRAY_SIZE(files); i++)
		rc = drop_in(u, dir, files[i]);
	if (rc == 0)
		rc = drop_tree(u, u->a->run_dir, PL_COUNTS_DIR);
	if (rc == 0)
		rc = drop_in(u, u->a->run_dir, PL_AGENT_SOCKET);
	if (rc < 0)
		return rc;
	drop_lock(u);
	drop_empty(u, u->cni->state_dir);
	drop_empty(u, u->cni->data_dir);
	drop_empty(u, dir);
	drop_empty(u, PL_AGENT_STATE_DIR);
	drop_empty(u, u->a->run_dir);
	return 0;
}

static bool drop_annotation(const char *key, void *arg)
{
	return doing(arg, "annotation", key);
}

/* Last, so that a server that does not answer keeps nothing on the node. */
static int undo_annotations(struct undo *u)
{
	const struct pl_agent_conf *c = u->a->conf;
	struct pl_kube_conf kube;
	int rc;

	if (c->registry != PL_REGISTRY_KUBERNETES)
		return 0;
	/* A connection that breaks while we write to it. */
	signal(SIGPIPE, SIG_IGN);
	rc = pl_kube_conf_find(&kube, c->registry_kubeconfig,
			       c->registry_account, u->err);
	if (rc == 0)
		rc = pl_kube_unpublish(&kube, u->a->node, drop_annotation, u,
				       u->err);
	if (rc < 0 && u->a->dry_run) {
		printf("cannot see whether node %s has annotations: %s\n",
		       u->a->node, u->err->msg);
		return 0;
	}
	if (rc < 0)
		pl_err_prefix(u->err, "all else is away, but the annotations "
			      "podlane.io/... of node %s may still be there",
			      u->a->node);
	return rc;
}

static int (*const steps[])(struct undo *u) = {
	check_wired, undo_list, undo_pods, check_rules, undo_bridge,
	undo_overlay, undo_files, undo_state, undo_annotations,
};

int pl_uninstall(const struct pl_uninstall_args *a, struct pl_err *err)
{
	struct undo u = { .a = a, .cni = &a->conf->cni, .err = err };
	pl_auto_fd lock = -1;
	int rc = a->dry_run ? 0 : pl_rundir_lock(a->run_dir, &lock, err);

	/* An agent would write the configuration again. */
	if (rc < 0)
		return rc;
	setlinebuf(stdout);
	rc = pl_nl_open(&u.nl, -1, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; rc == 0 && i < PL_ARRAY_SIZE(steps); i++)
		rc = steps[i](&u);
	pl_nl_close(&u.nl);
	if (rc == 0 && !u.n)
		printf("nothing of podlane is on this node\n");
	return rc;
}
