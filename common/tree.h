/*
 * common/tree.h - a folder with all that is in it
 */
#ifndef COMMON_TREE_H
#define COMMON_TREE_H

/*
 * rm -r: links are removed and not followed. 0, or -errno of the first thing
 * that could not be removed; then it stops there.
 */
int pl_tree_remove(const char *path);

#endif
