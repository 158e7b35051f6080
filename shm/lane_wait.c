/* shm/lane_wait.c - waiting for the other end of a lane */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <time.h>

#include "common/util.h"
#include "shm/futex.h"
#include "shm/lane.h"
#include "shm/wake.h"

#define LOOKS_PER_CLOCK 32
#define PROBE_NS 20000000u
#define SLICE_NS 1000000000u
#define HANG_UP (POLLHUP | POLLERR | POLLNVAL | POLLRDHUP)

/* link: from before the doorbell was used. */
static void hang_up(struct pl_lane *l, uint32_t link)
{
	/* What the peer stored before it went is seen by who sees this. */
	if (l->resumes)
		pl_lane_away(l, link);
	else
		atomic_store_explicit(&l->hung_up, true, memory_order_release);
}

void pl_lane_ring(struct pl_lane *l)
{
	uint32_t link = pl_lane_link(l);
	/* A socket that is full holds a wake-up already. */
	ssize_t n = send(l->bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && (errno == EPIPE || errno == ECONNRESET ||
		      errno == ENOTCONN))
		hang_up(l, link);
}

/* By the thread that has the doorbell. */
static bool drain(struct pl_lane *l)
{
	uint32_t link = pl_lane_link(l);
	bool any = false;
	char buf[64];
	ssize_t n;

	do {
		n = recv(l->bell, buf, sizeof(buf), MSG_DONTWAIT);
		any = any || n > 0;
	} while (n < 0 && errno == EINTR);
	if (n == 0 || (n < 0 && errno != EAGAIN))
		hang_up(l, link);
	return any;
}

/* bell_taken */
enum {
	BELL_FREE = 0,
	BELL_TAKEN = 1,
	BELL_WAITED = 2,	/* taken, and somebody may wait for it */
};

static bool bell_try(struct pl_lane *l)
{
	uint32_t old = BELL_FREE;

	return atomic_compare_exchange_strong(&l->bell_taken, &old,
					      BELL_TAKEN);
}

/* Had at once, or waited until it was given: who wakes tries again. */
static bool bell_wait(struct pl_lane *l, uint64_t left_ns)
{
	if (atomic_exchange(&l->bell_taken, BELL_WAITED) == BELL_FREE)
		return true;
	pl_futex_wait(&l->bell_taken, BELL_WAITED, left_ns, 1);
	return false;
}

/*
 * drained: a byte that may have been for the other thread, which must not poll
 * for it if it has looked already.
 */
static void bell_give(struct pl_lane *l, bool drained)
{
	if (drained)
		atomic_fetch_add(&l->turn, 1);
	if (atomic_exchange(&l->bell_taken, BELL_FREE) == BELL_WAITED)
		pl_futex_wake(&l->bell_taken, 1);
}

bool pl_lane_drain(struct pl_lane *l)
{
	bool any;

	if (!bell_try(l))
		return false;
	any = drain(l);
	bell_give(l, any);
	return any;
}

/*
 * Who looks again and again may keep the CPU from those that are to bring what
 * it looks for: the agents, of a lane that they carry.
 */
static void let_agents_run(const struct pl_lane *l)
{
	if (l->is_carried)
		sched_yield();
}

void pl_lane_probe(struct pl_lane *l)
{
	struct pollfd p = { .fd = l->bell, .events = POLLRDHUP };
	struct timespec ts;
	uint32_t link;
	uint64_t now;

	pl_lane_adopt(l);
	link = pl_lane_link(l);
	let_agents_run(l);
	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	now = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	if (now - atomic_load_explicit(&l->probed_ns, memory_order_relaxed) <
	    PROBE_NS)
		return;
	atomic_store_explicit(&l->probed_ns, now, memory_order_relaxed);
	if (poll(&p, 1, 0) > 0 && (p.revents & HANG_UP))
		hang_up(l, link);
}

/* --- looking ------------------------------------------------------------ */

/* Too little is there: is the stream at its end? */
static bool rx_finish(struct pl_lane *l)
{
	/* Pairs with hang_up; first, so that a last state is not missed. */
	bool gone = atomic_load_explicit(&l->hung_up, memory_order_acquire);
	/* Pairs with the release in pl_lane_raise: head is final then. */
	uint64_t state = atomic_load_explicit(&l->peer->state,
					      memory_order_acquire);

	if (state == PL_STATE_OPEN && !gone)
		return false;
	if (state > PL_STATE_DEAD) {
		pl_lane_fail(l);
		return true;
	}
	if (pl_rx_refresh(l) < 0)
		return true;
	/* The rest has no checksum: yet, or it will never have one. */
	if (l->rx.sums && l->rx.head !=
	    atomic_load_explicit(&l->peer->head, memory_order_relaxed)) {
		if (gone)
			pl_lane_break(l, -EBADMSG);
		return gone;
	}
	l->rx.end = state == PL_STATE_OPEN || state == PL_STATE_DEAD ?
			    -ECONNRESET : 1;
	return true;
}

bool pl_rx_look(struct pl_lane *l, uint64_t want)
{
	if (l->rx.end ||
	    atomic_load_explicit(&l->error, memory_order_relaxed) ||
	    pl_rx_refresh(l) < 0)
		return true;
	return pl_rx_bytes(l) >= want || rx_finish(l);
}

int pl_tx_check_slow(struct pl_lane *l)
{
	bool gone = atomic_load_explicit(&l->hung_up, memory_order_acquire);
	uint64_t state = atomic_load_explicit(&l->peer->state,
					      memory_order_acquire);
	int rc = atomic_load_explicit(&l->error, memory_order_relaxed);

	if (rc || l->tx.end)
		return rc ? rc : l->tx.end;
	if (state < l->tx.peer_state || state > PL_STATE_DEAD)
		return pl_lane_fail(l);
	l->tx.peer_state = state;
	if (gone || state >= PL_STATE_CLOSED)
		l->tx.end = -EPIPE;
	return l->tx.end;
}

bool pl_tx_look(struct pl_lane *l, uint64_t want)
{
	if (pl_tx_check(l) < 0 || pl_tx_refresh(l) < 0)
		return true;
	return pl_tx_space(l) >= want;
}

static int look(struct pl_lane *l, const struct pl_want *want)
{
	int got = 0;

	if ((want->events & PL_IN) && pl_rx_look(l, want->in))
		got |= PL_IN;
	if ((want->events & PL_OUT) && pl_tx_look(l, want->out))
		got |= PL_OUT;
	return got;
}

/* --- sleeping ----------------------------------------------------------- */

/* In our segment, so that another process goes on with them (lane_fork.c). */
static uint32_t next_no(_Atomic uint32_t *last)
{
	uint32_t no = atomic_load_explicit(last, memory_order_relaxed) + 1;

	if (no == 0)
		no++;
	atomic_store_explicit(last, no, memory_order_relaxed);
	return no;
}

void pl_lane_arm(struct pl_lane *l, int events)
{
	if (events & PL_IN) {
		l->rx.armed = next_no(&l->own->rx_wait_no);
		l->rx.armed_head = l->rx.head;
		atomic_store_explicit(&l->own->rx_wait, l->rx.armed,
				      memory_order_relaxed);
	}
	if (events & PL_OUT)
		atomic_store_explicit(&l->own->tx_wait,
				      next_no(&l->own->tx_wait_no),
				      memory_order_relaxed);
	/* Dekker; pairs with the fence in pl_lane_ring_if_waiting. */
	pl_fence();
}

void pl_lane_disarm(struct pl_lane *l, int events)
{
	if (events & PL_IN) {
		atomic_store_explicit(&l->own->rx_wait, 0,
				      memory_order_relaxed);
		l->rx.armed = 0;
	}
	if (events & PL_OUT)
		atomic_store_explicit(&l->own->tx_wait, 0,
				      memory_order_relaxed);
}

void pl_lane_bell_ready(struct pl_lane *l)
{
	const int fd = l->bell;
	const struct timeval slice = { .tv_sec = SLICE_NS / 1000000000u };
	int flags = fcntl(fd, F_GETFL);

	/* First, for who waits on it already and still finds that it can't. */
	if (atomic_load(&l->slices))
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof(slice));
	if (flags >= 0 && (flags & O_NONBLOCK))
		fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
}

/*
 * One system call that sleeps and drains. A sleep that has a limit ends after a
 * slice of time at the latest; from the first such one on all do.
 */
static void recv_bell(struct pl_lane *l, uint32_t link, bool limited,
		      bool *drained)
{
	char buf[64];
	ssize_t n;

	if (limited && !atomic_exchange(&l->slices, true))
		pl_lane_bell_ready(l);
	n = recv(l->bell, buf, sizeof(buf), 0);
	if (n > 0)
		*drained = true;
	else if (n < 0 && errno == EAGAIN)
		pl_lane_bell_ready(l);
	else if (n == 0 || errno != EINTR)
		hang_up(l, link);
}

static int poll_bell(struct pl_lane *l, uint32_t link, uint64_t left_ns,
		     bool *drained)
{
	struct pollfd p = { .fd = l->bell, .events = POLLIN | POLLRDHUP };
	const struct timespec ts = {
		.tv_sec = (time_t)(left_ns / 1000000000u),
		.tv_nsec = (long)(left_ns % 1000000000u),
	};
	int n = ppoll(&p, 1, &ts, NULL);

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	if (n == 0)
		return 0;
	if (p.revents & POLLIN)
		*drained = drain(l);
	if (p.revents & HANG_UP)
		hang_up(l, link);
	return 0;
}

/* left_ns 0: for ever. 0: woken, perhaps for nothing. */
static int sleep_bell(struct pl_lane *l, int events, uint32_t link,
		      uint64_t left_ns, bool *drained)
{
	int rc = 0;

	if (left_ns && left_ns < SLICE_NS)
		rc = poll_bell(l, link, left_ns, drained);
	else
		recv_bell(l, link, left_ns != 0, drained);
	/* The byte may have been the receiving thread's, see lane_fd.c. */
	if (*drained && !(events & PL_IN) && pl_lane_has_fd(l))
		pl_lane_fd_signal(l);
	return rc;
}

/* turn: as it was before this thread armed. */
static int doze(struct pl_lane *l, int events, uint32_t turn, uint64_t left_ns)
{
	uint32_t link = pl_lane_link(l);
	bool drained = false;
	int rc = 0;

	if (pl_link_is_away(link)) {
		pl_futex_wait(&l->turn, turn, left_ns, 1);
		return 0;
	}
	if (!bell_try(l) && !bell_wait(l, left_ns))
		return 0;
	if (atomic_load(&l->turn) == turn)
		rc = sleep_bell(l, events, link, left_ns, &drained);
	bell_give(l, drained);
	return rc;
}

void pl_lane_stir(struct pl_lane *l)
{
	atomic_fetch_add(&l->turn, 1);
	pl_futex_wake(&l->turn, 1);
}

void pl_lane_doze(struct pl_lane *l, uint32_t turn, uint64_t left_ns)
{
	doze(l, PL_IN, turn, left_ns);
}

/* Of the thread that waits for this. */
static struct pl_lane_count *count_of(struct pl_lane *l, int events)
{
	return events & PL_IN ? &l->own->rx_count : &l->own->tx_count;
}

/* Of the thread that slept from then on. */
static void count_wake(struct pl_lane *l, int events, uint64_t from_ns,
		       uint64_t now_ns)
{
	struct pl_lane_wake *own = events & PL_IN ? &l->own->rx_wake :
						    &l->own->tx_wake;
	const struct pl_lane_seg *peer = l->peer;

	/* The sender rings for bytes, the receiver for space. */
	if ((events & PL_IN) &&
	    pl_wake_count(own, atomic_load_explicit(&peer->tx_wake.rung_ns,
						    memory_order_relaxed),
			  from_ns, now_ns))
		return;
	if (events & PL_OUT)
		pl_wake_count(own,
			      atomic_load_explicit(&peer->rx_wake.rung_ns,
						   memory_order_relaxed),
			      from_ns, now_ns);
}

/* *slept: whether it did, at last. */
static int sleep_once(struct pl_lane *l, const struct pl_want *want,
		      const struct pl_limit *limit, bool *slept)
{
	uint32_t turn = atomic_load(&l->turn);
	uint64_t left_ns = 0;
	int got, rc = 0;

	*slept = false;
	if (limit->ms >= 0) {
		uint64_t now = pl_now_ns();

		if (now >= limit->end_ns)
			return -ETIMEDOUT;
		left_ns = limit->end_ns - now;
	}
	pl_lane_arm(l, want->events);
	got = look(l, want);
	if (!got) {
		pl_count(&count_of(l, want->events)->sleeps, 1);
		rc = doze(l, want->events, turn, left_ns);
		got = look(l, want);
		*slept = true;
	}
	pl_lane_disarm(l, want->events);
	return got ? got : rc;
}

/* *now_ns moves on: the time of the last look at the clock. */
static int spin(struct pl_lane *l, const struct pl_want *want, uint64_t end_ns,
		uint64_t *now_ns)
{
	do {
		for (int i = 0; i < LOOKS_PER_CLOCK; i++) {
			int got = look(l, want);

			if (got)
				return got;
			pl_cpu_relax();
		}
		let_agents_run(l);
		*now_ns = pl_now_ns();
	} while (*now_ns < end_ns);
	return 0;
}

int pl_lane_sleep(struct pl_lane *l, const struct pl_want *want,
		  struct pl_limit *limit)
{
	struct pl_spin *s = want->events & PL_IN ? &l->rx.spin : &l->tx.spin;
	struct pl_lane_count *n = count_of(l, want->events);
	uint64_t start = pl_now_ns(), now = start, from;
	uint64_t spin_end = start + PL_SPIN_NS;
	bool spins = !atomic_load_explicit(&l->never_spins,
					   memory_order_relaxed) &&
		     pl_spin_wanted(s, start);
	bool slept = false;
	int got = 0;

	if (limit->ms >= 0 && limit->end_ns == 0)
		limit->end_ns = start + (uint64_t)limit->ms * 1000000u;
	if (limit->ms >= 0)
		spin_end = PL_MIN(spin_end, limit->end_ns);
	pl_count(&n->waits, 1);
	if (spins)
		got = spin(l, want, spin_end, &now);
	if (got) {
		/* Without another look at the clock, which would take time. */
		pl_count(&n->wait_ns, now - start);
		pl_spin_learn(s, 0, false);
		return got;
	}
	pl_lane_adopt(l);
	from = now;
	while (!got)
		got = sleep_once(l, want, limit, &slept);
	now = pl_now_ns();
	pl_count(&n->wait_ns, now - start);
	if (slept && got > 0)
		count_wake(l, want->events, from, now);
	pl_spin_learn(s, now - start, spins);
	return got;
}

int pl_lane_wait(struct pl_lane *lane, int events, int timeout_ms)
{
	const struct pl_want want = { events, 1, 1 };
	struct pl_limit limit = { timeout_ms, 0 };
	int got;

	if (!events || (events & ~(PL_IN | PL_OUT)) || timeout_ms < -1)
		return -EINVAL;
	if (events & PL_IN)
		pl_rx_sync(lane);
	if (events & PL_OUT)
		pl_tx_sync(lane);
	got = look(lane, &want);
	if (!got && timeout_ms == 0) {
		pl_lane_probe(lane);
		got = look(lane, &want);
	}
	if (!got)
		got = timeout_ms ? pl_lane_sleep(lane, &want, &limit) :
				   -ETIMEDOUT;
	if ((events & PL_IN) && pl_lane_has_fd(lane))
		pl_lane_fd_update(lane);
	return got;
}
