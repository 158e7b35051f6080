/*
 * bench/ps_outcome.h - the reports of one run's roles, put together
 */
#ifndef BENCH_PS_OUTCOME_H
#define BENCH_PS_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "bench/ps_child.h"
#include "bench/ps_job.h"
#include "bench/ps_nic.h"
#include "bench/ps_options.h"
#include "bench/ps_stale.h"

struct ps_outcome {
	uint64_t t_first_ns, t_last_ns;	/* from the first to the last worker */
	double *step_ns;		/* of the slowest worker, per step */
	unsigned int steps;
	char path[64];			/* "shm"; "tcp+shm" when they differ */
	char grad_path[64], param_path[64];	/* each direction alone */
	struct ps_nic nic;		/* of worker 0 */
	char congestion[64];		/* of the workers' sockets, so too */
	struct ps_stale_sum staleness;	/* of all servers */
	bool local_sum, verified;
	uint64_t checksum;
	double sent_bytes;		/* of all workers */
	struct ps_epoch curve[PS_EPOCHS_MAX];	/* --train */
	unsigned int n_curve;
};

/*
 * Read the servers' (PS_SERVER has some) and the workers' reports. -EPROTO: one
 * of them is not as ps_role.h says; -EBADMSG: parameters differ between them.
 * fini frees.
 */
int ps_outcome_read(const struct ps_opts *o, enum ps_strategy strategy,
		    const struct ps_child *c, unsigned int n,
		    struct ps_outcome *out, struct pl_err *err);
void ps_outcome_fini(struct ps_outcome *out);

/* Put a word into a list of words with "+" between them, each once. */
void ps_outcome_list(char *list, size_t size, const char *word);

/* The quantile q (0 to 1) of the step times, in milliseconds. */
double ps_outcome_step_ms(const struct ps_outcome *out, double q);

/* The sum of the rates of raw-send's reports, both directions. */
int ps_outcome_raw(const struct ps_child *c, unsigned int n,
		   double *bytes_per_s, struct pl_err *err);

#endif
