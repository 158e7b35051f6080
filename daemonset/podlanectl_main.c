/*
 * daemonset/podlanectl_main.c - for operators: what a running agent knows, and
 * which addresses of the node are reserved
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/agentapi.h"
#include "common/json.h"
#include "common/process.h"
#include "common/util.h"
#include "daemonset/agent.h"
#include "daemonset/counts.h"
#include "daemonset/ctl_check.h"
#include "daemonset/ctl_complete.h"
#include "daemonset/ctl_ipam.h"
#include "daemonset/ctl_report.h"
#include "daemonset/ctl_table.h"
#include "daemonset/ctl_watch.h"
#include "daemonset/opts.h"
#include "ipam/ipam.h"

#define WORDS_MAX 4

struct options {
	const char *run_dir;
	const char *data_dir;	/* NULL: as the agent's configuration says */
	const char *network;
	const char *config;
	bool json;
	bool watch;
	bool version;
};

static int set_run_dir(void *conf, const char *value, struct pl_err *err)
{
	(void)err;
	((struct options *)conf)->run_dir = value;
	return 0;
}

static int set_output(void *conf, const char *value, struct pl_err *err)
{
	bool json = !strcmp(value, "json");

	if (!json && strcmp(value, "table"))
		return pl_err_set(err, EINVAL, "--output must be table or "
				  "json, not '%s'", value);
	((struct options *)conf)->json = json;
	return 0;
}

static int set_json(void *conf, const char *value, struct pl_err *err)
{
	(void)value;
	(void)err;
	((struct options *)conf)->json = true;
	return 0;
}

static int set_watch(void *conf, const char *value, struct pl_err *err)
{
	(void)value;
	(void)err;
	((struct options *)conf)->watch = true;
	return 0;
}

static int set_data_dir(void *conf, const char *value, struct pl_err *err)
{
	(void)err;
	((struct options *)conf)->data_dir = value;
	return 0;
}

static int set_network(void *conf, const char *value, struct pl_err *err)
{
	(void)err;
	((struct options *)conf)->network = value;
	return 0;
}

static int set_config(void *conf, const char *value, struct pl_err *err)
{
	(void)err;
	((struct options *)conf)->config = value;
	return 0;
}

static int set_version(void *conf, const char *value, struct pl_err *err)
{
	(void)value;
	(void)err;
	((struct options *)conf)->version = true;
	return 0;
}

static const struct pl_opt opts[] = {
	{ "run-dir", 0, "DIR", "the agent's (" PL_AGENT_RUN_DIR ")",
	  set_run_dir },
	{ "output", 'o', "FORMAT", "table or json", set_output },
	{ "json", 0, NULL, "the same as -o json", set_json },
	{ "watch", 0, NULL, "lanes: show rates, each second, or as often as a "
	  "number after it says", set_watch },
	{ "data-dir", 0, "DIR", "ipam: where the reservations are (those of "
	  "the agent's configuration, or " PL_IPAM_DATA_DIR ")", set_data_dir },
	{ "network", 0, "NAME", "ipam: this network only", set_network },
	{ "config", 'c', "FILE", "check, bugreport: the agent's configuration "
	  "(" PL_AGENT_CONFIG ")", set_config },
	{ "version", 0, NULL, "show the version of podlanectl", set_version },
};

static const struct pl_column status_columns[] = {
	{ "NODE", "name", PL_CELL_TEXT, NULL },
	{ "VERSION", "version", PL_CELL_TEXT, NULL },
	{ "OVERLAY", "overlay", PL_CELL_TEXT, NULL },
	{ "MTU", "mtu", PL_CELL_NUMBER, NULL },
	{ "POD-CIDRS", "podCIDRs", PL_CELL_TEXT, NULL },
	{ "PODS", "pods", PL_CELL_NUMBER, NULL },
	{ "REGISTRY", "registry", PL_CELL_TEXT, NULL },
	{ "POLICY", "policy", PL_CELL_TEXT, NULL },
};

static const struct pl_column pods_columns[] = {
	{ "NAMESPACE", "pod.namespace", PL_CELL_TEXT, NULL },
	{ "POD", "pod.name", PL_CELL_TEXT, NULL },
	{ "ADDRESSES", "addresses", PL_CELL_TEXT, NULL },
	{ "NETWORK", "network", PL_CELL_TEXT, NULL },
	{ "CONTAINER", "containerID", PL_CELL_TEXT, NULL },
	{ "IFNAME", "ifname", PL_CELL_TEXT, NULL },
	{ "LISTENING", "listening", PL_CELL_TEXT, NULL },
	{ "CONNS", "connections", PL_CELL_NUMBER, "limits.connections" },
	{ "LANES", "lanes", PL_CELL_NUMBER, "limits.lanes" },
	{ "REGIONS", "regions", PL_CELL_NUMBER, "limits.regions" },
	{ "BYTES", "bytes", PL_CELL_BYTES, "limits.bytes" },
	{ "SENT", "sent.bytes", PL_CELL_BYTES, NULL },
	{ "RECEIVED", "received.bytes", PL_CELL_BYTES, NULL },
	{ "REFUSED", "refused.quota", PL_CELL_NUMBER, NULL },
	{ "HALF-OPEN", "refused.halfOpen", PL_CELL_NUMBER, NULL },
};

static const struct pl_column lanes_columns[] = {
	{ "ID", "id", PL_CELL_NUMBER, NULL },
	{ "FROM", "from", PL_CELL_TEXT, NULL },
	{ "TO", "to", PL_CELL_TEXT, NULL },
	{ "SERVICE", "service", PL_CELL_TEXT, NULL },
	{ "PATH", "path", PL_CELL_TEXT, NULL },
	{ "NODE", "node", PL_CELL_TEXT, NULL },
	{ "STATE", "state", PL_CELL_TEXT, NULL },
	{ "SENT", "sentBytes", PL_CELL_BYTES, NULL },
	{ "MESSAGES", "sentMessages", PL_CELL_NUMBER, NULL },
	{ "RECEIVED", "receivedBytes", PL_CELL_BYTES, NULL },
	{ "MESSAGES", "receivedMessages", PL_CELL_NUMBER, NULL },
};

static const struct pl_column regions_columns[] = {
	{ "ID", "id", PL_CELL_NUMBER, NULL },
	{ "OWNER", "owner", PL_CELL_TEXT, NULL },
	{ "NAME", "name", PL_CELL_TEXT, NULL },
	{ "NODE", "node", PL_CELL_TEXT, NULL },
	{ "PATH", "path", PL_CELL_TEXT, NULL },
	{ "SIZE", "sizeBytes", PL_CELL_BYTES, NULL },
	{ "VERSION", "version", PL_CELL_NUMBER, NULL },
	{ "READERS", "readers", PL_CELL_NUMBER, NULL },
};

static const struct pl_column nodes_columns[] = {
	{ "NODE", "name", PL_CELL_TEXT, NULL },
	{ "ADDRESS", "address", PL_CELL_TEXT, NULL },
	{ "POD-CIDRS", "podCIDRs", PL_CELL_TEXT, NULL },
	{ "CARRIER", "carrier", PL_CELL_TEXT, NULL },
	{ "SECURITY", "security", PL_CELL_TEXT, NULL },
	{ "STATE", "state", PL_CELL_TEXT, NULL },
	{ "LANES", "lanes", PL_CELL_NUMBER, NULL },
	{ "REPLICAS", "replicas", PL_CELL_NUMBER, NULL },
	{ "SENT", "sentBytes", PL_CELL_BYTES, NULL },
	{ "RECEIVED", "receivedBytes", PL_CELL_BYTES, NULL },
};

static const struct pl_column policy_columns[] = {
	{ "TO", "to", PL_CELL_TEXT, NULL },
	{ "FROM", "from", PL_CELL_TEXT, NULL },
	{ "SERVICES", "services", PL_CELL_TEXT, NULL },
	{ "REGIONS", "regions", PL_CELL_TEXT, NULL },
};

static const struct pl_column counts_columns[] = {
	{ "NAMESPACE", "pod.namespace", PL_CELL_TEXT, NULL },
	{ "POD", "pod.name", PL_CELL_TEXT, NULL },
	{ "LANES", "lanesEnded", PL_CELL_NUMBER, NULL },
	{ "SENT", "sent.bytes", PL_CELL_BYTES, NULL },
	{ "MESSAGES", "sent.messages", PL_CELL_NUMBER, NULL },
	{ "RECEIVED", "received.bytes", PL_CELL_BYTES, NULL },
	{ "MESSAGES", "received.messages", PL_CELL_NUMBER, NULL },
	{ "REFUSED", "refused.quota", PL_CELL_NUMBER, NULL },
	{ "HALF-OPEN", "refused.halfOpen", PL_CELL_NUMBER, NULL },
	{ "COMPLAINTS", "complaints", PL_CELL_NUMBER, NULL },
};

static const struct command {
	const char *name;
	const char *op;		/* and the name of its list */
	const char *help;
	bool is_list;		/* the answer has a list of that name */
	const struct pl_column *columns;
	size_t n_columns;
} commands[] = {
	{ "status", "status", "is the agent ready for pods? exit status 1: no", false,
	  status_columns, PL_ARRAY_SIZE(status_columns) },
	{ "pods", "pods", "pods that are wired, and what they have", true,
	  pods_columns, PL_ARRAY_SIZE(pods_columns) },
	{ "lanes", "lanes", "lanes of this node's pods", true, lanes_columns,
	  PL_ARRAY_SIZE(lanes_columns) },
	{ "regions", "regions", "regions of this node's pods, and replicas here", true,
	  regions_columns, PL_ARRAY_SIZE(regions_columns) },
	{ "nodes", "nodes", "nodes of the registry, and the carrier to them", true,
	  nodes_columns, PL_ARRAY_SIZE(nodes_columns) },
	{ "peers", "nodes", "the other nodes, and the carrier to them", true,
	  nodes_columns, PL_ARRAY_SIZE(nodes_columns) },
	{ "policy", "policy", "which namespaces may use what others offer", true,
	  policy_columns, PL_ARRAY_SIZE(policy_columns) },
	{ "counts", "counts", "what ended lanes of pods carried; needs no agent", true,
	  counts_columns, PL_ARRAY_SIZE(counts_columns) },
	{ "version", NULL, "versions of podlanectl and of the agent", false, NULL,
	  0 },
};

/* Those that are more than a question to the agent. */
static int run_top(const struct options *o, int n_words, char **words);
static int run_check(const struct options *o, int n_words, char **words);
static int run_report(const struct options *o, int n_words, char **words);
static int run_complete(const struct options *o, int n_words, char **words);

static const struct tool {
	const char *name, *args, *help;
	int (*run)(const struct options *o, int n_words, char **words);
} tools[] = {
	{ "top", " [SECONDS]", "pods by what their lanes move, live", run_top },
	{ "check", "", "what is wrong on this node, and what to do; exit "
	  "status 1: something fails", run_check },
	{ "bugreport", " [FILE]", "a tar archive for whoever helps, without "
	  "secrets; -: to standard output", run_report },
	{ "completion", " SHELL", "for bash, zsh or fish", run_complete },
};

static void usage(FILE *f)
{
	fprintf(f, "usage: podlanectl [OPTION]... COMMAND\n"
		   "What the podlane agent of this node knows.\n\n");
	for (size_t i = 0; i < PL_ARRAY_SIZE(commands); i++)
		fprintf(f, "  %-26s %s\n", commands[i].name, commands[i].help);
	for (size_t i = 0; i < PL_ARRAY_SIZE(tools); i++)
		fprintf(f, "  %s%-*s %s\n", tools[i].name,
			(int)(26 - strlen(tools[i].name)), tools[i].args,
			tools[i].help);
	pl_ctl_ipam_help(f);
	fprintf(f, "\n");
	pl_opts_print(f, opts, PL_ARRAY_SIZE(opts));
}

static int call(const struct options *o, const char *op, cJSON **answer,
		struct pl_err *err)
{
	pl_auto_json *request = cJSON_CreateObject();
	pl_auto_fd fd = -1;
	char path[256];
	int rc = pl_format(path, sizeof(path), "%s/%s", o->run_dir,
			   PL_AGENT_SOCKET);

	if (rc < 0)
		return pl_err_set(err, -rc, "--run-dir is too long");
	if (!cJSON_AddStringToObject(request, "op", op))
		return pl_err_set(err, ENOMEM, "out of memory");
	rc = pl_agent_open(path, &fd, err);
	return rc < 0 ? rc : pl_agent_call(fd, request, -1, answer, err);
}

static void print_table(const struct command *c, const cJSON *answer,
			const cJSON *list)
{
	cJSON *one;

	if (c->is_list) {
		pl_table_print(stdout, list, c->columns, c->n_columns);
		return;
	}
	one = cJSON_CreateArray();
	if (one && cJSON_AddItemReferenceToArray(one, (cJSON *)answer))
		pl_table_print(stdout, one, c->columns, c->n_columns);
	cJSON_Delete(one);
}

static void drop_own(cJSON *nodes)
{
	cJSON *n = nodes->child, *next;

	for (; n; n = next) {
		const char *state = "";

		next = n->next;
		pl_json_str(n, "", "state", &state, NULL);
		if (!strcmp(state, "this node"))
			cJSON_Delete(cJSON_DetachItemViaPointer(nodes, n));
	}
}

static int show(const struct options *o, const struct command *c,
		struct pl_err *err)
{
	pl_auto_json *answer = NULL;
	const cJSON *list = NULL;
	int rc;

	if (c->columns == counts_columns) {
		rc = pl_counts_list(o->run_dir, &answer, err);
		list = answer;
	} else {
		rc = call(o, c->op, &answer, err);
	}
	if (rc == 0 && c->is_list && !list)
		rc = pl_json_arr(answer, "answer", c->op, &list, err);
	if (rc >= 0 && !strcmp(c->name, "peers"))
		drop_own((cJSON *)list);
	if (rc < 0)
		return rc;
	if (o->json)
		pl_doc_print(stdout, c->is_list ? list : answer);
	else
		print_table(c, answer, list);
	return 0;
}

/* An agent that is not there is no failure here. */
static int show_versions(const struct options *o)
{
	pl_auto_json *answer = NULL, *j = cJSON_CreateObject();
	const char *agent = NULL;

	if (call(o, "node", &answer, NULL) == 0)
		pl_json_str(answer, "", "version", &agent, NULL);
	if (o->json) {
		cJSON_AddStringToObject(j, "podlanectl", PL_VERSION);
		if (agent)
			cJSON_AddStringToObject(j, "podlaned", agent);
		pl_doc_print(stdout, j);
	} else {
		printf("podlanectl %s\npodlaned %s\n", PL_VERSION,
		       agent ? agent : "(not running)");
	}
	return 0;
}

static int fail(const struct options *o, const struct pl_err *err)
{
	if (o->json) {
		pl_auto_json *j = cJSON_CreateObject();

		cJSON_AddBoolToObject(j, "ok", false);
		cJSON_AddNumberToObject(j, "code", err->code);
		cJSON_AddStringToObject(j, "msg", err->msg);
		pl_doc_print(stdout, j);
	}
	fprintf(stderr, "podlanectl: %s\n", err->msg);
	return 1;
}

static int complain(const char *what, const char *word)
{
	fprintf(stderr, "podlanectl: %s '%s'\n", what, word);
	return 2;
}

/* Where podlane-ipam is told to reserve: by the agent, or by nobody. */
static int find_data_dir(const struct options *o, char dir[PATH_MAX],
			 struct pl_err *err)
{
	pl_auto_free struct pl_agent_conf *conf = NULL;
	const char *found = o->data_dir;
	int rc = 0;

	if (!found) {
		conf = calloc(1, sizeof(*conf));
		rc = conf ? pl_agent_conf_find(o->config, conf, err) :
			    pl_err_set(err, ENOMEM, "out of memory");
		if (rc < 0)
			return rc;
		found = conf->cni.mode == PL_CNI_STANDALONE ?
				conf->cni.data_dir : PL_IPAM_DATA_DIR;
	}
	rc = pl_format(dir, PATH_MAX, "%s", found);
	return rc < 0 ? pl_err_set(err, -rc, "--data-dir is too long") : 0;
}

static int run_ipam(const struct options *o, int n_words, char **words)
{
	char dir[PATH_MAX];
	const struct pl_ctl_ipam ipam = { dir, o->network, o->json };
	struct pl_err err = { 0 };
	int rc = find_data_dir(o, dir, &err);

	if (rc < 0)
		return fail(o, &err);
	rc = pl_ctl_ipam(&ipam, n_words, words, &err);
	if (rc < 0)
		fail(o, &err);
	return rc == -EINVAL ? 2 : rc != 0;
}

static const char *data_dir(const struct options *o)
{
	return o->data_dir ? o->data_dir : PL_IPAM_DATA_DIR;
}

/* The word after it, if there is one, is a number of seconds. */
static int run_watch(const struct options *o, int n_words, char **words)
{
	uint32_t ms = 1000;
	struct pl_err err = { 0 };
	char path[256];
	bool top = !strcmp(words[0], "top");
	int rc = pl_format(path, sizeof(path), "%s/%s", o->run_dir,
			   PL_AGENT_SOCKET);

	if (rc < 0)
		rc = pl_err_set(&err, -rc, "--run-dir is too long");
	else if (!top && strcmp(words[0], "lanes"))
		rc = pl_err_set(&err, EINVAL, "--watch is for lanes only");
	else if (n_words > 2)
		rc = pl_err_set(&err, EINVAL, "unexpected word '%s'", words[2]);
	else if (n_words == 2)
		rc = pl_watch_interval(words[1], &ms, &err);
	else
		rc = 0;
	if (rc < 0) {
		fprintf(stderr, "podlanectl: %s\n", err.msg);
		return 2;
	}
	rc = top ? pl_watch_pods(path, ms, o->json, &err) :
		   pl_watch_lanes(path, ms, o->json, &err);
	return rc < 0 ? fail(o, &err) : 0;
}

static int run_top(const struct options *o, int n_words, char **words)
{
	return run_watch(o, n_words, words);
}

static int run_check(const struct options *o, int n_words, char **words)
{
	const struct pl_ctl_check c = { o->run_dir, data_dir(o), o->config,
					o->json };
	struct pl_err err = { 0 };
	int rc;

	if (n_words > 1)
		return complain("unexpected word", words[1]);
	rc = pl_ctl_check(&c, &err);
	return rc < 0 ? fail(o, &err) : rc;
}

static int run_report(const struct options *o, int n_words, char **words)
{
	const struct pl_ctl_check c = { o->run_dir, data_dir(o), o->config,
					true };
	const char *file = n_words > 1 ? words[1] : "podlane-bugreport.tar";
	struct pl_err err = { 0 };

	if (n_words > 2)
		return complain("unexpected word", words[2]);
	if (pl_ctl_report(&c, file, &err) < 0)
		return fail(o, &err);
	if (strcmp(file, "-"))
		printf("%s\n", file);
	return 0;
}

static int run_complete(const struct options *o, int n_words, char **words)
{
	const char *names[PL_ARRAY_SIZE(commands) + PL_ARRAY_SIZE(tools) + 1];
	struct pl_err err = { 0 };
	size_t n = 0;

	if (n_words != 2)
		return complain("for which shell? bash, zsh or fish", "");
	for (size_t i = 0; i < PL_ARRAY_SIZE(commands); i++)
		names[n++] = commands[i].name;
	for (size_t i = 0; i < PL_ARRAY_SIZE(tools); i++)
		names[n++] = tools[i].name;
	names[n++] = "ipam";
	return pl_ctl_complete(words[1], names, n, opts, PL_ARRAY_SIZE(opts),
			       &err) < 0 ? fail(o, &err) : 0;
}

static int run(const struct options *o, int n_words, char **words)
{
	struct pl_err err = { 0 };

	if (o->watch)
		return run_watch(o, n_words, words);
	if (!strcmp(words[0], "ipam"))
		return run_ipam(o, n_words - 1, words + 1);
	for (size_t i = 0; i < PL_ARRAY_SIZE(tools); i++)
		if (!strcmp(tools[i].name, words[0]))
			return tools[i].run(o, n_words, words);
	for (size_t i = 0; i < PL_ARRAY_SIZE(commands); i++) {
		if (strcmp(commands[i].name, words[0]))
			continue;
		if (n_words > 1)
			return complain("unexpected word", words[1]);
		if (!commands[i].columns)
			return show_versions(o);
		return show(o, &commands[i], &err) < 0 ? fail(o, &err) : 0;
	}
	return complain("--help lists the commands; unknown command",
			words[0]);
}

/*
 * Options may stand before, between and after the words of the command. Returns
 * the number of words.
 */
static int parse(int argc, char **argv, struct options *o, char **words,
		 bool *help, struct pl_err *err)
{
	int n = 0;

	for (;;) {
		int i = pl_opts_parse(opts, PL_ARRAY_SIZE(opts), argc, argv, o,
				      help, err);

		if (i < 0)
			return i;
		if (*help || o->version)
			return n;
		if (i >= argc)
			break;
		if (n == WORDS_MAX)
			return pl_err_set(err, EINVAL, "unexpected word '%s'",
					  argv[i]);
		words[n++] = argv[i];
		argc -= i;
		argv += i;
	}
	if (!n)
		return pl_err_set(err, EINVAL,
				  "which command? --help lists them");
	return n;
}

static int ctl_main(int argc, char **argv)
{
	struct options o = { .run_dir = PL_AGENT_RUN_DIR };
	char *words[WORDS_MAX];
	struct pl_err err = { 0 };
	bool help;
	int n = parse(argc, argv, &o, words, &help, &err);

	if (n < 0) {
		fprintf(stderr, "podlanectl: %s\n", err.msg);
		return 2;
	}
	if (help) {
		usage(stdout);
		return 0;
	}
	if (o.version) {
		printf("podlanectl %s\n", PL_VERSION);
		return 0;
	}
	return run(&o, n, words);
}

int main(int argc, char **argv)
{
	struct pl_err err;
	int rc = pl_process_init(&err) < 0 ? 1 : ctl_main(argc, argv);

	if (rc == 0 && pl_stdout_end(&err) < 0) {
		fprintf(stderr, "podlanectl: %s\n", err.msg);
		rc = 1;
	}
	return rc;
}
