/*
 * daemonset/podlaned_main.c - the node agent: options, configuration, logs
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/agentapi.h"
#include "common/process.h"
#include "common/util.h"
#include "daemonset/agent.h"
#include "daemonset/install.h"
#include "daemonset/opts.h"

struct options {
	const char *config;
	const char *run_dir;
	const char *node;
	bool level_given;
	enum pl_log_level level;
	bool version;
};

static int set_config(void *conf, const char *value, struct pl_err *err)
{
	(void)err;
	((struct options *)conf)->config = value;
	return 0;
}

static int set_run_dir(void *conf, const char *value, struct pl_err *err)
{
	if (*value != '/')
		return pl_err_set(err, EINVAL, "--run-dir must be an absolute "
				  "path, not '%s'", value);
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

static int set_level(void *conf, const char *value, struct pl_err *err)
{
	struct options *o = conf;

	if (pl_log_level_parse(value, &o->level) < 0)
		return pl_err_set(err, EINVAL, "--log-level must be error, "
				  "warn, info or debug, not '%s'", value);
	o->level_given = true;
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
	{ "config", 'c', "FILE", "configuration (" PL_AGENT_CONFIG ")",
	  set_config },
	{ "run-dir", 0, "DIR", "socket and lock (" PL_AGENT_RUN_DIR ")",
	  set_run_dir },
	{ "node", 0, "NAME", "this node in the registry (the host name)",
	  set_node },
	{ "log-level", 0, "LEVEL", "error, warn, info or debug", set_level },
	{ "version", 0, NULL, "show the version", set_version },
};

static int serve(struct options *o, struct pl_err *err)
{
	char host[PL_OPTS_HOST_BYTES];
	pl_auto_free struct pl_agent_args *args = calloc(1, sizeof(*args));
	int rc;

	if (!args)
		return pl_err_set(err, ENOMEM, "out of memory");
	pl_agent_conf_default(&args->conf);
	rc = pl_opts_node(&o->node, host, err);
	if (rc == 0)
		rc = pl_agent_conf_load(o->config, &args->conf, err);
	if (rc < 0)
		return rc;
	if (!o->level_given)
		o->level = args->conf.log_level;
	pl_log_init("podlaned", o->level);
	pl_log_json(args->conf.log_json);
	args->run_dir = o->run_dir;
	args->node = o->node;
	return pl_agent_run(args, err);
}

static const struct {
	const char *name, *help;
	int (*main)(int argc, char **argv);
} commands[] = {
	{ "install", "put the CNI plugins where the runtime finds them",
	  pl_install_main },
	{ "uninstall", "take all that podlane put on this node away",
	  pl_uninstall_main },
};

static void usage(void)
{
	printf("usage: podlaned [OPTION]...\n"
	       "       podlaned COMMAND [OPTION]...\n"
	       "The podlane agent of a node. Without a command it serves.\n\n");
	for (size_t i = 0; i < PL_ARRAY_SIZE(commands); i++)
		printf("  %-26s %s\n", commands[i].name, commands[i].help);
	printf("\n");
	pl_opts_print(stdout, opts, PL_ARRAY_SIZE(opts));
}

static int agent_main(int argc, char **argv)
{
	struct options o = { .config = PL_AGENT_CONFIG,
			     .run_dir = PL_AGENT_RUN_DIR,
			     .level = PL_LOG_INFO };
	struct pl_err err = { 0 };
	bool help;
	int i = pl_opts_parse(opts, PL_ARRAY_SIZE(opts), argc, argv, &o, &help,
			      &err);

	if (i >= 0 && !help && !o.version && i < argc)
		i = pl_err_set(&err, EINVAL, "unexpected word '%s'", argv[i]);
	if (i < 0) {
		fprintf(stderr, "podlaned: %s\n", err.msg);
		return 2;
	}
	if (help) {
		usage();
		return 0;
	}
	if (o.version) {
		printf("podlaned %s\n", PL_VERSION);
		return 0;
	}
	if (o.level_given)
		pl_log_init("podlaned", o.level);
	if (serve(&o, &err) < 0) {
		pl_error("%s", err.msg);
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct pl_err err = { 0 };

	pl_log_init("podlaned", PL_LOG_INFO);
	if (pl_process_init(&err) < 0) {
		pl_error("%s", err.msg);
		return 1;
	}
	for (size_t i = 0; argc > 1 && i < PL_ARRAY_SIZE(commands); i++)
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].main(argc - 1, argv + 1);
	return agent_main(argc, argv);
}
