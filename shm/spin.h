/*
 * shm/spin.h - whether to spin before sleeping
 *
 * A wait that ends within PL_SPIN_NS is cheaper to spin through than to sleep
 * through; a longer one, or one on a machine whose cores all have work, is
 * not. So each wait is measured, slept through or not: a wait that was short
 * speaks for spinning at the next one, one that was long speaks against it, and
 * after a spin in vain nobody spins until short waits have been seen again.
 *
 * Nobody spins when the process may use one CPU only, or when more threads of
 * the machine want to run than it has CPUs. Both are looked at now and then.
 *
 * The struct may be used by several threads; what they lose to each other is
 * an estimate.
 */
#ifndef SHM_SPIN_H
#define SHM_SPIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PL_SPIN_NS 50000u
#define PL_SPIN_LOOK_NS 20000000u
#define PL_SPIN_LOOK_BUSY_NS 4000000u	/* a busy moment passes */

struct pl_spin {
	_Atomic int score;		/* above 0: spin */
	_Atomic bool free_cpus;		/* what was seen last */
	_Atomic uint64_t looked_ns;	/* when; 0: never */
};

void pl_spin_init(struct pl_spin *s);

/* Before a wait that begins now. */
bool pl_spin_wanted(struct pl_spin *s, uint64_t now_ns);

/* After a wait of this length; spun: it was spun for PL_SPIN_NS in vain. */
void pl_spin_learn(struct pl_spin *s, uint64_t waited_ns, bool spun);

/* Number of tasks that want to run, of /proc/loadavg's text; 0: not there. */
unsigned int pl_spin_running(const char *loadavg);

/* Between two looks of a spinning thread. */
static inline void pl_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

#endif
