/* daemonset/registry_source.c - the node registry, from wherever it comes */
#include "daemonset/registry_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemonset/registry_file.h"
#include "daemonset/registry_kube.h"

/* One of both. */
struct pl_registry_source {
	struct pl_registry_file *file;
	struct pl_registry_kube *kube;
	const char *path;
};

/* What others may expect of this node, see podlane.io/carriers. */
static const char *carriers(const struct pl_agent_conf *c)
{
	bool plain = c->security == PL_SECURITY_NONE || !c->encrypt;

	if (!strcmp(c->carrier, "verbs"))
		return "verbs";
	if (strcmp(c->carrier, "auto") || !plain ||
	    !pl_rdma_there(PL_RDMA_DEVICES))
		return "tcp";
	return "verbs,tcp";
}

static int open_kube(struct event_base *base, const struct pl_agent_args *args,
		     pl_registry_fn *fn, void *arg,
		     struct pl_registry_source *s, struct pl_err *err)
{
	const struct pl_agent_conf *c = &args->conf;
	const struct pl_registry_kube_conf conf = {
		.kubeconfig = c->registry_kubeconfig,
		.account = c->registry_account,
		.node = args->node,
		.state_dir = c->state_dir,
		.carriers = carriers(c),
		.port = c->port ? c->port : PL_NODE_PORT_DEFAULT,
		.with_cidrs = c->registry_cidrs,
	};

	return pl_registry_kube_open(base, &conf, fn, arg, &s->kube, err);
}

int pl_registry_source_open(struct event_base *base,
			    const struct pl_agent_args *args,
			    pl_registry_fn *fn, void *arg,
			    struct pl_registry_source **out,
			    struct pl_err *err)
{
	struct pl_registry_source *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return pl_err_set(err, ENOMEM, "out of memory");
	s->path = args->conf.registry_file;
	if (args->conf.registry == PL_REGISTRY_KUBERNETES)
		rc = open_kube(base, args, fn, arg, s, err);
	else
		rc = pl_registry_file_open(base, s->path, fn, arg, &s->file,
					   err);
	if (rc < 0) {
		free(s);
		return rc;
	}
	*out = s;
	return 0;
}

void pl_registry_source_close(struct pl_registry_source *s)
{
	if (!s)
		return;
	pl_registry_file_close(s->file);
	pl_registry_kube_close(s->kube);
	free(s);
}

const struct pl_registry *
pl_registry_source_table(const struct pl_registry_source *s)
{
	return s->kube ? pl_registry_kube_table(s->kube) :
			 pl_registry_file_table(s->file);
}

const char *pl_registry_source_problem(const struct pl_registry_source *s)
{
	return s->kube ? pl_registry_kube_problem(s->kube) :
			 pl_registry_file_problem(s->file);
}

const char *pl_registry_source_name(const struct pl_registry_source *s)
{
	return s->kube ? "the Kubernetes API" : s->path;
}

struct pl_kube *pl_registry_source_kube(struct pl_registry_source *s)
{
	return s->kube ? pl_registry_kube_client(s->kube) : NULL;
}
