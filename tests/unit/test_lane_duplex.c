/*
 * tests/unit/test_lane_duplex.c - directions, threads and waits of a lane that
 * do not depend on each other
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/util.h"
#include "tests/unit/lane_pair.h"

#define RING PL_RING_MIN
#define BYTES (RING * 5 + 33)
#define SOON_MS 20000		/* a limit against hanging, not a measure */

static void pair(struct pl_lane **a, struct pl_lane **b)
{
	lane_both(RING, a, b);
	pl_lane_set_timeout(*a, SOON_MS);
	pl_lane_set_timeout(*b, SOON_MS);
}

/* --- a thread that sends or receives what is more than a ring ------------ */

struct job {
	struct pl_lane *l;
	bool sends;
	bool ok;
	pthread_t thread;
};

static bool send_all(struct pl_lane *l, unsigned int seed)
{
	unsigned char buf[3000];

	for (uint64_t at = 0; at < BYTES;) {
		size_t n = piece(&seed, sizeof(buf), BYTES - at);

		bytes_fill(buf, at, n);
		if (pl_lane_send(l, buf, n, 0) != (ssize_t)n)
			return false;
		at += n;
	}
	return pl_lane_shutdown(l) == 0;
}

/* Up to the end of the stream. */
static bool recv_all(struct pl_lane *l, unsigned int seed)
{
	unsigned char buf[3000];
	uint64_t at = 0;
	ssize_t n;

	while ((n = pl_lane_recv(l, buf, piece(&seed, sizeof(buf), BYTES),
				 0)) > 0) {
		if (!bytes_same(buf, at, (size_t)n))
			return false;
		at += (uint64_t)n;
	}
	return n == 0 && at == BYTES;
}

static void *run(void *arg)
{
	struct job *j = arg;

	j->ok = j->sends ? send_all(j->l, 1) : recv_all(j->l, 2);
	return NULL;
}

static void start(struct job *j, struct pl_lane *l, bool sends)
{
	*j = (struct job){ .l = l, .sends = sends };
	assert_int_equal(pthread_create(&j->thread, NULL, run, j), 0);
}

static void join(struct job *j)
{
	pthread_join(j->thread, NULL);
	assert_true(j->ok);
}

/* --- half closed --------------------------------------------------------- */

static int readable(struct pl_lane *l)
{
	struct pollfd p = { .fd = pl_lane_fd(l), .events = POLLIN };

	return poll(&p, 1, 0);
}

/* One direction after the other, and what each end sees meanwhile. */
static void one_after_the_other(void **state)
{
	struct pl_lane *a, *b;
	struct job j[2];
	char c;

	(void)state;
	pair(&a, &b);
	start(&j[0], a, true);
	start(&j[1], b, false);
	join(&j[0]);
	join(&j[1]);
	/* a has ended its direction: b knows, and a is not affected. */
	assert_int_equal(pl_lane_wait(b, PL_IN, 0), PL_IN);
	assert_int_equal(readable(b), 1);
	assert_int_equal(pl_lane_recv(b, &c, 1, PL_DONTWAIT), 0);
	assert_int_equal(pl_lane_send(a, &c, 1, 0), -EPIPE);
	assert_int_equal(pl_lane_commit(a, 0), -EPIPE);
	assert_int_equal(pl_lane_wait(a, PL_IN, 0), -ETIMEDOUT);
	assert_int_equal(pl_lane_recv(a, &c, 1, PL_DONTWAIT), -EAGAIN);
	assert_int_equal(readable(a), 0);
	/* The other direction, with waiting at both ends. */
	start(&j[0], b, true);
	start(&j[1], a, false);
	join(&j[0]);
	join(&j[1]);
	/* Both have ended, and neither has closed. */
	for (int i = 0; i < 2; i++) {
		struct pl_lane *l = i ? b : a;

		assert_int_equal(pl_lane_wait(l, PL_IN | PL_OUT, 0),
				 PL_IN | PL_OUT);
		assert_int_equal(pl_lane_recv(l, &c, 1, 0), 0);
		assert_int_equal(pl_lane_send(l, &c, 1, 0), -EPIPE);
		assert_int_equal(pl_lane_shutdown(l), 0);
		assert_int_equal(readable(l), 1);
	}
	pl_lane_close(a);
	assert_int_equal(pl_lane_recv(b, &c, 1, 0), 0);
	pl_lane_close(b);
}

/* Who has said it, and dies then, has ended the stream in good order. */
static void half_closed_and_killed(void **state)
{
	static char big[RING];
	struct lane_parts p;
	struct pl_lane *l;
	char buf[8];
	ssize_t n;
	pid_t pid;

	(void)state;
	lane_parts_init(&p, RING);
	pid = fork();
	if (pid == 0) {
		alarm(60);
		l = lane_alone(&p, 1);
		pl_lane_send(l, "all", 3, 0);
		pl_lane_shutdown(l);
		pl_lane_recv(l, buf, 1, 0);
		raise(SIGKILL);
	}
	l = lane_alone(&p, 0);
	pl_lane_set_timeout(l, SOON_MS);
	assert_int_equal(pl_lane_recv(l, buf, 3, PL_WAITALL), 3);
	assert_int_equal(pl_lane_recv(l, buf, 1, 0), 0);
	assert_int_equal(pl_lane_send(l, "x", 1, 0), 1);
	assert_int_equal(child_status(pid), 128 + SIGKILL);
	assert_int_equal(pl_lane_recv(l, buf, 1, 0), 0);
	/* Found out when there is no space any more, if not before. */
	do {
		n = pl_lane_send(l, big, sizeof(big), 0);
	} while (n > 0);
	assert_int_equal(n, -EPIPE);
	pl_lane_close(l);
}

/* --- threads ------------------------------------------------------------- */

/* What any thread may call at any time. */
static void *meddle(void *arg)
{
	struct pl_lane *const *l = arg;

	for (int i = 0; i < 3000 / SLOWER; i++) {
		struct pl_lane_info info;

		for (int k = 0; k < 4; k++) {
			pl_lane_info(l[k], &info);
			pl_lane_set_timeout(l[k], SOON_MS + i);
			pl_lane_set_spin(l[k], i % 2);
		}
	}
	return NULL;
}

/*
 * Two lanes, each with a sending and a receiving thread at both ends, and one
 * more that looks at all and sets what can be set.
 */
static void nine_threads(void **state)
{
	struct pl_lane *l[4];
	struct job j[8];
	pthread_t other;

	(void)state;
	pair(&l[0], &l[1]);
	pair(&l[2], &l[3]);
	for (int i = 0; i < 8; i++)
		start(&j[i], l[i / 2], i % 2);
	assert_int_equal(pthread_create(&other, NULL, meddle, l), 0);
	for (int i = 0; i < 8; i++)
		join(&j[i]);
	pthread_join(other, NULL);
	for (int i = 0; i < 4; i++)
		pl_lane_close(l[i]);
}

/* The sending thread may be another one each time, if they see to it. */
static void threads_in_turn(void **state)
{
	struct pl_lane *a, *b;

	(void)state;
	for (int i = 0; i < 20; i++) {
		struct job j[2];

		pair(&a, &b);
		assert_int_equal(pl_lane_send(a, "x", 1, 0), 1);
		assert_int_equal(pl_lane_recv(b, &(char){ 0 }, 1, 0), 1);
		start(&j[0], a, true);
		start(&j[1], b, false);
		join(&j[0]);
		join(&j[1]);
		start(&j[0], b, true);
		start(&j[1], a, false);
		join(&j[0]);
		join(&j[1]);
		pl_lane_close(i % 2 ? a : b);
		pl_lane_close(i % 2 ? b : a);
	}
}

/* --- waits --------------------------------------------------------------- */

static _Atomic int handled;

static void on_signal(int sig)
{
	(void)sig;
	handled++;
}

enum wait { RECV, RECVV, PEEK, WAIT, SEND, RESERVE, WAYS };

struct waiter {
	struct pl_lane *l;
	enum wait way;
	ssize_t got;
	_Atomic bool done;
	pthread_t thread;
};

static ssize_t wait_once(struct pl_lane *l, enum wait way)
{
	static char big[RING];
	const struct iovec v = { &(char){ 0 }, 1 };
	const void *from;
	void *to;

	switch (way) {
	case RECV:
		return pl_lane_recv(l, v.iov_base, 1, 0);
	case RECVV:
		return pl_lane_recvv(l, &v, 1, 0);
	case PEEK:
		return pl_lane_peek(l, 1, &from, 0);
	case WAIT:
		return pl_lane_wait(l, PL_IN, -1);
	case SEND:
		return pl_lane_send(l, big, 1, 0);
	default:
		return pl_lane_reserve(l, 1, &to, 0);
	}
}

static void *wait_thread(void *arg)
{
	struct waiter *w = arg;

	w->got = wait_once(w->l, w->way);
	w->done = true;
	return NULL;
}

static void until_asleep(struct pl_lane *l)
{
	for (int i = 0; i < SOON_MS; i++) {
		if (atomic_load(&l->own->rx_wait) ||
		    atomic_load(&l->own->tx_wait))
			return;
		usleep(1000);
	}
	fail_msg("nobody went to sleep");
}

/* Of a call that waits: handlers run, and it goes on waiting. */
static void signals(void **state)
{
	static char big[RING];
	/* Not SA_RESTART: calls of the system end then. */
	const struct sigaction sa = { .sa_handler = on_signal };
	struct sigaction was;

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &sa, &was), 0);
	for (int i = 0; i < WAYS * 2; i++) {
		struct waiter w = { .way = i / 2 };
		struct pl_lane *a, *b;
		const void *from;

		pair(&a, &b);
		/* For ever, or up to a limit, which is another way to sleep. */
		pl_lane_set_timeout(a, i % 2 ? -1 : 900);
		pl_lane_set_timeout(a, i % 2 ? -1 : SOON_MS);
		if (w.way >= SEND)
			assert_int_equal(pl_lane_send(a, big, RING, 0), RING);
		w.l = a;
		assert_int_equal(pthread_create(&w.thread, NULL, wait_thread,
						&w), 0);
		until_asleep(a);
		for (int k = 0; k < 5; k++) {
			int before = handled;

			pthread_kill(w.thread, SIGUSR1);
			while (handled == before)
				usleep(1000);
			assert_false(w.done);
		}
		if (w.way >= SEND) {
			assert_int_equal(pl_lane_peek(b, 1, &from, 0), RING);
			assert_int_equal(pl_lane_consume(b, 1), 0);
		} else {
			assert_int_equal(pl_lane_send(b, "x", 1, 0), 1);
		}
		pthread_join(w.thread, NULL);
		assert_int_equal(w.got, 1);
		pl_lane_close(a);
		pl_lane_close(b);
	}
	sigaction(SIGUSR1, &was, NULL);
}

struct trickle {
	struct pl_lane *l;
	bool takes;
	_Atomic bool stop;
	pthread_t thread;
};

/* A kilobyte now and then, and no more when it is told so. */
static void *trickling(void *arg)
{
	struct trickle *t = arg;
	static char buf[2][1024];

	while (!t->stop) {
		if (t->takes)
			pl_lane_recv(t->l, buf[0], 1024, PL_DONTWAIT);
		else
			pl_lane_send(t->l, buf[1], 1024, PL_DONTWAIT);
		usleep(10000);
	}
	return NULL;
}

/*
 * A limit is one for a call, however many buffers it has and however often it
 * gets on: to the end this would take seconds.
 */
static void limit_of_a_call(void **state)
{
	static char big[RING * 4];
	const struct iovec v[] = { { big, RING }, { big + RING, RING * 3 } };

	(void)state;
	for (int way = 0; way < 4; way++) {
		struct pl_lane *a, *b;
		struct trickle t = { .takes = way < 2 };
		ssize_t n;

		pair(&a, &b);
		t.l = b;
		pl_lane_set_timeout(a, 200);
		if (way < 2)
			assert_int_equal(pl_lane_send(a, big, RING, 0), RING);
		assert_int_equal(pthread_create(&t.thread, NULL, trickling,
						&t), 0);
		n = way == 0 ? pl_lane_send(a, big, sizeof(big), 0) :
		    way == 1 ? pl_lane_sendv(a, v, 2, 0) :
		    way == 2 ? pl_lane_recv(a, big, sizeof(big), PL_WAITALL) :
			       pl_lane_recvv(a, v, 2, PL_WAITALL);
		t.stop = true;
		pthread_join(t.thread, NULL);
		assert_true(n == -ETIMEDOUT || (n > 0 && n < RING * 4));
		/* The lane is as it was. */
		pl_lane_set_timeout(a, SOON_MS);
		assert_int_equal(pl_lane_recv(b, big, 1, PL_DONTWAIT) > 0 ||
				 pl_lane_send(b, "x", 1, 0) == 1, 1);
		pl_lane_close(a);
		pl_lane_close(b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		lane_test(one_after_the_other),
		lane_test(half_closed_and_killed),
		lane_test(nine_threads),
		lane_test(threads_in_turn),
		lane_test(signals),
		lane_test(limit_of_a_call),
	};

	alarm(240);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
