/* bench/lane_result.c - looking rows up, and the bars that they are held to */
#include "bench/lane_bench.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "bench/ps_stats.h"

static bool text_is(const cJSON *row, const char *key, const char *want)
{
	const cJSON *v = cJSON_GetObjectItem(row, key);

	return !want || (cJSON_IsString(v) && !strcmp(v->valuestring, want));
}

static bool number_is(const cJSON *row, const char *key, double want)
{
	const cJSON *v = cJSON_GetObjectItem(row, key);

	return want <= 0 || (cJSON_IsNumber(v) &&
			     fabs(v->valuedouble - want) < 0.5);
}

const cJSON *lp_find(const cJSON *doc, const char *part,
		     const struct lp_key *k)
{
	const cJSON *row;

	cJSON_ArrayForEach(row, cJSON_GetObjectItem(doc, part))
		if (text_is(row, "placement", k->placement) &&
		    text_is(row, "transport", k->transport) &&
		    text_is(row, "wait", k->wait) &&
		    text_is(row, "way", k->way) &&
		    number_is(row, "size", k->size) &&
		    number_is(row, "lanes", k->lanes))
			return row;
	return NULL;
}

double lp_value(const cJSON *doc, const char *part, const struct lp_key *key,
		const char *field)
{
	const cJSON *v = cJSON_GetObjectItem(lp_find(doc, part, key), field);

	return cJSON_IsNumber(v) ? v->valuedouble : NAN;
}

/* --- repeats -------------------------------------------------------------- */

static bool same_kind(const cJSON *a, const cJSON *b)
{
	static const char *const texts[] = { "placement", "transport", "wait",
					     "way" };
	static const char *const numbers[] = { "size", "lanes" };

	for (size_t i = 0; i < PL_ARRAY_SIZE(texts); i++)
		if (!cJSON_Compare(cJSON_GetObjectItem(a, texts[i]),
				   cJSON_GetObjectItem(b, texts[i]), 1) &&
		    cJSON_GetObjectItem(a, texts[i]))
			return false;
	for (size_t i = 0; i < PL_ARRAY_SIZE(numbers); i++) {
		const cJSON *n = cJSON_GetObjectItem(a, numbers[i]);

		if (n && !number_is(b, numbers[i], n->valuedouble))
			return false;
	}
	return true;
}

/* A field of all rows of row's kind, into row. */
static int merge_field(const cJSON *rows, const cJSON *row, cJSON *field)
{
	pl_auto_free double *v = calloc((size_t)cJSON_GetArraySize(rows),
					sizeof(*v));
	const cJSON *other;
	size_t n = 0;

	if (!v)
		return -ENOMEM;
	cJSON_ArrayForEach(other, rows) {
		const cJSON *f = cJSON_GetObjectItem(other, field->string);

		if (!f || !same_kind(row, other))
			continue;
		if (cJSON_IsNumber(f))
			v[n++] = f->valuedouble;
		else if (cJSON_IsFalse(f))
			field->type = cJSON_False;
	}
	if (n)
		cJSON_SetNumberHelper(field, ps_median(v, n));
	return 0;
}

static int merge_part(cJSON *rows)
{
	cJSON *row, *field, *other, *next;

	cJSON_ArrayForEach(row, rows) {
		cJSON_ArrayForEach(field, row)
			if (merge_field(rows, row, field) < 0)
				return -ENOMEM;
		for (other = row->next; other; other = next) {
			next = other->next;
			if (same_kind(row, other))
				cJSON_Delete(cJSON_DetachItemViaPointer(rows,
									other));
		}
	}
	return 0;
}

int lp_merge(cJSON *doc)
{
	cJSON *part;

	cJSON_ArrayForEach(part, doc)
		if (cJSON_IsArray(part) && merge_part(part) < 0)
			return -ENOMEM;
	return 0;
}

/* --- bars ----------------------------------------------------------------- */

#define SAME "same-node"
#define CROSS "cross-node"
#define KEY(...) (&(struct lp_key){ __VA_ARGS__ })
#define NODE_LANE KEY(.placement = SAME, .transport = "lane")

static double latency(const struct lp_bench *b, const char *place,
		      const char *who, const char *wait, double size)
{
	return lp_value(b->doc, "latency",
			KEY(.placement = place, .transport = who, .wait = wait,
			    .way = "copy", .size = size), "p50_ns");
}

static double stream(const struct lp_bench *b, const char *place,
		     const char *who, const char *way, double size,
		     const char *field)
{
	return lp_value(b->doc, "stream",
			KEY(.placement = place, .transport = who, .way = way,
			    .size = size), field);
}

static double bar_line(const struct lp_bench *b)
{
	return latency(b, SAME, "lane", "spin", 64) / b->limits.line_p50_ns;
}

/* As programs wait for TCP, and on as many CPUs as the lane has. */
static double bar_overlay(const struct lp_bench *b)
{
	return latency(b, SAME, "overlay-tcp", "sleep", 64) /
	       latency(b, SAME, "lane", "spin", 64);
}

static double bar_sleep(const struct lp_bench *b)
{
	return latency(b, SAME, "lane", "sleep", 64) /
	       latency(b, SAME, "unix", "sleep", 64);
}

static double bar_one_cpu(const struct lp_bench *b)
{
	return latency(b, SAME, "lane", "one-cpu", 64) /
	       latency(b, SAME, "unix", "one-cpu", 64);
}

static double bar_batch(const struct lp_bench *b)
{
	return stream(b, SAME, "lane", "batch", 64, "messages_per_s") / 1e6;
}

static double bar_each(const struct lp_bench *b)
{
	return stream(b, SAME, "lane", "copy", 64, "messages_per_s") / 1e6;
}

static double bar_copy(const struct lp_bench *b)
{
	return stream(b, SAME, "lane", "copy", 65536, "bytes_per_s") /
	       b->limits.shared_bytes_per_s;
}

static double bar_in_place(const struct lp_bench *b)
{
	return stream(b, SAME, "lane", "in-place", 65536, "bytes_per_s") /
	       b->limits.shared_bytes_per_s;
}

static double carrier(const struct lp_bench *b, const char *who,
		      const char *field)
{
	return stream(b, CROSS, who, "copy", 1 << 20, field);
}

static double bar_raw(const struct lp_bench *b)
{
	return carrier(b, "lane", "bytes_per_s") /
	       carrier(b, "raw-tcp", "bytes_per_s");
}

static double bar_carrier(const struct lp_bench *b)
{
	return carrier(b, "lane", "bytes_per_s") /
	       carrier(b, "overlay-tcp", "bytes_per_s");
}

static double bar_cpu(const struct lp_bench *b)
{
	return carrier(b, "lane", "cpu_s_per_gb") /
	       carrier(b, "overlay-tcp", "cpu_s_per_gb");
}

static double bar_jain(const struct lp_bench *b)
{
	return lp_value(b->doc, "many", KEY(.placement = CROSS,
					    .transport = "lane", .lanes = 100),
			"jain");
}

/* Of one CPU, while nothing is done. */
static double bar_idle(const struct lp_bench *b)
{
	return lp_value(b->doc, "idle", NODE_LANE, "cpu_ns") /
	       lp_value(b->doc, "idle", NODE_LANE, "ms") / 1e4;
}

/* Of a few lanes the process itself is most. */
static double bar_resident(const struct lp_bench *b)
{
	if (!(lp_value(b->doc, "idle", NODE_LANE, "lanes") >= 100))
		return NAN;
	return lp_value(b->doc, "idle", NODE_LANE,
			"resident_bytes_per_lane") / 1024;
}

static double bar_connect(const struct lp_bench *b)
{
	return lp_value(b->doc, "connect", NODE_LANE, "p50_ns") / 1e3;
}

static double bar_busy(const struct lp_bench *b)
{
	return lp_value(b->doc, "busy", KEY(.wait = "auto"), "rounds_per_s") /
	       lp_value(b->doc, "busy", KEY(.wait = "sleep"), "rounds_per_s");
}

static const struct bar {
	const char *name, *unit;
	double (*value)(const struct lp_bench *b);
	double limit;
	bool at_most;
} bars[] = {
	{ "round trip of 64 B, spinning, to that of a cache line", "times",
	  bar_line, 2, true },
	{ "round trip of 64 B, TCP over the overlay, to spinning", "times",
	  bar_overlay, 50, false },
	{ "round trip of 64 B, sleeping, to a Unix socket's", "times",
	  bar_sleep, 1.2, true },
	{ "the same with both processes on one CPU", "times", bar_one_cpu, 1.2,
	  true },
	{ "messages of 64 B, committed many at a time", "million/s", bar_batch,
	  20, false },
	{ "messages of 64 B, each published alone", "million/s", bar_each, 5,
	  false },
	{ "64 KiB copied in and out, to one memcpy between CPUs", "times",
	  bar_copy, 0.6, false },
	{ "64 KiB in place, to one memcpy between CPUs", "times", bar_in_place,
	  0.9, false },
	{ "1 MiB across nodes, to raw TCP between the nodes", "times", bar_raw,
	  0.9, false },
	{ "1 MiB across nodes, to TCP over the overlay", "times", bar_carrier,
	  1.3, false },
	{ "CPU seconds per GB across nodes, to the overlay's", "times",
	  bar_cpu, 1, true },
	{ "fairness of 100 lanes across nodes (Jain)", "", bar_jain, 0.95,
	  false },
	{ "CPU time of idle lanes", "% of a CPU", bar_idle, 0.1, true },
	{ "resident memory of an idle lane", "KiB", bar_resident, 64, true },
	{ "a new lane within the node", "us", bar_connect, 300, true },
	{ "4 processes on few CPUs, as it comes, to sleeping", "times",
	  bar_busy, 0.95, false },
};

unsigned int lp_bars_add(struct lp_bench *b)
{
	cJSON *list = cJSON_AddArrayToObject(b->doc, "bars");
	unsigned int missed = 0;

	for (size_t i = 0; i < PL_ARRAY_SIZE(bars); i++) {
		double v = bars[i].value(b);
		bool ok = bars[i].at_most ? v <= bars[i].limit :
					    v >= bars[i].limit;
		cJSON *bar = cJSON_CreateObject();

		/* Of what was not asked for, nothing is known. */
		if (!isfinite(v)) {
			cJSON_Delete(bar);
			continue;
		}
		missed += !ok;
		cJSON_AddStringToObject(bar, "name", bars[i].name);
		cJSON_AddNumberToObject(bar, "value", v);
		cJSON_AddNumberToObject(bar, "limit", bars[i].limit);
		cJSON_AddStringToObject(bar, "unit", bars[i].unit);
		cJSON_AddBoolToObject(bar, "at_most", bars[i].at_most);
		cJSON_AddBoolToObject(bar, "ok", ok);
		cJSON_AddItemToArray(list, bar);
	}
	return missed;
}

/* --- what the figures depend on ------------------------------------------- */

static void add_number(cJSON *o, const char *key, double v)
{
	if (isfinite(v))
		cJSON_AddNumberToObject(o, key, v);
	else
		cJSON_AddNullToObject(o, key);
}

void lp_head_add(struct lp_bench *b)
{
	cJSON *l;

	ps_machine_head(&b->machine, "lane_perf", b->doc);
	l = cJSON_AddObjectToObject(b->doc, "limits");
	add_number(l, "cache_line_p50_ns", b->limits.line_p50_ns);
	add_number(l, "cache_line_p99_ns", b->limits.line_p99_ns);
	add_number(l, "cache_line_p999_ns", b->limits.line_p999_ns);
	add_number(l, "memcpy_bytes_per_s", b->limits.memcpy_bytes_per_s);
	add_number(l, "shared_memcpy_bytes_per_s",
		   b->limits.shared_bytes_per_s);
}
