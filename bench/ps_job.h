/*
 * bench/ps_job.h - what the roles of one training job share
 *
 * A job is made from the options of one role. The transports are two tables of
 * functions behind which the worker and the server don't see how bytes travel.
 * All parts of a job say hello with what they were told, and the server refuses
 * a worker that was told something else.
 */
#ifndef BENCH_PS_JOB_H
#define BENCH_PS_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "bench/ps_congestion.h"
#include "bench/ps_options.h"
#include "bench/ps_pace.h"
#include "bench/ps_plan.h"
#include "bench/ps_stale.h"

#define PS_PATH_BYTES 32

struct ps_job {
	struct ps_opts o;
	struct ps_plan plan;
	uint32_t steps;			/* with those of the warm-up */
	uint64_t compute_ns;
	struct ps_pace *pace;		/* of a worker, who has it */
	uint64_t model_bytes;
};

/* What a role found out, for its report. */
struct ps_report {
	char path[PS_PATH_BYTES], param_path[PS_PATH_BYTES];
	char congestion[PS_CONGESTION_BYTES];	/* of the overlay's socket */
	char grad_paths[PS_WORKERS_MAX][PS_PATH_BYTES];	/* server */
	unsigned int n_grad_paths;
	struct ps_stale_sum staleness;	/* server, asynchronous */
	bool local_sum, verified;
	/* Training, worker 0: the test set after each epoch. */
	struct ps_epoch {
		double seconds;		/* since the data was first touched */
		double accuracy;	/* 0 to 1 */
	} curve[PS_EPOCHS_MAX];
	unsigned int n_curve;
	uint64_t *step_ns;		/* one per measured step */
	uint64_t t_first_ns, t_last_ns;
	uint64_t sent_bytes, received_bytes, ns;
	uint64_t checksum;
};

struct ps_worker_ops {
	/* Find all servers and be accepted by them; fills the paths of r. */
	int (*open)(const struct ps_job *job, void **state,
		    struct ps_report *r, struct pl_err *err);
	/* One exchange: returns when the new parameters are all here. */
	int (*step)(void *state, uint32_t step, struct pl_err *err);
	/* Wait until nobody changes the parameters any more. */
	int (*settle)(void *state, struct pl_err *err);
	const float *(*param)(void *state, uint32_t chunk);
	/* Tell the servers that this worker is done. */
	int (*bye)(void *state, struct pl_err *err);
	/* Bytes so far, to and from the servers. */
	void (*bytes)(void *state, uint64_t *sent, uint64_t *received);
	void (*close)(void *state);
};

struct ps_server_ops {
	/* Serve a whole job, then fill paths and checksum of r. */
	int (*run)(const struct ps_job *job, struct ps_report *r,
		   struct pl_err *err);
};

extern const struct ps_worker_ops ps_overlay_worker, ps_podlane_worker,
	ps_ring_worker, ps_alone_worker, ps_packed_worker, ps_member_worker;
extern const struct ps_server_ops ps_overlay_server, ps_podlane_server,
	ps_packed_server;

int ps_job_init(struct ps_job *job, const struct ps_opts *o,
		struct pl_err *err);
void ps_job_fini(struct ps_job *job);

/* Zeroed memory for whole vectors, on huge pages where there are some. */
float *ps_floats_alloc(uint64_t elems, struct pl_err *err);
void ps_floats_free(float *p, uint64_t elems);

#define PS_HELLO_MAGIC 0x50534831u
#define PS_HELLO_VERSION 2u
#define PS_HELLO_ASYNC 0x1u
#define PS_HELLO_RAW 0x2u
#define PS_HELLO_OVERLAP 0x4u
#define PS_HELLO_TRAIN 0x80u
#define PS_HELLO_COMPRESSION 16	/* and the codec_kind */
#define PS_HELLO_STRATEGY 8	/* so far up is the bit of enum ps_strategy */

/* The first message of a worker to each server; same byte order only. */
struct ps_hello {
	uint32_t magic, version;
	uint32_t rank, workers;
	uint32_t server, servers;
	uint32_t steps, flags;
	uint32_t chunk_elems;
	uint32_t carries;	/* workers summed in its gradients; 0: another
				 * worker of its node sends them */
	uint64_t elems;
	char model[32];
};
_Static_assert(sizeof(struct ps_hello) == 80, "no padding");

/* The server's answer: code 0, or an errno and why. */
struct ps_welcome {
	uint32_t magic, code;
	char text[120];
};
_Static_assert(sizeof(struct ps_welcome) == 128, "no padding");

void ps_hello_make(const struct ps_job *job, uint32_t server,
		   struct ps_hello *h);
/* seen[rank] is set; -EINVAL, -EEXIST: this rank was here already. */
int ps_hello_check(const struct ps_job *job, const struct ps_hello *h,
		   bool *seen, struct pl_err *err);
void ps_welcome_make(const struct pl_err *err, struct ps_welcome *w);
int ps_welcome_check(const struct ps_welcome *w, struct pl_err *err);

/* The end of a role: report or summary, message, exit status. */
int ps_report_end(const char *role, const struct ps_job *job,
		  const struct ps_report *r, const struct pl_err *err);

#endif
