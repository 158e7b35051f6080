/*
 * tests/unit/test_stats.c - what libraries count in their lanes, and how the
 * agent reads it
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/json.h"
#include "daemonset/ctl_watch.h"
#include "daemonset/stats.h"
#include "shm/wake.h"
#include "tests/unit/lane_pair.h"

#define RING PL_RING_MIN

static uint64_t get(const _Atomic uint64_t *v)
{
	return atomic_load(v);
}

/* --- the library ---------------------------------------------------------- */

static void calls(void **state)
{
	struct pl_lane *a, *b;
	const void *in;
	char buf[300];
	void *out;

	(void)state;
	lane_both(RING, &a, &b);
	assert_true(a->own->additions & PL_LANE_COUNTS);
	memset(buf, 1, sizeof(buf));
	for (int i = 0; i < 3; i++)
		assert_int_equal(pl_lane_send(a, buf, 100, 0), 100);
	assert_true(pl_lane_reserve(a, 10, &out, 0) >= 10);
	memset(out, 2, 10);
	assert_int_equal(pl_lane_commit(a, 4), 0);
	assert_int_equal(pl_lane_commit(a, 6), 0);
	assert_int_equal(get(&a->own->tx_count.calls), 5);
	assert_int_equal(pl_lane_recv(b, buf, 300, 0), 300);
	assert_int_equal(pl_lane_peek(b, 10, &in, 0), 10);
	assert_int_equal(pl_lane_consume(b, 10), 0);
	assert_int_equal(get(&b->own->rx_count.calls), 2);
	assert_int_equal(get(&b->own->tx_count.calls), 0);
	assert_int_equal(get(&a->own->rx_count.calls), 0);
	assert_int_equal(get(&a->own->tx_count.waits), 0);
	pl_lane_close(a);
	pl_lane_close(b);
}

static void failures(void **state)
{
	static char big[2 * RING];
	struct pl_lane *a, *b;
	char c;

	(void)state;
	lane_both(RING, &a, &b);
	assert_int_equal(pl_lane_recv(b, &c, 1, PL_DONTWAIT), -EAGAIN);
	assert_int_equal(get(&b->own->rx_count.refusals), 1);
	assert_int_equal(pl_lane_send(a, big, sizeof(big), PL_DONTWAIT), RING);
	assert_int_equal(get(&a->own->tx_count.refusals), 0);
	assert_int_equal(pl_lane_send(a, big, 1, PL_DONTWAIT), -EAGAIN);
	pl_lane_set_timeout(a, 20);
	assert_int_equal(pl_lane_send(a, big, 1, 0), -ETIMEDOUT);
	assert_int_equal(get(&a->own->tx_count.refusals), 2);
	assert_int_equal(get(&a->own->tx_count.waits), 1);
	assert_true(get(&a->own->tx_count.sleeps) >= 1);
	assert_true(get(&a->own->tx_count.wait_ns) >= 20000000);
	pl_lane_close(b);
	assert_int_equal(pl_lane_send(a, big, 1, 0), -EPIPE);
	assert_int_equal(get(&a->own->tx_count.errors), 1);
	assert_int_equal(get(&a->own->rx_count.errors), 0);
	pl_lane_close(a);
}

static void *receive_one(void *lane)
{
	char c;

	return (void *)pl_lane_recv(lane, &c, 1, 0);
}

static uint64_t wakes(const struct pl_lane_wake *w)
{
	uint64_t n = 0;

	for (int i = 0; i < PL_WAKE_BUCKETS; i++)
		n += get(&w->n[i]);
	return n;
}

/* Who sleeps counts that, who wakes the doorbell. */
static void doorbells(void **state)
{
	struct pl_lane *a, *b;
	pthread_t t;
	void *got;

	(void)state;
	lane_both(RING, &a, &b);
	pl_lane_set_spin(b, 0);
	assert_int_equal(pthread_create(&t, NULL, receive_one, b), 0);
	while (!atomic_load(&b->own->rx_wait))
		sched_yield();
	assert_int_equal(pl_lane_send(a, "x", 1, 0), 1);
	pthread_join(t, &got);
	assert_int_equal((intptr_t)got, 1);
	assert_int_equal(get(&a->own->tx_count.rings), 1);
	assert_int_equal(get(&b->own->rx_count.rings), 0);
	assert_int_equal(get(&b->own->rx_count.waits), 1);
	assert_true(get(&b->own->rx_count.sleeps) >= 1);
	assert_true(get(&b->own->rx_count.wait_ns) > 0);
	assert_true(get(&a->own->tx_wake.rung_ns) > 0);
	assert_int_equal(wakes(&b->own->rx_wake), 1);
	assert_true(get(&b->own->rx_wake.ns) > 0);
	assert_true(get(&b->own->rx_wake.ns) <=
		    get(&b->own->rx_count.wait_ns));
	assert_int_equal(wakes(&b->own->tx_wake), 0);
	assert_int_equal(wakes(&a->own->tx_wake), 0);
	pl_lane_close(a);
	pl_lane_close(b);
}

static void *send_one(void *lane)
{
	return (void *)pl_lane_send(lane, "x", 1, 0);
}

/* The receiver wakes the sender: it is the sending thread that counts. */
static void wakes_for_space(void **state)
{
	struct pl_lane *a, *b;
	static char full[RING];
	pthread_t t;
	void *got;

	(void)state;
	lane_both(RING, &a, &b);
	pl_lane_set_spin(a, 0);
	assert_int_equal(pl_lane_send(a, full, RING, 0), RING);
	assert_int_equal(pthread_create(&t, NULL, send_one, a), 0);
	while (!atomic_load(&a->own->tx_wait))
		sched_yield();
	assert_int_equal(pl_lane_recv(b, full, RING, 0), RING);
	pthread_join(t, &got);
	assert_int_equal((intptr_t)got, 1);
	assert_int_equal(wakes(&a->own->tx_wake), 1);
	assert_int_equal(wakes(&a->own->rx_wake), 0);
	pl_lane_close(a);
	pl_lane_close(b);
}

/* Neither a time-out nor what was there at once is a wake-up. */
static void no_wakes(void **state)
{
	struct pl_lane *a, *b;
	char c;

	(void)state;
	lane_both(RING, &a, &b);
	pl_lane_set_timeout(b, 20);
	assert_int_equal(pl_lane_recv(b, &c, 1, 0), -ETIMEDOUT);
	assert_int_equal(pl_lane_send(a, "x", 1, 0), 1);
	assert_int_equal(pl_lane_recv(b, &c, 1, 0), 1);
	assert_int_equal(wakes(&b->own->rx_wake), 0);
	pl_lane_close(a);
	pl_lane_close(b);
}

/* What a peer says of when it rang has to be within the sleep. */
static void wake_bounds(void **state)
{
	struct pl_lane_wake w = { 0 };

	(void)state;
	assert_false(pl_wake_count(&w, 0, 1000, 9000));
	assert_false(pl_wake_count(&w, 999, 1000, 9000));
	assert_false(pl_wake_count(&w, 9001, 1000, 9000));
	assert_false(pl_wake_count(&w, UINT64_MAX, 1000, 9000));
	assert_int_equal(wakes(&w), 0);
	assert_true(pl_wake_count(&w, 7000, 1000, 9000));
	assert_true(pl_wake_count(&w, 1000, 1000, 9000));
	assert_int_equal(get(&w.n[0]), 1);
	assert_int_equal(get(&w.n[2]), 1);
	assert_int_equal(get(&w.ns), 10000);
	assert_int_equal(pl_wake_bucket(2001), 1);
	assert_int_equal(pl_wake_bucket(100000000), PL_WAKE_BUCKETS - 2);
	assert_int_equal(pl_wake_bucket(100000001), PL_WAKE_BUCKETS - 1);
	assert_int_equal(pl_wake_bucket(UINT64_MAX), PL_WAKE_BUCKETS - 1);
	for (int i = 1; i < PL_WAKE_BUCKETS - 1; i++)
		assert_true(pl_wake_bounds_us[i] > pl_wake_bounds_us[i - 1]);
}

/* --- the agent ------------------------------------------------------------ */

static double number(const cJSON *j, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(j, key);

	assert_true(cJSON_IsNumber(v));
	return v->valuedouble;
}

static void read_flows(void **state)
{
	struct pl_lane_seg s = { .additions = PL_LANE_COUNTS };
	pl_auto_json *j = NULL;
	struct pl_flows f;

	(void)state;
	atomic_store(&s.head, 5000);
	atomic_store(&s.tail, 70);
	atomic_store(&s.tx_count.calls, 50);
	atomic_store(&s.rx_count.calls, 7);
	atomic_store(&s.rx_count.wait_ns, 1500000000);
	pl_flows_read(&s, &f);
	assert_true(f.has_counts);
	assert_int_equal(f.tx.n[PL_FLOW_BYTES], 5000);
	assert_int_equal(f.rx.n[PL_FLOW_BYTES], 70);
	assert_int_equal(f.tx.n[PL_FLOW_MESSAGES], 50);
	j = pl_flow_json(&f.rx, true);
	assert_true(number(j, "messages") == 7);
	assert_true(number(j, "waitSeconds") == 1.5);
	assert_true(number(j, "errors") == 0);
	pl_flows_read(NULL, &f);
	assert_int_equal(f.tx.n[PL_FLOW_BYTES], 0);
}

/* A library that does not count: whatever stands there is not looked at. */
static void read_old(void **state)
{
	struct pl_lane_seg s = { .additions = 0 };
	pl_auto_json *j = NULL;
	struct pl_wakes w = { .ns = 0 };
	struct pl_flows f;

	(void)state;
	atomic_store(&s.head, 9);
	atomic_store(&s.tx_count.calls, 50);
	pl_flows_read(&s, &f);
	assert_false(f.has_counts);
	assert_int_equal(f.tx.n[PL_FLOW_BYTES], 9);
	assert_int_equal(f.tx.n[PL_FLOW_MESSAGES], 0);
	j = pl_flow_json(&f.tx, f.has_counts);
	assert_true(number(j, "bytes") == 9);
	assert_null(cJSON_GetObjectItemCaseSensitive(j, "messages"));
	assert_null(pl_carry_json(&s));
	atomic_store(&s.rx_wake.n[3], 8);
	pl_wakes_add(&w, &s);
	assert_int_equal(w.n[3], 0);
}

/* All that a pod can write: numbers stop, and sums of them. */
static void read_hostile(void **state)
{
	struct pl_pod_counts c = { .magic = PL_POD_COUNTS_MAGIC };
	struct pl_lane_seg s;
	struct pl_flow tx, rx;
	struct pl_wakes w;
	struct pl_flows f;
	pl_auto_json *j = NULL;

	(void)state;
	memset(&s, 0xff, sizeof(s));
	pl_flows_read(&s, &f);
	for (int i = 0; i < PL_FLOW_ITEMS; i++) {
		assert_true(f.tx.n[i] == PL_STAT_MAX);
		assert_true(f.rx.n[i] == PL_STAT_MAX);
	}
	for (int i = 0; i < 3; i++)
		pl_pod_counts_end(&c, &s);
	pl_pod_counts_flows(&c, &tx, &rx);
	pl_flow_add(&tx, &f.tx);
	assert_true(tx.n[PL_FLOW_BYTES] == PL_STAT_MAX);
	assert_true(rx.n[PL_FLOW_WAIT_NS] == PL_STAT_MAX);
	pl_pod_counts_wakes(&c, &w);
	assert_true(w.ns == PL_STAT_MAX);
	pl_wakes_add(&w, &s);
	for (int i = 0; i < PL_WAKE_BUCKETS; i++)
		assert_true(w.n[i] == PL_STAT_MAX);
	j = pl_flow_json(&tx, true);
	assert_true(number(j, "bytes") == 0x1p62);
	assert_true(number(j, "waitSeconds") < 0x1p62);
}

static void pod_sums(void **state)
{
	struct pl_pod_counts c = { .magic = PL_POD_COUNTS_MAGIC };
	struct pl_lane_seg s = { .additions = PL_LANE_COUNTS | PL_LANE_WAKES };
	struct pl_flow tx, rx;
	struct pl_wakes w;

	(void)state;
	atomic_store(&s.head, 100);
	atomic_store(&s.tail, 30);
	atomic_store(&s.tx_count.calls, 4);
	atomic_store(&s.tx_wake.ns, 5000);
	atomic_store(&s.tx_wake.n[0], 1);
	atomic_store(&s.tx_wake.n[2], 4);
	atomic_store(&s.rx_wake.n[2], 2);
	pl_pod_counts_end(&c, &s);
	pl_pod_counts_end(&c, &s);
	pl_pod_counts_event(&c, PL_POD_REFUSED_QUOTA);
	pl_pod_counts_flows(&c, &tx, &rx);
	assert_int_equal(tx.n[PL_FLOW_BYTES], 200);
	assert_int_equal(tx.n[PL_FLOW_MESSAGES], 8);
	assert_int_equal(rx.n[PL_FLOW_BYTES], 60);
	assert_int_equal(get(&c.events[PL_POD_REFUSED_QUOTA]), 1);
	pl_pod_counts_wakes(&c, &w);
	assert_int_equal(w.ns, 10000);
	assert_int_equal(w.n[0], 2);
	assert_int_equal(w.n[2], 12);
}

static void carried(void **state)
{
	struct pl_lane_seg s = { .additions = PL_LANE_CARRY };
	pl_auto_json *j = NULL;
	struct pl_flows f;

	(void)state;
	atomic_store(&s.carried_sends, 12);
	atomic_store(&s.carry.put_bytes, 4096);
	atomic_store(&s.carry.resumes, 2);
	pl_flows_read(&s, &f);
	assert_false(f.has_counts);
	assert_int_equal(f.tx.n[PL_FLOW_MESSAGES], 12);
	assert_int_equal(f.tx.n[PL_FLOW_DOORBELLS], 0);
	j = pl_carry_json(&s);
	assert_true(number(j, "putBytes") == 4096);
	assert_true(number(j, "resumes") == 2);
}

/* --- rates ---------------------------------------------------------------- */

#define LANE(id, from, sent, received) \
	"{\"id\":" #id ",\"from\":\"" from "\",\"to\":\"b\"," \
	"\"service\":\"s\",\"sentBytes\":" #sent "," \
	"\"sentMessages\":" #sent ",\"receivedBytes\":" #received "}"

static const cJSON *lane(const cJSON *list, int id)
{
	const cJSON *l;

	cJSON_ArrayForEach(l, list)
		if (number(l, "id") == id)
			return l;
	fail();
	return NULL;
}

static bool has(const cJSON *j, const char *key)
{
	return cJSON_HasObjectItem(j, key);
}

static void rates(void **state)
{
	pl_auto_json *before = cJSON_Parse(
		"[" LANE(1, "a", 100, 10) "," LANE(2, "a", 0, 0) ","
		LANE(3, "a", 900, 900) "," LANE(4, "a", 5, 5) "]");
	pl_auto_json *now = cJSON_Parse(
		"[" LANE(1, "a", 300, 10) "," LANE(2, "a", 8000, 2000) ","
		LANE(3, "x", 999, 999) "," LANE(4, "a", 4, 25) ","
		LANE(5, "a", 77, 77) "]");

	(void)state;
	pl_watch_rates(now, before, 2);
	assert_int_equal(cJSON_GetArraySize(now), 5);
	assert_true(number(lane(now, 1), "sentBytesPerSecond") == 100);
	assert_true(number(lane(now, 1), "sentMessagesPerSecond") == 100);
	assert_true(number(lane(now, 1), "receivedBytesPerSecond") == 0);
	assert_true(number(lane(now, 2), "receivedBytesPerSecond") == 1000);
	/* Not counted; another one of this number; backwards; new. */
	assert_false(has(lane(now, 1), "receivedMessagesPerSecond"));
	assert_false(has(lane(now, 3), "sentBytesPerSecond"));
	assert_false(has(lane(now, 4), "sentBytesPerSecond"));
	assert_true(number(lane(now, 4), "receivedBytesPerSecond") == 10);
	assert_false(has(lane(now, 5), "sentBytesPerSecond"));
	/* The fastest first. */
	assert_true(number(cJSON_GetArrayItem(now, 0), "id") == 2);
	assert_true(number(cJSON_GetArrayItem(now, 1), "id") == 1);
	pl_watch_rates(now, NULL, 1);
}

static void intervals(void **state)
{
	static const char *const wrong[] = { "", "0", "0.05", "-1", "nan",
					     "inf", "1x", "3601", "1e99" };
	uint32_t ms = 0;

	(void)state;
	assert_int_equal(pl_watch_interval("0.5", &ms, NULL), 0);
	assert_int_equal(ms, 500);
	assert_int_equal(pl_watch_interval("3600", &ms, NULL), 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_int_equal(pl_watch_interval(wrong[i], &ms, NULL),
				 -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		lane_test(calls),
		lane_test(failures),
		lane_test(doorbells),
		lane_test(wakes_for_space),
		lane_test(no_wakes),
		cmocka_unit_test(wake_bounds),
		cmocka_unit_test(read_flows),
		cmocka_unit_test(read_old),
		cmocka_unit_test(read_hostile),
		cmocka_unit_test(pod_sums),
		cmocka_unit_test(carried),
		cmocka_unit_test(rates),
		cmocka_unit_test(intervals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
