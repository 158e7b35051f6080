/*
 * daemonset/kube_watch.h - a list of objects of the API server, kept up to date
 *
 * Theory of operation
 *
 *   LIST, page by page  -->  resourceVersion  -->  WATCH from there
 *       ^                                            |  each object and each
 *       |                                            |  bookmark moves it on
 *       +--- 410: too old --------------+            v
 *                                       +--- the watch ends: WATCH again
 *
 * The server ends every watch after some minutes, as it is asked to; that is no
 * failure. After a failure the next try waits, each time longer and never the
 * same on two nodes; Retry-After is waited for at least. A resourceVersion is
 * text that only the server understands.
 *
 * The first list may come from a server's cache (resourceVersion 0), so that
 * 5,000 agents that start do not all ask etcd; after 410 it is the newest.
 */
#ifndef DAEMONSET_KUBE_WATCH_H
#define DAEMONSET_KUBE_WATCH_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "common/err.h"

struct event_base;
struct pl_kube;
struct pl_kube_watch;

struct pl_kube_watch_ops {
	/* A list begins. What was there stays until its end. */
	void (*list)(void *arg);
	/* It is there, or changed. < 0 ends this try, which is repeated. */
	int (*put)(const cJSON *obj, void *arg, struct pl_err *err);
	void (*del)(const cJSON *obj, void *arg);
	/* The list has ended: what was not put since it began is gone. */
	void (*synced)(void *arg);
};

/*
 * path: "/api/v1/nodes". what: "nodes", for the log. Nothing is called before
 * this has returned.
 */
int pl_kube_watch_open(struct event_base *base, struct pl_kube *k,
		       const char *path, const char *what,
		       const struct pl_kube_watch_ops *ops, void *arg,
		       struct pl_kube_watch **out, struct pl_err *err);
/* NULL is none. */
void pl_kube_watch_close(struct pl_kube_watch *w);

/* Why what is known may be old; "" when it is not. */
const char *pl_kube_watch_problem(const struct pl_kube_watch *w);

/* --- waiting, for others too ---------------------------------------------- */

struct pl_backoff {
	unsigned int failures;
};

/* How long to wait after one more failure, in ms: 0.8 s to 30 s, at random. */
int pl_backoff_next_ms(struct pl_backoff *b, int retry_after_s);
void pl_backoff_reset(struct pl_backoff *b);

#endif
