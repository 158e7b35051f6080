/* tests/unit/test_bench_options.c - options of ps_throughput, greetings */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "bench/ps_job.h"

static int parse(enum ps_cmd cmd, struct ps_opts *o, struct pl_err *err,
		 const char *const *args)
{
	char *argv[16] = { (char *)"x" };
	int argc = 1;

	while (*args)
		argv[argc++] = (char *)*args++;
	return ps_opts_parse(cmd, argc, argv, o, err);
}

#define ARGS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void lists_and_defaults(void **state)
{
	struct pl_err err = { .code = 0 };
	struct ps_opts o;

	(void)state;
	assert_int_equal(parse(PS_CMD_COMPARE, &o, &err, ARGS("--model",
			 "vgg16,resnet50", "--placement=same-node",
			 "--transport", "podlane", "--steps", "7")), 0);
	assert_int_equal(o.n_models, 2);
	assert_string_equal(o.models[1]->name, "resnet50");
	assert_int_equal(o.placements, PS_SAME_NODE);
	assert_int_equal(o.transports, PS_PODLANE);
	assert_int_equal(o.steps, 7);
	assert_int_equal(o.workers, 2);
	assert_int_equal(o.repeat, 5);
	assert_int_equal(o.report_fd, -1);
}

static void matrix(void **state)
{
	struct pl_err err = { .code = 0 };
	struct ps_opts o;

	(void)state;
	assert_int_equal(parse(PS_CMD_MATRIX, &o, &err, ARGS(NULL)), 0);
	assert_int_equal(o.n_models, PS_MODELS_PUBLISHED);
	assert_int_equal(o.minutes, 15);
	assert_int_equal(o.repeat, 1);
	assert_int_equal(parse(PS_CMD_MATRIX, &o, &err, ARGS("--model",
			 "vgg16", "--csv", "x")), 0);
	assert_int_equal(o.n_models, 1);
	assert_string_equal(o.csv, "x");
	assert_int_equal(parse(PS_CMD_WORKER, &o, &err, ARGS("--csv", "x")),
			 -EINVAL);
}

static void roles(void **state)
{
	struct pl_err err = { .code = 0 };
	struct ps_opts o;

	(void)state;
	assert_int_equal(parse(PS_CMD_WORKER, &o, &err, ARGS("--transport",
			 "overlay", "--server", "10.0.0.1,fd00::1",
			 "--servers", "2", "--rank", "1", "--local",
			 "10.0.0.3,10.0.0.4", "--node-rank", "1", "--async",
			 "--report", "3")), 0);
	assert_int_equal(o.server.n, 2);
	assert_string_equal(o.server.text[1], "fd00::1");
	assert_int_equal(o.local.n, 2);
	assert_true(o.async);
	assert_int_equal(o.report_fd, 3);
}

static void names_of_ranks(void **state)
{
	struct pl_err err = { .code = 0 };
	struct ps_opts o;

	(void)state;
	assert_int_equal(parse(PS_CMD_WORKER, &o, &err, ARGS("--transport",
			 "overlay", "--server", "s-%.ps", "--servers", "3",
			 "--peers", "w-%", "--local", "%w")), 0);
	assert_int_equal(o.server.n, 3);
	assert_string_equal(o.server.text[0], "s-0.ps");
	assert_string_equal(o.server.text[2], "s-2.ps");
	assert_int_equal(o.peers.n, 2);
	assert_string_equal(o.local.text[1], "1w");
}

static void roles_read_the_environment(void **state)
{
	struct pl_err err = { .code = 0 };
	struct ps_opts o;

	(void)state;
	setenv("PS_OPT_TRANSPORT", "overlay", 1);
	setenv("PS_OPT_SERVER", "ps", 1);
	setenv("PS_OPT_WORKERS", "5", 1);
	setenv("PS_OPT_STEPS", "", 1);
	setenv("PS_OPT_ASYNC", "1", 1);
	setenv("PS_OPT_RAW", "0", 1);
	setenv("PS_OPT_NODE_NAME", "n1", 1);
	assert_int_equal(parse(PS_CMD_WORKER, &o, &err,
			       ARGS("--workers", "4")), 0);
	assert_int_equal(o.transports, PS_OVERLAY);
	assert_string_equal(o.server.text[0], "ps");
	assert_int_equal(o.workers, 4);
	assert_int_equal(o.steps, 10);
	assert_true(o.async);
	assert_false(o.raw);
	assert_string_equal(o.node_name, "n1");
	setenv("PS_OPT_ASYNC", "yes", 1);
	assert_int_equal(parse(PS_CMD_WORKER, &o, &err, ARGS(NULL)), -EINVAL);
	assert_non_null(strstr(err.msg, "PS_OPT_ASYNC=yes: give 0 or 1"));
	/* A cluster's roles have what their command gives them. */
	assert_int_equal(parse(PS_CMD_COMPARE, &o, &err, ARGS(NULL)), 0);
	assert_int_equal(o.workers, 2);
	assert_null(getenv("PS_OPT_ASYNC"));
}

static void bad_input_is_named(void **state)
{
	static const struct {
		enum ps_cmd cmd;
		const char *args[6], *says;
	} bad[] = {
		{ PS_CMD_COMPARE, { "--model", "lenet" },
		  "unknown model 'lenet'" },
		{ PS_CMD_COMPARE, { "--model", "vgg16,vgg16" }, "twice" },
		{ PS_CMD_COMPARE, { "--model", "vgg16," }, "empty" },
		{ PS_CMD_COMPARE, { "--model", "vgg16", "--tensors", "/x" },
		  "not both" },
		{ PS_CMD_COMPARE, { "--placement", "moon" }, "'moon'" },
		{ PS_CMD_COMPARE, { "--variable-update", "tree" }, "'tree'" },
		{ PS_CMD_COMPARE, { "--frob" }, "unknown option '--frob'" },
		{ PS_CMD_COMPARE, { "--rank", "1" }, "unknown option" },
		{ PS_CMD_COMPARE, { "--steps", "0" }, "--steps 0" },
		{ PS_CMD_COMPARE, { "--steps", "9x" }, "--steps 9x" },
		{ PS_CMD_COMPARE, { "--steps" }, "needs a value" },
		{ PS_CMD_COMPARE, { "--sync=1" }, "takes no value" },
		{ PS_CMD_COMPARE, { "vgg16" }, "unexpected argument" },
		{ PS_CMD_COMPARE, { "--steps", "1000000" }, "not exact" },
		{ PS_CMD_COMPARE, { "--congestion-control=" }, "is empty" },
		{ PS_CMD_COMPARE, { "--congestion-control=re no" },
		  "no name" },
		{ PS_CMD_COMPARE, { "--congestion-control",
		  "0123456789abcdef" }, "no name" },
		{ PS_CMD_WORKER, { "--congestion-control=reno" },
		  "unknown option" },
		{ PS_CMD_WORKER, { "--transport", "overlay" }, "--server" },
		{ PS_CMD_WORKER, { "--transport", "overlay", "--server",
		  "10.0.0.256" }, "'10.0.0.256' is no IP address and no name" },
		{ PS_CMD_WORKER, { "--server", "a..b" }, "'a..b'" },
		{ PS_CMD_WORKER, { "--server", "a b" }, "'a b'" },
		{ PS_CMD_WORKER, { "--server", "s-%-%.ps" }, "one % in it" },
		{ PS_CMD_WORKER, { "--peers", "w-%,w-1" }, "one name with" },
		{ PS_CMD_SERVER, { "--transport", "overlay", "--rank", "1" },
		  "--rank 1" },
		{ PS_CMD_SERVER, { "--port", "70000" }, "--port 70000" },
	};
	struct pl_err err;
	struct ps_opts o;
	size_t i;

	(void)state;
	for (i = 0; i < PL_ARRAY_SIZE(bad); i++) {
		pl_err_clear(&err);
		assert_int_equal(parse(bad[i].cmd, &o, &err, bad[i].args),
				 -EINVAL);
		if (!strstr(err.msg, bad[i].says))
			fail_msg("'%s' lacks '%s'", err.msg, bad[i].says);
	}
}

static void hello_is_checked(void **state)
{
	bool seen[PS_WORKERS_MAX] = { false };
	struct pl_err err = { .code = 0 };
	struct ps_job server, worker;
	struct ps_hello h;
	struct ps_opts o;

	(void)state;
	assert_int_equal(parse(PS_CMD_SERVER, &o, &err,
			       ARGS("--transport", "overlay")), 0);
	assert_int_equal(ps_job_init(&server, &o, &err), 0);
	o.rank = 1;
	assert_int_equal(ps_job_init(&worker, &o, &err), 0);
	ps_hello_make(&worker, 0, &h);
	assert_int_equal(ps_hello_check(&server, &h, seen, &err), 0);
	assert_true(seen[1]);
	assert_int_equal(ps_hello_check(&server, &h, seen, &err), -EEXIST);
	h.rank = 2;
	assert_int_equal(ps_hello_check(&server, &h, seen, &err), -EINVAL);
	h.rank = 0;
	h.steps++;
	assert_int_equal(ps_hello_check(&server, &h, seen, &err), -EINVAL);
	h.steps--;
	memset(h.model, 'x', sizeof(h.model));
	assert_int_equal(ps_hello_check(&server, &h, seen, &err), -EINVAL);
	h.magic++;
	assert_int_equal(ps_hello_check(&server, &h, seen, &err), -EPROTO);
	assert_false(seen[0]);
	ps_job_fini(&server);
	ps_job_fini(&worker);
}

static void refusals_travel(void **state)
{
	struct pl_err err = { .code = 0 };
	struct ps_welcome w;

	(void)state;
	ps_welcome_make(&err, &w);
	assert_int_equal(ps_welcome_check(&w, &err), 0);
	pl_err_set(&err, EEXIST, "there are two");
	ps_welcome_make(&err, &w);
	pl_err_clear(&err);
	assert_int_equal(ps_welcome_check(&w, &err), -EEXIST);
	assert_non_null(strstr(err.msg, "there are two"));
	w.magic = 0;
	assert_int_equal(ps_welcome_check(&w, &err), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_and_defaults),
		cmocka_unit_test(matrix),
		cmocka_unit_test(roles),
		cmocka_unit_test(names_of_ranks),
		cmocka_unit_test(roles_read_the_environment),
		cmocka_unit_test(bad_input_is_named),
		cmocka_unit_test(hello_is_checked),
		cmocka_unit_test(refusals_travel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
