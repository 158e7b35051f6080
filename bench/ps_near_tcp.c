/*
 * bench/ps_near_tcp.c - members' gradients over TCP
 *
 * Two threads for each member: one receives, as the leader sums in an order of
 * its own, the other one sends what is ready.
 */
#include "bench/ps_near_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static void failed(struct ps_member *m, int rc)
{
	struct ps_near *near = m->near;

	pthread_mutex_lock(&near->lock);
	if (!near->failure.code)
		ps_link_error(&m->link, rc, &near->failure);
	pthread_cond_broadcast(&near->moved);
	pthread_mutex_unlock(&near->lock);
}

static void *receive_main(void *arg)
{
	struct ps_member *m = arg;
	struct ps_near *near = m->near;
	const struct ps_plan *plan = &near->job->plan;
	uint64_t all = (uint64_t)near->job->steps * plan->n_chunks;
	char bye;
	int rc = 0;

	for (uint64_t i = 0; i < all && rc == 0; i++) {
		struct ps_chunk k = ps_plan_chunk(plan, (uint32_t)(i %
							plan->n_chunks));

		rc = ps_link_recv(&m->link, m->grads + k.first,
				  k.n * sizeof(float));
		if (rc < 0)
			break;
		pthread_mutex_lock(&near->lock);
		m->came++;
		pthread_cond_broadcast(&near->moved);
		pthread_mutex_unlock(&near->lock);
	}
	if (rc == 0)
		rc = ps_link_recv(&m->link, &bye, 1);
	if (rc < 0)
		failed(m, rc);
	return NULL;
}

static bool wait_given(struct ps_near *near, uint64_t i)
{
	bool ok;

	pthread_mutex_lock(&near->lock);
	while (near->given <= i && !near->failure.code && !near->stop)
		pthread_cond_wait(&near->moved, &near->lock);
	ok = near->given > i;
	pthread_mutex_unlock(&near->lock);
	return ok;
}

static void *send_main(void *arg)
{
	struct ps_member *m = arg;
	struct ps_near *near = m->near;
	const struct ps_plan *plan = &near->job->plan;
	uint64_t all = (uint64_t)near->job->steps * plan->n_chunks;

	for (uint64_t i = 0; i < all && wait_given(near, i); i++) {
		uint32_t c = near->order[i % plan->n_chunks];
		struct ps_chunk k = ps_plan_chunk(plan, c);
		const float *p = near->params +
				 (near->job->o.raw ? 0 : k.first);
		int rc = ps_link_send(&m->link, &c, sizeof(c));

		if (rc == 0)
			rc = ps_link_send(&m->link, p, k.n * sizeof(float));
		if (rc < 0) {
			failed(m, rc);
			break;
		}
	}
	return NULL;
}

static int start_one(struct ps_member *m, struct pl_err *err)
{
	int rc;

	m->grads = ps_floats_alloc(m->near->job->plan.elems, err);
	if (!m->grads)
		return -ENOMEM;
	rc = pthread_create(&m->receiver, NULL, receive_main, m);
	m->receives = rc == 0;
	if (rc == 0)
		rc = pthread_create(&m->sender, NULL, send_main, m);
	m->sends = m->receives && rc == 0;
	return rc ? pl_err_set(err, rc, "starting a thread: %s",
			       strerror(rc)) : 0;
}

int ps_near_tcp_start(struct ps_near *near, struct pl_err *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < near->n && rc == 0; i++)
		rc = start_one(&near->members[i], err);
	return rc;
}

/* near->lock is held. */
static bool all_came(const struct ps_near *near, uint64_t chunks)
{
	for (uint32_t i = 0; i < near->n; i++)
		if (near->members[i].came < chunks)
			return false;
	return true;
}

int ps_near_tcp_take(struct ps_near *near, uint64_t chunks,
		     const struct ps_chunk *k, const float **src,
		     struct pl_err *err)
{
	int rc = (int)near->n;

	pthread_mutex_lock(&near->lock);
	while (!all_came(near, chunks) && !near->failure.code && !near->stop)
		pthread_cond_wait(&near->moved, &near->lock);
	if (!all_came(near, chunks)) {
		if (near->failure.code)
			*err = near->failure;
		else
			pl_err_set(err, ECANCELED, "stopped");
		rc = -err->code;
	}
	pthread_mutex_unlock(&near->lock);
	for (uint32_t i = 0; i < near->n; i++)
		src[i] = near->members[i].grads + k->first;
	return rc;
}

int ps_near_tcp_give(struct ps_near *near, uint32_t c, struct pl_err *err)
{
	int rc;

	pthread_mutex_lock(&near->lock);
	near->order[near->given % near->job->plan.n_chunks] = c;
	near->given++;
	pthread_cond_broadcast(&near->moved);
	rc = -near->failure.code;
	if (rc < 0)
		*err = near->failure;
	pthread_mutex_unlock(&near->lock);
	return rc;
}

static void join(struct ps_near *near)
{
	for (uint32_t i = 0; i < near->n; i++) {
		struct ps_member *m = &near->members[i];

		if (m->sends)
			pthread_join(m->sender, NULL);
		if (m->receives)
			pthread_join(m->receiver, NULL);
		m->sends = m->receives = false;
	}
}

int ps_near_tcp_bye(struct ps_near *near, struct pl_err *err)
{
	join(near);
	if (near->failure.code)
		*err = near->failure;
	return -near->failure.code;
}

void ps_near_tcp_end(struct ps_near *near)
{
	for (uint32_t i = 0; i < near->n; i++)
		if (near->members[i].link.fd >= 0)
			shutdown(near->members[i].link.fd, SHUT_RDWR);
	join(near);
}
