/* tests/unit/test_serve.c - load patterns, early stopping, verdicts */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <cmocka.h>

#include "bench/serve.h"
#include "common/util.h"

static void early_stopping(void **state)
{
	(void)state;
	assert_int_equal(sv_queries_min(900), 44);
	assert_int_equal(sv_queries_min(990), 459);
	assert_int_equal(sv_queries_min(999), 4603);
	assert_int_equal(sv_over_max(900, 43), -1);
	assert_int_equal(sv_over_max(900, 44), 0);
	assert_int_equal(sv_over_max(990, 458), -1);
	assert_int_equal(sv_over_max(990, 459), 0);
	assert_int_equal(sv_over_max(999, 4602), -1);
	assert_int_equal(sv_over_max(999, 4603), 0);
	/* 0.9^64 + 64 * 0.1 * 0.9^63 is 0.0096, with 63 it is 0.0105. */
	assert_int_equal(sv_over_max(900, 63), 0);
	assert_int_equal(sv_over_max(900, 64), 1);
	/* Of very many, nearly the share itself. */
	assert_true(sv_over_max(900, 1000000) > 99000);
	assert_true(sv_over_max(900, 1000000) < 100000);
}

static void schedules(void **state)
{
	enum { N = 100000 };
	uint64_t *a = calloc(N, sizeof(*a)), *b = calloc(N, sizeof(*b));
	unsigned int short_gaps = 0;

	(void)state;
	sv_schedule(sv_seed(7, SV_SCHEDULE), 1000, N, a);
	sv_schedule(sv_seed(7, SV_SCHEDULE), 1000, N, b);
	assert_memory_equal(a, b, N * sizeof(*a));
	sv_schedule(sv_seed(8, SV_SCHEDULE), 1000, N, b);
	assert_memory_not_equal(a, b, N * sizeof(*a));
	/* So many in so much time, and 1 - 1/e of the gaps below their mean. */
	assert_true(fabs((double)a[N - 1] / 1e9 - 100) < 2);
	for (int i = 1; i < N; i++) {
		assert_true(a[i] >= a[i - 1]);
		short_gaps += a[i] - a[i - 1] < 1000000;
	}
	assert_true(fabs(short_gaps / (double)N - 0.632) < 0.01);
	free(a);
	free(b);
}

static void picks(void **state)
{
	unsigned int count[10] = { 0 };

	(void)state;
	for (uint64_t i = 0; i < 10000; i++)
		count[sv_pick(sv_seed(1, SV_SAMPLES), i, 10)]++;
	for (int i = 0; i < 10; i++)
		assert_in_range(count[i], 850, 1150);
}

static void sorted(void **state)
{
	uint64_t v[] = { 5, 1, 4, 2, 3 };

	(void)state;
	sv_sort(v, 5);
	assert_int_equal(sv_sorted(v, 5, 0), 1);
	assert_int_equal(sv_sorted(v, 5, 0.5), 3);
	assert_int_equal(sv_sorted(v, 5, 0.6), 3);
	assert_int_equal(sv_sorted(v, 5, 0.61), 4);
	assert_int_equal(sv_sorted(v, 5, 1), 5);
	assert_int_equal(sv_sorted(v, 0, 0.5), 0);
}

/* Every byte of a sample matters, also behind the last word. */
static void values(void **state)
{
	char s[19];
	uint64_t v;

	(void)state;
	memset(s, 3, sizeof(s));
	v = sv_value(s, sizeof(s));
	for (size_t i = 0; i < sizeof(s); i++) {
		s[i] ^= 1;
		assert_true(sv_value(s, sizeof(s)) != v);
		s[i] ^= 1;
	}
	assert_true(sv_value(s, sizeof(s)) == v);
}

/* --- both ends in one process --------------------------------------------- */

struct peer {
	struct sv_opts o;
	struct lp_end end;
	bool lies;			/* one answer in ten */
	bool stalls;			/* before the first; small buffers */
	int rc;
	uint64_t samples;
};

static void misbehave(struct peer *p)
{
	const struct timespec stall = { .tv_nsec = 100000000 };
	char sample[4096], yes = 1;
	struct sv_hello h;
	struct sv_query q;

	assert_int_equal(lp_recv(&p->end, &h, sizeof(h)), 0);
	assert_int_equal(lp_send(&p->end, &yes, 1), 0);
	if (p->stalls)
		nanosleep(&stall, NULL);
	for (;;) {
		struct sv_answer a = { .id = 0 };

		assert_int_equal(lp_recv(&p->end, &q, sizeof(q)), 0);
		a.id = q.id;
		if (q.samples) {
			lp_recv(&p->end, sample, p->o.sample_bytes);
			a.value = sv_value(sample, p->o.sample_bytes) +
				  (p->lies && q.id % 10 == 0);
		}
		assert_int_equal(lp_send(&p->end, &a, sizeof(a)), 0);
		if (!q.samples)
			return;
	}
}

static void *serve(void *arg)
{
	struct peer *p = arg;

	if (p->lies || p->stalls)
		misbehave(p);
	else
		p->rc = sv_serve(&p->o, &p->end, &p->samples, NULL);
	return NULL;
}

static struct sv_opts opts(enum sv_scenario s)
{
	return (struct sv_opts){ .scenarios = 1u << s,
				 .transports = 1u << SV_OVERLAY,
				 .sample_bytes = 99,
				 .samples = 50,
				 .bound_us = 1000000,
				 .rate = 5000,
				 .duration_ms = 1,
				 .queries = 100,
				 .offline_samples = 5000,
				 .seed = 3 };
}

/* The result of the client; r is to be freed. */
static int converse(struct peer *p, const struct sv_opts *o, struct sv_run *r)
{
	struct lp_end end = { .link = LP_UNIX, .wait = LP_SLEEP };
	const int least = 1;
	pthread_t thread;
	int fd[2], rc;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	end.fd = fd[0];
	if (p->stalls)
		setsockopt(fd[0], SOL_SOCKET, SO_SNDBUF, &least,
			   sizeof(least));
	p->end = end;
	p->end.fd = fd[1];
	assert_int_equal(pthread_create(&thread, NULL, serve, p), 0);
	rc = sv_load(o, &end, r, NULL);
	close(fd[0]);
	pthread_join(thread, NULL);
	close(fd[1]);
	return rc;
}

static void patterns(void **state)
{
	(void)state;
	for (int s = 0; s < SV_SCENARIOS; s++) {
		struct sv_opts o = opts(s);
		struct peer p = { .o = o };
		struct sv_verdict v;
		struct sv_run r;

		assert_int_equal(converse(&p, &o, &r), 0);
		assert_int_equal(p.rc, 0);
		assert_int_equal(p.samples, r.samples);
		assert_int_equal(r.wrong, 0);
		assert_true(r.n >= (s == SV_OFFLINE ? 1 :
				    sv_queries_min(sv_percentile(&o, s))));
		assert_int_equal(r.samples, (uint64_t)r.n *
				 (s == SV_MULTI_STREAM ? 8 :
				  s == SV_OFFLINE ? 5000 : 1));
		for (uint32_t i = 0; i < r.n; i++)
			assert_true(r.latency_ns[i] > 0);
		assert_true(r.sent_bytes >= r.samples * 99);
		/* How late a thread wakes up is not this test's business. */
		memset(r.slip_ns, 0, r.n * sizeof(*r.slip_ns));
		r.own_ns = 0;
		sv_judge(&o, SV_OVERLAY, "overlay-tcp", &r, &v);
		assert_int_equal(v.n_reasons, 0);
		assert_true(v.metric > 0);
		sv_run_fini(&r);
	}
}

/*
 * All 459 queries are due while the service does not take any. Few of them fit
 * into the buffer, and those that were sent late are slow nevertheless.
 */
static void held_up(void **state)
{
	struct sv_opts o = opts(SV_SERVER);
	struct peer p = { .o = o, .stalls = true };
	uint32_t slow = 0;
	struct sv_run r;

	(void)state;
	assert_int_equal(converse(&p, &o, &r), 0);
	for (uint32_t i = 0; i < r.n; i++)
		slow += r.latency_ns[i] > 5000000;
	assert_true(slow > r.n / 2);
	/* Waiting for the other side is not the client's own delay. */
	assert_true(sv_sorted(r.slip_ns, r.n, 0.5) < 5000000);
	sv_run_fini(&r);
}

static void lies(void **state)
{
	struct sv_opts o = opts(SV_SINGLE_STREAM);
	struct peer p = { .o = o, .lies = true };
	struct sv_verdict v;
	struct sv_run r;

	(void)state;
	assert_int_equal(converse(&p, &o, &r), 0);
	assert_int_equal(r.wrong, (r.n + 9) / 10);
	sv_judge(&o, SV_OVERLAY, "overlay-tcp", &r, &v);
	assert_true(v.n_reasons > 0);
	assert_non_null(strstr(v.reason[v.n_reasons - 1], "not what the "
			       "service makes"));
	sv_run_fini(&r);
}

static void other_options(void **state)
{
	struct sv_opts o = opts(SV_SINGLE_STREAM);
	struct peer p = { .o = o };
	struct sv_run r;

	(void)state;
	p.o.sample_bytes++;
	assert_int_equal(converse(&p, &o, &r), -EPROTO);
	assert_int_equal(p.rc, -EPROTO);
	sv_run_fini(&r);
}

/* --- verdicts ------------------------------------------------------------- */

enum { RUN = 1000 };

static void fill(struct sv_run *r)
{
	memset(r, 0, sizeof(*r));
	r->n = r->samples = RUN;
	r->latency_ns = calloc(RUN, sizeof(*r->latency_ns));
	r->slip_ns = calloc(RUN, sizeof(*r->slip_ns));
	for (int i = 0; i < RUN; i++)
		r->latency_ns[i] = 1000u * (i + 1);
	r->duration_ns = 2000000;
}

static bool reason(const struct sv_opts *o, const char *path,
		   const struct sv_run *r, const char *text)
{
	struct sv_verdict v;

	sv_judge(o, SV_OVERLAY, path, r, &v);
	if (!text)
		return v.n_reasons == 0;
	return v.n_reasons == 1 && strstr(v.reason[0], text);
}

static void verdicts(void **state)
{
	struct sv_opts o = opts(SV_SERVER);
	struct sv_run r;

	(void)state;
	fill(&r);
	/* At most sv_over_max(990, 1000) = 2 may be above the bound. */
	o.bound_us = 998;
	assert_true(reason(&o, "overlay-tcp", &r, NULL));
	o.bound_us = 997;
	assert_true(reason(&o, "overlay-tcp", &r, "longer than the bound"));
	o.bound_us = 1000;
	assert_true(reason(&o, "loopback-tcp", &r, "the path was"));
	for (int i = 0; i < 11; i++)
		r.slip_ns[RUN - 1 - i] = 100001;
	assert_true(reason(&o, "overlay-tcp", &r, "itself was late"));
	memset(r.slip_ns, 0, RUN * sizeof(*r.slip_ns));
	r.gave_up = true;
	assert_true(reason(&o, "overlay-tcp", &r, "given up"));
	r.gave_up = false;
	o.duration_ms = 3;
	assert_true(reason(&o, "overlay-tcp", &r, "less than 3"));
	o.duration_ms = 1;
	o.queries = 1001;
	assert_true(reason(&o, "overlay-tcp", &r, "less than 1001"));
	o = opts(SV_MULTI_STREAM);
	r.own_ns = 200000;
	assert_true(reason(&o, "overlay-tcp", &r, NULL));
	r.own_ns = 200001;
	assert_true(reason(&o, "overlay-tcp", &r, "the client itself took"));
	sv_run_fini(&r);
}

/* The early stopping estimate leaves out as many as it may. */
static void estimates(void **state)
{
	struct sv_opts o = opts(SV_SINGLE_STREAM);
	struct sv_verdict v;
	struct sv_run r;

	(void)state;
	fill(&r);
	sv_judge(&o, SV_OVERLAY, "overlay-tcp", &r, &v);
	assert_int_equal((long)v.metric / 1000,
			 RUN - sv_over_max(900, RUN));
	assert_in_range((long)v.metric / 1000, 901, 930);
	sv_run_fini(&r);
}

static int parse(enum sv_cmd cmd, const char *a, const char *b,
		 struct pl_err *err)
{
	char x[64], y[64];
	char *argv[] = { (char *)"pod_serve", x, y, NULL };
	struct sv_opts o;

	snprintf(x, sizeof(x), "%s", a);
	snprintf(y, sizeof(y), "%s", b ? b : "");
	return sv_opts_parse(cmd, b ? 3 : 2, argv, &o, err);
}

static void options(void **state)
{
	struct pl_err err;

	(void)state;
	assert_int_equal(parse(SV_COMPARE, "--scenario=server,offline",
			       "--rate=10.5", &err), 0);
	assert_int_equal(parse(SV_COMPARE, "--scenario=server,x", NULL, &err),
			 -EINVAL);
	assert_non_null(strstr(err.msg, "single-stream, multi-stream"));
	assert_int_equal(parse(SV_COMPARE, "--transport=host",
			       "--placement=same-node", &err), -EINVAL);
	assert_non_null(strstr(err.msg, "loopback"));
	assert_int_equal(parse(SV_COMPARE, "--percentile=95", NULL, &err),
			 -EINVAL);
	assert_int_equal(parse(SV_COMPARE, "--samples=1048576",
			       "--sample-bytes=1048576", &err), -EINVAL);
	assert_int_equal(parse(SV_LOAD, "--server=10.0.0.1",
			       "--scenario=server", &err), -EINVAL);
	assert_non_null(strstr(err.msg, "--rate"));
	assert_int_equal(parse(SV_LOAD, "--scenario=offline", NULL, &err),
			 -EINVAL);
	assert_non_null(strstr(err.msg, "--server"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(early_stopping),
		cmocka_unit_test(schedules),
		cmocka_unit_test(picks),
		cmocka_unit_test(sorted),
		cmocka_unit_test(values),
		cmocka_unit_test(patterns),
		cmocka_unit_test(held_up),
		cmocka_unit_test(lies),
		cmocka_unit_test(other_options),
		cmocka_unit_test(verdicts),
		cmocka_unit_test(estimates),
		cmocka_unit_test(options),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
