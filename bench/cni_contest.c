/*
 * bench/cni_contest.c - podlane and the reference plugins in turn
 *
 * The contestants take turns, round by round; what one leaves running is waited
 * for before the other starts. After each command the pod is looked at, so a
 * plugin that does nothing is not fast but wrong.
 */
#include "bench/cni_latency.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/nl.h"
#include "common/util.h"

#define IFNAME "eth0"
#define WARMUP 3
/* Many at once take long, and vary little. */
#define PARALLEL_SHARE 10
#define ID_BYTES 64

const char *const cni_names[CNI_CONTESTANTS] = {
	[CNI_PODLANE] = "podlane",
	[CNI_REFERENCE] = "bridge + host-local",
};

static const struct {
	const char *plugin, *network, *bridge;
	unsigned int net;	/* of 10.NET.0.0/16 */
} contestants[CNI_CONTESTANTS] = {
	[CNI_PODLANE] = { "podlane", "podlane", "podlane0", 88 },
	[CNI_REFERENCE] = { "bridge", "reference", "reference0", 89 },
};

unsigned int cni_rounds(const struct cni_options *o, enum cni_scenario s)
{
	switch (s) {
	case CNI_RESERVED:
		return o->reserved ? o->rounds : 0;
	case CNI_PARALLEL:
		return o->parallel ? (o->rounds + PARALLEL_SHARE - 1) /
				     PARALLEL_SHARE : 0;
	default:
		return o->rounds;
	}
}

/* --- configuration --- */

static int data_dir(const struct cni_bench *b, enum cni_scenario s,
		    enum cni_who who, char *buf, size_t size)
{
	return pl_format(buf, size, "%s/ipam-%d-%d", b->node.dir, (int)s,
			 (int)who);
}

static int write_conf(struct cni_bench *b, enum cni_scenario s,
		      enum cni_who who)
{
	char ipam[512], dir[128], ours[512] = "";
	int rc = data_dir(b, s, who, dir, sizeof(dir));

	if (rc >= 0 && who == CNI_PODLANE)
		rc = pl_format(ours, sizeof(ours),
			       "\"agentPolicy\":\"%s\",\"agentSocket\":"
			       "\"%s/run/agent.sock\",\"stateDir\":\"%s/cni\",",
			       b->node.agent ? "required" : "optional",
			       b->node.dir, b->node.dir);
	if (rc >= 0)
		rc = pl_format(ipam, sizeof(ipam),
			       "{\"type\":\"%s\",\"dataDir\":\"%s\","
			       "\"ranges\":[[{\"subnet\":\"10.%u.0.0/16\"}]],"
			       "\"routes\":[{\"dst\":\"0.0.0.0/0\"}]}",
			       who == CNI_PODLANE ? "podlane-ipam" :
			       "host-local", dir, contestants[who].net);
	if (rc >= 0)
		rc = pl_format(b->confs[s][who], sizeof(b->confs[s][who]),
			       "{\"cniVersion\":\"1.0.0\",\"name\":\"%s\","
			       "\"type\":\"%s\",\"bridge\":\"%s\","
			       "\"isGateway\":true,%s\"ipam\":%s}",
			       contestants[who].network,
			       contestants[who].plugin,
			       contestants[who].bridge, ours, ipam);
	return rc;
}

static int configure(struct cni_bench *b, struct pl_err *err)
{
	const char *dir[CNI_CONTESTANTS] = { b->o.podlane, b->o.reference };

	for (int i = 0; i < CNI_CONTESTANTS; i++) {
		if (pl_format(b->paths[i], sizeof(b->paths[i]), "%s/%s", dir[i],
			      contestants[i].plugin) < 0 ||
		    access(b->paths[i], X_OK) < 0)
			return pl_err_set(err, ENOENT, "there is no %s (%s)",
					  b->paths[i], i == CNI_REFERENCE ?
					  "apt-get install containernetworking-"
					  "plugins, or --reference DIR" :
					  "give its folder by --plugins");
		for (int s = 0; s < CNI_SCENARIOS; s++) {
			if (write_conf(b, s, i) < 0)
				return pl_err_set(err, ENAMETOOLONG,
						  "paths are too long");
			b->exec[s][i] = (struct cni_exec){
				.plugin = b->paths[i], .cni_path = dir[i],
				.ifname = IFNAME, .conf = b->confs[s][i],
			};
		}
	}
	return 0;
}

/* --- reservations of pods that are not there --- */

static int write_at(int dir, const char *name, const char *text)
{
	pl_auto_fd fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	return fd < 0 ? -errno : pl_write_all(fd, text, strlen(text));
}

/* As both allocators write them, and the last one that was given. */
static int reserve(int dir, unsigned int net, unsigned int n)
{
	char name[32], text[80];
	int rc = 0;

	for (unsigned int i = 2; rc == 0 && i < n + 2; i++) {
		snprintf(name, sizeof(name), "10.%u.%u.%u", net, i >> 8,
			 i & 255);
		snprintf(text, sizeof(text), "%064x\r\n" IFNAME, i);
		rc = write_at(dir, name, text);
	}
	return rc < 0 ? rc : write_at(dir, "last_reserved_ip.0", name);
}

static int reserve_all(struct cni_bench *b, struct pl_err *err)
{
	for (int i = 0; b->o.reserved && i < CNI_CONTESTANTS; i++) {
		char base[128], path[256];
		int rc = data_dir(b, CNI_RESERVED, i, base, sizeof(base));

		if (rc >= 0)
			rc = pl_format(path, sizeof(path), "%s/%s", base,
				       contestants[i].network);
		rc = rc < 0 ? pl_err_set(err, -rc, "path too long") :
			      pl_mkdirs(path, 0755, err);
		if (rc < 0)
			return rc;

		pl_auto_fd dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		rc = dir < 0 ? -errno :
		     reserve(dir, contestants[i].net, b->o.reserved);
		if (rc < 0)
			return pl_err_set(err, -rc, "cannot write into %s: %s",
					  path, strerror(-rc));
	}
	return 0;
}

/* --- pods --- */

static int interrupted(struct pl_err *err)
{
	sigset_t pending;

	sigpending(&pending);
	if (!sigismember(&pending, SIGINT) && !sigismember(&pending, SIGTERM))
		return 0;
	return pl_err_set(err, EINTR, "interrupted");
}

/* A fresh one for each round, and for each of the parallel ADDs. */
static size_t count_pods(const struct cni_options *o)
{
	size_t n = 0;

	for (int s = CNI_EMPTY; s <= CNI_RESERVED; s++)
		if (cni_rounds(o, s))
			n += (cni_rounds(o, s) + WARMUP) * CNI_CONTESTANTS;
	return PL_MAX(n, (size_t)o->parallel);
}

static int make_series(struct cni_bench *b, struct pl_err *err)
{
	for (int s = 0; s < CNI_SCENARIOS; s++)
		for (int i = 0; i < CNI_CONTESTANTS; i++)
			for (int k = 0; k < CNI_WHATS; k++) {
				struct cni_series *e = &b->series[s][i][k];

				e->v = calloc(CNI_ROUNDS_MAX, sizeof(double));
				if (!e->v)
					return pl_err_set(err, ENOMEM,
							  "out of memory");
			}
	return 0;
}

/* All namespaces are there before the first command is timed. */
static int make_pods(struct cni_bench *b, struct pl_err *err)
{
	int rc = 0;

	b->n_pods = count_pods(&b->o);
	b->pods = calloc(b->n_pods, sizeof(*b->pods));
	b->known = calloc(b->n_pods + 1, sizeof(*b->known));
	if (!b->pods || !b->known)
		return pl_err_set(err, ENOMEM, "out of memory");
	b->known[b->n_known++] = b->node.agent;
	for (size_t i = 0; rc == 0 && i < b->n_pods; i++) {
		rc = interrupted(err);
		if (rc == 0)
			rc = cni_pod_create(&b->pods[i], err);
		if (rc == 0)
			b->known[b->n_known++] = b->pods[i].pid;
	}
	return rc;
}

static void note(struct cni_bench *b, enum cni_scenario s, enum cni_who who,
		 enum cni_what what, double v)
{
	struct cni_series *e = &b->series[s][who][what];

	if (e->n < CNI_ROUNDS_MAX)
		e->v[e->n++] = v;
}

/* --- one after the other --- */

/* round: counts from 0; warm-up rounds are below 0 and leave no figures. */
static int timed(struct cni_bench *b, enum cni_scenario s, enum cni_who who,
		 int round, const struct cni_pod *pod, struct pl_err *err)
{
	pl_auto_free char *result = NULL;
	struct cni_exec e = b->exec[s][who];
	uint64_t add, del, start;
	char id[ID_BYTES];
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
	note(b, s, who, CNI_ADD, (double)add / 1e6);
	note(b, s, who, CNI_DEL, (double)del / 1e6);
	note(b, s, who, CNI_TOTAL, (double)(add + del) / 1e6);
	note(b, s, who, CNI_SETTLED, (double)(pl_now_ns() - start) / 1e6);
	return 0;
}

/* The same, with an eye on memory instead of on time. */
static int counted(struct cni_bench *b, enum cni_scenario s, enum cni_who who,
		   const struct cni_pod *pod, struct pl_err *err)
{
	static const char *const commands[] = { "ADD", "DEL" };
	struct cni_exec e = b->exec[s][who];
	uint32_t peak = 0;
	int rc = 0;

	e.id = "counted";
	for (int i = 0; rc == 0 && i < 2; i++) {
		struct cni_job job;

		rc = cni_start(&e, commands[i], pod, true, &job, err);
		if (rc == 0)
			rc = cni_finish(&job, NULL, err);
		peak = PL_MAX(peak, job.peak_kib);
	}
	if (rc == 0)
		rc = cni_settle(b->known, b->n_known, err);
	if (rc < 0)
		return rc;
	note(b, s, who, CNI_PEAK, peak * 1024 / 1e6);
	return 0;
}

static int one_by_one(struct cni_bench *b, enum cni_scenario s,
		      struct cni_pod **pod, struct pl_err *err)
{
	unsigned int n = cni_rounds(&b->o, s);
	int rc = 0;

	for (int i = -WARMUP; n && i < (int)n; i++) {
		/* Who starts changes, too. */
		for (int k = 0; rc == 0 && k < CNI_CONTESTANTS; k++)
			rc = timed(b, s, (i & 1) ? CNI_CONTESTANTS - 1 - k : k,
				   i, (*pod)++, err);
		if (rc == 0)
			rc = interrupted(err);
		if (rc < 0)
			return rc;
	}
	for (int i = 0; n && rc == 0 && i < CNI_CONTESTANTS * WARMUP; i++)
		rc = counted(b, s, i % CNI_CONTESTANTS, b->pods, err);
	return rc;
}

/* --- at once --- */

static int name_id(char *id, size_t i)
{
	return pl_format(id, ID_BYTES, "at-once%zu", i);
}

/* One command for n pods. Also after a failure all of them are waited for. */
static int at_once(struct cni_bench *b, enum cni_who who, const char *command,
		   char **results, uint64_t *ns, struct pl_err *err)
{
	struct cni_exec e = b->exec[CNI_PARALLEL][who];
	struct cni_job jobs[CNI_PARALLEL_MAX];
	struct pl_err other = { 0 };
	char id[ID_BYTES];
	uint64_t start = pl_now_ns();
	unsigned int n = 0;
	int rc = 0;

	for (; rc == 0 && n < b->o.parallel; n++) {
		name_id(id, n);
		e.id = id;
		rc = cni_start(&e, command, &b->pods[n], false, &jobs[n], err);
	}
	n -= rc < 0;
	for (unsigned int i = 0; i < n; i++) {
		int r = cni_finish(&jobs[i], results ? &results[i] : NULL,
				   rc < 0 ? &other : err);

		rc = rc < 0 ? rc : r;
	}
	*ns = pl_now_ns() - start;
	if (rc < 0)
		pl_err_prefix(err, "%s %s at once", e.plugin, command);
	return rc;
}

static int drop_bridge(enum cni_who who, struct pl_err *err)
{
	struct pl_link link;
	struct pl_nl nl;
	int rc = pl_nl_open(&nl, -1, err);

	if (rc < 0)
		return rc;
	rc = pl_nl_link_get(&nl, contestants[who].bridge, &link, err);
	if (rc == 0)
		rc = pl_nl_link_del(&nl, link.index, err);
	pl_nl_close(&nl);
	return rc == -ENODEV ? 0 : rc;
}

static int verify_all(struct cni_bench *b, char **results, struct pl_err *err)
{
	int rc = 0;

	for (unsigned int i = 0; rc == 0 && i < b->o.parallel; i++)
		rc = results ? cni_verify_added(&b->pods[i], IFNAME, results[i],
						err) :
			       cni_verify_deleted(&b->pods[i], IFNAME, err);
	return rc;
}

static int crowd(struct cni_bench *b, enum cni_who who, struct pl_err *err)
{
	char *results[CNI_PARALLEL_MAX] = { NULL };
	uint64_t add = 0, del = 0, start;
	int rc = drop_bridge(who, err);

	if (rc == 0)
		rc = at_once(b, who, "ADD", results, &add, err);
	if (rc == 0)
		rc = verify_all(b, results, err);
	for (int i = 0; i < CNI_PARALLEL_MAX; i++)
		free(results[i]);
	start = pl_now_ns();
	if (rc == 0)
		rc = at_once(b, who, "DEL", NULL, &del, err);
	if (rc == 0)
		rc = verify_all(b, NULL, err);
	if (rc == 0)
		rc = cni_settle(b->known, b->n_known, err);
	if (rc < 0)
		return rc;
	note(b, CNI_PARALLEL, who, CNI_ADD, (double)add / 1e6);
	note(b, CNI_PARALLEL, who, CNI_DEL, (double)del / 1e6);
	note(b, CNI_PARALLEL, who, CNI_TOTAL, (double)(add + del) / 1e6);
	note(b, CNI_PARALLEL, who, CNI_SETTLED,
	     (double)(pl_now_ns() - start) / 1e6);
	return 0;
}

static int all_at_once(struct cni_bench *b, struct pl_err *err)
{
	unsigned int n = cni_rounds(&b->o, CNI_PARALLEL);

	for (unsigned int i = 0; i < n; i++)
		for (int k = 0; k < CNI_CONTESTANTS; k++) {
			int rc = crowd(b, (i & 1) ? CNI_CONTESTANTS - 1 - k : k,
				       err);

			if (rc == 0)
				rc = interrupted(err);
			if (rc < 0)
				return rc;
		}
	return 0;
}

/* --- all of it --- */

int cni_contest_run(struct cni_bench *b, struct pl_err *err)
{
	struct cni_pod *pod;
	int rc = configure(b, err);

	if (rc == 0)
		rc = reserve_all(b, err);
	if (rc == 0)
		rc = make_series(b, err);
	if (rc == 0)
		rc = make_pods(b, err);
	pod = b->pods;
	for (int s = CNI_EMPTY; rc == 0 && s <= CNI_RESERVED; s++)
		rc = one_by_one(b, s, &pod, err);
	return rc < 0 ? rc : all_at_once(b, err);
}

void cni_contest_fini(struct cni_bench *b)
{
	for (size_t i = 0; b->pods && i < b->n_pods; i++)
		cni_pod_destroy(&b->pods[i]);
	for (int s = 0; s < CNI_SCENARIOS; s++)
		for (int i = 0; i < CNI_CONTESTANTS; i++)
			for (int k = 0; k < CNI_WHATS; k++)
				free(b->series[s][i][k].v);
	free(b->pods);
	free(b->known);
}
