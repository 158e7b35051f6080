/*
 * bench/ps_alone.c - a worker that exchanges nothing: the upper bound
 *
 * It fills its gradients and updates parameters of its own with them.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/util.h"
#include "bench/ps_job.h"
#include "bench/ps_kernels.h"

struct alone {
	const struct ps_job *job;
	float *grads, *params;
};

static int alone_step(void *state, uint32_t step, struct pl_err *err)
{
	struct alone *w = state;

	(void)err;
	if (!w->job->o.raw)
		ps_pace_step_alone(w->job, w->job->o.rank, step, w->grads,
				   w->params);
	return 0;
}

static void alone_close(void *state)
{
	struct alone *w = state;

	ps_floats_free(w->grads, w->job->plan.elems);
	ps_floats_free(w->params, w->job->plan.elems);
	free(w);
}

static int alone_open(const struct ps_job *job, void **state,
		      struct ps_report *rep, struct pl_err *err)
{
	const struct ps_plan *plan = &job->plan;
	struct alone *w = calloc(1, sizeof(*w));

	if (!w)
		return pl_err_set(err, ENOMEM, "no memory for the worker");
	w->job = job;
	w->grads = ps_floats_alloc(plan->elems, err);
	w->params = w->grads ? ps_floats_alloc(plan->elems, err) : NULL;
	if (!w->params) {
		alone_close(w);
		return -ENOMEM;
	}
	ps_params_init_all(plan, w->params);
	pl_format(rep->path, sizeof(rep->path), "none");
	pl_format(rep->param_path, sizeof(rep->param_path), "none");
	*state = w;
	return 0;
}

static int nothing(void *state, struct pl_err *err)
{
	(void)state;
	(void)err;
	return 0;
}

static const float *alone_param(void *state, uint32_t chunk)
{
	struct alone *w = state;

	return w->params + ps_plan_chunk(&w->job->plan, chunk).first;
}

static void alone_bytes(void *state, uint64_t *sent, uint64_t *received)
{
	(void)state;
	*sent = *received = 0;
}

const struct ps_worker_ops ps_alone_worker = {
	.open = alone_open,
	.step = alone_step,
	.settle = nothing,
	.param = alone_param,
	.bye = nothing,
	.bytes = alone_bytes,
	.close = alone_close,
};
