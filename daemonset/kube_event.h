/*
 * daemonset/kube_event.h - Events of our Node, for whoever runs the cluster
 *
 * Core v1 Events in the namespace "default", where those of things without a
 * namespace belong; `kubectl describe node` shows them. Who says the same again
 * within repeat_s says nothing new; later it is the same Event with a higher
 * count. So what holds for a day is one Event, and what flaps is not many.
 *
 * What can't be sent waits, with a back-off; 32 different ones at most.
 */
#ifndef DAEMONSET_KUBE_EVENT_H
#define DAEMONSET_KUBE_EVENT_H

#include <stdint.h>

#include "common/err.h"

struct event_base;
struct pl_kube;
struct pl_kube_events;

/* node outlives it. repeat_s: see above, not 0. */
int pl_kube_events_create(struct event_base *base, struct pl_kube *k,
			  const char *node, uint32_t repeat_s,
			  struct pl_kube_events **out, struct pl_err *err);
/* What was not sent yet is lost. NULL is none. */
void pl_kube_events_destroy(struct pl_kube_events *e);

/*
 * A warning. reason: one word, as "PeerUnreachable"; about: what the same
 * reason may hold for several times, as a node's name; text: for people.
 */
void pl_kube_event(struct pl_kube_events *e, const char *reason,
		   const char *about, const char *text);

#endif
