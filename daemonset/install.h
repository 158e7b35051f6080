/*
 * daemonset/install.h - what Podlane puts on a node, and takes away again
 *
 * Theory of operation
 *
 * `podlaned install` puts the CNI plugins (and the libraries that they bring
 * along) where the runtime looks for them. The agent puts the configuration of
 * the network there, last, when it can serve pods, and puts it back when
 * somebody changes it. `podlaned uninstall` takes all of it away, that first.
 *
 * Two modes. Standalone, the list has podlane with the pod ranges of the node.
 * Chained, it is a copy of the list that the node has, with podlane behind it,
 * under a name of ours that sorts before it. The original stays where it is and
 * as it is, so it counts again as soon as ours is gone, whatever happened.
 *
 * A CDI specification (podlane.json) lets containers mount the pods' library
 * that was installed along: --device podlane.io/lib=all.
 *
 * Whose a file is: a configuration of ours has MARK in it. Of a plugin, and of
 * the bridge, records in the state directory say so, written before the thing
 * itself. What is not ours is not touched.
 *
 * In the configuration of the agent:
 *   "cni": {"mode": "standalone" | "chained", "confDir": "/etc/cni/net.d",
 *           "binDir": "/opt/cni/bin", "file": "05-podlane.conflist",
 *           "extend": "", "network": "podlane", "bridge": "podlane0",
 *           "ipMasq": true, "stateDir": "/var/lib/podlane/cni",
 *           "dataDir": "/var/lib/podlane/ipam", "cdiDir": "/etc/cdi"}
 */
#ifndef DAEMONSET_INSTALL_H
#define DAEMONSET_INSTALL_H

#include <limits.h>
#include <stdbool.h>
#include <cjson/cJSON.h>

#include "common/err.h"
#include "common/nl.h"
#include "daemonset/registry.h"

enum pl_cni_mode { PL_CNI_NONE, PL_CNI_STANDALONE, PL_CNI_CHAINED };

struct pl_install_conf {
	enum pl_cni_mode mode;
	char bin_dir[PATH_MAX];
	char conf_dir[PATH_MAX];
	char file[NAME_MAX + 1];	/* ours, in conf_dir */
	char extend[NAME_MAX + 1];	/* chained: behind this; "": first */
	char network[128];		/* standalone: its name */
	char bridge[PL_IFNAME_BYTES];
	bool ip_masq;
	char state_dir[PATH_MAX];	/* the plugin's */
	char data_dir[PATH_MAX];	/* podlane-ipam's */
	char cdi_dir[PATH_MAX];		/* "": no CDI specification */
};

void pl_install_conf_default(struct pl_install_conf *c);
/* obj NULL: the defaults. */
int pl_install_conf_parse(const cJSON *obj, const char *where,
		      struct pl_install_conf *c, struct pl_err *err);

/* --- install_list.c ------------------------------------------------------- */

/*
 * What the file of ours is to have. node: this one, for standalone mode. source
 * gets the name of the file that is extended, or "". -ENOENT: there is no file
 * to extend, or the node has no pod ranges.
 */
int pl_conflist_make(const struct pl_install_conf *c,
		     const struct pl_node *node, const char *run_dir,
		     char **text,
		     char source[NAME_MAX + 1], struct pl_err *err);

enum pl_conflist_whose { PL_CONFLIST_NONE, PL_CONFLIST_OURS,
			 PL_CONFLIST_FOREIGN };
/* The file of our name, as it is. text: to be freed; NULL: not wanted. */
enum pl_conflist_whose pl_conflist_look(const struct pl_install_conf *c,
					char **text);

/* The file that the runtime uses; "": none. */
void pl_conflist_first(const char *dir, char name[NAME_MAX + 1]);

/* DIR/FILE of ours. */
int pl_conflist_path(const struct pl_install_conf *c, char path[PATH_MAX],
		     struct pl_err *err);

/* --- install_files.c ------------------------------------------------------ */

struct pl_install_args {
	const struct pl_install_conf *cni;
	const char *state_dir;		/* the agent's, for the record */
	const char *from;		/* folder of plugins, and of lib/ */
	bool force;			/* over files that are not ours */
};

/*
 * Put the plugins into bin_dir, each by a rename, so that one that runs goes on
 * as it is. May be repeated, and interrupted anywhere.
 */
int pl_install_files(const struct pl_install_args *a, struct pl_err *err);

/*
 * Each file that an install put, or was about to put, there. is_ours: it is
 * there, and nobody changed it since. A path may come more than once.
 */
int pl_install_files_each(const char *state_dir,
			  int (*fn)(const char *path, bool is_ours, void *arg),
			  void *arg, struct pl_err *err);

/* What a process that was killed left of replacing path. */
void pl_install_sweep(const char *path);

#define PL_INSTALL_LIB_DIR "/var/lib/podlane/lib"
#define PL_INSTALL_POD_LIB "libpodlane.so.1"	/* in its folder "pod" */
#define PL_INSTALL_RECORD "installed.json"
#define PL_INSTALL_BRIDGE "bridge.json"

/* --- install_undo.c ------------------------------------------------------- */

struct pl_agent_conf;

struct pl_uninstall_args {
	const struct pl_agent_conf *conf;
	const char *run_dir;
	const char *node;		/* this one's name in the registry */
	bool dry_run;			/* only print what would go */
	bool force;			/* although pods are wired */
};

/* Prints what it removes. -EBUSY: an agent runs, or pods are still wired. */
int pl_uninstall(const struct pl_uninstall_args *a, struct pl_err *err);

/* --- install_cmd.c -------------------------------------------------------- */

/* podlaned install ..., podlaned uninstall ...; the exit status. */
int pl_install_main(int argc, char **argv);
int pl_uninstall_main(int argc, char **argv);

#endif
