/*
 * bench/cni_latency.h - the parts of cni_latency: options, contest, figures
 *
 * What is measured is a scenario: ADD and DEL one after the other with few or
 * with many addresses reserved, or many ADDs at once.
 */
#ifndef BENCH_CNI_LATENCY_H
#define BENCH_CNI_LATENCY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "bench/cni_node.h"
#include "bench/cni_run.h"
#include "common/err.h"

#define CNI_ROUNDS_MAX 500
#define CNI_RESERVED_MAX 60000
#define CNI_PARALLEL_MAX 200

enum cni_who { CNI_PODLANE, CNI_REFERENCE, CNI_CONTESTANTS };

enum cni_scenario {
	CNI_EMPTY,		/* no address is reserved */
	CNI_RESERVED,		/* --reservations of them are */
	CNI_PARALLEL,		/* --parallel ADDs at once, then DELs */
	CNI_SCENARIOS,
};

/*
 * SETTLED: DEL, and all that the plugin left to be done behind it. PEAK: memory
 * of ADD or DEL, in MB (10^6); not in PARALLEL.
 */
enum cni_what { CNI_ADD, CNI_DEL, CNI_TOTAL, CNI_SETTLED, CNI_PEAK,
		CNI_WHATS };

struct cni_options {
	unsigned int rounds;
	unsigned int reserved;	/* 0: skip that scenario */
	unsigned int parallel;	/* 0: skip that scenario */
	char podlane[4096];	/* folder */
	char reference[4096];	/* folder */
	char agent[4096];	/* program, or "none" */
	const char *json;	/* file, NULL: none */
};

/* One value per round. */
struct cni_series {
	double *v;
	unsigned int n;
};

struct cni_bench {
	struct cni_options o;
	struct cni_node node;
	struct cni_exec exec[CNI_SCENARIOS][CNI_CONTESTANTS];
	struct cni_series series[CNI_SCENARIOS][CNI_CONTESTANTS][CNI_WHATS];
	/* Texts that exec points to. */
	char paths[CNI_CONTESTANTS][4096];
	char confs[CNI_SCENARIOS][CNI_CONTESTANTS][2048];
	/* Pods, and the processes that are not a plugin's. */
	struct cni_pod *pods;
	size_t n_pods;
	pid_t *known;
	size_t n_known;
};

/* Rounds of a scenario; 0: it is skipped. */
unsigned int cni_rounds(const struct cni_options *o, enum cni_scenario s);

/*
 * All that is asked for, in turn, into b->series. b->node is up; errors leave
 * what cni_contest_fini undoes.
 */
int cni_contest_run(struct cni_bench *b, struct pl_err *err);
void cni_contest_fini(struct cni_bench *b);

extern const char *const cni_names[CNI_CONTESTANTS];

/* Print the tables; write the JSON file if one is wanted. */
int cni_figures(const struct cni_bench *b, struct pl_err *err);

#endif
