/* shm/fence.h - the full barrier of Dekker's protocol, see layout.h */
#ifndef SHM_FENCE_H
#define SHM_FENCE_H

#include <stdatomic.h>

/* ThreadSanitizer knows no fences, but read-modify-write operations. */
static inline void pl_fence(void)
{
#ifdef __SANITIZE_THREAD__
	_Atomic int x = 0;

	atomic_fetch_add(&x, 1);
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

#endif
