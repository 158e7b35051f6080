/* shm/lane_vec.c - one lane, many buffers: gather and scatter */
#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "shm/lane.h"

/* Where in the buffers we are. */
struct cursor {
	const struct iovec *iov;	/* the present one */
	int n;				/* it and those after it */
	size_t off;			/* in the present one */
};

/* Bytes of all of them; -EINVAL: more than a number of bytes can be. */
static ssize_t total(const struct iovec *iov, int n)
{
	size_t sum = 0;

	if (n < 0 || n > IOV_MAX)
		return -EINVAL;
	for (int i = 0; i < n; i++) {
		if (iov[i].iov_len > SSIZE_MAX - sum)
			return -EINVAL;
		sum += iov[i].iov_len;
	}
	return (ssize_t)sum;
}

/* The next piece, of at most max bytes; *len may be 0 at an empty buffer. */
static char *next(struct cursor *c, size_t max, size_t *len)
{
	char *at = (char *)c->iov->iov_base + c->off;

	*len = PL_MIN(c->iov->iov_len - c->off, max);
	c->off += *len;
	if (c->off == c->iov->iov_len) {
		c->iov++;
		c->n--;
		c->off = 0;
	}
	return at;
}

static void gather(struct cursor *c, char *to, size_t len)
{
	while (len) {
		size_t n;
		const char *from = next(c, len, &n);

		if (n)
			memcpy(to, from, n);
		to += n;
		len -= n;
	}
}

static void scatter(struct cursor *c, const char *from, size_t len)
{
	while (len) {
		size_t n;
		char *to = next(c, len, &n);

		if (n)
			memcpy(to, from, n);
		from += n;
		len -= n;
	}
}

ssize_t pl_lane_sendv(struct pl_lane *lane, const struct iovec *iov, int iovcnt,
		      int flags)
{
	struct pl_limit limit = pl_lane_limit(lane);
	struct cursor c = { iov, iovcnt, 0 };
	ssize_t len = total(iov, iovcnt), done = 0;
	int rc;

	if (flags & ~PL_DONTWAIT)
		return -EINVAL;
	pl_tx_sync(lane);
	rc = len < 0 ? (int)len : pl_tx_check(lane);

	while (rc == 0 && done < len) {
		size_t n = PL_MIN((size_t)(len - done),
				  pl_lane_step(lane->tx.size));
		void *to;
		ssize_t room;

		/* The most that can be had without waiting, but something. */
		if (pl_tx_space(lane) < n)
			rc = pl_tx_refresh(lane);
		room = rc < 0 ? rc :
			pl_tx_reserve(lane, 1, &to, flags, &limit);
		if (room < 0) {
			rc = (int)room;
			break;
		}
		n = PL_MIN(n, (size_t)room);
		gather(&c, to, n);
		rc = pl_lane_commit(lane, n);
		done += rc < 0 ? 0 : (ssize_t)n;
	}
	lane->tx.reserved = 0;
	return done ? done : rc;
}

ssize_t pl_lane_recvv(struct pl_lane *lane, const struct iovec *iov, int iovcnt,
		      int flags)
{
	struct pl_limit limit = pl_lane_limit(lane);
	struct cursor c = { iov, iovcnt, 0 };
	ssize_t len = total(iov, iovcnt), done = 0, rc = PL_MIN(len, 0);

	if (flags & ~(PL_DONTWAIT | PL_WAITALL))
		return -EINVAL;
	while (rc == 0 && done < len) {
		const void *from;
		size_t n = PL_MIN((size_t)(len - done),
				  pl_lane_step(lane->rx.size));

		/* After the first bytes only those that are there. */
		rc = pl_rx_peek(lane, 1, &from,
				done && !(flags & PL_WAITALL) ?
				PL_DONTWAIT : flags, &limit);
		if (rc <= 0)
			break;
		n = PL_MIN(n, (size_t)rc);
		scatter(&c, from, n);
		rc = pl_lane_consume(lane, n);
		done += rc < 0 ? 0 : (ssize_t)n;
	}
	return done ? done : rc;
}
