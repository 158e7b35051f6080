/* bench/ps_near.c - a leader's side, over any transport */
#include "bench/ps_near_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "bench/ps_podlane.h"

struct ps_node ps_node_at(const struct ps_opts *o, uint32_t index)
{
	struct ps_node n = { .index = index, .workers = o->nodes[index] };

	for (uint32_t i = 0; i < index; i++)
		n.first += o->nodes[i];
	return n;
}

struct ps_node ps_node_of_rank(const struct ps_opts *o, uint32_t rank)
{
	struct ps_node n = ps_node_at(o, 0);

	while (n.index + 1 < o->n_nodes && rank >= n.first + n.workers)
		n = ps_node_at(o, n.index + 1);
	return n;
}

static bool has_regions(const struct ps_near *near)
{
	return near->job->o.transports == PS_PODLANE;
}

static size_t params_elems(const struct ps_job *job)
{
	return job->o.raw ? job->plan.chunk_elems : job->plan.elems;
}

static int make_params(struct ps_near *near, struct pl_err *err)
{
	char name[PL_NAME_BYTES];
	int rc;

	if (!has_regions(near)) {
		near->params = ps_floats_alloc(params_elems(near->job), err);
		return near->params ? 0 : -ENOMEM;
	}
	ps_name_params(near->job, 0, name, sizeof(name));
	rc = pl_open(&near->conn, err);
	if (rc == 0)
		rc = pl_region_create(near->conn, name,
				      near->job->plan.elems * sizeof(float), 0,
				      &near->region, err);
	if (rc == 0)
		near->params = pl_region_data(near->region);
	return rc;
}

int ps_near_create(const struct ps_job *job, struct ps_near **near,
		   struct pl_err *err)
{
	struct ps_node node = ps_node_of_rank(&job->o, job->o.rank);
	struct ps_near *n = calloc(1, sizeof(*n));
	int rc;

	if (!n)
		return pl_err_set(err, ENOMEM, "out of memory");
	n->job = job;
	pthread_mutex_init(&n->lock, NULL);
	pthread_cond_init(&n->moved, NULL);
	n->members = calloc(node.workers, sizeof(*n->members));
	n->order = calloc(job->plan.n_chunks, sizeof(*n->order));
	rc = n->members && n->order ? make_params(n, err) :
	     pl_err_set(err, ENOMEM, "out of memory");
	if (rc < 0) {
		ps_near_destroy(n);
		return rc;
	}
	*near = n;
	return 0;
}

void ps_near_add(struct ps_near *near, uint32_t rank,
		 const struct ps_link *link)
{
	near->members[near->n++] = (struct ps_member){
		.near = near, .rank = rank, .link = *link };
}

int ps_near_start(struct ps_near *near, struct pl_err *err)
{
	return has_regions(near) ? ps_near_region_start(near, err) :
				   ps_near_tcp_start(near, err);
}

float *ps_near_params(struct ps_near *near)
{
	return near->params;
}

int ps_near_take(struct ps_near *near, uint32_t step, uint32_t c,
		 const float **src, struct pl_err *err)
{
	struct ps_chunk k;
	uint64_t chunks;

	if (!near)
		return 0;
	k = ps_plan_chunk(&near->job->plan, c);
	chunks = (uint64_t)step * near->job->plan.n_chunks + c + 1;
	return has_regions(near) ?
		ps_near_region_take(near, chunks, &k, src, err) :
		ps_near_tcp_take(near, chunks, &k, src, err);
}

int ps_near_give(struct ps_near *near, uint32_t c, struct pl_err *err)
{
	struct ps_chunk k;
	int rc;

	if (!near)
		return 0;
	if (!has_regions(near))
		return ps_near_tcp_give(near, c, err);
	k = ps_plan_chunk(&near->job->plan, c);
	rc = pl_region_publish(near->region, k.first * sizeof(float),
			       k.n * sizeof(float), NULL);
	return rc < 0 ? pl_err_set(err, -rc, "publishing parameters: %s",
				   strerror(-rc)) : 0;
}

int ps_near_bye(struct ps_near *near, struct pl_err *err)
{
	char bye;
	int rc = 0;

	if (!near)
		return 0;
	if (!has_regions(near))
		return ps_near_tcp_bye(near, err);
	for (uint32_t i = 0; i < near->n && rc == 0; i++) {
		rc = ps_link_recv(&near->members[i].link, &bye, 1);
		if (rc < 0)
			ps_link_error(&near->members[i].link, rc, err);
	}
	return rc;
}

void ps_near_stop(struct ps_near *near)
{
	if (!near)
		return;
	pthread_mutex_lock(&near->lock);
	near->stop = true;
	pthread_cond_broadcast(&near->moved);
	pthread_mutex_unlock(&near->lock);
}

void ps_near_destroy(struct ps_near *near)
{
	if (!near)
		return;
	ps_near_stop(near);
	if (!has_regions(near))
		ps_near_tcp_end(near);
	for (uint32_t i = 0; i < near->n; i++) {
		struct ps_member *m = &near->members[i];

		if (m->region)
			pl_region_close(m->region);
		ps_link_close(&m->link);
		ps_floats_free(m->grads, near->job->plan.elems);
	}
	if (near->region)
		pl_region_close(near->region);
	else
		ps_floats_free(near->params, params_elems(near->job));
	pl_close(near->conn);
	pthread_cond_destroy(&near->moved);
	pthread_mutex_destroy(&near->lock);
	free(near->order);
	free(near->members);
	free(near);
}
