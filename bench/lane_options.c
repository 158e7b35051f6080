/* bench/lane_options.c - the options of lane_perf */
#include "bench/lane_bench.h"

#include <errno.h>
#include <string.h>

#include "common/util.h"
#include "daemonset/opts.h"

#define MS_DEFAULT 60

/* "8,64K,16M": a number with a letter for 2^10 or 2^20. */
static int parse_number(const char *text, size_t len, uint64_t min,
			uint64_t max, uint32_t *out)
{
	unsigned int shift = 0;
	char part[16];
	uint64_t n;

	if (len == 0 || len >= sizeof(part))
		return -EINVAL;
	memcpy(part, text, len);
	part[len] = '\0';
	if (part[len - 1] == 'K' || part[len - 1] == 'M') {
		shift = part[len - 1] == 'K' ? 10 : 20;
		part[len - 1] = '\0';
	}
	if (pl_parse_u64(part, 1, max >> shift, &n) < 0 || n << shift < min)
		return -EINVAL;
	*out = (uint32_t)(n << shift);
	return 0;
}

static int parse_list(const char *name, const char *v, uint64_t min,
		      uint64_t max, uint32_t *to, unsigned int most,
		      unsigned int *n, struct pl_err *err)
{
	const char *at = v;

	for (*n = 0;; at++) {
		size_t len = strcspn(at, ",");

		if (*n == most ||
		    parse_number(at, len, min, max, &to[*n]) < 0)
			return pl_err_set(err, EINVAL, "--%s %s: give at most "
					  "%u numbers from %llu to %llu, with K "
					  "or M behind them", name, v, most,
					  (unsigned long long)min,
					  (unsigned long long)max);
		++*n;
		at += len;
		if (!*at)
			return 0;
	}
}

static int set_sizes(void *conf, const char *v, struct pl_err *err)
{
	struct lp_opts *o = conf;

	return parse_list("size", v, 8, LP_SIZE_MAX, o->sizes, LP_SIZES_MAX,
			  &o->n_sizes, err);
}

static int set_lanes(void *conf, const char *v, struct pl_err *err)
{
	struct lp_opts *o = conf;

	return parse_list("lanes", v, 1, LP_LANES_MAX, o->counts,
			  LP_COUNTS_MAX, &o->n_counts, err);
}

static int set_ms(void *conf, const char *v, struct pl_err *err)
{
	struct lp_opts *o = conf;
	uint32_t ms;

	if (parse_number(v, strlen(v), 1, 60000, &ms) < 0)
		return pl_err_set(err, EINVAL, "--duration %s: give "
				  "milliseconds, 1 to 60000", v);
	o->ms = ms;
	return 0;
}

static int set_repeat(void *conf, const char *v, struct pl_err *err)
{
	struct lp_opts *o = conf;
	uint32_t n;

	if (parse_number(v, strlen(v), 1, 100, &n) < 0)
		return pl_err_set(err, EINVAL, "--repeat %s: give a number "
				  "from 1 to 100", v);
	o->repeat = n;
	return 0;
}

static int set_place(void *conf, const char *v, struct pl_err *err)
{
	struct lp_opts *o = conf;
	bool any = false;

	for (int p = 0; p < LP_PLACES; p++) {
		o->place[p] = !strcmp(v, "both") ||
			      !strcmp(v, lp_place_name(p));
		any |= o->place[p];
	}
	return any ? 0 : pl_err_set(err, EINVAL, "--placement %s: give "
				    "same-node, cross-node or both", v);
}

static int set_check(void *conf, const char *v, struct pl_err *err)
{
	(void)v;
	(void)err;
	((struct lp_opts *)conf)->check = true;
	return 0;
}

#define TEXT(name) \
	static int set_##name(void *conf, const char *v, struct pl_err *err) \
	{ \
		if (!*v) \
			return pl_err_set(err, EINVAL, "an option has an " \
					  "empty value"); \
		((struct lp_opts *)conf)->name = v; \
		return 0; \
	}
TEXT(json)
TEXT(plot)
TEXT(run_dir)
TEXT(cni_bin)
TEXT(podlaned)
TEXT(congestion)
#undef TEXT

static int set_security(void *conf, const char *v, struct pl_err *err)
{
	((struct lp_opts *)conf)->security = v;
	return ps_security_check(v, err);
}

static const struct pl_opt table[] = {
	{ "size", 0, "LIST", "bytes of messages (8,64,512,4K,64K,1M,16M)",
	  set_sizes },
	{ "lanes", 0, "LIST", "numbers of lanes (1,10,100,1000)", set_lanes },
	{ "placement", 0, "P", "same-node, cross-node or both (both)",
	  set_place },
	{ "duration", 0, "MS", "of each measurement (60)", set_ms },
	{ "repeat", 0, "N", "all in turn, so often; medians are shown (1)",
	  set_repeat },
	{ "check", 0, NULL, "fail when a bar is missed", set_check },
	{ "json", 0, "FILE", "write the results there", set_json },
	{ "plot", 0, "FILE", "draw a PNG there (needs gnuplot)", set_plot },
	{ "run-dir", 0, "DIR", "a folder to be made for the run and removed",
	  set_run_dir },
	{ "cni-bin", 0, "PATH", "folders of the CNI plugins", set_cni_bin },
	{ "podlaned", 0, "FILE", "the agent", set_podlaned },
	{ "congestion-control", 0, "NAME", "of TCP (as the machine has it)",
	  set_congestion },
	{ "security", 0, "KIND", "between agents: none, auth (a key, then plain "
	  "text) or tls (none)", set_security },
};

int lp_opts_parse(int argc, char **argv, struct lp_opts *o, struct pl_err *err)
{
	static const uint32_t sizes[] = { 8, 64, 512, 4096, 65536, 1u << 20,
					  16u << 20 };
	static const uint32_t counts[] = { 1, 10, 100, 1000 };
	bool help = false;
	int rc;

	memset(o, 0, sizeof(*o));
	memcpy(o->sizes, sizes, sizeof(sizes));
	memcpy(o->counts, counts, sizeof(counts));
	o->n_sizes = PL_ARRAY_SIZE(sizes);
	o->n_counts = PL_ARRAY_SIZE(counts);
	o->place[LP_SAME_NODE] = o->place[LP_CROSS_NODE] = true;
	o->ms = MS_DEFAULT;
	o->repeat = 1;
	rc = pl_opts_parse(table, PL_ARRAY_SIZE(table), argc, argv, o, &help,
			   err);
	if (help) {
		printf("usage: lane_perf [OPTION...]\n");
		pl_opts_print(stdout, table, PL_ARRAY_SIZE(table));
		return 1;
	}
	if (rc >= 0 && rc < argc)
		rc = pl_err_set(err, EINVAL, "'%.80s' is no option", argv[rc]);
	return rc < 0 ? rc : 0;
}
