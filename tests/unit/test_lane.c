/*
 * tests/unit/test_lane.c - bytes over a lane, between processes and threads
 *
 * Each way of sending meets each way of receiving, in pieces of random length.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <cmocka.h>

#include "common/util.h"
#include "tests/unit/lane_pair.h"

#define RING PL_RING_MIN
#define TOTAL ((12u << 20) / SLOWER)
#define BUF (RING * 2)

/* One direction of a transfer; 0, or where it failed. */
typedef int transfer(struct pl_lane *l, uint64_t total);

/* --- ways to send --------------------------------------------------------- */

static int send_by(struct pl_lane *l, uint64_t total, int flags)
{
	unsigned char *buf = malloc(BUF);
	unsigned int seed = 1;
	uint64_t at = 0;

	while (at < total) {
		size_t n = piece(&seed, BUF, total - at);
		ssize_t r;

		bytes_fill(buf, at, n);
		r = pl_lane_send(l, buf, n, flags);
		if (r == -EAGAIN && pl_lane_wait(l, PL_OUT, 20000) == PL_OUT)
			continue;
		if (r <= 0 || (!flags && r != (ssize_t)n))
			break;
		at += (uint64_t)r;
	}
	free(buf);
	return at == total ? 0 : 1;
}

static int send_waiting(struct pl_lane *l, uint64_t total)
{
	return send_by(l, total, 0);
}

static int send_dontwait(struct pl_lane *l, uint64_t total)
{
	return send_by(l, total, PL_DONTWAIT);
}

/* Cut n bytes at buf into buffers, some of them empty; their number. */
#define VEC 7
static int cut(unsigned int *seed, struct iovec *v, unsigned char *buf,
	       size_t n)
{
	int i;

	for (i = 0; i < VEC - 1; i++) {
		size_t len = rand_r(seed) % 4 ? piece(seed, BUF, n) : 0;

		len = PL_MIN(len, n);
		v[i] = (struct iovec){ len ? buf : NULL, len };
		buf += len;
		n -= len;
	}
	v[i] = (struct iovec){ buf, n };
	return VEC;
}

static int send_gather(struct pl_lane *l, uint64_t total)
{
	unsigned char *buf = malloc(BUF);
	unsigned int seed = 6;
	struct iovec v[VEC];
	uint64_t at = 0;

	while (at < total) {
		size_t n = piece(&seed, BUF, total - at);
		int flags = rand_r(&seed) % 2 ? PL_DONTWAIT : 0;
		ssize_t r;

		bytes_fill(buf, at, n);
		r = pl_lane_sendv(l, v, cut(&seed, v, buf, n), flags);
		if (flags && r == -EAGAIN)
			continue;
		if (r <= 0 || (!flags && r != (ssize_t)n))
			break;
		at += (uint64_t)r;
	}
	free(buf);
	return at == total ? 0 : 1;
}

/* Half a ring at most: two that each wait for more could wait for ever. */
static int send_in_place(struct pl_lane *l, uint64_t total)
{
	unsigned int seed = 2;
	uint64_t at = 0;

	while (at < total) {
		size_t n = piece(&seed, RING / 2, total - at), half = n / 2;
		void *p;
		ssize_t r = pl_lane_reserve(l, n, &p, 0);

		if (r < (ssize_t)n || r > (ssize_t)RING)
			return 2;
		bytes_fill(p, at, n);
		if (pl_lane_commit(l, half) || pl_lane_commit(l, n - half))
			return 3;
		at += n;
	}
	return 0;
}

/* --- ways to receive ------------------------------------------------------ */

/* Takes what a receiving call returned; 1: go on, 0: the end. */
static int take(const void *buf, ssize_t r, uint64_t *at)
{
	if (r <= 0)
		return (int)r;
	if (!bytes_same(buf, *at, (size_t)r))
		return -EBADMSG;
	*at += (uint64_t)r;
	return 1;
}

static int recv_by(struct pl_lane *l, uint64_t total, int flags)
{
	unsigned char *buf = malloc(BUF);
	unsigned int seed = 3;
	uint64_t at = 0;
	int rc = 1;

	while (rc == 1) {
		size_t n = piece(&seed, BUF, BUF);
		ssize_t r = pl_lane_recv(l, buf, n, flags);

		if (r == -EAGAIN && pl_lane_wait(l, PL_IN, 20000) == PL_IN)
			continue;
		if (flags == PL_WAITALL && r != (ssize_t)n && at + n <= total)
			r = -EBADMSG;
		rc = take(buf, r, &at);
	}
	free(buf);
	return rc == 0 && at == total ? 0 : 4;
}

static int recv_scatter(struct pl_lane *l, uint64_t total)
{
	static const int flags[] = { 0, PL_WAITALL, PL_DONTWAIT };
	unsigned char *buf = malloc(BUF);
	unsigned int seed = 7;
	struct iovec v[VEC];
	uint64_t at = 0;
	int rc = 1;

	while (rc == 1) {
		size_t n = piece(&seed, BUF, BUF);
		int how = flags[rand_r(&seed) % 3];
		ssize_t r;

		memset(buf, 0, n);
		r = pl_lane_recvv(l, v, cut(&seed, v, buf, n), how);
		if (how == PL_DONTWAIT && r == -EAGAIN)
			continue;
		if (how == PL_WAITALL && r != (ssize_t)n && at + n <= total)
			r = -EBADMSG;
		rc = take(buf, r, &at);
	}
	free(buf);
	return rc == 0 && at == total ? 0 : 13;
}

static int recv_waiting(struct pl_lane *l, uint64_t total)
{
	return recv_by(l, total, 0);
}

static int recv_all(struct pl_lane *l, uint64_t total)
{
	return recv_by(l, total, PL_WAITALL);
}

static int recv_dontwait(struct pl_lane *l, uint64_t total)
{
	return recv_by(l, total, PL_DONTWAIT);
}

static int recv_in_place(struct pl_lane *l, uint64_t total)
{
	unsigned int seed = 4;
	uint64_t at = 0;
	int rc = 1;

	while (rc == 1) {
		size_t want = piece(&seed, RING / 2, RING);
		const void *p;
		ssize_t r = pl_lane_peek(l, want, &p, 0);

		if (r > 0 && r < (ssize_t)want && at + want <= total)
			return 5;
		r = r > (ssize_t)want ? (ssize_t)want : r;
		rc = take(p, r, &at);
		if (rc == 1 && pl_lane_consume(l, (size_t)r))
			return 6;
	}
	return rc == 0 && at == total ? 0 : 7;
}

/* By the descriptor only, a part at a time: level-triggered or stuck. */
static int recv_polled(struct pl_lane *l, uint64_t total)
{
	struct pollfd p = { .fd = pl_lane_fd(l), .events = POLLIN };
	unsigned char buf[300];
	unsigned int seed = 5;
	uint64_t at = 0;
	int rc = 1;

	while (rc == 1) {
		size_t n = piece(&seed, sizeof(buf), sizeof(buf));
		ssize_t r;

		if (poll(&p, 1, 20000) != 1)
			return 8;
		r = pl_lane_recv(l, buf, n, PL_DONTWAIT);
		if (r != -EAGAIN)
			rc = take(buf, r, &at);
	}
	return rc == 0 && at == total ? 0 : 9;
}

/* The same with epoll, edge-triggered: reads until nothing is there. */
static int recv_edges(struct pl_lane *l, uint64_t total)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	unsigned char buf[3000];
	uint64_t at = 0;
	int rc = 1;

	pl_auto_fd ep = epoll_create1(EPOLL_CLOEXEC);

	if (epoll_ctl(ep, EPOLL_CTL_ADD, pl_lane_fd(l), &ev) < 0)
		return 10;
	while (rc == 1) {
		ssize_t r = pl_lane_recv(l, buf, sizeof(buf), PL_DONTWAIT);

		if (r != -EAGAIN)
			rc = take(buf, r, &at);
		else if (epoll_wait(ep, &ev, 1, 20000) != 1)
			return 11;
	}
	return rc == 0 && at == total ? 0 : 12;
}

static transfer *const senders[] = { send_waiting, send_dontwait,
				     send_in_place, send_gather };
static transfer *const receivers[] = { recv_waiting, recv_all, recv_dontwait,
				       recv_in_place, recv_polled, recv_edges,
				       recv_scatter };

/* --- processes ------------------------------------------------------------ */

static void two_processes(transfer *out, transfer *in)
{
	struct lane_parts p;
	struct pl_lane *l;
	pid_t pid;

	lane_parts_init(&p, RING);
	pid = fork();
	if (pid == 0) {
		int rc;

		alarm(120);
		l = lane_alone(&p, 1);
		rc = out(l, TOTAL);
		pl_lane_close(l);
		_exit(rc);
	}
	l = lane_alone(&p, 0);
	assert_int_equal(in(l, TOTAL), 0);
	assert_int_equal(child_status(pid), 0);
	pl_lane_close(l);
}

static void every_way_to_every_way(void **state)
{
	(void)state;
	for (size_t s = 0; s < PL_ARRAY_SIZE(senders); s++)
		for (size_t r = 0; r < PL_ARRAY_SIZE(receivers); r++)
			two_processes(senders[s], receivers[r]);
}

/* Ask and answer: each wait is for the other end's next step. */
static int echo(struct pl_lane *l, int rounds, int server)
{
	char buf[64];

	for (int i = 0; i < rounds; i++) {
		if (!server && pl_lane_send(l, &i, sizeof(i), 0) != sizeof(i))
			return 1;
		if (pl_lane_recv(l, buf, sizeof(i), PL_WAITALL) != sizeof(i) ||
		    memcmp(buf, &i, sizeof(i)))
			return 2;
		if (server && pl_lane_send(l, &i, sizeof(i), 0) != sizeof(i))
			return 3;
	}
	return 0;
}

/* How they wait: as it comes; always asleep, with a limit and without. */
static struct pl_lane *wait_how(struct pl_lane *l, int how)
{
	pl_lane_set_spin(l, how == 0);
	pl_lane_set_timeout(l, how == 1 ? 60000 : -1);
	return l;
}

static void ping_pong(void **state)
{
	const int rounds = 20000 / SLOWER;

	(void)state;
	for (int how = 0; how < 3; how++) {
		struct lane_parts p;
		struct pl_lane *l;
		pid_t pid;

		lane_parts_init(&p, RING);
		pid = fork();
		if (pid == 0) {
			alarm(120);
			l = wait_how(lane_alone(&p, 1), how);
			_exit(echo(l, rounds, 1));
		}
		l = wait_how(lane_alone(&p, 0), how);
		assert_int_equal(echo(l, rounds, 0), 0);
		assert_int_equal(child_status(pid), 0);
		pl_lane_close(l);
	}
}

/* --- threads -------------------------------------------------------------- */

struct job {
	struct pl_lane *l;
	transfer *fn;
	int is_sender, rc;
	pthread_t thread;
};

static void *run_job(void *arg)
{
	struct job *j = arg;

	j->rc = j->fn(j->l, TOTAL / 2);
	if (j->is_sender)
		pl_lane_shutdown(j->l);
	return NULL;
}

/* Both ends send and receive at once, and share a doorbell for that. */
static void four_threads(struct pl_lane *l[2], transfer *out, transfer *in)
{
	struct job j[4];

	for (int i = 0; i < 4; i++) {
		j[i] = (struct job){ .l = l[i / 2],
				     .fn = i % 2 ? out : in,
				     .is_sender = i % 2 };
		assert_int_equal(pthread_create(&j[i].thread, NULL, run_job,
						&j[i]), 0);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(j[i].thread, NULL);
		assert_int_equal(j[i].rc, 0);
	}
}

static void both_ways_at_once(void **state)
{
	(void)state;
	for (size_t s = 0; s < PL_ARRAY_SIZE(senders); s++) {
		for (size_t r = 0; r < PL_ARRAY_SIZE(receivers); r++) {
			struct pl_lane *l[2];

			lane_both(RING, &l[0], &l[1]);
			four_threads(l, senders[s], receivers[r]);
			pl_lane_close(l[0]);
			pl_lane_close(l[1]);
		}
	}
}

/*
 * Both ends use the same mappings, so that ThreadSanitizer sees that the bytes
 * of one thread are those of the other.
 */
static void same_addresses(void **state)
{
	struct lane_parts p;
	struct pl_lane *l[2];

	(void)state;
	lane_parts_init(&p, RING);
	for (int i = 0; i < 2; i++) {
		struct pl_lane_parts lp = { .own = p.seg[i],
					    .peer = p.seg[!i],
					    .bell = p.bell[i] };

		lp.own.fd = lp.peer.fd = -1;
		lp.own.map_bytes = lp.peer.map_bytes = 0;
		p.bell[i] = -1;
		assert_int_equal(pl_lane_attach(&lp, &l[i], NULL), 0);
	}
	four_threads(l, send_waiting, recv_waiting);
	pl_lane_close(l[0]);
	pl_lane_close(l[1]);
	lane_parts_fini(&p);
}

/* --- arguments ------------------------------------------------------------ */

static void buffers_that_are_refused(void **state)
{
	char byte = 'x', got[2] = "";
	struct iovec v[2] = { { &byte, 1 }, { &byte, SSIZE_MAX } };
	struct pl_lane *a, *b;

	(void)state;
	lane_both(RING, &a, &b);
	assert_int_equal(pl_lane_sendv(a, v, 2, 0), -EINVAL);
	assert_int_equal(pl_lane_recvv(b, v, 2, 0), -EINVAL);
	assert_int_equal(pl_lane_sendv(a, v, -1, 0), -EINVAL);
	assert_int_equal(pl_lane_recvv(b, v, IOV_MAX + 1, 0), -EINVAL);
	/* Nothing was moved. */
	assert_int_equal(pl_lane_recv(b, got, 2, PL_DONTWAIT), -EAGAIN);
	assert_int_equal(pl_lane_sendv(a, v, 0, 0), 0);
	assert_int_equal(pl_lane_recvv(b, v, 0, 0), 0);
	assert_int_equal(pl_lane_sendv(a, v, 1, 0), 1);
	assert_int_equal(pl_lane_recv(b, got, 2, PL_DONTWAIT), 1);
	assert_int_equal(got[0], 'x');
	pl_lane_close(b);
	assert_int_equal(pl_lane_sendv(a, v, 1, 0), -EPIPE);
	assert_int_equal(pl_lane_recvv(a, v, 1, 0), 0);
	pl_lane_close(a);
}

/* -EINVAL, and nothing is moved. */
static void flags_that_are_refused(void **state)
{
	static const int all[] = { PL_WAITALL, 4, PL_DONTWAIT | 8, -1 };
	char byte = 'x';
	const struct iovec v = { &byte, 1 };
	struct pl_lane *a, *b;
	const void *from;
	void *to;

	(void)state;
	lane_both(RING, &a, &b);
	for (size_t i = 0; i < PL_ARRAY_SIZE(all); i++) {
		const int f = all[i];

		assert_int_equal(pl_lane_send(a, &byte, 1, f), -EINVAL);
		assert_int_equal(pl_lane_sendv(a, &v, 1, f), -EINVAL);
		assert_int_equal(pl_lane_reserve(a, 1, &to, f), -EINVAL);
		assert_int_equal(pl_lane_peek(a, 1, &from, f), -EINVAL);
		if (f == PL_WAITALL)
			continue;
		assert_int_equal(pl_lane_recv(a, &byte, 1, f), -EINVAL);
		assert_int_equal(pl_lane_recvv(a, &v, 1, f), -EINVAL);
	}
	assert_int_equal(pl_lane_recv(b, &byte, 1, PL_DONTWAIT), -EAGAIN);
	pl_lane_close(a);
	pl_lane_close(b);
}

static void lengths_and_limits(void **state)
{
	static char big[RING + 1];
	struct pl_lane_info info;
	struct pl_lane *a, *b;
	const void *from;
	void *to;

	(void)state;
	lane_both(RING, &a, &b);
	pl_lane_set_timeout(a, 20);
	assert_int_equal(pl_lane_recv(a, big, 1, 0), -ETIMEDOUT);
	assert_int_equal(pl_lane_recv(a, big, 1, PL_DONTWAIT), -EAGAIN);
	assert_int_equal(pl_lane_recv(a, big, 0, 0), 0);
	assert_int_equal(pl_lane_send(a, big, 0, 0), 0);
	assert_int_equal(pl_lane_wait(a, PL_IN, 0), -ETIMEDOUT);
	assert_int_equal(pl_lane_wait(a, PL_IN | PL_OUT, 1000), PL_OUT);
	assert_int_equal(pl_lane_wait(a, 0, 1000), -EINVAL);
	assert_int_equal(pl_lane_wait(a, 4, 1000), -EINVAL);
	assert_int_equal(pl_lane_commit(a, 1), -EINVAL);
	assert_int_equal(pl_lane_reserve(a, RING + 1, &to, 0), -EINVAL);
	assert_int_equal(pl_lane_reserve(a, RING, &to, 0), RING);
	assert_int_equal(pl_lane_commit(a, RING - 1), 0);
	assert_int_equal(pl_lane_commit(a, 2), -EINVAL);
	assert_int_equal(pl_lane_commit(a, 1), 0);
	assert_int_equal(pl_lane_send(a, big, 1, 0), -ETIMEDOUT);
	assert_int_equal(pl_lane_send(a, big, 1, PL_DONTWAIT), -EAGAIN);
	assert_int_equal(pl_lane_reserve(a, 1, &to, PL_DONTWAIT), -EAGAIN);
	assert_int_equal(pl_lane_wait(a, PL_OUT, 0), -ETIMEDOUT);
	assert_int_equal(pl_lane_peek(b, RING + 1, &from, 0), -EINVAL);
	assert_int_equal(pl_lane_peek(b, RING, &from, 0), RING);
	assert_int_equal(pl_lane_consume(b, RING + 1), -EINVAL);
	assert_int_equal(pl_lane_consume(b, 100), 0);
	/* What does not fit is sent in part when nobody waits. */
	assert_int_equal(pl_lane_send(a, big, sizeof(big), PL_DONTWAIT), 100);
	assert_int_equal(pl_lane_send(a, big, 50, 0), -ETIMEDOUT);
	pl_lane_info(b, &info);
	assert_int_equal(info.received_bytes, 100);
	assert_int_equal(info.send_ring_bytes, RING);
	pl_lane_info(a, &info);
	assert_int_equal(info.sent_bytes, RING + 100);
	pl_lane_close(a);
	pl_lane_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		lane_test(every_way_to_every_way),
		lane_test(ping_pong),
		lane_test(both_ways_at_once),
		lane_test(same_addresses),
		lane_test(flags_that_are_refused),
		lane_test(lengths_and_limits),
		lane_test(buffers_that_are_refused),
	};

	alarm(280);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
