/* bench/serve_options.c - the options of all commands of pod_serve */
#include "bench/serve.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "daemonset/opts.h"

#define SAMPLES_BYTES_MAX (256u << 20)

static const char *const scenarios[SV_SCENARIOS] = {
	"single-stream", "multi-stream", "server", "offline",
};
static const char *const services[SV_SERVICES] = { "null", "fixed" };
static const char *const transports[SV_TRANSPORTS] = { "overlay", "host",
						       "podlane" };

const char *sv_scenario_name(enum sv_scenario s)
{
	return scenarios[s];
}

const char *sv_service_name(enum sv_service s)
{
	return services[s];
}

const char *sv_transport_name(enum sv_transport t)
{
	return transports[t];
}

unsigned int sv_only(unsigned int bits)
{
	return (unsigned int)__builtin_ctz(bits);
}

unsigned int sv_percentile(const struct sv_opts *o, enum sv_scenario s)
{
	if (o->percentile)
		return o->percentile;
	return s == SV_SINGLE_STREAM ? 900 : 990;
}

/* --- values --------------------------------------------------------------- */

static int find(const char *word, size_t len, const char *const *names,
		unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (strlen(names[i]) == len && !memcmp(word, names[i], len))
			return (int)i;
	return -1;
}

/* "server,offline": bits; the message lists what there is. */
static int parse_set(const char *option, const char *v,
		     const char *const *names, unsigned int n,
		     unsigned int *bits, struct pl_err *err)
{
	char all[128] = "";

	*bits = 0;
	for (const char *at = v;; at++) {
		size_t len = strcspn(at, ",");
		int i = find(at, len, names, n);

		if (i < 0)
			break;
		*bits |= 1u << i;
		at += len;
		if (!*at)
			return 0;
	}
	for (unsigned int i = 0; i < n; i++)
		snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s",
			 i ? ", " : "", names[i]);
	return pl_err_set(err, EINVAL, "--%s %s: give some of %s", option, v,
			  all);
}

static int set_scenario(void *conf, const char *v, struct pl_err *err)
{
	return parse_set("scenario", v, scenarios, SV_SCENARIOS,
			 &((struct sv_opts *)conf)->scenarios, err);
}

static int set_transport(void *conf, const char *v, struct pl_err *err)
{
	return parse_set("transport", v, transports, SV_TRANSPORTS,
			 &((struct sv_opts *)conf)->transports, err);
}

static int set_placement(void *conf, const char *v, struct pl_err *err)
{
	return parse_set("placement", v, lp_places, LP_PLACES,
			 &((struct sv_opts *)conf)->places, err);
}

static int set_service(void *conf, const char *v, struct pl_err *err)
{
	int i = find(v, strlen(v), services, SV_SERVICES);

	if (i < 0)
		return pl_err_set(err, EINVAL, "--service %s: give null or "
				  "fixed", v);
	((struct sv_opts *)conf)->service = (enum sv_service)i;
	return 0;
}

static int set_percentile(void *conf, const char *v, struct pl_err *err)
{
	struct sv_opts *o = conf;

	o->percentile = !strcmp(v, "90") ? 900 : !strcmp(v, "99") ? 990 :
			!strcmp(v, "99.9") ? 999 : 0;
	return o->percentile ? 0 : pl_err_set(err, EINVAL, "--percentile %s: "
					      "give 90, 99 or 99.9", v);
}

static int set_rate(void *conf, const char *v, struct pl_err *err)
{
	char *end;
	double rate = strtod(v, &end);

	if (!*v || *end || !(rate >= 1) || rate > 1e7)
		return pl_err_set(err, EINVAL, "--rate %s: give queries per "
				  "second, 1 to 10000000", v);
	((struct sv_opts *)conf)->rate = rate;
	return 0;
}

static int set_seed(void *conf, const char *v, struct pl_err *err)
{
	if (pl_parse_u64(v, 0, UINT64_MAX, &((struct sv_opts *)conf)->seed) < 0)
		return pl_err_set(err, EINVAL, "--seed %s: give a number", v);
	return 0;
}

static int parse_number(const char *option, const char *v, unsigned int min,
			unsigned int max, unsigned int *to, struct pl_err *err)
{
	uint64_t n;

	if (pl_parse_u64(v, min, max, &n) < 0)
		return pl_err_set(err, EINVAL, "--%s %s: give a number from %u "
				  "to %u", option, v, min, max);
	*to = (unsigned int)n;
	return 0;
}

#define NUMBER(field, option, min, max) \
	static int set_##field(void *conf, const char *v, struct pl_err *err) \
	{ \
		return parse_number(option, v, min, max, \
				    &((struct sv_opts *)conf)->field, err); \
	}
NUMBER(service_us, "service-us", 1, 100000)
NUMBER(sample_bytes, "sample-bytes", 1, 1u << 20)
NUMBER(samples, "samples", 1, 1u << 20)
NUMBER(bound_us, "latency-bound", 1, 10000000)
NUMBER(duration_ms, "duration", 1, 600000)
NUMBER(queries, "min-queries", 1, SV_QUERIES_MAX)
NUMBER(offline_samples, "offline-samples", 1, 1u << 24)
NUMBER(repeat, "repeat", 1, 100)
NUMBER(timeout_s, "timeout", 1, 86400)
#undef NUMBER

static int set_report(void *conf, const char *v, struct pl_err *err)
{
	return parse_number("report", v, 0, 65535, (unsigned int *)
			    &((struct sv_opts *)conf)->report_fd, err);
}

#define TEXT(field, option) \
	static int set_##field(void *conf, const char *v, struct pl_err *err) \
	{ \
		if (!*v) \
			return pl_err_set(err, EINVAL, "--" option \
					  " has an empty value"); \
		((struct sv_opts *)conf)->field = v; \
		return 0; \
	}
TEXT(addr, "server")
TEXT(json, "json")
TEXT(run_dir, "run-dir")
TEXT(cni_bin, "cni-bin")
TEXT(podlaned, "podlaned")
TEXT(congestion, "congestion-control")
#undef TEXT

static int set_security(void *conf, const char *v, struct pl_err *err)
{
	((struct sv_opts *)conf)->security = v;
	return ps_security_check(v, err);
}

/* --- the table ------------------------------------------------------------ */

#define BOTH (SV_SERVE | SV_LOAD)
#define ALL (SV_COMPARE | BOTH)
#define ASK (SV_COMPARE | SV_LOAD)

static const struct option {
	unsigned int cmds;
	struct pl_opt opt;
} table[] = {
	{ ASK, { "scenario", 0, "LIST", "single-stream, multi-stream, server, "
		 "offline (all; client: one)", set_scenario } },
	{ ALL, { "transport", 0, "LIST", "overlay, host, podlane (all; roles: "
		 "overlay)", set_transport } },
	{ SV_COMPARE, { "placement", 0, "LIST", "same-node, cross-node (both)",
			set_placement } },
	{ ALL, { "service", 0, "S", "null or fixed (null)", set_service } },
	{ ALL, { "service-us", 0, "US", "of fixed, for each sample (1000)",
		 set_service_us } },
	{ ALL, { "sample-bytes", 0, "N", "of one sample (784)",
		 set_sample_bytes } },
	{ ASK, { "samples", 0, "N", "different ones (1024)", set_samples } },
	{ ASK, { "percentile", 0, "P", "90, 99 or 99.9 (single stream 90, "
		 "others 99)", set_percentile } },
	{ ASK, { "latency-bound", 0, "US", "of the server scenario (10000)",
		 set_bound_us } },
	{ ASK, { "rate", 0, "QPS", "of the server scenario (compare: the "
		 "highest that holds)", set_rate } },
	{ ASK, { "duration", 0, "MS", "of each run, at least (1000)",
		 set_duration_ms } },
	{ ASK, { "min-queries", 0, "N", "of each run (what the percentile "
		 "needs)", set_queries } },
	{ ASK, { "offline-samples", 0, "N", "at once (24576)",
		 set_offline_samples } },
	{ SV_COMPARE, { "repeat", 0, "N", "all in turn, so often (1)",
			set_repeat } },
	{ ASK, { "seed", 0, "N", "of samples, their order and times (1)",
		 set_seed } },
	{ SV_LOAD, { "server", 0, "ADDR", "the server's address", set_addr } },
	{ SV_SERVE, { "bind", 0, "ADDR", "own address (any)", set_addr } },
	{ BOTH, { "timeout", 0, "S", "to find the other one (60)",
		  set_timeout_s } },
	{ BOTH, { "report", 0, "FD", "write JSON there", set_report } },
	{ ASK, { "json", 0, "FILE", "write the results there", set_json } },
	{ SV_COMPARE, { "run-dir", 0, "DIR", "a folder to be made for the run "
			"and removed", set_run_dir } },
	{ SV_COMPARE, { "cni-bin", 0, "PATH", "folders of the CNI plugins",
			set_cni_bin } },
	{ SV_COMPARE, { "podlaned", 0, "FILE", "the agent", set_podlaned } },
	{ SV_COMPARE, { "congestion-control", 0, "NAME", "of TCP (as the "
			"machine has it)", set_congestion } },
	{ SV_COMPARE, { "security", 0, "KIND", "between agents: none, auth or "
			"tls (none)", set_security } },
};

static size_t options_of(enum sv_cmd cmd, struct pl_opt *to)
{
	size_t n = 0;

	for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++)
		if (table[i].cmds & cmd)
			to[n++] = table[i].opt;
	return n;
}

void sv_opts_usage(FILE *out)
{
	fprintf(out, "usage: pod_serve compare|server|client [OPTION...]\n"
		"Inference over the pod network; see pod_serve(1).\n"
		"pod_serve COMMAND --help lists its options.\n");
}

/* --- whole ---------------------------------------------------------------- */

static bool is_one(unsigned int bits)
{
	return bits && !(bits & (bits - 1));
}

static int check_role(enum sv_cmd cmd, struct sv_opts *o, struct pl_err *err)
{
	if (!is_one(o->transports))
		return pl_err_set(err, EINVAL, "give one --transport");
	if (cmd != SV_LOAD)
		return 0;
	if (!o->addr)
		return pl_err_set(err, EINVAL, "client needs --server ADDR");
	if (!is_one(o->scenarios))
		return pl_err_set(err, EINVAL, "client needs one --scenario");
	if (o->scenarios == 1u << SV_SERVER && o->rate <= 0)
		return pl_err_set(err, EINVAL, "scenario server of a client "
				  "needs --rate QPS");
	return 0;
}

static int check(enum sv_cmd cmd, struct sv_opts *o, struct pl_err *err)
{
	if ((uint64_t)o->samples * o->sample_bytes > SAMPLES_BYTES_MAX)
		return pl_err_set(err, EINVAL, "--samples times --sample-bytes "
				  "is more than %u bytes; give less",
				  SAMPLES_BYTES_MAX);
	if (cmd != SV_COMPARE)
		return check_role(cmd, o, err);
	/* That is loopback, which no pod has to another one. */
	if (o->transports == 1u << SV_HOST && o->places == 1u << LP_SAME_NODE)
		return pl_err_set(err, EINVAL, "host TCP within a node is "
				  "loopback; give --placement cross-node");
	return 0;
}

int sv_opts_parse(enum sv_cmd cmd, int argc, char **argv, struct sv_opts *o,
		  struct pl_err *err)
{
	struct pl_opt opts[PL_ARRAY_SIZE(table)];
	size_t n = options_of(cmd, opts);
	bool help = false;
	int rc;

	*o = (struct sv_opts){
		.scenarios = cmd == SV_COMPARE ? (1u << SV_SCENARIOS) - 1 : 0,
		.transports = cmd == SV_COMPARE ? (1u << SV_TRANSPORTS) - 1 :
						  1u << SV_OVERLAY,
		.places = (1u << LP_PLACES) - 1,
		.service_us = 1000,
		.sample_bytes = 784,
		.samples = 1024,
		.bound_us = 10000,
		.duration_ms = 1000,
		.offline_samples = 24576,
		.repeat = 1,
		.seed = 1,
		.timeout_s = 60,
		.report_fd = -1,
	};
	rc = pl_opts_parse(opts, n, argc, argv, o, &help, err);
	if (help) {
		printf("usage: pod_serve %s [OPTION...]\n", argv[0]);
		pl_opts_print(stdout, opts, n);
		return 1;
	}
	if (rc >= 0 && rc < argc)
		rc = pl_err_set(err, EINVAL, "'%.80s' is no option", argv[rc]);
	return rc < 0 ? rc : check(cmd, o, err);
}
