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

static void say(struct fuzz_agent *a, int sock, uint8_t type, void *msg,
		int n_fds)
{
	const uint8_t kinds[PL_FDPASS_MAX] = { FD_LANE, FD_LANE };
	const uint32_t len = pl_msg_bytes(type, 2);
	struct pl_msg_hdr h = pl_msg_head(type, len, 1);

	h.version = 2;
	memcpy(msg, &h, sizeof(h));
	assert_true(a->sock[sock] >= 0);
	fuzz_sock_send(a, a->sock[sock], msg, len, kinds, n_fds);
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

/* A lane that was offered is shown as if it had been accepted long ago. */
static void shown_before_accepted(void **state)
{
	static struct fuzz_agent a;
	struct pl_msg_listen listen = { .service = "s" };
	struct pl_msg_connect connect = { .ring_bytes = RING,
					  .timeout_ms = 1000,
					  .addr = "10.1.0.1",
					  .service = "s" };
	struct pl_msg_lane_resume show = { .ring_bytes = RING,
					   .peer_ring_bytes = RING,
					   .self = "10.1.0.1",
					   .peer = "10.1.0.1",
					   .service = "s" };

	(void)state;
	fuzz_agent_init(&a);
	a.fd_free = fuzz_fd_free();
	fuzz_uid(connect.uid, 0);
	fuzz_uid(show.uid, 0);
	client(&a, 0, 0);
	client(&a, 0, 1);
	say(&a, 0, PL_MSG_LISTEN, &listen, 0);
	say(&a, 1, PL_MSG_CONNECT, &connect, 1);
	assert_int_equal(a.pod[0].pod.usage.lanes, 2);
	say(&a, 0, PL_MSG_LANE_SHOW, &show, 1);
	assert_int_equal(HASH_COUNT(a.broker->lanes), 2);
	/* The listener, which ends the lane that it was offered. */
	pl_close_fd(&a.sock[2]);
	fuzz_loop(&a);
	assert_int_equal(HASH_COUNT(a.broker->lanes), 1);
	assert_int_equal(a.pod[0].pod.usage.lanes, 1);
	fuzz_agent_reset(&a);
	assert_null(a.broker->lanes);
	fuzz_agent_fini(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shown_before_accepted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
