/*
 * plugin/agent.h - the plugin's half of the conversation with the agent
 *
 * One connection serves a whole ADD. What takes the agent a while is sent first
 * and its answer read later (pl_agent_recv), since we have other work to do
 * meanwhile. Requests: common/agentapi.h.
 */
#ifndef PLUGIN_AGENT_H
#define PLUGIN_AGENT_H

#include <stdint.h>
#include <cjson/cJSON.h>

#include "common/agentapi.h"
#include "common/err.h"
#include "plugin/lanes.h"
#include "plugin/record.h"
#include "plugin/result.h"

/* The Kubernetes names of a pod; "": not known. */
struct pl_agent_pod {
	char name[256], k8s_namespace[256], uid[64];
	uint64_t memory_limit;		/* bytes; PL_LANES_NO_LIMIT */
	const char *allow;		/* namespaces, or "" */
};

/* From CNI_ARGS (NULL: none): K8S_POD_NAME and the like; no limit. */
void pl_agent_pod_read(const char *args, struct pl_agent_pod *pod);

/* Ask what there is to know about the node, and read it; mtu 0: nothing. */
int pl_agent_node_send(int fd, struct pl_err *err);
int pl_agent_node_recv(int fd, uint32_t *mtu, struct pl_err *err);

/* With what the agent is to execute DEL when the pod's namespace is gone. */
struct pl_agent_undo {
	const char *state_dir;
	const char *cni_path;		/* NULL: none */
	const char *link;		/* the host's interface; NULL: none */
};

/*
 * Ask to register the pod, or whether it is registered so; pl_agent_recv then
 * reads the answer. ns_fd: the namespace; -1: only check. Addresses are those
 * of r on interfaces in a sandbox. undo: NULL for a check.
 */
int pl_agent_register_send(int fd, const struct pl_attach *at,
			   const char *netns, const struct pl_result *r,
			   const struct pl_agent_pod *pod,
			   const struct pl_agent_undo *undo, int ns_fd,
			   struct pl_err *err);
int pl_agent_unregister_send(int fd, const struct pl_attach *at,
			     struct pl_err *err);
int pl_agent_status(int fd, struct pl_err *err);
/* valid: a list of {"containerID","ifname"}; NULL: an empty one. */
int pl_agent_gc(int fd, const char *network, const cJSON *valid,
		struct pl_err *err);

#endif
