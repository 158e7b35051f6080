/*
 * daemonset/kube_client.h - requests to the Kubernetes API server
 *
 * Theory of operation
 *
 * libcurl's multi interface in libevent's loop: curl says which descriptors and
 * how long it waits for, the loop tells it what happened. Nothing blocks; where
 * a server is given by name, curl looks the name up on a thread of its own.
 *
 * Requests are HTTP/1.1, so each of them has a connection for itself: a stream
 * that nobody reads from holds up no other. The token is read for each request
 * (the kubelet exchanges it), files of certificates for each new connection.
 * Only the cluster's CA is trusted, not the system's. Redirects are not
 * followed, proxies not used.
 *
 * An answer of 2xx goes to `data` as it comes, if there is one; everything else
 * is collected, up to a bound. All functions run on the loop's thread.
 */
#ifndef DAEMONSET_KUBE_CLIENT_H
#define DAEMONSET_KUBE_CLIENT_H

#include <stddef.h>

#include "common/err.h"
#include "daemonset/kube_conf.h"

struct event_base;
struct pl_kube;
struct pl_kube_request;

/* How a request ended. */
struct pl_kube_answer {
	/*
	 * 0: 2xx, and all of it came. Else -errno, and err says why:
	 * -ENOENT (404), -EACCES (401, 403), -ESTALE (410), -EEXIST (409),
	 * -EAGAIN (429, 503 and other 5xx), -EINVAL (other 4xx); what `data`
	 * returned; what kept the server from being reached.
	 */
	int rc;
	const struct pl_err *err;
	int status;			/* HTTP's; 0: no answer came */
	int retry_after_s;		/* asked for by the server; 0: not */
	const char *body;		/* what was collected, with a NUL */
	size_t len;
};

/* An answer of 2xx begins. */
typedef void pl_kube_begin_fn(void *arg);
/* Part of an answer of 2xx; < 0 ends the request with that. */
typedef int pl_kube_data_fn(const char *data, size_t len, void *arg,
			    struct pl_err *err);
/* The request is over and freed afterwards. Others may be made, or ended. */
typedef void pl_kube_done_fn(const struct pl_kube_answer *a, void *arg);

struct pl_kube_call {
	const char *method;		/* "GET", "PATCH"; outlives it */
	const char *path;		/* from the /, with its query */
	const char *type;		/* of the body, outlives it; or NULL */
	const char *body;
	int timeout_s;			/* all of it; 0: as long as it takes */
	pl_kube_begin_fn *begin;	/* may be NULL */
	pl_kube_data_fn *data;		/* NULL: collect it */
	pl_kube_done_fn *done;
	void *arg;
};

/* Takes what is in conf, also when it fails. */
int pl_kube_create(struct event_base *base, struct pl_kube_conf *conf,
		   struct pl_kube **out, struct pl_err *err);
/* Ends all requests without a word. NULL is none. */
void pl_kube_destroy(struct pl_kube *k);

/* "https://192.0.2.1:6443" */
const char *pl_kube_server(const struct pl_kube *k);

/* *out lives until done has returned. done never runs before this has. */
int pl_kube_start(struct pl_kube *k, const struct pl_kube_call *call,
		  struct pl_kube_request **out, struct pl_err *err);
/* Without a word. Not within data. NULL is none. */
void pl_kube_cancel(struct pl_kube_request *r);

#endif
