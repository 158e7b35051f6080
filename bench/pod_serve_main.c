/* bench/pod_serve_main.c - pod_serve: inference over the pod network */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/process.h"
#include "common/util.h"
#include "bench/serve.h"

static const struct {
	const char *name;
	int (*main)(int argc, char **argv);
} commands[] = {
	{ "compare", sv_compare_main },
	{ "server", sv_server_main },
	{ "client", sv_client_main },
};

int main(int argc, char **argv)
{
	struct pl_err err = { .code = 0 };

	/* A peer that has gone is an error of the call that writes to it. */
	signal(SIGPIPE, SIG_IGN);
	if (pl_process_init(&err) < 0)
		return 1;
	for (size_t i = 0; argc > 1 && i < PL_ARRAY_SIZE(commands); i++)
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].main(argc - 1, argv + 1);
	if (argc > 1 && (!strcmp(argv[1], "--help"))) {
		sv_opts_usage(stdout);
		return 0;
	}
	sv_opts_usage(stderr);
	return 2;
}
