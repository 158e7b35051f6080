/* bench/cni_node.c - this process as a node: namespace, scratch, agent */
#include "bench/cni_node.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/agentapi.h"
#include "common/json.h"
#include "common/nl.h"
#include "common/tree.h"
#include "common/util.h"

#define AGENT_START_MS 10000

/* A link with an address, for the agent's overlay. */
static int make_underlay(struct pl_err *err)
{
	struct pl_veth v = { .name = "u", .peer_name = "u-peer",
			     .peer_netns_fd = -1, .up = true };
	struct pl_prefix addr;
	struct pl_link link;
	struct pl_nl nl;
	int rc = pl_nl_open(&nl, -1, err);

	if (rc < 0)
		return rc;
	pl_prefix_parse("10.99.0.1/24", &addr);
	rc = pl_nl_link_set(&nl, 1, -1, 0, 1, err);
	if (rc == 0)
		rc = pl_nl_veth_add(&nl, &v, err);
	if (rc == 0)
		rc = pl_nl_link_get(&nl, "u-peer", &link, err);
	if (rc == 0)
		rc = pl_nl_link_set(&nl, link.index, -1, 0, 1, err);
	if (rc == 0)
		rc = pl_nl_link_get(&nl, "u", &link, err);
	if (rc == 0)
		rc = pl_nl_addr_add(&nl, link.index, &addr, true, err);
	pl_nl_close(&nl);
	return rc;
}

int cni_node_init(struct cni_node *n, struct pl_err *err)
{
	const char *tmp = getenv("TMPDIR");

	if (!tmp || !*tmp)
		tmp = "/tmp";
	if (unshare(CLONE_NEWNET) < 0)
		return pl_err_sys(err, "cannot make a network namespace");
	if (pl_format(n->dir, sizeof(n->dir), "%s/cni_latency.XXXXXX", tmp) < 0)
		return pl_err_set(err, EINVAL, "TMPDIR has %zu bytes; %zu are "
				  "the most", strlen(tmp),
				  sizeof(n->dir) - sizeof("/cni_latency.XXXXXX"));
	if (!mkdtemp(n->dir)) {
		n->dir[0] = '\0';
		return pl_err_sys(err, "cannot make a folder in %s", tmp);
	}
	return make_underlay(err);
}

static int write_file(const char *dir, const char *name, const char *text,
		      struct pl_err *err)
{
	char path[4096];
	int rc = pl_format(path, sizeof(path), "%s/%s", dir, name);

	if (rc < 0)
		return pl_err_set(err, -rc, "path too long");
	return pl_file_replace(path, text, strlen(text), 0600, err);
}

static void exec_agent(const struct cni_node *n, const char *podlaned)
{
	char conf[128], run[128], log[128];
	sigset_t none;
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	snprintf(conf, sizeof(conf), "%s/agent.json", n->dir);
	snprintf(run, sizeof(run), "%s/run", n->dir);
	snprintf(log, sizeof(log), "%s/agent.log", n->dir);
	fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
	if (fd >= 0)
		dup2(fd, STDERR_FILENO);
	execl(podlaned, "podlaned", "--config", conf, "--run-dir", run,
	      "--node", "node1", (char *)NULL);
	_exit(127);
}

static int agent_is_up(const char *socket)
{
	pl_auto_json *req = cJSON_CreateObject();
	pl_auto_fd fd = -1;

	cJSON_AddStringToObject(req, "op", "status");
	if (pl_agent_open(socket, &fd, NULL) < 0)
		return 0;
	return pl_agent_call(fd, req, -1, NULL, NULL) == 0;
}

static void print_log(const struct cni_node *n)
{
	pl_auto_free char *text = NULL;
	char path[128];

	snprintf(path, sizeof(path), "%s/agent.log", n->dir);
	if (pl_file_read(path, 1 << 20, &text, NULL, NULL) == 0)
		fputs(text, stderr);
}

static int configure_agent(const struct cni_node *n, struct pl_err *err)
{
	char text[512];
	int rc = write_file(n->dir, "nodes.json",
			"{\"nodes\":[{\"name\":\"node1\",\"address\":"
			"\"10.99.0.1\",\"podCIDRs\":[\"10.88.0.0/16\"]}]}",
			err);
	snprintf(text, sizeof(text), "{\"registry\":{\"file\":"
		 "\"%s/nodes.json\"},\"stateDir\":\"%s/agent\","
		 "\"carrier\":{\"security\":\"none\"}}", n->dir, n->dir);
	return rc < 0 ? rc : write_file(n->dir, "agent.json", text, err);
}

int cni_node_agent(struct cni_node *n, const char *podlaned,
		   struct pl_err *err)
{
	struct timespec step = { .tv_nsec = 10000000 };
	char socket[128];
	int rc = configure_agent(n, err), st;

	if (rc < 0)
		return rc;
	snprintf(socket, sizeof(socket), "%s/run/agent.sock", n->dir);
	n->agent = fork();
	if (n->agent == 0)
		exec_agent(n, podlaned);
	if (n->agent < 0)
		return pl_err_sys(err, "fork");
	for (int ms = 0; ms < AGENT_START_MS; ms += 10) {
		if (agent_is_up(socket))
			return 0;
		if (waitpid(n->agent, &st, WNOHANG) == n->agent) {
			n->agent = 0;
			break;
		}
		nanosleep(&step, NULL);
	}
	print_log(n);
	return pl_err_set(err, ENOENT, "%s does not come up (give it by "
			  "--agent, or --agent none)", podlaned);
}

static void stop_agent(struct cni_node *n)
{
	struct timespec step = { .tv_nsec = 10000000 };

	if (n->agent <= 0)
		return;
	kill(n->agent, SIGTERM);
	for (int i = 0; i < 500; i++) {
		if (waitpid(n->agent, NULL, WNOHANG) == n->agent)
			return;
		nanosleep(&step, NULL);
	}
	kill(n->agent, SIGKILL);
	waitpid(n->agent, NULL, 0);
}

void cni_node_fini(struct cni_node *n)
{
	stop_agent(n);
	n->agent = 0;
	if (n->dir[0])
		pl_tree_remove(n->dir);
	n->dir[0] = '\0';
}
