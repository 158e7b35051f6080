/*
 * bench/ps_job.c - making a job, greeting its parts, reporting its end
 */
#include "bench/ps_job.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "common/util.h"
#include "bench/ps_machine.h"
#include "bench/ps_nic.h"

int ps_job_init(struct ps_job *job, const struct ps_opts *o,
		struct pl_err *err)
{
	const struct ps_model *m = o->models[0];
	int r;

	job->o = *o;
	job->steps = o->steps + o->warmup;
	job->model_bytes = m->elems * sizeof(float);
	job->o.batch = ps_opts_batch(o, m);
	if (job->o.batch == 0)
		return pl_err_set(err, EINVAL, "no published rate of %s on a "
				  "%s; choose another --compute", m->name,
				  ps_gpu_name(o->compute));
	job->compute_ns = ps_model_compute_ns(m, o->compute, job->o.batch);
	r = ps_plan_init(&job->plan, m, o->servers, PS_CHUNK_BYTES_DEFAULT,
			 err);
	job->plan.back_first = o->overlap;
	return r;
}

void ps_job_fini(struct ps_job *job)
{
	ps_plan_fini(&job->plan);
}

float *ps_floats_alloc(uint64_t elems, struct pl_err *err)
{
	size_t bytes = elems * sizeof(float);
	void *p;

	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED) {
		pl_err_sys(err, "no memory for %zu MB", bytes / 1000000);
		return NULL;
	}
	madvise(p, bytes, MADV_HUGEPAGE);
	/* Now and not in the first step; not known before Linux 5.14. */
	if (madvise(p, bytes, MADV_POPULATE_WRITE) && errno != EINVAL) {
		pl_err_sys(err, "no memory for %zu MB", bytes / 1000000);
		munmap(p, bytes);
		return NULL;
	}
	return p;
}

void ps_floats_free(float *p, uint64_t elems)
{
	if (p)
		munmap(p, elems * sizeof(float));
}

void ps_hello_make(const struct ps_job *job, uint32_t server,
		   struct ps_hello *h)
{
	*h = (struct ps_hello){
		.magic = PS_HELLO_MAGIC, .version = PS_HELLO_VERSION,
		.rank = job->o.rank, .workers = job->o.workers,
		.server = server, .servers = job->o.servers,
		.steps = job->steps, .elems = job->plan.elems,
		.chunk_elems = job->plan.chunk_elems, .carries = 1,
		.flags = (job->o.async ? PS_HELLO_ASYNC : 0) |
			 (job->o.raw ? PS_HELLO_RAW : 0) |
			 (job->o.overlap ? PS_HELLO_OVERLAP : 0) |
			 (job->o.train ? PS_HELLO_TRAIN : 0) |
			 (uint32_t)ps_opts_compression(&job->o) <<
				PS_HELLO_COMPRESSION |
			 job->o.strategies << PS_HELLO_STRATEGY,
	};
	snprintf(h->model, sizeof(h->model), "%s", job->plan.model->name);
}

int ps_hello_check(const struct ps_job *job, const struct ps_hello *h,
		   bool *seen, struct pl_err *err)
{
	struct ps_hello want;

	if (h->magic != PS_HELLO_MAGIC || h->version != PS_HELLO_VERSION)
		return pl_err_set(err, EPROTO, "this is no worker of this "
				  "version of ps_throughput");
	if (h->rank >= job->o.workers || h->carries > job->o.workers)
		return pl_err_set(err, EINVAL, "worker %u in a job of %u "
				  "workers", h->rank, job->o.workers);
	ps_hello_make(job, job->o.rank, &want);
	want.rank = h->rank;
	want.carries = h->carries;
	if (memcmp(&want, h, sizeof(want)))
		return pl_err_set(err, EINVAL, "worker %u was started with "
				  "another model, --steps, --workers, --servers, "
				  "--variable-update, --compression, --async, "
				  "--raw or --overlap than rank %u", h->rank,
				  job->o.rank);
	if (seen[h->rank])
		return pl_err_set(err, EEXIST, "there are two workers with "
				  "--rank %u", h->rank);
	seen[h->rank] = true;
	return 0;
}

void ps_welcome_make(const struct pl_err *err, struct ps_welcome *w)
{
	*w = (struct ps_welcome){ .magic = PS_HELLO_MAGIC,
				  .code = (uint32_t)err->code };
	snprintf(w->text, sizeof(w->text), "%.100s", err->msg);
}

int ps_welcome_check(const struct ps_welcome *w, struct pl_err *err)
{
	if (w->magic != PS_HELLO_MAGIC)
		return pl_err_set(err, EPROTO, "this is no server of "
				  "ps_throughput");
	if (w->code == 0)
		return 0;
	return pl_err_set(err, w->code < 4096 ? (int)w->code : EPROTO,
			  "the server refused: %.100s", w->text);
}

static void add_curve(cJSON *j, const struct ps_report *r)
{
	cJSON *list = cJSON_AddArrayToObject(j, "curve"), *o;

	for (unsigned int i = 0; i < r->n_curve; i++) {
		o = cJSON_CreateObject();
		cJSON_AddNumberToObject(o, "seconds", r->curve[i].seconds);
		cJSON_AddNumberToObject(o, "accuracy", r->curve[i].accuracy);
		cJSON_AddItemToArray(list, o);
	}
}

static void add_worker(cJSON *j, const struct ps_job *job,
		       const struct ps_report *r)
{
	cJSON *steps = cJSON_AddArrayToObject(j, "step_ns");
	struct ps_nic nic;
	unsigned int i;

	if (r->n_curve)
		add_curve(j, r);
	cJSON_AddBoolToObject(j, "verified", r->verified);
	cJSON_AddStringToObject(j, "path", r->path);
	cJSON_AddStringToObject(j, "param_path", r->param_path);
	if (r->congestion[0])
		cJSON_AddStringToObject(j, "congestion_control",
					r->congestion);
	cJSON_AddBoolToObject(j, "local_sum", r->local_sum);
	ps_nic_of(job->o.bind.n ? job->o.bind.text[0] : NULL, &nic);
	ps_nic_add(j, "nic", &nic);
	for (i = 0; i < job->o.steps; i++)
		cJSON_AddItemToArray(steps, cJSON_CreateNumber(
				     (double)r->step_ns[i]));
	cJSON_AddNumberToObject(j, "t_first_ns", (double)r->t_first_ns);
	cJSON_AddNumberToObject(j, "t_last_ns", (double)r->t_last_ns);
	cJSON_AddNumberToObject(j, "sent_bytes", (double)r->sent_bytes);
	cJSON_AddNumberToObject(j, "received_bytes",
				(double)r->received_bytes);
}

static void add_staleness(cJSON *j, const struct ps_stale_sum *s)
{
	cJSON *o = cJSON_AddObjectToObject(j, "staleness");

	cJSON_AddNumberToObject(o, "chunks", (double)s->chunks);
	cJSON_AddNumberToObject(o, "updates", (double)s->updates);
	cJSON_AddNumberToObject(o, "most", (double)s->most);
}

static void add_server(cJSON *j, const struct ps_job *job,
		       const struct ps_report *r)
{
	cJSON *paths = cJSON_AddArrayToObject(j, "grad_paths");
	unsigned int i;

	cJSON_AddStringToObject(j, "path", r->path);
	for (i = 0; i < r->n_grad_paths; i++)
		cJSON_AddItemToArray(paths,
				     cJSON_CreateString(r->grad_paths[i]));
	cJSON_AddNumberToObject(j, "steps", job->steps);
	if (job->o.async)
		add_staleness(j, &r->staleness);
}

static void add_raw(cJSON *j, const struct ps_job *job,
		    const struct ps_report *r)
{
	(void)job;
	cJSON_AddNumberToObject(j, "sent_bytes", (double)r->sent_bytes);
	cJSON_AddNumberToObject(j, "received_bytes",
				(double)r->received_bytes);
	cJSON_AddNumberToObject(j, "ns", (double)r->ns);
}

static void say_worker(const struct ps_job *job, const struct ps_report *r)
{
	double s = (double)(r->t_last_ns - r->t_first_ns) / 1e9;

	printf("worker %u: %s, %u steps of %s in %.3f s, %.1f images/s, "
	       "%.3f GB/s of gradients over %s%s, %s\n", job->o.rank,
	       ps_transport_name(job->o.transports), job->o.steps,
	       job->plan.model->name, s, job->o.steps * job->o.batch / s,
	       (double)job->model_bytes * job->o.steps / s / 1e9, r->path,
	       r->local_sum ? " (summed on the node)" : "",
	       r->verified ? "parameters verified" : "not verified (--raw)");
}

static void say_server(const struct ps_job *job, const struct ps_report *r)
{
	const struct ps_stale_sum *s = &r->staleness;

	printf("server %u: %u steps of %s served over %s\n", job->o.rank,
	       job->steps, job->plan.model->name, r->path);
	if (s->chunks)
		printf("server %u: gradients missed %.2f updates of others "
		       "(mean), %llu at most\n", job->o.rank,
		       (double)s->updates / (double)s->chunks,
		       (unsigned long long)s->most);
}

static void say_raw(const struct ps_job *job, const struct ps_report *r)
{
	double s = (double)r->ns / 1e9;

	printf("rank %u: sent %.3f GB/s, received %.3f GB/s\n", job->o.rank,
	       (double)r->sent_bytes / s / 1e9,
	       (double)r->received_bytes / s / 1e9);
}

/* What was run, and where: so that a report says it without the others. */
static void add_job(cJSON *j, const struct ps_job *job)
{
	const struct ps_opts *o = &job->o;
	struct ps_machine m = { .cores = 0 };
	cJSON *what = cJSON_AddObjectToObject(j, "job");

	cJSON_AddStringToObject(what, "model", job->plan.model->name);
	cJSON_AddNumberToObject(what, "model_bytes",
				(double)job->model_bytes);
	cJSON_AddStringToObject(what, "variable_update",
				ps_strategy_name(o->strategies));
	cJSON_AddStringToObject(what, "transport",
				ps_transport_name(o->transports));
	cJSON_AddStringToObject(what, "compression",
				codec_name(ps_opts_compression(o)));
	cJSON_AddNumberToObject(what, "workers", o->workers);
	cJSON_AddNumberToObject(what, "servers", o->servers);
	cJSON_AddNumberToObject(what, "steps", o->steps);
	cJSON_AddStringToObject(what, "gpu", ps_gpu_name(o->compute));
	cJSON_AddNumberToObject(what, "batch", o->batch);
	cJSON_AddBoolToObject(what, "async", o->async);
	cJSON_AddBoolToObject(what, "overlap", o->overlap);
	cJSON_AddBoolToObject(what, "raw", o->raw);
	if (o->node_name)
		cJSON_AddStringToObject(j, "node", o->node_name);
	ps_machine_probe(&m);
	ps_machine_head(&m, "ps_throughput", j);
}

static const struct {
	const char *role;
	void (*add)(cJSON *j, const struct ps_job *job,
		    const struct ps_report *r);
	void (*say)(const struct ps_job *job, const struct ps_report *r);
} roles[] = {
	{ "worker", add_worker, say_worker },
	{ "server", add_server, say_server },
	{ "raw-recv", add_raw, say_raw },
	{ "raw-send", add_raw, say_raw },
};

static int write_report(size_t role, const struct ps_job *job,
			const struct ps_report *r, const struct pl_err *err)
{
	cJSON *j = cJSON_CreateObject();
	char hex[17];
	char *text;
	int rc = -ENOMEM;

	cJSON_AddStringToObject(j, "role", roles[role].role);
	cJSON_AddNumberToObject(j, "rank", job->o.rank);
	if (job->plan.model)
		add_job(j, job);
	cJSON_AddBoolToObject(j, "ok", err->code == 0);
	if (err->code) {
		cJSON_AddStringToObject(j, "error", err->msg);
		cJSON_AddBoolToObject(j, "peer_gone",
				      err->code == ECONNRESET ||
				      err->code == EPIPE);
	} else {
		roles[role].add(j, job, r);
		snprintf(hex, sizeof(hex), "%016llx",
			 (unsigned long long)r->checksum);
		cJSON_AddStringToObject(j, "checksum", hex);
	}
	text = cJSON_PrintUnformatted(j);
	cJSON_Delete(j);
	if (text) {
		rc = pl_write_all(job->o.report_fd, text, strlen(text));
		if (!rc)
			rc = pl_write_all(job->o.report_fd, "\n", 1);
	}
	cJSON_free(text);
	return rc;
}

int ps_report_end(const char *role, const struct ps_job *job,
		  const struct ps_report *r, const struct pl_err *err)
{
	size_t i = 0;
	int rc = 0;

	while (strcmp(roles[i].role, role))
		i++;
	if (err->code)
		fprintf(stderr, "ps_throughput %s %u: %s\n", role,
			job->o.rank, err->msg);
	if (job->o.report_fd >= 0)
		rc = write_report(i, job, r, err);
	else if (!err->code)
		roles[i].say(job, r);
	if (rc)
		fprintf(stderr, "ps_throughput %s %u: can't write the report "
			"to descriptor %d: %s\n", role, job->o.rank,
			job->o.report_fd, strerror(-rc));
	return err->code || rc ? 1 : 0;
}
