/* tests/unit/test_bench_compress.c - codecs of gradients */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "bench/compress.h"
#include "bench/compress_impl.h"
#include "bench/compress_shape.h"
#include "bench/ps_models.h"

#define WORKERS 3
#define ROWS 60
#define COLUMNS 70
#define ELEMS (ROWS * COLUMNS + COLUMNS + 40)

/* A matrix, a vector and a small matrix. */
static const struct codec_tensor tensors[] = {
	{ ROWS * COLUMNS, ROWS }, { COLUMNS, 1 }, { 40, 8 },
};

struct job {
	struct codec *codec[WORKERS];
	float grad[WORKERS][ELEMS], sum[ELEMS];
	void *msg[WORKERS], *out;
	size_t len[WORKERS], out_len;
};

static float noise(uint32_t *h)
{
	*h = *h * 1664525u + 1013904223u;
	return (float)(int32_t)*h * 0x1p-31f;
}

static struct job *job_new(const struct codec_conf *conf)
{
	struct job *j = calloc(1, sizeof(*j));
	uint32_t h = 7;

	for (uint32_t w = 0; w < WORKERS; w++) {
		assert_int_equal(codec_create(conf, tensors,
					      PL_ARRAY_SIZE(tensors),
					      &j->codec[w], NULL), 0);
		j->msg[w] = malloc(codec_message_max(j->codec[w]));
		for (uint32_t i = 0; i < ELEMS; i++)
			j->grad[w][i] = noise(&h);
	}
	assert_int_equal(codec_elems(j->codec[0]), ELEMS);
	j->out = malloc(codec_message_max(j->codec[0]));
	return j;
}

static void job_free(struct job *j)
{
	for (uint32_t w = 0; w < WORKERS; w++) {
		codec_destroy(j->codec[w]);
		free(j->msg[w]);
	}
	free(j->out);
	free(j);
}

/* Every worker decodes what the first one combined. */
static void job_step(struct job *j)
{
	struct codec **c = j->codec;
	float sum[ELEMS];

	for (unsigned int r = 0; r < codec_rounds(c[0]); r++) {
		for (uint32_t w = 0; w < WORKERS; w++) {
			j->len[w] = codec_encode(c[w], r, j->grad[w],
						 j->msg[w]);
			assert_true(j->len[w] <= codec_message_max(c[w]));
		}
		assert_int_equal(codec_combine(c[0], r, (const void **)j->msg,
					       j->len, j->out, &j->out_len,
					       NULL), 0);
		assert_true(j->out_len <= codec_message_max(c[0]));
		for (uint32_t w = 0; w < WORKERS; w++)
			assert_int_equal(codec_decode(c[w], r, j->out,
						      j->out_len,
						      w ? sum : j->sum,
						      NULL), 0);
	}
	assert_memory_equal(sum, j->sum, sizeof(sum));
}

static float exact(const struct job *j, uint32_t i)
{
	float s = 0;

	for (uint32_t w = 0; w < WORKERS; w++)
		s += j->grad[w][i];
	return s;
}

static void names(void **state)
{
	(void)state;
	for (int i = 0; i < CODEC_KINDS; i++)
		assert_int_equal(codec_find(codec_name((enum codec_kind)i)),
				 i);
	assert_int_equal(codec_find("zip"), -1);
}

static void none_is_exact(void **state)
{
	struct codec_conf conf = { .kind = CODEC_NONE, .workers = WORKERS };
	struct job *j = job_new(&conf);

	(void)state;
	job_step(j);
	for (uint32_t i = 0; i < ELEMS; i++)
		assert_true(j->sum[i] == exact(j, i));
	job_free(j);
}

/* One element through fp16, alone. */
static float half(float v)
{
	struct codec_conf conf = { .kind = CODEC_FP16, .workers = 1 };
	struct codec_tensor t = { 1, 1 };
	struct codec *c;
	uint16_t msg;
	float out;

	assert_int_equal(codec_create(&conf, &t, 1, &c, NULL), 0);
	assert_int_equal(codec_encode(c, 0, &v, &msg), 2);
	assert_int_equal(codec_decode(c, 0, &msg, 2, &out, NULL), 0);
	codec_destroy(c);
	return out;
}

static void halves(void **state)
{
	(void)state;
	assert_true(half(0) == 0 && half(1) == 1 && half(-0.5f) == -0.5f);
	assert_true(signbit(half(-0.0f)));
	/* Ties go to the even one. */
	assert_true(half(1 + 0x1p-11f) == 1);
	assert_true(half(1 + 0x3p-11f) == 1 + 0x1p-9f);
	assert_true(half(1 + 0x1.001p-11f) == 1 + 0x1p-10f);
	assert_true(half(2047.5f) == 2048);
	/* Subnormal ones. */
	assert_true(half(0x1p-24f) == 0x1p-24f);
	assert_true(half(0x1p-25f) == 0 && half(0x1.8p-24f) == 0x1p-23f);
	assert_true(half(0x1.fffp-15f) == 0x1p-14f);
	/* None is infinite. */
	assert_true(half(65504) == 65504 && half(1e9f) == 65504);
	assert_true(half(-INFINITY) == -65504 && isnan(half(NAN)));
}

static int down(const void *a, const void *b)
{
	float x = fabsf(*(const float *)a), y = fabsf(*(const float *)b);

	return (x < y) - (x > y);
}

/* Against a whole sort, with many equal values. */
static void selection_is_exact(void **state)
{
	enum { N = 20000 };
	static float v[N], sorted[N], scratch[N];
	static uint32_t out[N];
	static const uint32_t ks[] = { 0, 1, 20, 200, 9999, N, N + 5 };
	uint32_t h = 3;

	(void)state;
	for (uint32_t kind = 0; kind < 4; kind++) {
		for (uint32_t i = 0; i < N; i++) {
			v[i] = noise(&h);
			/* Few values; none but a few; all the same. */
			v[i] = kind == 1 ? floorf(v[i] * 4) :
			       kind == 2 ? (i % 5000 == 7 ? v[i] : 0) :
			       kind == 3 ? 1 : v[i];
		}
		memcpy(sorted, v, sizeof(v));
		qsort(sorted, N, sizeof(*sorted), down);
		for (size_t k = 0; k < PL_ARRAY_SIZE(ks); k++) {
			uint32_t want = PL_MIN(ks[k], (uint32_t)N);
			uint32_t n = codec_select(v, N, ks[k], k, scratch,
						  out);

			assert_int_equal(n, want);
			for (uint32_t i = 0; i < n; i++) {
				assert_true(fabsf(v[out[i]]) >=
					    fabsf(sorted[want - 1]));
				assert_true(i == 0 || out[i] > out[i - 1]);
			}
		}
	}
}

/* What was sent and what is kept are what came in. */
static void drop_loses_nothing(void **state)
{
	struct codec_conf conf = { .kind = CODEC_DROP, .workers = WORKERS,
				   .sparsity = 0.99 };
	struct job *j = job_new(&conf);
	float all[ELEMS] = { 0 };
	uint32_t sent = 0;

	(void)state;
	for (int step = 0; step < 5; step++) {
		job_step(j);
		for (uint32_t i = 0; i < ELEMS; i++)
			all[i] += j->sum[i];
	}
	for (uint32_t i = 0; i < ELEMS; i++) {
		float kept = 0;

		for (uint32_t w = 0; w < WORKERS; w++)
			kept += j->codec[w]->residual[i];
		assert_true(fabsf(all[i] + kept - 5 * exact(j, i)) < 1e-4f);
		sent += j->sum[i] != 0;
	}
	/* 42 of 4200, 1 of 40, and the vector, of each. */
	assert_in_range(sent, COLUMNS, COLUMNS + WORKERS * 43);
	for (uint32_t w = 0; w < WORKERS; w++)
		assert_int_equal(j->len[w], COLUMNS * 4 + 43 * 6);
	job_free(j);
}

/* By hand: one matrix of 2000 of which 2 are sent, one vector of 1. */
static void dgc_step_by_step(void **state)
{
	static const struct codec_tensor t[] = { { 2000, 40 }, { 1, 1 } };
	struct codec_conf conf = { .kind = CODEC_DGC, .workers = 4,
		.sparsity = 0.999, .momentum = 0.5f, .clip = 20 };
	static float g[2001], sum[2001];
	struct codec *c;
	void *msg;
	size_t len;

	(void)state;
	assert_int_equal(codec_create(&conf, t, 2, &c, NULL), 0);
	assert_true(codec_has_momentum(c));
	msg = malloc(codec_message_max(c));
	/* The norm is 20, and 20 / sqrt(4) allowed: halves. */
	g[5] = 16;
	g[1500] = -12;
	g[2000] = sqrtf(400 - 16 * 16 - 12 * 12);
	len = codec_encode(c, 0, g, msg);
	assert_int_equal(len, 4 + 2 * 6);
	assert_int_equal(codec_decode(c, 0, msg, len, sum, NULL), 0);
	assert_true(sum[5] == 8 && sum[1500] == -6 && sum[9] == 0);
	/* Factor masking: the velocity of what was sent is gone, too. */
	assert_true(c->velocity[5] == 0 && c->residual[5] == 0);
	memset(g, 0, sizeof(g));
	g[7] = 4;
	g[8] = 3;
	g[9] = 2;
	g[2000] = 4;
	codec_encode(c, 0, g, msg);
	codec_decode(c, 0, msg, len, sum, NULL);
	assert_true(sum[7] == 4 && sum[8] == 3 && sum[2000] == 4);
	/* 2 was kept, its velocity is 1 now: v = 2 + 1; the vector's is 2. */
	memset(g, 0, sizeof(g));
	codec_encode(c, 0, g, msg);
	codec_decode(c, 0, msg, len, sum, NULL);
	assert_true(sum[9] == 3 && sum[2000] == 2);
	free(msg);
	codec_destroy(c);
}

static void warm_up(void **state)
{
	(void)state;
	assert_true(codec_warmup(0.999, 0) == 0.75);
	assert_true(codec_warmup(0.999, 1) == 0.9375);
	assert_true(codec_warmup(0.999, 3) == 0.99609375);
	assert_true(codec_warmup(0.999, 4) == 0.999);
	assert_true(codec_warmup(0.9, 1) == 0.9);
}

/* Runs that do not fit into 16 bits, and ones that just do. */
static void long_runs(void **state)
{
	static const struct codec_tensor t = { 300000, 300 };
	static const uint32_t at[] = { 0, 65536, 131073, 299999 };
	struct codec_conf conf = { .kind = CODEC_DROP, .workers = 1,
				   .sparsity = 1 - 4.0 / 300000 };
	float *g = calloc(t.elems, 4), *sum = calloc(t.elems, 4);
	struct codec *c;
	void *msg;
	size_t len;

	(void)state;
	assert_int_equal(codec_create(&conf, &t, 1, &c, NULL), 0);
	msg = malloc(codec_message_max(c));
	for (uint32_t i = 0; i < 4; i++)
		g[at[i]] = (float)i + 1;
	len = codec_encode(c, 0, g, msg);
	/* 65536 cuts one run of 65536 zeros, and 168925 two. */
	assert_int_equal(len, (4 + 1 + 2) * 6);
	assert_int_equal(codec_decode(c, 0, msg, len, sum, NULL), 0);
	assert_memory_equal(g, sum, t.elems * 4);
	codec_destroy(c);
	free(msg);
	free(g);
	free(sum);
}

/* Tables 2 and 3 of the paper: 0.1 % of the elements, 6 bytes each. */
static double ratio_of(const char *model)
{
	const struct ps_model *m = ps_model_find(model);
	struct codec_tensor *t = calloc(m->n_tensors, sizeof(*t));
	struct codec_conf conf = { .kind = CODEC_DROP, .workers = 1,
				   .sparsity = 0.999 };
	float *g = malloc(m->elems * sizeof(*g));
	uint32_t h = 1;
	struct codec *c;
	void *msg;
	size_t len;

	codec_shapes(m->tensors, m->n_tensors, t);
	assert_int_equal(codec_create(&conf, t, m->n_tensors, &c, NULL), 0);
	msg = malloc(codec_message_max(c));
	for (uint64_t i = 0; i < m->elems; i++)
		g[i] = noise(&h);
	len = codec_encode(c, 0, g, msg);
	codec_destroy(c);
	free(msg);
	free(g);
	free(t);
	return (double)m->elems * 4 / (double)len;
}

static void golden_sizes(void **state)
{
	(void)state;
	assert_int_equal(lround(ratio_of("resnet50") * 10), 2767);
	assert_int_equal(lround(ratio_of("alexnet_caffe") * 10), 5977);
}

static void error_feedback(enum codec_kind kind, size_t bytes)
{
	struct codec_conf conf = { .kind = kind, .workers = WORKERS,
				   .rank = 2 };
	struct job *j = job_new(&conf);
	static float all[ELEMS];
	double first = 0, last = 0;

	memset(all, 0, sizeof(all));
	for (int step = 1; step <= 200; step++) {
		double off = 0;

		job_step(j);
		for (uint32_t i = 0; i < ELEMS; i++) {
			all[i] += j->sum[i];
			off += fabs((double)all[i] / step - exact(j, i));
		}
		first = step == 1 ? off : first;
		last = off;
	}
	/* The mean of what arrives goes to what was sent. */
	assert_true(last < first / 10);
	assert_int_equal(j->len[0], bytes);
	job_free(j);
}

static void onebit(void **state)
{
	(void)state;
	error_feedback(CODEC_ONEBIT, COLUMNS * 4 + 2 * 4 +
		       ROWS * COLUMNS / 8 + 40 / 8);
}

static void twobit(void **state)
{
	(void)state;
	error_feedback(CODEC_TWOBIT, COLUMNS * 4 + 2 * 4 +
		       ROWS * COLUMNS / 4 + 40 / 4);
}

static void powersgd(void **state)
{
	(void)state;
	error_feedback(CODEC_POWERSGD, 2 * (COLUMNS + 5) * 4);
}

/* A matrix that has the rank arrives whole, in the step after the first. */
static void low_rank_is_exact(void **state)
{
	struct codec_conf conf = { .kind = CODEC_POWERSGD,
				   .workers = WORKERS, .rank = 2 };
	struct job *j = job_new(&conf);

	(void)state;
	for (uint32_t w = 0; w < WORKERS; w++)
		for (uint32_t i = 0; i < ROWS * COLUMNS; i++)
			j->grad[w][i] = (float)(i / COLUMNS) * 0.5f -
				(float)(i % COLUMNS) * (float)(w + 1) / 8;
	for (uint32_t w = 0; w < WORKERS; w++)
		for (uint32_t i = ROWS * COLUMNS + COLUMNS; i < ELEMS; i++)
			j->grad[w][i] = 0;
	job_step(j);
	for (uint32_t i = 0; i < ELEMS; i++)
		assert_true(fabsf(j->sum[i] - exact(j, i)) < 1e-2f);
	job_free(j);
}

static void bad_messages(void **state)
{
	struct codec_conf conf = { .workers = 1, .sparsity = 0.99,
				   .rank = 2 };
	static uint8_t msg[ELEMS * 4 + 8];
	static float sum[ELEMS];
	const void *msgs[] = { msg };
	struct codec *c;
	uint16_t *run;
	size_t len, out;

	(void)state;
	for (int kind = 0; kind < CODEC_KINDS; kind++) {
		conf.kind = (enum codec_kind)kind;
		assert_int_equal(codec_create(&conf, tensors, 3, &c, NULL),
				 0);
		for (len = 0; len < 8; len += 3) {
			assert_int_equal(codec_decode(c, 0, msg, len, sum,
						      NULL), -EPROTO);
			assert_int_equal(codec_combine(c, 0, msgs, &len, sum,
						       &out, NULL), -EPROTO);
		}
		len = sizeof(msg);
		assert_int_equal(codec_decode(c, 0, msg, len, sum, NULL),
				 -EPROTO);
		codec_destroy(c);
	}
	/* Runs that go past the end. */
	conf.kind = CODEC_DGC;
	assert_int_equal(codec_create(&conf, tensors, 3, &c, NULL), 0);
	run = (uint16_t *)(msg + COLUMNS * 4 + 4);
	*run = ROWS * COLUMNS + 40;
	len = COLUMNS * 4 + 6;
	assert_int_equal(codec_decode(c, 0, msg, len, sum, NULL), -EPROTO);
	assert_int_equal(codec_combine(c, 0, msgs, &len, sum, &out, NULL),
			 -EPROTO);
	*run = ROWS * COLUMNS + 39;
	assert_int_equal(codec_decode(c, 0, msg, len, sum, NULL), 0);
	codec_destroy(c);
}

static void bad_shapes(void **state)
{
	static const struct codec_tensor t = { 10, 3 };
	struct codec_conf conf = { .workers = 1 };
	struct codec *c;

	(void)state;
	assert_int_equal(codec_create(&conf, &t, 1, &c, NULL), -EINVAL);
	assert_null(c);
}

static void shapes(void **state)
{
	static const uint32_t sizes[] = { 1728, 64, 64, 12, 4096, 64 };
	struct codec_tensor t[6];

	(void)state;
	codec_shapes(sizes, 6, t);
	assert_int_equal(t[0].rows, 27);
	assert_int_equal(t[1].rows, 1);
	assert_int_equal(t[2].rows, 1);
	/* No bias behind it, and no part of the one before. */
	assert_int_equal(t[3].rows, 3);
	assert_int_equal(t[4].rows, 64);
	assert_int_equal(t[5].rows, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(none_is_exact),
		cmocka_unit_test(halves),
		cmocka_unit_test(selection_is_exact),
		cmocka_unit_test(drop_loses_nothing),
		cmocka_unit_test(dgc_step_by_step),
		cmocka_unit_test(warm_up),
		cmocka_unit_test(long_runs),
		cmocka_unit_test(golden_sizes),
		cmocka_unit_test(onebit),
		cmocka_unit_test(twobit),
		cmocka_unit_test(powersgd),
		cmocka_unit_test(low_rank_is_exact),
		cmocka_unit_test(bad_messages),
		cmocka_unit_test(bad_shapes),
		cmocka_unit_test(shapes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
