/* bench/lane_run.c - the measurements of lane_perf, one after the other */
#include "bench/lane_bench.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/util.h"
#include "shm/podlane.h"

#define GRACE_MS 60000
/* Of the many: small enough for the smallest ring. */
#define MANY_SIZE (16u << 10)
/* More lanes than this have the smallest rings, fewer have those they get. */
#define MANY_SMALL 100
#define CONNECTS 300u
#define IDLE_MS 1000u
#define LIMITS_MS 150u

/* --- one job -------------------------------------------------------------- */

/* Between pods, or between the nodes themselves. */
enum lp_net { LP_PODS, LP_NODES };

struct pair {
	struct lp_job job;
	const char *netns[2];		/* of the client, of the server */
};

/* Where pair i of this placement runs. */
static void pair_make(const struct lp_bench *b, struct pair *p, unsigned int i,
		      enum lp_net net, enum lp_place place,
		      const struct lp_job *job)
{
	const struct ps_pod *server = place == LP_CROSS_NODE ? b->far :
							       b->server[i];

	p->job = *job;
	snprintf(p->job.path, sizeof(p->job.path), "%s/lp%u.sock",
		 b->cluster.dir, i);
	if (net == LP_NODES) {
		p->netns[0] = b->cluster.node[0].netns;
		p->netns[1] = b->cluster.node[1].netns;
		snprintf(p->job.addr, sizeof(p->job.addr), "10.99.0.2");
		return;
	}
	p->netns[0] = b->client[i]->ns.netns;
	p->netns[1] = server->ns.netns;
	snprintf(p->job.addr, sizeof(p->job.addr), "%s", server->addr);
}

/* c[0] the client, c[1] the server. */
static int pair_start(struct pair *p, struct ps_child *c, struct pl_err *err)
{
	struct lp_words *w = malloc(sizeof(*w));
	int rc = w ? 0 : pl_err_set(err, ENOMEM, "out of memory");

	for (int i = 1; i >= 0 && rc == 0; i--) {
		p->job.is_server = i;
		lp_job_words(&p->job, w);
		rc = ps_child_start(&c[i], i ? "server" : "client",
				    p->netns[i], w->argv, err);
	}
	free(w);
	return rc;
}

static unsigned int job_ms(const struct lp_job *j)
{
	return GRACE_MS + 10 * j->ms * PL_MAX(j->n_sizes, 1u);
}

static int watch_all(struct lp_bench *b, struct ps_child *c, unsigned int n,
		     const struct lp_job *job, struct pl_err *err)
{
	return ps_cluster_wait(&b->cluster, c, n, &b->watch, (int)job_ms(job),
			       err);
}

static int rows_of(const struct ps_child *c, cJSON **rows, struct pl_err *err)
{
	int rc = c->report.text ? pl_json_parse(c->report.text, c->report.len,
						rows, err) :
				  -EPROTO;

	if (rc == 0 && cJSON_IsArray(*rows))
		return 0;
	return pl_err_set(err, EPROTO, "the %s did not report", c->name);
}

static cJSON *part_of(struct lp_bench *b, const char *part)
{
	cJSON *list = cJSON_GetObjectItem(b->doc, part);

	return list ? list : cJSON_AddArrayToObject(b->doc, part);
}

static void row_take(struct lp_bench *b, const char *part, const char *who,
		     enum lp_place place, const struct lp_job *job, cJSON *row)
{
	cJSON_AddStringToObject(row, "placement", lp_place_name(place));
	cJSON_AddStringToObject(row, "transport", who);
	cJSON_AddStringToObject(row, "wait", lp_wait_name(job->wait));
	cJSON_AddStringToObject(row, "way", lp_way_name(job->way));
	if (!cJSON_GetObjectItem(row, "lanes"))
		cJSON_AddNumberToObject(row, "lanes", job->lanes);
	cJSON_AddItemToArray(part_of(b, part), row);
}

static const char *name_of(const struct lp_job *job, enum lp_net net)
{
	if (net == LP_NODES)
		return "raw-tcp";
	return job->link == LP_LANE ? "lane" :
	       job->link == LP_TCP ? "overlay-tcp" : "unix";
}

/* The rows that the client reports go to the list PART of the document. */
static int run_job(struct lp_bench *b, const char *part, enum lp_net net,
		   enum lp_place place, const struct lp_job *job,
		   struct pl_err *err)
{
	struct ps_child c[2] = { { .pid = 0 } };
	pl_auto_json *rows = NULL;
	struct pair p;
	cJSON *row;
	int rc;

	if (ps_watch_interrupted(&b->watch))
		return pl_err_set(err, EINTR, "interrupted");
	pair_make(b, &p, 0, net, place, job);
	rc = pair_start(&p, c, err);
	if (rc == 0)
		rc = watch_all(b, c, 2, job, err);
	if (rc == 0)
		rc = rows_of(&c[0], &rows, err);
	ps_children_end(c, 2);
	if (rc < 0) {
		pl_err_prefix(err, "%s, %s, %s", lp_what_name(job->what),
			      lp_place_name(place), name_of(job, net));
		return rc;
	}
	while ((row = cJSON_DetachItemFromArray(rows, 0)))
		row_take(b, part, name_of(job, net), place, job, row);
	return 0;
}

/* --- the parts ------------------------------------------------------------ */

struct variant {
	enum lp_net net;
	enum lp_link link;
	enum lp_wait wait;
	enum lp_way way;
	bool same, cross;		/* placements that have it */
};

static struct lp_job job_of(const struct lp_bench *b, enum lp_what what,
			    const struct variant *v)
{
	struct lp_job j = { .what = what,
			    .link = v->link,
			    .wait = v->wait,
			    .way = v->way,
			    .lanes = 1,
			    .ms = b->o.ms,
			    .n_sizes = b->o.n_sizes };

	memcpy(j.sizes, b->o.sizes, sizeof(j.sizes));
	return j;
}

static bool has(const struct lp_bench *b, const struct variant *v,
		enum lp_place place)
{
	return b->o.place[place] &&
	       (place == LP_SAME_NODE ? v->same : v->cross);
}

static int run_each(struct lp_bench *b, const char *part, enum lp_what what,
		    const struct variant *v, size_t n, struct pl_err *err)
{
	int rc = 0;

	for (int place = 0; place < LP_PLACES; place++)
		for (size_t i = 0; rc == 0 && i < n; i++) {
			struct lp_job j = job_of(b, what, &v[i]);

			if (has(b, &v[i], place))
				rc = run_job(b, part, v[i].net, place, &j, err);
		}
	return rc;
}

static int run_latency(struct lp_bench *b, struct pl_err *err)
{
	static const struct variant v[] = {
		{ LP_PODS, LP_LANE, LP_SPIN, LP_COPY, true, true },
		{ LP_PODS, LP_LANE, LP_SPIN, LP_IN_PLACE, true, false },
		{ LP_PODS, LP_LANE, LP_AUTO, LP_COPY, true, true },
		{ LP_PODS, LP_LANE, LP_SLEEP, LP_COPY, true, true },
		{ LP_PODS, LP_TCP, LP_SPIN, LP_COPY, true, true },
		{ LP_PODS, LP_TCP, LP_SLEEP, LP_COPY, true, true },
		{ LP_PODS, LP_UNIX, LP_SPIN, LP_COPY, true, false },
		{ LP_PODS, LP_UNIX, LP_SLEEP, LP_COPY, true, false },
		{ LP_PODS, LP_LANE, LP_ONE_CPU, LP_COPY, true, false },
		{ LP_PODS, LP_TCP, LP_ONE_CPU, LP_COPY, true, false },
		{ LP_PODS, LP_UNIX, LP_ONE_CPU, LP_COPY, true, false },
		{ LP_NODES, LP_TCP, LP_SLEEP, LP_COPY, false, true },
	};

	return run_each(b, "latency", LP_LATENCY, v, PL_ARRAY_SIZE(v), err);
}

static int run_stream(struct lp_bench *b, struct pl_err *err)
{
	static const struct variant v[] = {
		{ LP_PODS, LP_LANE, LP_AUTO, LP_COPY, true, true },
		{ LP_PODS, LP_LANE, LP_AUTO, LP_IN_PLACE, true, true },
		{ LP_PODS, LP_LANE, LP_AUTO, LP_BATCH, true, false },
		{ LP_PODS, LP_LANE, LP_SPIN, LP_COPY, true, false },
		{ LP_PODS, LP_LANE, LP_SPIN, LP_IN_PLACE, true, false },
		{ LP_PODS, LP_LANE, LP_SLEEP, LP_COPY, true, false },
		{ LP_PODS, LP_TCP, LP_SLEEP, LP_COPY, true, true },
		{ LP_PODS, LP_UNIX, LP_SLEEP, LP_COPY, true, false },
		{ LP_NODES, LP_TCP, LP_SLEEP, LP_COPY, false, true },
	};

	return run_each(b, "stream", LP_STREAM, v, PL_ARRAY_SIZE(v), err);
}

static int run_many(struct lp_bench *b, struct pl_err *err)
{
	static const struct variant v[] = {
		{ LP_PODS, LP_LANE, LP_AUTO, LP_COPY, true, true },
		{ LP_PODS, LP_TCP, LP_SLEEP, LP_COPY, true, true },
	};
	int rc = 0;

	for (int place = 0; place < LP_PLACES; place++)
		for (unsigned int i = 0; rc == 0 && i < b->o.n_counts * 2;
		     i++) {
			const struct variant *w = &v[i % 2];
			struct lp_job j = job_of(b, LP_MANY, w);

			j.lanes = b->o.counts[i / 2];
			j.ms = 4 * b->o.ms;
			j.ring_bytes = j.lanes > MANY_SMALL ?
				       PL_RING_MIN : PL_RING_DEFAULT;
			j.n_sizes = 1;
			j.sizes[0] = MANY_SIZE;
			if (has(b, w, place))
				rc = run_job(b, "many", w->net, place, &j, err);
		}
	return rc;
}

/* Lanes that are there, and lanes that are made: within the node. */
static int run_lanes(struct lp_bench *b, struct pl_err *err)
{
	static const struct variant lane = { LP_PODS, LP_LANE, LP_AUTO,
					     LP_COPY, true, true };
	static const struct variant tcp = { LP_PODS, LP_TCP, LP_SLEEP, LP_COPY,
					    true, true };
	struct lp_job j = job_of(b, LP_IDLE, &lane);
	int rc = 0;

	j.lanes = b->o.counts[b->o.n_counts - 1];
	j.ms = PL_MIN(IDLE_MS, 20 * b->o.ms);
	j.ring_bytes = PL_RING_MIN;
	j.n_sizes = 0;
	for (int place = 0; place < LP_PLACES && rc == 0; place++)
		if (b->o.place[place])
			rc = run_job(b, "idle", LP_PODS, place, &j, err);
	for (int i = 0; i < 2 * LP_PLACES && rc == 0; i++) {
		struct lp_job c = job_of(b, LP_CONNECT, i % 2 ? &tcp : &lane);

		c.lanes = PL_MIN(CONNECTS, 5 * b->o.ms);
		c.n_sizes = 0;
		if (b->o.place[i / 2])
			rc = run_job(b, "connect", LP_PODS, i / 2, &c, err);
	}
	return rc;
}

/* Rounds per second of all pairs together, which want more CPUs than exist. */
static int busy_pairs(struct lp_bench *b, enum lp_wait wait, double *rate,
		      struct pl_err *err)
{
	struct ps_child c[2 * LP_PAIRS] = { { .pid = 0 } };
	const struct variant v = { LP_PODS, LP_LANE, wait, LP_COPY, true,
				   false };
	struct lp_job j = job_of(b, LP_LATENCY, &v);
	int rc = 0;

	j.n_sizes = 1;
	j.sizes[0] = 64;
	j.ms = 5 * b->o.ms;
	j.loose = 1;
	for (unsigned int i = 0; i < LP_PAIRS && rc == 0; i++) {
		struct pair p;

		pair_make(b, &p, i, LP_PODS, LP_SAME_NODE, &j);
		rc = pair_start(&p, &c[2 * i], err);
	}
	if (rc == 0)
		rc = watch_all(b, c, 2 * LP_PAIRS, &j, err);
	*rate = 0;
	for (unsigned int i = 0; i < LP_PAIRS && rc == 0; i++) {
		pl_auto_json *rows = NULL;

		rc = rows_of(&c[2 * i], &rows, err);
		if (rc == 0)
			*rate += cJSON_GetNumberValue(cJSON_GetObjectItem(
				cJSON_GetArrayItem(rows, 0), "rounds")) *
				1e3 / j.ms;
	}
	ps_children_end(c, 2 * LP_PAIRS);
	return rc;
}

static int run_busy(struct lp_bench *b, struct pl_err *err)
{
	static const enum lp_wait waits[] = { LP_AUTO, LP_SLEEP };
	double rate;
	int rc = 0;

	for (size_t i = 0; b->o.place[LP_SAME_NODE] && rc == 0 &&
	     i < PL_ARRAY_SIZE(waits); i++) {
		cJSON *row = cJSON_CreateObject();

		cJSON_AddItemToArray(part_of(b, "busy"), row);
		rc = busy_pairs(b, waits[i], &rate, err);
		cJSON_AddStringToObject(row, "wait", lp_wait_name(waits[i]));
		cJSON_AddNumberToObject(row, "processes", 2 * LP_PAIRS);
		cJSON_AddNumberToObject(row, "rounds_per_s", rate);
	}
	return rc;
}

int lp_bench_run(struct lp_bench *b, struct pl_err *err)
{
	static int (*const parts[])(struct lp_bench *b, struct pl_err *err) = {
		run_latency, run_stream, run_many, run_lanes, run_busy,
	};
	const size_t n = PL_ARRAY_SIZE(parts);
	int rc = lp_limits_measure(PL_MIN(LIMITS_MS, 5 * b->o.ms), &b->limits,
				   err);

	for (size_t i = 0; rc == 0 && i < b->o.repeat * n; i++)
		rc = parts[i % n](b, err);
	if (rc == 0 && lp_merge(b->doc) < 0)
		rc = pl_err_set(err, ENOMEM, "out of memory");
	return rc;
}
