/*
 * daemonset/numa.h - on which NUMA node replicas lie
 *
 * A pod makes its own segments, and the kernel takes their memory from the node
 * on whose CPU that happened. A replica is made by the agent, which runs
 * elsewhere; so it is put to where the pod has its own segment of the lane,
 * which is where the pod runs. Replicas of regions have readers on all nodes:
 * their pages lie on all of them, in turn. What does not fit there lies
 * elsewhere.
 *
 * On a machine with one node, struct pl_numa is NULL, and nothing is done. By
 * hwloc, https://www.open-mpi.org/projects/hwloc/. One thread.
 */
#ifndef DAEMONSET_NUMA_H
#define DAEMONSET_NUMA_H

#include <stddef.h>

struct pl_numa;

/* NULL: one node, or nobody knows. */
struct pl_numa *pl_numa_open(void);
void pl_numa_close(struct pl_numa *n);

/* Nodes of this machine; 1: n is NULL. */
unsigned int pl_numa_count(const struct pl_numa *n);

/*
 * Until pl_numa_end, the memory that this thread makes lies where the page at
 * `near` does, which somebody has written to. NULL: on all nodes in turn.
 */
void pl_numa_begin(struct pl_numa *n, const void *near);
void pl_numa_end(struct pl_numa *n);

/*
 * Pages of this shared memory, which nobody else has touched yet and which this
 * process may write, go there, too.
 */
void pl_numa_move(struct pl_numa *n, void *addr, size_t bytes,
		  const void *near);

#endif
