/*
 * bench/lane_limits.c - what the machine itself can do between two CPUs
 *
 * A round trip of a cache line: each of two processes waits for the other's
 * line to change and then changes its own. Nothing is faster than that between
 * two CPUs. It is timed as a lane's round trip is, by one reading of the clock
 * for each.
 *
 * A copy: within one CPU's cache; and one that crosses to another CPU: one
 * process copies blocks into a ring of the size of a lane's, the other one
 * reads all of each there. That is a single memcpy of which somebody else has
 * the result, and so what a lane is measured by.
 */
#include "bench/lane_perf.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/util.h"
#include "bench/lane_message.h"
#include "bench/ps_machine.h"
#include "bench/ps_stats.h"
#include "shm/podlane.h"

#define BLOCK (64u << 10)
#define BLOCKS (PL_RING_DEFAULT / BLOCK)
#define SAMPLES_MAX (1u << 20)
#define SLICES 5
#define STOP UINT64_MAX
/* A process that spins looks at the clock now and then: the other may die. */
#define LOOKS (1u << 20)
#define STUCK_NS 5000000000u

struct shared {
	_Alignas(64) _Atomic uint64_t ping;
	_Alignas(64) _Atomic uint64_t pong;
	_Alignas(64) _Atomic uint64_t full[BLOCKS][8];	/* a line each */
	_Alignas(64) _Atomic uint64_t empty[BLOCKS][8];
	_Alignas(4096) char ring[BLOCKS][BLOCK];
};

void lp_pin(unsigned int i)
{
	cpu_set_t set, one;

	if (ps_machine_cores() < 2 ||
	    sched_getaffinity(0, sizeof(set), &set) < 0)
		return;
	i %= ps_machine_cores();
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &set) || i-- > 0)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

void lp_pin_job(const struct lp_job *j)
{
	if (j->wait == LP_ONE_CPU)
		lp_pin(0);
	else if (j->wait != LP_AUTO && !j->loose)
		lp_pin(j->is_server);
}

/* Until the word is at least this; false: nobody changes it any more. */
static bool until(const _Atomic uint64_t *word, uint64_t value)
{
	uint64_t end = 0;

	for (;;) {
		for (unsigned int i = 0; i < LOOKS; i++)
			if (atomic_load_explicit(word, memory_order_acquire) >=
			    value)
				return true;
		if (!end)
			end = pl_now_ns() + STUCK_NS;
		else if (pl_now_ns() > end)
			return false;
	}
}

static void set(_Atomic uint64_t *word, uint64_t value)
{
	atomic_store_explicit(word, value, memory_order_release);
}

/* --- the other process ---------------------------------------------------- */

static void answer_lines(struct shared *s)
{
	for (uint64_t i = 1; until(&s->ping, i); i++) {
		if (atomic_load(&s->ping) == STOP)
			return;
		set(&s->pong, i);
	}
}

static void read_blocks(struct shared *s)
{
	volatile uint64_t sum = 0;

	for (uint64_t i = 0;; i++) {
		if (!until(&s->full[i % BLOCKS][0], i / BLOCKS + 1))
			return;
		if (atomic_load(&s->full[i % BLOCKS][0]) == STOP)
			return;
		sum = sum + lp_sum(s->ring[i % BLOCKS], BLOCK);
		set(&s->empty[i % BLOCKS][0], i / BLOCKS + 1);
	}
}

/* --- this process --------------------------------------------------------- */

static int ask_lines(struct shared *s, unsigned int ms, struct lp_limits *l)
{
	pl_auto_free uint32_t *ns = calloc(SAMPLES_MAX, sizeof(*ns));
	uint64_t at = pl_now_ns(), end = at + ms * 1000000ull, now;
	unsigned int n = 0;

	if (!ns)
		return -ENOMEM;
	for (uint64_t i = 1; n < SAMPLES_MAX && at < end; i++) {
		set(&s->ping, i);
		if (!until(&s->pong, i))
			return -ETIMEDOUT;
		now = pl_now_ns();
		ns[n++] = (uint32_t)(now - at);
		at = now;
	}
	set(&s->ping, STOP);
	ps_sort_u32(ns, n);
	l->line_p50_ns = ps_sorted_u32(ns, n, 0.5);
	l->line_p99_ns = ps_sorted_u32(ns, n, 0.99);
	l->line_p999_ns = ps_sorted_u32(ns, n, 0.999);
	return 0;
}

/* Blocks for so long, *i so far; the last one has been read at the end. */
static int copy_slice(struct shared *s, unsigned int ms, uint64_t *i,
		      double *bytes_per_s)
{
	static char from[BLOCK];
	uint64_t start = pl_now_ns(), end = start + ms * 1000000ull;
	uint64_t first = *i;

	memset(from, 1, sizeof(from));
	for (; pl_now_ns() < end; ++*i) {
		if (!until(&s->empty[*i % BLOCKS][0], *i / BLOCKS))
			return -ETIMEDOUT;
		memcpy(s->ring[*i % BLOCKS], from, BLOCK);
		set(&s->full[*i % BLOCKS][0], *i / BLOCKS + 1);
	}
	if (*i > first && !until(&s->empty[(*i - 1) % BLOCKS][0],
				 (*i - 1) / BLOCKS + 1))
		return -ETIMEDOUT;
	*bytes_per_s = (double)(*i - first) * BLOCK * 1e9 /
		       (double)(pl_now_ns() - start);
	return 0;
}

static int copy_blocks(struct shared *s, unsigned int ms, struct lp_limits *l)
{
	double rate[SLICES];
	uint64_t i = 0;
	int rc = 0;

	for (int n = 0; rc == 0 && n < SLICES; n++)
		rc = copy_slice(s, PL_MAX(ms / 2, 1u), &i, &rate[n]);
	if (rc == 0)
		l->shared_bytes_per_s = ps_median(rate, SLICES);
	set(&s->full[i % BLOCKS][0], STOP);
	return rc;
}

static void copy_alone(struct shared *s, unsigned int ms, struct lp_limits *l)
{
	static char from[BLOCK];
	uint64_t start, end, i;

	memset(from, 1, sizeof(from));
	memset(s->ring, 0, sizeof(s->ring));
	start = pl_now_ns();
	end = start + ms * 1000000ull;
	for (i = 0; pl_now_ns() < end; i++)
		memcpy(s->ring[i % BLOCKS], from, BLOCK);
	l->memcpy_bytes_per_s = (double)i * BLOCK * 1e9 /
				(double)(pl_now_ns() - start);
}

static int both(struct shared *s, unsigned int ms, struct lp_limits *l)
{
	int rc = ask_lines(s, ms, l);

	if (rc == 0)
		rc = copy_blocks(s, ms, l);
	if (rc == 0)
		copy_alone(s, ms, l);
	return rc;
}

static void other(struct shared *s, pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	lp_pin(1);
	answer_lines(s);
	read_blocks(s);
	_exit(0);
}

int lp_limits_measure(unsigned int ms, struct lp_limits *l, struct pl_err *err)
{
	cpu_set_t before;
	struct shared *s;
	pid_t pid, self = getpid();
	int rc, status;

	*l = (struct lp_limits){ NAN, NAN, NAN, NAN, NAN };
	if (ps_machine_cores() < 2)
		return 0;
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s == MAP_FAILED)
		return pl_err_sys(err, "cannot map memory");
	sched_getaffinity(0, sizeof(before), &before);
	pid = fork();
	if (pid == 0)
		other(s, self);
	lp_pin(0);
	rc = pid < 0 ? -errno : both(s, ms, l);
	sched_setaffinity(0, sizeof(before), &before);
	if (pid > 0) {
		if (rc < 0)
			kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
	munmap(s, sizeof(*s));
	return rc < 0 ? pl_err_set(err, -rc, "cannot measure the machine: %s",
				   strerror(-rc)) : 0;
}
