/* daemonset/install_cmd.c - podlaned install, podlaned uninstall */
#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "common/agentapi.h"
#include "common/process.h"
#include "common/util.h"
#include "daemonset/agent.h"
#include "daemonset/install.h"
#include "daemonset/opts.h"

#define FROM_DEFAULT "/usr/lib/podlane"

struct options {
	const char *config;		/* NULL: the default, if it is there */
	const char *from, *run_dir, *node;
	bool force, dry_run, wait;
};

static int set_config(void *conf, const char *value, struct pl_err *err)
{
	(void)err;
	((struct options *)conf)->config = value;
	return 0;
}

static int set_from(void *conf, const char *value, struct pl_err *err)
{
	(void)err;
	((struct options *)conf)->from = value;
	return 0;
}

static int set_run_dir(void *conf, const char *value, struct pl_err *err)
{
	(void)err;
	((struct options *)conf)->run_dir = value;
	return 0;
}

static int set_node(void *conf, const char *value, struct pl_err *err)
{
	if (!*value)
		return pl_err_set(err, EINVAL, "--node must not be empty");
	((struct options *)conf)->node = value;
	return 0;
}

static int set_force(void *conf, const char *value, struct pl_err *err)
{
	(void)value;
	(void)err;
	((struct options *)conf)->force = true;
	return 0;
}

static int set_dry_run(void *conf, const char *value, struct pl_err *err)
{
	(void)value;
	(void)err;
	((struct options *)conf)->dry_run = true;
	return 0;
}

static int set_wait(void *conf, const char *value, struct pl_err *err)
{
	(void)value;
	(void)err;
	((struct options *)conf)->wait = true;
	return 0;
}

static const struct pl_opt install_opts[] = {
	{ "config", 'c', "FILE", "the agent's configuration "
	  "(" PL_AGENT_CONFIG ")", set_config },
	{ "from", 0, "DIR", "where the plugins are (" FROM_DEFAULT ")",
	  set_from },
	{ "force", 0, NULL, "over files that are not ours", set_force },
};

static const struct pl_opt uninstall_opts[] = {
	{ "config", 'c', "FILE", "the agent's configuration "
	  "(" PL_AGENT_CONFIG ")", set_config },
	{ "run-dir", 0, "DIR", "the agent's (" PL_AGENT_RUN_DIR ")",
	  set_run_dir },
	{ "node", 0, "NAME", "this node in the registry (the host name)",
	  set_node },
	{ "dry-run", 0, NULL, "only say what would be removed", set_dry_run },
	{ "force", 0, NULL, "although pods are wired, which are then cut off",
	  set_force },
	{ "wait", 0, NULL, "then wait for SIGTERM, as a DaemonSet has to",
	  set_wait },
};

static int do_install(const struct options *o, struct pl_agent_conf *conf,
		      struct pl_err *err)
{
	const struct pl_install_args a = { .cni = &conf->cni,
					   .state_dir = conf->state_dir,
					   .from = o->from,
					   .force = o->force };

	return pl_install_files(&a, err);
}

static int do_uninstall(const struct options *o, struct pl_agent_conf *conf,
			struct pl_err *err)
{
	struct pl_uninstall_args a = { .conf = conf,
				       .run_dir = o->run_dir,
				       .node = o->node,
				       .dry_run = o->dry_run,
				       .force = o->force };
	char host[PL_OPTS_HOST_BYTES];
	sigset_t ends;
	int sig, rc = pl_opts_node(&a.node, host, err);

	if (rc == 0)
		rc = pl_uninstall(&a, err);
	if (rc < 0 || !o->wait)
		return rc;
	/* Process 1 of a container has no default action for signals. */
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	printf("done, waiting for SIGTERM\n");
	sigwait(&ends, &sig);
	return 0;
}

struct command {
	const char *name, *help;
	const struct pl_opt *opts;
	size_t n_opts;
	int (*run)(const struct options *o, struct pl_agent_conf *conf,
		   struct pl_err *err);
};

static int run(const struct command *c, const struct options *o)
{
	pl_auto_free struct pl_agent_conf *conf = calloc(1, sizeof(*conf));
	struct pl_err err = { 0 };
	int rc = conf ? pl_agent_conf_find(o->config, conf, &err) :
			pl_err_set(&err, ENOMEM, "out of memory");

	if (rc == 0)
		rc = c->run(o, conf, &err);
	if (rc == 0)
		rc = pl_stdout_end(&err);
	if (rc < 0)
		fprintf(stderr, "podlaned %s: %s\n", c->name, err.msg);
	return rc < 0;
}

static int command(const struct command *c, int argc, char **argv)
{
	struct options o = { .from = FROM_DEFAULT,
			     .run_dir = PL_AGENT_RUN_DIR };
	struct pl_err err = { 0 };
	bool help;
	int i = pl_opts_parse(c->opts, c->n_opts, argc, argv, &o, &help, &err);

	if (i >= 0 && !help && i < argc)
		i = pl_err_set(&err, EINVAL, "unexpected word '%s'", argv[i]);
	if (i < 0) {
		fprintf(stderr, "podlaned %s: %s\n", c->name, err.msg);
		return 2;
	}
	if (!help)
		return run(c, &o);
	printf("usage: podlaned %s [OPTION]...\n%s\n\n", c->name, c->help);
	pl_opts_print(stdout, c->opts, c->n_opts);
	return 0;
}

int pl_install_main(int argc, char **argv)
{
	static const struct command c = {
		"install", "Put the CNI plugins where the runtime finds them.",
		install_opts, PL_ARRAY_SIZE(install_opts), do_install
	};

	return command(&c, argc, argv);
}

int pl_uninstall_main(int argc, char **argv)
{
	static const struct command c = {
		"uninstall", "Take all that Podlane put on this node away.",
		uninstall_opts, PL_ARRAY_SIZE(uninstall_opts), do_uninstall
	};

	return command(&c, argc, argv);
}
