/*
 * bench/serve_client.c - the four load patterns
 *
 * A query's latency starts when it is due, not when it was sent: a client that
 * is held up, by itself or by a full buffer, may not hide that the service was
 * slow. The streams are due when the answer before is there. In the server
 * scenario one thread sends at times that were fixed before the start, and
 * another one takes the answers; so it is offline, where both directions must
 * flow at once.
 */
#include "bench/serve.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "common/util.h"

#define PIECE (64u << 10)
#define BYE_ID UINT64_MAX
#define LIMIT_NS 60000000000ull		/* and 10 times --duration */
#define BEHIND_NS 1000000000ull		/* or 10 times the bound */

struct load {
	const struct sv_opts *o;
	const struct lp_end *end;
	struct sv_run *r;
	char *data;			/* o->samples of o->sample_bytes */
	uint64_t *want;			/* what the service makes of each */
	uint64_t pick_seed;
	char *buf;
	size_t buf_bytes;
	uint64_t t0;			/* of the first query */
	uint32_t wanted;		/* queries, at least */
	/* Of a round of two threads. */
	uint64_t *at_ns;		/* server: when each is due, from t0 */
	uint32_t planned;
	int send_rc;
};

/* --- the samples ---------------------------------------------------------- */

static int make_samples(struct load *l)
{
	const struct sv_opts *o = l->o;
	uint64_t seed = sv_seed(o->seed, SV_DATA);
	size_t bytes = (size_t)o->samples * o->sample_bytes;

	l->data = malloc(bytes);
	l->want = calloc(o->samples, sizeof(*l->want));
	l->buf_bytes = PL_MAX((size_t)PIECE,
			      o->sample_bytes + sizeof(struct sv_query));
	l->buf = malloc(l->buf_bytes);
	if (!l->data || !l->want || !l->buf)
		return -ENOMEM;
	for (size_t i = 0; i < bytes; i++)
		l->data[i] = (char)sv_number(seed, i);
	for (uint32_t i = 0; i < o->samples; i++)
		l->want[i] = sv_value(l->data + (size_t)i * o->sample_bytes,
				      o->sample_bytes);
	return 0;
}

/* --- one query ------------------------------------------------------------ */

/* Its samples are those from number first on of all that are asked. */
static int send_query(struct load *l, uint64_t id, uint32_t samples,
		      uint64_t first)
{
	const struct sv_query q = { .id = id, .samples = samples };
	const size_t size = l->o->sample_bytes;
	size_t len = sizeof(q);
	int rc = 0;

	memcpy(l->buf, &q, sizeof(q));
	for (uint32_t i = 0; i < samples && rc == 0; i++) {
		uint32_t at = sv_pick(l->pick_seed, first + i, l->o->samples);

		if (len + size > l->buf_bytes) {
			rc = lp_send(l->end, l->buf, len);
			len = 0;
		}
		memcpy(l->buf + len, l->data + at * size, size);
		len += size;
	}
	if (rc == 0)
		rc = lp_send(l->end, l->buf, len);
	l->r->sent_bytes += sizeof(q) + samples * size;
	return rc;
}

static void check_answer(struct load *l, const struct sv_answer *a,
			 uint64_t id, uint32_t place, uint64_t first)
{
	uint32_t at = sv_pick(l->pick_seed, first + place, l->o->samples);

	if (a->id != id || a->place != place || a->value != l->want[at])
		l->r->wrong++;
}

static int take_answers(struct load *l, uint64_t id, uint32_t samples,
			uint64_t first)
{
	struct sv_answer a[SV_BATCH];

	for (uint32_t i = 0; i < samples;) {
		uint32_t n = PL_MIN(samples - i, SV_BATCH);
		int rc = lp_recv(l->end, a, n * sizeof(a[0]));

		if (rc < 0)
			return rc;
		for (uint32_t k = 0; k < n; k++)
			check_answer(l, &a[k], id, i + k, first);
		i += n;
	}
	l->r->received_bytes += samples * sizeof(a[0]);
	l->r->samples += samples;
	return 0;
}

static int say_bye(struct load *l)
{
	const struct sv_query q = { .id = BYE_ID };

	return lp_send(l->end, &q, sizeof(q));
}

static int agree(const struct load *l)
{
	const struct sv_hello h = {
		.magic = SV_MAGIC,
		.service = l->o->service,
		.service_us = l->o->service_us,
		.sample_bytes = l->o->sample_bytes,
	};
	char yes = 0;
	int rc = lp_send(l->end, &h, sizeof(h));

	if (rc == 0)
		rc = lp_recv(l->end, &yes, 1);
	return rc == 0 && !yes ? -EPROTO : rc;
}

/* --- single and multi stream ---------------------------------------------- */

static uint64_t limit_ns(const struct sv_opts *o)
{
	return LIMIT_NS + 10000000ull * o->duration_ms;
}

static bool goes_on(const struct load *l, uint64_t now)
{
	uint64_t ran = now - l->t0;

	if (l->r->n == SV_QUERIES_MAX || ran > limit_ns(l->o))
		return false;
	return l->r->n < l->wanted || ran < l->o->duration_ms * 1000000ull;
}

static int run_stream(struct load *l, uint32_t samples)
{
	struct sv_run *r = l->r;
	uint64_t last = l->t0, at, sent, now;
	int rc = 0;

	while (rc == 0 && goes_on(l, last)) {
		uint64_t first = (uint64_t)r->n * samples;

		at = pl_now_ns();
		r->own_ns += at - last;
		rc = send_query(l, r->n, samples, first);
		sent = pl_now_ns();
		r->send_ns += sent - at;
		if (rc == 0)
			rc = take_answers(l, r->n, samples, first);
		now = pl_now_ns();
		if (rc == 0)
			r->latency_ns[r->n++] = now - at;
		last = now;
	}
	r->duration_ns = last - l->t0;
	return rc;
}

static int run_single(struct load *l)
{
	return run_stream(l, 1);
}

static int run_multi(struct load *l)
{
	return run_stream(l, SV_MULTI_SAMPLES);
}

/* --- server --------------------------------------------------------------- */

static void sleep_until(uint64_t at_ns)
{
	const struct timespec ts = { .tv_sec = (time_t)(at_ns / 1000000000u),
				     .tv_nsec = (long)(at_ns % 1000000000u) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) ==
	       EINTR)
		;
}

/* Sends each query when it is due; says goodbye, also when it gives up. */
static void *issue(void *arg)
{
	struct load *l = arg;
	struct sv_run *r = l->r;
	const uint64_t behind = PL_MAX(BEHIND_NS, l->o->bound_us * 10000ull);
	uint64_t end = l->t0, start;

	for (uint32_t i = 0; i < l->planned && l->send_rc == 0; i++) {
		uint64_t due = l->t0 + l->at_ns[i];

		sleep_until(due);
		start = pl_now_ns();
		/* What a full buffer held up is not the client's own delay. */
		r->slip_ns[i] = start - PL_MAX(due, end);
		r->gave_up = start - due > behind ||
			     start - l->t0 > limit_ns(l->o);
		if (r->gave_up)
			break;
		l->send_rc = send_query(l, i, 1, i);
		end = pl_now_ns();
		r->send_ns += end - start;
	}
	if (l->send_rc == 0)
		l->send_rc = say_bye(l);
	return NULL;
}

/* Up to the answer to the goodbye. */
static int take_all(struct load *l)
{
	struct sv_run *r = l->r;
	struct sv_answer a;
	int rc;

	for (;;) {
		uint64_t now;

		rc = lp_recv(l->end, &a, sizeof(a));
		now = pl_now_ns();
		if (rc < 0 || a.id == BYE_ID || r->n == l->planned)
			return rc;
		check_answer(l, &a, r->n, 0, r->n);
		r->latency_ns[r->n] = now - l->t0 - l->at_ns[r->n];
		r->duration_ns = now - l->t0;
		r->n++;
	}
}

/* In the meantime a thread runs what sends. */
static int with_thread(struct load *l, void *(*sends)(void *),
		       int (*takes)(struct load *))
{
	pthread_t thread;
	int rc = -pthread_create(&thread, NULL, sends, l);

	if (rc < 0)
		return rc;
	rc = takes(l);
	pthread_join(thread, NULL);
	return rc < 0 ? rc : l->send_rc;
}

/* As many as are due within --duration, and as many as the percentile needs. */
static int plan(struct load *l)
{
	const double span_ns = l->o->duration_ms * 1e6;
	double n = l->o->rate * l->o->duration_ms / 1000;
	uint32_t most;

	/* Ten standard deviations more than there will be. */
	n += 10 * sqrt(n) + l->wanted + 1;
	most = (uint32_t)PL_MIN(n, (double)SV_QUERIES_MAX);
	l->at_ns = calloc(most, sizeof(*l->at_ns));
	if (!l->at_ns)
		return -ENOMEM;
	sv_schedule(sv_seed(l->o->seed, SV_SCHEDULE), l->o->rate, most,
		    l->at_ns);
	l->planned = PL_MIN(l->wanted, most);
	while (l->planned < most &&
	       (double)l->at_ns[l->planned - 1] < span_ns)
		l->planned++;
	return 0;
}

static int run_server(struct load *l)
{
	int rc = plan(l);

	if (rc < 0)
		return rc;
	l->t0 = pl_now_ns();
	rc = with_thread(l, issue, take_all);
	l->r->samples = l->r->n;
	l->r->received_bytes = l->r->n * sizeof(struct sv_answer);
	sv_sort(l->r->slip_ns, l->r->n);
	return rc;
}

/* --- offline -------------------------------------------------------------- */

static void *send_round(void *arg)
{
	struct load *l = arg;
	uint64_t at = pl_now_ns();

	l->send_rc = send_query(l, l->r->n, l->planned,
				(uint64_t)l->r->n * l->planned);
	l->r->send_ns += pl_now_ns() - at;
	return NULL;
}

static int take_round(struct load *l)
{
	return take_answers(l, l->r->n, l->planned,
			    (uint64_t)l->r->n * l->planned);
}

/* All samples in one query, and again until the time is over. */
static int run_offline(struct load *l)
{
	struct sv_run *r = l->r;
	uint64_t last = l->t0, now;
	int rc = 0;

	l->planned = l->o->offline_samples;
	l->wanted = 1;
	while (rc == 0 && goes_on(l, last)) {
		rc = with_thread(l, send_round, take_round);
		now = pl_now_ns();
		if (rc == 0)
			r->latency_ns[r->n++] = now - last;
		last = now;
	}
	r->duration_ns = last - l->t0;
	return rc;
}

/* --- all ------------------------------------------------------------------ */

static int run(struct load *l, enum sv_scenario s)
{
	static int (*const runs[SV_SCENARIOS])(struct load *) = {
		run_single, run_multi, run_server, run_offline,
	};
	uint32_t least = sv_queries_min(sv_percentile(l->o, s));
	int rc;

	l->wanted = PL_MIN(PL_MAX(least, l->o->queries), SV_QUERIES_MAX);
	prctl(PR_SET_TIMERSLACK, 1);
	rc = agree(l);
	l->t0 = pl_now_ns();
	if (rc == 0)
		rc = runs[s](l);
	if (rc == 0 && s != SV_SERVER) {
		struct sv_answer a;

		rc = say_bye(l);
		if (rc == 0)
			rc = lp_recv(l->end, &a, sizeof(a));
	}
	return rc;
}

int sv_load(const struct sv_opts *o, const struct lp_end *end,
	    struct sv_run *r, struct pl_err *err)
{
	struct load l = { .o = o, .end = end, .r = r };
	int rc;

	memset(r, 0, sizeof(*r));
	l.pick_seed = sv_seed(o->seed, SV_SAMPLES);
	r->latency_ns = calloc(SV_QUERIES_MAX, sizeof(*r->latency_ns));
	r->slip_ns = calloc(SV_QUERIES_MAX, sizeof(*r->slip_ns));
	rc = r->latency_ns && r->slip_ns ? make_samples(&l) : -ENOMEM;
	if (rc == 0)
		rc = run(&l, sv_only(o->scenarios));
	if (rc == 0)
		sv_sort(r->latency_ns, r->n);
	free(l.data);
	free(l.want);
	free(l.buf);
	free(l.at_ns);
	if (rc == -EPROTO)
		return pl_err_set(err, EPROTO, "the server has other options; "
				  "give both the same --service, --service-us "
				  "and --sample-bytes");
	return lp_told(rc, err);
}

void sv_run_fini(struct sv_run *r)
{
	free(r->latency_ns);
	free(r->slip_ns);
}
