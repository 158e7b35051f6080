/* bench/ps_member.c - a worker that another one of its node sums for */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "bench/ps_kernels.h"
#include "bench/ps_near.h"
#include "bench/ps_overlay.h"
#include "bench/ps_podlane.h"

struct member {
	const struct ps_job *job;
	uint32_t leader;
	struct ps_port port;
	struct ps_link link;
	struct pl_region *grads, *region;	/* podlane */
	float *chunk, *own;			/* TCP: sent, received */
	const float *params;
	uint64_t sent, received;
};

static bool has_regions(const struct member *w)
{
	return w->job->o.transports == PS_PODLANE;
}

static uint64_t own_elems(const struct ps_job *job)
{
	return job->o.raw ? job->plan.chunk_elems : job->plan.elems;
}

/* --- gradients ------------------------------------------------------------ */

static int give_chunk(struct member *w, uint32_t step, uint32_t c,
		      struct pl_err *err)
{
	const struct ps_plan *plan = &w->job->plan;
	struct ps_chunk k = ps_plan_chunk(plan, c);
	size_t len = k.n * sizeof(float);
	float *g = has_regions(w) ?
		(float *)pl_region_data(w->grads) + k.first : w->chunk;
	int rc;

	ps_pace_wait(w->job, c);
	if (!w->job->o.raw)
		ps_fill(plan, c, w->job->o.rank, step, g);
	w->sent += len;
	if (!has_regions(w)) {
		rc = ps_link_send(&w->link, g, len);
		return rc < 0 ? ps_link_error(&w->link, rc, err) : 0;
	}
	rc = pl_region_publish(w->grads, k.first * sizeof(float), len, NULL);
	return rc < 0 ? pl_err_set(err, -rc, "publishing gradients: %s",
				   strerror(-rc)) : 0;
}

/* --- parameters ----------------------------------------------------------- */

static int wait_params(struct member *w, uint32_t step, struct pl_err *err)
{
	uint64_t version = (step + 1ull) * w->job->plan.n_chunks;
	int rc;

	rc = pl_region_wait(w->region, version, -1);
	return rc < 0 ? pl_err_set(err, -rc, "parameters of worker %u: %s",
				   w->leader, rc == -ECONNRESET ?
				   "the worker has ended" : strerror(-rc)) : 0;
}

static int receive_chunk(struct member *w, struct pl_err *err)
{
	struct ps_chunk k;
	uint32_t c;
	int rc = ps_link_recv(&w->link, &c, sizeof(c));

	if (rc == 0 && c >= w->job->plan.n_chunks)
		return pl_err_set(err, EPROTO, "worker %u sent chunk %u",
				  w->leader, c);
	if (rc < 0)
		return ps_link_error(&w->link, rc, err);
	k = ps_plan_chunk(&w->job->plan, c);
	rc = ps_link_recv(&w->link, w->own + (w->job->o.raw ? 0 : k.first),
			  k.n * sizeof(float));
	return rc < 0 ? ps_link_error(&w->link, rc, err) : 0;
}

static int receive_params(struct member *w, struct pl_err *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < w->job->plan.n_chunks && rc == 0; i++)
		rc = receive_chunk(w, err);
	return rc;
}

static int member_step(void *state, uint32_t step, struct pl_err *err)
{
	struct member *w = state;
	int rc = 0;

	for (uint32_t c = 0; c < w->job->plan.n_chunks && rc == 0; c++)
		rc = give_chunk(w, step, c, err);
	if (rc == 0)
		rc = has_regions(w) ? wait_params(w, step, err) :
				      receive_params(w, err);
	w->received += w->job->model_bytes;
	return rc;
}

/* --- beginning and end ---------------------------------------------------- */

static int open_params(struct member *w, struct pl_err *err)
{
	char name[PL_NAME_BYTES];
	int rc;

	ps_name_params(w->job, 0, name, sizeof(name));
	rc = pl_region_open(w->port.conn, w->job->o.peers.text[w->leader],
			    name, (int)w->job->o.timeout_s * 1000, &w->region,
			    err);
	if (rc < 0) {
		pl_err_prefix(err, "parameters of worker %u", w->leader);
		return rc;
	}
	if (pl_region_size(w->region) < w->job->model_bytes)
		return pl_err_set(err, EPROTO, "the parameters of worker %u "
				  "are too small", w->leader);
	w->params = pl_region_data(w->region);
	return 0;
}

static int make_buffers(struct member *w, struct pl_err *err)
{
	char name[PL_NAME_BYTES];

	if (has_regions(w)) {
		ps_name_grads(w->job, 0, name, sizeof(name));
		return pl_region_create(w->port.conn, name,
					w->job->model_bytes, 0, &w->grads,
					err);
	}
	w->chunk = ps_floats_alloc(w->job->plan.chunk_elems, err);
	w->own = w->chunk ? ps_floats_alloc(own_elems(w->job), err) : NULL;
	w->params = w->own;
	return w->own ? 0 : -ENOMEM;
}

static int set_up(struct member *w, struct pl_err *err)
{
	int rc = ps_port_dial(w->job, &w->port, err);

	if (rc == 0)
		rc = make_buffers(w, err);
	if (rc == 0)
		rc = ps_link_connect(&w->port,
				     w->job->o.peers.text[w->leader],
				     w->leader, &w->link, err);
	return rc == 0 && has_regions(w) ? open_params(w, err) : rc;
}

static void member_close(void *state)
{
	struct member *w = state;

	if (w->region)
		pl_region_close(w->region);
	if (w->grads)
		pl_region_close(w->grads);
	ps_link_close(&w->link);
	ps_port_close(&w->port);
	ps_floats_free(w->chunk, w->job->plan.chunk_elems);
	ps_floats_free(w->own, own_elems(w->job));
	free(w);
}

static int member_open(const struct ps_job *job, void **state,
		       struct ps_report *rep, struct pl_err *err)
{
	struct member *w = calloc(1, sizeof(*w));
	int rc;

	if (!w)
		return pl_err_set(err, ENOMEM, "no memory for the worker");
	w->job = job;
	w->leader = ps_node_of_rank(&job->o, job->o.rank).first;
	w->port = PS_PORT_NONE;
	w->link = PS_LINK_NONE;
	rc = set_up(w, err);
	if (rc < 0) {
		member_close(w);
		return rc;
	}
	pl_format(rep->path, sizeof(rep->path), "%s", w->link.path);
	pl_format(rep->param_path, sizeof(rep->param_path), "%s",
		  w->link.path);
	rep->local_sum = true;
	if (w->link.fd >= 0)
		ps_congestion_of(w->link.fd, rep->congestion);
	*state = w;
	return 0;
}

/* The last step ended with all parameters, and nobody changes them. */
static int member_settle(void *state, struct pl_err *err)
{
	(void)state;
	(void)err;
	return 0;
}

static const float *member_param(void *state, uint32_t chunk)
{
	struct member *w = state;

	return w->params + ps_plan_chunk(&w->job->plan, chunk).first;
}

static int member_bye(void *state, struct pl_err *err)
{
	struct member *w = state;
	const char bye = PS_BYE;
	int rc = ps_link_send(&w->link, &bye, 1);

	return rc < 0 ? ps_link_error(&w->link, rc, err) : 0;
}

static void member_bytes(void *state, uint64_t *sent, uint64_t *received)
{
	struct member *w = state;

	*sent = w->sent;
	*received = w->received;
}

const struct ps_worker_ops ps_member_worker = {
	.open = member_open,
	.step = member_step,
	.settle = member_settle,
	.param = member_param,
	.bye = member_bye,
	.bytes = member_bytes,
	.close = member_close,
};
