/*
 * tests/unit/test_lane_fork.c - children of fork and what they have of lanes,
 * regions and connections: who goes on where, and who notices what
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <cmocka.h>

#include "shm/region.h"
#include "tests/unit/agent_stub.h"

#define RING PL_RING_MIN
#define SOON_MS 20000		/* a limit against hanging, not a measure */
#define TURNS 12

/* In a child: a failure is an exit status. */
#define must(x) do { if (!(x)) _exit(__LINE__ % 200 + 20); } while (0)

static void pair(struct pl_lane **a, struct pl_lane **b, bool sums)
{
	lane_both(RING, a, b);
	if (sums) {
		pl_tx_sum_start(*a);
		pl_tx_sum_start(*b);
	}
	pl_lane_set_timeout(*a, SOON_MS);
	pl_lane_set_timeout(*b, SOON_MS);
}

/* --- the peer: sends back what it gets, in a process of its own ---------- */

static pid_t echo_start(struct lane_parts *p, bool sums)
{
	static char buf[RING * 2];
	pid_t pid = fork();
	struct pl_lane *l;
	ssize_t n;

	if (pid)
		return pid;
	alarm(120);
	l = lane_alone(p, 1);
	if (sums)
		pl_tx_sum_start(l);
	while ((n = pl_lane_recv(l, buf, sizeof(buf), 0)) > 0)
		must(pl_lane_send(l, buf, (size_t)n, 0) == n);
	pl_lane_close(l);
	_exit(n == 0 ? 0 : 1);
}

/* Each way to move bytes, in turn. */
static bool put(struct pl_lane *l, void *from, size_t n, unsigned int way)
{
	const struct iovec v[] = { { from, n / 3 },
				   { (char *)from + n / 3, n - n / 3 } };
	void *to;

	if (way % 3 == 0)
		return pl_lane_send(l, from, n, 0) == (ssize_t)n;
	if (way % 3 == 1)
		return pl_lane_sendv(l, v, 2, 0) == (ssize_t)n;
	if (pl_lane_reserve(l, n, &to, 0) < (ssize_t)n)
		return false;
	memcpy(to, from, n);
	return pl_lane_commit(l, n) == 0;
}

static bool take(struct pl_lane *l, void *to, size_t n, unsigned int way)
{
	const struct iovec v[] = { { to, n / 2 },
				   { (char *)to + n / 2, n - n / 2 } };
	const void *from;

	if (way % 3 == 0)
		return pl_lane_recv(l, to, n, PL_WAITALL) == (ssize_t)n;
	if (way % 3 == 1)
		return pl_lane_recvv(l, v, 2, PL_WAITALL) == (ssize_t)n;
	if (pl_lane_peek(l, n, &from, 0) < (ssize_t)n)
		return false;
	memcpy(to, from, n);
	return pl_lane_consume(l, n) == 0;
}

/* Bytes from *at on, there and back; more than a ring in all. */
static bool exchange(struct pl_lane *l, uint64_t *at, unsigned int seed)
{
	static unsigned char out[RING / 2], in[RING / 2];
	const uint64_t end = *at + RING * 3 + 17;
	unsigned int way = seed;

	while (*at < end) {
		size_t n = piece(&seed, sizeof(out), end - *at);

		bytes_fill(out, *at, n);
		if (!put(l, out, n, way) || !take(l, in, n, way / 3) ||
		    !bytes_same(in, *at, n))
			return false;
		*at += n;
		way++;
	}
	return true;
}

/* Parent, child, parent, another child, and so on; each goes on. */
static void in_turn(bool sums)
{
	struct lane_parts p;
	struct pl_lane *l;
	uint64_t at = 0;
	pid_t echo;

	lane_parts_init(&p, RING);
	echo = echo_start(&p, sums);
	l = lane_alone(&p, 0);
	if (sums)
		pl_tx_sum_start(l);
	pl_lane_set_timeout(l, SOON_MS);
	assert_true(exchange(l, &at, 0));
	for (unsigned int turn = 0; turn < TURNS; turn++) {
		struct pl_lane_info info;
		pid_t pid;

		if (turn % 3 == 2)
			assert_true(exchange(l, &at, turn));
		pid = fork();
		if (pid == 0) {
			must(exchange(l, &at, turn));
			if (turn % 2)
				pl_lane_close(l);
			_exit(0);
		}
		assert_int_equal(child_status(pid), 0);
		pl_lane_info(l, &info);
		assert_int_equal(info.sent_bytes, info.received_bytes);
		at = info.sent_bytes;
	}
	assert_true(exchange(l, &at, 1));
	assert_int_equal(l->rx.sums, sums);
	pl_lane_close(l);
	assert_int_equal(child_status(echo), 0);
}

static void goes_on(void **state)
{
	(void)state;
	in_turn(false);
}

static void goes_on_with_checksums(void **state)
{
	(void)state;
	in_turn(true);
}

/* --- ends ---------------------------------------------------------------- */

enum how { EXITS, CLOSES, IS_KILLED, HOWS };

static void end_child(struct pl_lane *l, enum how how)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (how == CLOSES)
			pl_lane_close(l);
		if (how == IS_KILLED)
			raise(SIGKILL);
		_exit(0);
	}
	assert_int_equal(child_status(pid),
			 how == IS_KILLED ? 128 + SIGKILL : 0);
}

/* Neither the parent nor the peer notices, in whatever state the lane is. */
static void child_ends(void **state)
{
	char buf[8];

	(void)state;
	for (int how = 0; how < HOWS; how++) {
		struct pl_lane *a, *b;

		pair(&a, &b, how == CLOSES);
		end_child(a, how);
		assert_int_equal(pl_lane_recv(b, buf, 8, PL_DONTWAIT), -EAGAIN);
		assert_int_equal(pl_lane_send(a, "one", 3, 0), 3);
		end_child(a, how);
		assert_int_equal(pl_lane_recv(b, buf, 8, 0), 3);
		assert_int_equal(pl_lane_send(b, "two", 3, 0), 3);
		end_child(b, how);
		assert_int_equal(pl_lane_recv(a, buf, 8, 0), 3);
		pl_lane_close(a);
		assert_int_equal(pl_lane_recv(b, buf, 8, 0), 0);
		pl_lane_close(b);
	}
}

/* What the parent ends has ended, whatever descriptors a child has. */
static void parent_ends(void **state)
{
	struct pl_lane *a, *b;
	int hold[2];
	pid_t pid;
	char c;

	(void)state;
	pair(&a, &b, false);
	assert_int_equal(pipe(hold), 0);
	pid = fork();
	if (pid == 0) {
		close(hold[1]);
		must(read(hold[0], &c, 1) == 0);
		must(pl_lane_send(a, "x", 1, 0) == -EPIPE);
		pl_lane_close(a);
		_exit(0);
	}
	close(hold[0]);
	pl_lane_close(a);
	assert_int_equal(pl_lane_recv(b, &c, 1, 0), 0);
	assert_int_equal(pl_lane_send(b, &c, 1, 0), -EPIPE);
	close(hold[1]);
	assert_int_equal(child_status(pid), 0);
	pl_lane_close(b);
}

static void shut_down_by_either(void **state)
{
	char buf[8];

	(void)state;
	for (int by_child = 0; by_child < 2; by_child++) {
		struct pl_lane *a, *b;
		pid_t pid;

		pair(&a, &b, by_child);
		if (!by_child)
			assert_int_equal(pl_lane_shutdown(a), 0);
		pid = fork();
		if (pid == 0) {
			must(!by_child || pl_lane_send(a, "last", 4, 0) == 4);
			must(!by_child || pl_lane_shutdown(a) == 0);
			must(pl_lane_send(a, "x", 1, 0) == -EPIPE);
			_exit(0);
		}
		assert_int_equal(child_status(pid), 0);
		assert_int_equal(pl_lane_send(a, "x", 1, 0), -EPIPE);
		assert_int_equal(pl_lane_recv(b, buf, 8, PL_WAITALL),
				 by_child ? 4 : 0);
		assert_int_equal(pl_lane_recv(b, buf, 8, 0), 0);
		assert_int_equal(pl_lane_send(b, "back", 4, 0), 4);
		assert_int_equal(pl_lane_recv(a, buf, 8, 0), 4);
		pl_lane_close(a);
		pl_lane_close(b);
	}
}

/* --- killed in the middle ------------------------------------------------ */

static void *drain(void *arg)
{
	uint64_t at = 0;
	char buf[5000];
	ssize_t n;

	while ((n = pl_lane_recv(arg, buf, sizeof(buf), 0)) > 0) {
		if (!bytes_same(buf, at, (size_t)n))
			return NULL;
		at += (uint64_t)n;
	}
	return n == 0 ? (void *)(uintptr_t)at : NULL;
}

static void send_for_ever(struct pl_lane *l, uint64_t at)
{
	unsigned char buf[700];

	for (;; at += sizeof(buf)) {
		bytes_fill(buf, at, sizeof(buf));
		must(pl_lane_send(l, buf, sizeof(buf), 0) == sizeof(buf));
	}
}

/* The parent goes on behind the last byte that the child has sent. */
static void killed_while_sending(void **state)
{
	(void)state;
	for (int i = 0; i < 40; i++) {
		struct lane_parts p;
		struct pl_lane *a, *b;
		struct pl_lane_info info;
		unsigned char buf[999];
		pthread_t thread;
		void *got;
		pid_t pid;

		lane_parts_init(&p, RING);
		a = lane_end(&p, 0);
		pid = fork();
		if (pid == 0) {
			pl_lane_set_timeout(a, SOON_MS);
			if (i % 2)
				pl_tx_sum_start(a);
			send_for_ever(a, 0);
		}
		b = lane_end(&p, 1);
		lane_parts_fini(&p);
		pl_lane_set_timeout(b, SOON_MS);
		/* As it was made with them: the child has them, too. */
		a->tx.sums = i % 2;
		assert_int_equal(pthread_create(&thread, NULL, drain, b), 0);
		do {
			pl_lane_info(a, &info);
		} while (info.sent_bytes < RING * 2);
		kill(pid, SIGKILL);
		assert_int_equal(child_status(pid), 128 + SIGKILL);
		/* An empty call finds out how far it was. */
		assert_int_equal(pl_lane_send(a, buf, 0, 0), 0);
		bytes_fill(buf, a->tx.head, sizeof(buf));
		assert_int_equal(pl_lane_send(a, buf, sizeof(buf), 0),
				 sizeof(buf));
		pl_lane_info(a, &info);
		pl_lane_close(a);
		assert_int_equal(pthread_join(thread, &got), 0);
		assert_int_equal((uintptr_t)got, info.sent_bytes);
		pl_lane_close(b);
	}
}

/* A child that sleeps has said so, under numbers that are not used again. */
static void killed_while_asleep(void **state)
{
	struct pl_lane *a, *b;
	char c;

	(void)state;
	pair(&a, &b, false);
	for (int i = 0; i < 20; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			pl_lane_set_spin(a, 0);
			pl_lane_recv(a, &c, 1, 0);
			_exit(i % 2 ? 1 : 0);
		}
		for (int k = 0; k < SOON_MS && !atomic_load(&a->own->rx_wait);
		     k++)
			usleep(1000);
		assert_true(atomic_load(&a->own->rx_wait));
		if (i % 2)
			kill(pid, SIGKILL);
		else
			assert_int_equal(pl_lane_send(b, "x", 1, 0), 1);
		assert_int_equal(child_status(pid), i % 2 ? 128 + SIGKILL : 0);
		/* Not asked of the peer that is in this process, too. */
		assert_int_equal(pl_lane_send(b, "y", 1, 0), 1);
		assert_int_equal(pl_lane_recv(a, &c, 1, 0), 1);
		assert_int_equal(c, 'y');
		pl_lane_set_timeout(a, 1);
		pl_lane_set_spin(a, 0);
		assert_int_equal(pl_lane_recv(a, &c, 1, 0), -ETIMEDOUT);
		pl_lane_set_timeout(a, SOON_MS);
	}
	pl_lane_close(a);
	pl_lane_close(b);
}

/* --- the descriptor ------------------------------------------------------ */

static int readable(struct pl_lane *l, int timeout_ms)
{
	struct pollfd p = { .fd = pl_lane_fd(l), .events = POLLIN };

	return poll(&p, 1, timeout_ms);
}

/* Reads `count` bytes that come, as a loop over poll does. */
static bool polls(struct pl_lane *l, int count)
{
	while (count) {
		char c;
		ssize_t n;

		if (readable(l, SOON_MS) != 1)
			return false;
		n = pl_lane_recv(l, &c, 1, PL_DONTWAIT);
		if (n != 1 && n != -EAGAIN)
			return false;
		count -= n == 1;
	}
	return readable(l, 0) == 0 ||
	       (pl_lane_recv(l, &(char){ 0 }, 1, PL_DONTWAIT) == -EAGAIN &&
		readable(l, 0) == 0);
}

static void *send_late(void *arg)
{
	struct pl_lane *const *l = arg;

	for (int k = 0; k < SOON_MS && !atomic_load(&l[0]->own->rx_wait); k++)
		usleep(1000);
	return (void *)(intptr_t)pl_lane_send(l[1], "90", 2, 0);
}

/* The doorbell is emptied by a call that waits; one more byte is left then. */
static void late_bytes(struct pl_lane *a, struct pl_lane *b)
{
	struct pl_lane *l[2] = { a, b };
	pthread_t thread;
	char c;

	pl_lane_set_spin(a, 0);
	assert_int_equal(pthread_create(&thread, NULL, send_late, l), 0);
	assert_int_equal(pl_lane_recv(a, &c, 1, 0), 1);
	pthread_join(thread, NULL);
	while (pl_lane_drain(a))
		;
	assert_int_equal(readable(a, 0), 1);
	assert_int_equal(pl_lane_recv(a, &c, 1, 0), 1);
	assert_int_equal(pl_lane_recv(a, &c, 1, PL_DONTWAIT), -EAGAIN);
	assert_int_equal(readable(a, 0), 0);
}

/* The child's is another one: what it clears there stays with the parent. */
static void descriptors(void **state)
{
	struct pl_lane *a, *b;
	char c;

	(void)state;
	pair(&a, &b, false);
	assert_int_equal(readable(a, 0), 0);
	for (int i = 0; i < 10; i++) {
		int fd = pl_lane_fd(a);
		pid_t pid;

		/* It is readable at the time of fork, or it is not. */
		assert_int_equal(pl_lane_send(b, "12345", 5, 0), 5);
		if (i % 2) {
			assert_int_equal(pl_lane_recv(a, &c, 1, 0), 1);
			assert_int_equal(readable(a, 0), 1);
		}
		pid = fork();
		if (pid == 0) {
			alarm(60);
			must(polls(a, i % 2 ? 4 : 5));
			must(pl_lane_fd(a) == fd);
			must(polls(a, 0));
			if (i % 4 > 1)
				pl_lane_close(a);
			_exit(0);
		}
		assert_int_equal(child_status(pid), 0);
		assert_int_equal(pl_lane_recv(a, &c, 1, PL_DONTWAIT), -EAGAIN);
		assert_int_equal(readable(a, 0), 0);
		assert_int_equal(pl_lane_fd(a), fd);
		assert_int_equal(pl_lane_send(b, "678", 3, 0), 3);
		assert_true(polls(a, 3));
		late_bytes(a, b);
	}
	pl_lane_close(a);
	pl_lane_close(b);
}

/* A child that can't have its own has none, rather than its parent's. */
static void no_descriptors_left(void **state)
{
	const struct rlimit few = { 3, 3 };
	struct pl_lane *a, *b;
	pid_t pid;
	char c;

	(void)state;
	pair(&a, &b, false);
	assert_int_equal(readable(a, 0), 0);
	assert_int_equal(pl_lane_send(b, "123", 3, 0), 3);
	assert_int_equal(pl_lane_recv(a, &c, 1, 0), 1);
	pid = fork();
	if (pid == 0) {
		must(setrlimit(RLIMIT_NOFILE, &few) == 0);
		must(pl_lane_recv(a, &c, 1, 0) == 1 && c == '2');
		must(pl_lane_recv(a, &c, 1, 0) == 1 && c == '3');
		must(pl_lane_recv(a, &c, 1, PL_DONTWAIT) == -EAGAIN);
		must(pl_lane_fd(a) == -EMFILE);
		must(pl_lane_send(a, "x", 1, 0) == 1);
		_exit(0);
	}
	assert_int_equal(child_status(pid), 0);
	assert_int_equal(pl_lane_recv(b, &c, 1, 0), 1);
	assert_int_equal(pl_lane_recv(a, &c, 1, PL_DONTWAIT), -EAGAIN);
	assert_int_equal(readable(a, 0), 0);
	assert_int_equal(pl_lane_send(b, "4", 1, 0), 1);
	assert_true(polls(a, 1));
	late_bytes(a, b);
	pl_lane_close(a);
	pl_lane_close(b);
}

/* The peer was asked to ring, and a child that waited has taken that back. */
static void asked_by_a_child(void **state)
{
	struct pl_lane *a, *b;
	pid_t pid;
	char c;

	(void)state;
	pair(&a, &b, false);
	assert_int_equal(readable(a, 0), 0);
	pid = fork();
	if (pid == 0) {
		pl_lane_set_timeout(a, 1);
		pl_lane_set_spin(a, 0);
		must(pl_lane_recv(a, &c, 1, 0) == -ETIMEDOUT);
		_exit(0);
	}
	assert_int_equal(child_status(pid), 0);
	/* The child's descriptor asked anew; here nobody has. */
	atomic_store(&a->own->rx_wait, 0);
	assert_int_equal(pl_lane_recv(a, &c, 1, PL_DONTWAIT), -EAGAIN);
	assert_int_equal(pl_lane_send(b, "x", 1, 0), 1);
	assert_int_equal(readable(a, SOON_MS), 1);
	pl_lane_close(a);
	pl_lane_close(b);
}

/* --- regions ------------------------------------------------------------- */

#define SIZE 100000u

static struct pl_region *region_make(bool is_owner, int *fd)
{
	struct pl_region_parts parts = { .is_owner = is_owner,
					 .watch = PL_SEG_NONE,
					 .bell = -1 };
	struct pl_region *r;

	if (is_owner) {
		assert_int_equal(pl_seg_region_create(SIZE, &parts.seg, NULL),
				 0);
		*fd = dup(parts.seg.fd);
	} else {
		assert_int_equal(pl_seg_region_open(*fd, SIZE, &parts.seg,
						    NULL), 0);
	}
	assert_int_equal(pl_region_attach(&parts, &r, NULL), 0);
	return r;
}

static void regions(void **state)
{
	struct pl_region *own, *other;
	uint64_t v = 0;
	int fd;

	(void)state;
	own = region_make(true, &fd);
	other = region_make(false, &fd);
	for (uint64_t i = 1; i < 10; i += 2) {
		pid_t pid = fork();

		if (pid == 0) {
			alarm(60);
			*(char *)pl_region_data(own) = (char)i;
			must(pl_region_publish(own, 0, 1, &v) == 0);
			must(v == i);
			must(pl_region_wait(other, i, SOON_MS) == 0);
			if (i > 2) {
				pl_region_close(own);
				pl_region_close(other);
			}
			_exit(0);
		}
		assert_int_equal(pl_region_wait(other, i, SOON_MS), 0);
		assert_int_equal(*(char *)pl_region_data(other), (char)i);
		assert_int_equal(child_status(pid), 0);
		assert_int_equal(pl_region_publish(own, 0, 1, &v), 0);
		assert_int_equal(v, i + 1);
		assert_int_equal(pl_region_wait(other, i + 2, 0), -ETIMEDOUT);
	}
	pl_region_close(own);
	assert_int_equal(pl_region_wait(other, 100, -1), -ECONNRESET);
	pl_region_close(other);
}

/* --- connections --------------------------------------------------------- */

struct all {
	struct pl_conn *conn;
	struct pl_listener *listener;
	struct pl_lane *lane;
	struct pl_region *own, *other;
};

/* A child asks nothing of its parent's agent, and says why. */
static void child_of_conn(struct all *x, bool closes)
{
	struct pl_err err = { 0 };
	struct pl_listener *l;
	struct pl_region *r;
	struct pl_lane *lane;

	alarm(60);
	must(pl_listen(x->conn, "b", NULL, &l, &err) == -EPERM);
	must(err.code == EPERM && strstr(err.msg, "pl_open"));
	must(pl_connect(x->conn, "10.1.2.3", "b", NULL, &lane, &err) == -EPERM);
	must(pl_accept(x->listener, -1, &lane, &err) == -EPERM);
	must(pl_region_create(x->conn, "b", 5, 0, &r, &err) == -EPERM);
	must(pl_region_open(x->conn, "10.1.2.3", "b", -1, &r, &err) == -EPERM);
	must(pl_region_wait(x->other, 5, 150) == -ETIMEDOUT);
	if (closes) {
		pl_lane_close(x->lane);
		pl_unlisten(x->listener);
		pl_region_close(x->own);
		pl_region_close(x->other);
		pl_close(x->conn);
	}
	_exit(0);
}

static void connections(void **state)
{
	struct stub s = { .spoil = NULL };
	struct pl_err err = { 0 };
	struct pl_region *r;
	struct all x;

	(void)state;
	assert_int_equal(pl_conn_attach(stub_start(&s), &x.conn, &err), 0);
	assert_int_equal(pl_listen(x.conn, "a", NULL, &x.listener, &err), 0);
	assert_int_equal(pl_connect(x.conn, "10.1.2.3", "a", NULL, &x.lane,
				    &err), 0);
	assert_int_equal(pl_region_create(x.conn, "r", STUB_REGION, 0, &x.own,
					  &err), 0);
	assert_int_equal(pl_region_open(x.conn, "10.1.2.3", "r", 0, &x.other,
					&err), 0);
	for (int i = 0; i < 5; i++) {
		const bool locked = i == 2 || i == 3;
		pid_t pid;

		/* As another thread may have it at that moment. */
		if (locked)
			pthread_mutex_lock(&x.conn->lock);
		if (locked)
			pthread_mutex_lock(&x.conn->objs_lock);
		/* A message that waits to be read by the parent. */
		if (i == 4)
			stub_push_end(&s, STUB_ID);
		pid = fork();
		if (pid == 0)
			child_of_conn(&x, i % 2);
		if (locked)
			pthread_mutex_unlock(&x.conn->objs_lock);
		if (locked)
			pthread_mutex_unlock(&x.conn->lock);
		assert_int_equal(child_status(pid), 0);
		assert_int_equal(pl_lane_send(x.lane, "x", 1, 0), 1);
		assert_int_equal(pl_region_publish(x.own, 0, 1, NULL), 0);
		if (i == 4)
			assert_int_equal(pl_region_wait(x.other, 5, -1),
					 -ECONNRESET);
		assert_int_equal(pl_region_open(x.conn, "10.1.2.3", "r", 0, &r,
						&err), 0);
		pl_region_close(r);
	}
	assert_int_equal(s.seen[PL_MSG_LANE_CLOSE], 0);
	assert_int_equal(s.seen[PL_MSG_LISTEN], 1);
	assert_int_equal(s.seen[PL_MSG_CONNECT], 1);
	assert_int_equal(s.seen[PL_MSG_REGION_CLOSE], 5);
	pl_lane_close(x.lane);
	pl_unlisten(x.listener);
	pl_region_close(x.own);
	pl_region_close(x.other);
	pl_close(x.conn);
	stub_stop(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		lane_test(goes_on),
		lane_test(goes_on_with_checksums),
		lane_test(child_ends),
		lane_test(parent_ends),
		lane_test(shut_down_by_either),
		lane_test(killed_while_sending),
		lane_test(killed_while_asleep),
		lane_test(descriptors),
		lane_test(no_descriptors_left),
		lane_test(asked_by_a_child),
		lane_test(regions),
		lane_test(connections),
	};

	alarm(240);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
