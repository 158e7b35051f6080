/* tests/unit/test_lane_end.c - closed, half closed, killed, hostile peers */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "common/fdpass.h"
#include "common/util.h"
#include "tests/unit/lane_pair.h"

#define RING PL_RING_MIN
#define SOON_MS 20000		/* a limit against hanging, not a measure */

/* --- in good order -------------------------------------------------------- */

static void closing(void **state)
{
	struct pl_lane *a, *b;
	char buf[8];

	(void)state;
	lane_both(RING, &a, &b);
	assert_int_equal(pl_lane_send(a, "bye", 3, 0), 3);
	pl_lane_close(a);
	assert_int_equal(pl_lane_send(b, "x", 1, 0), -EPIPE);
	assert_int_equal(pl_lane_commit(b, 0), -EPIPE);
	assert_int_equal(pl_lane_wait(b, PL_IN | PL_OUT, 0), PL_IN | PL_OUT);
	assert_int_equal(pl_lane_recv(b, buf, 8, PL_WAITALL), 3);
	assert_memory_equal(buf, "bye", 3);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(pl_lane_recv(b, buf, 8, i ? PL_DONTWAIT : 0),
				 0);
		assert_int_equal(pl_lane_wait(b, PL_IN, 0), PL_IN);
	}
	pl_lane_close(b);
	pl_lane_close(NULL);
}

static void half_close(void **state)
{
	struct pl_lane *a, *b;
	char buf[8];

	(void)state;
	lane_both(RING, &a, &b);
	assert_int_equal(pl_lane_send(a, "ask", 3, 0), 3);
	assert_int_equal(pl_lane_shutdown(a), 0);
	assert_int_equal(pl_lane_shutdown(a), 0);
	assert_int_equal(pl_lane_send(a, "x", 1, 0), -EPIPE);
	assert_int_equal(pl_lane_recv(b, buf, 8, PL_WAITALL), 3);
	assert_int_equal(pl_lane_recv(b, buf, 8, 0), 0);
	assert_int_equal(pl_lane_wait(b, PL_IN | PL_OUT, 0), PL_IN | PL_OUT);
	assert_int_equal(pl_lane_send(b, "answer", 6, 0), 6);
	pl_lane_close(b);
	assert_int_equal(pl_lane_recv(a, buf, 8, 0), 6);
	assert_int_equal(pl_lane_recv(a, buf, 8, 0), 0);
	assert_int_equal(pl_lane_send(a, "x", 1, 0), -EPIPE);
	pl_lane_close(a);
}

/* Fewer bytes than wanted are given at the end only, and then all of them. */
static void less_than_wanted(void **state)
{
	struct pl_lane *a, *b;
	const void *ptr;

	(void)state;
	lane_both(RING, &a, &b);
	assert_int_equal(pl_lane_send(a, "abc", 3, 0), 3);
	assert_int_equal(pl_lane_peek(b, 10, &ptr, PL_DONTWAIT), -EAGAIN);
	pl_lane_set_timeout(b, 20);
	assert_int_equal(pl_lane_peek(b, 10, &ptr, 0), -ETIMEDOUT);
	pl_lane_close(a);
	assert_int_equal(pl_lane_peek(b, 10, &ptr, PL_DONTWAIT), 3);
	assert_int_equal(pl_lane_peek(b, 10, &ptr, 0), 3);
	assert_int_equal(pl_lane_consume(b, 4), -EINVAL);
	assert_int_equal(pl_lane_consume(b, 3), 0);
	assert_int_equal(pl_lane_peek(b, 1, &ptr, 0), 0);
	pl_lane_close(b);
}

struct sleeper {
	struct pl_lane *l;
	ssize_t got;
	int sends;
	pthread_t thread;
};

static void *sleeping(void *arg)
{
	static char big[RING * 2];
	struct sleeper *s = arg;

	s->got = s->sends ? pl_lane_send(s->l, big, sizeof(big), 0) :
			    pl_lane_recv(s->l, big, 1, 0);
	return NULL;
}

/* Until the threads that wait at this end have said that they sleep. */
static void until_asleep(struct pl_lane *l, int events)
{
	for (int i = 0; i < SOON_MS; i++) {
		if ((!(events & PL_IN) || atomic_load(&l->own->rx_wait)) &&
		    (!(events & PL_OUT) || atomic_load(&l->own->tx_wait)))
			return;
		usleep(1000);
	}
	fail_msg("nobody went to sleep");
}

/* Each of the three ends wakes both sleepers of the other side. */
static void an_end_wakes_sleepers(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct sleeper s[2] = { { .sends = 0 }, { .sends = 1 } };
		struct pl_lane *a, *b;

		lane_both(RING, &a, &b);
		pl_lane_set_timeout(b, SOON_MS);
		for (int k = 0; k < 2; k++) {
			s[k].l = b;
			pthread_create(&s[k].thread, NULL, sleeping, &s[k]);
		}
		until_asleep(b, PL_IN | PL_OUT);
		if (i == 0)
			pl_lane_close(a);
		else if (i == 1)
			shutdown(a->bell, SHUT_RDWR);
		else
			pl_lane_fail(a);
		pthread_join(s[0].thread, NULL);
		pthread_join(s[1].thread, NULL);
		assert_int_equal(s[0].got, i == 1 ? -ECONNRESET : 0);
		assert_int_equal(s[1].got, RING);
		assert_int_equal(pl_lane_send(b, "x", 1, 0), -EPIPE);
		if (i)
			pl_lane_close(a);
		pl_lane_close(b);
	}
}

/* --- killed --------------------------------------------------------------- */

static pid_t sender_until_killed(struct lane_parts *p)
{
	pid_t pid = fork();

	if (pid == 0) {
		struct pl_lane *l = lane_alone(p, 1);
		char buf[1000];

		alarm(60);
		for (uint64_t at = 0;; at += sizeof(buf)) {
			bytes_fill(buf, at, sizeof(buf));
			pl_lane_send(l, buf, sizeof(buf), 0);
		}
	}
	return pid;
}

/* In the middle of sending: what was committed is whole, then the error. */
static void killed_sender(void **state)
{
	static char buf[5000];

	(void)state;
	for (int i = 0; i < 20; i++) {
		struct lane_parts p;
		struct pl_lane *l;
		uint64_t at = 0;
		pid_t pid;
		ssize_t r;

		lane_parts_init(&p, RING);
		pid = sender_until_killed(&p);
		l = lane_alone(&p, 0);
		pl_lane_set_timeout(l, SOON_MS);
		for (;;) {
			r = pl_lane_recv(l, buf, sizeof(buf), 0);
			if (r <= 0)
				break;
			assert_true(bytes_same(buf, at, (size_t)r));
			if (at < 1000000 && at + (uint64_t)r >= 1000000)
				kill(pid, SIGKILL);
			at += (uint64_t)r;
		}
		assert_int_equal(r, -ECONNRESET);
		assert_int_equal(pl_lane_recv(l, buf, 1, 0), -ECONNRESET);
		assert_int_equal(pl_lane_send(l, "x", 1, 0), -EPIPE);
		assert_int_equal(child_status(pid), 128 + SIGKILL);
		pl_lane_close(l);
	}
}

static pid_t peer_that_waits(struct lane_parts *p)
{
	pid_t pid = fork();

	if (pid == 0) {
		struct pl_lane *l = lane_alone(p, 1);
		char c;

		alarm(60);
		pl_lane_send(l, "here", 4, 0);
		pl_lane_recv(l, &c, 1, 0);
		_exit(1);
	}
	return pid;
}

/* However the other side waits, it learns of the death. */
static void killed_while_waited_for(void **state)
{
	enum { RECV, PEEK, WAIT, POLL, TRY, WAYS };

	(void)state;
	for (int way = 0; way < WAYS; way++) {
		struct lane_parts p;
		const void *ptr;
		struct pollfd pfd = { .events = POLLIN };
		struct pl_lane *l;
		char buf[8];
		pid_t pid;
		ssize_t r;

		lane_parts_init(&p, RING);
		pid = peer_that_waits(&p);
		l = lane_alone(&p, 0);
		pl_lane_set_timeout(l, SOON_MS);
		pfd.fd = way == POLL ? pl_lane_fd(l) : -1;
		assert_int_equal(pl_lane_recv(l, buf, 4, PL_WAITALL), 4);
		kill(pid, SIGKILL);
		if (way == WAIT)
			assert_int_equal(pl_lane_wait(l, PL_IN, SOON_MS),
					 PL_IN);
		if (way == POLL)
			assert_int_equal(poll(&pfd, 1, SOON_MS), 1);
		r = way == PEEK ? pl_lane_peek(l, 1, &ptr, 0) :
				  pl_lane_recv(l, buf, 1, way >= POLL ?
						       PL_DONTWAIT : 0);
		for (int i = 0; way >= POLL && r == -EAGAIN && i < 2000; i++) {
			usleep(10000);
			r = pl_lane_recv(l, buf, 1, PL_DONTWAIT);
		}
		assert_int_equal(r, -ECONNRESET);
		if (way == POLL)
			assert_int_equal(poll(&pfd, 1, 0), 1);
		assert_int_equal(pl_lane_send(l, "x", 1, 0), -EPIPE);
		child_status(pid);
		pl_lane_close(l);
	}
}

/* A sender with a full ring learns it too, waiting or trying. */
static void killed_receiver(void **state)
{
	static char big[RING];

	(void)state;
	for (int flags = 0; flags <= PL_DONTWAIT; flags += PL_DONTWAIT) {
		struct lane_parts p;
		struct pl_lane *l;
		ssize_t r;
		pid_t pid;

		lane_parts_init(&p, RING);
		pid = fork();
		if (pid == 0) {
			l = lane_alone(&p, 1);
			alarm(60);
			pause();
			_exit(1);
		}
		l = lane_alone(&p, 0);
		pl_lane_set_timeout(l, SOON_MS);
		assert_int_equal(pl_lane_send(l, big, RING, 0), RING);
		kill(pid, SIGKILL);
		r = pl_lane_send(l, big, 1, flags);
		for (int i = 0; r == -EAGAIN && i < 2000; i++) {
			usleep(10000);
			r = pl_lane_send(l, big, 1, flags);
		}
		assert_int_equal(r, -EPIPE);
		child_status(pid);
		pl_lane_close(l);
	}
}

/* --- the descriptor ------------------------------------------------------- */

static int readable(struct pl_lane *l)
{
	struct pollfd p = { .fd = pl_lane_fd(l), .events = POLLIN };

	return poll(&p, 1, 0);
}

static void descriptor_tells_the_truth(void **state)
{
	struct pl_lane *a, *b;
	const void *ptr;
	char buf[8];

	(void)state;
	lane_both(RING, &a, &b);
	assert_int_equal(pl_lane_send(a, "0123456789", 10, 0), 10);
	assert_int_equal(readable(b), 1);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(pl_lane_recv(b, buf, 1, PL_DONTWAIT), 1);
		assert_int_equal(readable(b), 1);
		assert_int_equal(readable(b), 1);
	}
	assert_int_equal(pl_lane_peek(b, 1, &ptr, 0), 5);
	assert_int_equal(readable(b), 1);
	assert_int_equal(pl_lane_consume(b, 5), 0);
	assert_int_equal(readable(b), 0);
	assert_int_equal(pl_lane_recv(b, buf, 1, PL_DONTWAIT), -EAGAIN);
	assert_int_equal(readable(b), 0);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(pl_lane_send(a, "ab", 2, 0), 2);
		assert_int_equal(readable(b), 1);
		assert_int_equal(pl_lane_recv(b, buf, 1, 0), 1);
		assert_int_equal(readable(b), 1);
		assert_int_equal(pl_lane_wait(b, PL_IN, 0), PL_IN);
		assert_int_equal(readable(b), 1);
		assert_int_equal(pl_lane_recv(b, buf, 8, 0), 1);
		assert_int_equal(readable(b), 0);
	}
	pl_lane_set_timeout(b, 20);
	assert_int_equal(pl_lane_recv(b, buf, 1, 0), -ETIMEDOUT);
	assert_int_equal(readable(b), 0);
	assert_int_equal(pl_lane_send(a, "z", 1, 0), 1);
	pl_lane_shutdown(a);
	assert_int_equal(readable(b), 1);
	assert_int_equal(pl_lane_recv(b, buf, 8, 0), 1);
	assert_int_equal(readable(b), 1);
	assert_int_equal(pl_lane_recv(b, buf, 8, 0), 0);
	assert_int_equal(readable(b), 1);
	pl_lane_close(a);
	pl_lane_close(b);
}

/* Bytes of the doorbell that mean nothing do not keep it readable. */
static void rings_for_nothing(void **state)
{
	struct pl_lane *a, *b;
	char c;

	(void)state;
	lane_both(RING, &a, &b);
	assert_int_equal(readable(b), 0);
	for (int i = 0; i < 10; i++) {
		for (int k = 0; k < i * i; k++)
			pl_lane_ring(a);
		for (int k = 0; k < 3; k++)
			assert_int_equal(pl_lane_recv(b, &c, 1, PL_DONTWAIT),
					 -EAGAIN);
		assert_int_equal(readable(b), 0);
		assert_int_equal(pl_lane_send(a, "x", 1, 0), 1);
		assert_int_equal(readable(b), 1);
		assert_int_equal(pl_lane_recv(b, &c, 1, PL_DONTWAIT), 1);
	}
	pl_lane_close(a);
	pl_lane_close(b);
}

/* --- hostile -------------------------------------------------------------- */

enum attack {
	HEAD_TOO_FAR, HEAD_BACK, HEAD_HUGE, TAIL_AHEAD, TAIL_BACK,
	STATE_UNKNOWN, STATE_BACK, ATTACKS
};

/* What each attack stores at first (0) and then (1). */
static void attack(struct pl_lane_seg *s, enum attack a, int step)
{
	switch (a) {
	case HEAD_TOO_FAR:
		s->head = RING + 1;
		break;
	case HEAD_BACK:
		s->head = step ? 5 : 10;
		break;
	case HEAD_HUGE:
		s->head = UINT64_MAX - 5;
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

static bool caught(struct pl_lane *l)
{
	static char big[RING];
	ssize_t r = pl_lane_recv(l, big, sizeof(big), PL_DONTWAIT);
	ssize_t w = pl_lane_send(l, big, sizeof(big), PL_DONTWAIT);

	return r == -EPROTO || w == -EPROTO;
}

static void rules_that_are_broken(void **state)
{
	(void)state;
	for (int i = 0; i < ATTACKS; i++) {
		struct lane_parts p;
		struct pl_lane *l;
		const void *from;
		bool was_caught;
		void *to;
		char c;

		lane_parts_init(&p, RING);
		l = lane_end(&p, 0);
		assert_int_equal(pl_lane_send(l, "0123456789", 10, 0), 10);
		attack(p.seg[1].base, i, 0);
		was_caught = caught(l);
		attack(p.seg[1].base, i, 1);
		was_caught = caught(l) || caught(l) || was_caught;
		if (!was_caught)
			fail_msg("attack %d was not noticed", i);
		/* It stays so whatever comes then, and the peer is told. */
		memset((char *)p.seg[1].base + 64, 0, 128);
		assert_int_equal(pl_lane_recv(l, &c, 1, 0), -EPROTO);
		assert_int_equal(pl_lane_send(l, &c, 1, 0), -EPROTO);
		assert_int_equal(pl_lane_peek(l, 1, &from, 0), -EPROTO);
		assert_int_equal(pl_lane_reserve(l, 1, &to, 0), -EPROTO);
		assert_int_equal(pl_lane_shutdown(l), -EPROTO);
		assert_int_equal(pl_lane_wait(l, PL_IN | PL_OUT, 0),
				 PL_IN | PL_OUT);
		assert_int_equal(readable(l), 1);
		assert_int_equal(l->own->state, PL_STATE_CLOSED);
		pl_lane_close(l);
		lane_parts_fini(&p);
	}
}

/* An attack while the victim sleeps: it is woken for it and finds out. */
static void broken_while_asleep(void **state)
{
	struct sleeper s = { .sends = 0 };
	struct lane_parts p;

	(void)state;
	lane_parts_init(&p, RING);
	s.l = lane_end(&p, 0);
	pl_lane_set_timeout(s.l, SOON_MS);
	pthread_create(&s.thread, NULL, sleeping, &s);
	until_asleep(s.l, PL_IN);
	attack(p.seg[1].base, HEAD_TOO_FAR, 0);
	assert_int_equal(write(p.bell[1], "x", 1), 1);
	pthread_join(s.thread, NULL);
	assert_int_equal(s.got, -EPROTO);
	pl_lane_close(s.l);
	lane_parts_fini(&p);
}

/* The header was read once; the end of a stream is final. */
static void changes_that_are_too_late(void **state)
{
	struct lane_parts p;
	struct pl_lane_seg *seg;
	struct pl_lane *l;
	char buf[8];

	(void)state;
	lane_parts_init(&p, RING);
	l = lane_end(&p, 0);
	seg = p.seg[1].base;
	seg->magic = 0;
	seg->ring_bytes = 1u << 30;
	memcpy(pl_seg_data(&p.seg[1]), "abc", 3);
	seg->head = 3;
	assert_int_equal(pl_lane_recv(l, buf, 8, 0), 3);
	seg->state = PL_STATE_SHUT;
	assert_int_equal(pl_lane_recv(l, buf, 8, 0), 0);
	seg->head = 7;
	assert_int_equal(pl_lane_recv(l, buf, 8, 0), 0);
	seg->state = PL_STATE_DEAD;
	assert_int_equal(pl_lane_recv(l, buf, 8, 0), 0);
	assert_int_equal(pl_lane_send(l, buf, 8, 0), -EPIPE);
	pl_lane_close(l);
	lane_parts_fini(&p);
}

/* What agents say of an owner that died. */
static void dead_owner(void **state)
{
	struct lane_parts p;
	struct pl_lane_seg *seg;
	struct pl_lane *l;
	char buf[8];

	(void)state;
	lane_parts_init(&p, RING);
	l = lane_end(&p, 0);
	seg = p.seg[1].base;
	seg->head = 4;
	seg->state = PL_STATE_DEAD;
	assert_int_equal(pl_lane_recv(l, buf, 8, 0), 4);
	assert_int_equal(pl_lane_recv(l, buf, 8, 0), -ECONNRESET);
	assert_int_equal(pl_lane_send(l, buf, 8, 0), -EPIPE);
	pl_lane_close(l);
	lane_parts_fini(&p);
}

/* Descriptors that a peer puts into the doorbell are not kept. */
static void descriptors_in_the_doorbell(void **state)
{
	struct lane_parts p;
	struct pl_lane *l;
	int before;
	char c;

	(void)state;
	lane_parts_init(&p, RING);
	l = lane_end(&p, 0);
	assert_int_equal(readable(l), 0);
	before = count_fds();
	for (int i = 0; i < 5; i++) {
		const int fds[2] = { 0, p.bell[1] };

		assert_int_equal(pl_fdpass_send(p.bell[1], "x", 1, fds, 2, 0),
				 0);
		assert_int_equal(pl_lane_recv(l, &c, 1, PL_DONTWAIT), -EAGAIN);
		assert_int_equal(count_fds(), before);
	}
	assert_int_equal(readable(l), 0);
	pl_lane_close(l);
	lane_parts_fini(&p);
}

/* What is no doorbell is refused. */
static void odd_doorbells(void **state)
{
	struct pl_lane_parts lp = { .own = PL_SEG_NONE, .peer = PL_SEG_NONE };
	struct pl_lane *l;
	struct pl_err err;
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	close(fds[0]);
	lp.bell = fds[1];
	assert_int_equal(pl_lane_attach(&lp, &l, &err), -EPROTO);
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), 0);
	close(fds[0]);
	lp.bell = fds[1];
	assert_int_equal(pl_lane_attach(&lp, &l, &err), -EPROTO);
	lp.bell = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(pl_lane_attach(&lp, &l, &err), -EPROTO);
}

/*
 * Agents make doorbells that do not block, and a limit that is longer than one
 * sleep is kept.
 */
static void doorbells_of_agents(void **state)
{
	struct lane_parts p;
	struct sleeper s = { .sends = 0 };
	struct pl_lane *peer;
	char c;

	(void)state;
	lane_parts_init(&p, RING);
	for (int i = 0; i < 2; i++)
		assert_int_equal(fcntl(p.bell[i], F_SETFL, O_NONBLOCK), 0);
	s.l = lane_end(&p, 0);
	peer = lane_end(&p, 1);
	lane_parts_fini(&p);
	assert_false(fcntl(s.l->bell, F_GETFL) & O_NONBLOCK);
	pl_lane_set_timeout(s.l, 1100);
	assert_int_equal(pl_lane_recv(s.l, &c, 1, 0), -ETIMEDOUT);
	/* Whoever makes it so while a thread sleeps does not keep it awake. */
	pl_lane_set_timeout(s.l, SOON_MS);
	assert_int_equal(pthread_create(&s.thread, NULL, sleeping, &s), 0);
	until_asleep(s.l, PL_IN);
	assert_int_equal(fcntl(s.l->bell, F_SETFL, O_NONBLOCK), 0);
	pl_lane_ring(peer);
	for (int i = 0; i < SOON_MS &&
	     (fcntl(s.l->bell, F_GETFL) & O_NONBLOCK); i++)
		usleep(1000);
	assert_false(fcntl(s.l->bell, F_GETFL) & O_NONBLOCK);
	assert_int_equal(pl_lane_send(peer, "x", 1, 0), 1);
	assert_int_equal(pthread_join(s.thread, NULL), 0);
	assert_int_equal(s.got, 1);
	pl_lane_close(s.l);
	pl_lane_close(peer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		lane_test(closing),
		lane_test(half_close),
		lane_test(less_than_wanted),
		lane_test(an_end_wakes_sleepers),
		lane_test(killed_sender),
		lane_test(killed_while_waited_for),
		lane_test(killed_receiver),
		lane_test(descriptor_tells_the_truth),
		lane_test(rings_for_nothing),
		lane_test(rules_that_are_broken),
		lane_test(broken_while_asleep),
		lane_test(changes_that_are_too_late),
		lane_test(dead_owner),
		lane_test(descriptors_in_the_doorbell),
		lane_test(odd_doorbells),
		lane_test(doorbells_of_agents),
	};

	alarm(240);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
