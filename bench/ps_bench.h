/*
 * bench/ps_bench.h - one comparison: its cluster, its runs, its results
 */
#ifndef BENCH_PS_BENCH_H
#define BENCH_PS_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "bench/ps_cluster.h"
#include "bench/ps_job.h"
#include "bench/ps_machine.h"
#include "bench/ps_options.h"
#include "bench/ps_nic.h"
#include "bench/ps_progress.h"
#include "bench/ps_usage.h"

#define PS_RAW_MS 500

/* What is run: a model's gradients, from here to there, over that. */
struct ps_case {
	const struct ps_model *model;
	enum ps_placement placement;
	enum ps_strategy strategy;
	enum ps_transport transport;
	enum codec_kind compression;
};

/* A case that was not run, with all of its transports. */
struct ps_left {
	struct ps_case c;
	char why[120];
};

#define PS_LEFT_MAX (PS_MODELS_MAX * PS_PLACEMENTS * PS_STRATEGIES)

struct ps_bench {
	unsigned int n_left;
	struct ps_left left[PS_LEFT_MAX];
	struct ps_opts o;
	struct ps_watch watch;
	struct ps_machine machine;
	struct ps_progress progress;
	/* reproduce: images per second of one node, of each model */
	double node_images[PS_MODELS_MAX];
	struct ps_cluster cluster;
	/* By node. Pods that no placement needs are NULL. */
	struct ps_pod *worker[PS_NODES][PS_WORKERS_MAX];
	struct ps_pod *server[PS_NODES][PS_SERVERS_MAX];
};

/* Where a role is in a placement. */
struct ps_pod *ps_pod_of_worker(const struct ps_bench *b, enum ps_placement p,
				unsigned int rank);
struct ps_pod *ps_pod_of_server(const struct ps_bench *b, enum ps_placement p,
				unsigned int rank);
/* The node, from 0, of rank `rank` of n that are spread over all of them. */
unsigned int ps_spread(unsigned int rank, unsigned int n);

/* What one run gave. */
struct ps_run {
	double grad_bytes_per_s;	/* of all workers */
	double bytes_per_s;		/* gradients and parameters */
	double images_per_s;
	double step_p50_ms, step_p99_ms;	/* of the slowest worker */
	double cpu_s_per_gb;		/* all cores, per GB of gradients */
	char path[64];			/* of gradients and parameters */
	char grad_path[64], param_path[64];
	struct ps_nic nic;		/* of the roles, with their address */
	double used[PS_COUNTERS];	/* in the measured steps */
	bool local_sum, verified;
	uint64_t checksum;		/* of the parameters at the end */
	struct ps_epoch curve[PS_EPOCHS_MAX];	/* --train */
	unsigned int n_curve;
	double sent_bytes;		/* of a worker and step, mean */
	/* Updates that gradients missed (ps_stale.h); NAN: synchronous. */
	double stale_mean, stale_max;
	struct ps_limits limits;	/* just before it */
};

/*
 * Nodes, agents and the pods that b->o needs, and what the machine's TCP is
 * then. ps_cluster_fini takes b->cluster down, also after a failure.
 */
int ps_bench_cluster(struct ps_bench *b, struct pl_err *err);

/* Servers and workers in their pods, from start to end. */
int ps_run_case(struct ps_bench *b, const struct ps_case *c,
		struct ps_run *run, struct pl_err *err);

/* Bytes per second of plain streams, as many as the job has connections. */
int ps_run_raw(struct ps_bench *b, enum ps_placement placement, bool bidir,
	       double *bytes_per_s, struct pl_err *err);

/* Seconds of a step of one worker that exchanges nothing. */
int ps_solo_step(const struct ps_bench *b, const struct ps_model *m,
		 double *seconds, struct pl_err *err);

/* Bytes of memory that the comparison takes at its worst moment. */
uint64_t ps_memory_need(const struct ps_opts *o);

#endif
