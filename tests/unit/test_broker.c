/*
 * tests/unit/test_broker.c - what pods say to their agent's broker, out of turn
 *
 * The fuzzer's agent (tests/fuzz/agent.h); HOLDS there ends the program.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/fuzz/agent.h"

#define FD_LANE 0		/* kinds of fuzz_fd */

static void put(struct fuzz_agent *a, int sock, uint8_t type, void *msg,
		int n_fds)
{
	const uint8_t kinds[PL_FDPASS_MAX] = { FD_LANE, FD_LANE };
	const uint32_t len = pl_msg_bytes(type, 2);
	struct pl_msg_hdr h = pl_msg_head(type, len, 1);

	h.version = 2;
	memcpy(msg, &h, sizeof(h));
	assert_true(a->sock[sock] >= 0);
	fuzz_sock_send(a, a->sock[sock], msg, len, kinds, n_fds);
}

static void say(struct fuzz_agent *a, int sock, uint8_t type, void *msg,
		int n_fds)
{
	put(a, sock, type, msg, n_fds);
	fuzz_loop(a);
	for (int i = 0; i < SOCKS_MAX; i++)
		fuzz_sock_drain(a, i);
}

static void client(struct fuzz_agent *a, int pod, int sock)
{
	struct pl_msg_hello m = { .version_min = 2, .version_max = 2 };

	fuzz_pod_connect(a, pod);
	say(a, sock, PL_MSG_HELLO, &m, 0);
}

/* Sockets of an agent that has offered a lane of a pod to itself. */
enum { LISTENING, CONNECTING, LISTENER };

static void offer(struct fuzz_agent *a)
{
	struct pl_msg_listen listen = { .service = "s",
					.flags = PL_ALLOW_ANY };
	struct pl_msg_connect connect = { .ring_bytes = RING,
					  .timeout_ms = 1000,
					  .addr = "10.1.0.1",
					  .service = "s" };

	fuzz_agent_init(a);
	a->fd_free = fuzz_fd_free();
	fuzz_uid(connect.uid, 0);
	client(a, 0, LISTENING);
	client(a, 0, CONNECTING);
	say(a, LISTENING, PL_MSG_LISTEN, &listen, 0);
	say(a, CONNECTING, PL_MSG_CONNECT, &connect, 1);
	assert_int_equal(a->pod[0].pod.usage.lanes, 2);
}

static void end(struct fuzz_agent *a)
{
	fuzz_agent_reset(a);
	assert_null(a->broker->lanes);
	fuzz_agent_fini(a);
}

/* A lane that was offered is shown as if it had been accepted long ago. */
static void shown_before_accepted(void **state)
{
	static struct fuzz_agent a;
	struct pl_msg_lane_resume show = { .ring_bytes = RING,
					   .peer_ring_bytes = RING,
					   .self = "10.1.0.1",
					   .peer = "10.1.0.1",
					   .service = "s" };

	(void)state;
	offer(&a);
	fuzz_uid(show.uid, 0);
	say(&a, LISTENING, PL_MSG_LANE_SHOW, &show, 1);
	assert_int_equal(HASH_COUNT(a.broker->lanes), 2);
	/* It ends the lane that it was offered. */
	pl_close_fd(&a.sock[LISTENER]);
	fuzz_loop(&a);
	assert_int_equal(HASH_COUNT(a.broker->lanes), 1);
	assert_int_equal(a.pod[0].pod.usage.lanes, 1);
	end(&a);
}

/* What whoever connected is told next. */
static uint16_t answer(struct fuzz_agent *a)
{
	char buf[PL_WIRE_MAX];
	int fds[PL_FDPASS_MAX], n_fds;
	struct pl_msg_hdr h;

	fuzz_loop(a);
	assert_true(pl_fdpass_recv(a->sock[CONNECTING], buf, sizeof(buf), fds,
				   PL_FDPASS_MAX, &n_fds, MSG_DONTWAIT) >=
		    (ssize_t)sizeof(h));
	while (n_fds)
		close(fds[--n_fds]);
	memcpy(&h, buf, sizeof(h));
	return h.type;
}

static void accept_last(struct fuzz_agent *a)
{
	struct pl_msg_accept m = { .id = a->broker->last_id,
				   .ring_bytes = RING };

	put(a, LISTENER, PL_MSG_ACCEPT, &m, 1);
}

/* The listener's client closes the last lane, by its own connection. */
static void close_last(struct fuzz_agent *a)
{
	struct pl_msg_id m = { .id = a->broker->last_id };

	put(a, LISTENING, PL_MSG_LANE_CLOSE, &m, 0);
}

/*
 * A listener accepts and its client closes the lane, by two sockets: the agent
 * gets to know of the second first.
 */
static void closed_before_accepted(void **state)
{
	static struct fuzz_agent a;

	(void)state;
	offer(&a);
	close_last(&a);
	accept_last(&a);
	assert_int_equal(answer(&a), PL_MSG_CONNECT_OK);
	assert_int_equal(a.pod[0].pod.usage.lanes, 1);
	end(&a);
}

/* The same with a client that is gone: its connection came second. */
static void gone_before_accepted(void **state)
{
	static struct fuzz_agent a;
	struct pl_client *c;

	(void)state;
	offer(&a);
	accept_last(&a);
	c = LIST_NEXT(LIST_FIRST(&a.pod[0].pod.clients), of_pod);
	assert_non_null(LIST_FIRST(&c->services));
	pl_client_destroy(c);
	assert_int_equal(answer(&a), PL_MSG_CONNECT_OK);
	assert_int_equal(a.pod[0].pod.usage.lanes, 1);
	end(&a);
}

/* Who has not accepted a lane refuses it by closing it. */
static void closed_unaccepted(void **state)
{
	static struct fuzz_agent a;

	(void)state;
	offer(&a);
	close_last(&a);
	assert_int_equal(answer(&a), PL_MSG_ERROR);
	assert_int_equal(a.pod[0].pod.usage.lanes, 0);
	end(&a);
}

/* A pod that fills a listener leaves room for lanes of others. */
static void fair_to_others(void **state)
{
	static struct fuzz_agent a;
	struct pl_msg_connect m = { .ring_bytes = RING,
				    .timeout_ms = 1000,
				    .addr = "10.1.0.1",
				    .service = "s" };
	const int other = 3;

	(void)state;
	offer(&a);
	a.pods->limits = (struct pl_limits){ .connections = 8, .listeners = 8,
					    .lanes = 1000, .regions = 8,
					    .bytes = 1u << 30 };
	client(&a, 1, other);
	for (int i = 1; i <= 200; i++) {
		fuzz_uid(m.uid, (uint8_t)i);
		say(&a, other, PL_MSG_CONNECT, &m, 1);
	}
	assert_int_equal(a.pod[1].pod.usage.lanes, 64);
	fuzz_uid(m.uid, 201);
	say(&a, CONNECTING, PL_MSG_CONNECT, &m, 1);
	assert_int_equal(HASH_COUNT(a.broker->lanes), 66);
	pl_close_fd(&a.sock[LISTENER]);
	fuzz_loop(&a);
	assert_int_equal(HASH_COUNT(a.broker->lanes), 0);
	end(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shown_before_accepted),
		cmocka_unit_test(closed_before_accepted),
		cmocka_unit_test(gone_before_accepted),
		cmocka_unit_test(closed_unaccepted),
		cmocka_unit_test(fair_to_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
