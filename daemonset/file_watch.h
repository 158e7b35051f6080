/*
 * daemonset/file_watch.h - a file that is read again when it changes
 *
 * In place or by a rename over it; also when its folder is a Kubernetes
 * ConfigMap's, where a symbolic link is what changes.
 */
#ifndef DAEMONSET_FILE_WATCH_H
#define DAEMONSET_FILE_WATCH_H

#include "common/err.h"

struct event_base;
struct pl_file_watch;

/* The file may have changed, and has been quiet for a moment since. */
typedef void pl_file_watch_fn(void *arg);

/*
 * fn runs in base's loop. The folder must be there, the file need not. Read the
 * file after this call, so that no change falls in between.
 */
int pl_file_watch_open(struct event_base *base, const char *path,
		       pl_file_watch_fn *fn, void *arg,
		       struct pl_file_watch **out, struct pl_err *err);
/* NULL is none. */
void pl_file_watch_close(struct pl_file_watch *f);

#endif
