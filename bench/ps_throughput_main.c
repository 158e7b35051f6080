/*
 * bench/ps_throughput_main.c - the commands of ps_throughput
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "common/process.h"
#include "common/util.h"
#include "bench/ps_compare.h"
#include "bench/ps_role.h"
#include "bench/ps_train.h"

struct command {
	const char *name;
	int (*main)(int argc, char **argv);
	const char *help;	/* NULL: for compare's own use */
};

static const struct command commands[] = {
	{ "compare", ps_compare_main,
	  "overlay and Podlane side by side, on this machine" },
	{ "matrix", ps_matrix_main,
	  "all models, strategies and transports, in 15 minutes" },
	{ "reproduce", ps_reproduce_main,
	  "published facts beside what is measured here" },
	{ "train", ps_train_main,
	  "how long until a model has learned, over each transport" },
	{ "server", ps_server_main, "be a parameter server in this pod" },
	{ "worker", ps_worker_main, "be a worker in this pod" },
	{ "raw-recv", ps_raw_recv_main, NULL },
	{ "raw-send", ps_raw_send_main, NULL },
};

static void usage(FILE *out)
{
	size_t i;

	fprintf(out, "usage: ps_throughput COMMAND [OPTION...]\n");
	for (i = 0; i < PL_ARRAY_SIZE(commands); i++) {
		if (commands[i].help)
			fprintf(out, "  %-9s %s\n", commands[i].name,
				commands[i].help);
	}
	fprintf(out, "Options: ps_throughput COMMAND --help\n");
}

static int run(int argc, char **argv)
{
	size_t i;

	for (i = 0; i < PL_ARRAY_SIZE(commands); i++) {
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].main(argc - 1, argv + 1);
	}
	fprintf(stderr, "ps_throughput: unknown command '%s', see "
		"ps_throughput --help\n", argv[1]);
	return 2;
}

int main(int argc, char **argv)
{
	struct pl_err err;
	int rc;

	/* compare starts the roles by /proc/self/exe: that is no name. */
	prctl(PR_SET_NAME, "ps_throughput");
	/* A peer that has gone is an error of the call that writes to it. */
	signal(SIGPIPE, SIG_IGN);
	if (pl_process_init(&err) < 0)
		return 1;
	if (argc < 2) {
		usage(stderr);
		return 2;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		usage(stdout);
		return 0;
	}
	if (!strcmp(argv[1], "--version")) {
		printf("ps_throughput %s\n", PL_VERSION);
		return 0;
	}
	rc = run(argc, argv);
	if (pl_stdout_end(&err) < 0 && rc == 0) {
		fprintf(stderr, "ps_throughput: %s\n", err.msg);
		rc = 1;
	}
	return rc;
}
