/* tests/unit/test_remote.c - lanes between two nodes, with stand-in brokers */
#include "tests/unit/remote_util.h"

#define KB64 65536u
#define MB ((size_t)1 << 20)

static int setup(void **state)
{
	struct nodes *n = calloc(1, sizeof(*n));

	assert_non_null(n);
	nodes_init(n);
	*state = n;
	return 0;
}

static int teardown(void **state)
{
	nodes_fini(*state);
	free(*state);
	return 0;
}

static void no_lanes_left(struct nodes *n)
{
	RUN_UNTIL(n->base, node_info(&n->a).lanes == 0 &&
		  node_info(&n->b).lanes == 0);
}

/* Moves total bytes each way, in steps of all sizes. */
static void stream(struct nodes *n, struct pod *pa, struct pod *pb,
		   uint64_t total, void (*meanwhile)(struct nodes *n))
{
	uint64_t end_ns = pl_now_ns() + WAIT_NS;
	uint64_t target = pa->head + total;
	unsigned int x = 12345;

	while ((pa->tail < target || pb->tail < target) &&
	       pl_now_ns() < end_ns) {
		x = x * 1103515245 + 12345;
		pod_write(pa, PL_MIN((x >> 8) % 90000, target - pa->head), 1);
		pod_write(pb, PL_MIN((x >> 4) % 3000, target - pb->head), 2);
		event_base_loop(n->base, EVLOOP_NONBLOCK);
		pod_read(pa, (x >> 6) % 70000, 2);
		pod_read(pb, (x >> 5) % 130000, 1);
		if (meanwhile)
			meanwhile(n);
	}
	assert_int_equal(pa->tail, target);
	assert_int_equal(pb->tail, target);
}

static void bytes_both_ways(void **state)
{
	struct nodes *n = *state;
	struct pod pa, pb;

	pods_connect(n, &pa, &pb, KB64, MB);
	assert_string_equal(n->a.src_ns, "team");
	assert_string_equal(n->a.service, "echo");
	assert_string_equal(pb.path, "tcp");
	assert_int_equal(pa.peer.data_bytes, MB);
	assert_int_equal(pb.peer.data_bytes, KB64);
	stream(n, &pa, &pb, 8 * MB, NULL);
	assert_true(node_info(&n->a).received_bytes >= 8 * MB);
	assert_int_equal(node_info(&n->a).lanes, 1);
	pod_close(&n->b, &pb);
	RUN_UNTIL(n->base, pod_peer_state(&pa) == PL_STATE_CLOSED);
	RUN_UNTIL(n->base, is_ended(&n->a, pa.id));
	assert_false(is_ended(&n->b, pb.id));
	pod_close(&n->a, &pa);
	no_lanes_left(n);
}

/* A writer that waits for the last byte of space gets it. */
static void tail_is_always_told(void **state)
{
	struct nodes *n = *state;
	struct pod pa, pb;

	pods_connect(n, &pa, &pb, KB64, KB64);
	for (unsigned int i = 0; i < 20; i++) {
		assert_int_equal(pod_write(&pb, KB64, 2), KB64);
		RUN_UNTIL(n->base, atomic_load(&((struct pl_lane_seg *)
				  pa.peer.base)->head) == pb.head);
		run_ms(n->base, i % 3);
		while (pa.tail < pb.head) {
			pod_read(&pa, i % 2 ? KB64 : 1 + i * 500, 2);
			if (i % 4 == 0)
				run_once(n->base);
		}
		RUN_UNTIL(n->base, atomic_load(&((struct pl_lane_seg *)
				  pb.peer.base)->tail) == pb.head);
	}
	pod_close(&n->a, &pa);
	pod_close(&n->b, &pb);
	no_lanes_left(n);
}

/* What a pod wrote before it closed or died still arrives; then the end. */
static void ends(void **state)
{
	static const struct {
		uint64_t before;	/* state that it sets itself */
		bool broker;		/* tells of the end, and died */
		uint64_t after;		/* state that the peer sees */
	} cases[] = {
		{ PL_STATE_CLOSED, true, PL_STATE_CLOSED },
		{ PL_STATE_CLOSED, false, PL_STATE_CLOSED },
		{ PL_STATE_OPEN, true, PL_STATE_DEAD },
		{ PL_STATE_OPEN, false, PL_STATE_DEAD },
		{ PL_STATE_SHUT, true, PL_STATE_CLOSED },
	};
	struct nodes *n = *state;

	for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
		struct pod pa, pb;
		uint64_t sent;

		pods_connect(n, &pa, &pb, KB64, MB);
		pod_write(&pb, MB - 17, 2);
		sent = pb.head;
		if (cases[i].before)
			pod_set_state(&pb, cases[i].before);
		pod_die(&pb);
		if (cases[i].broker)
			pl_remote_lane_close(n->b.remote, pb.id,
					     cases[i].before !=
						     PL_STATE_CLOSED);
		RUN_UNTIL(n->base, pod_peer_state(&pa) == cases[i].after);
		assert_int_equal(pod_read(&pa, MB, 2), sent);
		RUN_UNTIL(n->base, pod_hung_up(&pa));
		assert_true(is_ended(&n->a, pa.id));
		pod_close(&n->a, &pa);
		no_lanes_left(n);
		assert_int_equal(is_ended(&n->b, pb.id), !cases[i].broker);
	}
}

static void half_close(void **state)
{
	struct nodes *n = *state;
	struct pod pa, pb;

	pods_connect(n, &pa, &pb, KB64, KB64);
	pod_write(&pb, 1000, 2);
	pod_set_state(&pb, PL_STATE_SHUT);
	RUN_UNTIL(n->base, pod_peer_state(&pa) == PL_STATE_SHUT);
	assert_int_equal(pod_read(&pa, KB64, 2), 1000);
	/* The other way goes on. */
	for (int i = 0; i < 10; i++) {
		assert_int_equal(pod_write(&pa, 30000, 1), 30000);
		RUN_UNTIL(n->base, pod_read(&pb, 30000, 1) == 30000);
	}
	assert_false(pod_hung_up(&pa));
	pod_close(&n->a, &pa);
	RUN_UNTIL(n->base, pod_peer_state(&pb) == PL_STATE_CLOSED);
	pod_close(&n->b, &pb);
	no_lanes_left(n);
}

/* A pod of node b, as node b says; of its own, as node a knows. */
static void false_address(void **state)
{
	struct nodes *n = *state;
	struct pl_range range = { .node = 0 };
	struct pod pb;

	assert_int_equal(pl_prefix_parse("10.88.2.0/24", &range.cidr), 0);
	n->a.reg.ranges = &range;
	n->a.reg.n_ranges = 1;
	pod_connect(&n->b, &pb, KB64, 5000);
	RUN_UNTIL(n->base, pb.status != 1);
	assert_int_equal(pb.status, -EACCES);
	assert_non_null(strstr(pb.text, "is an address of node node-a"));
	assert_null(n->a.done);
	pod_die(&pb);
	n->a.reg.ranges = NULL;
	n->a.reg.n_ranges = 0;
}

static void refused(void **state)
{
	struct nodes *n = *state;
	pl_broker_incoming_done *done;
	struct pod pb;

	n->a.refuse = EACCES;
	pod_connect(&n->b, &pb, KB64, 5000);
	RUN_UNTIL(n->base, pb.status != 1);
	assert_int_equal(pb.status, -EACCES);
	assert_string_equal(pb.text, "refused at once");
	pod_die(&pb);
	n->a.refuse = 0;
	pod_connect(&n->b, &pb, KB64, 5000);
	RUN_UNTIL(n->base, n->a.done);
	done = n->a.done;
	n->a.done = NULL;
	done(n->a.arg, -ECONNREFUSED, "nobody\nlistens", -1, 0);
	RUN_UNTIL(n->base, pb.status != 1);
	assert_int_equal(pb.status, -ECONNREFUSED);
	assert_string_equal(pb.text, "nobody?listens");
	assert_int_equal(n->a.n_ended + n->b.n_ended, 0);
	pod_die(&n->a.in);
	pod_die(&pb);
	no_lanes_left(n);
}

static void not_accepted(void **state)
{
	struct nodes *n = *state;
	struct pod pb;

	/* Nobody answers in time: the acceptor's broker is told to forget. */
	pod_connect(&n->b, &pb, KB64, 100);
	RUN_UNTIL(n->base, pb.status != 1);
	assert_int_equal(pb.status, -ETIMEDOUT);
	RUN_UNTIL(n->base, is_ended(&n->a, n->a.in.id));
	pod_die(&n->a.in);
	pod_die(&pb);
	/* The connecting pod gives up. */
	pod_connect(&n->b, &pb, KB64, -1);
	RUN_UNTIL(n->base, n->a.done);
	pl_remote_lane_close(n->b.remote, pb.id, true);
	RUN_UNTIL(n->base, is_ended(&n->a, n->a.in.id));
	pod_die(&n->a.in);
	pod_die(&pb);
	no_lanes_left(n);
	assert_int_equal(pb.status, 1);
}

/* The agent ends before the listener has answered: nobody is told later. */
static void destroyed_while_incoming(void **state)
{
	struct nodes *n = *state;
	struct pod pb;

	pod_connect(&n->b, &pb, KB64, 5000);
	RUN_UNTIL(n->base, n->a.done);
	pl_remote_destroy(n->a.remote);
	n->a.remote = NULL;
	assert_true(is_ended(&n->a, n->a.in.id));
	assert_null(n->a.done);
	RUN_UNTIL(n->base, pb.status != 1);
	assert_true(pb.status < 0);
	pod_die(&n->a.in);
	pod_die(&pb);
}

static void crossing_end(void **state)
{
	struct nodes *n = *state;
	struct pod pa, pb;

	/* Accepted and given up at the same time. */
	pod_connect(&n->b, &pb, KB64, -1);
	RUN_UNTIL(n->base, n->a.done);
	pod_accept(&n->a, &pa, KB64);
	pl_remote_lane_close(n->b.remote, pb.id, true);
	RUN_UNTIL(n->base, is_ended(&n->a, pa.id));
	assert_int_equal(pod_peer_state(&pa), PL_STATE_DEAD);
	assert_true(pod_hung_up(&pa));
	pod_die(&pa);
	pod_die(&pb);
	/* Both close. */
	pods_connect(n, &pa, &pb, KB64, KB64);
	pod_write(&pa, 100, 1);
	pod_close(&n->a, &pa);
	pod_close(&n->b, &pb);
	no_lanes_left(n);
	/* At once after it was accepted. */
	pods_connect(n, &pa, &pb, KB64, KB64);
	pod_write(&pb, 5000, 2);
	pod_close(&n->b, &pb);
	RUN_UNTIL(n->base, pod_peer_state(&pa) == PL_STATE_CLOSED);
	assert_int_equal(pod_read(&pa, KB64, 2), 5000);
	pod_close(&n->a, &pa);
	no_lanes_left(n);
}

static void unreachable(void **state)
{
	struct nodes *n = *state;
	struct pod pb;

	pl_remote_destroy(n->a.remote);
	n->a.remote = NULL;
	pod_connect(&n->b, &pb, KB64, 60000);
	RUN_UNTIL(n->base, pb.status != 1);
	assert_int_equal(pb.status, -EHOSTUNREACH);
	assert_non_null(strstr(pb.text, "node-a"));
	assert_non_null(strstr(pb.text, "refused"));
	pod_die(&pb);
	/* It is known to be down: not for longer than the pod wants. */
	pod_connect(&n->b, &pb, KB64, 100);
	RUN_UNTIL(n->base, pb.status != 1);
	assert_int_equal(pb.status, -EHOSTUNREACH);
	pod_die(&pb);
	/* It comes while a pod waits. */
	pod_connect(&n->b, &pb, KB64, 60000);
	node_start(n, &n->a, "node-a");
	RUN_UNTIL(n->base, n->a.done);
	pl_remote_lane_close(n->b.remote, pb.id, true);
	no_lanes_left(n);
	pod_die(&n->a.in);
	pod_die(&pb);
}

static void cut_sometimes(struct nodes *n)
{
	static const int every = 40;
	static int calls;	/* of this test only */

	(void)n;
	if (++calls % every == 0)
		cut();
}

/* Nothing is lost, repeated or reordered by a loss of the connection. */
static void resumed(void **state)
{
	struct nodes *n = *state;
	struct pod pa, pb;

	pods_connect(n, &pa, &pb, KB64, 256 * 1024);
	stream(n, &pa, &pb, 6 * MB, cut_sometimes);
	assert_int_equal(pod_peer_state(&pa), PL_STATE_OPEN);
	assert_int_equal(n->a.n_ended + n->b.n_ended, 0);
	/* It ends while there is no connection. */
	pod_write(&pb, 5000, 2);
	cut();
	pod_close(&n->b, &pb);
	RUN_UNTIL(n->base, pod_peer_state(&pa) == PL_STATE_CLOSED);
	assert_int_equal(pod_read(&pa, KB64, 2), 5000);
	pod_close(&n->a, &pa);
	no_lanes_left(n);
}

static void cut_in_handshake(void **state)
{
	struct nodes *n = *state;

	for (int i = 0; i < 24; i++) {
		struct pod pa = { .bell = -1 }, pb;

		pod_connect(&n->b, &pb, KB64, 2000);
		for (int k = 0; k < i / 3; k++)
			event_base_loop(n->base, EVLOOP_NONBLOCK);
		if (i % 3 == 0)
			cut();
		if (n->a.done)
			pod_accept(&n->a, &pa, KB64);
		if (i % 3 == 1)
			cut();
		run_once(n->base);
		if (i % 3 == 2)
			cut();
		if (n->a.done)
			pod_accept(&n->a, &pa, KB64);
		RUN_UNTIL(n->base, pb.status != 1);
		if (pb.status == 0) {
			assert_true(pa.id);
			stream(n, &pa, &pb, 100000, NULL);
			pod_close(&n->b, &pb);
		}
		/* An end that nobody knows of is told so. */
		if (pa.id)
			RUN_UNTIL(n->base, is_ended(&n->a, pa.id));
		pod_die(&pa);
		pod_die(&pb);
		no_lanes_left(n);
		n->a.done = NULL;
		n->a.n_ended = n->b.n_ended = 0;
	}
}

/* --- agents that are started anew ----------------------------------------- */

static void node_kill(struct pl_broker *b)
{
	pl_remote_destroy(b->remote);
	b->remote = NULL;
	b->may_show = true;
}

static void resume_pod(struct pl_broker *b, struct pod *p)
{
	struct pl_err err = { 0 };

	if (pod_resume(b, p, &err) < 0)
		fail_msg("%s", err.msg);
}

/* Either agent or both are another one while bytes are on their way. */
static void restarted(void **state)
{
	struct nodes *n = *state;
	struct pod pa, pb;
	unsigned int x = 4711;

	pods_connect(n, &pa, &pb, KB64, KB64);
	for (int i = 0; i < 60; i++) {
		bool a = i % 3 != 1, b = i % 3 != 0;

		x = x * 1103515245 + 12345;
		pod_write(&pa, (x >> 8) % 90000, 1);
		pod_write(&pb, (x >> 9) % 90000, 2);
		for (unsigned int k = 0; k < (x >> 20) % 12; k++) {
			event_base_loop(n->base, EVLOOP_NONBLOCK);
			pod_read(&pa, (x >> 6) % 30000, 2);
			pod_read(&pb, (x >> 7) % 30000, 1);
		}
		if (a)
			node_kill(&n->a);
		if (b)
			node_kill(&n->b);
		pod_write(&pa, 1000, 1);
		pod_read(&pb, 1000, 1);
		assert_int_equal(pod_peer_state(&pa), PL_STATE_OPEN);
		if (a)
			node_start(n, &n->a, "node-a");
		if (b)
			node_start(n, &n->b, "node-b");
		if (a)
			resume_pod(&n->a, &pa);
		run_ms(n->base, i % 20);
		if (b)
			resume_pod(&n->b, &pb);
	}
	stream(n, &pa, &pb, MB, NULL);
	assert_int_equal(n->a.n_ended + n->b.n_ended, 0);
	pod_close(&n->a, &pa);
	RUN_UNTIL(n->base, is_ended(&n->b, pb.id));
	pod_close(&n->b, &pb);
	no_lanes_left(n);
}

/* The last bytes and the end are not lost with the agents, nor confused. */
static void restarted_at_the_end(void **state)
{
	struct nodes *n = *state;

	for (int i = 0; i < 24; i++) {
		struct pod pa, pb;

		pods_connect(n, &pa, &pb, KB64, KB64);
		pod_write(&pb, 60000, 2);
		pod_set_state(&pb, i & 1 ? PL_STATE_CLOSED : PL_STATE_SHUT);
		for (int k = 0; k < i / 4; k++)
			event_base_loop(n->base, EVLOOP_NONBLOCK);
		pod_read(&pa, 20000, 2);
		if (i & 2)
			node_kill(&n->a);
		else
			node_kill(&n->b);
		if (i & 2) {
			node_start(n, &n->a, "node-a");
			if (pod_peer_state(&pa) < PL_STATE_CLOSED)
				resume_pod(&n->a, &pa);
		} else {
			node_start(n, &n->b, "node-b");
			if (pod_peer_state(&pb) < PL_STATE_CLOSED)
				resume_pod(&n->b, &pb);
		}
		RUN_UNTIL(n->base, pod_peer_state(&pa) != PL_STATE_OPEN);
		pod_read(&pa, KB64, 2);
		assert_int_equal(pa.tail, 60000);
		pod_close(&n->a, &pa);
		pod_close(&n->b, &pb);
		no_lanes_left(n);
		n->a.n_ended = n->b.n_ended = 0;
	}
}

/* A pod that is not there any more, and one that can't show its lane. */
static void not_shown(void **state)
{
	struct nodes *n = *state;
	struct pod pa, pb;

	n->b.resume_ms = 300;
	node_kill(&n->b);
	node_start(n, &n->b, "node-b");
	pods_connect(n, &pa, &pb, KB64, KB64);
	pod_write(&pa, 4000, 1);
	RUN_UNTIL(n->base, pod_read(&pb, 1, 1) == 1);
	/* Its pod does not come, and may still: until time is up. */
	node_kill(&n->a);
	pod_die(&pa);
	node_start(n, &n->a, "node-a");
	run_ms(n->base, 100);
	assert_int_equal(pod_peer_state(&pb), PL_STATE_OPEN);
	RUN_UNTIL(n->base, pod_peer_state(&pb) == PL_STATE_DEAD);
	assert_true(pod_read(&pb, KB64, 1) > 0);
	RUN_UNTIL(n->base, is_ended(&n->b, pb.id));
	pod_die(&pb);
	no_lanes_left(n);
	/* It can't come any more. */
	n->a.n_ended = n->b.n_ended = 0;
	pods_connect(n, &pa, &pb, KB64, KB64);
	node_kill(&n->a);
	n->a.may_show = false;
	pod_die(&pa);
	node_start(n, &n->a, "node-a");
	RUN_UNTIL(n->base, is_ended(&n->b, pb.id));
	assert_int_equal(pod_peer_state(&pb), PL_STATE_DEAD);
	pod_die(&pb);
	/* A library that knows only one agent. */
	n->a.n_ended = n->b.n_ended = 0;
	n->a.in_old = true;
	pods_connect(n, &pa, &pb, KB64, KB64);
	node_kill(&n->a);
	/* As libpodlane of version 1: it sees the doorbell hang up. */
	assert_true(pod_hung_up(&pa));
	node_start(n, &n->a, "node-a");
	RUN_UNTIL(n->base, is_ended(&n->b, pb.id));
	pod_die(&pa);
	pod_die(&pb);
	n->a.in_old = false;
	no_lanes_left(n);
}

/* What a pod shows is wrong: it loses its lane, and nobody else anything. */
static void shown_wrongly(void **state)
{
	enum { TWICE, UID, ROLE, RING, PEER_RING, HEAD, TAIL, STATE, CASES };
	struct nodes *n = *state;

	for (int i = 0; i < CASES; i++) {
		struct pod pa, pb, other, bad;
		struct pl_err err = { 0 };
		int rc;

		pods_connect(n, &pa, &pb, KB64, 2 * KB64);
		pods_connect(n, &other, &bad, KB64, KB64);
		pod_write(&pb, 70000, 2);
		RUN_UNTIL(n->base, pod_read(&pa, 100, 2) == 100);
		if (i != TWICE) {
			node_kill(&n->b);
			node_start(n, &n->b, "node-b");
			resume_pod(&n->b, &bad);
		}
		if (i == UID)
			pb.uid[12] ^= 1;
		if (i == ROLE)
			pb.opener = false;
		if (i == HEAD)
			atomic_store(&own(&pb)->head, 300000);
		if (i == TAIL)
			atomic_store(&own(&pb)->tail, 300000);
		if (i == STATE)
			atomic_store(&own(&pb)->state, 77);
		if (i == RING || i == PEER_RING) {
			struct pl_seg *s = i == RING ? &pb.own : &pb.peer;

			pl_seg_close(s);
			assert_int_equal(pl_seg_lane_create(4 * KB64, s, &err),
					 0);
		}
		rc = pod_resume(&n->b, &pb, &err);
		if (i == TWICE)
			assert_int_equal(rc, -EEXIST);
		else if (i == HEAD || i == TAIL)
			assert_int_equal(rc, -EPROTO);
		else
			assert_int_equal(rc, 0);
		/* Only the pod that lied has lost anything. */
		if (rc == 0)
			RUN_UNTIL(n->base, is_ended(&n->b, pb.id) ||
					   pod_peer_state(&pa) ==
						   PL_STATE_DEAD);
		stream(n, &other, &bad, 200000, NULL);
		pod_close(&n->a, &other);
		pod_close(&n->b, &bad);
		pod_close(&n->a, &pa);
		pod_die(&pb);
		n->b.may_show = false;
		cut();
		no_lanes_left(n);
		n->a.n_ended = n->b.n_ended = 0;
	}
}

/* Asked for and not answered: asked for again, and accepted once. */
static void restarted_while_connecting(void **state)
{
	struct nodes *n = *state;

	for (int i = 0; i < 12; i++) {
		struct pod pa = { .bell = -1 }, pb;
		bool accepted = false;

		pod_connect(&n->b, &pb, KB64, 20000);
		for (int k = 0; k < i / 2; k++)
			event_base_loop(n->base, EVLOOP_NONBLOCK);
		if (n->a.done && i % 2) {
			pod_accept(&n->a, &pa, KB64);
			accepted = true;
			run_ms(n->base, i / 3);
		}
		/* The opener's agent; its pod asks the next one. */
		if (pb.status == 1) {
			node_kill(&n->b);
			node_start(n, &n->b, "node-b");
			pod_ask(&n->b, &pb, 20000);
		}
		if (!accepted) {
			RUN_UNTIL(n->base, n->a.done);
			pod_accept(&n->a, &pa, KB64);
		}
		RUN_UNTIL(n->base, pb.status != 1);
		assert_int_equal(pb.status, 0);
		stream(n, &pa, &pb, 100000, NULL);
		assert_null(n->a.done);
		pod_close(&n->b, &pb);
		RUN_UNTIL(n->base, is_ended(&n->a, pa.id));
		pod_die(&pa);
		no_lanes_left(n);
		n->a.n_ended = n->b.n_ended = 0;
	}
}

static void node_leaves_the_registry(void **state)
{
	struct nodes *n = *state;
	struct pod pa, pb;

	pods_connect(n, &pa, &pb, KB64, KB64);
	n->b.reg.nodes = &n->b.nodes[1];
	n->b.reg.n = 1;
	pl_remote_update(n->b.remote, &n->b.reg);
	assert_int_equal(pod_peer_state(&pb), PL_STATE_DEAD);
	assert_true(is_ended(&n->b, pb.id));
	run_ms(n->base, 50);
	n->b.reg.nodes = n->b.nodes;
	n->b.reg.n = 2;
	pl_remote_update(n->b.remote, &n->b.reg);
	/* It is back: what is left of the lane over there ends. */
	RUN_UNTIL(n->base, is_ended(&n->a, pa.id));
	pod_die(&pa);
	pod_die(&pb);
	no_lanes_left(n);
}

static void hostile_pod(void **state)
{
	struct nodes *n = *state;
	struct pod good_a, good_b;

	pods_connect(n, &good_a, &good_b, KB64, KB64);
	for (int i = 0; i < 6; i++) {
		struct pod pa, pb;

		pods_connect(n, &pa, &pb, KB64, KB64);
		assert_int_equal(pod_write(&pb, 1000, 2), 1000);
		RUN_UNTIL(n->base, pod_read(&pa, 1000, 2) == 1000);
		switch (i) {
		case 0:
			atomic_store(&own(&pb)->head, pb.head + KB64 + 1);
			break;
		case 1:
			atomic_store(&own(&pb)->head, pb.head - 1);
			break;
		case 2:
			atomic_store(&own(&pb)->head, ~0ull);
			break;
		case 3:
			atomic_store(&own(&pb)->tail, 1);
			break;
		case 4:
			atomic_store(&own(&pb)->state, 77);
			break;
		case 5:
			atomic_store(&own(&pb)->state, PL_STATE_DEAD);
			break;
		}
		pod_ring(&pb);
		RUN_UNTIL(n->base, pod_peer_state(&pa) == PL_STATE_DEAD);
		assert_int_equal(pod_read(&pa, KB64, 2), 0);
		RUN_UNTIL(n->base, is_ended(&n->a, pa.id) &&
			  is_ended(&n->b, pb.id));
		pod_die(&pa);
		pod_die(&pb);
	}
	stream(n, &good_a, &good_b, 100000, NULL);
	pod_close(&n->a, &good_a);
	pod_close(&n->b, &good_b);
	no_lanes_left(n);
}

/* One lane whose reader does nothing does not hold up the others. */
static void stuck_reader(void **state)
{
	struct nodes *n = *state;
	struct pod pa, pb, stuck_a, stuck_b;

	pods_connect(n, &stuck_a, &stuck_b, MB, MB);
	assert_int_equal(pod_write(&stuck_a, 4 * MB, 1), MB);
	pods_connect(n, &pa, &pb, KB64, KB64);
	stream(n, &pa, &pb, MB, NULL);
	assert_int_equal(pod_write(&stuck_a, 1, 1), 0);
	assert_int_equal(pod_read(&stuck_b, MB, 1), MB);
	RUN_UNTIL(n->base, pod_write(&stuck_a, 1, 1) == 1);
	pod_close(&n->a, &stuck_a);
	pod_close(&n->b, &stuck_b);
	pod_close(&n->a, &pa);
	pod_close(&n->b, &pb);
	no_lanes_left(n);
}

static void many_lanes(void **state)
{
	enum { N = 24 };
	struct nodes *n = *state;
	struct pod pa[N], pb[N];

	for (int i = 0; i < N; i++) {
		pods_connect(n, &pa[i], &pb[i], KB64, KB64);
		pod_write(&pa[i], 40000, (uint8_t)i);
		pod_write(&pb[i], 50000, (uint8_t)i);
	}
	cut();
	for (int i = 0; i < N; i++) {
		RUN_UNTIL(n->base, (pod_read(&pb[i], KB64, (uint8_t)i),
				    pb[i].tail == 40000));
		RUN_UNTIL(n->base, (pod_read(&pa[i], KB64, (uint8_t)i),
				    pa[i].tail == 50000));
	}
	for (int i = 0; i < N; i++) {
		pod_close(&n->a, &pa[i]);
		pod_close(&n->b, &pb[i]);
	}
	no_lanes_left(n);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
int main(void)
{
	const struct CMUnitTest tests[] = {
		T(bytes_both_ways), T(tail_is_always_told), T(ends),
		T(false_address),
		T(half_close), T(refused), T(not_accepted),
		T(destroyed_while_incoming), T(crossing_end),
		T(unreachable), T(resumed), T(cut_in_handshake), T(restarted),
		T(restarted_at_the_end), T(not_shown), T(shown_wrongly),
		T(restarted_while_connecting),
		T(node_leaves_the_registry), T(hostile_pod), T(stuck_reader),
		T(many_lanes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
