/* shm/lane.c - one end of a lane: making, moving bytes, ending */
#include "shm/lane.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util.h"
#include "shm/msg.h"

/* --- making ------------------------------------------------------------- */

static void lane_init(struct pl_lane *l, const struct pl_lane_parts *p)
{
	l->own = p->own.base;
	l->peer = p->peer.base;
	l->bell = p->bell;
	l->event_fd = -1;
	l->epoll_fd = -1;
	l->own_seg = p->own;
	atomic_init(&l->pid, getpid());
	l->peer_seg = p->peer;
	if (p->info)
		l->info = *p->info;
	l->id = l->info.id;
	l->is_opener = p->is_opener;
	l->is_carried = p->info && strcmp(p->info->path, "shm");
	pthread_mutex_init(&l->fd_lock, NULL);
	atomic_init(&l->timeout_ms, -1);
	l->tx.ring = pl_seg_data(&l->own_seg);
	l->tx.size = l->own_seg.data_bytes;
	l->rx.ring = pl_seg_data(&l->peer_seg);
	l->rx.size = l->peer_seg.data_bytes;
	pl_spin_init(&l->tx.spin);
	pl_spin_init(&l->rx.spin);
	if (p->sums)
		pl_tx_sum_start(l);
}

int pl_lane_attach(const struct pl_lane_parts *parts, struct pl_lane **out,
		   struct pl_err *err)
{
	struct pl_lane_parts p = *parts;
	struct pl_lane *l = NULL;
	int rc = 0;

	/* The doorbell comes from outside. */
	if (!pl_msg_is_socket(p.bell, SOCK_STREAM))
		rc = pl_err_set(err, EPROTO,
				"the doorbell is no Unix stream socket");
	else if (!(l = aligned_alloc(PL_CACHELINE, sizeof(*l))))
		rc = pl_err_set(err, ENOMEM, "out of memory");
	if (rc < 0) {
		pl_seg_close(&p.own);
		pl_seg_close(&p.peer);
		pl_close_fd(&p.bell);
		return rc;
	}
	memset(l, 0, sizeof(*l));
	lane_init(l, &p);
	pl_lane_bell_ready(l);
	pl_lane_join(l, &p);
	*out = l;
	return 0;
}

/* --- ending ------------------------------------------------------------- */

void pl_lane_raise(struct pl_lane *l, uint64_t state)
{
	uint64_t old = atomic_load_explicit(&l->own->state,
					    memory_order_relaxed);

	/* Release: our head is final; pairs with the acquire in rx_finish. */
	while (old < state &&
	       !atomic_compare_exchange_weak_explicit(
		       &l->own->state, &old, state, memory_order_release,
		       memory_order_relaxed))
		;
	/* Dekker; pairs with the fence in pl_lane_arm. */
	pl_fence();
	if (atomic_load_explicit(&l->peer->rx_wait, memory_order_relaxed) ||
	    atomic_load_explicit(&l->peer->tx_wait, memory_order_relaxed))
		pl_lane_ring(l);
}

int pl_lane_break(struct pl_lane *l, int code)
{
	atomic_store_explicit(&l->error, code, memory_order_relaxed);
	pl_lane_raise(l, PL_STATE_CLOSED);
	if (pl_lane_has_fd(l))
		pl_lane_fd_signal(l);
	return code;
}

int pl_lane_fail(struct pl_lane *l)
{
	return pl_lane_break(l, -EPROTO);
}

int pl_lane_shutdown(struct pl_lane *lane)
{
	pl_tx_sync(lane);
	lane->tx.end = -EPIPE;
	pl_lane_raise(lane, PL_STATE_SHUT);
	return atomic_load_explicit(&lane->error, memory_order_relaxed);
}

void pl_lane_close(struct pl_lane *lane)
{
	if (!lane)
		return;
	pl_lane_adopt(lane);
	if (!lane->is_heir) {
		pl_tx_sync(lane);
		pl_lane_raise(lane, PL_STATE_CLOSED);
		pl_lane_part(lane);
	}
	pl_lane_fd_close(lane);
	pl_close_fd(&lane->bell);
	pl_seg_close(&lane->own_seg);
	pl_seg_close(&lane->peer_seg);
	pthread_mutex_destroy(&lane->fd_lock);
	free(lane);
}

void pl_lane_set_timeout(struct pl_lane *lane, int timeout_ms)
{
	atomic_store_explicit(&lane->timeout_ms, PL_MAX(timeout_ms, -1),
			      memory_order_relaxed);
}

void pl_lane_set_spin(struct pl_lane *lane, int may_spin)
{
	atomic_store_explicit(&lane->never_spins, !may_spin,
			      memory_order_relaxed);
}

void pl_lane_info(const struct pl_lane *lane, struct pl_lane_info *info)
{
	*info = lane->info;
	info->id = lane->id;
	info->send_ring_bytes = (uint32_t)lane->tx.size;
	info->recv_ring_bytes = (uint32_t)lane->rx.size;
	info->sent_bytes = atomic_load_explicit(&lane->own->head,
						memory_order_relaxed);
	info->received_bytes = atomic_load_explicit(&lane->own->tail,
						    memory_order_relaxed);
}

/* --- counting ----------------------------------------------------------- */

/* A call that moved nothing: count why. Returns rc. */
static int failed(struct pl_lane_count *n, int rc)
{
	if (rc == -EAGAIN || rc == -ETIMEDOUT)
		pl_count(&n->refusals, 1);
	else if (rc < 0)
		pl_count(&n->errors, 1);
	return rc;
}

/* --- sending ------------------------------------------------------------ */

struct pl_limit pl_lane_limit(const struct pl_lane *l)
{
	return (struct pl_limit){
		.ms = atomic_load_explicit(&l->timeout_ms,
					   memory_order_relaxed),
	};
}

/* Too little space as far as we know: look, then wait. */
static int tx_wait(struct pl_lane *l, uint64_t want, int flags,
		   struct pl_limit *limit)
{
	const struct pl_want w = { PL_OUT, 0, want };
	int rc;

	if (!pl_tx_look(l, want)) {
		if (flags & PL_DONTWAIT) {
			pl_lane_probe(l);
			if (!pl_tx_look(l, want))
				return -EAGAIN;
		} else {
			rc = pl_lane_sleep(l, &w, limit);
			if (rc < 0)
				return rc;
		}
	}
	return pl_tx_check(l);
}

ssize_t pl_lane_send(struct pl_lane *lane, const void *data, size_t len,
		     int flags)
{
	struct pl_limit limit = pl_lane_limit(lane);
	const uint64_t most = pl_lane_step(lane->tx.size);
	size_t done = 0;
	int rc;

	if (flags & ~PL_DONTWAIT)
		return -EINVAL;
	pl_tx_sync(lane);
	rc = pl_tx_check(lane);
	lane->tx.reserved = 0;
	while (rc == 0 && done < len) {
		uint64_t n = PL_MIN(len - done, most);

		if (pl_tx_space(lane) < n) {
			rc = pl_tx_refresh(lane);
			if (rc == 0 && pl_tx_space(lane) == 0)
				rc = tx_wait(lane, 1, flags, &limit);
			if (rc < 0)
				break;
			n = PL_MIN(n, pl_tx_space(lane));
		}
		memcpy(lane->tx.ring + (lane->tx.head & (lane->tx.size - 1)),
		       (const char *)data + done, n);
		pl_tx_publish(lane, n);
		done += n;
	}
	return done ? (ssize_t)done : failed(&lane->own->tx_count, rc);
}

ssize_t pl_tx_reserve(struct pl_lane *lane, size_t want, void **ptr, int flags,
		      struct pl_limit *limit)
{
	int rc;

	pl_tx_sync(lane);
	rc = pl_tx_check(lane);
	if (want > lane->tx.size)
		return -EINVAL;
	if (rc == 0 && pl_tx_space(lane) < PL_MAX(want, 1u))
		rc = tx_wait(lane, PL_MAX(want, 1u), flags, limit);
	if (rc < 0)
		return failed(&lane->own->tx_count, rc);
	*ptr = lane->tx.ring + (lane->tx.head & (lane->tx.size - 1));
	lane->tx.reserved = pl_tx_space(lane);
	return (ssize_t)lane->tx.reserved;
}

ssize_t pl_lane_reserve(struct pl_lane *lane, size_t want, void **ptr,
			int flags)
{
	struct pl_limit limit = pl_lane_limit(lane);

	if (flags & ~PL_DONTWAIT)
		return -EINVAL;
	return pl_tx_reserve(lane, want, ptr, flags, &limit);
}

int pl_lane_commit(struct pl_lane *lane, size_t len)
{
	int rc = pl_tx_check(lane);

	if (len > lane->tx.reserved)
		return -EINVAL;
	lane->tx.reserved -= len;
	if (rc == 0 && len)
		pl_tx_publish(lane, len);
	return failed(&lane->own->tx_count, rc);
}

/* --- receiving ---------------------------------------------------------- */

/*
 * Too little to read as far as we know: look, then wait. 1: there is something
 * (less than wanted only at the end), 0: nothing more will come.
 */
static int rx_wait(struct pl_lane *l, uint64_t want, int flags,
		   struct pl_limit *limit)
{
	const struct pl_want w = { PL_IN, want, 0 };
	int rc;

	if (!pl_rx_look(l, want)) {
		if (flags & PL_DONTWAIT) {
			pl_lane_probe(l);
			if (!pl_rx_look(l, want))
				return -EAGAIN;
		} else {
			rc = pl_lane_sleep(l, &w, limit);
			if (rc < 0)
				return rc;
		}
	}
	rc = atomic_load_explicit(&l->error, memory_order_relaxed);
	if (rc < 0 || pl_rx_bytes(l))
		return rc < 0 ? rc : 1;
	return l->rx.end < 0 ? l->rx.end : 0;
}

static ssize_t recv_some(struct pl_lane *l, char *data, size_t len, int flags)
{
	struct pl_limit limit = pl_lane_limit(l);
	const uint64_t most = pl_lane_step(l->rx.size);
	size_t done = 0;
	int rc;

	pl_rx_sync(l);
	rc = atomic_load_explicit(&l->error, memory_order_relaxed);
	while (rc >= 0 && done < len) {
		uint64_t n;

		if (pl_rx_bytes(l) == 0) {
			rc = l->rx.end ? 0 : pl_rx_refresh(l);
			if (rc < 0)
				break;
			if (pl_rx_bytes(l) == 0) {
				if (done && !(flags & PL_WAITALL))
					break;
				rc = rx_wait(l, 1, flags, &limit);
				if (rc <= 0)
					break;
			}
		}
		n = PL_MIN(PL_MIN(len - done, most), pl_rx_bytes(l));
		memcpy(data + done,
		       l->rx.ring + (l->rx.tail & (l->rx.size - 1)), n);
		pl_rx_release(l, n);
		done += n;
	}
	return done ? (ssize_t)done : failed(&l->own->rx_count, rc);
}

ssize_t pl_lane_recv(struct pl_lane *lane, void *data, size_t len, int flags)
{
	ssize_t n;

	if (flags & ~(PL_DONTWAIT | PL_WAITALL))
		return -EINVAL;
	n = recv_some(lane, data, len, flags);
	if (pl_lane_has_fd(lane))
		pl_lane_fd_update(lane);
	return n;
}

ssize_t pl_rx_peek(struct pl_lane *lane, size_t want, const void **ptr,
		   int flags, struct pl_limit *limit)
{
	int rc;

	pl_rx_sync(lane);
	rc = atomic_load_explicit(&lane->error, memory_order_relaxed);
	if (want > lane->rx.size)
		return -EINVAL;
	if (rc == 0) {
		rc = 1;
		if (pl_rx_bytes(lane) < PL_MAX(want, 1u))
			rc = rx_wait(lane, PL_MAX(want, 1u), flags, limit);
		if (pl_lane_has_fd(lane))
			pl_lane_fd_update(lane);
	}
	if (rc <= 0)
		return failed(&lane->own->rx_count, rc);
	*ptr = lane->rx.ring + (lane->rx.tail & (lane->rx.size - 1));
	return (ssize_t)pl_rx_bytes(lane);
}

ssize_t pl_lane_peek(struct pl_lane *lane, size_t want, const void **ptr,
		     int flags)
{
	struct pl_limit limit = pl_lane_limit(lane);

	if (flags & ~PL_DONTWAIT)
		return -EINVAL;
	return pl_rx_peek(lane, want, ptr, flags, &limit);
}

int pl_lane_consume(struct pl_lane *lane, size_t len)
{
	int rc = atomic_load_explicit(&lane->error, memory_order_relaxed);

	if (len > pl_rx_bytes(lane))
		return -EINVAL;
	if (rc == 0 && len)
		pl_rx_release(lane, len);
	if (pl_lane_has_fd(lane))
		pl_lane_fd_update(lane);
	return failed(&lane->own->rx_count, rc);
}
