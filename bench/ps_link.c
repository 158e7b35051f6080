/* bench/ps_link.c - byte streams between two workers, over any transport */
#include "bench/ps_link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "bench/ps_overlay.h"
#include "bench/ps_podlane.h"

/* Room for a few chunks, so that both ends go on meanwhile. */
#define RING_CHUNKS 4
#define RANK_ANY UINT32_MAX

static bool is_lane(const struct ps_job *job)
{
	return job->o.transports == PS_PODLANE;
}

static struct pl_lane_opts lane_opts(const struct ps_job *job)
{
	struct pl_lane_opts opts = { .ring_bytes = PL_RING_MIN };
	uint64_t want = RING_CHUNKS * (uint64_t)job->plan.chunk_elems *
			sizeof(float);

	while (opts.ring_bytes < want && opts.ring_bytes < PL_RING_MAX)
		opts.ring_bytes *= 2;
	return opts;
}

int ps_port_open(const struct ps_job *job, struct ps_port *port,
		 struct pl_err *err)
{
	const struct pl_lane_opts opts = lane_opts(job);
	const struct ps_opts *o = &job->o;
	char name[PL_NAME_BYTES];
	int rc;

	*port = (struct ps_port){ .job = job, .fd = -1 };
	if (!is_lane(job))
		return ps_tcp_listen(o->bind.n ? o->bind.text[0] : NULL,
				     ps_tcp_port(job, o->rank), &port->fd,
				     err);
	ps_name_worker(job, o->rank, name, sizeof(name));
	rc = pl_open(&port->conn, err);
	if (rc == 0)
		rc = pl_listen(port->conn, name, &opts, &port->listener, err);
	return rc;
}

int ps_port_dial(const struct ps_job *job, struct ps_port *port,
		 struct pl_err *err)
{
	*port = (struct ps_port){ .job = job, .fd = -1 };
	return is_lane(job) ? pl_open(&port->conn, err) : 0;
}

void ps_port_close(struct ps_port *port)
{
	pl_close_fd(&port->fd);
	pl_unlisten(port->listener);
	pl_close(port->conn);
	*port = PS_PORT_NONE;
}

/* --- both ends ------------------------------------------------------------ */

static int begin(const struct ps_job *job, struct ps_link *l,
		 struct pl_err *err)
{
	struct pl_lane_info info;

	if (l->lane) {
		pl_lane_info(l->lane, &info);
		pl_format(l->path, sizeof(l->path), "%s", info.path);
		pl_format(l->peer, sizeof(l->peer), "%s", info.peer);
		return 0;
	}
	ps_tcp_peer(l->fd, l->peer, sizeof(l->peer));
	pl_format(l->path, sizeof(l->path), "%s", ps_tcp_path(job, l->fd));
	l->buf_bytes = job->plan.chunk_elems * sizeof(float);
	l->buf = malloc(l->buf_bytes);
	return l->buf ? 0 : pl_err_set(err, ENOMEM, "out of memory");
}

/* Limit of the greeting; 0: none. */
static void limit(struct ps_link *l, unsigned int seconds)
{
	if (l->lane)
		pl_lane_set_timeout(l->lane, seconds ? (int)seconds * 1000 :
						       -1);
	else
		ps_tcp_timeout(l->fd, seconds);
}

int ps_link_recv(struct ps_link *link, void *data, size_t len)
{
	return link->lane ? ps_lane_read(link->lane, data, len) :
			    ps_tcp_recv(link->fd, data, len);
}

/* --- connecting ----------------------------------------------------------- */

static int greet(const struct ps_job *job, uint32_t rank, struct ps_link *l,
		 struct pl_err *err)
{
	struct ps_welcome answer;
	struct ps_hello hello;
	int rc;

	limit(l, job->o.timeout_s + 5);
	ps_hello_make(job, rank, &hello);
	rc = ps_link_send(l, &hello, sizeof(hello));
	if (rc == 0)
		rc = ps_link_recv(l, &answer, sizeof(answer));
	limit(l, 0);
	return rc < 0 ? ps_link_error(l, rc, err) :
			ps_welcome_check(&answer, err);
}

int ps_link_connect(struct ps_port *port, const char *addr, uint32_t rank,
		    struct ps_link *link, struct pl_err *err)
{
	const struct ps_job *job = port->job;
	const struct pl_lane_opts opts = lane_opts(job);
	char name[PL_NAME_BYTES];
	int rc;

	*link = PS_LINK_NONE;
	ps_name_worker(job, rank, name, sizeof(name));
	if (is_lane(job))
		rc = ps_lane_connect(port->conn, addr, name, &opts,
				     job->o.timeout_s, &link->lane, err);
	else
		rc = ps_tcp_connect(addr, ps_tcp_port(job, rank),
				    job->o.timeout_s, &link->fd, err);
	if (rc == 0)
		rc = begin(job, link, err);
	if (rc == 0)
		rc = greet(job, rank, link, err);
	if (rc < 0)
		pl_err_prefix(err, "worker %u at %s", rank, addr);
	return rc;
}

/* --- accepting ------------------------------------------------------------ */

static int accept_one(struct ps_port *port, uint64_t deadline_ns,
		      struct ps_link *l, struct pl_err *err)
{
	uint64_t now = pl_now_ns();
	int rc;

	if (!is_lane(port->job))
		rc = ps_tcp_accept(port->fd, deadline_ns, &l->fd, err);
	else if (now >= deadline_ns)
		rc = -ETIMEDOUT;
	else
		rc = pl_accept(port->listener,
			       (int)((deadline_ns - now) / 1000000u) + 1,
			       &l->lane, err);
	return rc < 0 ? rc : begin(port->job, l, err);
}

/* 0: it is the one. Others are told why they are not. */
static int welcome(const struct ps_job *job, bool *seen, uint32_t *rank,
		   struct ps_link *l, struct pl_err *err)
{
	struct ps_welcome answer;
	struct ps_hello hello;
	int rc, sent;

	limit(l, 5);
	rc = ps_link_recv(l, &hello, sizeof(hello));
	if (rc < 0)
		return ps_link_error(l, rc, err);
	pl_err_clear(err);
	rc = ps_hello_check(job, &hello, seen, err);
	if (rc == 0 && *rank != RANK_ANY && hello.rank != *rank)
		rc = pl_err_set(err, EINVAL, "worker %u came where worker %u "
				"was awaited: is --peers the same everywhere?",
				hello.rank, *rank);
	ps_welcome_make(err, &answer);
	sent = ps_link_send(l, &answer, sizeof(answer));
	limit(l, 0);
	if (rc == 0)
		*rank = hello.rank;
	return rc < 0 || sent == 0 ? rc : ps_link_error(l, sent, err);
}

static int accept_fit(struct ps_port *port, bool *seen, uint32_t *rank,
		      struct ps_link *link, struct pl_err *err)
{
	const uint32_t want = *rank;
	char who[32];
	uint64_t end = pl_now_ns() + port->job->o.timeout_s * 1000000000ull;
	struct pl_err last = { .code = 0 };
	int rc;

	pl_format(who, sizeof(who), want == RANK_ANY ? "a worker" : "worker %u",
		  want);
	for (;;) {
		*link = PS_LINK_NONE;
		rc = accept_one(port, end, link, err);
		if (rc < 0)
			break;
		rc = welcome(port->job, seen, rank, link, &last);
		if (rc == 0)
			return 0;
		ps_link_close(link);
	}
	if (rc == -ETIMEDOUT)
		pl_err_set(err, ETIMEDOUT, "%s did not come within %u s%s%s",
			   who, port->job->o.timeout_s,
			   last.code ? ": " : "", last.code ? last.msg : "");
	return rc;
}

int ps_link_accept(struct ps_port *port, uint32_t rank, struct ps_link *link,
		   struct pl_err *err)
{
	bool seen[PS_WORKERS_MAX] = { false };

	return accept_fit(port, seen, &rank, link, err);
}

int ps_link_accept_any(struct ps_port *port, bool *seen, uint32_t *rank,
		       struct ps_link *link, struct pl_err *err)
{
	*rank = RANK_ANY;
	return accept_fit(port, seen, rank, link, err);
}

/* --- bytes ---------------------------------------------------------------- */

void ps_link_close(struct ps_link *link)
{
	pl_lane_close(link->lane);
	pl_close_fd(&link->fd);
	free(link->buf);
	*link = PS_LINK_NONE;
}

int ps_link_send(struct ps_link *link, const void *data, size_t len)
{
	return link->lane ? ps_lane_write(link->lane, data, len) :
			    ps_tcp_send(link->fd, data, len);
}

int ps_link_peek(struct ps_link *link, size_t len, const void **data)
{
	ssize_t n;
	int rc;

	if (!link->lane) {
		rc = ps_tcp_recv(link->fd, link->buf, len);
		*data = link->buf;
		return rc;
	}
	n = pl_lane_peek(link->lane, len, data, 0);
	if (n < 0)
		return (int)n;
	return (size_t)n < len ? -ECONNRESET : 0;
}

int ps_link_consume(struct ps_link *link, size_t len)
{
	return link->lane ? pl_lane_consume(link->lane, len) : 0;
}

int ps_link_error(const struct ps_link *link, int rc, struct pl_err *err)
{
	if (rc == -ECONNRESET || rc == -EPIPE)
		return pl_err_set(err, ECONNRESET, "the worker at %s has "
				  "ended", link->peer);
	return pl_err_set(err, -rc, "link with the worker at %s: %s",
			  link->peer, strerror(-rc));
}
