/*
 * bench/cni_run.h - execute CNI plugins the way a container runtime does
 *
 * Pods are network namespaces, each held by a child process that dies with us
 * and reached by /proc/PID/ns/net; nothing is mounted.
 */
#ifndef BENCH_CNI_RUN_H
#define BENCH_CNI_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

struct cni_pod {
	pid_t pid;		/* 0: none */
	char netns[64];
};

int cni_pod_create(struct cni_pod *pod, struct pl_err *err);
void cni_pod_destroy(struct cni_pod *pod);

struct cni_exec {
	const char *plugin;	/* path */
	const char *cni_path;	/* CNI_PATH */
	const char *id;		/* CNI_CONTAINERID */
	const char *ifname;
	const char *args;	/* CNI_ARGS; NULL: none */
	const char *conf;	/* JSON text */
};

/* A plugin at work. */
struct cni_job {
	pid_t pid;		/* 0: none */
	int out;		/* what it prints; -1: none */
	uint64_t start_ns;
	uint64_t ns;		/* until it had exited and all was read */
	uint32_t peak_kib;	/* memory, the plugins that it executed too */
};

/*
 * Execute it with CNI_COMMAND command for the pod; cni_finish waits for its end
 * and has to be called after a success. *out (or NULL): the output, to be
 * freed. A failure carries what the plugin printed; -ECHILD: a signal ended it.
 *
 * job->peak_kib is of use only where counted: the kernel counts what a process
 * had before it executed the plugin, so that is kept small, at a price in time.
 */
int cni_start(const struct cni_exec *e, const char *command,
	      const struct cni_pod *pod, bool counted, struct cni_job *job,
	      struct pl_err *err);
int cni_finish(struct cni_job *job, char **out, struct pl_err *err);

/* Both. *ns: job->ns. */
int cni_exec(const struct cni_exec *e, const char *command,
	     const struct cni_pod *pod, uint64_t *ns, char **out,
	     struct pl_err *err);

/* The pod has ifname up, with the first address of the result. */
int cni_verify_added(const struct cni_pod *pod, const char *ifname,
		     const char *result, struct pl_err *err);
/* The pod has no ifname. */
int cni_verify_deleted(const struct cni_pod *pod, const char *ifname,
		       struct pl_err *err);

/*
 * A plugin may leave work to a child of its own. After cni_adopt those become
 * our children, and cni_settle waits for the end of each child that is not one
 * of the n known ones.
 */
int cni_adopt(struct pl_err *err);
int cni_settle(const pid_t *known, size_t n, struct pl_err *err);

#endif
