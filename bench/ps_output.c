/* bench/ps_output.c - the files that a benchmark is to write at its end */
#include "bench/ps_output.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "common/util.h"
#include "bench/gnuplot.h"

/* FILE can be put into its folder, in the place of a file at most. */
static int check_file(const char *option, const char *path,
			struct pl_err *err)
{
	char dir[PATH_MAX];
	struct stat st;
	char *slash;

	if (!path)
		return 0;
	if (pl_format(dir, sizeof(dir), "%s", path) < 0)
		return pl_err_set(err, ENAMETOOLONG, "%s: path too long",
				  option);
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return pl_err_set(err, EINVAL, "%s %s: it is there and no "
				  "regular file", option, path);
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

int ps_output_check(const char *json, const char *csv, const char *plot,
		    struct pl_err *err)
{
	int rc = check_file("--json", json, err);

	if (rc == 0)
		rc = check_file("--csv", csv, err);
	if (rc == 0)
		rc = check_file("--plot", plot, err);
	if (rc == 0 && plot)
		rc = gnuplot_check(err);
	return rc;
}
