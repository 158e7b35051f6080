/* shm/crc32c.h - CRC32C (Castagnoli) */
#ifndef SHM_CRC32C_H
#define SHM_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Goes on from the crc of what came before; 0 at first. */
uint32_t pl_crc32c(uint32_t crc, const void *data, size_t len);

/* The same without the processor's instruction, for machines that lack it. */
uint32_t pl_crc32c_portable(uint32_t crc, const void *data, size_t len);

#endif
