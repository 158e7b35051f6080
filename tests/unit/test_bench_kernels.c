/* tests/unit/test_bench_kernels.c - arithmetic and plan of ps_throughput */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "bench/ps_kernels.h"

#define WORKERS 3
#define STEPS 4

struct state {
	struct ps_plan plan;
	float *p, *g[WORKERS];
};

static int setup(void **out)
{
	struct state *s = calloc(1, sizeof(*s));
	uint32_t w, c;

	assert_int_equal(ps_plan_init(&s->plan, ps_model_find("googlenet"), 1,
				      PS_CHUNK_BYTES_DEFAULT, NULL), 0);
	s->p = calloc(s->plan.elems, sizeof(float));
	for (w = 0; w < WORKERS; w++)
		s->g[w] = calloc(s->plan.elems, sizeof(float));
	for (c = 0; c < s->plan.n_chunks; c++)
		ps_params_init(&s->plan, c,
			       s->p + ps_plan_chunk(&s->plan, c).first);
	*out = s;
	return 0;
}

static int teardown(void **state)
{
	struct state *s = *state;
	uint32_t w;

	for (w = 0; w < WORKERS; w++)
		free(s->g[w]);
	free(s->p);
	ps_plan_fini(&s->plan);
	free(s);
	return 0;
}

static void fill_all(struct state *s, uint32_t step)
{
	uint32_t w, c;

	for (w = 0; w < WORKERS; w++) {
		for (c = 0; c < s->plan.n_chunks; c++)
			ps_fill(&s->plan, c, w, step,
				s->g[w] + ps_plan_chunk(&s->plan, c).first);
	}
}

static void train(struct state *s, uint32_t steps)
{
	const float *src[WORKERS];
	struct ps_chunk k;
	uint32_t c, w, step;

	for (step = 0; step < steps; step++) {
		fill_all(s, step);
		for (c = 0; c < s->plan.n_chunks; c++) {
			k = ps_plan_chunk(&s->plan, c);
			for (w = 0; w < WORKERS; w++)
				src[w] = s->g[w] + k.first;
			ps_update(s->p + k.first, src, WORKERS, k.n);
		}
	}
}

static int verify(struct state *s, uint32_t workers, uint32_t steps,
		  struct pl_err *err)
{
	uint32_t c;
	int r = 0;

	for (c = 0; c < s->plan.n_chunks && !r; c++)
		r = ps_verify(&s->plan, c, 0, workers, steps, s->p +
			      ps_plan_chunk(&s->plan, c).first, err);
	return r;
}

static void training_verifies(void **state)
{
	struct state *s = *state;
	struct pl_err err = { .code = 0 };

	assert_int_equal(verify(s, WORKERS, 0, &err), 0);
	train(s, STEPS);
	assert_int_equal(verify(s, WORKERS, STEPS, &err), 0);
	assert_int_equal(verify(s, WORKERS, STEPS - 1, &err), -EBADMSG);
	assert_int_equal(verify(s, WORKERS - 1, STEPS, &err), -EBADMSG);
}

/* Where the last element of a tensor stands is told. */
static void one_bit_is_caught(void **state)
{
	static const uint64_t at[] = { 0, 9407, 9408, 131071, 131072 };
	struct state *s = *state;
	struct pl_err err = { .code = 0 };
	uint32_t bits, bit;
	size_t i;

	train(s, STEPS);
	for (i = 0; i < PL_ARRAY_SIZE(at); i++) {
		for (bit = 0; bit < 32; bit += 31) {
			memcpy(&bits, &s->p[at[i]], sizeof(bits));
			bits ^= 1u << bit;
			memcpy(&s->p[at[i]], &bits, sizeof(bits));
			assert_int_equal(verify(s, WORKERS, STEPS, &err),
					 -EBADMSG);
			bits ^= 1u << bit;
			memcpy(&s->p[at[i]], &bits, sizeof(bits));
		}
	}
	assert_int_equal(verify(s, WORKERS, STEPS, &err), 0);
	s->p[9409] += 1.0f;
	assert_int_equal(verify(s, WORKERS, STEPS, &err), -EBADMSG);
	assert_non_null(strstr(err.msg, "googlenet tensor 1 index 1:"));
}

/* Gradients of the wrong step or place are noticed, not just lost ones. */
static void gradients_differ(void **state)
{
	struct state *s = *state;
	size_t bytes = PS_CHUNK_BYTES_DEFAULT;
	float *other = malloc(bytes);

	fill_all(s, 0);
	assert_memory_not_equal(s->g[0], s->g[1], bytes);
	assert_memory_not_equal(s->g[0], (char *)s->g[0] + bytes, bytes);
	ps_fill(&s->plan, 0, 0, 1, other);
	assert_memory_not_equal(s->g[0], other, bytes);
	free(other);
}

static void fill_sum_is_fill_and_add(void **state)
{
	struct state *s = *state;
	struct ps_chunk k = ps_plan_chunk(&s->plan, 1);
	float *sum = calloc(k.n, sizeof(float));
	float *want = calloc(k.n, sizeof(float));
	const float *src[2];

	fill_all(s, 2);
	src[0] = s->g[1] + k.first;
	src[1] = s->g[2] + k.first;
	ps_fill_sum(&s->plan, 1, 0, 2, src, 2, sum);
	memcpy(want, s->g[0] + k.first, k.n * sizeof(float));
	ps_add(want, src[0], k.n);
	ps_add(want, src[1], k.n);
	assert_memory_equal(sum, want, k.n * sizeof(float));
	free(sum);
	free(want);
}

static void checksums_add_up(void **state)
{
	struct state *s = *state;
	uint64_t whole = ps_checksum(s->p, 1000, 5), parts;

	parts = ps_checksum(s->p, 300, 5) +
		ps_checksum(s->p + 300, 700, 305);
	assert_true(whole == parts);
	s->p[7] = -s->p[7];
	assert_true(whole != ps_checksum(s->p, 1000, 5));
}

static void models_are_whole(void **state)
{
	const struct ps_model *m;
	uint64_t sum;
	uint32_t t;
	size_t i;

	(void)state;
	for (i = 0; (m = ps_model_at(i)); i++) {
		for (t = 0, sum = 0; t < m->n_tensors; t++)
			sum += m->tensors[t];
		assert_true(sum == m->elems);
		assert_ptr_equal(ps_model_find(m->name), m);
	}
	assert_int_equal(i, PS_MODELS_MAX);
	assert_int_equal(ps_model_find("vgg16")->elems, 138361641);
	assert_null(ps_model_find("vgg"));
}

static void chunks_cover_the_model(void **state)
{
	static const uint32_t servers[] = { 1, 2, 3, 7 };
	uint64_t at, share[8], total;
	struct ps_plan plan;
	struct ps_chunk k;
	uint32_t c, s;
	size_t i;

	(void)state;
	for (i = 0; i < PL_ARRAY_SIZE(servers); i++) {
		assert_int_equal(ps_plan_init(&plan, ps_model_find("resnet50"),
				 servers[i], PS_CHUNK_BYTES_DEFAULT, NULL), 0);
		memset(share, 0, sizeof(share));
		for (c = 0, at = 0; c < plan.n_chunks; c++, at += k.n) {
			k = ps_plan_chunk(&plan, c);
			assert_true(k.first == at && k.n > 0);
			assert_true(share[k.server] == k.server_first);
			share[k.server] += k.n;
		}
		assert_true(at == plan.elems);
		for (s = 0, total = 0; s < servers[i]; s++) {
			assert_true(ps_plan_server_elems(&plan, s) == share[s]);
			total += share[s];
			assert_true(share[0] - share[s] <= plan.chunk_elems);
		}
		assert_true(total == plan.elems);
		ps_plan_fini(&plan);
	}
	assert_int_equal(ps_plan_init(&plan, ps_model_find("googlenet"), 99,
				      PS_CHUNK_BYTES_DEFAULT, NULL), -EINVAL);
}

/* From its back: the same chunks, and no two in one place of a share. */
static void chunks_from_the_back(void **state)
{
	struct ps_plan plan;
	struct ps_chunk k, front;
	uint64_t end[3] = { 0 };
	uint32_t c, s;

	(void)state;
	assert_int_equal(ps_plan_init(&plan, ps_model_find("resnet50"), 3,
				      PS_CHUNK_BYTES_DEFAULT, NULL), 0);
	for (c = 0; c < plan.n_chunks; c++) {
		plan.back_first = false;
		front = ps_plan_chunk(&plan, plan.n_chunks - 1 - c);
		plan.back_first = true;
		k = ps_plan_chunk(&plan, c);
		assert_true(k.first == front.first && k.n == front.n);
		assert_true(k.server == c % 3);
		assert_true(k.server_first >= end[k.server]);
		end[k.server] = k.server_first + k.n;
	}
	for (s = 0; s < 3; s++)
		assert_true(ps_plan_server_elems(&plan, s) == end[s]);
	ps_plan_fini(&plan);
}

static void tensors_are_found(void **state)
{
	struct state *s = *state;

	assert_int_equal(ps_plan_tensor(&s->plan, 0), 0);
	assert_int_equal(ps_plan_tensor(&s->plan, 9407), 0);
	assert_int_equal(ps_plan_tensor(&s->plan, 9408), 1);
	assert_int_equal(ps_plan_tensor(&s->plan, s->plan.elems - 1),
			 s->plan.model->n_tensors - 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(training_verifies),
		TEST(one_bit_is_caught),
		TEST(gradients_differ),
		TEST(fill_sum_is_fill_and_add),
		TEST(checksums_add_up),
		TEST(tensors_are_found),
		cmocka_unit_test(models_are_whole),
		cmocka_unit_test(chunks_cover_the_model),
		cmocka_unit_test(chunks_from_the_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
