/*
 * daemonset/agent_internal.h - one running agent, for its parts
 */
#ifndef DAEMONSET_AGENT_INTERNAL_H
#define DAEMONSET_AGENT_INTERNAL_H

#include <cjson/cJSON.h>

#include "daemonset/agent.h"
#include "daemonset/broker_internal.h"
#include "daemonset/metrics.h"
#include "daemonset/op_counts.h"
#include "daemonset/overlay.h"
#include "daemonset/pod.h"
#include "daemonset/registry_source.h"
#include "daemonset/remote.h"

struct event;
struct event_base;
struct pl_keeper;
struct pl_notices;
struct pl_server;

struct pl_agent {
	const struct pl_agent_args *args;
	struct event_base *base;
	struct pl_broker *broker;
	struct pl_pods *pods;
	struct pl_remote *remote;
	struct pl_registry none;		/* where there is no source */
	struct pl_registry_source *registry;	/* NULL: none */
	struct pl_locate *locate;
	struct pl_policy *policy;		/* NULL: none */
	struct pl_file_watch *keys[3];		/* of the carrier; NULL: none */
	struct pl_overlay overlay;
	bool has_overlay;
	struct event *overlay_retry;
	int overlay_wait_s;
	struct pl_server *server;
	struct pl_metrics *metrics;		/* NULL: none */
	struct pl_op_count ops[PL_OP_KINDS];
	struct pl_keeper *keeper;	/* NULL: no section "cni" */
	struct pl_notices *notices;	/* NULL: nobody to tell */
	struct event *signals[2];
	int lock_fd;
};

/* The registry's table, perhaps empty. */
const struct pl_registry *pl_agent_registry(const struct pl_agent *a);

/* 0, or why CNI ADD can't be served now. */
int pl_agent_ready(const struct pl_agent *a, struct pl_err *err);

/* --- server.c ------------------------------------------------------------- */

/* Takes listen_fd. */
int pl_server_create(struct pl_agent *a, int listen_fd, struct pl_server **out,
		     struct pl_err *err);
void pl_server_destroy(struct pl_server *s);

/* --- ops.c ---------------------------------------------------------------- */

/*
 * One request line; ns_fd is -1 when no descriptor came along. Returns the
 * answer, to be deleted by the caller; NULL: no memory.
 */
cJSON *pl_op_run(struct pl_agent *a, const char *line, size_t len, int ns_fd);

/* --- caps.c --------------------------------------------------------------- */

/* Keep only the capabilities that a running agent uses. */
int pl_caps_drop(struct pl_err *err);

/* --- seccomp.c ------------------------------------------------------------ */

/*
 * From now on this process and its children can make only the system calls that
 * a running agent and the plugins that it executes need; needs no_new_privs.
 */
int pl_seccomp_install(struct pl_err *err);

#endif
