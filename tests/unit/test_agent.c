/*
 * tests/unit/test_agent.c - options, configuration, registrations and tables
 * of the agent
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/fdpass.h"
#include "common/json.h"
#include "common/util.h"
#include "daemonset/agent.h"
#include "daemonset/client.h"
#include "daemonset/ctl_table.h"
#include "daemonset/guard.h"
#include "daemonset/opts.h"
#include "daemonset/pod.h"

/* --- options -------------------------------------------------------------- */

struct given {
	const char *file;
	int loud;
};

static int set_file(void *conf, const char *value, struct pl_err *err)
{
	if (!*value)
		return pl_err_set(err, EINVAL, "empty");
	((struct given *)conf)->file = value;
	return 0;
}

static int set_loud(void *conf, const char *value, struct pl_err *err)
{
	(void)err;
	assert_null(value);
	((struct given *)conf)->loud++;
	return 0;
}

static const struct pl_opt table[] = {
	{ "file", 'f', "FILE", "a file", set_file },
	{ "loud", 0, NULL, "a flag", set_loud },
};

static int parse(struct given *g, bool *help, struct pl_err *err,
		 const char *words)
{
	static char buf[128];
	char *argv[16], *save = NULL;
	int argc = 0;

	snprintf(buf, sizeof(buf), "prog %s", words);
	for (char *w = strtok_r(buf, " ", &save); w;
	     w = strtok_r(NULL, " ", &save))
		argv[argc++] = w;
	argv[argc] = NULL;
	*g = (struct given){ 0 };
	return pl_opts_parse(table, 2, argc, argv, g, help, err);
}

static void options(void **state)
{
	struct pl_err err;
	struct given g;
	bool help;

	(void)state;
	assert_int_equal(parse(&g, &help, &err, ""), 1);
	assert_int_equal(parse(&g, &help, &err, "--file x --loud y"), 4);
	assert_string_equal(g.file, "x");
	assert_int_equal(g.loud, 1);
	assert_int_equal(parse(&g, &help, &err, "--file=x=y"), 2);
	assert_string_equal(g.file, "x=y");
	assert_int_equal(parse(&g, &help, &err, "-f x -fy --loud"), 5);
	assert_string_equal(g.file, "y");
	assert_int_equal(parse(&g, &help, &err, "-- --loud"), 2);
	assert_int_equal(g.loud, 0);
	assert_int_equal(parse(&g, &help, &err, "- x"), 1);
	assert_int_equal(parse(&g, &help, &err, "--loud --help --file"), 2);
	assert_true(help);
}

static void wrong_options(void **state)
{
	struct pl_err err;
	struct given g;
	bool help;

	(void)state;
	assert_int_equal(parse(&g, &help, &err, "--fil x"), -EINVAL);
	assert_non_null(strstr(err.msg, "--fil"));
	assert_int_equal(parse(&g, &help, &err, "--files x"), -EINVAL);
	assert_int_equal(parse(&g, &help, &err, "-l"), -EINVAL);
	assert_int_equal(parse(&g, &help, &err, "--file"), -EINVAL);
	assert_non_null(strstr(err.msg, "FILE"));
	assert_int_equal(parse(&g, &help, &err, "--loud=1"), -EINVAL);
	assert_int_equal(parse(&g, &help, &err, "--file="), -EINVAL);
}

/* --- configuration -------------------------------------------------------- */

static int load(const char *text, struct pl_agent_conf *c, struct pl_err *err)
{
	char path[] = "/tmp/test_agent.XXXXXX";
	int fd = mkstemp(path), rc;

	assert_true(fd >= 0);
	assert_int_equal(pl_write_all(fd, text, strlen(text)), 0);
	close(fd);
	pl_agent_conf_default(c);
	rc = pl_agent_conf_load(path, c, err);
	unlink(path);
	return rc;
}

static void conf_defaults(void **state)
{
	struct pl_agent_conf *c = test_malloc(sizeof(*c));
	struct pl_err err;

	(void)state;
	assert_int_equal(load("{}", c, &err), 0);
	assert_string_equal(c->registry_file, "");
	assert_string_equal(c->policy_file, "");
	assert_int_equal(c->peer_ms, 10000);
	assert_int_equal(c->overlay.type, PL_OVERLAY_NONE);
	assert_string_equal(c->carrier, "auto");
	assert_string_equal(c->device, "");
	assert_int_equal(c->gid_index, PL_AGENT_GID_ANY);
	assert_int_equal(c->port, 0);
	assert_true(c->limits.lanes > 0 && c->limits.bytes > 0);
	assert_int_equal(c->security, PL_SECURITY_UNSET);
	assert_true(c->encrypt);
	assert_int_equal(load("{\"registry\":{}}", c, &err), 0);
	assert_int_equal(load("{\"registry\":{\"file\":\"/r\"},"
			      "\"carrier\":{\"security\":\"none\"}}", c, &err),
			 0);
	assert_int_equal(c->security, PL_SECURITY_NONE);
	assert_int_equal(c->overlay.type, PL_OVERLAY_VXLAN);
	test_free(c);
}

static void conf_all(void **state)
{
	struct pl_agent_conf *c = test_malloc(sizeof(*c));
	struct pl_err err;

	(void)state;
	assert_int_equal(load("{\"registry\":{\"file\":\"/r\"},"
			      "\"policy\":{\"file\":\"/p\"},"
			      "\"stateDir\":\"/s\",\"logLevel\":\"debug\","
			      "\"overlay\":{\"type\":\"vxlan\",\"vni\":7},"
			      "\"carrier\":{\"type\":\"tcp\",\"port\":99,"
			      "\"security\":\"tls\",\"encrypt\":false,"
			      "\"ca\":\"/ca\",\"cert\":\"/cert\","
			      "\"key\":\"/key\","
			      "\"connections\":3,\"peerTimeout\":1.5,"
			      "\"device\":\"mlx5_1\",\"devicePort\":2,"
			      "\"gidIndex\":0},"
			      "\"limits\":{\"connections\":1,\"listeners\":2,"
			      "\"lanes\":3,\"regions\":4,"
			      "\"bytes\":4503599627370496}}", c, &err), 0);
	assert_string_equal(c->registry_file, "/r");
	assert_string_equal(c->policy_file, "/p");
	assert_int_equal(c->peer_ms, 1500);
	assert_string_equal(c->state_dir, "/s");
	assert_int_equal(c->log_level, PL_LOG_DEBUG);
	assert_int_equal(c->overlay.vni, 7);
	assert_int_equal(c->port, 99);
	assert_int_equal(c->connections, 3);
	assert_string_equal(c->device, "mlx5_1");
	assert_int_equal(c->device_port, 2);
	assert_int_equal(c->gid_index, 0);
	assert_int_equal(c->security, PL_SECURITY_TLS);
	assert_false(c->encrypt);
	assert_string_equal(c->ca, "/ca");
	assert_string_equal(c->cert, "/cert");
	assert_string_equal(c->key, "/key");
	assert_int_equal(c->limits.connections, 1);
	assert_int_equal(c->limits.listeners, 2);
	assert_int_equal(c->limits.lanes, 3);
	assert_int_equal(c->limits.regions, 4);
	assert_true(c->limits.bytes == UINT64_C(1) << 52);
	assert_false(c->checksum);
	assert_int_equal(load("{\"checksum\":true}", c, &err), 0);
	assert_true(c->checksum);
	test_free(c);
}

#define SECURITY(text) "{\"carrier\":{\"security\":" text "}}"
static void conf_wrong(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "{", "not valid JSON" },
		{ "3", "JSON object" },
		{ "{\"registry\":\"/r\"}", "registry must be an object" },
		{ "{\"registry\":{\"file\":\"r\"}}", "not 'r'" },
		{ "{\"stateDir\":[]}", "stateDir" },
		{ "{\"checksum\":1}", "checksum" },
		{ "{\"policy\":{\"file\":\"p\"}}", "not 'p'" },
		{ "{\"carrier\":{\"peerTimeout\":0}}", "peerTimeout" },
		{ "{\"logLevel\":\"x\"}", "not 'x'" },
		{ "{\"carrier\":{\"type\":\"x\"}}", "not 'x'" },
		{ "{\"carrier\":{\"port\":0}}", "carrier.port" },
		{ "{\"carrier\":{\"port\":1.5}}", "1.5" },
		{ "{\"carrier\":{\"connections\":9}}",
		  "carrier.connections must be a whole number from 0 to 8" },
		{ "{\"carrier\":{\"device\":\"/dev/x\"}}", "mlx5_0" },
		{ "{\"carrier\":{\"device\":\"\"}}", "carrier.device" },
		{ "{\"carrier\":{\"devicePort\":1}}",
		  "devicePort needs carrier.device" },
		{ "{\"carrier\":{\"gidIndex\":0}}",
		  "gidIndex needs carrier.device" },
		{ "{\"registry\":{\"file\":\"/r\",\"eventSeconds\":5}}",
		  "registry.eventSeconds needs registry.type" },
		{ "{\"registry\":{\"file\":\"/r\","
		  "\"serviceAccount\":\"/s\"}}",
		  "registry.serviceAccount needs registry.type" },
		{ "{\"registry\":{\"podCIDRs\":true}}",
		  "registry.podCIDRs needs registry.type" },
		{ "{\"registry\":{\"file\":\"/r\"}}",
		  "carrier.security is missing: how do agents know" },
		{ SECURITY("\"x\""), "\"tls\", \"psk\" or \"none\", not 'x'" },
		{ SECURITY("1"), "carrier.security must be" },
		{ SECURITY("\"psk\""), "\"psk\" needs carrier.key: the path" },
		{ SECURITY("\"tls\",\"cert\":\"/c\",\"key\":\"/k\""),
		  "needs carrier.ca: the path of certificates of the" },
		{ SECURITY("\"tls\",\"ca\":\"/c\",\"key\":\"/k\""),
		  "needs carrier.cert: the path of this node's" },
		{ SECURITY("\"tls\",\"ca\":\"/c\",\"cert\":\"/c\""),
		  "needs carrier.key" },
		{ SECURITY("\"psk\",\"key\":\"k\""), "not 'k'" },
		{ SECURITY("\"psk\",\"key\":\"/k\",\"ca\":\"/c\""),
		  "carrier.ca has no use with carrier.security \"psk\"" },
		{ SECURITY("\"none\",\"key\":\"/k\""),
		  "carrier.key has no use with carrier.security \"none\"" },
		{ SECURITY("\"none\",\"encrypt\":true"),
		  "carrier.encrypt has no use" },
		{ SECURITY("\"psk\",\"key\":\"/k\",\"encrypt\":1"),
		  "carrier.encrypt must be true or false" },
		{ "{\"limits\":{\"connections\":0}}", "limits.connections" },
		{ "{\"limits\":{\"lanes\":\"1\"}}", "limits.lanes" },
		{ "{\"limits\":{\"bytes\":-1}}", "limits.bytes" },
		{ "{\"overlay\":{\"type\":\"vxlan\"}}", "registry.file" },
		{ "{\"overlay\":{\"type\":\"x\"}}", "overlay.type" },
	};
	struct pl_agent_conf *c = test_malloc(sizeof(*c));

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
		struct pl_err err = { 0 };

		assert_true(load(cases[i].text, c, &err) < 0);
		if (!strstr(err.msg, cases[i].says))
			fail_msg("%s: %s", cases[i].text, err.msg);
	}
	test_free(c);
}

/* --- registrations -------------------------------------------------------- */

static int reg(const char *text, struct pl_reg *r, struct pl_err *err)
{
	pl_auto_json *j = NULL;

	assert_int_equal(pl_json_parse(text, strlen(text), &j, err), 0);
	return pl_reg_parse(j, r, err);
}

#define NAMES "\"network\":\"n\",\"containerID\":\"c\",\"ifname\":\"eth0\""

static void registrations(void **state)
{
	struct pl_reg r, again;
	pl_auto_json *j = NULL;
	struct pl_err err;

	(void)state;
	assert_int_equal(reg("{" NAMES ",\"netns\":\"/x\","
			     "\"addresses\":[\"10.0.0.1/24\",\"fd00::1/64\"],"
			     "\"pod\":{\"name\":\"p\",\"namespace\":\"s\","
			     "\"uid\":\"u\"}}", &r, &err), 0);
	assert_string_equal(r.key, "n@c@eth0");
	assert_int_equal(r.n_addrs, 2);
	assert_int_equal(r.addrs[1].addr.family, AF_INET6);
	j = pl_reg_json(&r);
	assert_int_equal(pl_reg_parse(j, &again, &err), 0);
	assert_memory_equal(&r, &again, sizeof(r));
	assert_true(r.memory_limit == UINT64_MAX);
	cJSON_Delete(j);
	assert_int_equal(reg("{" NAMES ",\"netns\":\"/x\","
			     "\"memoryLimit\":4096}", &r, &err), 0);
	assert_int_equal(r.memory_limit, 4096);
	j = pl_reg_json(&r);
	assert_int_equal(pl_reg_parse(j, &again, &err), 0);
	assert_memory_equal(&r, &again, sizeof(r));
	assert_int_equal(reg("{" NAMES ",\"netns\":\"/x\"}", &r, &err), 0);
	assert_int_equal(r.n_addrs, 0);
	assert_string_equal(r.pod_ns, "");
}

static void wrong_registrations(void **state)
{
	static const char *const cases[] = {
		"{}",
		"{" NAMES "}",
		"{" NAMES ",\"netns\":\"x\"}",
		"{" NAMES ",\"netns\":\"/x\\n\"}",
		"{" NAMES ",\"netns\":\"/x\",\"addresses\":\"10.0.0.1/8\"}",
		"{" NAMES ",\"netns\":\"/x\",\"addresses\":[\"10.0.0.1\"]}",
		"{" NAMES ",\"netns\":\"/x\",\"addresses\":[1]}",
		"{" NAMES ",\"netns\":\"/x\",\"pod\":7}",
		"{" NAMES ",\"netns\":\"/x\",\"memoryLimit\":-1}",
		"{" NAMES ",\"netns\":\"/x\",\"memoryLimit\":\"1\"}",
		"{" NAMES ",\"netns\":\"/x\",\"pod\":{\"name\":\"a\\u0001\"}}",
		"{\"network\":\"../n\",\"containerID\":\"c\","
		"\"ifname\":\"eth0\",\"netns\":\"/x\"}",
		"{\"network\":\"n\",\"containerID\":\"c/d\","
		"\"ifname\":\"eth0\",\"netns\":\"/x\"}",
		"{\"network\":\"n\",\"containerID\":\"c\","
		"\"ifname\":\"..\",\"netns\":\"/x\"}",
		"{\"network\":\"n\",\"containerID\":\"c\","
		"\"ifname\":\"a/b\",\"netns\":\"/x\"}",
		"{\"network\":\"n\",\"containerID\":\"c\","
		"\"ifname\":\"longer-than-15-bytes\",\"netns\":\"/x\"}",
	};

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
		struct pl_err err = { 0 };
		struct pl_reg r;

		if (reg(cases[i], &r, &err) != -EINVAL || !*err.msg)
			fail_msg("taken: %s", cases[i]);
	}
}

/* --- messages ------------------------------------------------------------- */

static void messages(void **state)
{
	struct pl_msg_ok m = { .h = pl_msg_head(PL_MSG_OK, sizeof(m), 3) };
	char name[PL_WIRE_NAME];

	(void)state;
	assert_string_equal(pl_msg_check(&m, sizeof(m), 1), "");
	assert_string_not_equal(pl_msg_check(&m, sizeof(m), 2), "");
	assert_string_not_equal(pl_msg_check(&m, sizeof(m) - 1, 1), "");
	assert_string_not_equal(pl_msg_check(&m, 3, 1), "");
	m.h.type = PL_MSG_LANE_RESUME;
	assert_string_not_equal(pl_msg_check(&m, sizeof(m), 1), "");
	m.h.type = PL_MSG_OK;
	m.h.magic++;
	assert_string_not_equal(pl_msg_check(&m, sizeof(m), 1), "");
	memset(name, 'a', sizeof(name));
	assert_false(pl_msg_name_ok(name, sizeof(name)));
	name[PL_WIRE_NAME - 1] = '\0';
	assert_true(pl_msg_name_ok(name, sizeof(name)));
	name[0] = '\0';
	assert_false(pl_msg_name_ok(name, sizeof(name)));
	assert_false(pl_msg_name_ok("a b", 4));
	assert_true(pl_msg_name_ok("80", 3));
}

/* --- doorbells ------------------------------------------------------------ */

static int lowest_fd(void)
{
	int fd = dup(0);

	assert_true(fd >= 0);
	close(fd);
	return fd;
}

static void doorbells(void **state)
{
	int fds[2], free_fd, zero = 0;
	struct pl_err err;

	(void)state;
	assert_int_equal(pl_guard_init(&err), 0);
	assert_int_equal(pl_bell_pair(fds, &err), 0);
	assert_int_equal(pl_guard_drain(fds[0]), -EAGAIN);
	assert_int_equal(send(fds[1], "ab", 2, 0), 2);
	assert_int_equal(pl_guard_drain(fds[0]), 2);
	/* Descriptors: refused by the kernel, or taken and closed. */
	free_fd = lowest_fd();
	if (pl_fdpass_send(fds[1], "c", 1, (int[]){ zero, zero, zero }, 3,
			   0) == 0)
		assert_int_equal(pl_guard_drain(fds[0]), 1);
	assert_int_equal(lowest_fd(), free_fd);
	pl_guard_close(&fds[1]);
	assert_int_equal(fds[1], -1);
	assert_int_equal(pl_guard_drain(fds[0]), 0);
	pl_guard_close(&fds[0]);
	pl_guard_close(&fds[0]);
}

/* Takes them even from a socket that does not refuse them. */
static void drain_descriptors(void **state)
{
	int fds[2], free_fd, zero = 0;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	free_fd = lowest_fd();
	for (int i = 0; i < 100; i++) {
		assert_int_equal(pl_fdpass_send(fds[1], "c", 1,
						(int[]){ zero, zero }, 2, 0),
				 0);
		assert_int_equal(pl_guard_drain(fds[0]), 1);
	}
	assert_int_equal(lowest_fd(), free_fd);
	close(fds[0]);
	close(fds[1]);
}

/* --- tables --------------------------------------------------------------- */

static void cell(const char *json, const char *key, enum pl_cell kind,
		 const char *wanted)
{
	const struct pl_column c = { "X", key, kind, NULL };
	char buf[PL_CELL_MAX];
	pl_auto_json *j = cJSON_Parse(json);

	pl_cell_format(j, &c, buf, sizeof(buf));
	assert_string_equal(buf, wanted);
}

static void cells(void **state)
{
	(void)state;
	cell("{\"a\":\"x\"}", "a", PL_CELL_TEXT, "x");
	cell("{\"a\":\"\"}", "a", PL_CELL_TEXT, "-");
	cell("{}", "a", PL_CELL_TEXT, "-");
	cell("{\"a\":{\"b\":\"y\"}}", "a.b", PL_CELL_TEXT, "y");
	cell("{\"a\":[\"x\",\"y\"]}", "a", PL_CELL_TEXT, "x,y");
	cell("{\"a\":true}", "a", PL_CELL_TEXT, "yes");
	cell("{\"a\":7}", "a", PL_CELL_NUMBER, "7");
	cell("{\"a\":9007199254740992}", "a", PL_CELL_NUMBER,
	     "9007199254740992");
	cell("{\"a\":1023}", "a", PL_CELL_BYTES, "1023");
	cell("{\"a\":1536}", "a", PL_CELL_BYTES, "1.5K");
	cell("{\"a\":1073741824}", "a", PL_CELL_BYTES, "1.0G");
	cell("{\"a\":9e18}", "a", PL_CELL_BYTES, "7993.6P");
	cell("{\"a\":\"\\u001b[2J\"}", "a", PL_CELL_TEXT, "?[2J");
}

static void cells_of(void **state)
{
	const struct pl_column n = { "X", "a", PL_CELL_NUMBER, "l.a" };
	const struct pl_column b = { "X", "a", PL_CELL_BYTES, "l.a" };
	pl_auto_json *j = cJSON_Parse("{\"a\":512,\"l\":{\"a\":2048}}");
	pl_auto_json *none = cJSON_Parse("{\"l\":{\"a\":2048}}");
	pl_auto_json *alone = cJSON_Parse("{\"a\":512}");
	char buf[PL_CELL_MAX], small[5];

	(void)state;
	pl_cell_format(j, &n, buf, sizeof(buf));
	assert_string_equal(buf, "512/2048");
	pl_cell_format(j, &b, buf, sizeof(buf));
	assert_string_equal(buf, "512/2.0K");
	pl_cell_format(none, &n, buf, sizeof(buf));
	assert_string_equal(buf, "-");
	pl_cell_format(alone, &n, buf, sizeof(buf));
	assert_string_equal(buf, "512");
	pl_cell_format(j, &n, small, sizeof(small));
	assert_true(strlen(small) < sizeof(small));
}

static void aligned(void **state)
{
	static const struct pl_column columns[] = {
		{ "NAME", "n", PL_CELL_TEXT, NULL },
		{ "BYTES", "b", PL_CELL_NUMBER, NULL },
		{ "END", "e", PL_CELL_TEXT, NULL },
	};
	pl_auto_json *j = cJSON_Parse("[{\"n\":\"longer\",\"b\":5,\"e\":\"z\"},"
				      "{\"n\":\"s\",\"b\":1234567}]");
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	(void)state;
	pl_table_print(f, j, columns, PL_ARRAY_SIZE(columns));
	fclose(f);
	assert_string_equal(text, "NAME      BYTES  END\n"
				  "longer        5  z\n"
				  "s       1234567  -\n");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options),
		cmocka_unit_test(wrong_options),
		cmocka_unit_test(conf_defaults),
		cmocka_unit_test(conf_all),
		cmocka_unit_test(conf_wrong),
		cmocka_unit_test(registrations),
		cmocka_unit_test(wrong_registrations),
		cmocka_unit_test(messages),
		cmocka_unit_test(doorbells),
		cmocka_unit_test(drain_descriptors),
		cmocka_unit_test(cells),
		cmocka_unit_test(cells_of),
		cmocka_unit_test(aligned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
