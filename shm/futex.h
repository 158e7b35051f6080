/* shm/futex.h - sleeping on a word, in one process or in shared memory */
#ifndef SHM_FUTEX_H
#define SHM_FUTEX_H

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * Sleep while *word is val, at most timeout_ns (0: for ever). private: only
 * threads of this process use the word. A read-only mapping of the word will
 * do. Returns 0 or -errno; only -ETIMEDOUT means that time has passed.
 */
static inline int pl_futex_wait(const void *word, uint32_t val,
				uint64_t timeout_ns, int private)
{
	const struct timespec ts = {
		.tv_sec = (time_t)(timeout_ns / 1000000000u),
		.tv_nsec = (long)(timeout_ns % 1000000000u),
	};
	int op = FUTEX_WAIT | (private ? FUTEX_PRIVATE_FLAG : 0);

	if (syscall(SYS_futex, word, op, val, timeout_ns ? &ts : NULL, NULL,
		    0) < 0)
		return -errno;
	return 0;
}

/* Wake everybody who sleeps on the word. */
static inline void pl_futex_wake(const void *word, int private)
{
	syscall(SYS_futex, word,
		FUTEX_WAKE | (private ? FUTEX_PRIVATE_FLAG : 0), INT_MAX, NULL,
		NULL, 0);
}

#endif
