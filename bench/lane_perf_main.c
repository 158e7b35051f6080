/*
 * bench/lane_perf_main.c - lane_perf: how fast lanes are, and what others do
 *
 * Signals are blocked and looked at between and within the measurements, so
 * that everything that was made is undone whenever they come.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>

#include "common/json.h"
#include "common/util.h"
#include "bench/gnuplot.h"
#include "bench/lane_bench.h"

#define EXIT_USAGE 2
#define EXIT_SIGNALLED 130
#define TICK_MS 50

/* --- before --- */

static int check_output(const char *option, const char *path,
			struct pl_err *err)
{
	char dir[PS_FILE_BYTES];
	char *slash;

	if (!path)
		return 0;
	if (pl_format(dir, sizeof(dir), "%s", path) < 0)
		return pl_err_set(err, ENAMETOOLONG, "%s: path too long",
				  option);
	slash = strrchr(dir, '/');
	if (slash == dir)
		slash++;
	if (slash)
		*slash = '\0';
	if (access(slash ? dir : ".", W_OK | X_OK) < 0)
		return pl_err_sys(err, "%s %s: cannot write there", option,
				  path);
	return 0;
}

static int check_all(struct lp_bench *b, struct pl_err *err)
{
	const struct ps_opts programs = { .cni_bin = b->o.cni_bin,
					  .podlaned = b->o.podlaned };
	int rc = 0;

	if (geteuid() != 0)
		rc = pl_err_set(err, EPERM, "lane_perf makes network "
				"namespaces and needs root; try: sudo "
				"lane_perf");
	if (rc == 0)
		rc = check_output("--json", b->o.json, err);
	if (rc == 0)
		rc = check_output("--plot", b->o.plot, err);
	if (rc == 0 && b->o.plot)
		rc = gnuplot_check(err);
	return rc < 0 ? rc : ps_programs_find(&b->cluster.programs, &programs,
					      err);
}

static int watch_signals(struct ps_watch *w, struct pl_err *err)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	w->tick_ms = TICK_MS;
	w->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return w->signal_fd < 0 ? pl_err_sys(err, "signalfd") : 0;
}

/* --- the run --- */

static int add_pods(struct lp_bench *b, struct pl_err *err)
{
	struct ps_cluster *c = &b->cluster;
	int rc = ps_cluster_pod_add(c, 2, "far", &b->far, err);

	for (unsigned int i = 0; i < LP_PAIRS && rc == 0; i++) {
		char name[PS_CHILD_NAME];

		snprintf(name, sizeof(name), "client%u", i);
		rc = ps_cluster_pod_add(c, 1, name, &b->client[i], err);
		snprintf(name, sizeof(name), "server%u", i);
		if (rc == 0)
			rc = ps_cluster_pod_add(c, 1, name, &b->server[i],
						err);
	}
	if (rc == 0)
		rc = ps_cluster_congestion(c, b->machine.congestion,
					   sizeof(b->machine.congestion), err);
	return rc;
}

/* Positive: bars that are missed. */
static int run(struct lp_bench *b, struct pl_err *err)
{
	unsigned int missed;
	int rc = ps_cluster_init(&b->cluster, b->o.run_dir, &b->watch, err);

	if (rc == 0)
		rc = add_pods(b, err);
	if (rc == 0)
		rc = lp_bench_run(b, err);
	if (rc < 0)
		return rc;
	lp_head_add(b);
	missed = lp_bars_add(b);
	lp_table(b, stdout);
	if (b->o.json)
		rc = pl_json_save(b->o.json, b->doc, 0644, err);
	if (rc == 0 && b->o.plot)
		rc = lp_plot_write(b, b->o.plot, err);
	return rc < 0 ? rc : (int)missed;
}

static int bench_main(struct lp_bench *b, struct pl_err *err)
{
	int rc = check_all(b, err), r;

	if (rc == 0)
		rc = watch_signals(&b->watch, err);
	if (rc < 0)
		return rc;
	ps_machine_probe(&b->machine);
	b->cluster.congestion = b->o.congestion;
	b->doc = cJSON_CreateObject();
	rc = b->doc ? run(b, err) : pl_err_set(err, ENOMEM, "out of memory");
	cJSON_Delete(b->doc);
	r = ps_cluster_fini(&b->cluster, rc < 0 ? NULL : err);
	pl_close_fd(&b->watch.signal_fd);
	return rc < 0 ? rc : r < 0 ? r : rc;
}

int main(int argc, char **argv)
{
	struct pl_err err = { .code = 0 };
	struct lp_bench *b;
	int rc;

	/* A peer that has gone is an error of the call that writes to it. */
	signal(SIGPIPE, SIG_IGN);
	if (argc > 1 && !strcmp(argv[1], "role"))
		return lp_role_main(argc - 1, argv + 1);
	/* The children are /proc/self/exe: that is no name. */
	prctl(PR_SET_NAME, "lane_perf");
	b = calloc(1, sizeof(*b));
	rc = b ? lp_opts_parse(argc, argv, &b->o, &err) :
		 pl_err_set(&err, ENOMEM, "out of memory");
	if (rc) {
		if (rc < 0)
			fprintf(stderr, "lane_perf: %s\n", err.msg);
		free(b);
		return rc < 0 ? EXIT_USAGE : 0;
	}
	rc = bench_main(b, &err);
	if (rc < 0)
		fprintf(stderr, "lane_perf: %s\n", err.msg);
	rc = rc == -EINTR ? EXIT_SIGNALLED : rc < 0 || (rc && b->o.check);
	free(b);
	return rc;
}
