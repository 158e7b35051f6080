/*
 * daemonset/registry_kube.h - the node registry from the Kubernetes API
 *
 * Nodes are listed and watched (kube_watch.h); pod ranges are their podCIDRs,
 * addresses their InternalIPs, ports what their agents publish. What is known
 * is also kept on disk, in the form of a registry file, for the next agent: it
 * starts from there when the API is away. While it is away, for however long,
 * what was known last holds.
 *
 * Changes within a moment are one change. A list without a single node is not
 * believed once there were some.
 */
#ifndef DAEMONSET_REGISTRY_KUBE_H
#define DAEMONSET_REGISTRY_KUBE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "daemonset/registry.h"

struct event_base;
struct pl_kube;
struct pl_registry_kube;

/* Texts outlive the source. */
struct pl_registry_kube_conf {
	const char *kubeconfig;		/* "": as a pod of the cluster */
	const char *account;		/* folder of the service account */
	const char *node;		/* our own name */
	const char *state_dir;
	const char *carriers;
	uint16_t port;			/* of our own agent */
	bool with_cidrs;
};

/*
 * -errno only for what can't come right by waiting, such as a kubeconfig that
 * is wrong. fn runs in base's loop, not for what was read from disk.
 */
int pl_registry_kube_open(struct event_base *base,
			  const struct pl_registry_kube_conf *conf,
			  pl_registry_fn *fn, void *arg,
			  struct pl_registry_kube **out, struct pl_err *err);
/* NULL is none. */
void pl_registry_kube_close(struct pl_registry_kube *r);

const struct pl_registry *
pl_registry_kube_table(const struct pl_registry_kube *r);
/* Why the table may be old, or our Node not published; "" when all is well. */
const char *pl_registry_kube_problem(const struct pl_registry_kube *r);
/* For other requests. */
struct pl_kube *pl_registry_kube_client(struct pl_registry_kube *r);

#endif
