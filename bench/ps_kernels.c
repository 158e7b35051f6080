/*
 * bench/ps_kernels.c - the arithmetic of the training step
 *
 * A value of a gradient is ((v(i) + h) & 15) - 8, with v(i) a hash of the place
 * and h a hash of worker, step, tensor and block. So the sum over all workers
 * and steps at a place depends on v(i) only, of which there are 16, and what
 * the parameters must be costs one pass, however many gradients there were.
 *
 * The loops are plain C over restrict pointers; the compiler makes variants for
 * the instruction sets and the loader picks one.
 */
#include "bench/ps_kernels.h"

#include <errno.h>
#include <string.h>

#include "common/util.h"

/* Sanitizers can't run resolvers of variants: they come before their start. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && \
	!defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define VARIANTS __attribute__((optimize("O3"), \
	target_clones("arch=x86-64-v4", "avx2", "default")))
#elif !defined(__clang__)
#define VARIANTS __attribute__((optimize("O3")))
#else
#define VARIANTS
#endif

#define PARAM_UNIT (PS_LR * PS_GRAD_UNIT)

/* The bits of a float. */
typedef uint32_t __attribute__((may_alias)) float_bits;

static inline uint32_t place(uint32_t i)
{
	return (i * 0x9e3779b1u) >> 28;
}

static inline int32_t start(uint32_t i)
{
	return (int32_t)((i * 0x85ebca6bu) >> 23) - 256;
}

static uint32_t seed(uint32_t worker, uint32_t step, uint32_t tensor,
		     uint32_t block)
{
	uint32_t h = worker * 0xc2b2ae35u + step * 0x27d4eb2fu +
		     tensor * 0x165667b1u + block * 0x9e3779b1u;

	h ^= h >> 15;
	h *= 0x2c1b3c6du;
	h ^= h >> 12;
	h *= 0x297a2d39u;
	return (h ^ h >> 15) & 15;
}

/* A stretch of a chunk within one tensor and one block. */
struct piece {
	uint64_t first;
	uint32_t n, tensor, block;
};

/* The piece that begins at element `first`, before `end`. */
static struct piece piece_at(const struct ps_plan *plan, uint64_t first,
			     uint64_t end, uint32_t tensor)
{
	struct piece p = { .first = first, .tensor = tensor,
			   .block = (uint32_t)(first / PS_BLOCK_ELEMS) };
	uint64_t stop = (first / PS_BLOCK_ELEMS + 1) * PS_BLOCK_ELEMS;

	while (plan->tensor_end[p.tensor] <= first)
		p.tensor++;
	stop = PL_MIN(stop, plan->tensor_end[p.tensor]);
	p.n = (uint32_t)(PL_MIN(stop, end) - first);
	return p;
}

VARIANTS
static void fill(float *restrict dst, uint32_t n, uint32_t first, uint32_t h)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		dst[i] = (float)((int32_t)((place(first + i) + h) & 15) - 8) *
			 PS_GRAD_UNIT;
}

VARIANTS
static void add(float *restrict dst, const float *restrict src, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		dst[i] += src[i];
}

VARIANTS
static void update1(float *restrict p, const float *restrict a, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		p[i] -= PS_LR * a[i];
}

VARIANTS
static void update2(float *restrict p, const float *restrict a,
		    const float *restrict b, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		p[i] -= PS_LR * (a[i] + b[i]);
}

VARIANTS
static void init(float *restrict p, uint32_t n, uint32_t first)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		p[i] = (float)start(first + i) * PARAM_UNIT;
}

VARIANTS
static void expect(float *restrict p, uint32_t n, uint32_t first,
		   const int32_t *restrict sums)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		p[i] = (float)(start(first + i) - sums[place(first + i)]) *
		       PARAM_UNIT;
}

VARIANTS
static uint64_t checksum(const float_bits *restrict p, uint32_t n,
			 uint64_t first)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < n; i++)
		sum += (p[i] + 1ull) * (2 * (first + i) + 1);
	return sum;
}

void ps_add(float *dst, const float *src, uint32_t n)
{
	add(dst, src, n);
}

void ps_fill_sum(const struct ps_plan *plan, uint32_t c, uint32_t worker,
		 uint32_t step, const float *const *src, uint32_t n_src,
		 float *dst)
{
	struct ps_chunk k = ps_plan_chunk(plan, c);
	struct piece p = { .tensor = ps_plan_tensor(plan, k.first) };
	uint64_t at, end = k.first + k.n;
	uint32_t off, s;

	for (at = k.first; at < end; at += p.n) {
		p = piece_at(plan, at, end, p.tensor);
		off = (uint32_t)(at - k.first);
		fill(dst + off, p.n, (uint32_t)at,
		     seed(worker, step, p.tensor, p.block));
		for (s = 0; s < n_src; s++)
			add(dst + off, src[s] + off, p.n);
	}
}

void ps_fill(const struct ps_plan *plan, uint32_t c, uint32_t worker,
	     uint32_t step, float *dst)
{
	ps_fill_sum(plan, c, worker, step, NULL, 0, dst);
}

void ps_update(float *p, const float *const *src, uint32_t n_src, uint32_t n)
{
	float acc[1024];
	uint32_t at, len, s;

	if (n_src == 1) {
		update1(p, src[0], n);
		return;
	}
	for (at = 0; n_src > 2 && at < n; at += len) {
		len = PL_MIN((uint32_t)PL_ARRAY_SIZE(acc), n - at);
		memcpy(acc, src[0] + at, len * sizeof(*acc));
		for (s = 1; s + 1 < n_src; s++)
			add(acc, src[s] + at, len);
		update2(p + at, acc, src[s] + at, len);
	}
	if (n_src == 2)
		update2(p, src[0], src[1], n);
}

void ps_params_init(const struct ps_plan *plan, uint32_t c, float *p)
{
	struct ps_chunk k = ps_plan_chunk(plan, c);

	init(p, k.n, (uint32_t)k.first);
}

void ps_params_init_all(const struct ps_plan *plan, float *params)
{
	for (uint32_t c = 0; c < plan->n_chunks; c++)
		ps_params_init(plan, c, params + ps_plan_chunk(plan, c).first);
}

void ps_chunk_alone(const struct ps_plan *plan, uint32_t c, uint32_t worker,
		    uint32_t step, float *grads, float *params)
{
	struct ps_chunk k = ps_plan_chunk(plan, c);
	const float *src = grads + k.first;

	ps_fill(plan, c, worker, step, grads + k.first);
	ps_update(params + k.first, &src, 1, k.n);
}

/* By v: the sum of all gradients' integers at such a place of this piece. */
static void sums_of(const struct piece *p, uint32_t first, uint32_t workers,
		    uint32_t steps, int32_t *sums)
{
	uint32_t count[16] = { 0 }, w, s, v, h;

	for (s = 0; s < steps; s++) {
		for (w = first; w < first + workers; w++)
			count[seed(w, s, p->tensor, p->block)]++;
	}
	for (v = 0; v < 16; v++) {
		sums[v] = 0;
		for (h = 0; h < 16; h++)
			sums[v] += (int32_t)count[h] *
				   ((int32_t)((v + h) & 15) - 8);
	}
}

static int mismatch(const struct ps_plan *plan, const struct piece *p,
		    const float *want, const float *got, struct pl_err *err)
{
	uint64_t begin = p->tensor ? plan->tensor_end[p->tensor - 1] : 0;
	uint32_t i = 0;

	while (i + 1 < p->n && !memcmp(&want[i], &got[i], sizeof(float)))
		i++;
	return pl_err_set(err, EBADMSG, "wrong parameter: %s tensor %u index "
			  "%llu: expected %a, got %a", plan->model->name,
			  p->tensor, (unsigned long long)(p->first + i - begin),
			  (double)want[i], (double)got[i]);
}

int ps_verify(const struct ps_plan *plan, uint32_t c, uint32_t first,
	      uint32_t workers, uint32_t steps, const float *p,
	      struct pl_err *err)
{
	struct ps_chunk k = ps_plan_chunk(plan, c);
	struct piece q = { .tensor = ps_plan_tensor(plan, k.first) };
	float want[PS_BLOCK_ELEMS];
	uint64_t at, end = k.first + k.n;
	int32_t sums[16];
	uint32_t off;

	for (at = k.first; at < end; at += q.n) {
		q = piece_at(plan, at, end, q.tensor);
		off = (uint32_t)(at - k.first);
		sums_of(&q, first, workers, steps, sums);
		expect(want, q.n, (uint32_t)at, sums);
		if (memcmp(want, p + off, q.n * sizeof(float)))
			return mismatch(plan, &q, want, p + off, err);
	}
	return 0;
}

uint64_t ps_checksum(const float *p, uint32_t n, uint64_t first)
{
	return checksum((const float_bits *)p, n, first);
}
