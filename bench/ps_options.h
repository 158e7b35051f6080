/*
 * bench/ps_options.h - the options of all commands of ps_throughput
 *
 * One table holds every option with the commands that know it, so that the
 * roles and compare agree on names, ranges and defaults.
 */
#ifndef BENCH_PS_OPTIONS_H
#define BENCH_PS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"
#include "bench/compress.h"
#include "bench/ps_models.h"
#include "bench/ps_wire.h"
#include "bench/resolve.h"

#define PS_SERVERS_MAX 16
#define PS_WORKERS_MAX 64
#define PS_ADDR_BYTES 48
#define PS_HOST_BYTES BENCH_HOST_BYTES
#define PS_BATCHES_MAX 8
#define PS_EPOCHS_MAX 100

/* What training has no option for. */
#define PS_MOMENTUM 0.9f
#define PS_CLIP 2.0
#define PS_POWER_RANK 2
#define PS_PORT_DEFAULT 4711

/* Bits, so that an option of the table can name several commands. */
enum ps_cmd {
	PS_CMD_COMPARE = 1,
	PS_CMD_SERVER = 2,
	PS_CMD_WORKER = 4,
	PS_CMD_RAW_RECV = 8,
	PS_CMD_RAW_SEND = 16,
	PS_CMD_TRAIN = 64,
	PS_CMD_MATRIX = 32,
	PS_CMD_REPRODUCE = 128,
};

enum ps_transport { PS_OVERLAY = 1, PS_PODLANE = 2, PS_HOST = 4 };
#define PS_TRANSPORTS 3
/* Servers with the workers, apart from them; both spread over the nodes. */
enum ps_placement { PS_SAME_NODE = 1, PS_CROSS_NODE = 2, PS_SPREAD = 4 };
#define PS_PLACEMENTS 3
/* How the workers' gradients become parameters. */
enum ps_strategy {
	PS_SERVER = 1, PS_RING = 2, PS_INDEPENDENT = 4, PS_HIERARCHICAL = 8,
};
#define PS_STRATEGIES 4
enum ps_local_sum { PS_SUM_AUTO, PS_SUM_ON, PS_SUM_OFF };

/* Names, too, until ps_names_resolve. */
struct ps_addrs {
	unsigned int n;
	char text[PS_WORKERS_MAX][PS_HOST_BYTES];
};

struct ps_opts {
	unsigned int transports;	/* bits of ps_transport */
	unsigned int placements;	/* bits of ps_placement */
	unsigned int strategies;	/* bits of ps_strategy */
	unsigned int workers, servers;
	unsigned int n_models;
	const struct ps_model *models[PS_MODELS_MAX];
	const char *tensors;		/* file of a model of one's own */
	struct ps_model *own;		/* what it holds, owned; or NULL */
	unsigned int batch;		/* 0: the published one */
	unsigned int steps, warmup, repeat;
	enum ps_gpu compute;
	bool async;
	bool overlap;			/* exchange while computing */
	bool raw;			/* neither fill nor sum */
	enum ps_local_sum local_sum;
	unsigned int compressions;	/* bits: 1 << codec_kind */
	unsigned int keep_ppm;		/* dgc, drop: sent, of a million */

	/* Training. Roles have a number of steps; train has epochs. */
	bool train;
	unsigned int epochs, seed, seeds, seed_first;
	unsigned int rate_ppm;		/* learning rate, in millionths */
	unsigned int target_ppm;	/* accuracy, in millionths */
	const char *data;		/* NULL: DATASET_DIR */
	unsigned int batches[PS_BATCHES_MAX], n_batches;

	/* Roles. */
	struct ps_addrs bind;		/* server: own address, n 0: any */
	struct ps_addrs server;		/* worker: one per server, in order */
	struct ps_addrs local;		/* workers of this node, first sums */
	struct ps_addrs peers;		/* ring, hierarchical: all workers */
	/* hierarchical: how many of them each node has, in this order */
	unsigned int nodes[PS_WORKERS_MAX], n_nodes;
	unsigned int port;
	unsigned int rank;		/* of the worker or the server */
	unsigned int node_rank;		/* own place in local */
	int report_fd;			/* -1: a summary for people */
	const char *node_name;		/* NULL: not known */
	unsigned int timeout_s;		/* to find the others */
	bool bidir;			/* raw: both directions at once */
	unsigned int duration_ms;	/* raw: how long to stream */

	/* compare. */
	const char *csv;
	unsigned int minutes;		/* for all of it; 0: no limit */
	const char *json, *plot, *run_dir, *cni_bin, *podlaned;
	const char *congestion;		/* NULL: what the machine has */
	struct ps_wire wire;		/* between the nodes; of --link */
	const char *security;		/* between the agents; NULL: none */
};

/*
 * Parse argv[1..] (argv[0] is the command's name) over the defaults; for a role
 * over the environment, where PS_OPT_NODE_RANK is --node-rank. Strings stay
 * those of argv and environment. 1: --help was given and printed to stdout.
 * fini frees, also after a failure.
 */
int ps_opts_parse(enum ps_cmd cmd, int argc, char **argv, struct ps_opts *o,
		  struct pl_err *err);
void ps_opts_fini(struct ps_opts *o);

void ps_opts_usage(enum ps_cmd cmd, FILE *out);

/* --batch, or what is published for the model and GPU; 0: nothing is. */
unsigned int ps_opts_batch(const struct ps_opts *o, const struct ps_model *m);

/* The first of the compressions: the one of a role. */
enum codec_kind ps_opts_compression(const struct ps_opts *o);
/* Whether gradients go as messages of compress.h, by ps_packed.h. */
bool ps_opts_is_packed(const struct ps_opts *o);

/*
 * "overlay", "same-node", "ring", "auto" …; for messages and for argv of
 * children.
 */
const char *ps_transport_name(enum ps_transport t);
const char *ps_placement_name(enum ps_placement p);
const char *ps_strategy_name(enum ps_strategy s);
const char *ps_local_sum_name(enum ps_local_sum s);

#endif
