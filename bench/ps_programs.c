/*
 * bench/ps_programs.c - where the agent and the CNI plugins are
 */
#include "bench/ps_cluster.h"

#include <errno.h>
#include <string.h>

#include "common/exec.h"
#include "common/util.h"

#define INSTALLED "/opt/cni/bin:/usr/lib/cni"

/* The build tree that this program stands in: its folder's parent. */
static int build_tree(char *path, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", path, size - 1);
	char *slash;

	if (n < 0)
		return -errno;
	path[n] = '\0';
	for (int i = 0; i < 2; i++) {
		slash = strrchr(path, '/');
		if (!slash)
			return -ENOENT;
		*slash = '\0';
	}
	return 0;
}

static int find_podlaned(struct ps_programs *p, const char *given,
			 const char *tree, struct pl_err *err)
{
	char *path = p->podlaned;
	size_t size = sizeof(p->podlaned);

	if (given) {
		if (pl_format(path, size, "%s", given) > 0 &&
		    access(path, X_OK) == 0)
			return 0;
		return pl_err_set(err, ENOENT, "--podlaned %s is no program",
				  given);
	}
	if (pl_format(path, size, "%s/daemonset/podlaned", tree) > 0 &&
	    access(path, X_OK) == 0)
		return 0;
	if (pl_exec_find(getenv("PATH"), "podlaned", path, size) == 0 ||
	    (pl_format(path, size, "/usr/sbin/podlaned") > 0 &&
	     access(path, X_OK) == 0))
		return 0;
	return pl_err_set(err, ENOENT, "the agent podlaned is not there; "
			  "build it with make, or say --podlaned FILE");
}

int ps_programs_find(struct ps_programs *p, const char *cni_bin,
		     const char *podlaned, struct pl_err *err)
{
	char tree[PS_FILE_BYTES] = "", plugin[PS_FILE_BYTES];
	int rc = 0;

	if (build_tree(tree, sizeof(tree)) < 0)
		tree[0] = '\0';
	if (cni_bin)
		rc = pl_format(p->cni_path, sizeof(p->cni_path), "%s",
			       cni_bin);
	else if (pl_format(plugin, sizeof(plugin), "%s/plugin/podlane",
			   tree) > 0 && access(plugin, X_OK) == 0)
		rc = pl_format(p->cni_path, sizeof(p->cni_path),
			       "%s/plugin:%s/ipam:" INSTALLED, tree, tree);
	else
		rc = pl_format(p->cni_path, sizeof(p->cni_path), INSTALLED);
	if (rc < 0)
		return pl_err_set(err, -rc, "--cni-bin: path too long");
	return find_podlaned(p, podlaned, tree, err);
}
