/*
 * daemonset/locate.h - on which node a pod is whose address no range has
 *
 * Theory of operation
 *
 * Behind a plugin with its own plan of addresses the registry does not say
 * where a pod is. So it is asked for when somebody wants it, and never watched:
 *
 *   the API server  which pod has this status.podIP? A Service's address stands
 *                   for the one pod behind it, if it is one.
 *   other agents    who of you has a pod of this address? Only where there are
 *                   few nodes, as all of them are asked.
 *
 * What was found is kept for some minutes, and forgotten when the node says
 * that it has no such pod; that there is none is kept for seconds. Requests to
 * the server have a bound, as any pod can ask for any address.
 *
 * An answer is believed as the API and the agents are; see docs/security.md.
 */
#ifndef DAEMONSET_LOCATE_H
#define DAEMONSET_LOCATE_H

#include <sys/queue.h>

#include "common/err.h"
#include "common/inet.h"

struct pl_kube;
struct pl_locate;
struct pl_remote;

/* Who waits for an address; the caller's memory. */
struct pl_locate_waiter {
	/* Look again. It is off the list, and may be put onto another one. */
	void (*fn)(struct pl_locate_waiter *w);
	LIST_ENTRY(pl_locate_waiter) of_lookup;
};

/* kube: NULL: not to be asked. node: our own name. They all outlive it. */
int pl_locate_create(const char *node, struct pl_kube *kube,
		     struct pl_remote *remote, struct pl_locate **out,
		     struct pl_err *err);
/* Who waits is told nothing any more. NULL is none. */
void pl_locate_destroy(struct pl_locate *l);

/*
 * 0: *node (valid until the next call) has the pod; *addr becomes the pod's own
 * where it was that of a Service. -EINPROGRESS: it is being asked for.
 * -EHOSTUNREACH: there is none, or it can't be told which. -EAGAIN: too much is
 * asked for.
 */
int pl_locate_find(struct pl_locate *l, struct pl_addr *addr,
		   const char **node, struct pl_err *err);

/* After -EINPROGRESS: fn is called when there is an answer. */
void pl_locate_wait(struct pl_locate *l, const struct pl_addr *addr,
		    struct pl_locate_waiter *w);
/* Not any more; nothing happens when it does not wait. */
void pl_locate_leave(struct pl_locate_waiter *w);

/* What was found for it has proved wrong. */
void pl_locate_forget(struct pl_locate *l, const struct pl_addr *addr);

#endif
