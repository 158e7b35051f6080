/*
 * bench/ps_lanes.c - names and lane messages of the podlane transport
 */
#include "bench/ps_podlane.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "common/util.h"

void ps_name_service(const struct ps_job *job, uint32_t server, char *buf,
		     size_t size)
{
	snprintf(buf, size, "ps.%u.%u", job->o.port, server);
}

void ps_name_worker(const struct ps_job *job, uint32_t rank, char *buf,
		    size_t size)
{
	snprintf(buf, size, "ps.%u.worker.%u", job->o.port, rank);
}

void ps_name_grads(const struct ps_job *job, uint32_t server, char *buf,
		   size_t size)
{
	snprintf(buf, size, "ps.%u.%u.gradients", job->o.port, server);
}

void ps_name_params(const struct ps_job *job, uint32_t server, char *buf,
		    size_t size)
{
	snprintf(buf, size, "ps.%u.%u.parameters", job->o.port, server);
}

size_t ps_grads_base_at(const struct ps_job *job, uint32_t server)
{
	size_t bytes = ps_plan_server_elems(&job->plan, server) * sizeof(float);

	return (bytes + 7) / 8 * 8;
}

size_t ps_grads_bytes(const struct ps_job *job, uint32_t server)
{
	if (job->o.async)
		return ps_grads_base_at(job, server) + sizeof(uint64_t);
	return ps_plan_server_elems(&job->plan, server) * sizeof(float);
}

uint64_t ps_grads_version(const struct ps_job *job, uint32_t server,
			  uint32_t step)
{
	uint64_t chunks = ps_plan_server_chunks(&job->plan, server);

	return job->o.async ? step * (chunks + 1) + 1 : step * chunks;
}

static bool may_come_yet(int r)
{
	return r == -ECONNREFUSED || r == -EHOSTUNREACH || r == -ENOENT ||
	       r == -ETIMEDOUT;
}

int ps_lane_connect(struct pl_conn *conn, const char *addr,
		    const char *service, const struct pl_lane_opts *opts,
		    unsigned int timeout_s, struct pl_lane **lane,
		    struct pl_err *err)
{
	const struct timespec pause = { .tv_nsec = 20000000 };
	uint64_t end = pl_now_ns() + timeout_s * 1000000000ull;
	int r;

	for (;;) {
		r = pl_connect(conn, addr, service, opts, lane, err);
		if (!may_come_yet(r) || pl_now_ns() >= end)
			break;
		nanosleep(&pause, NULL);
	}
	if (!r)
		pl_err_clear(err);
	return r;
}

int ps_lane_read(struct pl_lane *lane, void *data, size_t len)
{
	ssize_t n = pl_lane_recv(lane, data, len, PL_WAITALL);

	if (n < 0)
		return (int)n;
	return (size_t)n == len ? 0 : -ECONNRESET;
}

int ps_lane_write(struct pl_lane *lane, const void *data, size_t len)
{
	ssize_t n = pl_lane_send(lane, data, len, 0);

	if (n < 0)
		return (int)n;
	return (size_t)n == len ? 0 : -EPIPE;
}

int ps_lane_look(struct pl_lane *lane, struct pl_err *err)
{
	struct ps_welcome w;
	const void *ptr;
	ssize_t n;

	n = pl_lane_peek(lane, sizeof(w), &ptr, PL_DONTWAIT);
	if (n == -EAGAIN)
		return 0;
	if (n < (ssize_t)sizeof(w))
		return n < 0 ? (int)n : -ECONNRESET;
	if (ps_lane_read(lane, &w, sizeof(w)))
		return -ECONNRESET;
	if (w.magic == PS_HELLO_MAGIC && w.code)
		return pl_err_set(err, w.code < 4096 ? (int)w.code : EPROTO,
				  "%.100s", w.text);
	return -EPROTO;
}
