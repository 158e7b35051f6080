/*
 * shm/lane_fd.c - the descriptor of a lane for poll and epoll
 *
 * Theory of operation
 *
 * It is an epoll descriptor over the doorbell and over an event descriptor of
 * ours. Whenever the user is not in a call that receives,
 *
 *   something can be read (bytes, end, error):  the event descriptor is
 *       readable, or the doorbell is about to be (the peer was asked to ring
 *       and has not yet), or it hung up;
 *   nothing can be read:  the peer is asked to ring, and neither is readable,
 *       except for a byte that was on its way: a call that receives and finds
 *       nothing takes it away.
 *
 * pl_lane_fd_update brings this about after each call of the receiving side:
 * it clears both, asks, looks, and only then signals. System calls are made
 * when something changes.
 *
 * A sending thread that sleeps on the doorbell may take a byte that was meant
 * for the receiving one, and then signals in its place, whether there is
 * something to read or not: the peer will not ring again for the number that it
 * has rung for, so the receiving thread has to ask anew. While the other one
 * sleeps, the receiving one leaves the doorbell to it.
 */
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/util.h"
#include "shm/lane.h"

void pl_lane_fd_signal(struct pl_lane *l)
{
	const uint64_t one = 1;

	if (atomic_exchange(&l->signalled, true))
		return;
	/* It is not this one that was announced to, then. */
	if (pl_lane_adopt(l))
		atomic_store(&l->signalled, true);
	/* A counter that is full is readable. */
	if (write(l->event_fd, &one, sizeof(one)) < 0)
		return;
}

/*
 * Was it signalled? Reads first: who signals in between then finds `signalled`
 * as it was. One that has been announced and is not there yet is left for the
 * next time, for the descriptor is about to be readable.
 */
static bool unsignal(struct pl_lane *l)
{
	uint64_t n;

	if (!atomic_load(&l->signalled) ||
	    read(l->event_fd, &n, sizeof(n)) < 0)
		return false;
	atomic_exchange(&l->signalled, false);
	return true;
}

static bool known(const struct pl_lane *l)
{
	return l->rx.end || pl_rx_bytes(l) ||
	       atomic_load_explicit(&l->error, memory_order_relaxed);
}

/* By this process, and not by another one since. */
static bool is_armed(const struct pl_lane *l)
{
	return l->rx.armed && l->rx.armed ==
		       atomic_load_explicit(&l->own->rx_wait,
					    memory_order_relaxed);
}

void pl_lane_fd_update(struct pl_lane *l)
{
	if (!known(l)) {
		bool rung;

		pl_lane_adopt(l);
		rung = unsignal(l);
		if (pl_lane_drain(l))
			rung = true;
		/* The peer rings once for each time that it was asked. */
		if (rung || l->rx.head != l->rx.armed_head || !is_armed(l))
			pl_lane_arm(l, PL_IN);
		if (!pl_rx_look(l, 1))
			return;
	}
	pl_lane_fd_signal(l);
	pl_lane_disarm(l, PL_IN);
}

static int add(int epoll_fd, int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events };

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

/* With fd_lock. One that no agent has would be readable for nothing. */
static int add_bell(struct pl_lane *l)
{
	if (pl_link_is_away(pl_lane_link(l)))
		return 0;
	return add(l->epoll_fd, l->bell, EPOLLIN | EPOLLRDHUP);
}

void pl_lane_fd_unbell(struct pl_lane *l)
{
	pthread_mutex_lock(&l->fd_lock);
	if (l->epoll_fd >= 0)
		epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, l->bell, NULL);
	pthread_mutex_unlock(&l->fd_lock);
}

void pl_lane_fd_bell(struct pl_lane *l)
{
	pthread_mutex_lock(&l->fd_lock);
	/* Without memory for it: what it would tell is told by this. */
	if (l->epoll_fd >= 0 && add_bell(l) < 0 && errno != EEXIST)
		pl_lane_fd_signal(l);
	pthread_mutex_unlock(&l->fd_lock);
}

static int fd_open(struct pl_lane *l)
{
	pl_auto_fd event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pl_auto_fd epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	int rc;

	if (event_fd < 0 || epoll_fd < 0 ||
	    add(epoll_fd, event_fd, EPOLLIN) < 0)
		return -errno;
	l->epoll_fd = epoll_fd;
	rc = add_bell(l);
	if (rc < 0) {
		rc = -errno;
		l->epoll_fd = -1;
		return rc;
	}
	pl_take_fd(&epoll_fd);
	l->event_fd = pl_take_fd(&event_fd);
	return 0;
}

int pl_lane_fd(struct pl_lane *lane)
{
	int rc;

	pl_lane_adopt(lane);
	pl_rx_sync(lane);
	if (pl_lane_has_fd(lane))
		return lane->epoll_fd;
	pthread_mutex_lock(&lane->fd_lock);
	rc = fd_open(lane);
	/* Pairs with the acquire in pl_lane_has_fd. */
	if (rc == 0)
		atomic_store_explicit(&lane->has_fd, true,
				      memory_order_release);
	pthread_mutex_unlock(&lane->fd_lock);
	if (rc < 0)
		return rc;
	pl_lane_fd_update(lane);
	return lane->epoll_fd;
}

void pl_lane_fd_inherited(struct pl_lane *l)
{
	const int epoll_fd = l->epoll_fd, event_fd = l->event_fd;

	l->epoll_fd = -1;
	l->event_fd = -1;
	atomic_store(&l->has_fd, false);
	atomic_store(&l->signalled, false);
	if (epoll_fd < 0)
		return;
	/* The same number, another descriptor. */
	if (fd_open(l) == 0 && dup3(l->epoll_fd, epoll_fd, O_CLOEXEC) >= 0) {
		close(l->epoll_fd);
		l->epoll_fd = epoll_fd;
		atomic_store(&l->has_fd, true);
	} else {
		/* Rather none than one that is the parent's, too. */
		pl_lane_fd_close(l);
		close(epoll_fd);
	}
	close(event_fd);
}

void pl_lane_fd_close(struct pl_lane *l)
{
	pl_close_fd(&l->event_fd);
	pl_close_fd(&l->epoll_fd);
}
