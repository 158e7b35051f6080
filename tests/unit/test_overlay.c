/* tests/unit/test_overlay.c - configuration and MACs of the overlay */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/json.h"
#include "common/util.h"
#include "daemonset/overlay.h"

static int parse(const char *text, struct pl_overlay_conf *c,
		 struct pl_err *err)
{
	pl_auto_json *j = NULL;

	if (text)
		assert_int_equal(pl_json_parse(text, strlen(text), &j, err),
				 0);
	return pl_overlay_conf_parse(j, "overlay", c, err);
}

static void defaults(void **state)
{
	static const char *const texts[] = { NULL, "{}",
					     "{\"type\":\"vxlan\"}" };
	struct pl_overlay_conf c;

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(texts); i++) {
		memset(&c, 0xff, sizeof(c));
		assert_int_equal(parse(texts[i], &c, NULL), 0);
		assert_int_equal(c.type, PL_OVERLAY_VXLAN);
		assert_string_equal(c.device, "podlane.1");
		assert_int_equal(c.vni, 1);
		assert_int_equal(c.port, 8472);
		assert_int_equal(c.mtu, 0);
	}
}

static void all_given(void **state)
{
	struct pl_overlay_conf c;

	(void)state;
	assert_int_equal(parse("{\"type\":\"none\",\"device\":\"vx9\","
			       "\"vni\":16777215,\"port\":4789,\"mtu\":8950}",
			       &c, NULL), 0);
	assert_int_equal(c.type, PL_OVERLAY_NONE);
	assert_string_equal(c.device, "vx9");
	assert_int_equal(c.vni, 16777215);
	assert_int_equal(c.port, 4789);
	assert_int_equal(c.mtu, 8950);
}

static void bad(void **state)
{
	static const char *const texts[][2] = {
		{ "{\"type\":\"gre\"}", "overlay.type" },
		{ "{\"type\":1}", "overlay.type" },
		{ "{\"device\":\"\"}", "overlay.device" },
		{ "{\"device\":\"a/b\"}", "overlay.device" },
		{ "{\"device\":\"..\"}", "overlay.device" },
		{ "{\"device\":\"sixteen-letters.\"}", "overlay.device" },
		{ "{\"vni\":0}", "overlay.vni" },
		{ "{\"vni\":16777216}", "overlay.vni" },
		{ "{\"vni\":1.5}", "overlay.vni" },
		{ "{\"port\":0}", "overlay.port" },
		{ "{\"port\":65536}", "overlay.port" },
		{ "{\"mtu\":575}", "overlay.mtu" },
		{ "{\"mtu\":\"1500\"}", "overlay.mtu" },
		{ "{\"VNI\":1}", "overlay.VNI" },
	};
	struct pl_overlay_conf c;

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(texts); i++) {
		struct pl_err err = { 0 };

		assert_int_equal(parse(texts[i][0], &c, &err), -EINVAL);
		assert_int_equal(err.code, EINVAL);
		if (!strstr(err.msg, texts[i][1]))
			fail_msg("%s: %s", texts[i][0], err.msg);
	}
}

/* Nodes of two versions must agree on it, so it may never change. */
static void mac_is_fixed(void **state)
{
	static const uint8_t node1[6] = { 0x9e, 0x1f, 0x91, 0x68, 0x2b, 0x2b };
	uint8_t mac[6];

	(void)state;
	pl_overlay_mac("node1", mac);
	assert_memory_equal(mac, node1, sizeof(mac));
}

static void macs_differ(void **state)
{
	static uint8_t macs[2000][6];
	char name[16];

	(void)state;
	for (int i = 0; i < 2000; i++) {
		snprintf(name, sizeof(name), "node%d", i);
		pl_overlay_mac(name, macs[i]);
		assert_int_equal(macs[i][0] & 0x03, 0x02);
		for (int k = 0; k < i; k++)
			assert_memory_not_equal(macs[k], macs[i], 6);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),	cmocka_unit_test(all_given),
		cmocka_unit_test(bad),		cmocka_unit_test(mac_is_fixed),
		cmocka_unit_test(macs_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
