/*
 * bench/cni_latency_main.c - how long ADD and DEL take: podlane beside bridge
 *
 * The process itself becomes a node with a network namespace of its own.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/process.h"
#include "bench/cni_latency.h"
#include "common/util.h"

static const struct help {
	const char *name, *arg, *text;
	int key;
} helps[] = {
	{ "rounds", "N", "pairs of ADD and DEL per plugin (50, at most 500)",
	  'n' },
	{ "reservations", "N", "and so many again beside N reserved addresses "
	  "(4000; 0: not)", 'v' },
	{ "parallel", "N", "and N ADDs at once, for a tenth of the rounds "
	  "(60; 0: not)", 'm' },
	{ "plugins", "DIR", "folder of podlane (beside this program)", 'p' },
	{ "reference", "DIR", "folder of bridge and host-local (/usr/lib/cni)",
	  'r' },
	{ "agent", "FILE", "podlaned to start (beside this program), or none",
	  'a' },
	{ "json", "FILE", "write the figures there, too", 'j' },
	{ "help", NULL, "this text", 'h' },
};

static void usage(FILE *f)
{
	fprintf(f, "usage: cni_latency [OPTION...]\n"
		"Time ADD and DEL of podlane and of the reference plugins.\n");
	for (size_t i = 0; i < PL_ARRAY_SIZE(helps); i++)
		fprintf(f, "  --%s%s%-*s %s\n", helps[i].name,
			helps[i].arg ? " " : "",
			(int)(17 - strlen(helps[i].name)),
			helps[i].arg ? helps[i].arg : "", helps[i].text);
}

/* ../FOLDER/NAME from this program, or else what is installed. */
static void beside(const char *rel, const char *name, const char *installed,
		   char *buf, size_t size)
{
	char exe[2048];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	exe[n < 0 ? 0 : n] = '\0';
	slash = strrchr(exe, '/');
	if (slash) {
		char file[4096];

		*slash = '\0';
		if (pl_format(buf, size, "%s/../%s", exe, rel) > 0 &&
		    pl_format(file, sizeof(file), "%s%s", buf, name) > 0 &&
		    access(file, X_OK) == 0)
			return;
	}
	pl_format(buf, size, "%s", installed);
}

static int set_number(const char *name, uint64_t min, uint64_t max,
		      unsigned int *out, struct pl_err *err)
{
	uint64_t n;

	if (pl_parse_u64(optarg, min, max, &n) < 0)
		return pl_err_set(err, EINVAL, "--%s must be %d to %d", name,
				  (int)min, (int)max);
	*out = (unsigned int)n;
	return 0;
}

static int set_path(char *buf, struct pl_err *err)
{
	if (pl_format(buf, 4096, "%s", optarg) < 0)
		return pl_err_set(err, ENAMETOOLONG, "%s is too long", optarg);
	return 0;
}

static int set_option(int key, struct cni_options *o, struct pl_err *err)
{
	switch (key) {
	case 'n':
		return set_number("rounds", 1, CNI_ROUNDS_MAX, &o->rounds,
				  err);
	case 'v':
		return set_number("reservations", 0, CNI_RESERVED_MAX,
				  &o->reserved, err);
	case 'm':
		return set_number("parallel", 0, CNI_PARALLEL_MAX,
				  &o->parallel, err);
	case 'p':
		return set_path(o->podlane, err);
	case 'r':
		return set_path(o->reference, err);
	case 'a':
		return set_path(o->agent, err);
	case 'j':
		o->json = optarg;
		return 0;
	case 'h':
		usage(stdout);
		return 1;
	default:
		return pl_err_set(err, EINVAL, "see --help");
	}
}

static int read_options(int argc, char **argv, struct cni_options *o,
			struct pl_err *err)
{
	struct option longs[PL_ARRAY_SIZE(helps) + 1] = { { 0 } };
	int key, rc = 0;

	for (size_t i = 0; i < PL_ARRAY_SIZE(helps); i++)
		longs[i] = (struct option){ helps[i].name,
					    helps[i].arg != NULL, NULL,
					    helps[i].key };
	o->rounds = 50;
	o->reserved = 4000;
	o->parallel = 60;
	beside("plugin", "/podlane", "/opt/cni/bin", o->podlane,
	       sizeof(o->podlane));
	beside("daemonset/podlaned", "", "/usr/sbin/podlaned", o->agent,
	       sizeof(o->agent));
	pl_format(o->reference, sizeof(o->reference), "/usr/lib/cni");
	while (rc == 0 &&
	       (key = getopt_long(argc, argv, "", longs, NULL)) != -1)
		rc = set_option(key, o, err);
	if (rc == 0 && optind < argc)
		return pl_err_set(err, EINVAL, "\"%s\" is no option; see "
				  "--help", argv[optind]);
	return rc;
}

static int prepare(struct pl_err *err)
{
	sigset_t sigs;

	sigemptyset(&sigs);
	sigaddset(&sigs, SIGINT);
	sigaddset(&sigs, SIGTERM);
	sigprocmask(SIG_BLOCK, &sigs, NULL);
	if (geteuid() != 0)
		return pl_err_set(err, EPERM, "run it as root: it makes network "
				  "namespaces");
	return cni_adopt(err);
}

static int bench_run(struct cni_bench *b, struct pl_err *err)
{
	int rc = prepare(err);

	if (rc == 0)
		rc = cni_node_init(&b->node, err);
	if (rc == 0 && strcmp(b->o.agent, "none"))
		rc = cni_node_agent(&b->node, b->o.agent, err);
	if (rc == 0)
		rc = cni_contest_run(b, err);
	return rc < 0 ? rc : cni_figures(b, err);
}

int main(int argc, char **argv)
{
	struct cni_bench *b = calloc(1, sizeof(*b));
	struct pl_err err = { 0 };
	int rc;

	if (!b || pl_process_init(&err) < 0)
		return 1;
	rc = read_options(argc, argv, &b->o, &err);
	if (rc == 0) {
		rc = bench_run(b, &err);
		cni_contest_fini(b);
		cni_node_fini(&b->node);
	}
	free(b);
	if (rc >= 0)
		rc = pl_stdout_end(&err);
	if (rc < 0)
		fprintf(stderr, "cni_latency: %s\n", err.msg);
	return rc < 0;
}
