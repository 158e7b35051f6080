/* bench/ps_pace.c - when gradients are there in a step that overlaps */
#include "bench/ps_pace.h"

#include <errno.h>
#include <time.h>

#include "common/util.h"
#include "bench/ps_job.h"
#include "bench/ps_kernels.h"

/* What the GPU would do in this time is not our business. */
static void sleep_until(uint64_t ns)
{
	struct timespec t = { .tv_sec = (time_t)(ns / 1000000000u),
			      .tv_nsec = (long)(ns % 1000000000u) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) ==
	       EINTR)
		;
}

double ps_pace_share(const struct ps_model *m, uint32_t tensor)
{
	return (double)(m->n_tensors - tensor) / m->n_tensors;
}

void ps_pace_start(const struct ps_job *job, struct ps_pace *p)
{
	double share = job->o.overlap ? PS_FORWARD_SHARE : 1;

	p->backward_at_ns = pl_now_ns() +
			    (uint64_t)((double)job->compute_ns * share);
	if (job->compute_ns)
		sleep_until(p->backward_at_ns);
}

void ps_pace_wait(const struct ps_job *job, uint32_t c)
{
	double ns = (double)job->compute_ns * (1 - PS_FORWARD_SHARE);
	uint64_t first;

	if (!job->o.overlap || !job->pace)
		return;
	first = ps_plan_chunk(&job->plan, c).first;
	ns *= ps_pace_share(job->plan.model,
			    ps_plan_tensor(&job->plan, first));
	sleep_until(job->pace->backward_at_ns + (uint64_t)ns);
}

void ps_pace_step_alone(const struct ps_job *job, uint32_t worker,
			uint32_t step, float *grads, float *params)
{
	for (uint32_t c = 0; c < job->plan.n_chunks; c++) {
		ps_pace_wait(job, c);
		ps_chunk_alone(&job->plan, c, worker, step, grads, params);
	}
}
