/*
 * plugin/podlane_main.c - the CNI plugin `podlane`
 *
 * A runtime executes it for each pod: parameters in the environment, the
 * network configuration on standard input, one JSON document on standard
 * output.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/process.h"
#include "common/util.h"
#include "plugin/plugin.h"

#define ABOUT								\
	"podlane " PL_VERSION ": a CNI plugin, versions up to "		\
	PL_CNI_VERSION_LATEST "; see podlane(8)\n"

static int cmd_version(struct pl_call *c, struct pl_err *err)
{
	cJSON *doc = pl_cni_version_doc(c->doc.version_text);
	int rc = pl_cni_print(c->out_fd, doc, err);

	cJSON_Delete(doc);
	return rc;
}

static const struct command {
	int (*run)(struct pl_call *c, struct pl_err *err);
	bool strict;		/* refuse a configuration that can't be met */
} commands[] = {
	[PL_CNI_ADD] = { pl_cmd_add, true },
	[PL_CNI_DEL] = { pl_cmd_del, false },
	[PL_CNI_CHECK] = { pl_cmd_check, true },
	[PL_CNI_VERSION] = { cmd_version, false },
	[PL_CNI_GC] = { pl_cmd_gc, false },
	[PL_CNI_STATUS] = { pl_cmd_status, true },
};

/* A longer one was never attached: DEL has nothing to do for it. */
static int check_id(const struct pl_call *c, struct pl_err *err)
{
	if (c->env.cmd == PL_CNI_STATUS ||
	    strlen(c->env.container_id) <= PL_RECORD_ID_MAX)
		return 0;
	return pl_cni_err(err, PL_CNI_INVALID_ENVIRONMENT, "CNI_CONTAINERID is "
			  "%zu bytes long; podlane takes %d, as it becomes a "
			  "part of a file's name", strlen(c->env.container_id),
			  PL_RECORD_ID_MAX);
}

static int run(struct pl_call *c, struct pl_err *err)
{
	const struct command *cmd = &commands[c->env.cmd];
	int rc = pl_cni_conf_read(STDIN_FILENO, c->env.cmd, &c->doc, err);

	if (rc < 0)
		return rc;
	if (c->env.cmd == PL_CNI_VERSION)
		return cmd->run(c, err);
	if (cmd->strict)
		rc = check_id(c, err);
	if (rc == 0)
		rc = pl_conf_parse(&c->doc, c->env.args, cmd->strict, &c->conf,
				   err);
	if (rc < 0)
		return rc;
	c->at = (struct pl_attach){ c->conf.name, c->env.container_id,
				    c->env.ifname };
	return cmd->run(c, err);
}

int main(void)
{
	struct pl_call c = { .out_fd = STDOUT_FILENO, .lock_fd = -1,
			     .doc.version_text = PL_CNI_VERSION_LATEST };
	struct pl_err err;
	int rc;

	pl_log_init("podlane", PL_LOG_WARN);
	/* A reader that went away makes write() fail: ADD is undone then. */
	signal(SIGPIPE, SIG_IGN);
	rc = pl_process_init(&err);
	if (rc == 0)
		rc = pl_cni_env_read(&c.env, &err);
	if (rc > 0) {
		fputs(ABOUT, stderr);
		return 0;
	}
	/* Even then: for the version of the error document. */
	if (rc < 0)
		pl_cni_conf_read(STDIN_FILENO, PL_CNI_VERSION, &c.doc, NULL);
	else
		rc = run(&c, &err);
	if (rc < 0)
		pl_cni_print_err(STDOUT_FILENO, c.doc.version_text, &err, NULL);
	pl_cni_conf_fini(&c.doc);
	return rc < 0;
}
