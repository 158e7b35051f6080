/*
 * tests/unit/test_lane.c - lanes between two processes and two threads
 *
 * Bytes are those of a generator that both ends know, so each one is checked.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "common/util.h"
#include "tests/unit/lane_pair.h"

#define RING PL_RING_MIN
#define TOTAL (24u << 20)

static unsigned char byte_at(uint64_t i)
{
	return (unsigned char)((i * 2654435761u) >> 13);
}

static void fill(unsigned char *p, uint64_t at, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = byte_at(at + i);
}

static int same(const unsigned char *p, uint64_t at, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != byte_at(at + i))
			return 0;
	return 1;
}

static size_t piece(unsigned int *seed, size_t max)
{
	size_t n = (size_t)rand_r(seed);

	return 1 + (n & 7 ? n % 300 : n % max);
}

static size_t part(unsigned int *seed, size_t max, uint64_t left)
{
	size_t n = piece(seed, max);

	return n < left ? n : (size_t)left;
}

/* --- producers and consumers ----------------------------------------------- */

static int produce_copy(struct pl_lane *l, uint64_t total, int flags)
{
	static unsigned char buf[RING * 2];
	unsigned int seed = 1;
	uint64_t at = 0;

	while (at < total) {
		size_t n = part(&seed, sizeof(buf), total - at);
		ssize_t r;

		fill(buf, at, n);
		r = pl_lane_send(l, buf, n, flags);
		if (r == -EAGAIN) {
			pl_lane_wait(l, PL_OUT, 5000);
			continue;
		}
		if (r <= 0)
			return 1;
		at += (uint64_t)r;
	}
	return 0;
}

/* Half a ring at most: two that each wait for more could wait for ever. */
static int produce_inplace(struct pl_lane *l, uint64_t total, int flags)
{
	unsigned int seed = 2;
	uint64_t at = 0;

	(void)flags;
	while (at < total) {
		size_t n = part(&seed, RING / 2, total - at);
		void *p;
		ssize_t r = pl_lane_reserve(l, n, &p, 0);

		if (r < (ssize_t)n)
			return 1;
		fill(p, at, n);
		if (pl_lane_commit(l, n))
			return 1;
		at += n;
	}
	return 0;
}

static int consume_copy(struct pl_lane *l, uint64_t total, int flags)
{
	static unsigned char buf[RING * 2];
	unsigned int seed = 3;
	uint64_t at = 0;

	for (;;) {
		ssize_t r = pl_lane_recv(l, buf, piece(&seed, sizeof(buf)),
					 flags);

		if (r == -EAGAIN) {
			pl_lane_wait(l, PL_IN, 5000);
			continue;
		}
		if (r == 0)
			return at != total;
		if (r < 0 || !same(buf, at, (size_t)r))
			return 1;
		at += (uint64_t)r;
	}
}

static int consume_inplace(struct pl_lane *l, uint64_t total, int flags)
{
	unsigned int seed = 4;
	uint64_t at = 0;

	(void)flags;
	for (;;) {
		size_t want = piece(&seed, RING / 2);
		const void *p;
		ssize_t r = pl_lane_peek(l, want, &p, 0);
		size_t n;

		if (r == 0)
			return at != total;
		if (r < 0)
			return 1;
		n = PL_MIN((size_t)r, want);
		if (!same(p, at, n) || pl_lane_consume(l, n))
			return 1;
		at += n;
	}
}

/* By the descriptor only, reading a part at a time: level-triggered or stuck. */
static int consume_epoll(struct pl_lane *l, uint64_t total, int flags)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = epoll_create1(0);
	static unsigned char buf[300];
	unsigned int seed = 5;
	uint64_t at = 0;

	(void)flags;
	epoll_ctl(ep, EPOLL_CTL_ADD, pl_lane_fd(l), &ev);
	for (;;) {
		ssize_t r;

		if (epoll_wait(ep, &ev, 1, 5000) != 1)
			return 2;
		r = pl_lane_recv(l, buf, piece(&seed, sizeof(buf)),
				 PL_DONTWAIT);
		if (r == -EAGAIN)
			continue;
		close(r == 0 ? ep : -1);
		if (r == 0)
			return at != total;
		if (r < 0 || !same(buf, at, (size_t)r))
			return 1;
		at += (uint64_t)r;
	}
}

typedef int transfer(struct pl_lane *l, uint64_t total, int flags);

static int child_status(pid_t pid)
{
	int st;

	assert_int_equal(waitpid(pid, &st, 0), pid);
	return WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
}

static void two_processes(transfer *produce, transfer *consume, uint64_t total,
			  int flags)
{
	struct lane_parts p;
	struct pl_lane *l;
	pid_t pid;

	lane_parts_make(&p, RING);
	pid = fork();
	if (pid == 0) {
		int rc;

		alarm(120);
		l = lane_end(&p, 1, 1);
		rc = produce(l, total, flags);
		pl_lane_close(l);
		_exit(rc);
	}
	l = lane_end(&p, 0, 1);
	assert_int_equal(consume(l, total, flags), 0);
	assert_int_equal(child_status(pid), 0);
	pl_lane_close(l);
}

static void copying(void **state)
{
	(void)state;
	two_processes(produce_copy, consume_copy, TOTAL, 0);
}

static void nonblocking(void **state)
{
	(void)state;
	two_processes(produce_copy, consume_copy, TOTAL, PL_DONTWAIT);
}

static void in_place(void **state)
{
	(void)state;
	two_processes(produce_inplace, consume_inplace, TOTAL, 0);
}

static void level_triggered(void **state)
{
	(void)state;
	two_processes(produce_copy, consume_epoll, TOTAL / 8, 0);
}

/* --- both directions, by threads that share an end's doorbell ---------------- */

struct thread_arg {
	struct pl_lane *l;
	transfer *fn;
	int rc;
};

static void *run_transfer(void *arg)
{
	struct thread_arg *a = arg;

	a->rc = a->fn(a->l, TOTAL / 4, 0);
	if (a->fn == produce_inplace)
		pl_lane_shutdown(a->l);
	return NULL;
}

static int consume_slow(struct pl_lane *l, uint64_t total, int flags)
{
	return consume_inplace(l, total, flags);
}

static void duplex_threads(void **state)
{
	struct thread_arg a[4];
	struct lane_parts p;
	struct pl_lane *l[2];
	pthread_t t[4];

	(void)state;
	lane_parts_make(&p, RING);
	l[0] = lane_end(&p, 0, 0);
	l[1] = lane_end(&p, 1, 0);
	for (int i = 0; i < 4; i++) {
		a[i].l = l[i / 2];
		a[i].fn = i % 2 ? produce_inplace : consume_slow;
		pthread_create(&t[i], NULL, run_transfer, &a[i]);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
		assert_int_equal(a[i].rc, 0);
	}
	pl_lane_close(l[0]);
	pl_lane_close(l[1]);
}

/* --- the ends of a lane -------------------------------------------------------- */

static void killed_peer(void **state)
{
	struct lane_parts p;
	struct pl_lane *l;
	char buf[64];
	int pipefd[2];
	pid_t pid;

	(void)state;
	lane_parts_make(&p, RING);
	assert_int_equal(pipe(pipefd), 0);
	pid = fork();
	if (pid == 0) {
		l = lane_end(&p, 1, 1);
		pl_lane_send(l, "last words", 10, 0);
		if (write(pipefd[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	l = lane_end(&p, 0, 1);
	assert_int_equal(read(pipefd[0], buf, 1), 1);
	kill(pid, SIGKILL);
	assert_int_equal(child_status(pid), 128 + SIGKILL);
	assert_int_equal(pl_lane_recv(l, buf, sizeof(buf), 0), 10);
	assert_memory_equal(buf, "last words", 10);
	pl_lane_set_timeout(l, 5000);
	assert_int_equal(pl_lane_recv(l, buf, sizeof(buf), 0), -ECONNRESET);
	assert_int_equal(pl_lane_send(l, "x", 1, 0), -EPIPE);
	pl_lane_close(l);
	close(pipefd[0]);
	close(pipefd[1]);
}

/* A sleeping receiver, and one that polls, learn of the death of the peer. */
static void killed_while_waiting(void **state)
{
	(void)state;
	for (int poll_mode = 0; poll_mode < 2; poll_mode++) {
		struct pollfd pfd = { .events = POLLIN };
		struct lane_parts p;
		struct pl_lane *l;
		char c;
		pid_t pid;

		lane_parts_make(&p, RING);
		pid = fork();
		if (pid == 0) {
			l = lane_end(&p, 1, 1);
			usleep(100000);
			raise(SIGKILL);
		}
		l = lane_end(&p, 0, 1);
		pl_lane_set_timeout(l, 5000);
		if (poll_mode) {
			pfd.fd = pl_lane_fd(l);
			do {
				assert_int_equal(poll(&pfd, 1, 5000), 1);
			} while (pl_lane_recv(l, &c, 1, PL_DONTWAIT) ==
				 -EAGAIN);
		}
		assert_int_equal(pl_lane_recv(l, &c, 1, 0), -ECONNRESET);
		child_status(pid);
		pl_lane_close(l);
	}
}

static void half_close(void **state)
{
	struct lane_parts p;
	struct pl_lane *a, *b;
	char buf[8];

	(void)state;
	lane_parts_make(&p, RING);
	a = lane_end(&p, 0, 0);
	b = lane_end(&p, 1, 0);
	assert_int_equal(pl_lane_send(a, "ask", 3, 0), 3);
	pl_lane_shutdown(a);
	assert_int_equal(pl_lane_send(a, "x", 1, 0), -EPIPE);
	assert_int_equal(pl_lane_recv(b, buf, 8, PL_WAITALL), 3);
	assert_int_equal(pl_lane_recv(b, buf, 8, 0), 0);
	assert_int_equal(pl_lane_send(b, "answer", 6, 0), 6);
	pl_lane_close(b);
	assert_int_equal(pl_lane_recv(a, buf, 8, 0), 6);
	assert_int_equal(pl_lane_recv(a, buf, 8, 0), 0);
	assert_int_equal(pl_lane_send(a, "x", 1, 0), -EPIPE);
	pl_lane_close(a);
}

/* want more than will ever come: what is there, with and without waiting. */
static void peek_at_the_end(void **state)
{
	struct lane_parts p;
	struct pl_lane *a, *b;
	const void *ptr;

	(void)state;
	lane_parts_make(&p, RING);
	a = lane_end(&p, 0, 0);
	b = lane_end(&p, 1, 0);
	pl_lane_send(a, "abc", 3, 0);
	assert_int_equal(pl_lane_peek(b, 10, &ptr, PL_DONTWAIT), -EAGAIN);
	pl_lane_close(a);
	assert_int_equal(pl_lane_peek(b, 10, &ptr, PL_DONTWAIT), 3);
	assert_int_equal(pl_lane_peek(b, 10, &ptr, 0), 3);
	assert_int_equal(pl_lane_consume(b, 4), -EINVAL);
	assert_int_equal(pl_lane_consume(b, 3), 0);
	assert_int_equal(pl_lane_peek(b, 1, &ptr, 0), 0);
	pl_lane_close(b);
}

static void timeouts_and_limits(void **state)
{
	static char big[RING + 1];
	struct lane_parts p;
	struct pl_lane *a, *b;
	void *ptr;

	(void)state;
	lane_parts_make(&p, RING);
	a = lane_end(&p, 0, 0);
	b = lane_end(&p, 1, 0);
	pl_lane_set_timeout(a, 20);
	assert_int_equal(pl_lane_recv(a, big, 1, 0), -ETIMEDOUT);
	assert_int_equal(pl_lane_recv(a, big, 1, PL_DONTWAIT), -EAGAIN);
	assert_int_equal(pl_lane_send(a, big, sizeof(big), 0), RING);
	assert_int_equal(pl_lane_send(a, big, 1, 0), -ETIMEDOUT);
	assert_int_equal(pl_lane_send(a, big, 1, PL_DONTWAIT), -EAGAIN);
	assert_int_equal(pl_lane_reserve(a, RING + 1, &ptr, 0), -EINVAL);
	assert_int_equal(pl_lane_commit(a, 1), -EINVAL);
	assert_int_equal(pl_lane_wait(a, PL_OUT, 0), -ETIMEDOUT);
	assert_int_equal(pl_lane_recv(b, big, 100, 0), 100);
	assert_int_equal(pl_lane_wait(a, PL_IN | PL_OUT, 1000), PL_OUT);
	pl_lane_close(a);
	pl_lane_close(b);
}

/* --- a hostile peer -------------------------------------------------------------- */

enum attack {
	HEAD_TOO_FAR, HEAD_BACK, TAIL_AHEAD, TAIL_BACK, STATE_UNKNOWN,
	STATE_BACK, ATTACKS
};

static void attack(struct pl_lane_seg *s, enum attack a, int step)
{
	switch (a) {
	case HEAD_TOO_FAR:
		s->head = RING + 1;
		break;
	case HEAD_BACK:
		s->head = step ? 5 : 10;
		break;
	case TAIL_AHEAD:
		s->tail = 1u << 30;
		break;
	case TAIL_BACK:
		s->tail = step ? 1 : 3;
		break;
	case STATE_UNKNOWN:
		s->state = 77;
		break;
	case STATE_BACK:
		s->state = step ? PL_STATE_OPEN : PL_STATE_SHUT;
		break;
	default:
		break;
	}
}

static int touch(struct pl_lane *l)
{
	static char big[RING];
	ssize_t r, w;

	r = pl_lane_recv(l, big, sizeof(big), PL_DONTWAIT);
	w = pl_lane_send(l, big, sizeof(big), PL_DONTWAIT);
	return r == -EPROTO || w == -EPROTO;
}

static void hostile_counters(void **state)
{
	(void)state;
	for (int i = 0; i < ATTACKS; i++) {
		struct lane_parts p;
		struct pl_lane *l;
		char c;
		int caught;

		lane_parts_make(&p, RING);
		l = lane_end(&p, 0, 0);
		pl_lane_send(l, "0123456789", 10, 0);
		attack(p.seg[1].base, i, 0);
		caught = touch(l);
		attack(p.seg[1].base, i, 1);
		caught |= touch(l) || touch(l);
		assert_true(caught);
		/* And it stays so, and the peer is told. */
		assert_int_equal(pl_lane_recv(l, &c, 1, 0), -EPROTO);
		assert_int_equal(pl_lane_send(l, &c, 1, 0), -EPROTO);
		assert_int_equal(l->own->state, PL_STATE_CLOSED);
		pl_lane_close(l);
		pl_seg_close(&p.seg[1]);
		close(p.bell[1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copying),
		cmocka_unit_test(nonblocking),
		cmocka_unit_test(in_place),
		cmocka_unit_test(level_triggered),
		cmocka_unit_test(duplex_threads),
		cmocka_unit_test(killed_peer),
		cmocka_unit_test(killed_while_waiting),
		cmocka_unit_test(half_close),
		cmocka_unit_test(peek_at_the_end),
		cmocka_unit_test(timeouts_and_limits),
		cmocka_unit_test(hostile_counters),
	};

	alarm(240);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
