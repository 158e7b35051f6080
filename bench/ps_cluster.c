/*
 * bench/ps_cluster.c - nodes, their link and their agents
 */
#include "bench/ps_cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "common/agentapi.h"
#include "common/json.h"
#include "common/netns.h"
#include "common/nl.h"
#include "common/tree.h"
#include "common/util.h"
#include "bench/ps_congestion.h"
#include "bench/ps_outcome.h"

#define AGENT_START_MS 15000
#define AGENT_STOP_MS 5000
#define POLL_MS 10

static void nap(void)
{
	struct timespec ts = { .tv_nsec = POLL_MS * 1000000 };

	nanosleep(&ts, NULL);
}

/* --- folder --- */

static int make_dir(struct ps_cluster *c, const char *run_dir,
		    struct pl_err *err)
{
	char cwd[PS_FILE_BYTES] = "", path[PS_DIR_BYTES];
	const char *tmp = getenv("TMPDIR");

	if (!run_dir) {
		if (!tmp || *tmp != '/' || strlen(tmp) > PS_DIR_BYTES - 32)
			tmp = "/tmp";
		pl_format(path, sizeof(path), "%s/ps_throughput.XXXXXX", tmp);
		if (!mkdtemp(path))
			return pl_err_sys(err, "cannot make a folder in %s",
					  tmp);
		pl_format(c->dir, sizeof(c->dir), "%s", path);
		return 0;
	}
	if (*run_dir != '/' && !getcwd(cwd, sizeof(cwd)))
		return pl_err_sys(err, "cannot tell the current folder");
	if (pl_format(path, sizeof(path), "%s%s%s", cwd, *cwd ? "/" : "",
		      run_dir) < 0)
		return pl_err_set(err, ENAMETOOLONG, "--run-dir %s: its whole "
				  "path must be shorter than %d bytes",
				  run_dir, PS_DIR_BYTES);
	if (mkdir(path, 0700) < 0 && errno == EEXIST)
		return pl_err_set(err, EEXIST, "--run-dir %s exists already; "
				  "give one that does not, it is removed at "
				  "the end", run_dir);
	else if (access(path, F_OK) < 0)
		return pl_err_sys(err, "cannot make --run-dir %s", run_dir);
	pl_format(c->dir, sizeof(c->dir), "%s", path);
	return 0;
}

int ps_cluster_save(const struct ps_cluster *c, const char *name,
		    const cJSON *doc, struct pl_err *err)
{
	char path[PS_FILE_BYTES];

	if (pl_format(path, sizeof(path), "%s/%s", c->dir, name) < 0)
		return pl_err_set(err, ENAMETOOLONG, "path too long");
	return pl_json_save(path, doc, 0600, err);
}

/* --- links --- */

const char *ps_cluster_node_addr(unsigned int node)
{
	static const char *const addrs[PS_NODES] = { "10.99.0.1",
						     "10.99.0.2" };

	return addrs[node - 1];
}

/* lo up, and the address of node n (from 1) on u; in the node's namespace. */
static int configure_links(int ns, unsigned int n, struct pl_err *err)
{
	struct pl_prefix addr;
	struct pl_link link;
	char text[32];
	struct pl_nl nl;
	int rc = pl_nl_open(&nl, ns, err);

	if (rc < 0)
		return rc;
	snprintf(text, sizeof(text), "%s/24", ps_cluster_node_addr(n));
	pl_prefix_parse(text, &addr);
	rc = pl_nl_link_set(&nl, 1, -1, 0, 1, err);
	if (rc == 0)
		rc = pl_nl_link_get(&nl, PS_WIRE_NAME, &link, err);
	if (rc == 0)
		rc = pl_nl_link_set(&nl, link.index, -1, 0, 1, err);
	if (rc == 0)
		rc = pl_nl_addr_add(&nl, link.index, &addr, true, err);
	pl_nl_close(&nl);
	return rc;
}

static int make_underlay(const struct ps_cluster *c, struct pl_err *err)
{
	struct pl_veth v = { .name = PS_WIRE_NAME,
			      .peer_name = PS_WIRE_NAME };
	pl_auto_fd a = -1, b = -1;
	struct pl_nl nl;
	int rc = pl_netns_open(c->node[0].netns, &a, err);

	if (rc == 0)
		rc = pl_netns_open(c->node[1].netns, &b, err);
	if (rc == 0)
		rc = pl_nl_open(&nl, a, err);
	if (rc < 0)
		return rc;
	v.peer_netns_fd = b;
	rc = pl_nl_veth_add(&nl, &v, err);
	pl_nl_close(&nl);
	if (rc == 0)
		rc = configure_links(a, 1, err);
	if (rc == 0)
		rc = configure_links(b, 2, err);
	return rc;
}

/* --- agents --- */

static int write_registry(const struct ps_cluster *c, struct pl_err *err)
{
	pl_auto_json *doc = cJSON_CreateObject();
	cJSON *nodes = cJSON_AddArrayToObject(doc, "nodes");

	for (unsigned int n = 1; n <= PS_NODES; n++) {
		cJSON *node = cJSON_CreateObject(), *cidrs;
		char text[32];

		cJSON_AddItemToArray(nodes, node);
		snprintf(text, sizeof(text), "node%u", n);
		cJSON_AddStringToObject(node, "name", text);
		cJSON_AddStringToObject(node, "address",
					ps_cluster_node_addr(n));
		cidrs = cJSON_AddArrayToObject(node, "podCIDRs");
		snprintf(text, sizeof(text), "10.88.%u.0/24", n);
		cJSON_AddItemToArray(cidrs, cJSON_CreateString(text));
	}
	return ps_cluster_save(c, "nodes.json", doc, err);
}

int ps_security_check(const char *name, struct pl_err *err)
{
	if (!strcmp(name, "none") || !strcmp(name, "auth") ||
	    !strcmp(name, "tls"))
		return 0;
	return pl_err_set(err, EINVAL, "--security %s: give none, auth or tls",
			  name);
}

static bool has_key(const struct ps_cluster *c)
{
	return c->security && strcmp(c->security, "none");
}

/* The key that all agents of the cluster have. */
static int write_key(const struct ps_cluster *c, struct pl_err *err)
{
	uint8_t key[32];
	char path[PS_FILE_BYTES], text[2 * sizeof(key) + 1];

	if (!has_key(c))
		return 0;
	if (getrandom(key, sizeof(key), 0) != (ssize_t)sizeof(key))
		return pl_err_sys(err, "cannot make a key");
	for (size_t i = 0; i < sizeof(key); i++)
		snprintf(text + 2 * i, 3, "%02x", key[i]);
	pl_format(path, sizeof(path), "%s/psk", c->dir);
	return pl_file_replace(path, text, strlen(text), 0600, err);
}

static void add_carrier(const struct ps_cluster *c, cJSON *doc)
{
	cJSON *carrier = cJSON_AddObjectToObject(doc, "carrier");
	char path[PS_FILE_BYTES];

	if (c->congestion)
		cJSON_AddStringToObject(carrier, "congestionControl",
					c->congestion);
	cJSON_AddStringToObject(carrier, "security",
				has_key(c) ? "psk" : "none");
	if (!has_key(c))
		return;
	pl_format(path, sizeof(path), "%s/psk", c->dir);
	cJSON_AddStringToObject(carrier, "key", path);
	cJSON_AddBoolToObject(carrier, "encrypt", strcmp(c->security, "auth"));
}

static int write_agent_conf(const struct ps_cluster *c, unsigned int n,
			    struct pl_err *err)
{
	pl_auto_json *doc = cJSON_CreateObject();
	cJSON *registry = cJSON_AddObjectToObject(doc, "registry");
	char path[PS_FILE_BYTES], name[32];

	pl_format(path, sizeof(path), "%s/nodes.json", c->dir);
	cJSON_AddStringToObject(registry, "file", path);
	pl_format(path, sizeof(path), "%s/n%u/state", c->dir, n);
	cJSON_AddStringToObject(doc, "stateDir", path);
	add_carrier(c, doc);
	snprintf(name, sizeof(name), "n%u/agent.json", n);
	return ps_cluster_save(c, name, doc, err);
}

static void exec_agent(const struct ps_cluster *c, unsigned int n, int ns,
		       pid_t parent)
{
	char conf[PS_FILE_BYTES], run[PS_FILE_BYTES], log[PS_FILE_BYTES];
	char name[16];
	sigset_t none;
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	setpgid(0, 0);
	pl_format(conf, sizeof(conf), "%s/n%u/agent.json", c->dir, n);
	pl_format(run, sizeof(run), "%s/n%u/run", c->dir, n);
	pl_format(log, sizeof(log), "%s/n%u/agent.log", c->dir, n);
	snprintf(name, sizeof(name), "node%u", n);
	fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0 || dup2(fd, STDERR_FILENO) < 0 ||
	    dup2(fd, STDOUT_FILENO) < 0 || setns(ns, CLONE_NEWNET) < 0)
		_exit(126);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execl(c->programs.podlaned, "podlaned", "--config", conf, "--run-dir",
	      run, "--node", name, (char *)NULL);
	_exit(127);
}

static int ask_agent(const struct ps_cluster *c, unsigned int n,
		     const char *op, cJSON **answer, struct pl_err *err)
{
	pl_auto_json *req = cJSON_CreateObject();
	char path[PS_FILE_BYTES];
	pl_auto_fd fd = -1;
	int rc;

	cJSON_AddStringToObject(req, "op", op);
	pl_format(path, sizeof(path), "%s/n%u/run/%s", c->dir, n,
		  PL_AGENT_SOCKET);
	rc = pl_agent_open(path, &fd, err);
	return rc < 0 ? rc : pl_agent_call(fd, req, -1, answer, err);
}

static bool agent_serves(const struct ps_cluster *c, unsigned int n)
{
	return ask_agent(c, n, "status", NULL, NULL) == 0;
}

/* The last line of what the agent logged. */
static void last_words(const struct ps_cluster *c, unsigned int n, char *buf,
		       size_t size)
{
	pl_auto_free char *text = NULL;
	char path[PS_FILE_BYTES], *at;
	size_t len = 0;

	snprintf(buf, size, "it logged nothing");
	pl_format(path, sizeof(path), "%s/n%u/agent.log", c->dir, n);
	if (pl_file_read(path, 16 << 20, &text, &len, NULL) < 0 || len == 0)
		return;
	if (text[len - 1] == '\n')
		text[len - 1] = '\0';
	at = strrchr(text, '\n');
	snprintf(buf, size, "%s", at ? at + 1 : text);
}

/* -ECHILD when it has died. */
static int check_agent(struct ps_cluster *c, unsigned int n,
		       struct pl_err *err)
{
	char words[512], how[64];
	int status;

	if (c->agent[n - 1] <= 0 ||
	    waitpid(c->agent[n - 1], &status, WNOHANG) != c->agent[n - 1])
		return 0;
	c->agent[n - 1] = 0;
	last_words(c, n, words, sizeof(words));
	if (WIFSIGNALED(status))
		snprintf(how, sizeof(how), "was killed by signal %d",
			 WTERMSIG(status));
	else
		snprintf(how, sizeof(how), "ended with status %d",
			 WEXITSTATUS(status));
	return pl_err_set(err, ECHILD, "the agent of node%u %s: %s", n, how,
			  words);
}

struct sight {
	struct ps_cluster *cluster;
	const struct ps_watch *watch;
	struct pl_err dead;		/* the first agent that died */
};

static void check_agents(struct sight *s)
{
	for (unsigned int n = 1; n <= PS_NODES && !s->dead.code; n++)
		check_agent(s->cluster, n, &s->dead);
}

static bool look(void *arg)
{
	struct sight *s = arg;

	check_agents(s);
	return !s->dead.code &&
	       (!s->watch->tick || s->watch->tick(s->watch->arg));
}

int ps_cluster_wait(struct ps_cluster *c, struct ps_child *child,
		    unsigned int n, const struct ps_watch *watch,
		    int timeout_ms, struct pl_err *err)
{
	struct sight s = { .cluster = c, .watch = watch };
	struct ps_watch w = *watch;
	int rc;

	w.tick = look;
	w.arg = &s;
	rc = ps_children_wait(child, n, &w, timeout_ms, err);
	if (rc == 0 || rc == -EINTR)
		return rc;
	/* A child that failed may have noticed it first. */
	check_agents(&s);
	if (s.dead.code)
		*err = s.dead;
	return -err->code;
}

static int start_agent(struct ps_cluster *c, unsigned int n,
		       const struct ps_watch *watch, struct pl_err *err)
{
	pl_auto_fd ns = -1;
	int rc = pl_netns_open(c->node[n - 1].netns, &ns, err);
	pid_t self = getpid();

	if (rc == 0)
		rc = write_agent_conf(c, n, err);
	if (rc < 0)
		return rc;
	c->agent[n - 1] = fork();
	if (c->agent[n - 1] == 0)
		exec_agent(c, n, ns, self);
	if (c->agent[n - 1] < 0) {
		c->agent[n - 1] = 0;
		return pl_err_sys(err, "cannot start the agent");
	}
	for (int ms = 0; ms < AGENT_START_MS; ms += POLL_MS) {
		if (agent_serves(c, n))
			return 0;
		rc = check_agent(c, n, err);
		if (rc < 0)
			return rc;
		if (ps_watch_interrupted(watch))
			return pl_err_set(err, EINTR, "interrupted");
		nap();
	}
	return pl_err_set(err, ETIMEDOUT, "the agent of node%u does not serve "
			  "after %d s", n, AGENT_START_MS / 1000);
}

static void stop_agent(pid_t *agent)
{
	if (*agent <= 0)
		return;
	kill(*agent, SIGTERM);
	for (int ms = 0; ms < AGENT_STOP_MS; ms += POLL_MS) {
		if (waitpid(*agent, NULL, WNOHANG) == *agent) {
			*agent = 0;
			return;
		}
		nap();
	}
	kill(*agent, SIGKILL);
	waitpid(*agent, NULL, 0);
	*agent = 0;
}

/* --- the whole --- */

static int make_namespace(const struct ps_cluster *c, struct cni_pod *ns,
			  struct pl_err *err)
{
	int rc = cni_pod_create(ns, err);

	if (rc == 0 && c->congestion)
		rc = ps_congestion_set(ns->netns, c->congestion, err);
	return rc;
}

static int make_node(struct ps_cluster *c, unsigned int n, struct pl_err *err)
{
	char path[PS_FILE_BYTES];
	int rc;

	pl_format(path, sizeof(path), "%s/n%u", c->dir, n);
	if (mkdir(path, 0700) < 0)
		return pl_err_sys(err, "cannot make %s", path);
	rc = make_namespace(c, &c->node[n - 1], err);
	return rc < 0 ? rc : ps_conflist_write(c, n, err);
}

int ps_cluster_init(struct ps_cluster *c, const char *run_dir,
		    const struct ps_watch *watch, struct pl_err *err)
{
	int rc = cni_adopt(err);
	unsigned int n;

	if (rc == 0)
		rc = make_dir(c, run_dir, err);
	for (n = 1; n <= PS_NODES && rc == 0; n++)
		rc = make_node(c, n, err);
	if (rc == 0)
		rc = make_underlay(c, err);
	for (n = 1; n <= PS_NODES && rc == 0 && c->wire.bytes_per_s; n++)
		rc = ps_wire_apply(&c->wire, c->node[n - 1].netns, PS_WIRE_NAME,
				   err);
	if (rc == 0)
		rc = write_registry(c, err);
	if (rc == 0)
		rc = write_key(c, err);
	for (n = 1; n <= PS_NODES && rc == 0; n++)
		rc = start_agent(c, n, watch, err);
	return rc;
}

int ps_cluster_pod_add(struct ps_cluster *c, unsigned int node,
		       const char *name, struct ps_pod **pod,
		       struct pl_err *err)
{
	struct ps_pod *p = &c->pod[c->n_pods];
	int rc;

	if (c->n_pods == PS_PODS_MAX)
		return pl_err_set(err, ENOSPC, "too many pods");
	snprintf(p->name, sizeof(p->name), "%s", name);
	p->node = node;
	c->n_pods++;
	rc = make_namespace(c, &p->ns, err);
	if (rc == 0)
		rc = ps_conflist_add(c, p, err);
	*pod = p;
	return rc;
}

static int congestion_of_all(const struct ps_cluster *c, char *list,
			     size_t size, struct pl_err *err)
{
	char name[PS_CONGESTION_BYTES];
	int rc = 0;

	list[0] = '\0';
	for (unsigned int i = 0; i < PS_NODES + c->n_pods && rc == 0; i++) {
		rc = ps_congestion_get(i < PS_NODES ? c->node[i].netns :
				       c->pod[i - PS_NODES].ns.netns, name,
				       err);
		if (rc == 0)
			ps_outcome_list(list, size, name);
	}
	return rc;
}

/* A text ("carrier") that agents show of their connections to each other. */
static int carrier_of_all(const struct ps_cluster *c, const char *key,
			  char *list, size_t size, struct pl_err *err)
{
	list[0] = '\0';
	for (unsigned int n = 1; n <= PS_NODES; n++) {
		pl_auto_json *answer = NULL;
		const cJSON *node;
		int rc = ask_agent(c, n, "nodes", &answer, err);

		if (rc < 0)
			return rc;
		cJSON_ArrayForEach(node, cJSON_GetObjectItem(answer, "nodes")) {
			const cJSON *name = cJSON_GetObjectItem(node, key);

			if (cJSON_IsString(name))
				ps_outcome_list(list, size, name->valuestring);
		}
	}
	return 0;
}

int ps_cluster_facts(const struct ps_cluster *c, struct ps_machine *m,
		     struct pl_err *err)
{
	int rc = congestion_of_all(c, m->congestion, sizeof(m->congestion),
				   err);

	if (rc == 0)
		rc = carrier_of_all(c, "congestionControl",
				    m->carrier_congestion,
				    sizeof(m->carrier_congestion), err);
	if (rc == 0)
		rc = carrier_of_all(c, "carrier", m->carrier,
				    sizeof(m->carrier), err);
	if (rc == 0)
		rc = ps_nic_probe_in(c->node[0].netns, PS_WIRE_NAME, &m->wire,
				     err);
	return rc;
}

int ps_cluster_fini(struct ps_cluster *c, struct pl_err *err)
{
	int rc = 0, r;

	while (c->n_pods > 0) {
		struct ps_pod *p = &c->pod[--c->n_pods];

		r = p->result ? ps_conflist_del(c, p, rc ? NULL : err) : 0;
		rc = rc ? rc : r;
		cni_pod_destroy(&p->ns);
	}
	for (unsigned int n = 0; n < PS_NODES; n++) {
		stop_agent(&c->agent[n]);
		cni_pod_destroy(&c->node[n]);
	}
	r = cni_settle(NULL, 0, rc ? NULL : err);
	rc = rc ? rc : r;
	if (c->dir[0] && pl_tree_remove(c->dir) < 0 && rc == 0)
		rc = pl_err_sys(err, "cannot remove %s", c->dir);
	c->dir[0] = '\0';
	return rc;
}
