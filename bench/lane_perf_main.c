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

#include "common/json.h"
#include "common/process.h"
#include "common/util.h"
#include "bench/lane_bench.h"
#include "bench/ps_output.h"

#define EXIT_USAGE 2
#define EXIT_SIGNALLED 130

/* --- before --- */

static int check_all(struct lp_bench *b, struct pl_err *err)
{
	int rc = 0;

	if (geteuid() != 0)
		rc = pl_err_set(err, EPERM, "lane_perf makes network "
				"namespaces and needs root; try: sudo "
				"lane_perf");
	if (rc == 0)
		rc = ps_output_check(b->o.json, NULL, b->o.plot, err);
	return rc < 0 ? rc : ps_programs_find(&b->cluster.programs,
					      b->o.cni_bin, b->o.podlaned,
					      err);
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
		rc = ps_cluster_facts(c, &b->machine, err);
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
		rc = ps_watch_init(&b->watch, err);
	if (rc < 0)
		return rc;
	ps_machine_probe(&b->machine);
	b->cluster.congestion = b->o.congestion;
	b->cluster.security = b->o.security;
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
	if (pl_process_init(&err) < 0)
		return 1;
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
	if (rc >= 0 && pl_stdout_end(&err) < 0)
		rc = -err.code;
	if (rc < 0)
		fprintf(stderr, "lane_perf: %s\n", err.msg);
	rc = rc == -EINTR ? EXIT_SIGNALLED : rc < 0 || (rc && b->o.check);
	free(b);
	return rc;
}
