/*
 * bench/ps_worker.c - a worker: computes, exchanges, checks the result
 */
#include "bench/ps_role.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "bench/ps_job.h"
#include "bench/ps_kernels.h"
#include "bench/ps_names.h"
#include "bench/ps_near.h"

static int run_steps(const struct ps_job *job, const struct ps_worker_ops *ops,
		     void *state, struct ps_report *r, struct pl_err *err)
{
	uint64_t before = 0, sent0 = 0, received0 = 0;
	uint32_t s;
	int rc;

	for (s = 0; s < job->steps; s++) {
		if (s == job->o.warmup) {
			before = pl_now_ns();
			r->t_first_ns = before;
			ops->bytes(state, &sent0, &received0);
		}
		ps_pace_start(job, job->pace);
		rc = ops->step(state, s, err);
		if (rc) {
			pl_err_prefix(err, "step %u of %u", s + 1, job->steps);
			return rc;
		}
		if (s < job->o.warmup)
			continue;
		r->t_last_ns = pl_now_ns();
		r->step_ns[s - job->o.warmup] = r->t_last_ns - before;
		before = r->t_last_ns;
	}
	ops->bytes(state, &r->sent_bytes, &r->received_bytes);
	r->sent_bytes -= sent0;
	r->received_bytes -= received0;
	return 0;
}

static int check_params(const struct ps_job *job,
			const struct ps_worker_ops *ops, void *state,
			struct ps_report *r, struct pl_err *err)
{
	const bool alone = job->o.strategies == PS_INDEPENDENT;
	const float *p;
	struct ps_chunk k;
	uint32_t c;
	int rc;

	for (c = 0; c < job->plan.n_chunks && !job->o.raw; c++) {
		k = ps_plan_chunk(&job->plan, c);
		p = ops->param(state, c);
		r->checksum += ps_checksum(p, k.n, k.first);
		/* Lossy: what counts is that all workers have the same. */
		if (ps_opts_is_packed(&job->o))
			continue;
		rc = ps_verify(&job->plan, c, alone ? job->o.rank : 0,
			       alone ? 1 : job->o.workers, job->steps, p, err);
		if (rc)
			return rc;
	}
	r->verified = !job->o.raw;
	return 0;
}

static const struct ps_worker_ops *ops_of(const struct ps_opts *o)
{
	if (ps_opts_is_packed(o))
		return &ps_packed_worker;
	if (o->strategies == PS_HIERARCHICAL &&
	    ps_node_of_rank(o, o->rank).first != o->rank)
		return &ps_member_worker;
	if (o->strategies & (PS_RING | PS_HIERARCHICAL))
		return &ps_ring_worker;
	if (o->strategies == PS_INDEPENDENT)
		return &ps_alone_worker;
	return o->transports == PS_PODLANE ? &ps_podlane_worker :
					     &ps_overlay_worker;
}

static int run(const struct ps_job *job, struct ps_report *r,
	       struct pl_err *err)
{
	const struct ps_worker_ops *ops = ops_of(&job->o);
	void *state = NULL;
	int rc;

	rc = ops->open(job, &state, r, err);
	if (rc)
		return rc;
	rc = run_steps(job, ops, state, r, err);
	if (!rc)
		rc = ops->settle(state, err);
	if (!rc)
		rc = check_params(job, ops, state, r, err);
	if (!rc)
		rc = ops->bye(state, err);
	ops->close(state);
	return rc;
}

int ps_worker_main(int argc, char **argv)
{
	struct ps_report r = { .checksum = 0 };
	struct pl_err err = { .code = 0 };
	struct ps_pace pace = { 0 };
	struct ps_job job;
	struct ps_opts o;
	int rc;

	rc = ps_opts_parse(PS_CMD_WORKER, argc, argv, &o, &err);
	if (rc == 1)
		return 0;
	if (rc) {
		fprintf(stderr, "ps_throughput worker: %s\n", err.msg);
		ps_opts_fini(&o);
		return 2;
	}
	memset(&job, 0, sizeof(job));
	rc = ps_job_init(&job, &o, &err);
	if (!rc)
		rc = ps_names_resolve(&job.o, &err);
	job.pace = &pace;
	r.step_ns = calloc(o.steps, sizeof(*r.step_ns));
	if (!rc && !r.step_ns)
		rc = pl_err_set(&err, ENOMEM, "no memory for %u step times",
				o.steps);
	if (!rc)
		run(&job, &r, &err);
	rc = ps_report_end("worker", &job, &r, &err);
	free(r.step_ns);
	ps_job_fini(&job);
	ps_opts_fini(&o);
	return rc;
}
