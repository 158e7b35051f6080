/* plugin/agent.c - the plugin's half of the conversation with the agent */
#include "plugin/agent.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "common/json.h"
#include "ipam/cni.h"

static void read_arg(const char *args, const char *key, char *buf, size_t size)
{
	if (pl_cni_args_get(args, key, buf, size) <= 0)
		buf[0] = '\0';
}

void pl_agent_pod_read(const char *args, struct pl_agent_pod *pod)
{
	read_arg(args, "K8S_POD_NAME", pod->name, sizeof(pod->name));
	read_arg(args, "K8S_POD_NAMESPACE", pod->k8s_namespace,
		 sizeof(pod->k8s_namespace));
	read_arg(args, "K8S_POD_UID", pod->uid, sizeof(pod->uid));
	pod->memory_limit = PL_LANES_NO_LIMIT;
	pod->allow = "";
}

static int no_memory(struct pl_err *err)
{
	return pl_err_set(err, ENOMEM, "out of memory");
}

static cJSON *request(const char *op, const struct pl_attach *at)
{
	cJSON *j = cJSON_CreateObject();

	if (cJSON_AddStringToObject(j, "op", op) &&
	    (!at || (cJSON_AddStringToObject(j, "network", at->network) &&
		     cJSON_AddStringToObject(j, "containerID", at->id) &&
		     cJSON_AddStringToObject(j, "ifname", at->ifname))))
		return j;
	cJSON_Delete(j);
	return NULL;
}

static int send_simple(int fd, const char *op, const struct pl_attach *at,
		       struct pl_err *err)
{
	pl_auto_json *j = request(op, at);

	return j ? pl_agent_send(fd, j, -1, err) : no_memory(err);
}

int pl_agent_node_send(int fd, struct pl_err *err)
{
	return send_simple(fd, "node", NULL, err);
}

int pl_agent_node_recv(int fd, uint32_t *mtu, struct pl_err *err)
{
	pl_auto_json *answer = NULL;
	int64_t v = 0;
	int rc = pl_agent_recv(fd, &answer, err);

	if (rc == 0)
		rc = pl_json_int(answer, "answer", "mtu", 0, 65535, &v, err);
	*mtu = (uint32_t)v;
	return rc < 0 ? rc : 0;
}

/* An address without an interface is the pod's too. */
static bool in_pod(const struct pl_result *r, const struct pl_res_ip *ip)
{
	if (ip->ifindex < 0 || (size_t)ip->ifindex >= r->n_ifs)
		return true;
	return r->ifs[ip->ifindex].sandbox != NULL;
}

static bool add_addresses(cJSON *j, const struct pl_result *r)
{
	cJSON *list = cJSON_AddArrayToObject(j, "addresses");
	char buf[PL_PREFIX_STRLEN];

	for (size_t i = 0; list && i < r->n_ips; i++) {
		cJSON *s;

		if (!in_pod(r, &r->ips[i]))
			continue;
		s = cJSON_CreateString(pl_prefix_str(&r->ips[i].addr, buf));
		if (!s)
			return false;
		cJSON_AddItemToArray(list, s);
	}
	return list != NULL;
}

static bool add_pod(cJSON *j, const struct pl_agent_pod *pod)
{
	cJSON *p = cJSON_AddObjectToObject(j, "pod");

	if (pod->memory_limit != PL_LANES_NO_LIMIT &&
	    !cJSON_AddNumberToObject(j, "memoryLimit",
				     (double)pod->memory_limit))
		return false;
	if (*pod->allow && !cJSON_AddStringToObject(j, "allow", pod->allow))
		return false;
	return cJSON_AddStringToObject(p, "name", pod->name) &&
	       cJSON_AddStringToObject(p, "namespace", pod->k8s_namespace) &&
	       cJSON_AddStringToObject(p, "uid", pod->uid);
}

/* This program; where another one was installed in its place, that one. */
static bool own_path(char *buf, size_t size)
{
	static const char deleted[] = " (deleted)";
	ssize_t n = readlink("/proc/self/exe", buf, size - 1);
	size_t len = sizeof(deleted) - 1;

	if (n <= 0 || (size_t)n == size - 1)
		return false;
	buf[n] = '\0';
	if ((size_t)n > len && !strcmp(buf + n - len, deleted))
		buf[(size_t)n - len] = '\0';
	return true;
}

/* The agent takes no longer texts; then the runtime and GC have to do it. */
static bool add_undo(cJSON *j, const struct pl_agent_undo *undo)
{
	char plugin[PL_AGENT_UNDO_MAX];
	cJSON *u;

	if (!own_path(plugin, sizeof(plugin)) ||
	    strlen(undo->state_dir) >= PL_AGENT_UNDO_MAX ||
	    (undo->cni_path && strlen(undo->cni_path) >= PL_AGENT_UNDO_MAX))
		return true;
	u = cJSON_AddObjectToObject(j, "undo");
	return cJSON_AddStringToObject(u, "plugin", plugin) &&
	       cJSON_AddStringToObject(u, "stateDir", undo->state_dir) &&
	       (!undo->cni_path || cJSON_AddStringToObject(u, "cniPath",
							   undo->cni_path)) &&
	       (!undo->link || cJSON_AddStringToObject(u, "link", undo->link));
}

int pl_agent_register_send(int fd, const struct pl_attach *at,
			   const char *netns, const struct pl_result *r,
			   const struct pl_agent_pod *pod,
			   const struct pl_agent_undo *undo, int ns_fd,
			   struct pl_err *err)
{
	pl_auto_json *j = request(ns_fd >= 0 ? "add" : "check", at);

	if (!j || !cJSON_AddStringToObject(j, "netns", netns) ||
	    !add_addresses(j, r) || !add_pod(j, pod) ||
	    (undo && !add_undo(j, undo)))
		return no_memory(err);
	return pl_agent_send(fd, j, ns_fd, err);
}

int pl_agent_unregister_send(int fd, const struct pl_attach *at,
			     struct pl_err *err)
{
	return send_simple(fd, "del", at, err);
}

int pl_agent_status(int fd, struct pl_err *err)
{
	int rc = send_simple(fd, "status", NULL, err);

	return rc < 0 ? rc : pl_agent_recv(fd, NULL, err);
}

int pl_agent_gc(int fd, const char *network, const cJSON *valid,
		struct pl_err *err)
{
	pl_auto_json *j = request("gc", NULL);
	cJSON *copy = valid ? cJSON_Duplicate(valid, true) :
			      cJSON_CreateArray();

	if (!j || !copy || !cJSON_AddStringToObject(j, "network", network)) {
		cJSON_Delete(copy);
		return no_memory(err);
	}
	cJSON_AddItemToObject(j, "valid", copy);
	return pl_agent_call(fd, j, -1, NULL, err);
}
