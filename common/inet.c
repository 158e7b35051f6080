/* common/inet.c - IPv4 and IPv6 addresses and prefixes */
#include "common/inet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util.h"

static int addr_bytes(const struct pl_addr *a)
{
	return a->family == AF_INET6 ? 16 : 4;
}

int pl_addr_bits(const struct pl_addr *a)
{
	return addr_bytes(a) * 8;
}

int pl_addr_parse(const char *s, struct pl_addr *out)
{
	struct pl_addr a = { .family = strchr(s, ':') ? AF_INET6 : AF_INET };

	if (inet_pton(a.family, s, a.bytes) != 1)
		return -EINVAL;
	*out = a;
	return 0;
}

int pl_prefix_parse(const char *s, struct pl_prefix *out)
{
	const char *slash = strchr(s, '/');
	char buf[INET6_ADDRSTRLEN];
	struct pl_prefix p;
	uint64_t len;

	if (!slash || (size_t)(slash - s) >= sizeof(buf))
		return -EINVAL;
	memcpy(buf, s, (size_t)(slash - s));
	buf[slash - s] = '\0';
	if (pl_addr_parse(buf, &p.addr) < 0)
		return -EINVAL;
	if (pl_parse_u64(slash + 1, 0, (uint64_t)pl_addr_bits(&p.addr), &len))
		return -EINVAL;
	p.len = (uint8_t)len;
	*out = p;
	return 0;
}

const char *pl_addr_str(const struct pl_addr *a, char *buf)
{
	if (!inet_ntop(a->family, a->bytes, buf, INET6_ADDRSTRLEN))
		buf[0] = '\0';
	return buf;
}

const char *pl_prefix_str(const struct pl_prefix *p, char *buf)
{
	size_t n;

	pl_addr_str(&p->addr, buf);
	n = strlen(buf);
	snprintf(buf + n, PL_PREFIX_STRLEN - n, "/%u", p->len);
	return buf;
}

int pl_addr_cmp(const struct pl_addr *a, const struct pl_addr *b)
{
	if (a->family != b->family)
		return a->family < b->family ? -1 : 1;
	return memcmp(a->bytes, b->bytes, sizeof(a->bytes));
}

bool pl_addr_equal(const struct pl_addr *a, const struct pl_addr *b)
{
	return pl_addr_cmp(a, b) == 0;
}

/* Host bits of byte i under a prefix of len bits. */
static uint8_t host_mask(int i, int len)
{
	int bits = len - i * 8;

	if (bits >= 8)
		return 0;
	return bits <= 0 ? 0xff : (uint8_t)(0xff >> bits);
}

struct pl_addr pl_prefix_first(const struct pl_prefix *p)
{
	struct pl_addr a = p->addr;

	for (int i = 0; i < addr_bytes(&a); i++)
		a.bytes[i] &= (uint8_t)~host_mask(i, p->len);
	return a;
}

struct pl_addr pl_prefix_last(const struct pl_prefix *p)
{
	struct pl_addr a = p->addr;

	for (int i = 0; i < addr_bytes(&a); i++)
		a.bytes[i] |= host_mask(i, p->len);
	return a;
}

bool pl_prefix_contains(const struct pl_prefix *p, const struct pl_addr *a)
{
	struct pl_prefix q = { *a, p->len };
	struct pl_addr x, y;

	if (p->addr.family != a->family)
		return false;
	x = pl_prefix_first(p);
	y = pl_prefix_first(&q);
	return pl_addr_equal(&x, &y);
}

struct pl_addr pl_addr_add(const struct pl_addr *a, uint64_t n)
{
	struct pl_addr r = *a;

	for (int i = addr_bytes(a) - 1; i >= 0; i--) {
		uint64_t v = r.bytes[i] + (n & 0xff);

		r.bytes[i] = (uint8_t)v;
		n = (n >> 8) + (v >> 8);
	}
	return r;
}
