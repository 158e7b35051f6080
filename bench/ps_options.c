/*
 * bench/ps_options.c - the table of options and its parser
 */
#include "bench/ps_options.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "bench/ps_cluster.h"
#include "bench/ps_congestion.h"
#include "bench/ps_kernels.h"
#include "bench/ps_names.h"
#include "bench/ps_tensors.h"

#define ROLES (PS_CMD_SERVER | PS_CMD_WORKER)
#define RAWS (PS_CMD_RAW_RECV | PS_CMD_RAW_SEND)
#define RUNS (PS_CMD_COMPARE | PS_CMD_MATRIX | PS_CMD_REPRODUCE)
#define JOB (RUNS | ROLES)
#define PODS (ROLES | RAWS)
/* Those that make a cluster and run jobs on it. */
#define CLUSTER (RUNS | PS_CMD_TRAIN)
#define JOBS (JOB | PS_CMD_TRAIN)

struct option_row {
	const char *name;
	const char *arg;		/* NULL: the option takes none */
	unsigned int cmds;
	int (*set)(struct ps_opts *o, const struct option_row *row,
		   const char *value, struct pl_err *err);
	size_t at;			/* of the field it sets, in ps_opts */
	uint64_t min, max;		/* numbers; min: value of a flag */
	const char *help;
};

static void *field(struct ps_opts *o, const struct option_row *row)
{
	return (char *)o + row->at;
}

static int set_number(struct ps_opts *o, const struct option_row *row,
		      const char *value, struct pl_err *err)
{
	uint64_t n;

	if (pl_parse_u64(value, row->min, row->max, &n))
		return pl_err_set(err, EINVAL, "--%s %s: give a number from "
				  "%llu to %llu", row->name, value,
				  (unsigned long long)row->min,
				  (unsigned long long)row->max);
	*(unsigned int *)field(o, row) = (unsigned int)n;
	return 0;
}

static int set_flag(struct ps_opts *o, const struct option_row *row,
		    const char *value, struct pl_err *err)
{
	(void)value;
	(void)err;
	*(bool *)field(o, row) = row->min;
	return 0;
}

static int set_text(struct ps_opts *o, const struct option_row *row,
		    const char *value, struct pl_err *err)
{
	if (!*value)
		return pl_err_set(err, EINVAL, "--%s is empty", row->name);
	*(const char **)field(o, row) = value;
	return 0;
}

static int set_congestion(struct ps_opts *o, const struct option_row *row,
			  const char *value, struct pl_err *err)
{
	if (strlen(value) >= PS_CONGESTION_BYTES || strpbrk(value, " \t\n"))
		return pl_err_set(err, EINVAL, "--%s: '%s' is no name of one",
				  row->name, value);
	return set_text(o, row, value, err);
}

static int set_security(struct ps_opts *o, const struct option_row *row,
			const char *value, struct pl_err *err)
{
	int rc = ps_security_check(value, err);

	return rc < 0 ? rc : set_text(o, row, value, err);
}

static int set_wire(struct ps_opts *o, const struct option_row *row,
		    const char *value, struct pl_err *err)
{
	int rc = ps_wire_parse(value, field(o, row), err);

	if (rc < 0)
		pl_err_prefix(err, "--%s", row->name);
	return rc;
}

/* The next part of a list: copied to buf, cut at a comma; NULL: no more. */
static const char *next_part(const char *list, char *buf, size_t size,
			     const struct option_row *row, struct pl_err *err)
{
	size_t len = strcspn(list, ",");

	if (len == 0 || len >= size) {
		pl_err_set(err, EINVAL, "--%s: '%.*s' in the list is %s",
			   row->name, (int)PL_MIN(len, (size_t)80), list,
			   len ? "too long" : "empty");
		return NULL;
	}
	memcpy(buf, list, len);
	buf[len] = '\0';
	return list + len;
}

static bool is_address(const char *text)
{
	unsigned char bin[16];

	return inet_pton(AF_INET, text, bin) == 1 ||
	       inet_pton(AF_INET6, text, bin) == 1;
}

/* What has a '%' is looked at when there is a number in its place. */
static bool is_host(const char *text)
{
	return bench_host_valid(text) || strchr(text, '%');
}

static int set_list(struct ps_opts *o, const struct option_row *row,
		    const char *value, bool (*is_valid)(const char *text),
		    const char *what, struct pl_err *err)
{
	struct ps_addrs *a = field(o, row);
	char *text;

	for (a->n = 0; ; value++) {
		if (a->n == row->max)
			return pl_err_set(err, EINVAL, "--%s: at most %u "
					  "addresses", row->name,
					  (unsigned int)row->max);
		text = a->text[a->n];
		value = next_part(value, text, PS_HOST_BYTES, row, err);
		if (!value)
			return -EINVAL;
		if (!is_valid(text))
			return pl_err_set(err, EINVAL, "--%s: '%s' is no %s",
					  row->name, text, what);
		a->n++;
		if (!*value)
			return 0;
	}
}

static int set_addrs(struct ps_opts *o, const struct option_row *row,
		     const char *value, struct pl_err *err)
{
	return set_list(o, row, value, is_address, "IP address", err);
}

static int set_hosts(struct ps_opts *o, const struct option_row *row,
		     const char *value, struct pl_err *err)
{
	return set_list(o, row, value, is_host, "IP address and no name", err);
}

static void models_text(char *buf, size_t size)
{
	const struct ps_model *m;
	size_t i, len = 0;

	buf[0] = '\0';
	for (i = 0; (m = ps_model_at(i)) && len < size; i++)
		len += (size_t)snprintf(buf + len, size - len, "%s%s",
					i ? ", " : "", m->name);
}

static int set_models(struct ps_opts *o, const struct option_row *row,
		      const char *value, struct pl_err *err)
{
	char name[PS_ADDR_BYTES], all[256];
	const struct ps_model *m;
	unsigned int i;

	for (o->n_models = 0; ; value++) {
		value = next_part(value, name, sizeof(name), row, err);
		if (!value)
			return -EINVAL;
		m = ps_model_find(name);
		models_text(all, sizeof(all));
		if (!m)
			return pl_err_set(err, EINVAL, "unknown model '%s', "
					  "choose from %s", name, all);
		for (i = 0; i < o->n_models; i++) {
			if (o->models[i] == m)
				return pl_err_set(err, EINVAL, "model %s "
						  "stands twice", name);
		}
		o->models[o->n_models++] = m;
		if (!*value)
			return 0;
	}
}

/* Words and their values; the first of each list is 0 or bit 0. */
struct word {
	const char *name;
	unsigned int value;
};

static const struct word transports[] = {
	{ "overlay", PS_OVERLAY }, { "podlane", PS_PODLANE },
	{ "host", PS_HOST }, { NULL, 0 },
};

static const struct word placements[] = {
	{ "same-node", PS_SAME_NODE }, { "cross-node", PS_CROSS_NODE },
	{ "both", PS_SAME_NODE | PS_CROSS_NODE }, { "spread", PS_SPREAD },
	{ NULL, 0 },
};

static const struct word strategies[] = {
	{ "parameter_server", PS_SERVER }, { "ring", PS_RING },
	{ "hierarchical", PS_HIERARCHICAL },
	{ "independent", PS_INDEPENDENT }, { NULL, 0 },
};

static const struct word local_sums[] = {
	{ "auto", PS_SUM_AUTO }, { "on", PS_SUM_ON }, { "off", PS_SUM_OFF },
	{ NULL, 0 },
};

static const struct word gpus[] = {
	{ "none", PS_GPU_NONE }, { "k80", PS_GPU_K80 },
	{ "p100", PS_GPU_P100 }, { "v100", PS_GPU_V100 }, { NULL, 0 },
};

static const char *name_of(const struct word *words, unsigned int value)
{
	while (words->name && words->value != value)
		words++;
	return words->name;
}

static int find_word(const struct word *words, const struct option_row *row,
		     const char *value, unsigned int *out, struct pl_err *err)
{
	for (; words->name; words++) {
		if (!strcmp(words->name, value)) {
			*out = words->value;
			return 0;
		}
	}
	return pl_err_set(err, EINVAL, "--%s: unknown value '%s', give %s",
			  row->name, value, row->arg);
}

/* A list of words, whose bits come together. */
static int set_words(const struct word *words, const struct option_row *row,
		     const char *value, unsigned int *out, struct pl_err *err)
{
	char name[PS_ADDR_BYTES];
	unsigned int bits = 0;

	for (*out = 0; ; value++) {
		value = next_part(value, name, sizeof(name), row, err);
		if (!value || find_word(words, row, name, &bits, err))
			return -EINVAL;
		*out |= bits;
		if (!*value)
			return 0;
	}
}

static int set_transport(struct ps_opts *o, const struct option_row *row,
			 const char *value, struct pl_err *err)
{
	return set_words(transports, row, value, &o->transports, err);
}

static int set_placement(struct ps_opts *o, const struct option_row *row,
			 const char *value, struct pl_err *err)
{
	return set_words(placements, row, value, &o->placements, err);
}

static int set_strategy(struct ps_opts *o, const struct option_row *row,
			const char *value, struct pl_err *err)
{
	return set_words(strategies, row, value, &o->strategies, err);
}

static int set_local_sum(struct ps_opts *o, const struct option_row *row,
			 const char *value, struct pl_err *err)
{
	unsigned int v = o->local_sum;
	int r = find_word(local_sums, row, value, &v, err);

	o->local_sum = (enum ps_local_sum)v;
	return r;
}

static int set_compute(struct ps_opts *o, const struct option_row *row,
		       const char *value, struct pl_err *err)
{
	unsigned int v = o->compute;
	int r = find_word(gpus, row, value, &v, err);

	o->compute = (enum ps_gpu)v;
	return r;
}

static int set_compression(struct ps_opts *o, const struct option_row *row,
			   const char *value, struct pl_err *err)
{
	char name[PS_ADDR_BYTES];
	int kind;

	for (o->compressions = 0; ; value++) {
		value = next_part(value, name, sizeof(name), row, err);
		if (!value)
			return -EINVAL;
		kind = codec_find(name);
		if (kind < 0)
			return pl_err_set(err, EINVAL, "--%s: unknown value "
					  "'%s', give %s", row->name, name,
					  row->arg);
		o->compressions |= 1u << kind;
		if (!*value)
			return 0;
	}
}

/* A list of up to `most` numbers. */
static int set_numbers(const struct option_row *row, const char *value,
		       unsigned int most, unsigned int *out,
		       unsigned int *n_out, struct pl_err *err)
{
	char text[PS_ADDR_BYTES];
	uint64_t n;

	for (*n_out = 0; ; value++) {
		value = next_part(value, text, sizeof(text), row, err);
		if (!value)
			return -EINVAL;
		if (*n_out == most ||
		    pl_parse_u64(text, row->min, row->max, &n))
			return pl_err_set(err, EINVAL, "--%s: give up to %u "
					  "numbers from %llu to %llu",
					  row->name, most,
					  (unsigned long long)row->min,
					  (unsigned long long)row->max);
		out[(*n_out)++] = (unsigned int)n;
		if (!*value)
			return 0;
	}
}

static int set_batches(struct ps_opts *o, const struct option_row *row,
		       const char *value, struct pl_err *err)
{
	return set_numbers(row, value, PS_BATCHES_MAX, o->batches,
			   &o->n_batches, err);
}

static int set_nodes(struct ps_opts *o, const struct option_row *row,
		     const char *value, struct pl_err *err)
{
	return set_numbers(row, value, PS_WORKERS_MAX, o->nodes, &o->n_nodes,
			   err);
}

/* A decimal number of row->max at most, kept in millionths. */
static int set_ppm(struct ps_opts *o, const struct option_row *row,
		   const char *value, struct pl_err *err)
{
	char *end;
	double v = strtod(value, &end);
	double most = (double)row->max;

	if (end == value || *end || !(v >= 0 && v <= most))
		return pl_err_set(err, EINVAL, "--%s %s: give a number from 0 "
				  "to %.0f", row->name, value, most);
	/* Per cent are given as such. */
	*(unsigned int *)field(o, row) =
		(unsigned int)lround(v * (row->max == 100 ? 1e4 : 1e6));
	return 0;
}

static int set_sparsity(struct ps_opts *o, const struct option_row *row,
			const char *value, struct pl_err *err)
{
	int rc = set_ppm(o, row, value, err);

	if (rc == 0)
		o->keep_ppm = 1000000 - o->keep_ppm;
	return rc;
}

static int set_fd(struct ps_opts *o, const struct option_row *row,
		  const char *value, struct pl_err *err)
{
	uint64_t n;

	if (pl_parse_u64(value, row->min, row->max, &n))
		return pl_err_set(err, EINVAL, "--%s %s: give the number of an "
				  "open descriptor", row->name, value);
	o->report_fd = (int)n;
	return 0;
}

#define AT(f) offsetof(struct ps_opts, f)

static const struct option_row rows[] = {
	{ "placement", "same-node|cross-node|both|spread", CLUSTER,
	  set_placement, 0, 0, 0, "where servers and workers are (both)" },
	{ "transport", "overlay|podlane|host", JOBS, set_transport, 0, 0, 0,
	  "how they talk; compare takes a list (overlay,podlane)" },
	{ "variable-update", "parameter_server|ring|hierarchical|independent", JOBS,
	  set_strategy, 0, 0, 0,
	  "the strategy; compare takes a list (parameter_server)" },
	{ "model", "NAME", JOBS, set_models, 0, 0, 0,
	  "whose gradients; compare takes a list (vgg16)" },
	{ "tensors", "FILE", JOB, set_text, AT(tensors), 0, 0,
	  "a model of your own: a size, or a name and a size, a line" },
	{ "workers", "N", JOBS | PS_CMD_RAW_RECV, set_number, AT(workers),
	  1, PS_WORKERS_MAX, "workers of the job (2)" },
	{ "servers", "M", JOB, set_number, AT(servers), 1, PS_SERVERS_MAX,
	  "parameter servers of the job (1)" },
	{ "batch", "N", JOB, set_number, AT(batch), 1, 1000000,
	  "images per worker and step (as published for the GPU, or 64)" },
	{ "steps", "N", JOB, set_number, AT(steps), 1, PS_GRADS_MAX,
	  "measured steps (10)" },
	{ "warmup", "N", JOB, set_number, AT(warmup), 0, PS_GRADS_MAX,
	  "steps before those (2)" },
	{ "repeat", "N", RUNS, set_number, AT(repeat), 1, 1000,
	  "runs of each transport, in turn (5)" },
	{ "compute", "none|k80|p100|v100", JOB, set_compute, 0, 0, 0,
	  "sleep for the time this GPU would take for a step (none)" },
	{ "gpu", "k80|p100|v100", JOB, set_compute, 0, 0, 0,
	  "the same as --compute" },
	{ "overlap", NULL, JOB, set_flag, AT(overlap), 1, 0,
	  "exchange each layer's gradient as soon as it is there" },
	{ "sync", NULL, JOB, set_flag, AT(async), 0, 0,
	  "a step waits for all workers (the default)" },
	{ "async", NULL, JOB, set_flag, AT(async), 1, 0,
	  "apply each worker's gradients as they come" },
	{ "raw", NULL, JOB, set_flag, AT(raw), 1, 0,
	  "move bytes only: neither fill, sum nor verify" },
	{ "local-sum", "auto|on|off", JOB, set_local_sum, 0, 0, 0,
	  "one worker per node sums for its neighbours (auto)" },
	{ "compression", "none|fp16|dgc|drop|onebit|twobit|powersgd", JOBS,
	  set_compression, 0, 0, 0,
	  "of gradients; compare and train take a list (none)" },
	{ "sparsity", "PERCENT", JOBS, set_sparsity, AT(keep_ppm), 0, 100,
	  "dgc, drop: what is not sent (99.9)" },
	{ "train", NULL, ROLES, set_flag, AT(train), 1, 0,
	  "learn from data: with --model mlp or conv" },
	{ "epochs", "N", PS_CMD_TRAIN | ROLES, set_number, AT(epochs), 1,
	  PS_EPOCHS_MAX, "times through the data (12)" },
	{ "seed", "N", PS_CMD_TRAIN | ROLES, set_number, AT(seed), 0,
	  UINT32_MAX, "of parameters and order; the first one of train (1)" },
	{ "seeds", "N", PS_CMD_TRAIN, set_number, AT(seeds), 1, 100,
	  "runs, each with the next seed (3)" },
	{ "rate", "R", PS_CMD_TRAIN | ROLES, set_ppm, AT(rate_ppm), 0, 10,
	  "learning rate at the start (0.05)" },
	{ "target", "PERCENT", PS_CMD_TRAIN, set_ppm, AT(target_ppm), 0, 100,
	  "accuracy of the test set that is to be reached (87)" },
	{ "batches", "N[,N...]", PS_CMD_TRAIN, set_batches, 0, 1, 1000000,
	  "images per worker and step, in turn (64)" },
	{ "data", "DIR", PS_CMD_TRAIN | PS_CMD_WORKER, set_text, AT(data), 0,
	  0, "of Fashion-MNIST (where Debian's package has it)" },
	{ "json", "FILE", CLUSTER, set_text, AT(json), 0, 0,
	  "write the results there" },
	{ "csv", "FILE", RUNS, set_text, AT(csv), 0, 0,
	  "write the results there, a line each" },
	{ "minutes", "N", RUNS, set_number, AT(minutes), 1, 1440,
	  "leave out what would take longer (matrix: 15; no limit)" },
	{ "plot", "FILE.png", RUNS, set_text, AT(plot), 0, 0,
	  "draw the results there, needs gnuplot" },
	{ "run-dir", "DIR", CLUSTER, set_text, AT(run_dir), 0, 0,
	  "folder for the run, must not exist (a temporary one)" },
	{ "cni-bin", "DIR", CLUSTER, set_text, AT(cni_bin), 0, 0,
	  "where the CNI plugins are (beside the build, /opt/cni/bin)" },
	{ "podlaned", "FILE", CLUSTER, set_text, AT(podlaned), 0, 0,
	  "the agent's program (beside the build, PATH)" },
	{ "congestion-control", "NAME", CLUSTER, set_congestion,
	  AT(congestion), 0, 0,
	  "of TCP in all namespaces, as reno or bbr (the machine's)" },
	{ "link", "RATE[,DELAY]", CLUSTER, set_wire, AT(wire), 0, 0,
	  "of the wire between the nodes, as 10g or 1g,50us (no limit)" },
	{ "security", "none|auth|tls", CLUSTER, set_security,
	  AT(security), 0, 0,
	  "between the agents: plain text, a key, or encryption (none)" },
	{ "bind", "ADDR", PODS & ~PS_CMD_RAW_SEND, set_addrs,
	  AT(bind), 0, 1, "own address to listen on (any)" },
	{ "peers", "HOST[,HOST...]", PS_CMD_WORKER, set_hosts, AT(peers),
	  0, PS_WORKERS_MAX, "ring, hierarchical: all workers' pods, in order of ranks" },
	{ "nodes", "N[,N...]", PS_CMD_WORKER, set_nodes, 0, 1, PS_WORKERS_MAX,
	  "hierarchical: how many workers each node has, in order of ranks" },
	{ "server", "HOST[,HOST...]", PS_CMD_WORKER | PS_CMD_RAW_SEND,
	  set_hosts, AT(server), 0, PS_SERVERS_MAX,
	  "the servers' pods, in order of their ranks" },
	{ "port", "N", PODS, set_number, AT(port), 1, 65535,
	  "port or name of the service (4711)" },
	{ "rank", "N", PODS, set_number, AT(rank), 0, PS_WORKERS_MAX - 1,
	  "which of the workers or servers this is (0)" },
	{ "local", "HOST[,HOST...]", PS_CMD_WORKER, set_hosts, AT(local),
	  0, PS_WORKERS_MAX, "pods of this node's workers, the first sums" },
	{ "node-rank", "N", PS_CMD_WORKER, set_number, AT(node_rank), 0,
	  PS_WORKERS_MAX - 1, "own place in --local (0)" },
	{ "duration", "MS", PS_CMD_RAW_SEND, set_number, AT(duration_ms), 1,
	  600000, "milliseconds to stream (1000)" },
	{ "bidir", NULL, RAWS, set_flag, AT(bidir), 1, 0,
	  "stream both ways at once" },
	{ "timeout", "S", PODS, set_number, AT(timeout_s), 1, 86400,
	  "seconds to wait for the others to appear (30)" },
	{ "report", "FD", PODS, set_fd, 0, 0, 1 << 20,
	  "write the result as JSON to this descriptor" },
	{ "node-name", "NAME", ROLES, set_text, AT(node_name), 0, 0,
	  "where this is, for the result" },
};

#define PACKED_DEFAULTS .compressions = 1u << CODEC_NONE, .keep_ppm = 1000, \
	.epochs = 12, .seed = 1, .rate_ppm = 50000,

static const struct ps_opts defaults = {
	.transports = PS_OVERLAY | PS_PODLANE,
	.placements = PS_SAME_NODE | PS_CROSS_NODE,
	.strategies = PS_SERVER,
	.workers = 2, .servers = 1, .steps = 10, .warmup = 2, .repeat = 5,
	.port = PS_PORT_DEFAULT, .report_fd = -1, .timeout_s = 30,
	.duration_ms = 1000, PACKED_DEFAULTS
};

static const struct ps_opts train_defaults = {
	.transports = PS_OVERLAY | PS_PODLANE,
	.placements = PS_SAME_NODE,
	.strategies = PS_SERVER,
	.workers = 4, .servers = 1, .repeat = 1, .seeds = 3,
	.target_ppm = 870000, .batches = { 64 }, .n_batches = 1,
	.port = PS_PORT_DEFAULT, .report_fd = -1, .timeout_s = 30,
	PACKED_DEFAULTS
};

/* All that there is, once over, on both nodes. */
static const struct ps_opts matrix_defaults = {
	.transports = PS_OVERLAY | PS_PODLANE | PS_HOST,
	.placements = PS_SPREAD,
	.strategies = PS_SERVER | PS_RING | PS_HIERARCHICAL | PS_INDEPENDENT,
	.workers = 2, .servers = 2, .steps = 3, .warmup = 1, .repeat = 1,
	.port = PS_PORT_DEFAULT, .report_fd = -1, .timeout_s = 30,
	.minutes = 15, PACKED_DEFAULTS
};

/* Two nodes with two workers each, as their seeds were. */
static const struct ps_opts reproduce_defaults = {
	.transports = PS_OVERLAY | PS_PODLANE,
	.placements = PS_SPREAD,
	.strategies = PS_SERVER | PS_RING | PS_HIERARCHICAL,
	.workers = 4, .servers = 2, .steps = 5, .warmup = 1, .repeat = 3,
	.compute = PS_GPU_K80, .wire = { .bytes_per_s = 1250000000 },
	.port = PS_PORT_DEFAULT, .report_fd = -1, .timeout_s = 30,
	PACKED_DEFAULTS
};

/* Workers of a ring that are on one node have no other one to be apart from. */
static int check_compare(struct ps_opts *o, struct pl_err *err)
{
	if (o->placements & PS_CROSS_NODE && !(o->strategies & PS_SERVER))
		return pl_err_set(err, EINVAL, "--placement cross-node has "
				  "servers on the other node; for a ring over "
				  "both nodes give --placement spread");
	if (o->placements & PS_SPREAD && o->workers < 2)
		return pl_err_set(err, EINVAL, "--placement spread needs two "
				  "workers at least");
	return 0;
}

static int check_reproduce(const struct ps_opts *o, struct pl_err *err)
{
	if (o->placements != PS_SPREAD || !(o->strategies & PS_SERVER))
		return pl_err_set(err, EINVAL, "what is reproduced are "
				  "parameter servers spread over two nodes");
	if (o->compute == PS_GPU_NONE || o->raw)
		return pl_err_set(err, EINVAL, "what is reproduced has a GPU, "
				  "and sums what it sends");
	return 0;
}

static bool can_learn(const struct ps_model *m)
{
	return m == ps_model_find("mlp") || m == ps_model_find("conv");
}

/* Whether some of the jobs send messages of compress.h. */
static int check_packed(enum ps_cmd cmd, const struct ps_opts *o,
			struct pl_err *err)
{
	const bool train = o->train || cmd == PS_CMD_TRAIN;
	const unsigned int known = PS_SERVER | PS_RING |
				   (train ? 0 : PS_INDEPENDENT);

	for (unsigned int i = 0; train && i < o->n_models; i++)
		if (!can_learn(o->models[i]))
			return pl_err_set(err, EINVAL, "%s can't be trained: "
					  "choose --model mlp or conv",
					  o->models[i]->name);
	if (!train && o->compressions == 1u << CODEC_NONE)
		return 0;
	if (o->async || o->raw || o->overlap)
		return pl_err_set(err, EINVAL, "--compression goes with none "
				  "of --async, --raw and --overlap");
	if (o->strategies & ~known)
		return pl_err_set(err, EINVAL, "%s goes with parameter_server "
				  "and ring", train ? "training" :
				  "--compression");
	if (o->strategies & PS_SERVER && o->servers > 1)
		return pl_err_set(err, EINVAL, "%s goes with one server",
				  train ? "training" : "--compression");
	return 0;
}

static unsigned int sum_of(const unsigned int *v, unsigned int n)
{
	unsigned int sum = 0;

	for (unsigned int i = 0; i < n; i++)
		sum += v[i];
	return sum;
}

/* What no single option can tell. */
static int check(enum ps_cmd cmd, struct ps_opts *o, struct pl_err *err)
{
	if ((uint64_t)(o->steps + o->warmup) * o->workers > PS_GRADS_MAX)
		return pl_err_set(err, EINVAL, "steps times workers must stay "
				  "below %u: beyond, sums of floats are not "
				  "exact", PS_GRADS_MAX);
	if (o->async && o->strategies & ~(unsigned int)PS_SERVER)
		return pl_err_set(err, EINVAL, "--async is for "
				  "--variable-update parameter_server");
	if (o->overlap && o->compute == PS_GPU_NONE)
		return pl_err_set(err, EINVAL, "--overlap needs --gpu: without "
				  "computing there is nothing to overlap with");
	if (check_packed(cmd, o, err) < 0)
		return -err->code;
	if (cmd == PS_CMD_REPRODUCE && check_reproduce(o, err) < 0)
		return -err->code;
	if (cmd & CLUSTER)
		return check_compare(o, err);
	if (cmd & RAWS)
		return 0;
	if (o->transports & (o->transports - 1))
		return pl_err_set(err, EINVAL, "give one --transport");
	if (o->compressions & (o->compressions - 1))
		return pl_err_set(err, EINVAL, "give one --compression");
	if (o->n_models > 1)
		return pl_err_set(err, EINVAL, "give one --model");
	if (o->strategies & (o->strategies - 1))
		return pl_err_set(err, EINVAL, "give one --variable-update");
	if (o->rank >= (cmd == PS_CMD_SERVER ? o->servers : o->workers))
		return pl_err_set(err, EINVAL, "--rank %u: ranks begin at 0 "
				  "and end before the number of %s", o->rank,
				  cmd == PS_CMD_SERVER ? "servers" : "workers");
	if (cmd == PS_CMD_SERVER)
		return 0;
	if (o->strategies & (PS_RING | PS_HIERARCHICAL) &&
	    o->peers.n != o->workers)
		return pl_err_set(err, EINVAL, "--peers needs %u address(es), "
				  "one per worker", o->workers);
	if (o->strategies == PS_HIERARCHICAL &&
	    sum_of(o->nodes, o->n_nodes) != o->workers)
		return pl_err_set(err, EINVAL, "--nodes needs numbers that "
				  "add up to --workers %u", o->workers);
	if (o->strategies == PS_SERVER && o->server.n != o->servers)
		return pl_err_set(err, EINVAL, "--server needs %u "
				  "address(es), one per server", o->servers);
	if (o->local.n && o->node_rank >= o->local.n)
		return pl_err_set(err, EINVAL, "--node-rank %u is outside of "
				  "--local", o->node_rank);
	if (o->local_sum == PS_SUM_ON && o->local.n < 2)
		return pl_err_set(err, EINVAL, "--local-sum on needs --local "
				  "with all workers of this node");
	return 0;
}

static const struct option_row *find_row(enum ps_cmd cmd, const char *arg,
					 size_t len)
{
	size_t i;

	for (i = 0; i < PL_ARRAY_SIZE(rows); i++) {
		if (rows[i].cmds & cmd && strlen(rows[i].name) == len &&
		    !strncmp(rows[i].name, arg, len))
			return &rows[i];
	}
	return NULL;
}

#define ENV "PS_OPT_"

static void env_name(const char *option, char name[64])
{
	size_t at = strlen(ENV);

	pl_format(name, 64, "%s%s", ENV, option);
	for (; name[at]; at++)
		name[at] = name[at] == '-' ? '_' : (char)toupper(name[at]);
}

/* What is empty is not there, as in manifests; a flag is 1 or 0. */
static int set_env(struct ps_opts *o, const struct option_row *row,
		   const char *name, struct pl_err *err)
{
	const char *value = getenv(name);
	int rc;

	if (!value || !*value || (!row->arg && !strcmp(value, "0")))
		return 0;
	if (!row->arg && strcmp(value, "1"))
		rc = pl_err_set(err, EINVAL, "give 0 or 1");
	else
		rc = row->set(o, row, value, err);
	if (rc < 0)
		pl_err_prefix(err, "%s=%.100s", name, value);
	return rc;
}

static int parse_env(enum ps_cmd cmd, struct ps_opts *o, struct pl_err *err)
{
	char name[64];
	int rc = 0;

	for (size_t i = 0; i < PL_ARRAY_SIZE(rows) && rc == 0; i++) {
		env_name(rows[i].name, name);
		/* Its roles are what their command says. */
		if (cmd & CLUSTER)
			unsetenv(name);
		else if (rows[i].cmds & cmd & ROLES)
			rc = set_env(o, &rows[i], name, err);
	}
	return rc;
}

static int parse_one(enum ps_cmd cmd, char **argv, int *i, struct ps_opts *o,
		     struct pl_err *err)
{
	const char *arg = argv[*i], *value;
	const struct option_row *row;
	size_t len;

	if (strncmp(arg, "--", 2))
		return pl_err_set(err, EINVAL, "unexpected argument '%s'", arg);
	arg += 2;
	len = strcspn(arg, "=");
	value = arg[len] ? arg + len + 1 : NULL;
	row = find_row(cmd, arg, len);
	if (!row)
		return pl_err_set(err, EINVAL, "unknown option '--%.*s', see "
				  "ps_throughput %s --help", (int)len, arg,
				  argv[0]);
	if (!row->arg && value)
		return pl_err_set(err, EINVAL, "--%s takes no value",
				  row->name);
	if (row->arg && !value)
		value = argv[++*i];
	if (row->arg && !value)
		return pl_err_set(err, EINVAL, "--%s needs a value: %s",
				  row->name, row->arg);
	return row->set(o, row, value, err);
}

static void all_models(struct ps_opts *o)
{
	for (o->n_models = 0; o->n_models < PS_MODELS_PUBLISHED; o->n_models++)
		o->models[o->n_models] = ps_model_at(o->n_models);
}

static int choose_model(enum ps_cmd cmd, struct ps_opts *o,
			struct pl_err *err)
{
	int r = 0;

	if (o->tensors && o->n_models)
		return pl_err_set(err, EINVAL, "give --model or --tensors, "
				  "not both");
	if (o->tensors)
		r = ps_tensors_load(o->tensors, &o->own, err);
	if (r == 0 && o->n_models == 0 && cmd == PS_CMD_MATRIX && !o->own)
		all_models(o);
	/* Those of the published facts. */
	if (r == 0 && o->n_models == 0 && cmd == PS_CMD_REPRODUCE && !o->own)
		r = set_models(o, NULL, "googlenet,vgg16", err);
	if (r == 0 && o->n_models == 0)
		o->models[o->n_models++] = o->own ? o->own :
					   ps_model_find(cmd == PS_CMD_TRAIN ?
							 "mlp" : "vgg16");
	return r;
}

static int expand_names(struct ps_opts *o, struct pl_err *err)
{
	int r = ps_names_expand(&o->server, o->servers, "server", err);

	if (r == 0)
		r = ps_names_expand(&o->peers, o->workers, "peers", err);
	return r < 0 ? r : ps_names_expand(&o->local, o->workers, "local",
					   err);
}

int ps_opts_parse(enum ps_cmd cmd, int argc, char **argv, struct ps_opts *o,
		  struct pl_err *err)
{
	int i, r;

	*o = cmd == PS_CMD_MATRIX ? matrix_defaults :
	     cmd == PS_CMD_REPRODUCE ? reproduce_defaults :
	     cmd == PS_CMD_TRAIN ? train_defaults : defaults;
	r = parse_env(cmd, o, err);
	if (r)
		return r;
	for (i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			ps_opts_usage(cmd, stdout);
			return 1;
		}
		r = parse_one(cmd, argv, &i, o, err);
		if (r)
			return r;
	}
	r = choose_model(cmd, o, err);
	if (r == 0)
		r = expand_names(o, err);
	return r < 0 ? r : check(cmd, o, err);
}

void ps_opts_fini(struct ps_opts *o)
{
	ps_tensors_free(o->own);
	o->own = NULL;
}

void ps_opts_usage(enum ps_cmd cmd, FILE *out)
{
	char left[64];
	size_t i;

	for (i = 0; i < PL_ARRAY_SIZE(rows); i++) {
		if (!(rows[i].cmds & cmd))
			continue;
		snprintf(left, sizeof(left), "--%s %s", rows[i].name,
			 rows[i].arg ? rows[i].arg : "");
		fprintf(out, "  %-38s %s\n", left, rows[i].help);
	}
}

unsigned int ps_opts_batch(const struct ps_opts *o, const struct ps_model *m)
{
	return o->batch ? o->batch : ps_model_batch(m, o->compute);
}

enum codec_kind ps_opts_compression(const struct ps_opts *o)
{
	return (enum codec_kind)__builtin_ctz(o->compressions);
}

bool ps_opts_is_packed(const struct ps_opts *o)
{
	return o->train || (ps_opts_compression(o) != CODEC_NONE &&
			    o->strategies != PS_INDEPENDENT);
}

const char *ps_transport_name(enum ps_transport t)
{
	return name_of(transports, t);
}

const char *ps_placement_name(enum ps_placement p)
{
	return name_of(placements, p);
}

const char *ps_strategy_name(enum ps_strategy s)
{
	return name_of(strategies, s);
}

const char *ps_local_sum_name(enum ps_local_sum s)
{
	return name_of(local_sums, s);
}
