/*
 * daemonset/locate_internal.h - one question where a pod is, for its parts
 */
#ifndef DAEMONSET_LOCATE_INTERNAL_H
#define DAEMONSET_LOCATE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <uthash.h>

#include "daemonset/json_stream.h"
#include "daemonset/kube_client.h"
#include "daemonset/locate.h"
#include "daemonset/registry.h"
#include "daemonset/remote.h"

struct pl_locate {
	const char *node;
	struct pl_kube *kube;
	struct pl_remote *remote;
	struct pl_lookup *lookups;	/* by address */
	unsigned int n_asking;		/* the API server */
	uint64_t tokens_ns;		/* see take_token */
	bool is_told;			/* that the server refuses to say */
};

/* Sizes of names in Kubernetes, with a NUL. */
#define PL_KUBE_NAME_BYTES 254
#define PL_KUBE_NS_BYTES 64

struct pl_lookup {
	struct pl_addr addr;		/* key */
	struct pl_locate *l;
	bool is_pending;
	bool is_telling;		/* its waiters; it stays meanwhile */
	uint64_t until_ns;		/* an answer holds so long */
	int rc;				/* 0, or why there is no answer */
	char msg[512];
	char node[PL_NODE_NAME_BYTES];
	struct pl_addr pod;
	LIST_HEAD(, pl_locate_waiter) waiters;
	/* while it is pending */
	struct pl_kube_request *req;
	struct pl_json_stream stream;
	unsigned int n_found;		/* pods, or Services */
	bool is_host;			/* a pod of the host's network */
	char why[400];			/* the server can't tell; "": it did */
	char ns[PL_KUBE_NS_BYTES], name[PL_KUBE_NAME_BYTES];	/* Service */
	uint64_t find_id;		/* of the remote part; 0: none */
	UT_hash_handle hh;
};

/* --- locate.c ------------------------------------------------------------- */

/* rc 0: node and pod of k are set. Else msg says why. k may be gone then. */
void pl_lookup_answer(struct pl_lookup *k, int rc, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The API server does not know it: ask the other agents, or give up. */
void pl_lookup_ask_peers(struct pl_lookup *k);

/* --- locate_kube.c -------------------------------------------------------- */

/* Ask the server; the answer comes later. */
int pl_lookup_ask_kube(struct pl_lookup *k, struct pl_err *err);

#endif
