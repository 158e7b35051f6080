/*
 * daemonset/metrics.h - /metrics, /healthz and /readyz, by HTTP
 *
 * /metrics  Prometheus's text format, version 0.0.4
 * /healthz  200 while the event loop runs
 * /readyz   200 when CNI ADD can be served, else 503 and why
 *
 * It is only read here: every number is one that another part keeps, most of
 * them in shared memory (stats.h). Series are per pod, up to a bound, and per
 * node that this one is or was connected with; pods of one name are one.
 */
#ifndef DAEMONSET_METRICS_H
#define DAEMONSET_METRICS_H

#include "common/err.h"

struct evbuffer;
struct pl_agent;
struct pl_metrics;

#define PL_METRICS_LISTEN "127.0.0.1:7472"

/*
 * Listen at "ADDRESS:PORT". When somebody else has the port that is logged, and
 * tried again: an agent that gives way to this one may have it for a moment.
 */
int pl_metrics_create(struct pl_agent *a, const char *listen,
		      struct pl_metrics **out, struct pl_err *err);
/* NULL is none. */
void pl_metrics_destroy(struct pl_metrics *m);

/* -EINVAL: no address and port. */
int pl_metrics_check(const char *listen, struct pl_err *err);

/* --- metrics_text.c ------------------------------------------------------- */

/* -ENOMEM. */
int pl_metrics_print(const struct pl_agent *a, struct evbuffer *out);

/* --- metrics_addresses.c -------------------------------------------------- */

/* Nothing, where podlane-ipam gives none. */
void pl_metrics_addresses(const struct pl_agent *a, struct evbuffer *b);

/* --- metrics_peers.c ------------------------------------------------------ */

/* -ENOMEM: then what is there of other nodes is left out. */
struct pl_remote;
int pl_metrics_peers(struct pl_remote *r, struct evbuffer *out);

#endif
