/*
 * bench/cni_node.h - this process as a node: namespace, scratch folder, agent
 */
#ifndef BENCH_CNI_NODE_H
#define BENCH_CNI_NODE_H

#include <sys/types.h>

#include "common/err.h"

struct cni_node {
	char dir[64];		/* scratch; "": none */
	pid_t agent;		/* 0: none */
};

/*
 * Move the process into a network namespace of its own, with lo and a link
 * "u" (10.99.0.1/24), and make the scratch folder. n is zeroed before.
 */
int cni_node_init(struct cni_node *n, struct pl_err *err);

/* Start podlaned and wait until it serves dir/run/agent.sock. */
int cni_node_agent(struct cni_node *n, const char *podlaned,
		   struct pl_err *err);

/* Also after a failure of the others. */
void cni_node_fini(struct cni_node *n);

#endif
