/* bench/ps_near_region.c - members' gradients in regions, read by the leader */
#include "bench/ps_near_impl.h"

#include <errno.h>
#include <string.h>

#include "bench/ps_podlane.h"

static int open_grads(struct ps_near *near, struct ps_member *m,
		      struct pl_err *err)
{
	const struct ps_opts *o = &near->job->o;
	char name[PL_NAME_BYTES];
	int rc;

	ps_name_grads(near->job, 0, name, sizeof(name));
	rc = pl_region_open(near->conn, o->peers.text[m->rank], name,
			    (int)o->timeout_s * 1000, &m->region, err);
	if (rc < 0) {
		pl_err_prefix(err, "gradients of worker %u", m->rank);
		return rc;
	}
	if (pl_region_size(m->region) < near->job->model_bytes)
		return pl_err_set(err, EPROTO, "the gradients of worker %u "
				  "are too small", m->rank);
	return 0;
}

int ps_near_region_start(struct ps_near *near, struct pl_err *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < near->n && rc == 0; i++)
		rc = open_grads(near, &near->members[i], err);
	return rc;
}

static int wait_grads(struct ps_near *near, struct ps_member *m,
		      uint64_t version, struct pl_err *err)
{
	int rc;

	do {
		rc = pl_region_wait(m->region, version, PS_SLICE_MS);
	} while (rc == -ETIMEDOUT && !near->stop);
	if (rc == -ETIMEDOUT)
		return pl_err_set(err, ECANCELED, "stopped");
	return rc < 0 ? pl_err_set(err, -rc, "gradients of worker %u: %s",
				   m->rank, rc == -ECONNRESET ?
				   "the worker has ended" : strerror(-rc)) : 0;
}

int ps_near_region_take(struct ps_near *near, uint64_t version,
			const struct ps_chunk *k, const float **src,
			struct pl_err *err)
{
	for (uint32_t i = 0; i < near->n; i++) {
		struct ps_member *m = &near->members[i];
		int rc = wait_grads(near, m, version, err);

		if (rc < 0)
			return rc;
		src[i] = (const float *)pl_region_data(m->region) + k->first;
	}
	return (int)near->n;
}
