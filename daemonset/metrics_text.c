/*
 * daemonset/metrics_text.c - the numbers of an agent in Prometheus's format
 *
 * All series of one name stand together, so pods are looked at once, into
 * arrays, and then each family goes through these.
 */
#include <errno.h>
#include <event2/buffer.h>
#include <inttypes.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/util.h"
#include "daemonset/agent_internal.h"
#include "daemonset/metrics.h"
#include "daemonset/metrics_print.h"
#include "shm/wake.h"

#define PODS_MAX 1000

/* --- histograms ----------------------------------------------------------- */

struct histogram {
	const char *name, *labels;	/* "op=\"add\"" */
	const uint32_t *bounds_us;	/* of all buckets but the last */
	const uint64_t *buckets;	/* each by itself */
	size_t n_buckets;
	uint64_t ns;
};

static void print_histogram(struct evbuffer *b, const struct histogram *h)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < h->n_buckets - 1; i++) {
		sum = pl_stat(sum + h->buckets[i]);
		evbuffer_add_printf(b, "%s_bucket{%s,le=\"%g\"} %" PRIu64 "\n",
				    h->name, h->labels, h->bounds_us[i] / 1e6,
				    sum);
	}
	sum = pl_stat(sum + h->buckets[h->n_buckets - 1]);
	evbuffer_add_printf(b, "%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n"
			    "%s_sum{%s} %.9g\n%s_count{%s} %" PRIu64 "\n",
			    h->name, h->labels, sum, h->name, h->labels,
			    (double)h->ns / 1e9, h->name, h->labels, sum);
}

/* --- pods ----------------------------------------------------------------- */

enum value {
	V_SENT,
	V_RECEIVED = V_SENT + PL_FLOW_ITEMS,
	V_LANES_EVER = V_RECEIVED + PL_FLOW_ITEMS,
	V_QUOTA, V_HALF_OPEN, V_POLICY, V_COMPLAINTS,
	V_LANES, V_CONNECTIONS, V_LISTENERS, V_REGIONS, V_SHARED, V_LIMIT,
	V_REGION_BYTES, V_OPENINGS,
	V_WAKE_NS, V_WAKES,
	VALUES = V_WAKES + PL_WAKE_BUCKETS,
};

struct row {
	const char *ns, *name;
	uint64_t v[VALUES];
};

/* Series of one name follow each other. */
static const struct series {
	const char *name, *label, *type, *help;
	int value;
	double scale;
} pod_series[] = {
#define FLOW(name, item, help)                                               \
	{ name, ",direction=\"sent\"", "counter", help, V_SENT + (item), 1 },  \
	{ name, ",direction=\"received\"", "counter", help,                  \
	  V_RECEIVED + (item), 1 }
	FLOW("podlane_pod_bytes_total", PL_FLOW_BYTES,
	     "Bytes over lanes of the pod, as it says."),
	FLOW("podlane_pod_messages_total", PL_FLOW_MESSAGES,
	     "Calls that published bytes, or gave them back."),
	FLOW("podlane_pod_doorbells_total", PL_FLOW_DOORBELLS,
	     "Doorbells that the pod rang."),
	FLOW("podlane_pod_waits_total", PL_FLOW_WAITS,
	     "Waits for space, or for bytes."),
	FLOW("podlane_pod_sleeps_total", PL_FLOW_SLEEPS,
	     "Waits in which the pod slept."),
	FLOW("podlane_pod_errors_total", PL_FLOW_ERRORS,
	     "Calls that failed for another reason than waiting."),
#undef FLOW
	{ "podlane_pod_wait_seconds_total", ",direction=\"sent\"", "counter",
	  "Time in waits.", V_SENT + PL_FLOW_WAIT_NS, 1e-9 },
	{ "podlane_pod_wait_seconds_total", ",direction=\"received\"",
	  "counter", "Time in waits.", V_RECEIVED + PL_FLOW_WAIT_NS, 1e-9 },
	{ "podlane_pod_checksum_errors_total", "", "counter",
	  "Received bytes that had changed on their way, by lanes.",
	  V_RECEIVED + PL_FLOW_BAD_SUMS, 1 },
	{ "podlane_pod_lanes_total", "", "counter",
	  "Ends of lanes that the pod had or has.", V_LANES_EVER, 1 },
	{ "podlane_pod_refused_total", ",reason=\"quota\"", "counter",
	  "What the pod, or others of it, were refused.", V_QUOTA, 1 },
	{ "podlane_pod_refused_total", ",reason=\"half_open\"", "counter", "",
	  V_HALF_OPEN, 1 },
	{ "podlane_pod_refused_total", ",reason=\"policy\"", "counter", "",
	  V_POLICY, 1 },
	{ "podlane_pod_complaints_total", "", "counter",
	  "Bad behaviour of the pod that was logged, or would have been.",
	  V_COMPLAINTS, 1 },
	{ "podlane_pod_lanes", "", "gauge", "Ends of lanes, awaited ones too.",
	  V_LANES, 1 },
	{ "podlane_pod_connections", "", "gauge",
	  "Connections of the pod's libraries.", V_CONNECTIONS, 1 },
	{ "podlane_pod_listeners", "", "gauge", "Listeners of the pod.",
	  V_LISTENERS, 1 },
	{ "podlane_pod_regions", "", "gauge",
	  "Regions that the pod owns or has open.", V_REGIONS, 1 },
	{ "podlane_pod_region_bytes", "", "gauge",
	  "Bytes of data of the regions that the pod owns.", V_REGION_BYTES,
	  1 },
	{ "podlane_pod_region_openings", "", "gauge",
	  "Openings of its regions by pods of this node.", V_OPENINGS, 1 },
	{ "podlane_pod_shared_bytes", "", "gauge",
	  "Memory that counts against the pod's quota.", V_SHARED, 1 },
	{ "podlane_pod_shared_bytes_limit", "", "gauge", "That quota.",
	  V_LIMIT, 1 },
};

static void take(struct row *r, const struct pl_pod *pod)
{
	const _Atomic uint64_t *e = pod->counts->events;
	const struct pl_usage *u = &pod->usage;
	const struct pl_region_own *own;
	struct pl_flow tx, rx;
	struct pl_wakes w;

	r->ns = pod->ns;
	r->name = pod->name;
	pl_pod_traffic(pod, &tx, &rx);
	memcpy(&r->v[V_SENT], tx.n, sizeof(tx.n));
	memcpy(&r->v[V_RECEIVED], rx.n, sizeof(rx.n));
	r->v[V_LANES_EVER] = u->lanes + pl_stat_read(&e[PL_POD_LANES]);
	r->v[V_QUOTA] = pl_stat_read(&e[PL_POD_REFUSED_QUOTA]);
	r->v[V_HALF_OPEN] = pl_stat_read(&e[PL_POD_REFUSED_HALF_OPEN]);
	r->v[V_POLICY] = pl_stat_read(&e[PL_POD_REFUSED_POLICY]);
	r->v[V_COMPLAINTS] = pl_stat_read(&e[PL_POD_COMPLAINTS]);
	r->v[V_LANES] = u->lanes;
	r->v[V_CONNECTIONS] = u->connections;
	r->v[V_LISTENERS] = u->listeners;
	r->v[V_REGIONS] = u->regions;
	r->v[V_SHARED] = u->bytes;
	r->v[V_LIMIT] = pl_pod_bytes_max(pod);
	pl_pod_wakes(pod, &w);
	r->v[V_WAKE_NS] = w.ns;
	memcpy(&r->v[V_WAKES], w.n, sizeof(w.n));
	for (own = pod->regions; own; own = own->hh.next) {
		r->v[V_REGION_BYTES] += own->size;
		r->v[V_OPENINGS] += own->n_openings;
	}
}

static int by_name(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int c = strcmp(x->ns, y->ns);

	return c ? c : strcmp(x->name, y->name);
}

/* Pods of one name: a StatefulSet's that comes while the last one goes. */
static size_t merge(struct row *rows, size_t n)
{
	size_t out = 0;

	qsort(rows, n, sizeof(*rows), by_name);
	for (size_t i = 1; i < n; i++) {
		if (by_name(&rows[out], &rows[i])) {
			rows[++out] = rows[i];
			continue;
		}
		for (int k = 0; k < VALUES; k++)
			rows[out].v[k] += rows[i].v[k];
	}
	return n ? out + 1 : 0;
}

static void print_series(struct evbuffer *b, const struct row *rows, size_t n,
			 const struct series *s)
{
	char ns[LABEL_BYTES], name[LABEL_BYTES];

	for (size_t i = 0; i < n; i++)
		evbuffer_add_printf(b, "%s{namespace=\"%s\",pod=\"%s\"%s} "
				    "%.15g\n", s->name, escape(rows[i].ns, ns),
				    escape(rows[i].name, name), s->label,
				    (double)rows[i].v[s->value] * s->scale);
}

static bool has_woken(const struct row *r)
{
	for (int i = 0; i < PL_WAKE_BUCKETS; i++)
		if (r->v[V_WAKES + i])
			return true;
	return false;
}

/* Many series each, so only of pods that have something to show. */
static void print_wakes(struct evbuffer *b, const struct row *rows, size_t n)
{
	static const char name[] = "podlane_pod_wakeup_seconds";
	char ns[LABEL_BYTES], pod[LABEL_BYTES], labels[2 * LABEL_BYTES + 32];

	family(b, name, "histogram", "From the doorbell of a lane until the "
	       "pod's thread, which slept, ran again.");
	for (size_t i = 0; i < n; i++) {
		const struct histogram h = {
			name, labels, pl_wake_bounds_us, &rows[i].v[V_WAKES],
			PL_WAKE_BUCKETS, rows[i].v[V_WAKE_NS]
		};

		if (!has_woken(&rows[i]))
			continue;
		snprintf(labels, sizeof(labels), "namespace=\"%s\",pod=\"%s\"",
			 escape(rows[i].ns, ns), escape(rows[i].name, pod));
		print_histogram(b, &h);
	}
}

static int print_pods(const struct pl_pods *pods, struct evbuffer *b)
{
	size_t all = HASH_COUNT(pods->by_ns), n = 0;
	pl_auto_free struct row *rows = calloc(PL_MIN(all, PODS_MAX) + 1,
					       sizeof(*rows));
	const struct pl_pod *pod;
	const char *last = "";

	if (!rows)
		return -ENOMEM;
	for (pod = pods->by_ns; pod && n < PODS_MAX; pod = pod->hh.next)
		take(&rows[n++], pod);
	n = merge(rows, n);
	for (size_t i = 0; i < PL_ARRAY_SIZE(pod_series); i++) {
		const struct series *s = &pod_series[i];

		if (strcmp(last, s->name))
			family(b, s->name, s->type, s->help);
		last = s->name;
		print_series(b, rows, n, s);
	}
	print_wakes(b, rows, n);
	one(b, "podlane_pods", "gauge", "Pods of this node.", (double)all);
	one(b, "podlane_pods_without_series", "gauge",
	    "Pods beyond the bound, which have no series of their own.",
	    (double)(all - PL_MIN(all, PODS_MAX)));
	return 0;
}

/* --- lanes, regions, nodes ------------------------------------------------ */

#define PATHS_MAX 8

/* How many of something there are by path ("shm", "tcp"). */
struct by_path {
	const char *path[PATHS_MAX];
	unsigned int n[PATHS_MAX];
};

static void add_path(struct by_path *p, const char *path)
{
	for (int i = 0; i < PATHS_MAX; i++) {
		if (p->path[i] && strcmp(p->path[i], path))
			continue;
		p->path[i] = path;
		p->n[i]++;
		return;
	}
}

static void print_by_path(struct evbuffer *b, const char *name,
			  const char *help, const struct by_path *p)
{
	family(b, name, "gauge", help);
	for (int i = 0; i < PATHS_MAX && p->path[i]; i++)
		evbuffer_add_printf(b, "%s{path=\"%s\"} %u\n", name, p->path[i],
				    p->n[i]);
}

static void print_broker(const struct pl_broker *k, struct evbuffer *b)
{
	struct by_path lanes = { .n = { 0 } }, open = { .n = { 0 } };
	const struct pl_region_opening *o;
	const struct pl_lane_rec *l;
	unsigned int pending = 0;

	for (l = k->lanes; l; l = l->hh.next) {
		if (l->is_open)
			add_path(&lanes, l->path);
		else
			pending++;
	}
	for (o = k->openings; o; o = o->hh.next)
		if (!o->is_pending)
			add_path(&open, o->path);
	print_by_path(b, "podlane_lanes", "Lanes of pods of this node, by what "
		      "carries them.", &lanes);
	one(b, "podlane_lanes_connecting", "gauge",
	    "Lanes whose answer is awaited.", pending);
	print_by_path(b, "podlane_region_openings",
		      "Openings of regions by pods of this node.", &open);
}

/* Series of one name follow each other. */
static const struct {
	const char *name, *label, *help;
	enum pl_carry_item item;
} carried[] = {
	{ "podlane_carried_puts_total", "",
	  "Pieces of lanes' bytes put to other nodes.", PL_CARRY_PUTS },
	{ "podlane_carried_bytes_total", "", "Bytes of lanes put there.",
	  PL_CARRY_PUT_BYTES },
	{ "podlane_carried_again_bytes_total", "",
	  "Of them, a second time or more, after a loss.",
	  PL_CARRY_AGAIN_BYTES },
	{ "podlane_carried_head_tail_puts_total", "", "Puts of lanes' counters.",
	  PL_CARRY_COUNTER_PUTS },
	{ "podlane_carried_notifies_total", "",
	  "Puts of counters that came from there.", PL_CARRY_NOTIFIES },
	{ "podlane_carried_doorbells_total", "{rung_by=\"agent\"}",
	  "Doorbells between this agent and pods.", PL_CARRY_RINGS },
	{ "podlane_carried_doorbells_total", "{rung_by=\"pod\"}", "",
	  PL_CARRY_RUNG },
	{ "podlane_lane_resumes_total", "",
	  "Lanes to other nodes that went on after a loss.",
	  PL_CARRY_RESUMES },
};

static void print_carried(const struct pl_remote *r, struct evbuffer *b)
{
	struct pl_carry_sum sum;
	const char *last = "";

	pl_remote_carried(r, &sum);
	for (size_t i = 0; i < PL_ARRAY_SIZE(carried); i++) {
		if (strcmp(last, carried[i].name))
			family(b, carried[i].name, "counter", carried[i].help);
		last = carried[i].name;
		evbuffer_add_printf(b, "%s%s %" PRIu64 "\n", last,
				    carried[i].label, sum.n[carried[i].item]);
	}
}

/* --- the plugin's requests ------------------------------------------------ */

static void print_ended(struct evbuffer *b, const struct pl_op_count *ops)
{
	static const char name[] = "podlane_requests_total";

	family(b, name, "counter", "Requests of the CNI plugin, by how they "
	       "ended.");
	for (int k = 0; k < PL_OP_KINDS; k++)
		for (int c = 0; c < PL_OP_CODES; c++) {
			const char *code = c ? strerrorname_np(c) : "OK";

			if (!c || ops[k].ended[c])
				evbuffer_add_printf(b, "%s{op=\"%s\",code="
						    "\"%s\"} %" PRIu64 "\n",
						    name, pl_op_name(k),
						    code ? code : "other",
						    ops[k].ended[c]);
		}
}

static void print_durations(struct evbuffer *b, const struct pl_op_count *ops)
{
	static const char name[] = "podlane_request_duration_seconds";

	family(b, name, "histogram", "How long the agent took for them.");
	for (int k = 0; k < PL_OP_KINDS; k++) {
		char label[32];
		const struct histogram h = {
			name, label, pl_op_bounds_us, ops[k].buckets,
			PL_OP_BUCKETS, ops[k].ns
		};

		snprintf(label, sizeof(label), "op=\"%s\"", pl_op_name(k));
		print_histogram(b, &h);
	}
}

/* --- the agent ------------------------------------------------------------ */

static double resident_bytes(void)
{
	pl_auto_free char *text = NULL;
	unsigned long long total, resident;
	size_t len;

	if (pl_file_read("/proc/self/statm", 4096, &text, &len, NULL) < 0 ||
	    sscanf(text, "%llu %llu", &total, &resident) != 2)
		return 0;
	return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static double open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	double n = -1;		/* that of the folder itself */

	if (!d)
		return 0;
	for (const struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static double seconds(const struct timeval *tv)
{
	return (double)tv->tv_sec + (double)tv->tv_usec / 1e6;
}

static void print_process(struct evbuffer *b)
{
	struct rusage u;

	if (getrusage(RUSAGE_SELF, &u) == 0)
		one(b, "process_cpu_seconds_total", "counter",
		    "CPU time of the agent.",
		    seconds(&u.ru_utime) + seconds(&u.ru_stime));
	one(b, "process_resident_memory_bytes", "gauge",
	    "Resident memory of the agent.", resident_bytes());
	one(b, "process_open_fds", "gauge", "Its open descriptors.",
	    open_fds());
}

static void print_agent(const struct pl_agent *a, struct evbuffer *b)
{
	const char *problem = a->registry ?
			      pl_registry_source_problem(a->registry) : "";
	char version[LABEL_BYTES], node[LABEL_BYTES];

	family(b, "podlane_build_info", "gauge", "Always 1.");
	evbuffer_add_printf(b, "podlane_build_info{version=\"%s\",node=\"%s\"} "
			    "1\n", escape(PL_VERSION, version),
			    escape(a->args->node, node));
	one(b, "podlane_ready", "gauge", "Whether CNI ADD can be served.",
	    pl_agent_ready(a, NULL) == 0);
	one(b, "podlane_registry_nodes", "gauge",
	    "Nodes in the registry, with this one.",
	    (double)pl_agent_registry(a)->n);
	one(b, "podlane_registry_ok", "gauge", "0: what is known of the nodes "
	    "may be old, see podlanectl status.", !*problem);
	one(b, "podlane_registrations", "gauge",
	    "Attachments of pods that the plugin has registered.",
	    HASH_COUNT(a->pods->regs));
}

int pl_metrics_print(const struct pl_agent *a, struct evbuffer *out)
{
	int rc;

	print_agent(a, out);
	rc = print_pods(a->pods, out);
	print_broker(a->broker, out);
	if (a->remote) {
		int peers = pl_metrics_peers(a->remote, out);

		rc = PL_MIN(rc, peers);
		print_carried(a->remote, out);
	}
	pl_metrics_addresses(a, out);
	print_ended(out, a->ops);
	print_durations(out, a->ops);
	print_process(out);
	return rc;
}
