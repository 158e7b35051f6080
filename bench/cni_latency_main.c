/*
 * bench/cni_latency_main.c - how long ADD and DEL take: podlane beside bridge
 *
 * The process itself becomes a node with a network namespace of its own. The
 * two contestants take turns, round by round, each time with a fresh pod; what
 * one leaves running is waited for before the other starts. After each command
 * the pod is looked at, so a plugin that does nothing is not fast but wrong.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "bench/cni_node.h"
#include "bench/cni_run.h"
#include "common/json.h"
#include "common/util.h"

#define IFNAME "eth0"
#define WARMUP 3
#define ROUNDS_MAX 500
#define GOAL 5.0

enum { PODLANE, REFERENCE, CONTESTANTS };
/* SETTLED: DEL, and all that the plugin left to be done behind it. */
enum { ADD, DEL, TOTAL, SETTLED, TIMES };

struct options {
	unsigned int rounds;
	char podlane[4096];	/* folder */
	char reference[4096];	/* folder */
	char agent[4096];	/* program, or "none" */
	const char *json;	/* file, NULL: none */
};

struct bench {
	struct options o;
	struct cni_node node;
	struct cni_exec exec[CONTESTANTS];
	struct cni_pod *pods;			/* all of them */
	pid_t *known;				/* and the agent */
	size_t n_known;
	double *ms[CONTESTANTS][TIMES];		/* one per round */
	char paths[CONTESTANTS][4096], confs[CONTESTANTS][2048];
	char cni_path[CONTESTANTS][4096];
};

static const char *const names[CONTESTANTS] = {
	[PODLANE] = "podlane",
	[REFERENCE] = "bridge + host-local",
};

/* --- options --- */

static const struct help {
	const char *name, *arg, *text;
	int key;
} helps[] = {
	{ "rounds", "N", "pairs of ADD and DEL per plugin (50, at most 500)",
	  'n' },
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
			(int)(15 - strlen(helps[i].name)),
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

static int read_options(int argc, char **argv, struct options *o,
			struct pl_err *err)
{
	struct option longs[PL_ARRAY_SIZE(helps) + 1] = { { 0 } };
	uint64_t n = 50;
	int key;

	for (size_t i = 0; i < PL_ARRAY_SIZE(helps); i++)
		longs[i] = (struct option){ helps[i].name,
					    helps[i].arg != NULL, NULL,
					    helps[i].key };
	beside("plugin", "/podlane", "/opt/cni/bin", o->podlane,
	       sizeof(o->podlane));
	beside("daemonset/podlaned", "", "/usr/sbin/podlaned", o->agent,
	       sizeof(o->agent));
	pl_format(o->reference, sizeof(o->reference), "/usr/lib/cni");
	while ((key = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		int rc = 0;

		switch (key) {
		case 'n':
			if (pl_parse_u64(optarg, 1, ROUNDS_MAX, &n) < 0)
				return pl_err_set(err, EINVAL, "--rounds must "
						  "be 1 to %d", ROUNDS_MAX);
			break;
		case 'p':
			rc = pl_format(o->podlane, sizeof(o->podlane), "%s",
				       optarg);
			break;
		case 'r':
			rc = pl_format(o->reference, sizeof(o->reference),
				       "%s", optarg);
			break;
		case 'a':
			rc = pl_format(o->agent, sizeof(o->agent), "%s",
				       optarg);
			break;
		case 'j':
			o->json = optarg;
			break;
		case 'h':
			usage(stdout);
			return 1;
		default:
			return pl_err_set(err, EINVAL, "see --help");
		}
		if (rc < 0)
			return pl_err_set(err, -rc, "%s is too long", optarg);
	}
	o->rounds = (unsigned int)n;
	if (optind < argc)
		return pl_err_set(err, EINVAL, "\"%s\" is no option; see "
				  "--help", argv[optind]);
	return 0;
}

/* --- contestants --- */

static int configure(struct bench *b, struct pl_err *err)
{
	const char *dir[CONTESTANTS] = { b->o.podlane, b->o.reference };
	const char *plugin[CONTESTANTS] = { "podlane", "bridge" };
	const char *policy = b->node.agent ? "required" : "optional";
	int n[2];

	n[0] = snprintf(b->confs[PODLANE], sizeof(b->confs[PODLANE]),
		"{\"cniVersion\":\"1.0.0\",\"name\":\"podlane\","
		"\"type\":\"podlane\",\"bridge\":\"podlane0\","
		"\"isGateway\":true,\"agentPolicy\":\"%s\","
		"\"agentSocket\":\"%s/run/agent.sock\",\"stateDir\":\"%s/cni\","
		"\"ipam\":{\"type\":\"podlane-ipam\",\"dataDir\":\"%s/ipam\","
		"\"ranges\":[[{\"subnet\":\"10.88.0.0/16\"}]],"
		"\"routes\":[{\"dst\":\"0.0.0.0/0\"}]}}",
		policy, b->node.dir, b->node.dir, b->node.dir);
	n[1] = snprintf(b->confs[REFERENCE], sizeof(b->confs[REFERENCE]),
		"{\"cniVersion\":\"1.0.0\",\"name\":\"reference\","
		"\"type\":\"bridge\",\"bridge\":\"reference0\","
		"\"isGateway\":true,"
		"\"ipam\":{\"type\":\"host-local\",\"dataDir\":\"%s/hl\","
		"\"ranges\":[[{\"subnet\":\"10.89.0.0/16\"}]],"
		"\"routes\":[{\"dst\":\"0.0.0.0/0\"}]}}", b->node.dir);
	if ((size_t)n[0] >= sizeof(b->confs[0]) ||
	    (size_t)n[1] >= sizeof(b->confs[1]))
		return pl_err_set(err, ENAMETOOLONG, "paths are too long");
	for (int i = 0; i < CONTESTANTS; i++) {
		if (pl_format(b->paths[i], sizeof(b->paths[i]), "%s/%s", dir[i],
			      plugin[i]) < 0 || access(b->paths[i], X_OK) < 0)
			return pl_err_set(err, ENOENT, "there is no %s (%s)",
					  b->paths[i], i == REFERENCE ?
					  "apt-get install containernetworking-"
					  "plugins, or --reference DIR" :
					  "give its folder by --plugins");
		b->exec[i] = (struct cni_exec){ .plugin = b->paths[i],
						.cni_path = dir[i],
						.ifname = IFNAME,
						.conf = b->confs[i] };
	}
	return 0;
}

static double *slot(struct bench *b, int who, int what, unsigned int round)
{
	return &b->ms[who][what][round];
}

/* round: counts from 0; warm-up rounds are below 0 and leave no figures. */
static int one(struct bench *b, int who, int round, struct cni_pod *pod,
	       struct pl_err *err)
{
	pl_auto_free char *result = NULL;
	struct cni_exec e = b->exec[who];
	uint64_t add, del, start;
	char id[64];
	double ms[TIMES];
	int rc;

	snprintf(id, sizeof(id), "pod%d", round + WARMUP);
	e.id = id;
	rc = cni_exec(&e, "ADD", pod, &add, &result, err);
	if (rc == 0)
		rc = cni_verify_added(pod, IFNAME, result, err);
	start = pl_now_ns();
	if (rc == 0)
		rc = cni_exec(&e, "DEL", pod, &del, NULL, err);
	if (rc == 0)
		rc = cni_verify_deleted(pod, IFNAME, err);
	if (rc == 0)
		rc = cni_settle(b->known, b->n_known, err);
	if (rc < 0 || round < 0)
		return rc;
	ms[ADD] = (double)add / 1e6;
	ms[DEL] = (double)del / 1e6;
	ms[TOTAL] = ms[ADD] + ms[DEL];
	ms[SETTLED] = (double)(pl_now_ns() - start) / 1e6;
	for (int i = 0; i < TIMES; i++)
		*slot(b, who, i, (unsigned int)round) = ms[i];
	return 0;
}

static int interrupted(struct pl_err *err)
{
	sigset_t pending;

	sigpending(&pending);
	if (!sigismember(&pending, SIGINT) && !sigismember(&pending, SIGTERM))
		return 0;
	return pl_err_set(err, EINTR, "interrupted");
}

/* All namespaces are there before the first command is timed. */
static int make_pods(struct bench *b, struct pl_err *err)
{
	size_t n = (b->o.rounds + WARMUP) * CONTESTANTS;
	int rc = 0;

	b->pods = calloc(n, sizeof(*b->pods));
	b->known = calloc(n + 1, sizeof(*b->known));
	for (int i = 0; i < CONTESTANTS; i++)
		for (int k = 0; k < TIMES; k++) {
			b->ms[i][k] = calloc(b->o.rounds, sizeof(double));
			if (!b->ms[i][k])
				return pl_err_set(err, ENOMEM, "out of memory");
		}
	if (!b->pods || !b->known)
		return pl_err_set(err, ENOMEM, "out of memory");
	b->known[b->n_known++] = b->node.agent;
	for (size_t i = 0; rc == 0 && i < n; i++) {
		rc = interrupted(err);
		if (rc == 0)
			rc = cni_pod_create(&b->pods[i], err);
		if (rc == 0)
			b->known[b->n_known++] = b->pods[i].pid;
	}
	return rc;
}

static int measure(struct bench *b, struct pl_err *err)
{
	struct cni_pod *pod = b->pods;
	int rc = 0;

	for (int i = -WARMUP; i < (int)b->o.rounds; i++) {
		/* Who starts changes, too. */
		for (int k = 0; rc == 0 && k < CONTESTANTS; k++)
			rc = one(b, (i & 1) ? CONTESTANTS - 1 - k : k, i, pod++,
				 err);
		if (rc == 0)
			rc = interrupted(err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* --- figures --- */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts. */
static double percentile(double *v, unsigned int n, double p)
{
	qsort(v, n, sizeof(*v), by_value);
	return v[(unsigned int)(p * (n - 1) + 0.5)];
}

/* The median of the rounds' own ratios; before anything is sorted. */
static double speedup(struct bench *b)
{
	double r[ROUNDS_MAX];

	for (unsigned int i = 0; i < b->o.rounds; i++)
		r[i] = *slot(b, REFERENCE, TOTAL, i) /
		       *slot(b, PODLANE, TOTAL, i);
	return percentile(r, b->o.rounds, 0.5);
}

static const struct {
	const char *title, *key;
} columns[TIMES] = {
	[ADD] = { "ADD", "add_ms" },
	[DEL] = { "DEL", "del_ms" },
	[TOTAL] = { "ADD + DEL", "add_del_ms" },
	[SETTLED] = { "DEL, settled", "del_settled_ms" },
};

static void print_table(struct bench *b, double ratio)
{
	printf("%-20s", "milliseconds");
	for (int k = 0; k < TIMES; k++)
		printf("  %14s", columns[k].title);
	printf("\n%-20s", "");
	for (int k = 0; k < TIMES; k++)
		printf("  %6s  %6s", "median", "p99");
	printf("\n");
	for (int i = CONTESTANTS - 1; i >= 0; i--) {
		printf("%-20s", names[i]);
		for (int k = 0; k < TIMES; k++)
			printf("  %6.2f  %6.2f",
			       percentile(b->ms[i][k], b->o.rounds, 0.5),
			       percentile(b->ms[i][k], b->o.rounds, 0.99));
		printf("\n");
	}
	printf("\nADD + DEL: podlane is %.2f times as fast (median of %u "
	       "rounds; the goal is %.0f)%s\n", ratio, b->o.rounds, GOAL,
	       b->node.agent ? "" : ", without an agent");
	printf("settled: and until no process of the plugin is left, which "
	       "nobody waits for\n");
}

static cJSON *figures(struct bench *b, int who)
{
	cJSON *j = cJSON_CreateObject();

	cJSON_AddStringToObject(j, "plugin", names[who]);
	for (int k = 0; k < TIMES; k++) {
		cJSON *t = cJSON_AddObjectToObject(j, columns[k].key);
		double *v = b->ms[who][k];

		cJSON_AddNumberToObject(t, "p50",
					percentile(v, b->o.rounds, 0.5));
		cJSON_AddNumberToObject(t, "p99",
					percentile(v, b->o.rounds, 0.99));
	}
	return j;
}

static int write_json(struct bench *b, double ratio, struct pl_err *err)
{
	pl_auto_json *j = cJSON_CreateObject();
	pl_auto_free char *text = NULL;
	struct utsname u;
	cJSON *m;

	if (!b->o.json)
		return 0;
	uname(&u);
	cJSON_AddStringToObject(j, "version", PL_VERSION);
	m = cJSON_AddObjectToObject(j, "machine");
	cJSON_AddStringToObject(m, "kernel", u.release);
	cJSON_AddStringToObject(m, "arch", u.machine);
	cJSON_AddNumberToObject(m, "cpus",
				(double)sysconf(_SC_NPROCESSORS_ONLN));
	cJSON_AddNumberToObject(j, "rounds", b->o.rounds);
	cJSON_AddBoolToObject(j, "agent", b->node.agent != 0);
	m = cJSON_AddArrayToObject(j, "results");
	for (int i = 0; i < CONTESTANTS; i++)
		cJSON_AddItemToArray(m, figures(b, i));
	cJSON_AddNumberToObject(j, "speedup", ratio);
	cJSON_AddNumberToObject(j, "goal", GOAL);
	text = cJSON_Print(j);
	if (!text)
		return pl_err_set(err, ENOMEM, "out of memory");
	return pl_file_replace(b->o.json, text, strlen(text), 0644, err);
}

/* --- main --- */

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

static void clean_up(struct bench *b)
{
	size_t n = b->pods ? (b->o.rounds + WARMUP) * CONTESTANTS : 0;

	for (size_t i = 0; i < n; i++)
		cni_pod_destroy(&b->pods[i]);
	for (int i = 0; i < CONTESTANTS; i++)
		for (int k = 0; k < TIMES; k++)
			free(b->ms[i][k]);
	free(b->pods);
	free(b->known);
	cni_node_fini(&b->node);
}

static int bench_run(struct bench *b, struct pl_err *err)
{
	double ratio;
	int rc = prepare(err);

	if (rc == 0)
		rc = cni_node_init(&b->node, err);
	if (rc == 0 && strcmp(b->o.agent, "none"))
		rc = cni_node_agent(&b->node, b->o.agent, err);
	if (rc == 0)
		rc = configure(b, err);
	if (rc == 0)
		rc = make_pods(b, err);
	if (rc == 0)
		rc = measure(b, err);
	if (rc < 0)
		return rc;
	ratio = speedup(b);
	print_table(b, ratio);
	return write_json(b, ratio, err);
}

int main(int argc, char **argv)
{
	struct bench *b = calloc(1, sizeof(*b));
	struct pl_err err = { 0 };
	int rc;

	if (!b)
		return 1;
	rc = read_options(argc, argv, &b->o, &err);
	if (rc == 0) {
		rc = bench_run(b, &err);
		clean_up(b);
	}
	free(b);
	if (rc < 0)
		fprintf(stderr, "cni_latency: %s\n", err.msg);
	return rc < 0;
}
