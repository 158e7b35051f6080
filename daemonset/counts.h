/*
 * daemonset/counts.h - what pods did and were refused, in shared memory
 *
 * Theory of operation
 *
 * Each pod has a file of one page in RUN-DIR/counts (struct pl_pod_counts of
 * stats.h), which its agent has mapped and alone writes. It outlives the agent:
 * the next one goes on where this one stopped, and podlanectl and others read
 * it without asking anybody. Run directories do not outlive the machine, and a
 * file is known by the number of the pod's namespace and by its cookie, so none
 * is taken for another pod's.
 *
 * A reader finds each number whole, and several of them at one moment or
 * another. A file that is being made has no magic number yet.
 */
#ifndef DAEMONSET_COUNTS_H
#define DAEMONSET_COUNTS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "common/err.h"
#include "daemonset/stats.h"

#define PL_COUNTS_DIR "counts"		/* within the run directory */

struct pl_counts_key {
	uint64_t dev, ino;		/* of the namespace's file */
	uint64_t cookie;		/* 0: the kernel has none */
};

/*
 * The pod's counts, mapped: those that an agent before this one left if
 * is_restored says that the pod is one of its, else new ones. dir is made.
 */
int pl_counts_open(const char *dir, const struct pl_counts_key *key,
		   bool is_restored, struct pl_pod_counts **out,
		   struct pl_err *err);
/* Unmaps; the file stays. NULL: nothing. */
void pl_counts_close(struct pl_pod_counts *c);
void pl_counts_remove(const char *dir, const struct pl_counts_key *key);

/* Remove the files of all pods that has() does not know. */
void pl_counts_sweep(const char *dir,
		     bool (*has)(uint64_t dev, uint64_t ino, void *arg),
		     void *arg);

void pl_counts_name(struct pl_pod_counts *c, const char *ns, const char *name);

/* What of a pod was refused, as "pods" of podlanectl has it. */
cJSON *pl_counts_refused_json(const struct pl_pod_counts *c);

/*
 * All pods' of a run directory, read from their files; there may be no agent.
 * -ENOENT: there are none, as no agent has run here.
 */
int pl_counts_list(const char *run_dir, cJSON **out, struct pl_err *err);

#endif
