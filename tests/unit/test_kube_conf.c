/* tests/unit/test_kube_conf.c - where the API server is, and who we are */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/util.h"
#include "daemonset/kube_conf.h"

struct files {
	char dir[64];
	char path[96];
};

static int make(void **state)
{
	struct files *f = calloc(1, sizeof(*f));
	const char *tmp = getenv("TMPDIR");

	snprintf(f->dir, sizeof(f->dir), "%.40s/kubeXXXXXX",
		 tmp ? tmp : "/tmp");
	if (!mkdtemp(f->dir))
		return -1;
	snprintf(f->path, sizeof(f->path), "%s/config", f->dir);
	*state = f;
	return 0;
}

static int unmake(void **state)
{
	struct files *f = *state;

	unlink(f->path);
	rmdir(f->dir);
	free(f);
	return 0;
}

static int load(struct files *f, const char *text, struct pl_kube_conf *c,
		struct pl_err *err)
{
	assert_int_equal(pl_file_replace_nosync(f->path, text, strlen(text),
						0600, NULL), 0);
	return pl_kube_conf_load(c, f->path, err);
}

#define CLUSTER "clusters:\n- name: c\n  cluster:\n    server: https://h:1/\n"
#define CONTEXT                                                              \
	"current-context: x\ncontexts:\n- name: y\n- name: x\n  context:\n"   \
	"    cluster: c\n    user: u\n"
#define USER "users:\n- name: u\n  user:\n"

static void yaml(void **state)
{
	pl_auto_free char *token = NULL;
	struct pl_kube_conf c;
	struct pl_err err = { 0 };

	assert_int_equal(load(*state, CONTEXT CLUSTER
			      "    certificate-authority-data: aGVs\n"
			      "      bG8=\n" USER "    token: abc\n"
			      "    client-certificate: some/cert\n"
			      "    client-key: /some/key\n", &c, &err), 0);
	assert_string_equal(c.server, "https://h:1");
	assert_int_equal(c.ca.len, 5);
	assert_memory_equal(c.ca.data, "hello", 5);
	assert_non_null(strstr(c.cert.file, "/some/cert"));
	assert_int_equal(*c.cert.file, '/');
	assert_string_equal(c.key.file, "/some/key");
	assert_false(c.is_insecure);
	assert_int_equal(pl_kube_conf_token(&c, &token, &err), 0);
	assert_string_equal(token, "abc");
	pl_kube_conf_fini(&c);
}

static void json(void **state)
{
	struct pl_kube_conf c;
	struct pl_err err = { 0 };

	assert_int_equal(load(*state,
		"{\"current-context\":\"a\",\"contexts\":[{\"name\":\"a\","
		"\"context\":{\"cluster\":\"b\"}}],\"clusters\":[{\"name\":"
		"\"b\",\"cluster\":{\"server\":\"http://[::1]:8001\","
		"\"insecure-skip-tls-verify\":true}}]}", &c, &err), 0);
	assert_string_equal(c.server, "http://[::1]:8001");
	assert_true(c.is_insecure);
	pl_kube_conf_fini(&c);
}

static void wrong(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ "", "it is empty" },
		{ "[]", "no mapping" },
		{ "a: [", "line " },
		{ "a: b", "current-context is missing" },
		{ "current-context: x", "contexts has none of the name 'x'" },
		{ CONTEXT, "clusters has none of the name 'c'" },
		{ CONTEXT CLUSTER, "users has none of the name 'u'" },
		{ CONTEXT "clusters:\n- name: c\n  cluster: {}\n" USER
		  "    token: a\n", "cluster.server is missing" },
		{ CONTEXT "clusters:\n- name: c\n  cluster: {server: h}\n" USER
		  "    token: a\n", "server must begin with https://" },
		{ CONTEXT "clusters:\n- name: c\n  cluster: {server: "
		  "'https://'}\n" USER "    token: a\n", "names no host" },
		{ CONTEXT "clusters:\n- name: c\n  cluster: {server: http://h}"
		  "\n" USER "    token: a\n", "in clear text" },
		{ CONTEXT CLUSTER "    proxy-url: http://p\n" USER
		  "    token: a\n", "cluster.proxy-url is not supported" },
		{ CONTEXT CLUSTER USER "    exec: {command: aws}\n",
		  "user.exec is not supported" },
		{ CONTEXT CLUSTER USER "    username: a\n    password: b\n",
		  "user.username is not supported" },
		{ CONTEXT CLUSTER USER "    client-certificate: a\n",
		  "belong together" },
		{ CONTEXT CLUSTER USER "    client-key-data: '***'\n",
		  "client-key-data is not base64" },
		{ CONTEXT CLUSTER USER "    token: \"a\\r\\nX: y\"\n",
		  "user.token is no token" },
		{ CONTEXT CLUSTER USER "    token: [a]\n", "token" },
		{ "current-context: |\n s: a\n", "control characters" },
		{ CONTEXT CLUSTER USER "    client-key: \"a\\nb\"\n",
		  "user.client-key has control characters" },
		{ "a: &a [1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
		  "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
		  "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
		  "e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n"
		  "f: [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n",
		  "nested too deeply" },
	};

	for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++) {
		struct pl_kube_conf c;
		struct pl_err err = { 0 };

		assert_true(load(*state, bad[i].text, &c, &err) < 0);
		if (!strstr(err.msg, bad[i].says) ||
		    !strstr(err.msg, "/config: "))
			fail_msg("\"%s\", not \"%s\"", err.msg, bad[i].says);
	}
}

static void token_file(void **state)
{
	struct files *f = *state;
	struct pl_kube_conf c = { .server = "" };
	struct pl_err err = { 0 };
	char *token;

	pl_format(c.token_file, sizeof(c.token_file), "%s", f->path);
	assert_int_equal(pl_file_replace_nosync(f->path, "one\n", 4, 0600,
						NULL), 0);
	assert_int_equal(pl_kube_conf_token(&c, &token, &err), 0);
	assert_string_equal(token, "one");
	free(token);
	assert_int_equal(pl_file_replace_nosync(f->path, "two", 3, 0600,
						NULL), 0);
	assert_int_equal(pl_kube_conf_token(&c, &token, &err), 0);
	assert_string_equal(token, "two");
	free(token);
	assert_int_equal(pl_file_replace_nosync(f->path, "a\nb", 3, 0600,
						NULL), 0);
	assert_int_equal(pl_kube_conf_token(&c, &token, &err), -EINVAL);
	assert_int_equal(pl_file_replace_nosync(f->path, "\n", 1, 0600, NULL),
			 0);
	assert_int_equal(pl_kube_conf_token(&c, &token, &err), -EINVAL);
}

static void in_cluster(void **state)
{
	struct pl_kube_conf c;
	struct pl_err err = { 0 };

	(void)state;
	unsetenv("KUBERNETES_SERVICE_HOST");
	assert_int_equal(pl_kube_conf_account(&c, "/sa", &err), -ENOENT);
	assert_non_null(strstr(err.msg, "registry.kubeconfig"));
	setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1", 1);
	setenv("KUBERNETES_SERVICE_PORT", "443", 1);
	assert_int_equal(pl_kube_conf_account(&c, "/sa", &err), 0);
	assert_string_equal(c.server, "https://10.96.0.1:443");
	assert_string_equal(c.ca.file, "/sa/ca.crt");
	assert_string_equal(c.token_file, "/sa/token");
	setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
	assert_int_equal(pl_kube_conf_account(&c, "/sa", &err), 0);
	assert_string_equal(c.server, "https://[fd00::1]:443");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(yaml, make, unmake),
		cmocka_unit_test_setup_teardown(json, make, unmake),
		cmocka_unit_test_setup_teardown(wrong, make, unmake),
		cmocka_unit_test_setup_teardown(token_file, make, unmake),
		cmocka_unit_test(in_cluster),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
