/* tests/unit/test_ipam_config.c - what a configuration means, and the result */
#include "tests/unit/ipam_test.h"

/* Parse a configuration in which single quotes stand for double ones. */
static int parse(const char *text, const char *args, cJSON **json,
		 struct pl_ipam_config *cfg, struct pl_err *err)
{
	char *copy = strdup(text);
	int rc;

	for (char *p = copy; *p; p++)
		if (*p == '\'')
			*p = '"';
	cJSON_Delete(*json);
	*json = NULL;
	rc = pl_json_parse(copy, strlen(copy), json, err);
	if (rc < 0)
		fail_msg("%s: %s", text, err->msg);
	free(copy);
	pl_err_clear(err);
	return pl_ipam_config_parse(*json, args, cfg, err);
}

/* The ranges as "SET:START-END,GATEWAY ..." */
static const char *ranges_str(const struct pl_ipam_config *cfg, char *buf,
			      size_t size)
{
	char a[INET6_ADDRSTRLEN], b[INET6_ADDRSTRLEN], g[INET6_ADDRSTRLEN];
	size_t n = 0;

	buf[0] = '\0';
	for (unsigned int i = 0; i < cfg->n_ranges; i++) {
		const struct pl_ipam_range *r = &cfg->ranges[i];

		n += (size_t)snprintf(buf + n, size - n, "%s%u:%s-%s,%s",
				      i ? " " : "", r->set,
				      pl_addr_str(&r->start, a),
				      pl_addr_str(&r->end, b),
				      pl_addr_str(&r->gateway, g));
	}
	return buf;
}

#define CONF(ipam) "{'cniVersion':'1.0.0','name':'n','ipam':" ipam "}"

static void test_ranges(void **state)
{
	static const struct {
		const char *conf, *want;
	} cases[] = {
		{ CONF("{'ranges':[[{'subnet':'10.1.0.0/24'}]]}"),
		  "0:10.1.0.1-10.1.0.254,10.1.0.1" },
		{ CONF("{'subnet':'10.1.0.0/24','rangeStart':'10.1.0.9',"
		       "'rangeEnd':'10.1.0.19','gateway':'10.1.0.254'}"),
		  "0:10.1.0.9-10.1.0.19,10.1.0.254" },
		{ CONF("{'subnet':'10.1.0.0/24','ranges':[[{'subnet':"
		       "'fd00::/64'}]]}"),
		  "0:10.1.0.1-10.1.0.254,10.1.0.1 "
		  "1:fd00::1-fd00::ffff:ffff:ffff:ffff,fd00::1" },
		{ CONF("{'ranges':[[{'subnet':'10.1.0.0/30'},{'subnet':"
		       "'10.2.0.0/30'}]]}"),
		  "0:10.1.0.1-10.1.0.2,10.1.0.1 "
		  "0:10.2.0.1-10.2.0.2,10.2.0.1" },
		{ CONF("{'subnet':'10.1.0.0/24','rangeStart':'10.1.0.0',"
		       "'rangeEnd':'10.1.0.255','gateway':''}"),
		  "0:10.1.0.1-10.1.0.254,10.1.0.1" },
		{ CONF("{'subnet':'10.1.0.0/24','gateway':'10.2.0.1'}"),
		  "0:10.1.0.1-10.1.0.254,10.2.0.1" },
		{ CONF("{'ranges':[[{'subnet':'255.255.255.248/29'}]]}"),
		  "0:255.255.255.249-255.255.255.254,255.255.255.249" },
		{ "{'cniVersion':'1.0.0','name':'n','ipam':{'ranges':[[{"
		  "'subnet':'10.1.0.0/24'}]],'x':[1]},'runtimeConfig':{"
		  "'ipRanges':[[{'subnet':'10.2.0.0/24'}]]}}",
		  "0:10.2.0.1-10.2.0.254,10.2.0.1 "
		  "1:10.1.0.1-10.1.0.254,10.1.0.1" },
		{ "{'name':'n','ipam':{'ranges':[[{'subnet':'10.1.0.0/24'},{"
		  "'subnet':'10.2.0.0/24'}],[{'subnet':'fd00::/64'}]]}}",
		  "0:10.1.0.1-10.1.0.254,10.1.0.1 "
		  "0:10.2.0.1-10.2.0.254,10.2.0.1 "
		  "1:fd00::1-fd00::ffff:ffff:ffff:ffff,fd00::1" },
	};
	struct pl_ipam_config cfg;
	struct pl_err err;
	cJSON *json = NULL;
	char buf[512];

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
		if (parse(cases[i].conf, NULL, &json, &cfg, &err) < 0)
			fail_msg("%s: %s", cases[i].conf, err.msg);
		assert_string_equal(ranges_str(&cfg, buf, sizeof(buf)),
				    cases[i].want);
	}
	cJSON_Delete(json);
}

/* Each message names the key and the value. */
static const struct {
	const char *conf, *want;
} refused[] = {
	{ "{'name':'n'}", "ipam is missing" },
	{ "{'ipam':{'subnet':'10.1.0.0/24'}}", "name" },
	{ "{'name':'n','ipam':7}", "ipam must be an object" },
	{ CONF("{}"), "ipam.ranges" },
	{ CONF("{'ranges':[]}"), "ipam.ranges" },
	{ CONF("{'ranges':{}}"), "ipam.ranges must be a list" },
	{ CONF("{'ranges':[[]]}"), "ipam.ranges[0] has no range" },
	{ CONF("{'ranges':[{}]}"), "ipam.ranges[0] must be a list" },
	{ CONF("{'ranges':[[{}]]}"), "ipam.ranges[0][0].subnet" },
	{ CONF("{'ranges':[[7]]}"), "ipam.ranges[0][0] must be" },
	{ CONF("{'subnet':7}"), "ipam.subnet must be a string" },
	{ CONF("{'subnet':'10.1.0.0'}"), "ipam.subnet \"10.1.0.0\"" },
	{ CONF("{'subnet':'10.1.0.0/33'}"), "\"10.1.0.0/33\"" },
	{ CONF("{'subnet':'10.1.0.5/24'}"),
	  "ipam.subnet 10.1.0.5/24 has host bits set; did you mean "
	  "10.1.0.0/24" },
	{ CONF("{'subnet':'10.1.0.0/31'}"), "10.1.0.0/31 is too small" },
	{ CONF("{'subnet':'fd00::/127'}"), "fd00::/127 is too small" },
	{ CONF("{'subnet':'10.1.0.0/24','gateway':'fd00::1'}"),
	  "ipam.gateway fd00::1 is not of the family" },
	{ CONF("{'subnet':'10.1.0.0/24','rangeStart':'x'}"),
	  "ipam.rangeStart \"x\"" },
	{ CONF("{'subnet':'10.1.0.0/24','rangeEnd':'10.1.1.0'}"),
	  "ipam.rangeEnd 10.1.1.0 is not in the subnet" },
	{ CONF("{'subnet':'10.1.0.0/24','rangeStart':'10.1.0.9',"
	       "'rangeEnd':'10.1.0.8'}"),
	  "ipam is reversed: rangeStart 10.1.0.9 is after rangeEnd "
	  "10.1.0.8" },
	{ CONF("{'subnet':'10.1.0.0/24','rangeStart':'10.1.0.255'}"),
	  "reversed" },
	{ CONF("{'subnet':'10.1.0.0/24','rangeStart':'10.1.0.255',"
	       "'rangeEnd':'10.1.0.255'}"), "no address" },
	{ CONF("{'subnet':'10.1.0.0/24','rangeEnd':'10.1.0.1'}"),
	  "no address" },
	{ CONF("{'ranges':[[{'subnet':'10.1.0.0/24'},{'subnet':"
	       "'fd00::/64'}]]}"),
	  "ipam.ranges[0][0] (10.1.0.0/24) and ipam.ranges[0][1] "
	  "(fd00::/64) mix families" },
	{ CONF("{'ranges':[[{'subnet':'10.1.0.0/16'}],[{'subnet':"
	       "'10.1.2.0/24'}]]}"),
	  "ipam.ranges[0][0] (10.1.0.0/16) and ipam.ranges[1][0] "
	  "(10.1.2.0/24) overlap" },
	{ CONF("{'subnet':'10.1.0.0/24','ranges':[[{'subnet':"
	       "'10.1.0.0/24'}]]}"),
	  "ipam (10.1.0.0/24) and ipam.ranges[0][0]" },
	{ CONF("{'subnet':'10.1.0.0/24','routes':[{}]}"),
	  "ipam.routes[0] has no dst" },
	{ CONF("{'subnet':'10.1.0.0/24','routes':{}}"),
	  "ipam.routes must be a list" },
	{ CONF("{'subnet':'10.1.0.0/24','dataDir':7}"),
	  "ipam.dataDir must be a string" },
	{ "{'cniVersion':'0.2.0','name':'n','ipam':{'ranges':[[{"
	  "'subnet':'10.1.0.0/24'}],[{'subnet':'10.2.0.0/24'}]]}}",
	  "one address of each family" },
	{ "{'name':'n','ipam':{'subnet':'10.1.0.0/24'},"
	  "'runtimeConfig':{'ips':['10.2.0.9']}}",
	  "runtimeConfig.ips[0] 10.2.0.9 is in none of the" },
	{ "{'name':'n','ipam':{'subnet':'10.1.0.0/24'},"
	  "'runtimeConfig':{'ips':['10.1.0.1/24']}}", "gateway" },
	{ "{'name':'n','ipam':{'subnet':'10.1.0.0/24'},"
	  "'runtimeConfig':{'ips':['10.1.0.7','10.1.0.8']}}",
	  "runtimeConfig.ips[1] 10.1.0.8 and 10.1.0.7" },
	{ "{'name':'n','ipam':{'subnet':'10.1.0.0/24'},"
	  "'runtimeConfig':{'ips':[7]}}", "runtimeConfig.ips[0]" },
};

static void test_refused(void **state)
{
	struct pl_ipam_config cfg;
	struct pl_err err;
	cJSON *json = NULL;

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(refused); i++) {
		if (parse(refused[i].conf, NULL, &json, &cfg, &err) == 0)
			fail_msg("%s was taken", refused[i].conf);
		if (!strstr(err.msg, refused[i].want))
			fail_msg("%s: %s", refused[i].conf, err.msg);
		assert_int_equal(pl_cni_code(&err), PL_CNI_INVALID_CONFIG);
	}
	cJSON_Delete(json);
}

static void test_limits(void **state)
{
	char text[8192];
	struct pl_ipam_config cfg;
	struct pl_err err;
	cJSON *json = NULL;

	(void)state;
	for (int n = 16; n <= 17; n++) {
		size_t at = (size_t)snprintf(text, sizeof(text), "{'cniVersion'"
					     ":'1.0.0','name':'n','ipam':{"
					     "'ranges':[");

		for (int i = 0; i < n; i++)
			at += (size_t)snprintf(text + at, sizeof(text) - at,
					       "%s[{'subnet':'10.%d.0.0/16'}]",
					       i ? "," : "", i);
		snprintf(text + at, sizeof(text) - at, "]}}");
		assert_int_equal(parse(text, NULL, &json, &cfg, &err) == 0,
				 n == 16);
	}
	assert_non_null(strstr(err.msg, "16 range sets"));
	cJSON_Delete(json);
}

static void test_requests(void **state)
{
#define IPAM "'ipam':{'ranges':[[{'subnet':'10.1.0.0/24'}],[{'subnet':" \
	     "'fd00::/64'}]]}"
	static const struct {
		const char *conf, *args, *want;
	} cases[] = {
		{ "{'cniVersion':'1.0.0','name':'n'," IPAM "}", NULL, "" },
		{ "{'cniVersion':'1.0.0','name':'n'," IPAM "}",
		  "K8S_POD_NAME=x;IP=10.1.0.9", "10.1.0.9" },
		{ "{'cniVersion':'1.0.0','name':'n'," IPAM "}", "IP=", "" },
		{ "{'cniVersion':'1.0.0','name':'n'," IPAM ",'args':{'cni':{"
		  "'ips':['10.1.0.8','fd00::8']}}}", "IP=10.1.0.9",
		  "10.1.0.8 fd00::8" },
		{ "{'cniVersion':'1.0.0','name':'n'," IPAM ",'args':{'cni':{"
		  "'ips':['10.1.0.8']}},'runtimeConfig':{'ips':['fd00::7/64',"
		  "'fd00::7']}}", "IP=10.1.0.9", "fd00::7" },
		{ "{'cniVersion':'1.0.0','name':'n'," IPAM ",'args':{'cni':{"
		  "'ips':['10.1.0.8']}},'runtimeConfig':{'ips':[]}}", NULL,
		  "10.1.0.8" },
	};
#undef IPAM
	struct pl_ipam_config cfg;
	struct pl_err err;
	cJSON *json = NULL;

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
		char got[256] = "", a[INET6_ADDRSTRLEN];
		size_t n = 0;

		if (parse(cases[i].conf, cases[i].args, &json, &cfg, &err) < 0)
			fail_msg("%s: %s", cases[i].conf, err.msg);
		for (unsigned int k = 0; k < cfg.n_requested; k++)
			n += (size_t)snprintf(got + n, sizeof(got) - n, "%s%s",
					      k ? " " : "",
					      pl_addr_str(&cfg.requested[k],
							  a));
		assert_string_equal(got, cases[i].want);
	}
	assert_true(parse(CONF("{'subnet':'10.1.0.0/24'}"), "IP=nonsense",
			  &json, &cfg, &err) < 0);
	assert_non_null(strstr(err.msg, "IP of CNI_ARGS \"nonsense\""));
	cJSON_Delete(json);
}

static void test_where(void **state)
{
	struct pl_ipam_where where;
	struct pl_ipam_config cfg;
	struct pl_err err;
	cJSON *json = NULL;

	(void)state;
	/* DEL has to work with all of these. */
	assert_true(parse("{'name':'n'}", NULL, &json, &cfg, &err) < 0);
	assert_int_equal(pl_ipam_where_parse(json, &where, &err), 0);
	assert_string_equal(where.data_dir, "/var/lib/cni/networks");
	assert_string_equal(where.network, "n");
	assert_true(parse(CONF("{'dataDir':'/x','ranges':7}"), NULL, &json,
			  &cfg, &err) < 0);
	assert_int_equal(pl_ipam_where_parse(json, &where, &err), 0);
	assert_string_equal(where.data_dir, "/x");
	assert_true(parse("{'name':'../n'}", NULL, &json, &cfg, &err) < 0);
	assert_true(pl_ipam_where_parse(json, &where, &err) < 0);
	cJSON_Delete(json);
}

#define ROUTED CONF("{'ranges':[[{'subnet':'10.1.0.0/24'}],[{'subnet':" \
	"'fd00::/64'}]],'routes':[{'dst':'0.0.0.0/0','mtu':1400},{'dst':" \
	"'::/0','gw':'fd00::9'}],'resolvConf':'RESOLV'}")

static void test_result(void **state)
{
	static const struct {
		const char *version, *want;
	} cases[] = {
		{ "0.2.0", "{'cniVersion':'0.2.0','ip4':{'ip':'10.1.0.5/24',"
		  "'gateway':'10.1.0.1','routes':[{'dst':'0.0.0.0/0'}]},'ip6':"
		  "{'ip':'fd00::5/64','gateway':'fd00::1','routes':[{'dst':"
		  "'::/0','gw':'fd00::9'}]},'dns':" },
		{ "0.4.0", "{'cniVersion':'0.4.0','ips':[{'version':'4',"
		  "'address':'10.1.0.5/24','gateway':'10.1.0.1'},{'version':"
		  "'6','address':'fd00::5/64','gateway':'fd00::1'}],'routes':["
		  "{'dst':'0.0.0.0/0'},{'dst':'::/0','gw':'fd00::9'}],'dns':" },
		{ "1.0.0", "{'cniVersion':'1.0.0','ips':[{'address':"
		  "'10.1.0.5/24','gateway':'10.1.0.1'},{'address':'fd00::5/64'"
		  ",'gateway':'fd00::1'}],'routes':[{'dst':'0.0.0.0/0'},{'dst'"
		  ":'::/0','gw':'fd00::9'}],'dns':" },
		{ "1.1.0", "{'cniVersion':'1.1.0','ips':[{'address':"
		  "'10.1.0.5/24','gateway':'10.1.0.1'},{'address':'fd00::5/64'"
		  ",'gateway':'fd00::1'}],'routes':[{'dst':'0.0.0.0/0','mtu':"
		  "1400},{'dst':'::/0','gw':'fd00::9'}],'dns':" },
	};
	static const char dns[] =
		"{'nameservers':['10.1.0.53','fd00::53'],'domain':'a.example',"
		"'options':['ndots:5','edns0'],'search':['b.example',"
		"'c.example']}}";
	struct pl_ipam_result res = { .n_ips = 2 };
	struct pl_ipam_config cfg;
	struct pl_err err;
	struct scratch *s = *state;
	cJSON *json = NULL;

	scratch_init(s, "[[{'subnet':'10.1.0.0/24'}]]");
	put_file(s, "resolv", "# x\nnameserver 10.1.0.53 ; y\n\nsearch old\n"
		 "nameserver\tfd00::53\ndomain a.example\noptions ndots:5\r\n"
		 "search b.example  c.example\noptions edns0\nsortlist 1.2.3.4\n"
		 "nameserver");
	assert_int_equal(parse(ROUTED, NULL, &json, &cfg, &err), 0);
	assert_string_equal(cfg.resolv_conf, "RESOLV");
	snprintf(cfg.resolv_conf, sizeof(cfg.resolv_conf), "%s/resolv", s->net);
	pl_prefix_parse("10.1.0.5/24", &res.ips[0].address);
	pl_prefix_parse("fd00::5/64", &res.ips[1].address);
	res.ips[0].gateway = cfg.ranges[0].gateway;
	res.ips[1].gateway = cfg.ranges[1].gateway;
	for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
		char want[1024], *got;
		cJSON *doc = NULL;

		assert_int_equal(pl_ipam_result_doc(&cfg, &res,
						    cases[i].version, &doc,
						    &err), 0);
		snprintf(want, sizeof(want), "%s%s", cases[i].want, dns);
		got = cJSON_PrintUnformatted(doc);
		for (char *p = got; *p; p++)
			if (*p == '"')
				*p = '\'';
		assert_string_equal(got, want);
		cJSON_free(got);
		cJSON_Delete(doc);
	}
	snprintf(cfg.resolv_conf, sizeof(cfg.resolv_conf), "%s/none", s->net);
	cJSON_Delete(json);
	json = NULL;
	cfg.routes = NULL;
	assert_true(pl_ipam_result_doc(&cfg, &res, "1.0.0", &json, &err) < 0);
	assert_non_null(strstr(err.msg, "ipam.resolvConf"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_where),
		scratch_test(test_result),
	};

	return cmocka_run_group_tests_name("ipam config", tests, NULL, NULL);
}
