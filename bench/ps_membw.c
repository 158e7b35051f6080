/*
 * bench/ps_membw.c - how fast all cores together can use memory
 *
 * Each core runs the arithmetic of a step with two workers on arrays of its
 * own, one whole array after the other, so that nothing is left in a cache
 * that the next pass could use: fill two gradients, then update parameters
 * with them. Six bytes cross memory for each byte of an array; reading a line
 * in order to overwrite it is not counted, here or in the roofline.
 */
#include "bench/ps_role.h"

#include <pthread.h>
#include <stdatomic.h>

#include "common/util.h"
#include "bench/ps_job.h"
#include "bench/ps_kernels.h"

#define ARRAY_BYTES (96u << 20)
#define ROUNDS 5
#define CORES_MAX 64

struct crew {
	const struct ps_plan *plan;
	pthread_mutex_t gate;		/* held until all were started */
	pthread_barrier_t barrier;
	bool incomplete;		/* under the gate: not all could be */
	atomic_bool failed;		/* looked at behind the barrier */
};

struct hand {
	struct crew *crew;
	pthread_t thread;
	uint64_t start_ns[ROUNDS], end_ns[ROUNDS];
};

static void round_of(const struct ps_plan *plan, float *a, float *b, float *p)
{
	const uint32_t chunks = ARRAY_BYTES / PS_CHUNK_BYTES_DEFAULT;
	const uint32_t n = plan->chunk_elems;
	const float *src[2];
	uint32_t c;

	for (c = 0; c < chunks; c++)
		ps_fill(plan, c, 0, 0, a + (size_t)c * n);
	for (c = 0; c < chunks; c++)
		ps_fill(plan, c, 1, 0, b + (size_t)c * n);
	for (c = 0; c < chunks; c++) {
		src[0] = a + (size_t)c * n;
		src[1] = b + (size_t)c * n;
		ps_update(p + (size_t)c * n, src, 2, n);
	}
}

static void *work(void *arg)
{
	const size_t n = ARRAY_BYTES / sizeof(float);
	struct hand *h = arg;
	float *a;
	bool incomplete;
	int r;

	pthread_mutex_lock(&h->crew->gate);
	incomplete = h->crew->incomplete;
	pthread_mutex_unlock(&h->crew->gate);
	/* All turn back here, or all come to the barrier. */
	if (incomplete)
		return NULL;
	a = ps_floats_alloc(3 * n, NULL);
	if (!a)
		atomic_store(&h->crew->failed, true);
	pthread_barrier_wait(&h->crew->barrier);
	if (atomic_load(&h->crew->failed))
		goto out;
	for (r = 0; r < ROUNDS; r++) {
		pthread_barrier_wait(&h->crew->barrier);
		h->start_ns[r] = pl_now_ns();
		round_of(h->crew->plan, a, a + n, a + 2 * n);
		h->end_ns[r] = pl_now_ns();
	}
out:
	ps_floats_free(a, 3 * n);
	return NULL;
}

static unsigned int cores(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n < 1 ? 1 : n > CORES_MAX ? CORES_MAX : (unsigned int)n;
}

size_t ps_memory_bandwidth_need(void)
{
	return 3 * (size_t)ARRAY_BYTES * cores();
}

/* The shortest round: what others did on the machine only makes it longer. */
static double best(const struct hand *hands, unsigned int n)
{
	uint64_t from, to, min = UINT64_MAX;
	unsigned int i;
	int r;

	for (r = 0; r < ROUNDS; r++) {
		from = UINT64_MAX;
		to = 0;
		for (i = 0; i < n; i++) {
			from = PL_MIN(from, hands[i].start_ns[r]);
			to = PL_MAX(to, hands[i].end_ns[r]);
		}
		min = PL_MIN(min, to - from);
	}
	return 6.0 * ARRAY_BYTES * n / ((double)min / 1e9);
}

double ps_memory_bandwidth(void)
{
	struct hand hands[CORES_MAX] = { { .crew = NULL } };
	struct crew crew = { .gate = PTHREAD_MUTEX_INITIALIZER };
	struct ps_plan plan;
	unsigned int i, n = cores();
	double rate = 0;

	if (ps_plan_init(&plan, ps_model_find("vgg16"), 1,
			 PS_CHUNK_BYTES_DEFAULT, NULL))
		return 0;
	crew.plan = &plan;
	pthread_barrier_init(&crew.barrier, NULL, n);
	pthread_mutex_lock(&crew.gate);
	for (i = 0; i < n; i++) {
		hands[i].crew = &crew;
		if (pthread_create(&hands[i].thread, NULL, work, &hands[i]))
			break;
	}
	crew.incomplete = i < n;
	pthread_mutex_unlock(&crew.gate);
	while (i-- > 0)
		pthread_join(hands[i].thread, NULL);
	if (!crew.incomplete && !atomic_load(&crew.failed))
		rate = best(hands, n);
	pthread_barrier_destroy(&crew.barrier);
	ps_plan_fini(&plan);
	return rate;
}
