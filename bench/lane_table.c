/* bench/lane_table.c - the figures for people, and the picture */
#include "bench/lane_bench.h"

#include <math.h>
#include <string.h>

#include "common/util.h"
#include "bench/gnuplot.h"

#define CELL 24

static double num(const cJSON *row, const char *key)
{
	const cJSON *v = cJSON_GetObjectItem(row, key);

	return cJSON_IsNumber(v) ? v->valuedouble : NAN;
}

static const char *text(const cJSON *row, const char *key)
{
	const cJSON *v = cJSON_GetObjectItem(row, key);

	return cJSON_IsString(v) ? v->valuestring : "";
}

/* "64", "4K", "16M" */
static void size_text(double n, char buf[CELL])
{
	if (n >= 1 << 20 && fmod(n, 1 << 20) == 0)
		snprintf(buf, CELL, "%.0fM", n / (1 << 20));
	else if (n >= 1024 && fmod(n, 1024) == 0)
		snprintf(buf, CELL, "%.0fK", n / 1024);
	else
		snprintf(buf, CELL, "%.0f", n);
}

/* Microseconds below a second, with as many places as say something. */
static void time_text(double ns, char buf[CELL])
{
	double us = ns / 1e3;

	snprintf(buf, CELL, us < 10 ? "%.2f" : us < 100 ? "%.1f" : "%.0f", us);
}

static bool same_group(const cJSON *a, const cJSON *b)
{
	static const char *const keys[] = { "placement", "transport", "wait",
					    "way" };

	for (size_t i = 0; i < PL_ARRAY_SIZE(keys); i++)
		if (strcmp(text(a, keys[i]), text(b, keys[i])))
			return false;
	return true;
}

static void group_text(const cJSON *row, FILE *out)
{
	fprintf(out, "  %-10s %-11s %-5s %-8s", text(row, "placement"),
		text(row, "transport"), text(row, "wait"), text(row, "way"));
}

static void head(const struct lp_bench *b, const char *what, FILE *out)
{
	char size[CELL];

	fprintf(out, "\n%s\n  %-10s %-11s %-5s %-8s", what, "placement",
		"transport", "wait", "way");
	for (unsigned int i = 0; i < b->o.n_sizes; i++) {
		size_text(b->o.sizes[i], size);
		fprintf(out, " %8s", size);
	}
	fprintf(out, "  path\n");
}

/* One line for each group of rows, one column for each size. */
static void matrix(const struct lp_bench *b, const char *part, const char *what,
		   const char *field, void (*show)(double v, char buf[CELL]),
		   FILE *out)
{
	const cJSON *rows = cJSON_GetObjectItem(b->doc, part), *row;
	const cJSON *last = NULL;

	head(b, what, out);
	cJSON_ArrayForEach(row, rows) {
		if (last && same_group(last, row))
			continue;
		last = row;
		group_text(row, out);
		for (unsigned int i = 0; i < b->o.n_sizes; i++) {
			const struct lp_key k = { text(row, "placement"),
						  text(row, "transport"),
						  text(row, "wait"),
						  text(row, "way"),
						  b->o.sizes[i], 0 };
			double v = lp_value(b->doc, part, &k, field);
			char cell[CELL] = "-";

			if (isfinite(v))
				show(v, cell);
			fprintf(out, " %8s", cell);
		}
		fprintf(out, "  %s\n", text(row, "path"));
	}
}

static void gb_text(double v, char buf[CELL])
{
	snprintf(buf, CELL, "%.3g", v / 1e9);
}

static void million_text(double v, char buf[CELL])
{
	snprintf(buf, CELL, "%.3g", v / 1e6);
}

static void many(const struct lp_bench *b, FILE *out)
{
	const cJSON *row;

	fprintf(out, "\nmany lanes, messages of 16 KiB\n  %-10s %-11s %6s %8s "
		"%9s %6s  path\n", "placement", "transport", "lanes", "GB/s",
		"CPU s/GB", "Jain");
	cJSON_ArrayForEach(row, cJSON_GetObjectItem(b->doc, "many"))
		fprintf(out, "  %-10s %-11s %6.0f %8.3g %9.2f %6.3f  %s\n",
			text(row, "placement"), text(row, "transport"),
			num(row, "lanes"), num(row, "bytes_per_s") / 1e9,
			num(row, "cpu_s_per_gb"), num(row, "jain"),
			text(row, "path"));
}

static void lanes(const struct lp_bench *b, FILE *out)
{
	const cJSON *row;

	fprintf(out, "\nlanes that do nothing\n");
	cJSON_ArrayForEach(row, cJSON_GetObjectItem(b->doc, "idle"))
		fprintf(out, "  %-10s %5.0f lanes: %.1f KiB resident each, "
			"%.0f KiB of shared memory for both ends, %.3f %% of a "
			"CPU\n", text(row, "placement"), num(row, "lanes"),
			num(row, "resident_bytes_per_lane") / 1024,
			num(row, "shared_bytes_per_lane") / 1024,
			num(row, "cpu_ns") / num(row, "ms") / 1e4);
	fprintf(out, "\nnew ones, microseconds (median, p99)\n");
	cJSON_ArrayForEach(row, cJSON_GetObjectItem(b->doc, "connect"))
		fprintf(out, "  %-10s %-11s %8.0f %8.0f\n",
			text(row, "placement"), text(row, "transport"),
			num(row, "p50_ns") / 1e3, num(row, "p99_ns") / 1e3);
}

static void bars(const struct lp_bench *b, FILE *out)
{
	const cJSON *bar;

	fprintf(out, "\nbars\n");
	cJSON_ArrayForEach(bar, cJSON_GetObjectItem(b->doc, "bars"))
		fprintf(out, "  %-6s %-56s %8.3g, at %s %g %s\n",
			cJSON_IsTrue(cJSON_GetObjectItem(bar, "ok")) ?
			"ok" : "MISSED", text(bar, "name"), num(bar, "value"),
			cJSON_IsTrue(cJSON_GetObjectItem(bar, "at_most")) ?
			"most" : "least", num(bar, "limit"),
			text(bar, "unit"));
}

void lp_table(const struct lp_bench *b, FILE *out)
{
	const cJSON *row;

	fprintf(out, "machine: %s, %u cores, %s, TCP %s, carrier %s\n"
		"cache line there and back: %.0f ns (p99 %.0f, p99.9 %.0f)\n"
		"memcpy of 64 KiB: %.1f GB/s in one CPU's cache, %.1f GB/s when "
		"the other CPU reads it\n", b->machine.cpu, b->machine.cores,
		b->machine.kernel, b->machine.congestion, b->machine.carrier,
		b->limits.line_p50_ns, b->limits.line_p99_ns,
		b->limits.line_p999_ns, b->limits.memcpy_bytes_per_s / 1e9,
		b->limits.shared_bytes_per_s / 1e9);
	matrix(b, "latency", "round trip, microseconds, median", "p50_ns",
	       time_text, out);
	matrix(b, "latency", "round trip, microseconds, p99", "p99_ns",
	       time_text, out);
	matrix(b, "latency", "round trip, microseconds, p99.9", "p999_ns",
	       time_text, out);
	matrix(b, "stream", "one lane, GB/s", "bytes_per_s", gb_text, out);
	matrix(b, "stream", "one lane, million messages/s", "messages_per_s",
	       million_text, out);
	many(b, out);
	lanes(b, out);
	cJSON_ArrayForEach(row, cJSON_GetObjectItem(b->doc, "busy"))
		fprintf(out, "%s%.0f processes, waiting %s: %.0f round trips/s"
			"\n", row == cJSON_GetObjectItem(b->doc, "busy")->child ?
			"\n" : "",
			num(row, "processes"), text(row, "wait"),
			num(row, "rounds_per_s"));
	bars(b, out);
}

/* --- the picture ---------------------------------------------------------- */

#define NEAR .placement = "same-node", .transport
#define FAR .placement = "cross-node", .transport

static const struct curve {
	const char *part, *field;
	double per;
	struct lp_key key;
	const char *title, *color;
} curves[] = {
	{ "latency", "p50_ns", 1e3,
	  { NEAR = "lane", .wait = "spin", .way = "copy" }, "lane, spinning",
	  "#1f77b4" },
	{ "latency", "p50_ns", 1e3,
	  { NEAR = "lane", .wait = "sleep", .way = "copy" }, "lane, sleeping",
	  "#6baed6" },
	{ "latency", "p50_ns", 1e3, { NEAR = "unix", .wait = "sleep" },
	  "Unix socket", "#2ca02c" },
	{ "latency", "p50_ns", 1e3, { NEAR = "overlay-tcp", .wait = "sleep" },
	  "TCP over the overlay", "#9aa5b1" },
	{ "stream", "bytes_per_s", 1e9,
	  { NEAR = "lane", .wait = "auto", .way = "copy" }, "lane",
	  "#1f77b4" },
	{ "stream", "bytes_per_s", 1e9,
	  { NEAR = "lane", .wait = "auto", .way = "in-place" },
	  "lane, in place", "#6baed6" },
	{ "stream", "bytes_per_s", 1e9, { NEAR = "unix" }, "Unix socket",
	  "#2ca02c" },
	{ "stream", "bytes_per_s", 1e9, { NEAR = "overlay-tcp" },
	  "TCP over the overlay", "#9aa5b1" },
	{ "stream", "bytes_per_s", 1e9, { FAR = "lane", .way = "copy" },
	  "lane, to another node", "#d62728" },
	{ "stream", "bytes_per_s", 1e9, { FAR = "overlay-tcp" },
	  "overlay, to another node", "#e7969c" },
};

static bool has_points(const struct lp_bench *b, const struct curve *c)
{
	return lp_find(b->doc, c->part, &c->key) != NULL;
}

static void points(const struct lp_bench *b, size_t i, FILE *f)
{
	struct lp_key k = curves[i].key;

	fprintf(f, "$c%zu << EOD\n", i);
	for (unsigned int s = 0; s < b->o.n_sizes; s++) {
		double v;

		k.size = b->o.sizes[s];
		v = lp_value(b->doc, curves[i].part, &k, curves[i].field);
		if (isfinite(v))
			fprintf(f, "%.0f %.6g\n", k.size, v / curves[i].per);
	}
	fprintf(f, "EOD\n");
}

static void plot(const struct lp_bench *b, const char *part, const char *label,
		 FILE *f)
{
	const char *sep = "plot";

	fprintf(f, "set ylabel '%s'\n", label);
	for (size_t i = 0; i < PL_ARRAY_SIZE(curves); i++) {
		if (strcmp(curves[i].part, part) || !has_points(b, &curves[i]))
			continue;
		fprintf(f, "%s $c%zu using 1:2 with linespoints pt 7 lc rgb "
			"'%s' title '%s'", sep, i, curves[i].color,
			curves[i].title);
		sep = ",";
	}
	fprintf(f, "%s\n", *sep == ',' ? "" : "plot NaN notitle");
}

static void script(const struct lp_bench *b, const char *png, FILE *f)
{
	for (size_t i = 0; i < PL_ARRAY_SIZE(curves); i++)
		if (has_points(b, &curves[i]))
			points(b, i, f);
	fprintf(f, "set terminal pngcairo size 1200,560 font 'sans,11' "
		"noenhanced\nset output '%s'\nset multiplot layout 1,2\n"
		"set logscale xy\nset grid\nset key top left\n"
		"set xlabel 'bytes of a message'\n"
		"set xtics ('8' 8,'64' 64,'512' 512,'4K' 4096,'64K' 65536,"
		"'1M' 1048576,'16M' 16777216)\n"
		"set title 'Round trips within a node'\n", png);
	plot(b, "latency", "microseconds, less is better", f);
	fprintf(f, "set title 'One stream'\n");
	plot(b, "stream", "GB/s, more is better", f);
	fprintf(f, "unset multiplot\n");
}

int lp_plot_write(const struct lp_bench *b, const char *path,
		  struct pl_err *err)
{
	char png[PS_FILE_BYTES];
	FILE *f;
	int rc = gnuplot_open(&f, err);

	if (rc < 0)
		return rc;
	pl_format(png, sizeof(png), "%s/plot.png", b->cluster.dir);
	script(b, png, f);
	return gnuplot_draw(f, png, path, err);
}
