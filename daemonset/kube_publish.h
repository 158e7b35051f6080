/*
 * daemonset/kube_publish.h - our own Node says that an agent is there
 *
 * By server-side apply as field manager "podlane", so that the annotations are
 * ours and nobody else's fields are touched. It is applied when the Node does
 * not have them, as it is seen; whoever changes them sees them change back. A
 * field that another manager owns is a conflict: that is logged with the
 * manager's name, and then taken over. A Node that is not there is not made.
 */
#ifndef DAEMONSET_KUBE_PUBLISH_H
#define DAEMONSET_KUBE_PUBLISH_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "common/err.h"
#include "common/inet.h"
#include "daemonset/registry.h"

struct event_base;
struct pl_kube;
struct pl_kube_conf;
struct pl_kube_publish;

/* carriers: "tcp", "verbs,tcp"; they and node outlive it. */
int pl_kube_publish_create(struct event_base *base, struct pl_kube *k,
			   const char *node, const char *carriers,
			   uint16_t port, struct pl_kube_publish **out,
			   struct pl_err *err);
/* NULL is none. */
void pl_kube_publish_destroy(struct pl_kube_publish *p);

/* Our Node as it is now, and the address that others have of it. */
void pl_kube_publish_see(struct pl_kube_publish *p, const cJSON *obj,
			 const struct pl_addr *address);
/* It is gone. */
void pl_kube_publish_gone(struct pl_kube_publish *p);

/* Why the Node does not say it; "" when it does. */
const char *pl_kube_publish_problem(const struct pl_kube_publish *p);

/* --- kube_unpublish.c ----------------------------------------------------- */

/* An annotation of ours is there: shall it go? */
typedef bool pl_kube_unpublish_fn(const char *key, void *arg);

/*
 * Take what agents have published away from this Node, if fn wants one of it
 * to go. Takes what is in conf; returns when it is done. A Node that is not
 * there is 0.
 */
int pl_kube_unpublish(struct pl_kube_conf *conf, const char *node,
		      pl_kube_unpublish_fn *fn, void *arg, struct pl_err *err);

/* --- for both ------------------------------------------------------------- */

#define PL_KUBE_MANAGER "podlane"
#define PL_KUBE_APPLY "application/apply-patch+yaml"
#define PL_KUBE_PUBLISH_PATH (PL_NODE_NAME_BYTES + 80)

/* What is applied to the Node of this uid, as yet without an annotation. */
cJSON *pl_kube_publish_doc(const char *node, const char *uid);
/* node: shorter than PL_NODE_NAME_BYTES. */
void pl_kube_publish_path(char path[PL_KUBE_PUBLISH_PATH], const char *node,
			  bool force);

#endif
