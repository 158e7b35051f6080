/* tests/unit/test_registry.c - the node registry, its file and its watch */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>
#include <event2/event.h>

#include "common/json.h"
#include "common/util.h"
#include "daemonset/registry_file.h"

#define NODE(name, addr, cidrs)                                                \
	"{\"name\":\"" name "\",\"address\":\"" addr "\",\"podCIDRs\":[" cidrs \
	"]}"
#define FILE_OF(nodes) "{\"nodes\":[" nodes "]}"
#define NODE1 NODE("node1", "10.99.0.1", "\"10.88.1.0/24\",\"fd00:1::/64\"")
#define NODE2 NODE("node2", "10.99.0.2", "\"10.88.2.0/24\",\"fd00:2::/64\"")
#define NODE2_MOVED NODE("node2", "10.99.0.9", "\"10.88.2.0/24\"")

static int parse(const char *text, struct pl_registry *r, struct pl_err *err)
{
	pl_auto_json *j = NULL;
	int rc = pl_json_parse(text, strlen(text), &j, err);

	pl_registry_init(r);
	return rc < 0 ? rc : pl_registry_parse(j, r, err);
}

static struct pl_addr ip(const char *s)
{
	struct pl_addr a;

	assert_int_equal(pl_addr_parse(s, &a), 0);
	return a;
}

static const char *owner(const struct pl_registry *r, const char *pod)
{
	struct pl_addr a = ip(pod);
	const struct pl_node *n = pl_registry_by_pod(r, &a);

	return n ? n->name : "none";
}

static void lookups(void **state)
{
	struct pl_registry r;
	struct pl_err err = { 0 };
	struct pl_addr a = ip("10.99.0.1");

	(void)state;
	assert_int_equal(parse(FILE_OF(NODE2 "," NODE1), &r, &err), 0);
	assert_int_equal(r.n, 2);
	assert_string_equal(pl_registry_by_name(&r, "node1")->name, "node1");
	assert_int_equal(pl_registry_by_name(&r, "node2")->port,
			 PL_NODE_PORT_DEFAULT);
	assert_null(pl_registry_by_name(&r, "node3"));
	assert_null(pl_registry_by_name(&r, "node"));
	assert_string_equal(pl_registry_by_address(&r, &a)->name, "node1");
	a = ip("10.88.1.1");
	assert_null(pl_registry_by_address(&r, &a));
	assert_string_equal(owner(&r, "10.88.1.0"), "node1");
	assert_string_equal(owner(&r, "10.88.1.255"), "node1");
	assert_string_equal(owner(&r, "10.88.2.0"), "node2");
	assert_string_equal(owner(&r, "10.88.3.0"), "none");
	assert_string_equal(owner(&r, "10.88.0.255"), "none");
	assert_string_equal(owner(&r, "0.0.0.0"), "none");
	assert_string_equal(owner(&r, "255.255.255.255"), "none");
	assert_string_equal(owner(&r, "fd00:1::"), "node1");
	assert_string_equal(owner(&r, "fd00:2::ffff:ffff:ffff:ffff"), "node2");
	assert_string_equal(owner(&r, "fd00:3::1"), "none");
	assert_string_equal(owner(&r, "::"), "none");
	pl_registry_fini(&r);
}

static void empty(void **state)
{
	struct pl_registry r;
	struct pl_addr a = ip("10.88.1.1");

	(void)state;
	assert_int_equal(parse(FILE_OF(""), &r, NULL), 0);
	assert_null(pl_registry_by_name(&r, "node1"));
	assert_null(pl_registry_by_pod(&r, &a));
	assert_null(pl_registry_by_address(&r, &a));
	pl_registry_fini(&r);
}

/* Every table of 5000 nodes against a plain search. */
static void large(void **state)
{
	struct pl_registry r;
	struct pl_node n = { .n_cidrs = 1 };
	struct pl_err err = { 0 };

	(void)state;
	pl_registry_init(&r);
	for (int i = 4999; i >= 0; i--) {
		struct pl_addr base = ip("10.100.0.0"), pods = ip("172.16.0.0");

		snprintf(n.name, sizeof(n.name), "n%d", i);
		n.address = pl_addr_add(&base, (uint64_t)i + 1);
		n.cidrs[0].addr = pl_addr_add(&pods, (uint64_t)i * 128);
		n.cidrs[0].len = 26;	/* every second range is free */
		assert_int_equal(pl_registry_add(&r, &n, &err), 0);
	}
	assert_int_equal(pl_registry_seal(&r, &err), 0);
	for (int i = 0; i < 5000; i++) {
		struct pl_addr base = ip("10.100.0.0"), pods = ip("172.16.0.0");
		struct pl_addr a = pl_addr_add(&base, (uint64_t)i + 1);
		struct pl_addr p = pl_addr_add(&pods, (uint64_t)i * 128 + 63);
		struct pl_addr q = pl_addr_add(&pods, (uint64_t)i * 128 + 64);
		char name[16];

		snprintf(name, sizeof(name), "n%d", i);
		assert_string_equal(pl_registry_by_name(&r, name)->name, name);
		assert_string_equal(pl_registry_by_address(&r, &a)->name,
				    name);
		assert_string_equal(pl_registry_by_pod(&r, &p)->name, name);
		assert_null(pl_registry_by_pod(&r, &q));
	}
	pl_registry_fini(&r);
}

static const struct {
	const char *text, *says[3];
} bad[] = {
	{ "[]", { "must be an object" } },
	{ "{}", { "nodes is missing" } },
	{ "{\"nodes\":{}}", { "nodes", "a list" } },
	{ "{\"nodes\":[],\"node\":1}", { "node is no known key" } },
	{ "{\"nodes\":[1]}", { "nodes[0]" } },
	{ "{\"nodes\":[{}]}", { "nodes[0].name is missing" } },
	{ "{\"nodes\":[{\"name\":1}]}", { "nodes[0].name", "a string" } },
	{ "{\"nodes\":[{\"name\":\"x\"}]}", { "(x).address is missing" } },
	{ "{\"nodes\":[{\"name\":\"x\",\"address\":\"10.0.0.1\"}]}",
	  { "(x).podCIDRs is missing" } },
	{ "{\"nodes\":[{\"name\":\"x\",\"address\":\"10.0.0.1\","
	  "\"podCIDRs\":[],\"port\":0}]}", { "(x).port" } },
	{ "{\"nodes\":[{\"name\":\"x\",\"address\":\"10.0.0.1\","
	  "\"podCIDRs\":[],\"port\":65536}]}", { "(x).port" } },
	{ "{\"nodes\":[{\"name\":\"x\",\"podCidrs\":[]}]}",
	  { "(x)", "podCidrs is no known key" } },
	{ FILE_OF(NODE("", "10.0.0.1", "")), { "name" } },
	{ FILE_OF(NODE("-x", "10.0.0.1", "")), { "name", "-x" } },
	{ FILE_OF(NODE("a/b", "10.0.0.1", "")), { "name", "a/b" } },
	{ FILE_OF(NODE("x", "10.0.0", "")), { "(x).address", "10.0.0" } },
	{ FILE_OF(NODE("x", "0.0.0.0", "")), { "x", "address" } },
	{ FILE_OF(NODE("x", "224.0.0.1", "")), { "x", "address" } },
	{ FILE_OF(NODE("x", "fe80::1", "")), { "x", "address" } },
	{ FILE_OF(NODE("x", "ff02::1", "")), { "x", "address" } },
	{ FILE_OF(NODE("x", "10.0.0.1", "1")), { "(x).podCIDRs[0]" } },
	{ FILE_OF(NODE("x", "10.0.0.1", "\"10.1.0.0\"")),
	  { "(x).podCIDRs[0]", "10.1.0.0" } },
	{ FILE_OF(NODE("x", "10.0.0.1", "\"10.1.0.0/33\"")),
	  { "(x).podCIDRs[0]", "10.1.0.0/33" } },
	{ FILE_OF(NODE("x", "10.0.0.1", "\"10.1.0.1/24\"")),
	  { "node x", "podCIDRs", "host bits; write 10.1.0.0/24" } },
	{ FILE_OF(NODE("x", "10.0.0.1", "\"0.0.0.0/0\"")), { "podCIDRs" } },
	{ FILE_OF(NODE("x", "10.0.0.1", "\"192.0.0.0/2\"")), { "unicast" } },
	{ FILE_OF(NODE("x", "10.0.0.1",
		       "\"10.1.0.0/24\",\"10.2.0.0/24\",\"10.3.0.0/24\","
		       "\"10.4.0.0/24\",\"10.5.0.0/24\",\"10.6.0.0/24\","
		       "\"10.7.0.0/24\",\"10.8.0.0/24\",\"10.9.0.0/24\"")),
	  { "(x).podCIDRs", "more than 8" } },
	{ FILE_OF(NODE1 "," NODE("node1", "10.99.0.3", "")),
	  { "node1", "name", "twice" } },
	{ FILE_OF(NODE1 "," NODE("node3", "10.99.0.1", "")),
	  { "node1", "node3", "address" } },
	{ FILE_OF(NODE1 "," NODE("node3", "10.99.0.3", "\"10.88.0.0/16\"")),
	  { "node1", "node3", "overlaps" } },
	{ FILE_OF(NODE1 "," NODE("node3", "10.99.0.3", "\"10.88.1.64/26\"")),
	  { "node1", "node3", "podCIDRs" } },
	{ FILE_OF(NODE1 "," NODE("node3", "10.99.0.3", "\"fd00:1::/64\"")),
	  { "node1", "node3", "podCIDRs" } },
	{ FILE_OF(NODE("x", "10.0.0.1", "\"10.1.0.0/16\",\"10.1.2.0/24\"")),
	  { "node x", "overlaps" } },
};

static void bad_files(void **state)
{
	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++) {
		struct pl_registry r;
		struct pl_err err = { 0 };
		int rc = parse(bad[i].text, &r, &err);

		if (rc != -EINVAL && rc != -EEXIST)
			fail_msg("%s: %d", bad[i].text, rc);
		assert_int_equal(err.code, -rc);
		for (int k = 0; k < 3 && bad[i].says[k]; k++)
			if (!strstr(err.msg, bad[i].says[k]))
				fail_msg("%s: '%s' lacks '%s'", bad[i].text,
					 err.msg, bad[i].says[k]);
		pl_registry_fini(&r);
	}
}

static void equality(void **state)
{
	struct pl_registry a, b;

	(void)state;
	assert_int_equal(parse(FILE_OF(NODE1 "," NODE2), &a, NULL), 0);
	assert_int_equal(parse(FILE_OF(NODE2 "," NODE1), &b, NULL), 0);
	assert_true(pl_registry_equal(&a, &b));
	b.nodes[0].port++;
	assert_false(pl_registry_equal(&a, &b));
	pl_registry_fini(&b);
	assert_int_equal(parse(FILE_OF(NODE1 "," NODE2_MOVED), &b, NULL), 0);
	assert_false(pl_registry_equal(&a, &b));
	pl_registry_fini(&a);
	pl_registry_fini(&b);
}

/* --- the watch --- */

struct watch {
	char dir[64], path[96];
	struct event_base *base;
	struct pl_registry_file *file;
	int calls;
	size_t was, now;
};

static void changed(const struct pl_registry *was,
		    const struct pl_registry *now, void *arg)
{
	struct watch *w = arg;

	w->calls++;
	w->was = was->n;
	w->now = now->n;
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(pl_write_all(fd, text, strlen(text)), 0);
	close(fd);
}

static void replace(struct watch *w, const char *text)
{
	char tmp[128];

	snprintf(tmp, sizeof(tmp), "%s.new", w->path);
	put(tmp, text);
	assert_int_equal(rename(tmp, w->path), 0);
}

/* Until there were that many calls, at most for 10 s. */
static int run_until(struct watch *w, int calls)
{
	struct timeval tick = { 0, 50000 };

	for (int i = 0; i < 200 && w->calls < calls; i++) {
		event_base_loopexit(w->base, &tick);
		event_base_dispatch(w->base);
	}
	return w->calls;
}

/* Until the file's problem is (or is not) there, at most for 10 s. */
static bool run_problem(struct watch *w, bool there)
{
	struct timeval tick = { 0, 50000 };

	for (int i = 0; i < 200; i++) {
		if ((*pl_registry_file_problem(w->file) != '\0') == there)
			return true;
		event_base_loopexit(w->base, &tick);
		event_base_dispatch(w->base);
	}
	return false;
}

static int setup(void **state)
{
	struct watch *w = calloc(1, sizeof(*w));
	struct pl_err err = { 0 };

	snprintf(w->dir, sizeof(w->dir), "/tmp/podlane-unit.XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	snprintf(w->path, sizeof(w->path), "%s/nodes.json", w->dir);
	put(w->path, FILE_OF(NODE1));
	w->base = event_base_new();
	assert_int_equal(pl_registry_file_open(w->base, w->path, changed, w,
					       &w->file, &err), 0);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct watch *w = *state;
	char cmd[128];

	pl_registry_file_close(w->file);
	event_base_free(w->base);
	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", w->dir);
	assert_int_equal(system(cmd), 0);
	free(w);
	return 0;
}

static void by_rename(void **state)
{
	struct watch *w = *state;

	assert_int_equal(pl_registry_file_table(w->file)->n, 1);
	replace(w, FILE_OF(NODE1 "," NODE2));
	assert_int_equal(run_until(w, 1), 1);
	assert_int_equal(w->was, 1);
	assert_int_equal(w->now, 2);
	assert_int_equal(pl_registry_file_table(w->file)->n, 2);
	replace(w, FILE_OF(NODE1));
	assert_int_equal(run_until(w, 2), 2);
	assert_int_equal(w->now, 1);
}

static void in_place(void **state)
{
	struct watch *w = *state;

	put(w->path, FILE_OF(NODE1 "," NODE2));
	assert_int_equal(run_until(w, 1), 1);
	assert_int_equal(w->now, 2);
	put(w->path, FILE_OF(NODE1 "," NODE2_MOVED));
	assert_int_equal(run_until(w, 2), 2);
}

static void broken_keeps(void **state)
{
	struct watch *w = *state;

	replace(w, "{\"nodes\":");
	assert_true(run_problem(w, true));
	assert_non_null(strstr(pl_registry_file_problem(w->file), w->path));
	assert_int_equal(w->calls, 0);
	assert_int_equal(pl_registry_file_table(w->file)->n, 1);
	/* As before: good again, and nothing to tell. */
	replace(w, FILE_OF(NODE1));
	assert_true(run_problem(w, false));
	assert_int_equal(w->calls, 0);
	assert_int_equal(unlink(w->path), 0);
	assert_true(run_problem(w, true));
	put(w->path, FILE_OF(NODE1 "," NODE2));
	assert_int_equal(run_until(w, 1), 1);
	assert_int_equal(w->now, 2);
}

static void other_files(void **state)
{
	struct watch *w = *state;
	char other[128];

	snprintf(other, sizeof(other), "%s/other.json", w->dir);
	put(other, FILE_OF(""));
	replace(w, FILE_OF(NODE1 "," NODE2));
	assert_int_equal(run_until(w, 1), 1);
	assert_int_equal(w->now, 2);
}

/* As kubelet mounts a ConfigMap: FILE -> ..data/FILE, ..data -> a folder. */
static void config_map(void **state)
{
	struct watch *w = *state;
	char a[128], b[128], data[128], tmp[128];

	snprintf(a, sizeof(a), "%s/..1", w->dir);
	snprintf(b, sizeof(b), "%s/..2", w->dir);
	snprintf(data, sizeof(data), "%s/..data", w->dir);
	snprintf(tmp, sizeof(tmp), "%s/..data_tmp", w->dir);
	assert_int_equal(mkdir(a, 0755), 0);
	assert_int_equal(mkdir(b, 0755), 0);
	strncat(a, "/nodes.json", sizeof(a) - strlen(a) - 1);
	strncat(b, "/nodes.json", sizeof(b) - strlen(b) - 1);
	put(a, FILE_OF(NODE1 "," NODE2));
	put(b, FILE_OF(""));
	assert_int_equal(symlink("..1", data), 0);
	assert_int_equal(unlink(w->path), 0);
	assert_int_equal(symlink("..data/nodes.json", w->path), 0);
	assert_int_equal(run_until(w, 1), 1);
	assert_int_equal(w->now, 2);
	assert_int_equal(symlink("..2", tmp), 0);
	assert_int_equal(rename(tmp, data), 0);
	assert_int_equal(run_until(w, 2), 2);
	assert_int_equal(w->now, 0);
	/* And what the link points to, from another folder's side. */
	put(b, FILE_OF(NODE1));
	assert_int_equal(run_until(w, 3), 3);
	assert_int_equal(w->now, 1);
}

static void folder_replaced(void **state)
{
	struct watch *w = *state;

	assert_int_equal(unlink(w->path), 0);
	assert_int_equal(rmdir(w->dir), 0);
	assert_true(run_problem(w, true));
	assert_int_equal(mkdir(w->dir, 0755), 0);
	put(w->path, FILE_OF(NODE1 "," NODE2));
	assert_int_equal(run_until(w, 1), 1);
	assert_int_equal(w->now, 2);
}

static void bad_at_start(void **state)
{
	struct watch *w = *state;
	struct pl_registry_file *f = NULL;
	struct pl_err err = { 0 };
	char no[128];

	snprintf(no, sizeof(no), "%s/none.json", w->dir);
	assert_int_equal(pl_registry_file_open(w->base, no, changed, w, &f,
					       &err), -ENOENT);
	assert_non_null(strstr(err.msg, no));
	put(no, "{\"nodes\":[{\"name\":\"x\"}]}");
	assert_int_equal(pl_registry_file_open(w->base, no, changed, w, &f,
					       &err), -EINVAL);
	assert_non_null(strstr(err.msg, no));
	assert_non_null(strstr(err.msg, "(x).address"));
	snprintf(no, sizeof(no), "%s/no/folder.json", w->dir);
	assert_int_equal(pl_registry_file_open(w->base, no, changed, w, &f,
					       &err), -ENOENT);
	assert_null(f);
}

#define WATCH(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lookups),   cmocka_unit_test(empty),
		cmocka_unit_test(large),     cmocka_unit_test(bad_files),
		cmocka_unit_test(equality),  WATCH(by_rename),
		WATCH(in_place),	     WATCH(broken_keeps),
		WATCH(other_files),	     WATCH(config_map),
		WATCH(folder_replaced),	     WATCH(bad_at_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
