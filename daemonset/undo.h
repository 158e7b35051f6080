/*
 * daemonset/undo.h - DEL for pods whose runtime never sends one
 *
 * Theory of operation
 *
 * A runtime that was killed, or a container that was removed behind its back,
 * leaves an address, rules and records behind. The agent sees that the pod's
 * network namespace is gone, and the plugin said at ADD how to execute it: then
 * the agent does what the runtime should have done, DEL without CNI_NETNS.
 *
 * A path that no longer leads to the namespace is no proof that it is gone; a
 * process may still be in it. But when the namespace goes, the kernel removes
 * the pod's interface, and with it the host's end of the pair. So DEL comes
 * only when that interface is not there any more, which also means that nobody
 * can be using the address.
 *
 * One DEL at a time, in the background. One that fails is tried again, ever
 * more slowly. Nothing is lost with the agent: a pod's record stays until the
 * DEL was good, and the next agent starts from it.
 */
#ifndef DAEMONSET_UNDO_H
#define DAEMONSET_UNDO_H

#include "daemonset/pod.h"

struct event_base;
struct pl_undo;

/* done: the DEL for the registration with that key was good. */
int pl_undo_create(struct event_base *base,
		   void (*done)(const char *key, void *arg), void *arg,
		   struct pl_undo **out, struct pl_err *err);
/* Accepts NULL. A DEL that runs is left to end by itself. */
void pl_undo_destroy(struct pl_undo *u);

/* Copies what it needs of reg. -EINVAL: the plugin did not say how. */
int pl_undo_add(struct pl_undo *u, const struct pl_reg *reg);

/* Not any more: the key is another attachment's. */
void pl_undo_cancel(struct pl_undo *u, const char *key);

#endif
