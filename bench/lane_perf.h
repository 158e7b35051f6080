/*
 * bench/lane_perf.h - what lane_perf measures, and how it is run
 *
 * A *job* is one measurement: a server and a client, this program again as
 * processes in two pods (or two nodes), over one transport. Both get the job as
 * words KEY=VALUE; at the end each writes a JSON list to --report. The client
 * leads: it says what comes next in the bytes that it sends.
 */
#ifndef BENCH_LANE_PERF_H
#define BENCH_LANE_PERF_H

#include <stdbool.h>
#include <stdint.h>
#include <cjson/cJSON.h>

#include "common/err.h"
#include "bench/ps_cluster.h"

#define LP_SIZES_MAX 16
#define LP_LANES_MAX 1000u
#define LP_SIZE_MAX (16u << 20)
#define LP_PORT 4720
#define LP_SERVICE "lane_perf"

enum lp_what {
	LP_LATENCY,		/* round trips, one at a time */
	LP_STREAM,		/* messages one way, one lane */
	LP_MANY,		/* messages one way, many lanes */
	LP_IDLE,		/* many lanes and nothing to do */
	LP_CONNECT,		/* lanes made, one after the other */
	LP_WHATS,
};

enum lp_link {
	LP_LANE,
	LP_TCP,			/* between pods' or (raw) nodes' addresses */
	LP_UNIX,
	LP_LINKS,
};

/* How a process waits for bytes. */
enum lp_wait {
	LP_AUTO,		/* a lane as it comes: spins while it pays */
	LP_SPIN,		/* asks again and again */
	LP_SLEEP,		/* never spins */
	LP_ONE_CPU,		/* the same, both processes on one CPU */
	LP_WAITS,
};

/* How a message gets into the lane and out of it. */
enum lp_way {
	LP_COPY,		/* send and receive, each message */
	LP_IN_PLACE,		/* made in the ring, read there */
	LP_BATCH,		/* copied, but committed many at a time */
	LP_WAYS,
};

enum lp_place { LP_SAME_NODE, LP_CROSS_NODE, LP_PLACES };
extern const char *const lp_places[LP_PLACES];	/* their names */

struct lp_job {
	enum lp_what what;
	enum lp_link link;
	enum lp_wait wait;
	enum lp_way way;
	unsigned int lanes;
	unsigned int ring_bytes;	/* 0: the default */
	unsigned int loose;		/* 1: not kept on any CPU */
	unsigned int ms;		/* of each measurement */
	unsigned int find_s;		/* for the other side to come; 0: 20 */
	unsigned int n_sizes;
	uint32_t sizes[LP_SIZES_MAX];
	bool is_server;
	int report_fd;
	char addr[PS_ADDR_BYTES];	/* the server's */
	char path[PS_DIR_BYTES + 16];	/* of the Unix socket */
};

const char *lp_what_name(enum lp_what w);
const char *lp_wait_name(enum lp_wait w);
const char *lp_way_name(enum lp_way w);
const char *lp_place_name(enum lp_place p);

/* --- lane_job.c --- */

#define LP_WORDS_MAX 24
#define LP_WORD_BYTES 320

/* argv of a child: words point into text; NULL terminated, with room. */
struct lp_words {
	char text[LP_WORDS_MAX][LP_WORD_BYTES];
	char *argv[LP_WORDS_MAX + 3];
};

void lp_job_words(const struct lp_job *j, struct lp_words *w);
/* The reverse, of what follows "role". -EINVAL. */
int lp_job_parse(int argc, char **argv, struct lp_job *j, struct pl_err *err);

/* The command "role". */
int lp_role_main(int argc, char **argv);

/* Each fills a list of rows; see the files of these names. */
int lp_latency_run(const struct lp_job *j, cJSON *rows, struct pl_err *err);
int lp_stream_run(const struct lp_job *j, cJSON *rows, struct pl_err *err);
int lp_many_run(const struct lp_job *j, cJSON *rows, struct pl_err *err);
int lp_idle_run(const struct lp_job *j, cJSON *rows, struct pl_err *err);
int lp_connect_run(const struct lp_job *j, cJSON *rows, struct pl_err *err);

/* --- lane_limits.c --- */

/* What this machine can do at best; NAN: not measured (one CPU). */
struct lp_limits {
	double line_p50_ns, line_p99_ns, line_p999_ns;	/* round trip */
	double memcpy_bytes_per_s;	/* one CPU, within a ring */
	double shared_bytes_per_s;	/* one copies, the other one reads */
};

int lp_limits_measure(unsigned int ms, struct lp_limits *l,
		      struct pl_err *err);

/* The i-th CPU that this process may use, if there are so many. */
void lp_pin(unsigned int i);
/*
 * As the job wants its processes: on a CPU each, or both on one. A lane that is
 * used as it comes is left to the scheduler.
 */
void lp_pin_job(const struct lp_job *j);

#endif
