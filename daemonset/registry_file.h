/*
 * daemonset/registry_file.h - the node registry from a static file
 *
 *   {"nodes": [{"name": "node1", "address": "10.99.0.1",
 *               "podCIDRs": ["10.88.1.0/24"], "port": 7471}, ...]}
 *
 * port may be left out. The file is read again when it changes, in place or by
 * a rename over it; also when its folder is a Kubernetes ConfigMap's, where a
 * symbolic link is what changes. A file that can't be read or is wrong changes
 * nothing: the last good table stays, and the reason is logged.
 */
#ifndef DAEMONSET_REGISTRY_FILE_H
#define DAEMONSET_REGISTRY_FILE_H

#include <cjson/cJSON.h>

#include "common/err.h"
#include "daemonset/registry.h"

struct event_base;
struct pl_registry_file;

/* Fills an initialised, empty table and seals it. Unknown keys are errors. */
int pl_registry_parse(const cJSON *json, struct pl_registry *out,
		      struct pl_err *err);

/*
 * Read path, which must be good now, and follow it. fn runs in base's loop,
 * only when the table differs; not for the first one.
 */
int pl_registry_file_open(struct event_base *base, const char *path,
			  pl_registry_fn *fn, void *arg,
			  struct pl_registry_file **out, struct pl_err *err);
void pl_registry_file_close(struct pl_registry_file *f);

/* The table that holds now. */
const struct pl_registry *
pl_registry_file_table(const struct pl_registry_file *f);

/* Why the file as it is now is not what holds; "" when it is. */
const char *pl_registry_file_problem(const struct pl_registry_file *f);

#endif
