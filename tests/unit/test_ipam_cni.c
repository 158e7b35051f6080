/* tests/unit/test_ipam_cni.c - the shared CNI protocol code */
#include "tests/unit/ipam_test.h"

static const char *const variables[] = {
	"CNI_COMMAND", "CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME",
	"CNI_ARGS", "CNI_PATH", "CNI_NETNS_OVERRIDE",
};

/* "COMMAND=ADD IFNAME=eth0": these and no others. */
static void set_env(const char *list)
{
	char buf[256], *rest = buf, *word;

	for (size_t i = 0; i < PL_ARRAY_SIZE(variables); i++)
		unsetenv(variables[i]);
	snprintf(buf, sizeof(buf), "%s", list);
	while ((word = strsep(&rest, " "))) {
		char name[64];
		char *eq = strchr(word, '=');

		if (!eq)
			continue;
		*eq = '\0';
		snprintf(name, sizeof(name), "CNI_%s", word);
		setenv(name, eq + 1, 1);
	}
}

static void test_environment(void **state)
{
	static const struct {
		const char *env;
		const char *want;	/* in the message; NULL: success */
	} cases[] = {
		{ "COMMAND=ADD CONTAINERID=a NETNS=/n IFNAME=eth0", NULL },
		{ "COMMAND=ADD", "CNI_CONTAINERID, CNI_NETNS, CNI_IFNAME" },
		{ "COMMAND=ADD CONTAINERID=a IFNAME=e", "set: CNI_NETNS" },
		{ "COMMAND=DEL CONTAINERID=a IFNAME=e", NULL },
		{ "COMMAND=DEL NETNS=/n", "CNI_CONTAINERID, CNI_IFNAME" },
		{ "COMMAND=CHECK CONTAINERID=a IFNAME=e", "CNI_NETNS" },
		{ "COMMAND=CHECK CONTAINERID=a NETNS=/n IFNAME=eth0", NULL },
		{ "COMMAND=VERSION", NULL },
		{ "COMMAND=STATUS", NULL },
		{ "COMMAND=GC", "CNI_PATH" },
		{ "COMMAND=GC PATH=/opt/cni/bin", NULL },
		{ "COMMAND=add", "none of ADD" },
		{ "COMMAND=ADD CONTAINERID= NETNS=/n IFNAME=eth0",
		  "CNI_CONTAINERID" },
		{ "COMMAND=ADD CONTAINERID=-a NETNS=/n IFNAME=eth0",
		  "CNI_CONTAINERID \"-a\"" },
		{ "COMMAND=DEL CONTAINERID=a/b IFNAME=eth0", "\"a/b\"" },
		{ "COMMAND=DEL CONTAINERID=a IFNAME=..", "CNI_IFNAME" },
	};
	struct pl_cni_env env;
	struct pl_err err;

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
		int rc;

		set_env(cases[i].env);
		rc = pl_cni_env_read(&env, &err);
		if (!cases[i].want) {
			assert_int_equal(rc, 0);
			continue;
		}
		assert_true(rc < 0);
		assert_int_equal(pl_cni_code(&err),
				 PL_CNI_INVALID_ENVIRONMENT);
		if (!strstr(err.msg, cases[i].want))
			fail_msg("%s: %s", cases[i].env, err.msg);
	}
	set_env("");
	assert_int_equal(pl_cni_env_read(&env, &err), 1);
	set_env("COMMAND=DEL CONTAINERID=a IFNAME=e NETNS_OVERRIDE=TRUE "
		"ARGS=A=B");
	assert_int_equal(pl_cni_env_read(&env, &err), 0);
	assert_true(env.netns_override);
	assert_null(env.netns);
	assert_string_equal(env.args, "A=B");
}

static void test_names(void **state)
{
	char long_id[PL_CNI_ID_MAX + 2];
	struct pl_err err;

	(void)state;
	memset(long_id, 'a', sizeof(long_id));
	long_id[PL_CNI_ID_MAX + 1] = '\0';
	assert_true(pl_cni_check_container_id(long_id, &err) < 0);
	long_id[PL_CNI_ID_MAX] = '\0';
	assert_int_equal(pl_cni_check_container_id(long_id, &err), 0);
	assert_int_equal(pl_cni_check_container_id("0_.-Z", &err), 0);
	assert_true(pl_cni_check_container_id("", &err) < 0);
	assert_true(pl_cni_check_container_id(".a", &err) < 0);
	assert_true(pl_cni_check_container_id("a\nb", &err) < 0);
	assert_true(pl_cni_check_container_id("\xc3\xa4", &err) < 0);

	assert_int_equal(pl_cni_check_network("cbr-0.x_y", &err), 0);
	assert_true(pl_cni_check_network("..", &err) < 0);
	assert_true(pl_cni_check_network("a/../b", &err) < 0);
	assert_int_equal(pl_cni_code(&err), PL_CNI_INVALID_CONFIG);

	assert_int_equal(pl_cni_check_ifname("a", &err), 0);
	assert_int_equal(pl_cni_check_ifname("...", &err), 0);
	assert_int_equal(pl_cni_check_ifname("fifteen-bytes-x", &err), 0);
	assert_true(pl_cni_check_ifname("sixteen-bytes-xx", &err) < 0);
	assert_true(pl_cni_check_ifname("", &err) < 0);
	assert_true(pl_cni_check_ifname(".", &err) < 0);
	assert_true(pl_cni_check_ifname("a/b", &err) < 0);
	assert_true(pl_cni_check_ifname("a:b", &err) < 0);
	assert_true(pl_cni_check_ifname("eth%d", &err) < 0);
	assert_true(pl_cni_check_ifname("a\tb", &err) < 0);
	assert_int_equal(pl_cni_code(&err), PL_CNI_INVALID_ENVIRONMENT);
}

static void test_versions(void **state)
{
	static const char *const bad[] = {
		"", "x", "1.", "1..0", ".1.0", "1.1.0.0", "1.1.0-rc", "-1",
		"1.1.0 ", "1000.0.0",
	};

	(void)state;
	assert_int_equal(pl_cni_version_parse("1.1.0"), PL_CNI_V(1, 1, 0));
	assert_int_equal(pl_cni_version_parse("0.4.0"), PL_CNI_V(0, 4, 0));
	assert_int_equal(pl_cni_version_parse("1"), PL_CNI_V(1, 0, 0));
	assert_true(PL_CNI_V(0, 4, 0) < PL_CNI_V(1, 0, 0));
	for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++)
		assert_int_equal(pl_cni_version_parse(bad[i]), -EINVAL);
	assert_true(pl_cni_version_supported(PL_CNI_V(0, 3, 1)));
	assert_false(pl_cni_version_supported(PL_CNI_V(1, 2, 0)));
	assert_false(pl_cni_version_supported(-EINVAL));
}

static void test_args(void **state)
{
	char buf[16];

	(void)state;
	assert_int_equal(pl_cni_args_get(NULL, "IP", buf, sizeof(buf)), 0);
	assert_int_equal(pl_cni_args_get("", "IP", buf, sizeof(buf)), 0);
	assert_int_equal(pl_cni_args_get("IP", "IP", buf, sizeof(buf)), 0);
	assert_int_equal(pl_cni_args_get("XIP=1;IPX=2;;=3", "IP", buf,
					 sizeof(buf)), 0);
	assert_int_equal(pl_cni_args_get("IgnoreUnknown=1;IP=10.1.0.9;K8S=x",
					 "IP", buf, sizeof(buf)), 1);
	assert_string_equal(buf, "10.1.0.9");
	assert_int_equal(pl_cni_args_get("A=b=c=;IP=1", "A", buf,
					 sizeof(buf)), 1);
	assert_string_equal(buf, "b=c=");
	assert_int_equal(pl_cni_args_get("A=1;A=;", "A", buf, sizeof(buf)), 1);
	assert_string_equal(buf, "");
	assert_int_equal(pl_cni_args_get("A=0123456789abcde", "A", buf,
					 sizeof(buf)), 1);
	assert_int_equal(pl_cni_args_get("A=0123456789abcdef", "A", buf,
					 sizeof(buf)), -ENAMETOOLONG);
}

/* A configuration from a pipe, written by a child if it is large. */
static int read_conf(const char *text, size_t len, enum pl_cni_cmd cmd,
		     struct pl_cni_conf *conf, struct pl_err *err)
{
	FILE *f = tmpfile();
	int rc;

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, len, f), len);
	rewind(f);
	fflush(f);
	rc = pl_cni_conf_read(fileno(f), cmd, conf, err);
	fclose(f);
	return rc;
}

static void test_configuration(void **state)
{
	static const struct {
		enum pl_cni_cmd cmd;
		const char *text;
		int code;		/* 0: success */
		const char *version;	/* for the error document */
	} cases[] = {
		{ PL_CNI_ADD, "{\"cniVersion\":\"1.0.0\",\"name\":\"n\"}", 0,
		  "1.0.0" },
		{ PL_CNI_ADD, "{\"name\":\"n\"}\n", 0, "0.1.0" },
		{ PL_CNI_ADD, "", PL_CNI_DECODE, "1.1.0" },
		{ PL_CNI_ADD, "{", PL_CNI_DECODE, "1.1.0" },
		{ PL_CNI_ADD, "[]", PL_CNI_DECODE, "1.1.0" },
		{ PL_CNI_ADD, "{} {}", PL_CNI_DECODE, "1.1.0" },
		{ PL_CNI_ADD, "{\"cniVersion\":1}", PL_CNI_DECODE, "1.1.0" },
		{ PL_CNI_ADD, "{\"cniVersion\":\"x\"}", PL_CNI_DECODE,
		  "1.1.0" },
		{ PL_CNI_ADD, "{\"cniVersion\":\"9.9.9\",\"name\":\"n\"}",
		  PL_CNI_INCOMPATIBLE_VERSION, "9.9.9" },
		{ PL_CNI_ADD, "{\"cniVersion\":\"0.4.0\"}",
		  PL_CNI_INVALID_CONFIG, "0.4.0" },
		{ PL_CNI_DEL, "{\"cniVersion\":\"0.4.0\",\"name\":\"a/b\"}",
		  PL_CNI_INVALID_CONFIG, "0.4.0" },
		{ PL_CNI_CHECK, "{\"cniVersion\":\"0.3.1\",\"name\":\"n\"}",
		  PL_CNI_INCOMPATIBLE_VERSION, "0.3.1" },
		{ PL_CNI_CHECK, "{\"cniVersion\":\"0.4.0\",\"name\":\"n\"}", 0,
		  "0.4.0" },
		{ PL_CNI_GC, "{\"cniVersion\":\"1.0.0\",\"name\":\"n\"}",
		  PL_CNI_INCOMPATIBLE_VERSION, "1.0.0" },
		{ PL_CNI_STATUS, "{\"cniVersion\":\"1.1.0\",\"name\":\"n\"}",
		  0, "1.1.0" },
		{ PL_CNI_VERSION, "", 0, "1.1.0" },
		{ PL_CNI_VERSION, " \n", 0, "1.1.0" },
		{ PL_CNI_VERSION, "{\"cniVersion\":\"0.4.0\"}", 0, "0.4.0" },
		{ PL_CNI_VERSION, "{\"cniVersion\":\"7.0.0\"}", 0, "7.0.0" },
	};
	struct pl_cni_conf conf;
	struct pl_err err;

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
		int rc;

		pl_err_clear(&err);
		rc = read_conf(cases[i].text, strlen(cases[i].text),
			       cases[i].cmd, &conf, &err);
		if (!cases[i].code != !rc || pl_cni_code(&err) !=
		    (cases[i].code ? cases[i].code : PL_CNI_FAILED))
			fail_msg("%s: %d %s", cases[i].text, rc, err.msg);
		assert_string_equal(conf.version_text, cases[i].version);
		pl_cni_conf_fini(&conf);
	}
}

static void test_large_configuration(void **state)
{
	size_t len = 5u << 20;
	char *text = malloc(len + 64);
	struct pl_cni_conf conf;
	struct pl_err err;
	int n;

	(void)state;
	n = snprintf(text, 64, "{\"cniVersion\":\"1.0.0\",\"name\":\"n\",\"x\""
		     ":\"");
	memset(text + n, 'x', len);
	memcpy(text + (size_t)n + len, "\"}", 2);
	assert_int_equal(read_conf(text, (size_t)n + len + 2, PL_CNI_ADD, &conf,
				   &err), 0);
	assert_string_equal(conf.name, "n");
	pl_cni_conf_fini(&conf);
	free(text);
}

static void test_gc_list(void **state)
{
	static const struct {
		const char *text;
		int n;			/* -1: error */
	} cases[] = {
		{ "{}", -1 },
		{ "{\"cni.dev/valid-attachments\":null}", 0 },
		{ "{\"cni.dev/valid-attachments\":[]}", 0 },
		{ "{\"cni.dev/attachments\":[{\"containerID\":\"a\","
		  "\"ifname\":\"e\"}]}", 1 },
		{ "{\"cni.dev/attachments\":[{\"containerID\":\"a\","
		  "\"ifname\":\"e\"}],\"cni.dev/valid-attachments\":[]}", 0 },
		{ "{\"cni.dev/valid-attachments\":[{\"ifname\":\"e\"}]}", -1 },
		{ "{\"cni.dev/valid-attachments\":[{\"containerID\":1,"
		  "\"ifname\":\"e\"}]}", -1 },
		{ "{\"cni.dev/valid-attachments\":\"all\"}", -1 },
		{ "{\"cni.dev/valid-attachments\":[7]}", -1 },
	};

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
		pl_auto_json *j = cJSON_Parse(cases[i].text);
		const cJSON *list = NULL;
		struct pl_err err;
		int rc = pl_cni_gc_valid(j, &list, &err);

		assert_int_equal(rc < 0, cases[i].n < 0);
		if (rc == 0)
			assert_int_equal(list ? cJSON_GetArraySize(list) : 0,
					 cases[i].n);
		else
			assert_int_equal(pl_cni_code(&err),
					 PL_CNI_INVALID_CONFIG);
	}
}

static void test_error_document(void **state)
{
	FILE *f = tmpfile();
	struct pl_err err;
	char text[1024];
	size_t n;
	pl_auto_json *j = NULL;

	(void)state;
	pl_cni_err(&err, PL_CNI_TRY_AGAIN, "say \"%s\"", "x\n");
	assert_int_equal(pl_cni_print_err(fileno(f), "0.4.0", &err, "more"),
			 0);
	rewind(f);
	n = fread(text, 1, sizeof(text), f);
	fclose(f);
	assert_int_equal(pl_json_parse(text, n, &j, &err), 0);
	assert_int_equal(cJSON_GetArraySize(j), 4);
	assert_string_equal(cJSON_GetStringValue(
		cJSON_GetObjectItem(j, "cniVersion")), "0.4.0");
	assert_true(cJSON_GetNumberValue(cJSON_GetObjectItem(j, "code")) ==
		    11.0);
	assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(j, "msg")),
			    "say \"x\n\"");
	assert_string_equal(cJSON_GetStringValue(
		cJSON_GetObjectItem(j, "details")), "more");

	pl_err_set(&err, ENOSPC, "x");
	assert_int_equal(pl_cni_code(&err), PL_CNI_IO);
	pl_err_set(&err, EINVAL, "x");
	assert_int_equal(pl_cni_code(&err), PL_CNI_INVALID_CONFIG);
	pl_err_set(&err, ENOMEM, "x");
	assert_int_equal(pl_cni_code(&err), PL_CNI_FAILED);
	assert_int_equal(pl_cni_err(NULL, PL_CNI_IO, "x"),
			 -(PL_CNI_ERR_BASE + 5));
}

static void test_print_to_full(void **state)
{
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	cJSON *doc = cJSON_CreateObject();
	struct pl_err err;

	(void)state;
	assert_true(pl_cni_print(fd, doc, &err) < 0);
	assert_int_equal(pl_cni_code(&err), PL_CNI_IO);
	close(fd);
	assert_true(pl_cni_print(fd, doc, &err) < 0);
	cJSON_Delete(doc);
}

static void test_routes(void **state)
{
	static const struct {
		const char *text;
		const char *want;	/* in the message; NULL: success */
	} cases[] = {
		{ "[]", NULL },
		{ "[{\"dst\":\"0.0.0.0/0\"},{\"dst\":\"::/0\",\"gw\":\"fd00::1"
		  "\",\"mtu\":0,\"scope\":255,\"table\":4294967295}]", NULL },
		{ "[{}]", "r[0] has no dst" },
		{ "[{\"dst\":\"10.0.0.0\"}]", "r[0].dst \"10.0.0.0\"" },
		{ "[{\"dst\":\"::/0\"},{\"dst\":\"::/0\",\"gw\":\"x\"}]",
		  "r[1].gw \"x\"" },
		{ "[{\"dst\":\"::/0\",\"mtu\":-1}]", "r[0].mtu" },
		{ "[{\"dst\":\"::/0\",\"scope\":256}]", "r[0].scope" },
		{ "[{\"dst\":\"::/0\",\"priority\":1.5}]", "r[0].priority" },
		{ "[\"::/0\"]", "r[0] must be an object" },
	};
	pl_auto_json *route = cJSON_Parse(
		"{\"dst\":\"::/0\",\"gw\":\"fd00::1\",\"mtu\":0,\"x\":1}");
	cJSON *copy;

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
		pl_auto_json *j = cJSON_Parse(cases[i].text);
		struct pl_err err;
		int rc = pl_cni_check_routes(j, "r", &err);

		assert_int_equal(rc < 0, cases[i].want != NULL);
		if (rc < 0 && !strstr(err.msg, cases[i].want))
			fail_msg("%s: %s", cases[i].text, err.msg);
	}
	copy = pl_cni_route_for(route, PL_CNI_V(1, 0, 0));
	assert_int_equal(cJSON_GetArraySize(copy), 2);
	cJSON_Delete(copy);
	copy = pl_cni_route_for(route, PL_CNI_V(1, 1, 0));
	assert_int_equal(cJSON_GetArraySize(copy), 3);
	cJSON_Delete(copy);
	cJSON_ReplaceItemInObject(route, "gw", cJSON_CreateString(""));
	copy = pl_cni_route_for(route, PL_CNI_V(1, 0, 0));
	assert_false(cJSON_HasObjectItem(copy, "gw"));
	cJSON_Delete(copy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_environment),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_args),
		cmocka_unit_test(test_configuration),
		cmocka_unit_test(test_large_configuration),
		cmocka_unit_test(test_gc_list),
		cmocka_unit_test(test_error_document),
		cmocka_unit_test(test_print_to_full),
		cmocka_unit_test(test_routes),
	};

	return cmocka_run_group_tests_name("cni", tests, NULL, NULL);
}
