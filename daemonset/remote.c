/*
 * daemonset/remote.c - the remote part of an agent that has no carrier
 *
 * Every other node is out of reach.
 */
#include "daemonset/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct pl_remote {
	const char *node;
	const struct pl_registry *registry;
};

int pl_remote_create(const struct pl_remote_config *cfg, struct pl_remote **out,
		     struct pl_err *err)
{
	struct pl_remote *r = calloc(1, sizeof(*r));

	if (!r)
		return pl_err_set(err, ENOMEM, "out of memory");
	r->node = cfg->node;
	r->registry = cfg->registry;
	*out = r;
	return 0;
}

void pl_remote_destroy(struct pl_remote *r)
{
	free(r);
}

void pl_remote_update(struct pl_remote *r, const struct pl_registry *now)
{
	r->registry = now;
}

static int unreachable(const char *node, struct pl_err *err)
{
	return pl_err_set(err, EHOSTUNREACH,
			  "node %s can't be reached: this agent was built "
			  "without a carrier", node);
}

int pl_remote_connect(struct pl_remote *r, const struct pl_remote_lane *lane,
		      pl_remote_lane_done *done, void *arg, struct pl_err *err)
{
	(void)r;
	(void)done;
	(void)arg;
	return unreachable(lane->node->name, err);
}

void pl_remote_lane_close(struct pl_remote *r, uint64_t id, bool died)
{
	(void)r;
	(void)id;
	(void)died;
}

int pl_remote_region_open(struct pl_remote *r, const struct pl_remote_open *o,
			  pl_remote_region_done *done, void *arg,
			  struct pl_err *err)
{
	(void)r;
	(void)done;
	(void)arg;
	return unreachable(o->node->name, err);
}

void pl_remote_region_put(struct pl_remote *r, uint64_t id)
{
	(void)r;
	(void)id;
}

void pl_remote_region_gone(struct pl_remote *r, uint64_t region_id, bool died)
{
	(void)r;
	(void)region_id;
	(void)died;
}

void pl_remote_nodes(struct pl_remote *r,
		     void (*fn)(const struct pl_remote_node *n, void *arg),
		     void *arg)
{
	for (size_t i = 0; i < r->registry->n; i++) {
		struct pl_remote_node n = {
			.name = r->registry->nodes[i].name,
			.carrier = "none",
			.state = "down: no carrier",
		};

		if (strcmp(n.name, r->node))
			fn(&n, arg);
	}
}
