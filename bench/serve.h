/*
 * bench/serve.h - pod_serve: an inference service behind the pod network
 *
 * A *client* asks a *server* in another pod in one of four patterns, over one
 * byte stream (lane_link.h). Both are this program again, with the same
 * options; compare starts them in pods of its own cluster.
 *
 * On the wire, numbers are in the machine's byte order (both programs are the
 * same one): the client's sv_hello, answered by one byte (1: agreed); then
 * queries, each an sv_query with its samples behind it, answered in order by
 * one sv_answer per sample, at most SV_BATCH of them at a time. A query of no
 * samples is the goodbye, and has one answer, with its id.
 */
#ifndef BENCH_SERVE_H
#define BENCH_SERVE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <cjson/cJSON.h>

#include "common/err.h"
#include "bench/lane_link.h"
#include "bench/lane_perf.h"

#define SV_BATCH 64u
#define SV_MULTI_SAMPLES 8u
#define SV_QUERIES_MAX (1u << 20)
#define SV_REASONS_MAX 8
#define SV_REASON_BYTES 160

enum sv_scenario {
	SV_SINGLE_STREAM,	/* the next query when one is answered */
	SV_MULTI_STREAM,	/* the same with 8 samples each */
	SV_SERVER,		/* at times that nobody waits for (Poisson) */
	SV_OFFLINE,		/* all samples at once */
	SV_SCENARIOS,
};

enum sv_service {
	SV_NULL,		/* reads every byte of a sample, no more */
	SV_FIXED,		/* the same, and takes its time for each */
	SV_SERVICES,
};

enum sv_transport { SV_OVERLAY, SV_HOST, SV_LANE, SV_TRANSPORTS };

enum sv_cmd { SV_COMPARE = 1, SV_SERVE = 2, SV_LOAD = 4 };

struct sv_opts {
	unsigned int scenarios, transports, places;	/* bits */
	enum sv_service service;
	unsigned int service_us;	/* of SV_FIXED, for each sample */
	unsigned int sample_bytes, samples;
	unsigned int percentile;	/* of 1000; 0: as the scenario has it */
	unsigned int bound_us;		/* of the server scenario */
	double rate;			/* of it, queries/s; 0: searched */
	unsigned int duration_ms, queries, offline_samples, repeat;
	uint64_t seed;

	const char *addr;		/* client: the server's */
	unsigned int timeout_s;		/* to find each other */
	int report_fd;			/* -1: a summary for people */

	const char *json, *run_dir, *cni_bin, *podlaned;
	const char *congestion, *security;
};

struct sv_hello {
	uint32_t magic, service, service_us, sample_bytes;
};
#define SV_MAGIC 0x76733031u

struct sv_query {
	uint64_t id;
	uint32_t samples, reserved;
};

struct sv_answer {
	uint64_t id;
	uint32_t place, reserved;	/* of the sample in its query */
	uint64_t value;			/* what the service makes of it */
};

/* --- serve_options.c --- */

/* argv[0] is the command. 1: --help was printed. */
int sv_opts_parse(enum sv_cmd cmd, int argc, char **argv, struct sv_opts *o,
		  struct pl_err *err);
void sv_opts_usage(FILE *out);
const char *sv_scenario_name(enum sv_scenario s);
const char *sv_service_name(enum sv_service s);
const char *sv_transport_name(enum sv_transport t);
/* The one whose bit is set. */
unsigned int sv_only(unsigned int bits);
/* Of 1000: what the scenario is judged by (single stream 900, others 990). */
unsigned int sv_percentile(const struct sv_opts *o, enum sv_scenario s);

/* --- serve_load.c: what is asked when; no clock, no network --- */

/* Three independent streams of numbers come from one seed. */
enum sv_stream { SV_DATA, SV_SAMPLES, SV_SCHEDULE };
uint64_t sv_seed(uint64_t seed, enum sv_stream s);
/* The i-th number of a stream. */
uint64_t sv_number(uint64_t stream_seed, uint64_t i);
/* Which sample of n the i-th one of all that are asked is. */
uint32_t sv_pick(uint64_t stream_seed, uint64_t i, uint32_t n);
/* Times of n arrivals, in ns from 0, with exponential gaps. */
void sv_schedule(uint64_t stream_seed, double per_s, uint32_t n,
		 uint64_t *at_ns);

/*
 * Early stopping: of n queries so many may have been slower than a latency for
 * 99 % confidence that no more than 1 - permille/1000 of all are. -1: n is too
 * small for any.
 */
long sv_over_max(unsigned int permille, uint32_t n);
/* The least n for which it is not -1: 44 for p90, 459, 4603. */
uint32_t sv_queries_min(unsigned int permille);

/* The value of which q (0 to 1) of n sorted ones are at or below it. */
uint64_t sv_sorted(const uint64_t *v, uint32_t n, double q);
void sv_sort(uint64_t *v, uint32_t n);

/* --- serve_service.c --- */

/* What the null service makes of a sample: depends on all of its bytes. */
uint64_t sv_value(const void *sample, size_t bytes);
/* Answer until the goodbye; *samples counts them. */
int sv_serve(const struct sv_opts *o, const struct lp_end *end,
	     uint64_t *samples, struct pl_err *err);

/* --- serve_client.c --- */

struct sv_run {
	uint32_t n;			/* queries that were answered */
	uint64_t samples, wrong;	/* wrong: answers */
	uint64_t *latency_ns;		/* sorted; from the scheduled time */
	uint64_t *slip_ns;		/* sorted; the client's own delay */
	uint64_t duration_ns;		/* first issue to last answer */
	uint64_t own_ns;		/* from an answer to the next query */
	uint64_t send_ns;		/* in calls that send */
	uint64_t sent_bytes, received_bytes;
	bool gave_up;			/* the service fell too far behind */
};

/* One scenario over one stream. fini frees, also after a failure. */
int sv_load(const struct sv_opts *o, const struct lp_end *end,
	    struct sv_run *r, struct pl_err *err);
void sv_run_fini(struct sv_run *r);

/* --- serve_result.c --- */

struct sv_verdict {
	double metric;			/* what the scenario is judged by */
	const char *unit, *name;
	bool min_duration, min_queries, early;
	uint64_t over;			/* queries above the bound */
	unsigned int n_reasons;		/* 0: valid */
	char reason[SV_REASONS_MAX][SV_REASON_BYTES];
};

void sv_judge(const struct sv_opts *o, enum sv_transport t, const char *path,
	      const struct sv_run *r, struct sv_verdict *v);
/* The row of a run: everything of it. */
cJSON *sv_row(const struct sv_opts *o, const char *path,
	      const struct sv_run *r, const struct sv_verdict *v);
/* With the lines that users of LoadGen look for. */
void sv_summary(const cJSON *row, FILE *out);
void sv_table(const cJSON *rows, FILE *out);

/* --- serve_role.c --- */

int sv_server_main(int argc, char **argv);
int sv_client_main(int argc, char **argv);

/* --- serve_compare.c --- */

/* Returns the exit status of the program. */
int sv_compare_main(int argc, char **argv);

#endif
