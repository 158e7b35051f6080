/* daemonset/broker.c - what lanes and regions have in common */
#include "daemonset/broker_internal.h"

#include <errno.h>
#include <string.h>

#include "common/util.h"
#include "shm/podlane.h"

/* Libraries look for an agent several times a second. */
#define SETTLE_NS UINT64_C(5000000000)

int pl_broker_create(struct event_base *base, const char *node,
		     struct pl_broker **out, struct pl_err *err)
{
	struct pl_broker *b = calloc(1, sizeof(*b));

	if (!b)
		return pl_err_set(err, ENOMEM, "out of memory");
	b->base = base;
	b->node = node;
	b->settle_until_ns = pl_now_ns() + SETTLE_NS;
	*out = b;
	return 0;
}

void pl_broker_destroy(struct pl_broker *b)
{
	free(b);
}

bool pl_broker_is_settling(const struct pl_broker *b, const struct pl_pod *pod)
{
	return pod->is_restored && pl_now_ns() < b->settle_until_ns;
}

bool pl_broker_may_show(struct pl_broker *b, const struct pl_addr *addr)
{
	const struct pl_pod *pod = pl_pods_by_addr(b->pods, addr);

	return pod && pod->is_restored && pl_now_ns() < b->show_until_ns;
}

bool pl_broker_has_pod(struct pl_broker *b, const struct pl_addr *addr)
{
	return pl_pods_by_addr(b->pods, addr);
}

int pl_broker_later(const struct pl_client *c, int rc, int instead)
{
	return rc == -EAGAIN && c->version < 2 ? instead : rc;
}

void pl_broker_client_gone(struct pl_broker *b, struct pl_client *c)
{
	struct pl_region_opening *o;
	struct pl_region_own *r;
	struct pl_lane_end *e;
	struct pl_service *s, *next;
	struct pl_parked *p;

	(void)b;
	while ((p = LIST_FIRST(&c->parked)))
		pl_parked_end(p);
	for (s = LIST_FIRST(&c->services); s; s = next) {
		next = LIST_NEXT(s, of_client);
		pl_service_catch_up(s);
	}
	while ((s = LIST_FIRST(&c->services)))
		pl_service_end(s);
	while ((e = LIST_FIRST(&c->lane_ends)))
		pl_lane_end_close(e, true);
	while ((r = LIST_FIRST(&c->regions)))
		pl_region_end(r, true);
	while ((o = LIST_FIRST(&c->openings)))
		pl_opening_end(o);
}

/* By the annotation of one of its registrations. */
static bool pod_allows(const struct pl_pod *owner, const char *ns)
{
	const struct pl_reg *reg;

	LIST_FOREACH(reg, &owner->regs, of_pod)
		if (pl_agent_allow_has(reg->allow, ns))
			return true;
	return false;
}

int pl_broker_policy(struct pl_pod *owner, uint32_t flags, const char *ns,
		     enum pl_policy_kind kind, const char *name,
		     struct pl_err *err)
{
	if ((flags & PL_ALLOW_ANY) || !strcmp(owner->ns, ns) ||
	    pod_allows(owner, ns) ||
	    pl_policy_allows(owner->pods->broker->policy, kind, name,
			     owner->ns, ns))
		return 0;
	pl_pod_counts_event(owner->counts, PL_POD_REFUSED_POLICY);
	return pl_err_set(err, EACCES,
			  "%s '%s' is for pods of namespace '%s' only, this "
			  "pod is of '%s'; its owner may allow others "
			  "(PL_ALLOW_ANY), its annotation podlane.io/allow, or "
			  "the policy of its node",
			  kind == PL_POLICY_SERVICE ? "service" : "region",
			  name, owner->ns, ns);
}

static int quota_take(struct pl_pod *pod, uint32_t *used, uint32_t limit,
		      const char *name, uint64_t bytes, struct pl_err *err)
{
	const uint64_t max = pl_pod_bytes_max(pod);

	if (*used >= limit)
		return pl_err_set(err, EDQUOT,
				  "pod %s/%s has %u %s, its limit; close some, "
				  "or raise limits.%s of podlaned", pod->ns,
				  pod->name, *used, name, name);
	if (bytes > max || pod->usage.bytes > max - bytes)
		return pl_err_set(err, EDQUOT,
				  "pod %s/%s shares %llu bytes, and %llu more "
				  "pass its limit of %llu; close some lanes or "
				  "regions, or raise %s",
				  pod->ns, pod->name,
				  (unsigned long long)pod->usage.bytes,
				  (unsigned long long)bytes,
				  (unsigned long long)max,
				  max < pod->pods->limits.bytes ?
					  "its podlane.io/memory-limit" :
					  "limits.bytes of podlaned");
	++*used;
	pod->usage.bytes += bytes;
	return 0;
}

int pl_quota_take(struct pl_pod *pod, uint32_t *used, uint32_t limit,
		  const char *name, uint64_t bytes, struct pl_err *err)
{
	int rc = quota_take(pod, used, limit, name, bytes, err);

	if (rc == 0)
		return 0;
	pl_pod_counts_event(pod->counts, PL_POD_REFUSED_QUOTA);
	pl_pod_complain(pod, "refused: %s", err->msg);
	return rc;
}

void pl_broker_unreached(struct pl_broker *b, int status,
			 const struct pl_addr *pod)
{
	if (status == -EHOSTUNREACH && b->locate)
		pl_locate_forget(b->locate, pod);
}

static int find_elsewhere(struct pl_broker *b, struct pl_addr *addr,
			  const struct pl_node **node, struct pl_err *err)
{
	const char *name;
	int rc = pl_locate_find(b->locate, addr, &name, err);

	if (rc < 0)
		return rc;
	*node = pl_registry_by_name(b->registry, name);
	return *node ? 0 : pl_err_set(err, EHOSTUNREACH, "the pod is on node "
				      "%s, which is not in the node registry",
				      name);
}

int pl_broker_find(struct pl_broker *b, struct pl_addr *addr,
		   struct pl_pod **pod, const struct pl_node **node,
		   struct pl_err *err)
{
	char buf[INET6_ADDRSTRLEN];
	int rc;

	*node = NULL;
	*pod = pl_pods_by_addr(b->pods, addr);
	if (*pod)
		return 0;
	if (b->registry)
		*node = pl_registry_by_pod(b->registry, addr);
	if (!*node && b->locate && b->registry) {
		rc = find_elsewhere(b, addr, node, err);
		if (rc < 0)
			return rc;
		/* A Service's pod may be here. */
		*pod = pl_pods_by_addr(b->pods, addr);
		if (*pod) {
			*node = NULL;
			return 0;
		}
	}
	if (*node && strcmp((*node)->name, b->node) && b->remote)
		return 0;
	return pl_err_set(err, EHOSTUNREACH, *node ?
			  "no pod of this node (%s) has address %s" :
			  "no node that %s knows has a pod with address %s; "
			  "see podlanectl nodes", b->node,
			  pl_addr_str(addr, buf));
}
