/*
 * daemonset/registry_source.h - the node registry, from wherever it comes
 */
#ifndef DAEMONSET_REGISTRY_SOURCE_H
#define DAEMONSET_REGISTRY_SOURCE_H

#include "common/err.h"
#include "daemonset/agent.h"
#include "daemonset/registry.h"

struct event_base;
struct pl_kube;
struct pl_registry_source;

/*
 * args->conf says which; it outlives the source. fn runs in base's loop when
 * another table holds, not for the first one.
 */
int pl_registry_source_open(struct event_base *base,
			    const struct pl_agent_args *args,
			    pl_registry_fn *fn, void *arg,
			    struct pl_registry_source **out,
			    struct pl_err *err);
/* NULL is none. */
void pl_registry_source_close(struct pl_registry_source *s);

/* The table that holds now. */
const struct pl_registry *
pl_registry_source_table(const struct pl_registry_source *s);
/* Why it may not be what it should be; "" when it is. */
const char *pl_registry_source_problem(const struct pl_registry_source *s);
/* What it is read from, for messages: a path, "the Kubernetes API". */
const char *pl_registry_source_name(const struct pl_registry_source *s);
/* The API server, to ask it other things; NULL: there is none. */
struct pl_kube *pl_registry_source_kube(struct pl_registry_source *s);

#endif
