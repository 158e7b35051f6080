/* tests/unit/test_plugin_result.c - results in and out, in every version */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/json.h"
#include "plugin/result.h"

static int parse(const char *text, struct pl_result *r, struct pl_err *err)
{
	pl_auto_json *j = cJSON_Parse(text);

	assert_non_null(j);
	return pl_result_parse(j, r, err);
}

/* text in, printed as version; must be want, which has ' for ". */
static void expect(const char *text, const char *version, const char *want)
{
	struct pl_result r;
	struct pl_err err = { 0 };
	pl_auto_json *doc = NULL;
	char *got, *quoted = strdup(want);

	for (char *p = quoted; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	assert_int_equal(parse(text, &r, &err), 0);
	doc = pl_result_print(&r, version);
	assert_non_null(doc);
	got = cJSON_PrintUnformatted(doc);
	assert_string_equal(got, quoted);
	pl_result_fini(&r);
	free(got);
	free(quoted);
}

#define FULL								\
	"{\"cniVersion\":\"1.1.0\",\"interfaces\":[{\"name\":\"br0\","	\
	"\"mac\":\"02:00:00:00:00:01\"},{\"name\":\"eth0\","		\
	"\"mac\":\"02:00:00:00:00:02\",\"mtu\":1400,"			\
	"\"sandbox\":\"/proc/7/ns/net\",\"socketPath\":\"@podlane\","	\
	"\"pciID\":\"0000:00:01.0\"}],\"ips\":[{\"interface\":1,"	\
	"\"address\":\"10.1.0.2/24\",\"gateway\":\"10.1.0.1\"},"	\
	"{\"address\":\"fd00::2/64\"}],\"routes\":[{"			\
	"\"dst\":\"0.0.0.0/0\",\"mtu\":0,\"priority\":7,\"scope\":0},"	\
	"{\"dst\":\"::/0\",\"gw\":\"fd00::1\"}],"			\
	"\"dns\":{\"nameservers\":[\"10.1.0.1\"]}}"

static void test_versions(void **state)
{
	(void)state;
	expect(FULL, "1.1.0",
	       "{'cniVersion':'1.1.0','interfaces':[{'name':'br0',"
	       "'mac':'02:00:00:00:00:01'},{'name':'eth0',"
	       "'mac':'02:00:00:00:00:02','sandbox':'/proc/7/ns/net',"
	       "'mtu':1400,'socketPath':'@podlane','pciID':'0000:00:01.0'}],"
	       "'ips':[{'interface':1,'address':'10.1.0.2/24',"
	       "'gateway':'10.1.0.1'},{'address':'fd00::2/64'}],"
	       "'routes':[{'dst':'0.0.0.0/0','mtu':0,'priority':7,'scope':0},"
	       "{'dst':'::/0','gw':'fd00::1'}],"
	       "'dns':{'nameservers':['10.1.0.1']}}");
	expect(FULL, "1.0.0",
	       "{'cniVersion':'1.0.0','interfaces':[{'name':'br0',"
	       "'mac':'02:00:00:00:00:01'},{'name':'eth0',"
	       "'mac':'02:00:00:00:00:02','sandbox':'/proc/7/ns/net'}],"
	       "'ips':[{'interface':1,'address':'10.1.0.2/24',"
	       "'gateway':'10.1.0.1'},{'address':'fd00::2/64'}],"
	       "'routes':[{'dst':'0.0.0.0/0'},{'dst':'::/0','gw':'fd00::1'}],"
	       "'dns':{'nameservers':['10.1.0.1']}}");
}

static void test_old_versions(void **state)
{
	(void)state;
	expect("{\"ips\":[{\"version\":\"4\",\"address\":\"10.1.0.2/24\"},"
	       "{\"version\":\"6\",\"address\":\"fd00::2/64\"}]}", "0.3.1",
	       "{'cniVersion':'0.3.1','ips':[{'version':'4',"
	       "'address':'10.1.0.2/24'},{'version':'6',"
	       "'address':'fd00::2/64'}],'dns':{}}");
	expect(FULL, "0.2.0",
	       "{'cniVersion':'0.2.0','ip4':{'ip':'10.1.0.2/24',"
	       "'gateway':'10.1.0.1','routes':[{'dst':'0.0.0.0/0'}]},"
	       "'ip6':{'ip':'fd00::2/64','routes':[{'dst':'::/0',"
	       "'gw':'fd00::1'}]},'dns':{'nameservers':['10.1.0.1']}}");
	expect("{\"cniVersion\":\"0.2.0\",\"ip4\":{\"ip\":\"10.1.0.2/24\","
	       "\"routes\":[{\"dst\":\"10.0.0.0/8\"}]}}", "1.0.0",
	       "{'cniVersion':'1.0.0',"
	       "'ips':[{'address':'10.1.0.2/24'}],"
	       "'routes':[{'dst':'10.0.0.0/8'}],'dns':{}}");
}

static void test_bad(void **state)
{
	static const char *const bad[] = {
		"[]",
		"{\"ips\":{}}",
		"{\"ips\":[{\"address\":\"10.1.0.2\"}]}",
		"{\"ips\":[{\"address\":\"10.1.0.2/33\"}]}",
		"{\"ips\":[{\"address\":7}]}",
		"{\"ips\":[{\"address\":\"10.1.0.2/24\",\"gateway\":\"x\"}]}",
		"{\"ips\":[{\"address\":\"10.1.0.2/24\",\"interface\":1.5}]}",
		"{\"interfaces\":[{\"name\":\"much-too-long-name\"}]}",
		"{\"interfaces\":[{\"name\":\"a\",\"mtu\":-1}]}",
		"{\"routes\":[{\"dst\":\"default\"}]}",
		"{\"routes\":[{\"dst\":\"0.0.0.0/0\",\"table\":\"main\"}]}",
		"{\"dns\":[]}",
		"{\"ip4\":{\"ip\":\"\"}}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct pl_err err = { 0 };
		struct pl_result r;

		assert_true(parse(bad[i], &r, &err) < 0);
		assert_true(err.code && err.msg[0]);
		/* Empty, so nothing has to be freed. */
		assert_null(r.ifs);
		assert_null(r.ips);
		assert_null(r.routes);
	}
}

static void test_many(void **state)
{
	struct pl_result r = { 0 };

	(void)state;
	for (int i = 0; i < 100000; i++) {
		struct pl_res_route *route = pl_result_route(&r);

		assert_non_null(route);
		assert_int_equal(route->has, 0);
		route->opt[PL_ROUTE_MTU] = (uint32_t)i;
		route->has = 1;
	}
	assert_int_equal(r.n_routes, 100000);
	for (uint32_t i = 0; i < 100000; i++)
		assert_int_equal(r.routes[i].opt[PL_ROUTE_MTU], i);
	pl_result_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_old_versions),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
