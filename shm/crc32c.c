/*
 * shm/crc32c.c - CRC32C: by the processor's instruction where there is one
 *
 * The portable way takes four bits at a time and a table of 16 numbers.
 */
#include "shm/crc32c.h"

#include <string.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1u << 7)
#endif
#endif

static const uint32_t nibbles[16] = {
	0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
	0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
	0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
	0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

uint32_t pl_crc32c_portable(uint32_t crc, const void *data, size_t len)
{
	const uint8_t *p = data;

	crc = ~crc;
	while (len--) {
		crc ^= *p++;
		crc = crc >> 4 ^ nibbles[crc & 15];
		crc = crc >> 4 ^ nibbles[crc & 15];
	}
	return ~crc;
}

#if defined(__x86_64__)
#define BY_CPU __attribute__((target("sse4.2")))
#define crc_8(crc, v) ((uint32_t)__builtin_ia32_crc32di((crc), (v)))
#define crc_1(crc, v) __builtin_ia32_crc32qi((crc), (v))

static int has_cpu(void)
{
	return __builtin_cpu_supports("sse4.2");
}
#elif defined(__aarch64__) && defined(__GNUC__) && !defined(__clang__)
#define BY_CPU __attribute__((target("+crc")))
#define crc_8(crc, v) __builtin_aarch64_crc32cx((crc), (v))
#define crc_1(crc, v) __builtin_aarch64_crc32cb((crc), (v))

static int has_cpu(void)
{
	return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}
#endif

#ifdef BY_CPU
BY_CPU static uint32_t by_cpu(uint32_t crc, const uint8_t *p, size_t len)
{
	uint64_t v;

	crc = ~crc;
	for (; len >= sizeof(v); p += sizeof(v), len -= sizeof(v)) {
		memcpy(&v, p, sizeof(v));
		crc = crc_8(crc, v);
	}
	while (len--)
		crc = crc_1(crc, *p++);
	return ~crc;
}
#endif

uint32_t pl_crc32c(uint32_t crc, const void *data, size_t len)
{
#ifdef BY_CPU
	if (has_cpu())
		return by_cpu(crc, data, len);
#endif
	return pl_crc32c_portable(crc, data, len);
}
