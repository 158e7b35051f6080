/*
 * bench/ps_solo.c - one worker that exchanges nothing, and memory needed
 *
 * What a step costs a worker that trains alone: it computes, fills its
 * gradients and updates parameters of its own with them, chunk by chunk.
 */
#include "bench/ps_bench.h"

#include <errno.h>
#include <string.h>

#include "common/util.h"
#include "bench/ps_job.h"
#include "bench/ps_kernels.h"
#include "bench/ps_role.h"
#include "bench/ps_stats.h"

#define SOLO_STEPS 3
/* A process beside its big arrays: code, stacks, rings, socket buffers. */
#define PROCESS_BYTES (24u << 20)

static int solo_steps(const struct ps_bench *b, const struct ps_job *job,
		      double *seconds, struct pl_err *err)
{
	float *grads = ps_floats_alloc(job->plan.elems, err);
	float *params = grads ? ps_floats_alloc(job->plan.elems, err) : NULL;
	double s[SOLO_STEPS];
	int rc = params ? 0 : -ENOMEM;

	/* The first step touches all of the memory and does not count. */
	for (uint32_t i = 0; i <= SOLO_STEPS && rc == 0; i++) {
		uint64_t start = pl_now_ns();

		ps_pace_start(job, job->pace);
		ps_pace_step_alone(job, 0, i, grads, params);
		if (i > 0)
			s[i - 1] = (double)(pl_now_ns() - start) / 1e9;
		if (ps_watch_interrupted(&b->watch))
			rc = pl_err_set(err, EINTR, "interrupted");
	}
	ps_floats_free(params, job->plan.elems);
	ps_floats_free(grads, job->plan.elems);
	if (rc == 0)
		*seconds = ps_median(s, SOLO_STEPS);
	return rc;
}

int ps_solo_step(const struct ps_bench *b, const struct ps_model *m,
		 double *seconds, struct pl_err *err)
{
	struct ps_opts o = b->o;
	struct ps_pace pace = { 0 };
	struct ps_job job;
	int rc;

	memset(&job, 0, sizeof(job));
	o.models[0] = m;
	o.n_models = 1;
	rc = ps_job_init(&job, &o, err);
	job.pace = &pace;
	if (rc == 0)
		rc = solo_steps(b, &job, seconds, err);
	ps_job_fini(&job);
	return rc;
}

/*
 * In models: the overlay keeps gradients and parameters in each worker, and
 * the parameters in the servers; regions exist once a node, and all of
 * them may be read on the other node.
 */
static unsigned int models_needed(const struct ps_opts *o)
{
	unsigned int need = 2;		/* alone */

	if (o->transports & (PS_OVERLAY | PS_HOST) ||
	    o->strategies & (PS_RING | PS_HIERARCHICAL))
		need = PL_MAX(need, 2 * o->workers + 1);
	if (o->transports & PS_PODLANE && o->placements & PS_SAME_NODE)
		need = PL_MAX(need, o->workers + 1);
	if (o->transports & PS_PODLANE &&
	    o->placements & (PS_CROSS_NODE | PS_SPREAD))
		need = PL_MAX(need, 2 * o->workers + 2);
	return need;
}

uint64_t ps_memory_need(const struct ps_opts *o)
{
	uint64_t elems = 0, bw = ps_memory_bandwidth_need();

	for (unsigned int i = 0; i < o->n_models; i++)
		elems = PL_MAX(elems, o->models[i]->elems);
	/* Of a worker sums, and what codecs keep; of the server messages. */
	elems = elems * sizeof(float) * (models_needed(o) +
		(o->compressions >> 1 ? 6 * o->workers + 2 : 0));
	return PL_MAX(elems, bw) + (uint64_t)PROCESS_BYTES *
	       (o->workers + o->servers + 2 * PS_NODES + 2);
}
