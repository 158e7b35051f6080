/*
 * common/inet.h - IPv4 and IPv6 addresses and prefixes, one type for both
 */
#ifndef COMMON_INET_H
#define COMMON_INET_H

#include <stdbool.h>
#include <stdint.h>
#include <netinet/in.h>

/* Longest text of a prefix, with its NUL. */
#define PL_PREFIX_STRLEN (INET6_ADDRSTRLEN + 4)

/* An address: family AF_INET (bytes[0..3]) or AF_INET6 (bytes[0..15]). */
struct pl_addr {
	uint8_t family;		/* 0: none */
	uint8_t bytes[16];	/* network order, unused bytes are 0 */
};

/* An address with a prefix length: "10.1.2.3/24". */
struct pl_prefix {
	struct pl_addr addr;
	uint8_t len;		/* bits */
};

/* 0 or -EINVAL; plain addresses only (no zone, no port). */
int pl_addr_parse(const char *s, struct pl_addr *out);
/* Needs "/len"; host bits are kept as given. */
int pl_prefix_parse(const char *s, struct pl_prefix *out);
/* buf of at least INET6_ADDRSTRLEN / PL_PREFIX_STRLEN; returns buf. */
const char *pl_addr_str(const struct pl_addr *a, char *buf);
const char *pl_prefix_str(const struct pl_prefix *p, char *buf);

bool pl_addr_equal(const struct pl_addr *a, const struct pl_addr *b);
/* Total order within one family; different families order by family. */
int pl_addr_cmp(const struct pl_addr *a, const struct pl_addr *b);
bool pl_prefix_contains(const struct pl_prefix *p, const struct pl_addr *a);
/* The address with every host bit cleared (or set). */
struct pl_addr pl_prefix_first(const struct pl_prefix *p);
struct pl_addr pl_prefix_last(const struct pl_prefix *p);
/* a + n; wraps at the end of the address space. */
struct pl_addr pl_addr_add(const struct pl_addr *a, uint64_t n);
/* 32 or 128 */
int pl_addr_bits(const struct pl_addr *a);

#endif
