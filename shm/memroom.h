/*
 * shm/memroom.h - how much memory this process may still take
 *
 * Shared memory that does not fit is not refused by the kernel: somebody is
 * killed for it. So whoever is about to take a lot asks first. The answer is an
 * estimate (others take memory too), and what can't be read does not limit.
 */
#ifndef SHM_MEMROOM_H
#define SHM_MEMROOM_H

#include <stdint.h>

/*
 * The least of what the machine has available and what each memory control
 * group (v1 or v2) above this process has left, counting the file pages in it
 * that can be dropped. Where something has `enough`, it is not looked at any
 * closer, and may count for less than it has. UINT64_MAX: nothing is known.
 */
uint64_t pl_mem_room(uint64_t enough);

/* The parsers, for tests; UINT64_MAX when there is no such number. */
uint64_t pl_mem_field(const char *text, const char *name);
uint64_t pl_mem_group_room(const char *dir, int v2, uint64_t enough);

#endif
