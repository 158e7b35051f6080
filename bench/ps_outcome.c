/*
 * bench/ps_outcome.c - the reports of one run's roles, put together
 */
#include "bench/ps_outcome.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "common/util.h"
#include "bench/ps_stats.h"

#define NS_MAX (INT64_C(1) << 53)

static int load(const struct ps_child *c, cJSON **doc, struct pl_err *err)
{
	if (!c->report.text)
		return pl_err_set(err, EPROTO, "%s ended without a report",
				  c->name);
	if (pl_json_parse(c->report.text, c->report.len, doc, err) < 0) {
		pl_err_prefix(err, "report of %s", c->name);
		return -EPROTO;
	}
	return 0;
}

/* Present keys only: an absent one leaves what is missing to this. */
static int need(const struct ps_child *c, const char *key, int rc,
		struct pl_err *err)
{
	if (rc > 0)
		return 0;
	return pl_err_set(err, EPROTO, "report of %s: %s is missing or wrong",
			  c->name, key);
}

void ps_outcome_list(char *list, size_t size, const char *word)
{
	size_t len = strlen(word), at = strlen(list);
	const char *p = list;

	while (len && (p = strstr(p, word))) {
		if ((p == list || p[-1] == '+') &&
		    (p[len] == '\0' || p[len] == '+'))
			return;
		p += len;
	}
	if (len)
		snprintf(list + at, size - at, "%s%s", at ? "+" : "", word);
}

/* A role that talks to several says so in one text: "shm+tcp". */
static void add_words(char *list, size_t size, const char *path)
{
	char word[sizeof(((struct ps_outcome *)0)->path)];

	while (*path) {
		size_t len = strcspn(path, "+");

		snprintf(word, sizeof(word), "%.*s", (int)len, path);
		ps_outcome_list(list, size, word);
		path += len + (path[len] ? 1 : 0);
	}
}

static void add_grad_path(struct ps_outcome *out, const char *path)
{
	add_words(out->path, sizeof(out->path), path);
	add_words(out->grad_path, sizeof(out->grad_path), path);
}

static void add_param_path(struct ps_outcome *out, const char *path)
{
	add_words(out->path, sizeof(out->path), path);
	add_words(out->param_path, sizeof(out->param_path), path);
}

static int checksum_of(const struct ps_child *c, const cJSON *doc,
		       uint64_t *out, struct pl_err *err)
{
	const char *s = "";
	char end;
	int rc = pl_json_str(doc, "", "checksum", &s, NULL);

	if (rc > 0 && sscanf(s, "%" SCNx64 "%c", out, &end) == 1)
		return 0;
	return need(c, "checksum", 0, err);
}

static int add_staleness(struct ps_outcome *out, const struct ps_child *c,
			 const cJSON *doc, struct pl_err *err)
{
	const cJSON *o = NULL;
	int64_t chunks = 0, updates = 0, most = 0;
	struct ps_stale_sum s;
	int rc = pl_json_obj(doc, "", "staleness", &o, NULL);

	if (rc == 0)
		return 0;
	if (rc < 0 ||
	    pl_json_int(o, "", "chunks", 1, NS_MAX, &chunks, NULL) <= 0 ||
	    pl_json_int(o, "", "updates", 0, NS_MAX, &updates, NULL) <= 0 ||
	    pl_json_int(o, "", "most", 0, NS_MAX, &most, NULL) <= 0)
		return need(c, "staleness", 0, err);
	s = (struct ps_stale_sum){ (uint64_t)chunks, (uint64_t)updates,
				   (uint64_t)most };
	ps_stale_merge(&out->staleness, &s);
	return 0;
}

/* Gradients' paths as the server saw them: it is their reader. */
static int add_server(struct ps_outcome *out, const struct ps_child *c,
		      uint64_t *sum, struct pl_err *err)
{
	const cJSON *paths = NULL, *p;
	pl_auto_json *doc = NULL;
	uint64_t part = 0;
	int rc = load(c, &doc, err);

	if (rc == 0)
		rc = need(c, "grad_paths", pl_json_arr(doc, "", "grad_paths",
						       &paths, NULL), err);
	if (rc == 0)
		rc = checksum_of(c, doc, &part, err);
	if (rc == 0)
		rc = add_staleness(out, c, doc, err);
	if (rc < 0)
		return rc;
	*sum += part;
	cJSON_ArrayForEach(p, paths) {
		if (!cJSON_IsString(p))
			return need(c, "grad_paths", 0, err);
		add_grad_path(out, p->valuestring);
	}
	return 0;
}

static int add_steps(struct ps_outcome *out, const struct ps_child *c,
		     const cJSON *doc, struct pl_err *err)
{
	const cJSON *steps = NULL, *s;
	unsigned int i = 0;
	int rc = pl_json_arr(doc, "", "step_ns", &steps, NULL);

	if (rc <= 0 || (unsigned int)cJSON_GetArraySize(steps) != out->steps)
		return need(c, "step_ns", 0, err);
	cJSON_ArrayForEach(s, steps) {
		if (!cJSON_IsNumber(s) || s->valuedouble < 0)
			return need(c, "step_ns", 0, err);
		out->step_ns[i] = PL_MAX(out->step_ns[i], s->valuedouble);
		i++;
	}
	return 0;
}

static int add_times(struct ps_outcome *out, const struct ps_child *c,
		     const cJSON *doc, struct pl_err *err)
{
	int64_t first = 0, last = 0;
	int rc = need(c, "t_first_ns", pl_json_int(doc, "", "t_first_ns", 1,
						   NS_MAX, &first, NULL), err);

	if (rc == 0)
		rc = need(c, "t_last_ns",
			  pl_json_int(doc, "", "t_last_ns", first + 1, NS_MAX,
				      &last, NULL), err);
	if (rc < 0)
		return rc;
	out->t_first_ns = out->t_first_ns ?
		PL_MIN(out->t_first_ns, (uint64_t)first) : (uint64_t)first;
	out->t_last_ns = PL_MAX(out->t_last_ns, (uint64_t)last);
	return 0;
}

/* Only worker 0 has a curve. */
static int add_curve(struct ps_outcome *out, const struct ps_child *c,
		     const cJSON *doc, struct pl_err *err)
{
	const cJSON *p;

	cJSON_ArrayForEach(p, cJSON_GetObjectItem(doc, "curve")) {
		const cJSON *s = cJSON_GetObjectItem(p, "seconds");
		const cJSON *a = cJSON_GetObjectItem(p, "accuracy");

		if (!cJSON_IsNumber(s) || !cJSON_IsNumber(a) ||
		    out->n_curve == PS_EPOCHS_MAX)
			return need(c, "curve", 0, err);
		out->curve[out->n_curve++] = (struct ps_epoch){
			s->valuedouble, a->valuedouble };
	}
	return 0;
}

/* That of the first worker, which is rank 0. */
static int add_nic(struct ps_outcome *out, const struct ps_child *c,
		   const cJSON *doc, struct pl_err *err)
{
	const cJSON *o = cJSON_GetObjectItem(doc, "nic");

	if (!o || out->nic.name[0])
		return 0;
	return need(c, "nic", ps_nic_read(o, &out->nic) == 0, err);
}

static int add_worker(struct ps_outcome *out, const struct ps_child *c,
		      const cJSON *doc, bool both, uint64_t *sum,
		      struct pl_err *err)
{
	bool verified = false, local_sum = false;
	int64_t sent = 0;
	const char *path = NULL, *grad_path = NULL, *congestion = "";
	int rc = need(c, "verified", pl_json_bool(doc, "", "verified",
						  &verified, NULL), err);

	if (rc == 0)
		rc = need(c, "local_sum", pl_json_bool(doc, "", "local_sum",
						       &local_sum, NULL), err);
	if (rc == 0)
		rc = need(c, "path", pl_json_str(doc, "", "path", &grad_path,
						 NULL), err);
	if (rc == 0)
		rc = need(c, "param_path", pl_json_str(doc, "", "param_path",
						       &path, NULL), err);
	if (rc == 0)
		rc = pl_json_str(doc, "", "congestion_control", &congestion,
				 err);
	if (rc >= 0)
		rc = add_times(out, c, doc, err);
	if (rc == 0)
		rc = add_steps(out, c, doc, err);
	if (rc == 0)
		rc = add_curve(out, c, doc, err);
	if (rc == 0)
		rc = need(c, "sent_bytes",
			  pl_json_int(doc, "", "sent_bytes", 0, NS_MAX,
				      &sent, NULL), err);
	if (rc == 0)
		rc = checksum_of(c, doc, sum, err);
	if (rc == 0)
		rc = add_nic(out, c, doc, err);
	if (rc < 0)
		return rc;
	out->sent_bytes += (double)sent;
	out->verified &= verified;
	out->local_sum |= local_sum;
	/* Without servers, workers have both ends. */
	if (both)
		add_grad_path(out, grad_path);
	add_param_path(out, path);
	ps_outcome_list(out->congestion, sizeof(out->congestion), congestion);
	return 0;
}

static int same(const struct ps_child *c, uint64_t got, uint64_t want,
		const char *whose, struct pl_err *err)
{
	if (got == want)
		return 0;
	return pl_err_set(err, EBADMSG, "%s ended with other parameters than "
			  "%s (checksums %016" PRIx64 " and %016" PRIx64 ")",
			  c->name, whose, got, want);
}

static bool packed(const struct ps_opts *o)
{
	return o->train || ps_opts_compression(o) != CODEC_NONE;
}

/* A worker's parameters beside those of the servers, or of the first one. */
static int check_params(const struct ps_opts *o, const struct ps_outcome *out,
			const struct ps_child *c,
			enum ps_strategy strategy, uint64_t sum,
			uint64_t servers, bool is_first, struct pl_err *err)
{
	const bool servers_know = strategy == PS_SERVER && !packed(o);

	if (servers_know)
		return same(c, sum, servers, "the servers", err);
	if (strategy != PS_INDEPENDENT && !is_first)
		return same(c, sum, out->checksum, "worker 0", err);
	return 0;
}

static int read_all(const struct ps_opts *o, enum ps_strategy strategy,
		    const struct ps_child *c, unsigned int n,
		    struct ps_outcome *out, struct pl_err *err)
{
	unsigned int n_servers = strategy == PS_SERVER ? o->servers : 0;
	uint64_t servers = 0, sum = 0;
	int rc = 0;

	for (unsigned int i = 0; i < n && rc == 0; i++) {
		pl_auto_json *doc = NULL;
		bool is_first = i == n_servers;

		if (i < n_servers) {
			rc = add_server(out, &c[i], &servers, err);
			continue;
		}
		rc = load(&c[i], &doc, err);
		if (rc == 0)
			rc = add_worker(out, &c[i], doc, !n_servers, &sum,
					err);
		/* What moves with --raw is not looked at. */
		if (rc == 0 && !o->raw)
			rc = check_params(o, out, &c[i], strategy, sum, servers,
					  is_first, err);
		if (is_first)
			out->checksum = sum;
	}
	return rc;
}

int ps_outcome_read(const struct ps_opts *o, enum ps_strategy strategy,
		    const struct ps_child *c, unsigned int n,
		    struct ps_outcome *out, struct pl_err *err)
{
	int rc;

	memset(out, 0, sizeof(*out));
	out->steps = o->steps;
	out->verified = true;
	out->step_ns = calloc(o->steps, sizeof(*out->step_ns));
	if (!out->step_ns)
		return pl_err_set(err, ENOMEM, "out of memory");
	rc = read_all(o, strategy, c, n, out, err);
	if (rc == 0 && !o->raw && !out->verified)
		rc = pl_err_set(err, EPROTO, "not all workers verified the "
				"parameters");
	return rc;
}

void ps_outcome_fini(struct ps_outcome *out)
{
	free(out->step_ns);
	memset(out, 0, sizeof(*out));
}

double ps_outcome_step_ms(const struct ps_outcome *out, double q)
{
	return ps_quantile(out->step_ns, out->steps, q) / 1e6;
}

int ps_outcome_raw(const struct ps_child *c, unsigned int n,
		   double *bytes_per_s, struct pl_err *err)
{
	int64_t sent = 0, received = 0, ns = 0;

	*bytes_per_s = 0;
	for (unsigned int i = 0; i < n; i++) {
		pl_auto_json *doc = NULL;
		int rc = load(&c[i], &doc, err);

		if (rc < 0)
			return rc;
		if (pl_json_int(doc, "", "sent_bytes", 0, NS_MAX, &sent,
				NULL) <= 0 ||
		    pl_json_int(doc, "", "received_bytes", 0, NS_MAX,
				&received, NULL) <= 0 ||
		    pl_json_int(doc, "", "ns", 1, NS_MAX, &ns, NULL) <= 0)
			return need(&c[i], "a number", 0, err);
		*bytes_per_s += (double)(sent + received) * 1e9 / (double)ns;
	}
	return 0;
}
