/* tests/unit/test_kube_node.c - Nodes of the API, and a table of them */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/json.h"
#include "common/log.h"
#include "common/util.h"
#include "daemonset/kube_node.h"

#define NODE(name, addrs, spec, notes)                                       \
	"{\"metadata\":{\"name\":\"" name "\",\"creationTimestamp\":"         \
	"\"2026-01-01T00:00:00Z\",\"annotations\":{" notes "}},\"spec\":{"    \
	spec "},\"status\":{\"addresses\":[" addrs "]}}"
#define IP(a) "{\"type\":\"InternalIP\",\"address\":\"" a "\"}"
#define AT(a) "\"podlane.io/endpoint\":\"" a "\""

static int parse(const char *text, struct pl_kube_node *n)
{
	pl_auto_json *j = cJSON_Parse(text);
	struct pl_err err = { 0 };

	assert_non_null(j);
	return pl_kube_node_parse(j, true, n, &err);
}

static const char *address(const struct pl_kube_node *n)
{
	static char text[INET6_ADDRSTRLEN];

	return pl_addr_str(&n->node.address, text);
}

static void one(void **state)
{
	struct pl_kube_node n;

	(void)state;
	assert_int_equal(parse(NODE("a", "{\"type\":\"Hostname\",\"address\":"
				    "\"10.0.0.9\"}," IP("10.0.0.1") ","
				    IP("fd00::1"), "\"podCIDR\":\"10.1.0.0/24\""
				    ",\"podCIDRs\":[\"10.1.0.0/24\","
				    "\"fd01::/64\"]", AT("10.0.0.1:7999")),
			       &n), 0);
	assert_string_equal(n.node.name, "a");
	assert_string_equal(address(&n), "10.0.0.1");
	assert_int_equal(n.node.port, 7999);
	assert_int_equal(n.node.n_cidrs, 2);
	assert_string_equal(n.created, "2026-01-01T00:00:00Z");

	/* The endpoint says which of the addresses, and nothing else. */
	assert_int_equal(parse(NODE("a", IP("10.0.0.1") "," IP("fd00::1"), "",
				    AT("[fd00::1]:80")), &n), 0);
	assert_string_equal(address(&n), "fd00::1");
	assert_int_equal(n.node.port, 80);
	assert_int_equal(parse(NODE("a", IP("10.0.0.1"), "",
				    AT("10.0.0.2:80")), &n), 0);
	assert_string_equal(address(&n), "10.0.0.1");
	assert_int_equal(n.node.port, 0);

	/* What an older server has. */
	assert_int_equal(parse(NODE("a", IP("10.0.0.1"),
				    "\"podCIDR\":\"10.1.0.0/24\"", ""), &n), 0);
	assert_int_equal(n.node.n_cidrs, 1);
}

static void odd(void **state)
{
	static const char *const endpoints[] = { "", ":", "x", "10.0.0.1",
						 "10.0.0.1:", "10.0.0.1:0",
						 "10.0.0.1:65536", "]:1", "[:1",
						 "[10.0.0.1:5", ":80" };
	struct pl_kube_node n;
	char text[512];

	(void)state;
	assert_int_equal(parse("{}", &n), -EINVAL);
	assert_int_equal(parse("{\"metadata\":7}", &n), -EINVAL);
	assert_int_equal(parse("{\"metadata\":{\"name\":\"\"}}", &n), -EINVAL);
	assert_int_equal(parse(NODE("a", "", "", ""), &n), -ENOENT);
	assert_int_equal(parse(NODE("a", IP("somewhere") ",7,null", "", ""),
			       &n), -ENOENT);
	for (size_t i = 0; i < PL_ARRAY_SIZE(endpoints); i++) {
		snprintf(text, sizeof(text), NODE("a", IP("10.0.0.1"), "",
						  AT("%s")), endpoints[i]);
		assert_int_equal(parse(text, &n), 0);
		assert_int_equal(n.node.port, 0);
		assert_string_equal(address(&n), "10.0.0.1");
	}
}

static void add(struct pl_kube_node **all, const char *name, const char *addr,
		const char *cidr, const char *created)
{
	struct pl_kube_node *n = calloc(1, sizeof(*n));

	pl_format(n->node.name, sizeof(n->node.name), "%s", name);
	pl_format(n->created, sizeof(n->created), "%s", created);
	if (*addr)
		assert_int_equal(pl_addr_parse(addr, &n->node.address), 0);
	if (*cidr) {
		assert_int_equal(pl_prefix_parse(cidr, &n->node.cidrs[0]), 0);
		n->node.n_cidrs = 1;
	}
	HASH_ADD_STR(*all, node.name, n);
}

/* "a b c": the names of the table; frees the nodes. */
static const char *names(struct pl_kube_node *all)
{
	static char text[256];
	struct pl_kube_node *n, *next;
	struct pl_registry r;
	struct pl_err err = { 0 };

	pl_registry_init(&r);
	assert_int_equal(pl_kube_table(all, &r, &err), 0);
	text[0] = '\0';
	for (size_t i = 0; i < r.n; i++) {
		size_t len = strlen(text);

		pl_format(text + len, sizeof(text) - len, "%s%s",
			  i ? " " : "", r.nodes[i].name);
	}
	pl_registry_fini(&r);
	HASH_ITER(hh, all, n, next) {
		HASH_DEL(all, n);
		free(n);
	}
	return text;
}

static void tables(void **state)
{
	struct pl_kube_node *all = NULL;

	(void)state;
	assert_string_equal(names(NULL), "");
	add(&all, "b", "10.0.0.2", "10.1.2.0/24", "2");
	add(&all, "a", "10.0.0.1", "10.1.1.0/24", "1");
	add(&all, "none", "", "10.1.3.0/24", "9");
	add(&all, "lo", "10.0.0.3", "10.1.4.1/24", "9");
	add(&all, "multi", "224.0.0.1", "", "9");
	assert_string_equal(names(all), "a b");

	all = NULL;
	add(&all, "old", "10.0.0.1", "10.1.1.0/24", "1");
	add(&all, "young", "10.0.0.1", "10.1.2.0/24", "2");
	add(&all, "other", "10.0.0.2", "10.1.1.0/24", "0");
	assert_string_equal(names(all), "other young");

	/* One range around many of others. */
	all = NULL;
	add(&all, "wide", "10.0.0.1", "10.1.0.0/16", "1");
	add(&all, "x", "10.0.0.2", "10.1.1.0/24", "2");
	add(&all, "y", "10.0.0.3", "10.1.2.0/24", "3");
	assert_string_equal(names(all), "x y");
	all = NULL;
	add(&all, "wide", "10.0.0.1", "10.1.0.0/16", "4");
	add(&all, "x", "10.0.0.2", "10.1.1.0/24", "2");
	add(&all, "y", "10.0.0.3", "10.1.2.0/24", "3");
	assert_string_equal(names(all), "wide");
}

/* All of them claim the same, which must not take for ever. */
static void many(void **state)
{
	struct pl_kube_node *all = NULL;
	char name[16], created[16];

	(void)state;
	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "n%04d", i);
		snprintf(created, sizeof(created), "%04d", i * 7 % 3000);
		add(&all, name, "10.0.0.1", "10.1.0.0/24", created);
	}
	assert_string_equal(names(all), "n0857");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one), cmocka_unit_test(odd),
		cmocka_unit_test(tables), cmocka_unit_test(many),
	};

	pl_log_init("test", PL_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
