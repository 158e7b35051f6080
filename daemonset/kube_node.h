/*
 * daemonset/kube_node.h - a Node of the Kubernetes API, and a table of them
 */
#ifndef DAEMONSET_KUBE_NODE_H
#define DAEMONSET_KUBE_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <uthash.h>

#include "common/err.h"
#include "daemonset/registry.h"

/*
 * Annotations by which an agent says that it is there. The endpoint's address
 * must be an InternalIP of the Node, and says which one.
 */
#define PL_KUBE_ENDPOINT "podlane.io/endpoint"
#define PL_KUBE_CARRIERS "podlane.io/carriers"
#define PL_KUBE_VERSION "podlane.io/version"

struct pl_kube_node {
	struct pl_node node;		/* its name is the key */
	char created[32];		/* text that sorts by time */
	uint64_t seen;			/* of which list */
	bool is_told;			/* that it is left out */
	UT_hash_handle hh;
};

/* metadata.annotations' value of this key; NULL: it has none. */
const char *pl_kube_annotation(const cJSON *obj, const char *key);
/* metadata.name; "" when there is none. */
const char *pl_kube_name(const cJSON *obj);

/*
 * Fill n->node and n->created. with_cidrs: take its pod ranges. -EINVAL: there
 * is no name; -ENOENT: no InternalIP yet, n has the name only.
 */
int pl_kube_node_parse(const cJSON *obj, bool with_cidrs,
		       struct pl_kube_node *n, struct pl_err *err);

/*
 * Fill and seal an initialised table. One Node that is wrong is left out. Of
 * two that claim an address or overlapping ranges the older one is: that is
 * what a replaced machine leaves behind. Each is logged once.
 */
int pl_kube_table(struct pl_kube_node *nodes, struct pl_registry *out,
		  struct pl_err *err);

#endif
