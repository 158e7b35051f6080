/*
 * bench/ps_near.h - the workers of one node among themselves
 *
 * In a hierarchical job the first worker of each node leads: it adds what the
 * others of its node, its members, have to its own gradients, sums with the
 * other nodes' leaders, and passes parameters on to its members.
 *
 * Members connect to their leader by a link, which says hello and at last
 * goodbye. Over podlane the data is in regions: each member has one with its
 * gradients, the leader one with the parameters. Each chunk is a version, the
 * i-th that is published in step s version s * chunks + i + 1; a member's come
 * in order. Over TCP the link carries the gradients in order, and back each
 * chunk of parameters behind its number, in the order in which they are ready.
 *
 * A member begins a step when it has all parameters of the one before. For
 * these the leader had read all of the member's gradients; and it touches
 * parameters again only when it has new gradients for them from every member.
 * So nothing is overwritten that somebody has yet to read.
 */
#ifndef BENCH_PS_NEAR_H
#define BENCH_PS_NEAR_H

#include <stdint.h>

#include "common/err.h"
#include "bench/ps_job.h"
#include "bench/ps_link.h"

struct ps_near;

/* The node of a worker: which one, its first rank, how many workers. */
struct ps_node {
	uint32_t index, first, workers;
};

struct ps_node ps_node_of_rank(const struct ps_opts *o, uint32_t rank);
struct ps_node ps_node_at(const struct ps_opts *o, uint32_t index);

/*
 * A leader's side. add takes a member's link over; start when all are there.
 * params returns the vector that is passed on (with --raw: room for a chunk),
 * not yet set.
 */
int ps_near_create(const struct ps_job *job, struct ps_near **near,
		   struct pl_err *err);
void ps_near_add(struct ps_near *near, uint32_t rank,
		 const struct ps_link *link);
int ps_near_start(struct ps_near *near, struct pl_err *err);
float *ps_near_params(struct ps_near *near);

/*
 * Wait for the members' chunk c of a step: src[] are their gradients. How many
 * there are (0 also where near is NULL), or -errno; -ECANCELED: by stop. Any
 * thread.
 */
int ps_near_take(struct ps_near *near, uint32_t step, uint32_t c,
		 const float **src, struct pl_err *err);

/* Parameters of chunk c are ready. One thread; near may be NULL. */
int ps_near_give(struct ps_near *near, uint32_t c, struct pl_err *err);

/* Wait until all members are done; whoever takes ends; the end. */
int ps_near_bye(struct ps_near *near, struct pl_err *err);
void ps_near_stop(struct ps_near *near);
void ps_near_destroy(struct ps_near *near);

#endif
