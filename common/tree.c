/* common/tree.c - a folder with all that is in it */
#include "common/tree.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>

#define OPEN_FOLDERS 16

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

int pl_tree_remove(const char *path)
{
	if (nftw(path, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS) == 0)
		return 0;
	return -errno;
}
