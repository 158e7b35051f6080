/* bench/resolve.c - names to addresses, waiting until there are some */
#include "bench/resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "common/util.h"

#define PAUSE_MS 200
#define DIGITS "0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

static bool is_address(const char *host)
{
	unsigned char bin[sizeof(struct in6_addr)];

	return inet_pton(AF_INET, host, bin) == 1 ||
	       inet_pton(AF_INET6, host, bin) == 1;
}

bool bench_host_valid(const char *host)
{
	size_t len = strlen(host);
	const char *last = strrchr(host, '.');

	if (is_address(host))
		return true;
	if (!len || len >= BENCH_HOST_BYTES || strstr(host, "..") ||
	    strchr("-.", *host) ||
	    strspn(host, DIGITS LETTERS "-_.") != len)
		return false;
	last = last ? last + 1 : host;
	return strspn(last, DIGITS) != strlen(last) || !*last;
}

int bench_resolve(const char *host, char *addr, size_t size,
		  struct pl_err *err)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *ai;
	int r = getaddrinfo(host, NULL, &hints, &ai);

	if (r == 0) {
		r = getnameinfo(ai->ai_addr, ai->ai_addrlen, addr,
				(socklen_t)size, NULL, 0, NI_NUMERICHOST);
		freeaddrinfo(ai);
	}
	return r ? pl_err_set(err, EHOSTUNREACH, "%s: %s", host,
			      gai_strerror(r)) : 0;
}

int bench_resolve_wait(const char *host, uint64_t end_ns, char *addr,
		       size_t size, struct pl_err *err)
{
	const struct timespec pause = { .tv_nsec = PAUSE_MS * 1000000 };
	int rc;

	while ((rc = bench_resolve(host, addr, size, err)) < 0 &&
	       pl_now_ns() < end_ns)
		nanosleep(&pause, NULL);
	if (rc == 0)
		pl_err_clear(err);
	return rc;
}
