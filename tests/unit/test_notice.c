/* tests/unit/test_notice.c - when another node is worth an Event */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "daemonset/notice.h"
#include "daemonset/remote.h"

#define SECOND UINT64_C(1000000000)
#define BEGAN (100 * SECOND)

static const char *see(struct pl_notice_peer *p, const char *state,
		       const char *carrier, uint64_t after_s)
{
	const struct pl_remote_node n = { .name = "node2",
					  .state = state,
					  .carrier = carrier };
	char text[256] = "";
	const char *reason = pl_notice_peer(p, &n, BEGAN + after_s * SECOND,
					    text);

	if (reason)
		assert_non_null(strstr(text, "node2"));
	return reason;
}

static void down_for_long(void **state)
{
	struct pl_notice_peer p = { 0 };

	(void)state;
	assert_null(see(&p, "down: No route to host", "tcp", 0));
	assert_null(see(&p, "down: No route to host", "tcp",
			PL_NOTICE_PEER_S - 1));
	assert_string_equal(see(&p, "down: No route to host", "tcp",
				PL_NOTICE_PEER_S), "PeerUnreachable");
	/* As long as it lasts; who sends them bounds how many there are. */
	assert_non_null(see(&p, "down: Connection refused", "tcp", 60));
}

static void down_and_up(void **state)
{
	struct pl_notice_peer p = { 0 };

	(void)state;
	for (unsigned int i = 0; i < 10; i++) {
		assert_null(see(&p, "down: No route to host", "tcp", 10 * i));
		assert_null(see(&p, "up", "tcp", 10 * i + 9));
	}
}

static void fell_back(void **state)
{
	struct pl_notice_peer p = { 0 };

	(void)state;
	/* First there is tcp, always. */
	assert_null(see(&p, "up", "tcp", 0));
	assert_null(see(&p, "up", "verbs", 1));
	assert_string_equal(see(&p, "up", "tcp", 2), "FellBackToTCP");
	assert_null(see(&p, "up", "tcp", 3));
	assert_null(see(&p, "up", "verbs", 4));
	/* What a node that is down would use means nothing. */
	assert_null(see(&p, "down: Connection refused", "tcp", 5));
	assert_null(see(&p, "up", "verbs", 6));
	assert_non_null(see(&p, "up", "tcp", 7));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(down_for_long),
		cmocka_unit_test(down_and_up),
		cmocka_unit_test(fell_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
