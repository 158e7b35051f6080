/* tests/unit/test_plugin_conf.c - the configuration, right and wrong */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/json.h"
#include "plugin/conf.h"

/* The json that *c points into stays with doc. */
static int parse(const char *text, const char *args, bool strict,
		 struct pl_cni_conf *doc, struct pl_conf *c,
		 struct pl_err *err)
{
	memset(doc, 0, sizeof(*doc));
	doc->json = cJSON_Parse(text);
	assert_non_null(doc->json);
	doc->name = "net";
	return pl_conf_parse(doc, args, strict, c, err);
}

static void test_defaults(void **state)
{
	struct pl_cni_conf doc;
	struct pl_err err = { 0 };
	struct pl_conf c;

	(void)state;
	assert_int_equal(parse("{}", NULL, true, &doc, &c, &err), 0);
	assert_string_equal(c.bridge, "cni0");
	assert_string_equal(c.agent_socket, "/run/podlane/agent.sock");
	assert_string_equal(c.state_dir, "/var/lib/podlane/cni");
	assert_string_equal(c.ipam_type, "");
	assert_true(c.agent_required);
	assert_false(c.is_gateway);
	assert_false(c.has_mac);
	assert_null(c.prev);
	pl_cni_conf_fini(&doc);
}

static void test_values(void **state)
{
	static const uint8_t mac[6] = { 2, 0, 0, 0, 0, 0xaf };
	struct pl_cni_conf doc;
	struct pl_err err = { 0 };
	struct pl_conf c;

	(void)state;
	assert_int_equal(parse("{\"bridge\":\"br1\",\"isDefaultGateway\":true,"
			       "\"mtu\":9000,\"hairpinMode\":true,"
			       "\"agentPolicy\":\"optional\",\"ipMasq\":false,"
			       "\"vlan\":0,\"unknown\":{\"a\":1},"
			       "\"args\":{\"cni\":{\"mac\":"
			       "\"02:00:00:00:00:aF\"}},"
			       "\"ipam\":{\"type\":\"host-local\"}}",
			       "A=1;MAC=02:00:00:00:00:01", true, &doc, &c,
			       &err), 0);
	assert_string_equal(c.bridge, "br1");
	assert_true(c.is_gateway && c.is_default_gateway && c.hairpin);
	assert_int_equal(c.mtu, 9000);
	assert_false(c.agent_required);
	assert_string_equal(c.ipam_type, "host-local");
	assert_true(c.has_mac);
	assert_memory_equal(c.mac, mac, 6);
	pl_cni_conf_fini(&doc);
}

static void test_bad(void **state)
{
	/* What is wrong, and the word that the message must have. */
	static const char *const bad[][2] = {
		{ "{\"bridge\":7}", "bridge" },
		{ "{\"bridge\":\"longer-than-allowed\"}", "bridge" },
		{ "{\"bridge\":\"a/b\"}", "bridge" },
		{ "{\"bridge\":\"br%d\"}", "bridge" },
		{ "{\"isGateway\":\"yes\"}", "isGateway" },
		{ "{\"mtu\":67}", "mtu" },
		{ "{\"mtu\":70000}", "mtu" },
		{ "{\"agentPolicy\":\"never\"}", "agentPolicy" },
		{ "{\"agentSocket\":\"here\"}", "agentSocket" },
		{ "{\"stateDir\":\"here\"}", "stateDir" },
		{ "{\"ipam\":[]}", "ipam" },
		{ "{\"ipam\":{\"type\":\"../evil\"}}", "ipam.type" },
		{ "{\"runtimeConfig\":{\"mac\":\"02:00\"}}", "MAC" },
		{ "{\"runtimeConfig\":{\"mac\":\"03:00:00:00:00:01\"}}",
		  "MAC" },
		{ "{\"runtimeConfig\":{\"mac\":\"00:00:00:00:00:00\"}}",
		  "MAC" },
		{ "{\"promiscMode\":true,\"hairpinMode\":true}",
		  "exclude" },
		{ "{\"disableContainerInterface\":true,\"ipam\":{\"type\":"
		  "\"x\"}}", "disableContainerInterface" },
		{ "{\"ipMasq\":1}", "ipMasq" },
		{ "{\"ipMasqBackend\":\"magic\"}", "ipMasqBackend" },
		{ "{\"vlan\":4095}", "vlan" },
		{ "{\"vlan\":-1}", "vlan" },
		{ "{\"vlanTrunk\":[{}]}", "vlanTrunk[0]" },
		{ "{\"vlanTrunk\":[{\"id\":1},{\"id\":0}]}",
		  "vlanTrunk[1].id" },
		{ "{\"vlanTrunk\":[{\"minID\":5}]}", "vlanTrunk[0]" },
		{ "{\"vlanTrunk\":[{\"minID\":5,\"maxID\":4}]}",
		  "vlanTrunk[0]" },
		{ "{\"vlanTrunk\":[{\"minID\":5,\"maxID\":4095}]}",
		  "vlanTrunk[0].maxID" },
		{ "{\"runtimeConfig\":{\"portMappings\":[{}]}}",
		  "runtimeConfig.portMappings" },
		{ "{\"runtimeConfig\":{\"bandwidth\":{\"ingressRate\":1}}}",
		  "bandwidth" },
		{ "{\"prevResult\":[]}", "prevResult" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct pl_cni_conf doc;
		struct pl_err err = { 0 };
		struct pl_conf c;

		assert_true(parse(bad[i][0], NULL, true, &doc, &c, &err) < 0);
		assert_non_null(strstr(err.msg, bad[i][1]));
		pl_cni_conf_fini(&doc);
		/* DEL lives with it. */
		assert_int_equal(parse(bad[i][0], NULL, false, &doc, &c, &err),
				 0);
		assert_int_equal(strchr(c.ipam_type, '/') != NULL, 0);
		pl_cni_conf_fini(&doc);
	}
}

static void test_vlans(void **state)
{
	static const uint16_t in[] = { 1, 7, 100, 101, 102, 4094 };
	struct pl_cni_conf doc;
	struct pl_err err = { 0 };
	struct pl_conf c;
	size_t n = 0;

	(void)state;
	assert_int_equal(parse("{\"vlan\":7,\"preserveDefaultVlan\":false,"
			       "\"vlanTrunk\":[{\"id\":1},{\"minID\":100,"
			       "\"maxID\":102,\"id\":7},{\"id\":4094}]}",
			       NULL, true, &doc, &c, &err), 0);
	assert_int_equal(c.vlan.access, 7);
	assert_true(pl_vlan_any(&c.vlan) && !c.vlan.keep_default);
	for (unsigned int id = 0; id <= PL_VLAN_MAX; id++) {
		if (!(c.vlan.trunk[id / 8] & 1u << id % 8))
			continue;
		assert_true(n < sizeof(in) / sizeof(in[0]));
		assert_int_equal(id, in[n++]);
	}
	assert_int_equal(n, sizeof(in) / sizeof(in[0]));
	pl_cni_conf_fini(&doc);
	assert_int_equal(parse("{}", NULL, true, &doc, &c, &err), 0);
	assert_true(!pl_vlan_any(&c.vlan) && c.vlan.keep_default);
	pl_cni_conf_fini(&doc);
}

static void test_macs(void **state)
{
	static const uint8_t mac[6] = { 2, 0, 0x5a, 0, 0xff, 1 };
	static const struct {
		const char *text;
		bool good;
	} t[] = {
		{ "02:00:5a:00:fF:01", true },
		{ "02-00-5A-00-ff-01", true },
		{ "0200.5a00.ff01", true },
		{ "02:00-5a:00:ff:01", false },
		{ "0200:5a00:ff01", false },
		{ "02.00.5a.00.ff.01", false },
		{ "02005a00ff01", false },
		{ "02:00:5a:00:ff:0", false },
		{ "02:00:5a:00:ff:01:", false },
		{ "02:00:5a:00:ff:0g", false },
		{ "02:00:5a:00:ff:01:02:03", false },
		{ "03:00:5a:00:ff:01", false },
		{ "::::::::::::::::::", false },
		{ ":::::::::::::::::", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct pl_cni_conf doc;
		struct pl_err err = { 0 };
		struct pl_conf c;
		char args[64];
		int rc;

		snprintf(args, sizeof(args), "MAC=%s", t[i].text);
		rc = parse("{}", args, true, &doc, &c, &err);
		if ((rc == 0) != t[i].good)
			fail_msg("%s: %d", t[i].text, rc);
		if (rc == 0)
			assert_memory_equal(c.mac, mac, 6);
		pl_cni_conf_fini(&doc);
	}
}

/* DEL reads what it can, whatever else is wrong. */
static void test_lenient(void **state)
{
	struct pl_cni_conf doc;
	struct pl_err err = { 0 };
	struct pl_conf c;

	(void)state;
	assert_int_equal(parse("{\"prevResult\":7,\"isGateway\":1,"
			       "\"bridge\":[],\"stateDir\":\"/s\",\"mtu\":-1,"
			       "\"agentSocket\":\"relative\",\"dns\":1,"
			       "\"agentPolicy\":\"x\",\"ipMasq\":true,"
			       "\"ipam\":{\"type\":\"a\"}}", NULL, false, &doc,
			       &c, &err), 0);
	assert_string_equal(c.state_dir, "/s");
	assert_string_equal(c.ipam_type, "a");
	assert_string_equal(c.bridge, "cni0");
	assert_string_equal(c.agent_socket, "/run/podlane/agent.sock");
	assert_true(c.ip_masq && !c.is_gateway && !c.prev);
	pl_cni_conf_fini(&doc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_vlans),
		cmocka_unit_test(test_macs),
		cmocka_unit_test(test_lenient),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
