/* bench/lane_link.c - one byte stream between two processes, of any kind */
#include "bench/lane_link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "common/util.h"
#include "bench/ps_overlay.h"

#define FIND_S 20
#define STUCK_MS 30000

static void nap(void)
{
	const struct timespec ts = { .tv_nsec = 2000000 };

	nanosleep(&ts, NULL);
}

/* How long the other side may take to come. */
static unsigned int find_s(const struct lp_job *j)
{
	return j->find_s ? j->find_s : FIND_S;
}

/* --- Unix sockets --- */

static int unix_addr(const char *path, struct sockaddr_un *sa,
		     struct pl_err *err)
{
	memset(sa, 0, sizeof(*sa));
	sa->sun_family = AF_UNIX;
	if (pl_format(sa->sun_path, sizeof(sa->sun_path), "%s", path) < 0)
		return pl_err_set(err, ENAMETOOLONG, "%s is too long for a "
				  "socket", path);
	return 0;
}

static int unix_listen(const char *path, int *out, struct pl_err *err)
{
	struct sockaddr_un sa;
	int rc = unix_addr(path, &sa, err);
	pl_auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (rc < 0)
		return rc;
	unlink(path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 ||
	    listen(fd, 128) < 0)
		return pl_err_sys(err, "cannot listen on %s", path);
	*out = pl_take_fd(&fd);
	return 0;
}

static int unix_connect(const char *path, unsigned int most_s, int *out,
			struct pl_err *err)
{
	uint64_t end = pl_now_ns() + most_s * 1000000000ull;
	struct sockaddr_un sa;
	int rc = unix_addr(path, &sa, err);
	pl_auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (rc < 0)
		return rc;
	if (fd < 0)
		return pl_err_sys(err, "cannot make a socket");
	while (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0) {
		if (pl_now_ns() > end)
			return pl_err_sys(err, "cannot connect to %s", path);
		nap();
	}
	*out = pl_take_fd(&fd);
	return 0;
}

/* --- ends ----------------------------------------------------------------- */

static struct pl_lane_opts lane_opts(const struct lp_job *j)
{
	return (struct pl_lane_opts){ .ring_bytes = j->ring_bytes };
}

/* A lane takes a few descriptors, and there may be a thousand. */
static void allow_files(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		return;
	r.rlim_cur = r.rlim_max;
	setrlimit(RLIMIT_NOFILE, &r);
}

int lp_ends_init(const struct lp_job *j, struct lp_ends *e, struct pl_err *err)
{
	const struct pl_lane_opts opts = lane_opts(j);
	int rc = 0;

	memset(e, 0, sizeof(*e));
	e->job = j;
	e->listen_fd = -1;
	e->end = calloc(PL_MAX(j->lanes, 1u), sizeof(*e->end));
	if (!e->end)
		return pl_err_set(err, ENOMEM, "out of memory");
	allow_files();
	if (j->link == LP_LANE) {
		rc = pl_open(&e->conn, err);
		if (rc == 0 && j->is_server)
			rc = pl_listen(e->conn, LP_SERVICE, &opts,
				       &e->listener, err);
	} else if (j->is_server && j->link == LP_TCP) {
		rc = ps_tcp_listen(j->addr, LP_PORT, &e->listen_fd, err);
	} else if (j->is_server) {
		rc = unix_listen(j->path, &e->listen_fd, err);
	}
	return rc;
}

static int end_add(struct lp_ends *e, struct lp_end *end)
{
	struct pl_lane_info info;
	char peer[PS_ADDR_BYTES];

	end->link = e->job->link;
	end->wait = e->job->wait;
	if (end->lane) {
		pl_lane_info(end->lane, &info);
		snprintf(end->path, sizeof(end->path), "%s", info.path);
		pl_lane_set_timeout(end->lane, STUCK_MS);
		pl_lane_set_spin(end->lane, end->wait == LP_AUTO);
	} else if (end->link == LP_TCP) {
		ps_tcp_peer(end->fd, peer, sizeof(peer));
		snprintf(end->path, sizeof(end->path), "tcp to %s", peer);
		ps_tcp_timeout(end->fd, STUCK_MS / 1000);
	} else {
		snprintf(end->path, sizeof(end->path), "unix");
	}
	e->end[e->n++] = *end;
	return 0;
}

int lp_end_accept(struct lp_ends *e, struct pl_err *err)
{
	uint64_t end_ns = pl_now_ns() + find_s(e->job) * 1000000000ull;
	struct lp_end end = { .fd = -1 };
	int rc;

	if (e->job->link == LP_LANE)
		rc = pl_accept(e->listener, (int)find_s(e->job) * 1000,
			       &end.lane, err);
	else
		rc = ps_tcp_accept(e->listen_fd, end_ns, &end.fd, err);
	if (rc == -ETIMEDOUT)
		pl_err_set(err, ETIMEDOUT, "the client did not come");
	return rc < 0 ? rc : end_add(e, &end);
}

static int lane_connect(struct lp_ends *e, struct pl_lane **lane,
			struct pl_err *err)
{
	const struct pl_lane_opts opts = lane_opts(e->job);
	uint64_t end = pl_now_ns() + find_s(e->job) * 1000000000ull;
	int rc;

	while ((rc = pl_connect(e->conn, e->job->addr, LP_SERVICE, &opts, lane,
				err)) == -ECONNREFUSED && pl_now_ns() < end)
		nap();
	return rc;
}

int lp_end_connect(struct lp_ends *e, struct pl_err *err)
{
	struct lp_end end = { .fd = -1 };
	int rc;

	if (e->job->link == LP_LANE)
		rc = lane_connect(e, &end.lane, err);
	else if (e->job->link == LP_TCP)
		rc = ps_tcp_connect(e->job->addr, LP_PORT, find_s(e->job),
				    &end.fd, err);
	else
		rc = unix_connect(e->job->path, find_s(e->job), &end.fd, err);
	return rc < 0 ? rc : end_add(e, &end);
}

int lp_ends_open(const struct lp_job *j, struct lp_ends *e, struct pl_err *err)
{
	int rc = lp_ends_init(j, e, err);

	while (rc == 0 && e->n < j->lanes)
		rc = j->is_server ? lp_end_accept(e, err) :
				    lp_end_connect(e, err);
	return rc;
}

void lp_end_close(struct lp_end *end)
{
	pl_lane_close(end->lane);
	pl_close_fd(&end->fd);
	end->lane = NULL;
}

void lp_ends_close(struct lp_ends *e)
{
	while (e->n > 0)
		lp_end_close(&e->end[--e->n]);
	free(e->end);
	pl_unlisten(e->listener);
	pl_close(e->conn);
	pl_close_fd(&e->listen_fd);
}

/* --- bytes ---------------------------------------------------------------- */

static ssize_t send_some(const struct lp_end *end, const void *data, size_t len,
			 bool waits)
{
	ssize_t n;

	if (end->lane)
		return pl_lane_send(end->lane, data, len,
				    waits ? 0 : PL_DONTWAIT);
	n = send(end->fd, data, len, MSG_NOSIGNAL | (waits ? 0 : MSG_DONTWAIT));
	return n < 0 ? -errno : n;
}

static ssize_t recv_some(const struct lp_end *end, void *data, size_t len,
			 bool waits)
{
	ssize_t n;

	if (end->lane)
		return pl_lane_recv(end->lane, data, len,
				    waits ? PL_WAITALL : PL_DONTWAIT);
	n = recv(end->fd, data, len, waits ? MSG_WAITALL : MSG_DONTWAIT);
	return n < 0 ? -errno : n;
}

ssize_t lp_send_now(const struct lp_end *end, const void *data, size_t len)
{
	return send_some(end, data, len, false);
}

ssize_t lp_recv_now(const struct lp_end *end, void *data, size_t len)
{
	return recv_some(end, data, len, false);
}

int lp_end_fd(const struct lp_end *end)
{
	return end->lane ? pl_lane_fd(end->lane) : end->fd;
}

/* Only who spins is told to try again without time having passed. */
static bool again(const struct lp_end *end, ssize_t n)
{
	return n == -EINTR || (n == -EAGAIN && end->wait == LP_SPIN);
}

int lp_send(const struct lp_end *end, const void *data, size_t len)
{
	const char *at = data;

	while (len) {
		ssize_t n = send_some(end, at, len, end->wait != LP_SPIN);

		if (again(end, n))
			continue;
		if (n < 0)
			return (int)n;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

int lp_recv(const struct lp_end *end, void *data, size_t len)
{
	char *at = data;

	while (len) {
		ssize_t n = recv_some(end, at, len, end->wait != LP_SPIN);

		if (again(end, n))
			continue;
		if (n <= 0)
			return n < 0 ? (int)n : -ECONNRESET;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

int lp_told(int rc, struct pl_err *err)
{
	if (rc == -EBADMSG)
		return pl_err_set(err, EBADMSG, "a message is not what was "
				  "sent");
	if (rc < 0)
		return pl_err_set(err, -rc, "the other side: %s",
				  strerror(-rc));
	return 0;
}

ssize_t lp_reserve(const struct lp_end *end, size_t want, void **ptr)
{
	int flags = end->wait == LP_SPIN ? PL_DONTWAIT : 0;
	ssize_t n;

	do {
		n = pl_lane_reserve(end->lane, want, ptr, flags);
	} while (again(end, n));
	return n;
}

ssize_t lp_peek(const struct lp_end *end, size_t want, const void **ptr)
{
	int flags = end->wait == LP_SPIN ? PL_DONTWAIT : 0;
	ssize_t n;

	do {
		n = pl_lane_peek(end->lane, want, ptr, flags);
	} while (again(end, n));
	return n == 0 || (n > 0 && (size_t)n < want) ? -ECONNRESET : n;
}

size_t lp_piece(const struct lp_end *end, size_t size)
{
	struct pl_lane_info info;

	pl_lane_info(end->lane, &info);
	return PL_MIN(size, PL_MIN(info.send_ring_bytes,
				   info.recv_ring_bytes) / 4);
}
