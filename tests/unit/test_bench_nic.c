/* tests/unit/test_bench_nic.c - devices: what is asked, written, read back */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/json.h"
#include "common/util.h"
#include "bench/ps_nic.h"

static void loopback_is_known(void **state)
{
	struct pl_err err = { .code = 0 };
	uint64_t received, sent;
	struct ps_nic n;

	(void)state;
	assert_int_equal(ps_nic_probe("lo", &n, &err), 0);
	assert_string_equal(n.name, "lo");
	assert_true(n.mtu > 0);
	assert_int_equal(ps_nic_probe("no-such-dev", &n, &err), -ENODEV);
	assert_int_equal(ps_nic_probe("a-name-that-is-too-long", &n, &err),
			 -ENODEV);
	/* What it sends, it receives. */
	assert_int_equal(ps_nic_bytes(getpid(), "lo", &received, &sent), 0);
	assert_int_equal(received, sent);
	assert_int_equal(ps_nic_bytes(getpid(), "l", &received, &sent),
			 -ENODEV);
	ps_nic_of("203.0.113.7", &n);
	assert_string_equal(n.name, "");
	ps_nic_of("no address", &n);
	assert_string_equal(n.name, "");
}

static void json_has_all(void **state)
{
	struct ps_nic n = { "eth0", "veth", 10000, 1450, "sg+tso" }, back;
	pl_auto_json *doc = cJSON_CreateObject();
	char text[128];

	(void)state;
	ps_nic_add(doc, "nic", &n);
	assert_int_equal(ps_nic_read(cJSON_GetObjectItem(doc, "nic"), &back),
			 0);
	assert_memory_equal(&n, &back, sizeof(n));
	memset(&n, 0, sizeof(n));
	ps_nic_add(doc, "none", &n);
	assert_int_equal(ps_nic_read(cJSON_GetObjectItem(doc, "none"), &back),
			 0);
	assert_memory_equal(&n, &back, sizeof(n));
	back = (struct ps_nic){ "eth0", "veth", 10000, 1450, "sg+tso" };
	ps_nic_text(&back, text, sizeof(text));
	assert_string_equal(text, "veth eth0, 10000 Mbit/s, MTU 1450, "
			    "offloads sg+tso");
}

static void bad_json_is_refused(void **state)
{
	static const char *const bad[] = {
		"{}", "[]",
		"{\"name\":1,\"driver\":null,\"mbit_per_s\":null,\"mtu\":1,"
		"\"offloads\":null}",
		"{\"name\":\"a\",\"driver\":null,\"mbit_per_s\":-1,\"mtu\":1,"
		"\"offloads\":null}",
		"{\"name\":\"a\",\"driver\":null,\"mbit_per_s\":1e99,"
		"\"mtu\":1,\"offloads\":null}",
	};
	struct ps_nic n;

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++) {
		pl_auto_json *doc = cJSON_Parse(bad[i]);

		assert_int_equal(ps_nic_read(doc, &n), -EPROTO);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loopback_is_known),
		cmocka_unit_test(json_has_all),
		cmocka_unit_test(bad_json_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
