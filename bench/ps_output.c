/* bench/ps_output.c - the files that a benchmark is to write at its end */
#include "bench/ps_output.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "common/util.h"
#include "bench/gnuplot.h"

/* The folder that FILE will be put into can be written. */
static int check_folder(const char *option, const char *path,
			struct pl_err *err)
{
	char dir[PATH_MAX];
	char *slash;

	if (!path)
		return 0;
	if (pl_format(dir, sizeof(dir), "%s", path) < 0)
		return pl_err_set(err, ENAMETOOLONG, "%s: path too long",
				  option);
	slash = strrchr(dir, '/');
	if (slash == dir)
		slash++;
	if (slash)
		*slash = '\0';
	if (access(slash ? dir : ".", W_OK | X_OK) < 0)
		return pl_err_sys(err, "%s %s: cannot write there", option,
				  path);
	return 0;
}

int ps_output_check(const char *json, const char *plot, struct pl_err *err)
{
	int rc = check_folder("--json", json, err);

	if (rc == 0)
		rc = check_folder("--plot", plot, err);
	if (rc == 0 && plot)
		rc = gnuplot_check(err);
	return rc;
}
