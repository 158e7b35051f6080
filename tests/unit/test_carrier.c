/* tests/unit/test_carrier.c - the tcp carrier: two ends on loopback */
#include "tests/unit/carrier_tests.h"

#include "rdma/tcp.h"

/* What carriers say to each other is in order with the messages. */
static void links_beside_messages(void **state)
{
	static const char text[PL_TCP_LINK_MAX + 1] = "link";
	struct pair *p = *state;

	pair_up(p);
	assert_int_equal(pl_tcp_link(p->a.peer, text, 0), -EMSGSIZE);
	assert_int_equal(pl_tcp_link(p->a.peer, text, sizeof(text)),
			 -EMSGSIZE);
	for (int i = 0; i < 50; i++) {
		assert_int_equal(pl_tcp_link(p->a.peer, text,
					     PL_TCP_LINK_MAX), 0);
		assert_int_equal(pl_carrier_message(p->a.peer, "m", 1, 0), 0);
		RUN_UNTIL(p->base, p->b.links == i + 1);
		assert_string_equal(p->b.last_link, "link");
		RUN_UNTIL(p->base, p->b.messages == i + 1);
	}
	assert_int_equal(p->a.links, 0);
}

/* A carrier without one on top of it says so. */
static void nobody_listens(void **state)
{
	struct pair *p = *state;
	struct end c = { .deaf = true };

	end_create(&c, p->base, "node-c", 0);
	end_dial(&p->a, "node-c", &c);
	RUN_UNTIL(p->base, p->a.ups == 1 && c.ups == 1);
	assert_int_equal(pl_tcp_link(p->a.peer, "link", 4), 0);
	RUN_UNTIL(p->base, p->a.links == 1);
	assert_int_equal(p->a.last_len, 1);
	run_ms(p->base, 20);
	assert_int_equal(p->a.links, 1);
	pl_carrier_destroy(c.c);
}

static void port_in_use(void **state)
{
	struct pair *p = *state;
	struct end e = { 0 };
	struct pl_carrier_config cfg =
		end_config(&e, p->base, "node-c", p->a.c->port);
	struct pl_err err = { 0 };

	assert_int_equal(pl_carrier_create(&pl_carrier_tcp, &cfg, &e.c, &err),
			 -EADDRINUSE);
	assert_non_null(strstr(err.msg, "127.0.0.1"));
	cfg.connections = PL_CARRIER_CONNECTIONS_MAX + 1;
	assert_int_equal(pl_carrier_create(&pl_carrier_tcp, &cfg, &e.c, &err),
			 -EINVAL);
	cfg.node = "";
	assert_int_equal(pl_carrier_create(&pl_carrier_tcp, &cfg, &e.c, &err),
			 -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CARRIER_TESTS, T(links_beside_messages), T(nobody_listens),
		T(port_in_use),
	};

	return cmocka_run_group_tests_name("plain", tests, NULL, NULL) +
	       cmocka_run_group_tests_name("psk", tests, ends_psk, ends_fini) +
	       cmocka_run_group_tests_name("tls", tests, ends_tls, ends_fini) +
	       cmocka_run_group_tests_name("auth", tests, ends_auth, ends_fini);
}
