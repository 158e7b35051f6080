/* tests/unit/test_verbs.c - the verbs carrier, on a device that is not there */
#include "tests/unit/carrier_tests.h"

#include "rdma/verbs.h"
#include "tests/unit/verbs_fake.h"

static int verbs_ends(void **state)
{
	(void)state;
	ends.ops = &pl_carrier_auto;
	ends.verbs.calls = &fake_calls;
	ends.verbs.retry_ms = 20;
	ends.begin = fake_init;
	ends.end = fake_fini;
	ends.settled = fake_settled;
	return 0;
}

static void verbs_up(struct pair *p)
{
	pair_up(p);
	assert_string_equal(pl_carrier_path(p->a.peer), "verbs");
	assert_string_equal(pl_carrier_path(p->b.peer), "verbs");
}

/* One message of a lane: bytes, counters, and the other side is told. */
static void lane_put(struct pair *p, size_t at, size_t len)
{
	uint64_t words[9] = { at + len };

	assert_int_equal(put(p, 4096 + at, len, 0), 0);
	assert_int_equal(pl_carrier_put(p->a.peer, p->src.id, p->dst.id, 64,
					words, sizeof(words), PL_PUT_NOTIFY,
					on_done, p), 0);
}

static uint64_t head(const struct pair *p)
{
	uint64_t h;

	memcpy(&h, p->dst.map + 64, sizeof(h));
	return h;
}

/* What the README says that a message costs. */
static void work_per_message(void **state)
{
	struct pl_carrier_stats before, st;
	struct pair *p = *state;

	verbs_up(p);
	pair_memory(p, MB);
	memory_fill(&p->src, 1);
	pl_carrier_stats(p->a.peer, &before);
	for (size_t i = 0; i < 100; i++) {
		lane_put(p, i * 64, 64);
		RUN_UNTIL(p->base, head(p) == (i + 1) * 64);
	}
	pl_carrier_stats(p->a.peer, &st);
	assert_int_equal(st.work_requests - before.work_requests, 200);
	assert_int_equal(st.doorbells - before.doorbells, 100);
	assert_true(st.completions - before.completions <= 110);
	assert_int_equal(st.rdma_bytes, 100 * (64 + 72));
	assert_int_equal(st.put_bytes, st.rdma_bytes);
	assert_int_equal(st.rdma_copied_bytes, 0);
	assert_memory_equal(p->src.map + 4096, p->dst.map + 4096, 6400);
	/* 64 that wait are one stretch of the ring: 0.03 for each. */
	before = st;
	lane_put(p, 6400, 64 * 64);
	RUN_UNTIL(p->base, head(p) == 6400 + 64 * 64);
	pl_carrier_stats(p->a.peer, &st);
	assert_int_equal(st.work_requests - before.work_requests, 2);
	assert_int_equal(st.doorbells - before.doorbells, 1);
}

/* While it polls, what the carrier does for messages needs no system call. */
static void no_system_call(void **state)
{
	struct pl_carrier_stats before[2], st[2];
	struct pair *p = *state;
	struct pl_carrier_peer *peer[2];

	verbs_up(p);
	pair_memory(p, MB);
	peer[0] = p->a.peer;
	peer[1] = p->b.peer;
	for (int i = 0; i < 2; i++)
		pl_carrier_stats(peer[i], &before[i]);
	for (size_t i = 0; i < 1000; i++) {
		lane_put(p, i * 64, 64);
		RUN_UNTIL(p->base, head(p) == (i + 1) * 64);
	}
	for (int i = 0; i < 2; i++) {
		pl_carrier_stats(peer[i], &st[i]);
		assert_int_equal(st[i].wakeups, before[i].wakeups);
		/* Those of tcp, which asks now and then whether it lives. */
		assert_true(st[i].syscalls - before[i].syscalls < 50);
	}
}

/*
 * Bytes on the wire over bytes of payload, of a lane's message of 64 KiB in
 * packets of 4096: headers of RoCE v2 over Ethernet with IPv4, and of what
 * acknowledges.
 */
static double overhead(double wire, double wrs, double payload)
{
	/* Preamble, gap, Ethernet, FCS, IPv4, UDP, BTH, ICRC; RETH; AETH. */
	const double packet = 8 + 12 + 14 + 4 + 20 + 8 + 12 + 4, reth = 16;
	double packets = payload / 4096 + wrs / 2;

	return (wire - payload + packets * packet + wrs / 2 * reth +
		wrs * (packet + 4)) / payload;
}

static void wire_overhead(void **state)
{
	struct pl_carrier_stats before, st;
	struct pair *p = *state;
	double share;

	verbs_up(p);
	pair_memory(p, MB);
	pl_carrier_stats(p->a.peer, &before);
	for (size_t i = 0; i < 10; i++) {
		lane_put(p, i * 65536, 65536);
		RUN_UNTIL(p->base, head(p) == (i + 1) * 65536);
	}
	pl_carrier_stats(p->a.peer, &st);
	share = overhead((double)(st.wire_bytes - before.wire_bytes),
			 (double)(st.work_requests - before.work_requests),
			 10 * 65536.0);
	print_message("of 64 KiB: %.2f %% more bytes on the wire\n",
		      100 * share);
	assert_true(share > 0.01);
	assert_true(share < 0.03);
}

/* 9 for a MiB: 8 WRITEs and a SEND. */
static void work_per_mib(void **state)
{
	struct pl_carrier_stats before, st;
	struct pair *p = *state;

	verbs_up(p);
	pair_memory(p, 9 * MB);
	pl_carrier_stats(p->a.peer, &before);
	for (size_t i = 0; i < 8; i++) {
		lane_put(p, i * MB, MB);
		RUN_UNTIL(p->base, head(p) == (i + 1) * MB);
	}
	pl_carrier_stats(p->a.peer, &st);
	assert_int_equal(st.work_requests - before.work_requests,
			 8 * (MB / PL_VERBS_CHUNK + 1));
	assert_int_equal(st.wakeups, before.wakeups);
}

/* Nothing to do: the device wakes us, nobody looks. */
static void idle_costs_nothing(void **state)
{
	struct pl_carrier_stats before, st;
	struct pair *p = *state;

	verbs_up(p);
	pair_memory(p, MB);
	lane_put(p, 0, 64);
	RUN_UNTIL(p->base, head(p) == 64);
	run_ms(p->base, 50);
	pl_carrier_stats(p->a.peer, &before);
	run_ms(p->base, 100);
	pl_carrier_stats(p->a.peer, &st);
	assert_int_equal(st.polls, before.polls);
	lane_put(p, 64, 64);
	RUN_UNTIL(p->base, head(p) == 128 && p->done == 4);
}

static int setup_busy(void **state)
{
	int rc;

	ends.verbs.polling = PL_POLLING_BUSY;
	rc = setup(state);
	ends.verbs.polling = PL_POLLING_ADAPTIVE;
	return rc;
}

/* With a name: only the test of this name (tests/system/verbs_cost.sh). */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CARRIER_TESTS, T(work_per_message), T(wire_overhead),
		cmocka_unit_test_setup_teardown(no_system_call, setup_busy,
						teardown),
		cmocka_unit_test_setup_teardown(work_per_mib, setup_busy,
						teardown),
		T(idle_costs_nothing),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests_name("verbs", tests, verbs_ends, NULL);
}
