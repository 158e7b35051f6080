/*
 * tests/unit/test_verbs_faults.c - the verbs carrier when things go wrong
 *
 * A stream of bytes goes from a to b as a lane's would: bytes, then a counter;
 * after each loss the sender goes on from what the receiver has. Whatever
 * fails, all bytes arrive, in order, and nothing is left of the device.
 */
#include "tests/unit/carrier_tests.h"

#include "rdma/tcp.h"
#include "rdma/verbs.h"
#include "tests/unit/verbs_fake.h"

#define DATA 4096
#define STEP_MAX 100000

struct stream {
	int epoch;			/* of the connection that is used */
	uint64_t sent, seen;
	unsigned int seed;
};

static int faults_ends(void **state)
{
	(void)state;
	ends.ops = &pl_carrier_auto;
	ends.verbs.calls = &fake_calls;
	ends.verbs.retry_ms = 5;
	ends.begin = fake_init;
	ends.end = fake_fini;
	ends.settled = fake_settled;
	return 0;
}

static uint64_t head(const struct pair *p)
{
	uint64_t h;

	memcpy(&h, p->dst.map + 64, sizeof(h));
	return h;
}

static const char *path(const struct pair *p)
{
	return pl_carrier_path(p->a.peer);
}

static bool is_by_verbs(const struct pair *p)
{
	return p->a.peer->is_up && p->b.peer->is_up &&
	       !strcmp(path(p), "verbs") &&
	       !strcmp(pl_carrier_path(p->b.peer), "verbs");
}

/* As peers that were up once are: both want each other. */
static void faults_up(struct pair *p, size_t len)
{
	end_dial(&p->a, "node-b", &p->b);
	RUN_UNTIL(p->base, p->a.ups >= 1 && p->b.ups >= 1);
	end_dial(&p->b, "node-a", &p->a);
	pair_memory(p, len);
	memory_fill(&p->src, 11);
}

/* One stretch and its counter, if there is room. */
static bool stream_put(struct pair *p, struct stream *s, uint64_t upto)
{
	uint64_t words[9] = { 0 };
	size_t len;

	s->seed = s->seed * 1103515245 + 12345;
	len = PL_MIN(upto - s->sent, 1 + (uint64_t)(s->seed >> 8) % STEP_MAX);
	words[0] = s->sent + len;
	if (pl_carrier_put(p->a.peer, p->src.id, p->dst.id, DATA + s->sent,
			   p->src.map + DATA + s->sent, len, 0, on_done, p) < 0)
		return false;
	/* Bytes that no counter speaks of are put once more. */
	if (pl_carrier_put(p->a.peer, p->src.id, p->dst.id, 64, words,
			   sizeof(words), PL_PUT_NOTIFY, on_done, p) < 0)
		return false;
	s->sent += len;
	return true;
}

static void stream_step(struct pair *p, struct stream *s, uint64_t upto)
{
	int epoch = p->a.downs + p->b.downs;

	assert_true(head(p) >= s->seen);
	s->seen = head(p);
	if (!p->a.peer->is_up || !p->b.peer->is_up ||
	    p->a.ups != p->a.downs + 1 || p->b.ups != p->b.downs + 1)
		return;
	if (epoch != s->epoch) {
		s->epoch = epoch;
		s->sent = s->seen;
	}
	while (s->sent < upto && s->sent - s->seen < MB &&
	       stream_put(p, s, upto))
		;
}

static void stream_to(struct pair *p, struct stream *s, uint64_t upto)
{
	uint64_t end_ns = pl_now_ns() + WAIT_NS;

	while (head(p) < upto && pl_now_ns() < end_ns) {
		stream_step(p, s, upto);
		run_once(p->base);
	}
	assert_int_equal(head(p), upto);
	assert_memory_equal(p->src.map + DATA, p->dst.map + DATA, upto);
}

/* --- choice ---------------------------------- */

static void begin_without(struct event_base *base)
{
	fake_init(base);
	fk.there = false;
}

static int setup_without(void **state)
{
	int rc;

	ends.begin = begin_without;
	rc = setup(state);
	ends.begin = fake_init;
	return rc;
}

/* tcp does it; when the device comes, verbs do. */
static void device_comes_later(void **state)
{
	struct pair *p = *state;
	struct stream s = { 0 };

	faults_up(p, 4 * MB);
	assert_string_equal(path(p), "tcp");
	stream_to(p, &s, MB);
	fk.there = true;
	RUN_UNTIL(p->base, is_by_verbs(p));
	stream_to(p, &s, 3 * MB);
}

static void verbs_or_nothing(void **state)
{
	struct pair *p = *state;
	struct end e = { 0 };
	struct pl_carrier_config cfg = end_config(&e, p->base, "node-c", 0);
	struct pl_err err = { 0 };

	assert_int_equal(pl_carrier_create(&pl_carrier_verbs, &cfg, &e.c,
					   &err), -ENODEV);
	assert_non_null(strstr(err.msg, "this machine has no RDMA device"));
	/* Named, but not there: what there is, is named. */
	fk.there = fk.others = true;
	cfg.verbs.device = "mlx5_0";
	cfg.verbs.gid_index = -1;
	assert_int_equal(pl_carrier_create(&pl_carrier_verbs, &cfg, &e.c,
					   &err), -ENODEV);
	assert_non_null(strstr(err.msg, "no RDMA device mlx5_0 with an "
			       "address; there is fake0 port 1 GID 1 "
			       "(127.0.0.1), fake1 port 1 GID 1 (127.0.0.2)"));
	fk.there = fk.others = false;
}

/* By name, or because none has the node's address. */
static void another_address(void **state)
{
	static const struct {
		bool there;
		const char *device;
		uint8_t last;
	} cases[] = {
		{ true, NULL, 1 }, { true, "fake1", 2 }, { false, NULL, 2 },
	};
	struct pair *p = *state;

	for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
		struct end e = { 0 };
		struct pl_carrier_config cfg = end_config(&e, p->base,
							  "node-c", 0);
		struct pl_err err = { 0 };

		fk.there = cases[i].there;
		fk.others = true;
		cfg.verbs.device = cases[i].device;
		cfg.verbs.gid_index = -1;
		assert_int_equal(pl_carrier_create(&pl_carrier_verbs, &cfg,
						   &e.c, &err), 0);
		assert_int_equal(pl_verbs_carrier_of(e.c)->addr.bytes[3],
				 cases[i].last);
		pl_carrier_destroy(e.c);
	}
}

/* RDMA does not encrypt, so it is not used where that was asked for. */
static void no_encryption(void **state)
{
	struct pair *p = *state;
	struct end e = { 0 };
	struct pl_carrier_config cfg = end_config(&e, p->base, "node-c", 0);
	struct pl_err err = { 0 };

	cfg.security = (struct pl_carrier_security){ .kind = PL_SECURITY_TLS };
	assert_int_equal(pl_carrier_create(&pl_carrier_verbs, &cfg, &e.c,
					   &err), -EINVAL);
	assert_non_null(strstr(err.msg, "RDMA does not encrypt"));
	ends_tls(NULL);
	end_create(&e, p->base, "node-c", 0);
	assert_string_equal(e.c->path, "tcp+tls");
	pl_carrier_destroy(e.c);
	ends_fini(NULL);
}

/* A node whose agent knows tcp only, whoever of the two has the lower name. */
static void other_has_tcp(void **state)
{
	struct pair *p = *state;
	struct end e[2] = { { .deaf = true }, { .deaf = true } };
	static const char *const name[] = { "aaa", "zzz" };

	ends.ops = &pl_carrier_tcp;
	for (int i = 0; i < 2; i++)
		end_create(&e[i], p->base, name[i], 0);
	ends.ops = &pl_carrier_auto;
	for (int i = 0; i < 2; i++) {
		end_dial(&p->a, name[i], &e[i]);
		RUN_UNTIL(p->base, p->a.ups == i + 1 && e[i].ups == 1);
		assert_string_equal(path(p), "tcp");
		assert_int_equal(pl_carrier_message(e[i].peer, "x", 1, 0), 0);
		RUN_UNTIL(p->base, p->a.messages == i + 1);
	}
	for (int i = 0; i < 2; i++)
		pl_carrier_destroy(e[i].c);
}

/* --- calls that fail ---------------------------------- */

/* The Nth call of each kind: the stream arrives, and verbs come back. */
static void each_call_fails(void **state)
{
	struct pair *p = *state;

	for (int call = FAKE_EVENTS_OPEN; call < FAKE_CALLS; call++) {
		for (unsigned int nth = 1; nth <= 4; nth++) {
			struct stream s = { .seed = nth };

			fake_fail(call, nth, call == FAKE_QP_CREATE ? ENOMEM :
								      EIO);
			faults_up(p, 2 * MB);
			stream_to(p, &s, MB);
			RUN_UNTIL(p->base, is_by_verbs(p));
			stream_to(p, &s, 3 * MB / 2);
			fk.fail_at[call] = 0;
			assert_int_equal(teardown(state), 0);
			assert_int_equal(setup(state), 0);
			p = *state;
		}
	}
}

/* ... and while bytes are under way. */
static void calls_fail_in_service(void **state)
{
	static const enum fake_call calls[] = { FAKE_POLL, FAKE_ARM, FAKE_SEND,
						FAKE_SRQ_POST, FAKE_MR };
	struct pair *p = *state;
	struct stream s = { 0 };
	uint64_t upto = 0;

	faults_up(p, 17 * MB);
	for (size_t i = 0; i < 15; i++) {
		RUN_UNTIL(p->base, is_by_verbs(p));
		fake_fail(calls[i % PL_ARRAY_SIZE(calls)], 1 + i, EIO);
		upto += MB;
		stream_to(p, &s, upto);
	}
	assert_true(p->a.downs > 0 && p->b.downs > 0);
}

/* --- work requests that fail ---------------------------------- */

static void completions_with_errors(void **state)
{
	static const enum ibv_wc_status errors[] = {
		IBV_WC_RETRY_EXC_ERR, IBV_WC_REM_ACCESS_ERR,
		IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR, IBV_WC_GENERAL_ERR,
		IBV_WC_WR_FLUSH_ERR,
	};
	struct pair *p = *state;
	struct stream s = { 0 };
	uint64_t upto = 0;

	faults_up(p, 17 * MB);
	for (unsigned int i = 0; i < 16; i++) {
		int downs = p->a.downs;

		RUN_UNTIL(p->base, is_by_verbs(p));
		fk.wr_error_at = fk.wrs + 1 + i;
		fk.wr_error = errors[i % PL_ARRAY_SIZE(errors)];
		upto += MB;
		stream_to(p, &s, upto);
		RUN_UNTIL(p->base, p->a.downs > downs ||
			  fk.wrs < fk.wr_error_at);
	}
	RUN_UNTIL(p->base, is_by_verbs(p));
}

/* The device says that a queue pair or a queue is of no use any more. */
static void events_of_queues(void **state)
{
	static const enum ibv_event_type types[] = {
		IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR,
		IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_CQ_ERR, IBV_EVENT_PORT_ERR,
		IBV_EVENT_GID_CHANGE,
	};
	struct pair *p = *state;
	struct stream s = { 0 };

	faults_up(p, 7 * MB);
	for (size_t i = 0; i < PL_ARRAY_SIZE(types); i++) {
		int downs;

		RUN_UNTIL(p->base, is_by_verbs(p));
		stream_to(p, &s, (i + 1) * MB - MB / 2);
		downs = p->a.downs;
		fake_async(types[i]);
		RUN_UNTIL(p->base, !fk.event_there);
		stream_to(p, &s, (i + 1) * MB);
		/* What a port or a table has to say ends nothing by itself. */
		assert_int_equal(p->a.downs > downs, i < 4);
	}
}

static void device_goes_and_comes(void **state)
{
	struct pair *p = *state;
	struct stream s = { 0 };

	faults_up(p, 9 * MB);
	for (uint64_t i = 1; i <= 4; i++) {
		RUN_UNTIL(p->base, is_by_verbs(p));
		stream_to(p, &s, i * 2 * MB - MB);
		fake_remove();
		stream_to(p, &s, i * 2 * MB);
		assert_string_equal(path(p), "tcp");
		assert_int_equal(fk.abandoned, 2 * i);
		fk.there = true;
	}
}

static unsigned int ids(void)
{
	unsigned int n = 0;

	for (const struct fake_id *i = fk.ids; i; i = i->next)
		n++;
	return n;
}

/* While it is down nobody uses rdma_cm; afterwards nothing is left over. */
static void port_goes_and_comes(void **state)
{
	struct pair *p = *state;
	struct stream s = { 0 };
	unsigned int before;

	faults_up(p, 9 * MB);
	RUN_UNTIL(p->base, is_by_verbs(p));
	before = ids();
	for (uint64_t i = 1; i <= 4; i++) {
		stream_to(p, &s, i * 2 * MB - MB);
		fake_port_goes();
		stream_to(p, &s, i * 2 * MB);
		assert_string_equal(path(p), "tcp");
		fk.port_down = false;
		RUN_UNTIL(p->base, is_by_verbs(p));
		RUN_UNTIL(p->base, ids() == before);
	}
}

/* --- limits ---------------------------------- */

/* What can't be registered there goes by tcp; other lanes do not notice. */
static void memlock_there(void **state)
{
	struct pair *p = *state;
	struct stream s = { 0 };
	struct pl_carrier_stats st;

	faults_up(p, 2 * MB);
	stream_to(p, &s, MB);
	pl_carrier_revoke(p->b.peer, p->dst.id);
	fk.memlock = fk.locked + 4096;
	assert_int_equal(pl_carrier_expose(p->b.peer, p->dst.fd, p->dst.map,
					   p->dst.len, p, &p->dst.id), 0);
	key_told(p);
	pl_carrier_stats(p->a.peer, &st);
	assert_int_equal(st.put_bytes, st.rdma_bytes);
	stream_to(p, &s, MB + MB / 2);
	assert_true(is_by_verbs(p));
	pl_carrier_stats(p->a.peer, &st);
	assert_true(st.put_bytes - st.rdma_bytes >= MB / 2);
	assert_int_equal(p->a.downs + p->b.downs, 0);
}

/* What can't be registered here is copied. */
static void read_only_is_copied(void **state)
{
	struct pair *p = *state;
	struct stream s = { 0 };
	struct pl_carrier_stats st;

	faults_up(p, 4 * MB);
	fk.read_only = p->src.map;
	stream_to(p, &s, 3 * MB);
	pl_carrier_stats(p->a.peer, &st);
	assert_int_equal(st.put_bytes, st.rdma_bytes);
	assert_true(st.rdma_copied_bytes > 2 * MB);
	assert_true(st.rdma_copied_bytes <= 3 * MB);
	assert_int_equal(p->a.downs, 0);
}

static void nothing_inline(void **state)
{
	struct pair *p = *state;
	struct stream s = { 0 };

	fk.inline_max = 0;
	faults_up(p, 4 * MB);
	assert_true(is_by_verbs(p));
	stream_to(p, &s, 3 * MB);
}

static void out_of_queue_pairs(void **state)
{
	struct pair *p = *state;
	struct stream s = { 0 };

	fk.max_qp = 3;
	faults_up(p, 3 * MB);
	assert_string_equal(path(p), "tcp");
	stream_to(p, &s, MB);
	fk.max_qp = 4;
	RUN_UNTIL(p->base, is_by_verbs(p));
	stream_to(p, &s, 2 * MB);
}

/* --- who may not ---------------------------------- */

static uint16_t listen_port(void)
{
	struct fake_id *i = fk.ids;

	while (!i->listens)
		i = i->next;
	return i->port;
}

/* Somebody who is not on the agents' channel. */
static void foreigner(void **state)
{
	struct pair *p = *state;
	struct pl_verbs_intro m = { .magic = PL_VERBS_MAGIC,
				    .version = PL_VERBS_VERSION, .count = 2 };
	struct rdma_conn_param param = { .private_data = &m,
					 .private_data_len = sizeof(m) };
	struct rdma_event_channel *ch = NULL;
	struct rdma_cm_event *ev = NULL;
	struct rdma_cm_id *id = NULL;
	struct ibv_qp none;

	faults_up(p, MB);
	assert_true(is_by_verbs(p));
	assert_int_equal(fake_events_open(&ch), 0);
	assert_int_equal(fake_id_open(ch, NULL, &id), 0);
	((struct fake_id *)id)->to = listen_port();
	id->qp = &none;
	assert_int_equal(fake_connect(id, &param), 0);
	id->qp = NULL;
	RUN_UNTIL(p->base, fake_event_get(ch, &ev) == 0);
	assert_int_equal(ev->event, RDMA_CM_EVENT_REJECTED);
	fake_event_ack(ev);
	fake_id_close(id);
	fake_events_close(ch);
	assert_true(is_by_verbs(p));
	assert_int_equal(p->a.downs + p->b.downs, 0);
}

/* A peer that writes where it may not: refused, and it starts anew. */
static void writes_outside(void **state)
{
	struct pair *p = *state;
	struct stream s = { 0 };
	struct pl_verbs_out *o;

	faults_up(p, 4 * MB);
	stream_to(p, &s, MB);
	memset(p->dst.map + 3 * MB, 0x55, MB);
	o = pl_verbs_peer_of(p->a.peer)->outs;
	assert_non_null(o);
	/* The memory is there, but not what the key is for. */
	o->addr += 3 * MB + DATA;
	stream_to(p, &s, 2 * MB);
	assert_true(p->a.downs > 0);
	RUN_UNTIL(p->base, is_by_verbs(p));
	for (size_t i = 3 * MB; i < 4 * MB; i++)
		assert_int_equal(p->dst.map[i], 0x55);
}

static void send_to_b(struct pair *p, const struct pl_verbs_send *m, size_t len)
{
	struct ibv_sge sge = { .addr = (uintptr_t)m, .length = (uint32_t)len };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_INLINE };

	assert_int_equal(fake_send(pl_verbs_peer_of(p->a.peer)->link->qp[0]
					   .id->qp, &wr), 0);
}

static void sends_of_a_wrong_form(void **state)
{
	struct pair *p = *state;
	struct stream s = { 0 };
	struct pl_verbs_send bad[9];

	faults_up(p, 2 * MB);
	for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++) {
		size_t len = sizeof(bad[i]);
		int downs = p->b.downs;

		bad[i] = (struct pl_verbs_send){ .magic = PL_VERBS_MAGIC,
						 .type = PL_VERBS_WORDS,
						 .len = PL_PUT_WORDS_MAX,
						 .key = p->dst.id };
		memset(bad[i].words, 0xff, sizeof(bad[i].words));
		switch (i) {
		case 0: bad[i].magic++; break;
		case 1: bad[i].type = 9; bad[i].len = 0; break;
		case 2: bad[i].len -= 8; break;
		case 3: bad[i].len = 0xfff8; break;
		case 4: bad[i].offset = 4; break;
		case 5: bad[i].offset = 2 * MB - 120; break;
		case 6: bad[i].offset = ~7ull; break;
		case 7: bad[i].got = 1000; break;
		case 8: len = PL_VERBS_SEND_HDR - 1; break;
		}
		if (i == 1)
			len = PL_VERBS_SEND_HDR;
		RUN_UNTIL(p->base, is_by_verbs(p));
		send_to_b(p, &bad[i], len);
		RUN_UNTIL(p->base, p->b.downs > downs);
		assert_int_equal(head(p), 0);
	}
	RUN_UNTIL(p->base, is_by_verbs(p));
	stream_to(p, &s, MB);
}

/* --- many ---------------------------------- */

#define LANES 200

/* Lanes that come and go beside a stream leave nothing behind. */
static void lanes_come_and_go(void **state)
{
	struct pair *p = *state;
	struct stream s = { 0 };
	unsigned int mrs = 0;

	faults_up(p, 9 * MB);
	for (uint64_t round = 0; round < 8; round++) {
		struct memory m[LANES];

		for (int i = 0; i < LANES; i++) {
			memory_init(&m[i], 8192);
			assert_int_equal(pl_carrier_expose(p->b.peer, m[i].fd,
				m[i].map, 8192, NULL, &m[i].id), 0);
		}
		key_told(p);
		for (int i = 0; i < LANES; i++)
			assert_int_equal(pl_carrier_put(p->a.peer, p->src.id,
				m[i].id, 0, p->src.map + DATA, 8192, 0, NULL,
				NULL), 0);
		stream_to(p, &s, (round + 1) * MB);
		RUN_UNTIL(p->base, fake_settled() &&
			  !pl_carrier_queued(p->a.peer));
		for (int i = 0; i < LANES; i++) {
			assert_memory_equal(m[i].map, p->src.map + DATA, 8192);
			pl_carrier_revoke(p->b.peer, m[i].id);
			memory_fini(&m[i]);
		}
		RUN_UNTIL(p->base, !pl_verbs_peer_of(p->b.peer)->dying);
		assert_true(round == 0 || fk.n_mrs == mrs);
		mrs = fk.n_mrs;
	}
	assert_true(is_by_verbs(p));
	assert_int_equal(p->a.downs, 0);
	assert_int_equal(HASH_COUNT(pl_verbs_peer_of(p->a.peer)->outs), 1);
}

static int setup_late(void **state)
{
	int rc = setup(state);

	fk.late = 1;
	fk.backwards = true;
	return rc;
}

#define LATE(fn) cmocka_unit_test_setup_teardown(fn, setup_late, teardown)
int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(device_comes_later,
						setup_without, teardown),
		cmocka_unit_test_setup_teardown(verbs_or_nothing,
						setup_without, teardown),
		T(another_address), T(other_has_tcp), T(no_encryption),
		T(each_call_fails),
		T(calls_fail_in_service),
		T(completions_with_errors), T(events_of_queues),
		T(device_goes_and_comes), T(port_goes_and_comes),
		T(memlock_there), T(read_only_is_copied), T(nothing_inline),
		T(out_of_queue_pairs), T(foreigner), T(writes_outside),
		T(sends_of_a_wrong_form), T(lanes_come_and_go),
	};
	const struct CMUnitTest late[] = {
		LATE(words_follow_data), LATE(small_and_odd),
		LATE(message_after_puts), LATE(revoke_stops_puts),
		LATE(source_end_drops), LATE(forget_in_callback),
		LATE(device_goes_and_comes), LATE(completions_with_errors),
		LATE(lanes_come_and_go),
	};

	return cmocka_run_group_tests_name("faults", tests, faults_ends, NULL) +
	       cmocka_run_group_tests_name("late", late, faults_ends, NULL);
}
