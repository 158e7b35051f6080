/* tests/unit/test_plugin_record.c - records, whole and damaged */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/json.h"
#include "common/tree.h"
#include "common/util.h"
#include "plugin/record.h"

static const struct pl_attach at = { "net", "c1", "eth0" };

static int setup(void **state)
{
	char *dir = strdup("/tmp/pl-record.XXXXXX");

	*state = dir;
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	pl_tree_remove(*state);
	free(*state);
	return 0;
}

static void create(const char *dir, struct pl_record *r)
{
	pl_auto_json *j = cJSON_CreateObject();
	struct pl_err err = { 0 };

	cJSON_AddStringToObject(j, "link", "pl0");
	assert_int_equal(pl_record_create(dir, &at, j, r, &err), 0);
}

static void test_life(void **state)
{
	struct pl_err err = { 0 };
	const char *link = NULL;
	struct pl_record r;

	create(*state, &r);
	pl_record_close(&r);
	assert_int_equal(pl_record_open(*state, &at, 0, &r, &err), 0);
	assert_false(r.done);
	assert_false(r.old_boot);
	assert_int_equal(pl_json_str(r.json, "", "link", &link, &err), 1);
	assert_string_equal(link, "pl0");
	assert_int_equal(pl_record_done(&r, &err), 0);
	pl_record_close(&r);
	assert_int_equal(pl_record_open(*state, &at, 0, &r, &err), 0);
	assert_true(r.done);
	assert_int_equal(pl_record_remove(&r, &err), 0);
	assert_int_equal(pl_record_open(*state, &at, 0, &r, &err), -ENOENT);
}

static void test_twice(void **state)
{
	pl_auto_json *j = cJSON_CreateObject();
	struct pl_err err = { 0 };
	struct pl_record r, s;

	create(*state, &r);
	assert_int_equal(pl_record_create(*state, &at, j, &s, &err), -EEXIST);
	/* Held: whoever wants it, waits and gives up. */
	assert_int_equal(pl_record_open(*state, &at, 0, &s, &err), -EBUSY);
	assert_int_equal(pl_record_open(*state, &at, 20, &s, &err), -EBUSY);
	pl_record_close(&r);
	assert_int_equal(pl_record_open(*state, &at, 0, &s, &err), 0);
	pl_record_close(&s);
}

/* The lock of a process that was killed is gone. */
static void test_killed(void **state)
{
	struct pl_err err = { 0 };
	struct pl_record r;
	pid_t pid = fork();
	int st;

	if (pid == 0) {
		create(*state, &r);
		kill(getpid(), SIGKILL);
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_true(WIFSIGNALED(st));
	assert_int_equal(pl_record_open(*state, &at, 0, &r, &err), 0);
	assert_false(r.done);
	assert_non_null(r.json);
	pl_record_close(&r);
}

/* Cut off anywhere, and with every byte replaced: no crash, no nonsense. */
static void test_damaged(void **state)
{
	struct pl_err err = { 0 };
	char text[512], path[4096];
	struct pl_record r;
	ssize_t n;

	create(*state, &r);
	n = pread(r.fd, text, sizeof(text), 0);
	assert_true(n > 20 && n < (ssize_t)sizeof(text));
	snprintf(path, sizeof(path), "%s", r.path);
	pl_record_close(&r);
	for (ssize_t i = n - 2; i >= 0; i--) {
		assert_int_equal(truncate(path, i), 0);
		assert_int_equal(pl_record_open(*state, &at, 0, &r, &err), 0);
		assert_null(r.json);
		assert_false(r.done);
		pl_record_close(&r);
	}
	for (ssize_t i = 0; i < n; i++) {
		FILE *f = fopen(path, "w");

		assert_non_null(f);
		fwrite(text, 1, (size_t)i, f);
		fputc('\1', f);
		fwrite(text + i + 1, 1, (size_t)(n - i - 1), f);
		fclose(f);
		assert_int_equal(pl_record_open(*state, &at, 0, &r, &err), 0);
		pl_record_close(&r);
	}
}

static void test_old_boot(void **state)
{
	struct pl_err err = { 0 };
	struct pl_record r;
	FILE *f;

	create(*state, &r);
	f = fopen(r.path, "w");
	fputs("{\"done\":1,\"boot\":\"00000000-0000-0000-0000-000000000000\"}",
	      f);
	fclose(f);
	pl_record_close(&r);
	assert_int_equal(pl_record_open(*state, &at, 0, &r, &err), 0);
	assert_true(r.old_boot);
	pl_record_close(&r);
}

static int count(const struct pl_attach *a, void *arg)
{
	assert_string_equal(a->network, "net");
	assert_string_equal(a->id, "c1");
	assert_string_equal(a->ifname, "eth0");
	++*(int *)arg;
	return 0;
}

static void test_each(void **state)
{
	struct pl_err err = { 0 };
	struct pl_record r;
	int n = 0;

	assert_int_equal(pl_record_each(*state, "net", count, &n, &err), 0);
	create(*state, &r);
	pl_record_close(&r);
	assert_int_equal(pl_record_each(*state, "net", count, &n, &err), 0);
	assert_int_equal(pl_record_each(*state, "other", count, &n, &err), 0);
	assert_int_equal(n, 1);
}

#define TEN "0123456789"
#define LONG_ID TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

static void test_names(void **state)
{
	static const struct pl_attach other[] = {
		{ "net", "c1", "eth1" },
		{ "net", "c2", "eth0" },
		{ "netc1", "", "eth0" },
		{ "net", "c1eth0", "" },
		/* As long as they get, and the same but for the end. */
		{ "net", LONG_ID "1", "eth0" },
		{ "net", LONG_ID "2", "eth0" },
	};
	const struct pl_attach *last = &other[PL_ARRAY_SIZE(other) - 2];
	char a[16], b[16];

	(void)state;
	pl_record_host_ifname(&at, a);
	assert_int_equal(strlen(a), 15);
	assert_memory_equal(a, "pl", 2);
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
		pl_record_host_ifname(&other[i], b);
		assert_string_not_equal(a, b);
	}
	pl_record_host_ifname(&at, b);
	assert_string_equal(a, b);
	pl_record_host_ifname(&last[0], a);
	pl_record_host_ifname(&last[1], b);
	assert_string_not_equal(a, b);
}

#define with_dir(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_dir(test_life), with_dir(test_twice),
		with_dir(test_killed), with_dir(test_damaged),
		with_dir(test_old_boot), with_dir(test_each),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
