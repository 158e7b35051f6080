/*
 * plugin/plugin.h - the commands of the plugin, and what they share
 */
#ifndef PLUGIN_PLUGIN_H
#define PLUGIN_PLUGIN_H

#include "common/err.h"
#include "ipam/cni.h"
#include "plugin/agent.h"
#include "plugin/conf.h"
#include "plugin/record.h"

/* The name that the pod's programs connect to. */
#define PL_AGENT_CHANNEL "@podlane"

/* One execution of the plugin. */
struct pl_call {
	struct pl_cni_env env;
	struct pl_cni_conf doc;
	struct pl_conf conf;
	struct pl_attach at;
	int out_fd;		/* standard output */
	int lock_fd;		/* of the attachment's record; -1: none */
};

/* Each does one command; ADD and VERSION print their answer. */
int pl_cmd_add(struct pl_call *c, struct pl_err *err);
int pl_cmd_del(struct pl_call *c, struct pl_err *err);
int pl_cmd_check(struct pl_call *c, struct pl_err *err);
int pl_cmd_gc(struct pl_call *c, struct pl_err *err);
int pl_cmd_status(struct pl_call *c, struct pl_err *err);

/*
 * Undo all that rec says of the attachment at; the record is the caller's to
 * remove then, and to keep on failure, so that it can be tried again. Where
 * rec is NULL or could not be read, the configuration says what there may be.
 * What is gone already is no error. quick: leave the kernel's clean-up behind a
 * deleted link to a child of ours.
 */
int pl_detach(const struct pl_call *c, const struct pl_attach *at,
	      const struct pl_record *rec, bool quick, struct pl_err *err);

/* CNI_NETNS, which must not be our own namespace. */
int pl_open_netns(const struct pl_call *c, int *fd, struct pl_err *err);

/* Delete a link of ours, by name. None: no error. */
int pl_delete_link(const char *name, const char *kind, bool quick,
		   struct pl_err *err);

#endif
