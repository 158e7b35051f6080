/* shm/spin.c - whether to spin before sleeping */
#include "shm/spin.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/util.h"

#define SCORE_MAX 4
#define SCORE_VAIN (-1)		/* two short waits from spinning again */

#define get(p) atomic_load_explicit(p, memory_order_relaxed)
#define set(p, v) atomic_store_explicit(p, v, memory_order_relaxed)

void pl_spin_init(struct pl_spin *s)
{
	set(&s->score, 1);
	set(&s->free_cpus, false);
	set(&s->looked_ns, 0);
}

unsigned int pl_spin_running(const char *loadavg)
{
	unsigned int n;

	return sscanf(loadavg, "%*s %*s %*s %u/", &n) == 1 ? n : 0;
}

static unsigned int running(void)
{
	pl_auto_fd fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
	char text[128];
	ssize_t n;

	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	return pl_spin_running(text);
}

/* This thread counts as running, and so does a peer that spins. */
static bool cpus_free(void)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t set;

	if (online < 2)
		return false;
	/* A machine with more CPUs than fit has more than one for us. */
	if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) < 2)
		return false;
	return running() <= (unsigned long)online;
}

bool pl_spin_wanted(struct pl_spin *s, uint64_t now_ns)
{
	uint64_t looked = get(&s->looked_ns);

	if (get(&s->score) <= 0)
		return false;
	if (looked == 0 ||
	    now_ns - looked > (get(&s->free_cpus) ? PL_SPIN_LOOK_NS :
						    PL_SPIN_LOOK_BUSY_NS)) {
		set(&s->free_cpus, cpus_free());
		set(&s->looked_ns, now_ns);
	}
	return get(&s->free_cpus);
}

void pl_spin_learn(struct pl_spin *s, uint64_t waited_ns, bool spun)
{
	int score = get(&s->score);

	if (waited_ns <= PL_SPIN_NS)
		score = PL_MIN(score + 1, SCORE_MAX);
	else if (spun)
		score = SCORE_VAIN;
	else
		score = PL_MAX(score - 2, SCORE_VAIN);
	set(&s->score, score);
}
