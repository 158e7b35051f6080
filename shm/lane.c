/* shm/lane.c - sending and receiving over a lane; lane.h has the theory */
#include "shm/lane.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util.h"
#include "shm/conn.h"

/* Bytes that one step of a long copy publishes: the peer reads meanwhile. */
#define COPY_STEP 131072u
#define SPIN_FIRST 64
#define SPIN_MAX 512

static int cpus_allowed(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return 2;
	return CPU_COUNT(&set);
}

int pl_lane_attach(struct pl_seg *own, struct pl_seg *peer, int bell,
		   const struct pl_lane_info *info, struct pl_conn *conn,
		   struct pl_lane **out, struct pl_err *err)
{
	struct pl_lane *l = NULL;
	pthread_condattr_t attr;

	if (posix_memalign((void **)&l, PL_CACHELINE, sizeof(*l))) {
		pl_seg_close(own);
		pl_seg_close(peer);
		close(bell);
		return pl_err_set(err, ENOMEM, "out of memory");
	}
	memset(l, 0, sizeof(*l));
	l->own_seg = *own;
	l->peer_seg = *peer;
	*own = *peer = PL_SEG_NONE;
	l->own = l->own_seg.base;
	l->peer = l->peer_seg.base;
	l->tx = pl_seg_data(&l->own_seg);
	l->rx = pl_seg_data(&l->peer_seg);
	l->tx_bytes = (uint32_t)l->own_seg.data_bytes;
	l->rx_bytes = (uint32_t)l->peer_seg.data_bytes;
	l->bell = bell;
	l->timeout_ms = -1;
	l->conn = conn;
	l->info = *info;
	l->info.send_ring_bytes = l->tx_bytes;
	l->info.recv_ring_bytes = l->rx_bytes;
	l->spin_max = cpus_allowed() > 1 ? SPIN_MAX : 0;
	l->tx_spin = l->rx_spin = l->spin_max ? SPIN_FIRST : 0;
	l->epfd = l->self = -1;
	pthread_mutex_init(&l->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&l->drained, &attr);
	pthread_condattr_destroy(&attr);
	*out = l;
	return 0;
}

void pl_lane_free(struct pl_lane *l)
{
	pl_close_fd(&l->epfd);
	pl_close_fd(&l->self);
	pl_close_fd(&l->bell);
	pl_seg_close(&l->own_seg);
	pl_seg_close(&l->peer_seg);
	pthread_cond_destroy(&l->drained);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

/* --- sending -------------------------------------------------------------- */

int pl_lane_commit(struct pl_lane *l, size_t len)
{
	if (len > l->reserved)
		return -EINVAL;
	l->reserved -= len;
	l->head += len;
	/* Pairs with the acquire in pl_lane_readable of the peer. */
	atomic_store_explicit(&l->own->head, l->head, memory_order_release);
	pl_lane_wake_rx(l);
	return 0;
}

ssize_t pl_lane_reserve(struct pl_lane *l, size_t want, void **ptr, int flags)
{
	uint64_t space;
	int rc;

	if (want == 0 || want > l->tx_bytes)
		return -EINVAL;
	if (pl_lane_tx_ended(l, &rc))
		return rc;
	space = pl_lane_writable(l, want);
	if (space < want) {
		if (flags & PL_DONTWAIT)
			return -EAGAIN;
		rc = pl_lane_block(l, PL_OUT, want, l->timeout_ms);
		if (rc < 0)
			return rc;
		if (pl_lane_tx_ended(l, &rc))
			return rc;
		space = pl_lane_writable(l, want);
	}
	*ptr = l->tx + (l->head & (l->tx_bytes - 1));
	l->reserved = space;
	return (ssize_t)space;
}

ssize_t pl_lane_send(struct pl_lane *l, const void *data, size_t len, int flags)
{
	const char *p = data;
	size_t sent = 0;

	while (sent < len) {
		void *to;
		ssize_t r = pl_lane_reserve(l, 1, &to, flags);
		size_t n;

		if (r < 0)
			return sent ? (ssize_t)sent : r;
		n = PL_MIN(len - sent, (size_t)r);
		n = PL_MIN(n, (size_t)COPY_STEP);
		memcpy(to, p + sent, n);
		pl_lane_commit(l, n);
		sent += n;
	}
	return (ssize_t)sent;
}

int pl_lane_shutdown(struct pl_lane *l)
{
	if (atomic_exchange(&l->shut, true))
		return 0;
	pl_lane_own_state(l, PL_STATE_SHUT);
	return 0;
}

/* --- receiving ------------------------------------------------------------ */

int pl_lane_consume(struct pl_lane *l, size_t len)
{
	if (len > l->head_seen - l->tail)
		return -EINVAL;
	l->tail += len;
	/* Release: the bytes were read. Pairs with pl_lane_writable. */
	atomic_store_explicit(&l->own->tail, l->tail, memory_order_release);
	pl_lane_wake_tx(l);
	if (l->epfd >= 0)
		pl_lane_poll_left(l);
	return 0;
}

ssize_t pl_lane_peek(struct pl_lane *l, size_t want, const void **ptr,
		     int flags)
{
	uint64_t n;
	int rc;

	if (want == 0 || want > l->rx_bytes)
		return -EINVAL;
	n = pl_lane_readable(l, want);
	if (n < want && l->epfd >= 0 && (flags & PL_DONTWAIT)) {
		pl_lane_poll_idle(l);
		n = pl_lane_readable(l, want);
	}
	if (n < want && !pl_lane_rx_final(l)) {
		if (flags & PL_DONTWAIT)
			return -EAGAIN;
		rc = pl_lane_block(l, PL_IN, want, l->timeout_ms);
		if (rc < 0)
			return rc;
	}
	if (n < want)	/* it is there now, or this is the end */
		n = pl_lane_readable(l, want);
	if (n == 0 || atomic_load(&l->broken)) {
		pl_lane_rx_ended(l, &rc);
		return rc;
	}
	*ptr = l->rx + (l->tail & (l->rx_bytes - 1));
	return (ssize_t)n;
}

ssize_t pl_lane_recv(struct pl_lane *l, void *data, size_t len, int flags)
{
	size_t got = 0;

	while (got < len) {
		const void *from;
		ssize_t r = pl_lane_peek(l, 1, &from, flags);
		size_t n;

		if (r <= 0)
			return got ? (ssize_t)got : r;
		n = PL_MIN(len - got, (size_t)r);
		n = PL_MIN(n, (size_t)COPY_STEP);
		memcpy((char *)data + got, from, n);
		pl_lane_consume(l, n);
		got += n;
		if (!(flags & PL_WAITALL) && pl_lane_readable(l, 1) == 0)
			break;
	}
	return (ssize_t)got;
}

/* --- the rest ------------------------------------------------------------- */

void pl_lane_close(struct pl_lane *l)
{
	pl_lane_own_state(l, PL_STATE_CLOSED);
	if (l->conn)
		pl_conn_lane_closed(l->conn, l->info.id);
	pl_lane_free(l);
}

void pl_lane_set_timeout(struct pl_lane *l, int timeout_ms)
{
	l->timeout_ms = timeout_ms;
}

int pl_lane_wait(struct pl_lane *l, int events, int timeout_ms)
{
	int rc, got = 0;

	if (!(events & (PL_IN | PL_OUT)))
		return -EINVAL;
	rc = pl_lane_block(l, events, 1, timeout_ms);
	if (rc < 0)
		return rc;
	if ((events & PL_IN) &&
	    (pl_lane_readable(l, 1) || pl_lane_rx_ended(l, &rc)))
		got |= PL_IN;
	if ((events & PL_OUT) &&
	    (pl_lane_writable(l, 1) || pl_lane_tx_ended(l, &rc)))
		got |= PL_OUT;
	return got;
}

static int add(int epfd, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev);
}

int pl_lane_fd(struct pl_lane *l)
{
	pl_auto_fd ep = -1;
	pl_auto_fd self = -1;

	if (l->epfd >= 0)
		return l->epfd;
	ep = epoll_create1(EPOLL_CLOEXEC);
	/* Set at first: the first call then finds out and arms. */
	self = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ep < 0 || self < 0 || add(ep, l->bell) < 0 || add(ep, self) < 0)
		return -errno;
	pthread_mutex_lock(&l->lock);
	atomic_store(&l->self_is_set, true);
	l->self = pl_take_fd(&self);
	l->epfd = pl_take_fd(&ep);
	pthread_mutex_unlock(&l->lock);
	return l->epfd;
}

void pl_lane_info(const struct pl_lane *l, struct pl_lane_info *info)
{
	*info = l->info;
	info->sent_bytes = l->head;
	info->received_bytes = l->tail;
}
