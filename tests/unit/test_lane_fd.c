/*
 * tests/unit/test_lane_fd.c - the descriptor of a lane, and a thread that sends
 *
 * What tests/model/bell.pml found, done by hand: the peer and one of the two
 * threads are stopped where it matters by the test playing their part.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <cmocka.h>

#include "common/util.h"
#include "tests/unit/lane_pair.h"

#define RING PL_RING_MIN
#define SOON_MS 20000		/* a limit against hanging, not a measure */

static void *fill(void *arg)
{
	static char big[RING + 1];

	pl_lane_send(arg, big, sizeof(big), 0);
	return NULL;
}

static int readable(struct pl_lane *l, int timeout_ms)
{
	struct pollfd p = { .fd = pl_lane_fd(l), .events = POLLIN };

	return poll(&p, 1, timeout_ms);
}

static ssize_t take_byte(struct pl_lane *l)
{
	char c;

	return pl_lane_recv(l, &c, 1, PL_DONTWAIT);
}

static int bell_bytes(struct pl_lane *l)
{
	int n = 0;

	assert_int_equal(ioctl(l->bell, FIONREAD, &n), 0);
	return n;
}

/* b shows one more byte, and does not look at wait words yet. */
static void show_byte(struct pl_lane *b)
{
	b->tx.head++;
	atomic_store(&b->own->head, b->tx.head);
}

/*
 * The peer shows a byte and is slow to ring. The receiver has found the byte
 * by then and asked for the next one, so the peer rings for that number, and a
 * sending thread drains it. The peer will not ring for this number again.
 */
static void rung_for_the_next_byte(void **state)
{
	struct pl_lane *a, *b;
	pthread_t thread;
	uint32_t asked;

	(void)state;
	lane_both(RING, &a, &b);
	assert_true(pl_lane_fd(a) >= 0);
	assert_int_equal(pthread_create(&thread, NULL, fill, a), 0);
	for (int i = 0; i < SOON_MS && !atomic_load(&a->own->tx_wait); i++)
		usleep(1000);
	assert_true(atomic_load(&a->own->tx_wait));
	show_byte(b);
	assert_int_equal(take_byte(a), 1);
	asked = atomic_load(&a->own->rx_wait);
	assert_true(asked != 0);
	b->tx.rung = asked;
	pl_lane_ring(b);
	for (int i = 0; i < SOON_MS && bell_bytes(a); i++)
		usleep(1000);
	assert_int_equal(bell_bytes(a), 0);
	/* For nothing, which makes the receiver ask anew. */
	assert_int_equal(readable(a, SOON_MS), 1);
	assert_int_equal(take_byte(a), -EAGAIN);
	assert_int_equal(pl_lane_send(b, "x", 1, 0), 1);
	assert_int_equal(readable(a, SOON_MS), 1);
	assert_int_equal(take_byte(a), 1);
	pl_lane_close(b);
	assert_int_equal(pthread_join(thread, NULL), 0);
	pl_lane_close(a);
}

/* One thread has announced a signal, the other clears, then it comes. */
static void signal_on_its_way(void **state)
{
	const uint64_t one = 1;
	struct pl_lane *a, *b;

	(void)state;
	lane_both(RING, &a, &b);
	assert_true(pl_lane_fd(a) >= 0);
	assert_int_equal(readable(a, 0), 0);
	assert_false(atomic_exchange(&a->signalled, true));
	assert_int_equal(take_byte(a), -EAGAIN);
	assert_int_equal(write(a->event_fd, &one, sizeof(one)), sizeof(one));
	assert_int_equal(readable(a, 0), 1);
	assert_int_equal(take_byte(a), -EAGAIN);
	assert_int_equal(readable(a, 0), 0);
	pl_lane_close(a);
	pl_lane_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		lane_test(rung_for_the_next_byte),
		lane_test(signal_on_its_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
