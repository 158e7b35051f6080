/*
 * common/agentapi.h - what the plugin and podlanectl say to the agent
 *
 * The agent listens on RUN_DIR/agent.sock (SOCK_STREAM, mode 0600, so root of
 * the node only). A request is one line of JSON, the answer is one line of
 * JSON; a connection may carry several, one after the other. A descriptor comes
 * with the first byte of the request that needs it.
 *
 * Every answer has "ok": true, or "ok": false with "code" (a positive errno),
 * "msg" and "retry" (true: the same call may succeed later).
 *
 *   {"op":"node"}
 *      -> "name", "mtu" (of pods' interfaces on this node), "podCIDRs": [...],
 *         "overlay": "up" | "down: REASON", "version"
 *   {"op":"add", "network", "containerID", "ifname", "netns": PATH,
 *    "addresses": ["10.244.1.2/24", ...], "pod": {"name","namespace","uid"},
 *    "allow": NAMESPACES whose pods may use all that this one offers, with a
 *    comma between them, "*" for all;
 *    "memoryLimit": BYTES that the pod may share (absent: as many as any),
 *    "undo": {"plugin": PATH, "stateDir", "cniPath", "link": host's interface}}
 *      with the namespace's descriptor; registers the pod and listens in its
 *      namespace -> "socket": "@podlane". The same registration again succeeds.
 *      "undo" (not required) is how the agent executes DEL when the namespace
 *      and the interface "link" are gone.
 *   {"op":"del", "network", "containerID", "ifname"}  always ok
 *   {"op":"check", the same as add, without a descriptor}
 *      ok when the registration stands as given and the agent listens
 *   {"op":"status"}  ok when ADD can be served
 *   {"op":"gc", "network", "valid": [{"containerID","ifname"}, ...]}
 *      drops every other registration of that network -> "dropped": N
 *   {"op":"pods"|"lanes"|"regions"|"nodes"} -> a list under that name
 *
 * A pod with two networks is one pod (one namespace) with two registrations;
 * it ends with the last of them.
 */
#ifndef COMMON_AGENTAPI_H
#define COMMON_AGENTAPI_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "common/err.h"

#define PL_AGENT_RUN_DIR "/run/podlane"
#define PL_AGENT_STATE_DIR "/var/lib/podlane"
#define PL_AGENT_SOCKET "agent.sock"
#define PL_AGENT_TIMEOUT_MS 10000
/* Bytes of each text of "undo", with a NUL. */
#define PL_AGENT_UNDO_MAX 512
#define PL_AGENT_LINE_MAX (64u << 20)

/* Bytes of "allow", with a NUL. */
#define PL_AGENT_ALLOW_MAX 1024

/*
 * Names of Kubernetes namespaces with a comma between them, spaces around each,
 * or "*"? -EINVAL; an empty text is none.
 */
int pl_agent_allow_check(const char *allow);
/* Is ns one of them? */
bool pl_agent_allow_has(const char *allow, const char *ns);

/* Connect to a socket by path. -ECONNREFUSED, -ENOENT: no agent is there. */
int pl_agent_open(const char *socket_path, int *fd, struct pl_err *err);

/*
 * The two halves of pl_agent_call, for a caller that has something to do while
 * the agent works. Only one request may be under way on a connection.
 */
int pl_agent_send(int fd, const cJSON *request, int ns_fd, struct pl_err *err);
int pl_agent_recv(int fd, cJSON **answer, struct pl_err *err);

/*
 * One request and its answer. ns_fd: a descriptor to send along, or -1. On
 * "ok": false the code is returned and the message is in err. *answer is the
 * caller's to delete (also NULL when it does not want it).
 */
int pl_agent_call(int fd, const cJSON *request, int ns_fd, cJSON **answer,
		  struct pl_err *err);

#endif
