/*
 * bench/lane_idle.c - lanes that do nothing, and lanes that are made
 *
 * Idle: each lane carries one message both ways, and then none does anything
 * for a while. What they take is the growth of a process's resident memory, of
 * the machine's shared memory, and the CPU time of the while.
 */
#include "bench/lane_perf.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "common/util.h"
#include "bench/lane_link.h"
#include "bench/ps_machine.h"
#include "bench/ps_stats.h"

/* --- idle ----------------------------------------------------------------- */

static double resident(void)
{
	return (double)ps_machine_bytes_of("/proc/self/status", "VmRSS:");
}

static double shared(void)
{
	return (double)ps_machine_bytes_of("/proc/meminfo", "Shmem:");
}

static double cpu_ns(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e9 +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e3;
}

/* A message over each lane, both ways. */
static int touch(const struct lp_ends *e)
{
	char m[8] = "touched";
	int rc = 0;

	for (unsigned int i = 0; rc == 0 && i < e->n; i++) {
		if (!e->job->is_server)
			rc = lp_send(&e->end[i], m, sizeof(m));
		if (rc == 0)
			rc = lp_recv(&e->end[i], m, sizeof(m));
		if (rc == 0 && e->job->is_server)
			rc = lp_send(&e->end[i], m, sizeof(m));
	}
	return rc;
}

/* The client sleeps, the server waits for a word from it. */
static int idle(const struct lp_ends *e)
{
	const struct timespec ts = { .tv_sec = e->job->ms / 1000,
				     .tv_nsec = e->job->ms % 1000 * 1000000 };
	char m[8] = "the end";

	if (e->job->is_server)
		return lp_recv(&e->end[0], m, sizeof(m));
	nanosleep(&ts, NULL);
	return 0;
}

static void idle_row(cJSON *rows, const struct lp_ends *e, double rss,
		     double shm, double cpu)
{
	cJSON *row = cJSON_CreateObject();

	cJSON_AddNumberToObject(row, "lanes", e->n);
	cJSON_AddNumberToObject(row, "resident_bytes_per_lane", rss / e->n);
	cJSON_AddNumberToObject(row, "shared_bytes_per_lane", shm / e->n);
	cJSON_AddNumberToObject(row, "cpu_ns", cpu);
	cJSON_AddNumberToObject(row, "ms", e->job->ms);
	cJSON_AddStringToObject(row, "path", e->end[0].path);
	cJSON_AddItemToArray(rows, row);
}

int lp_idle_run(const struct lp_job *j, cJSON *rows, struct pl_err *err)
{
	double rss, shm = shared(), cpu = 0;
	struct lp_ends e;
	int rc;

	rc = lp_ends_init(j, &e, err);
	rss = resident();
	while (rc == 0 && e.n < j->lanes)
		rc = j->is_server ? lp_end_accept(&e, err) :
				    lp_end_connect(&e, err);
	if (rc == 0)
		rc = lp_told(touch(&e), err);
	if (rc == 0) {
		rss = resident() - rss;
		shm = shared() - shm;
		cpu = cpu_ns();
		rc = lp_told(idle(&e), err);
		cpu = cpu_ns() - cpu;
	}
	if (rc == 0)
		idle_row(rows, &e, rss, shm, cpu);
	if (rc == 0 && !j->is_server)
		rc = lp_told(lp_send(&e.end[0], "the end", 8), err);
	lp_ends_close(&e);
	return rc;
}

/* --- made ----------------------------------------------------------------- */

/* Warm-up: the server has to come, and neighbours to be found. */
static int connect_all(struct lp_ends *e, unsigned int n, double *ns,
		       struct pl_err *err)
{
	int rc = lp_end_connect(e, err);

	for (unsigned int i = 0; rc == 0; i++) {
		uint64_t at;

		lp_end_close(&e->end[--e->n]);
		if (i == n)
			break;
		at = pl_now_ns();
		rc = lp_end_connect(e, err);
		ns[i] = (double)(pl_now_ns() - at);
	}
	return rc;
}

/* How many is in j->lanes. */
int lp_connect_run(const struct lp_job *j, cJSON *rows, struct pl_err *err)
{
	double *ns = calloc(j->lanes, sizeof(*ns));
	cJSON *row = cJSON_CreateObject();
	struct lp_ends e;
	int rc = lp_ends_init(j, &e, err);

	cJSON_AddItemToArray(rows, row);
	if (rc == 0 && !ns)
		rc = pl_err_set(err, ENOMEM, "out of memory");
	for (unsigned int i = 0; rc == 0 && j->is_server && i <= j->lanes;
	     i++) {
		rc = lp_end_accept(&e, err);
		if (rc == 0)
			lp_end_close(&e.end[--e.n]);
	}
	if (rc == 0 && !j->is_server) {
		rc = connect_all(&e, j->lanes, ns, err);
		cJSON_AddNumberToObject(row, "count", j->lanes);
		cJSON_AddNumberToObject(row, "p50_ns",
					ps_quantile(ns, j->lanes, 0.5));
		cJSON_AddNumberToObject(row, "p99_ns",
					ps_quantile(ns, j->lanes, 0.99));
	}
	lp_ends_close(&e);
	free(ns);
	return rc;
}
