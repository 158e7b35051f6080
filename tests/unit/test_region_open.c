/* tests/unit/test_region_open.c - a region that is not there, and a node */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/agent_stub.h"

#define SOON_MS 20000		/* a limit against hanging, not a measure */
#define ASK_MS 100

struct missing {
	int answered;
	uint64_t until_ns;	/* by then the library's time is up */
};

/* ENOENT once; then the region's node is silent until time is up. */
static bool missing_then_silent(struct stub *s, uint16_t request,
				struct stub_answer *a)
{
	struct missing *m = s->arg;
	uint64_t now = pl_now_ns();

	if (request != PL_MSG_REGION_OPEN)
		return true;
	stub_answer_free(a);
	if (m->answered++ == 0) {
		m->until_ns = now + ASK_MS * 1000000u;
		stub_error(a, ENOENT, a->h.seq);
		return true;
	}
	while ((now = pl_now_ns()) < m->until_ns)
		usleep((useconds_t)((m->until_ns - now) / 1000 + 1));
	stub_error(a, EHOSTUNREACH, a->h.seq);
	return true;
}

static void missing_region(void **state)
{
	struct missing m = { 0 };
	struct stub s = { .spoil = missing_then_silent, .arg = &m };
	struct pl_region *r;
	struct pl_conn *c;
	struct pl_err err;

	(void)state;
	assert_int_equal(pl_conn_attach(stub_start(&s), &c, &err), 0);
	/* Until time is up there was an answer, and later none. */
	assert_int_equal(pl_region_open(c, "10.1.2.3", "r", ASK_MS, &r, &err),
			 -ENOENT);
	assert_int_equal(err.code, ENOENT);
	/* There was none at all. */
	m = (struct missing){ .answered = 1 };
	assert_int_equal(pl_region_open(c, "10.1.2.3", "r", 1, &r, &err),
			 -EHOSTUNREACH);
	/* The node was lost before time was up. */
	m.answered = 0;
	assert_int_equal(pl_region_open(c, "10.1.2.3", "r", SOON_MS, &r, &err),
			 -EHOSTUNREACH);
	pl_close(c);
	stub_stop(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		lane_test(missing_region),
	};

	alarm(60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
