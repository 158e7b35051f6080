/* shm/lane_wait.c - looking at the peer, sleeping, waking; see lane.h */
#include "shm/lane.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/util.h"

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* --- what the peer wrote -------------------------------------------------- */

/* The peer broke the rules: nothing goes on, and it is told. */
static void broke(struct pl_lane *l)
{
	if (!atomic_exchange(&l->broken, true))
		pl_lane_own_state(l, PL_STATE_CLOSED);
}

void pl_lane_own_state(struct pl_lane *l, uint64_t state)
{
	uint64_t old = atomic_load_explicit(&l->own->state,
					    memory_order_relaxed);

	/* Release: whoever sees the state sees the final head. */
	while (old < state &&
	       !atomic_compare_exchange_weak_explicit(&l->own->state, &old,
						      state,
						      memory_order_release,
						      memory_order_relaxed))
		;
	pl_lane_ring(l);
}

uint64_t pl_lane_readable(struct pl_lane *l, uint64_t want)
{
	uint64_t n = l->head_seen - l->tail;
	uint64_t head;

	if (n >= want)
		return n;
	/* Pairs with the release in the peer's pl_lane_commit. */
	head = atomic_load_explicit(&l->peer->head, memory_order_acquire);
	if (!pl_ring_head_valid(head, l->head_seen, l->tail, l->rx_bytes)) {
		broke(l);
		return 0;
	}
	l->head_seen = head;
	return head - l->tail;
}

uint64_t pl_lane_writable(struct pl_lane *l, uint64_t want)
{
	uint64_t space = l->tx_bytes - (l->head - l->tail_seen);
	uint64_t tail;

	if (space >= want)
		return space;
	/* Pairs with the release in the peer's pl_lane_consume. */
	tail = atomic_load_explicit(&l->peer->tail, memory_order_acquire);
	if (!pl_ring_tail_valid(tail, l->tail_seen, l->head)) {
		broke(l);
		return 0;
	}
	l->tail_seen = tail;
	return l->tx_bytes - (l->head - tail);
}

uint64_t pl_lane_peer_state(struct pl_lane *l)
{
	/* Acquire: what another thread has seen, the next load sees too. */
	uint64_t seen = atomic_load_explicit(&l->peer_state,
					     memory_order_acquire);
	/* Pairs with the release of the peer's state: its head is final. */
	uint64_t now = atomic_load_explicit(&l->peer->state,
					    memory_order_acquire);

	if (now == seen)
		return now;
	if (now > PL_STATE_DEAD || now < seen) {
		broke(l);
		return seen;
	}
	while (now > seen && !atomic_compare_exchange_weak(&l->peer_state,
							   &seen, now))
		;
	return PL_MAX(now, seen);
}

bool pl_lane_rx_final(struct pl_lane *l)
{
	return atomic_load_explicit(&l->hup, memory_order_acquire) ||
	       pl_lane_peer_state(l) != PL_STATE_OPEN ||
	       atomic_load_explicit(&l->broken, memory_order_relaxed);
}

bool pl_lane_rx_ended(struct pl_lane *l, int *result)
{
	bool hup = atomic_load_explicit(&l->hup, memory_order_acquire);
	uint64_t state = pl_lane_peer_state(l);

	*result = 0;
	if (atomic_load(&l->broken)) {
		*result = -EPROTO;
		return true;
	}
	if (state == PL_STATE_OPEN && !hup)
		return false;
	/* Its head is final now: only after that an empty ring is the end. */
	if (pl_lane_readable(l, UINT64_MAX))
		return false;
	if (atomic_load(&l->broken))
		*result = -EPROTO;
	else if (state == PL_STATE_DEAD || state == PL_STATE_OPEN)
		*result = -ECONNRESET;
	return true;
}

bool pl_lane_tx_ended(struct pl_lane *l, int *result)
{
	bool hup = atomic_load_explicit(&l->hup, memory_order_relaxed);

	*result = 0;
	if (pl_lane_peer_state(l) >= PL_STATE_CLOSED || hup ||
	    atomic_load_explicit(&l->shut, memory_order_relaxed))
		*result = -EPIPE;
	if (atomic_load_explicit(&l->broken, memory_order_relaxed))
		*result = -EPROTO;
	return *result != 0;
}

/* --- waking --------------------------------------------------------------- */

/* A full socket holds a wake-up already; a hang-up shows at the next look. */
void pl_lane_ring(struct pl_lane *l)
{
	ssize_t r = send(l->bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);

	(void)r;
}

static void wake(struct pl_lane *l, _Atomic uint32_t *word, uint32_t *rang)
{
	uint32_t n;

	/* Dekker, pairs with the fence in arm(): one of us sees the other. */
	atomic_thread_fence(memory_order_seq_cst);
	n = atomic_load_explicit(word, memory_order_relaxed);
	if (n == 0 || n == *rang)
		return;
	*rang = n;
	pl_lane_ring(l);
}

void pl_lane_wake_rx(struct pl_lane *l)
{
	wake(l, &l->peer->rx_wait, &l->rang_rx);
}

void pl_lane_wake_tx(struct pl_lane *l)
{
	wake(l, &l->peer->tx_wait, &l->rang_tx);
}

/* --- sleeping ------------------------------------------------------------- */

static void arm(struct pl_lane *l, int events)
{
	if (events & PL_IN) {
		if (++l->rx_seq == 0)
			l->rx_seq = 1;
		atomic_store_explicit(&l->own->rx_wait, l->rx_seq,
				      memory_order_relaxed);
	}
	if (events & PL_OUT) {
		if (++l->tx_seq == 0)
			l->tx_seq = 1;
		atomic_store_explicit(&l->own->tx_wait, l->tx_seq,
				      memory_order_relaxed);
	}
	/* Dekker, pairs with the fence in wake(). */
	atomic_thread_fence(memory_order_seq_cst);
}

static void disarm(struct pl_lane *l, int events)
{
	if (events & PL_IN)
		atomic_store_explicit(&l->own->rx_wait, 0,
				      memory_order_relaxed);
	if (events & PL_OUT)
		atomic_store_explicit(&l->own->tx_wait, 0,
				      memory_order_relaxed);
}

static bool ready(struct pl_lane *l, int events, uint64_t want)
{
	int rc;

	if ((events & PL_IN) &&
	    (pl_lane_readable(l, want) >= want || pl_lane_rx_final(l)))
		return true;
	if ((events & PL_OUT) && (pl_lane_writable(l, want) >= want ||
				  pl_lane_tx_ended(l, &rc)))
		return true;
	return atomic_load_explicit(&l->broken, memory_order_relaxed);
}

/* A while of looking, longer where it paid before and none where it did not. */
static bool spin(struct pl_lane *l, int events, uint64_t want)
{
	unsigned int *limit = events & PL_IN ? &l->rx_spin : &l->tx_spin;

	for (unsigned int i = 0; i < *limit; i++) {
		relax();
		if (!ready(l, events, want))
			continue;
		*limit = PL_MIN(*limit * 2, (unsigned int)l->spin_max);
		return true;
	}
	*limit /= 2;
	return false;
}

/* One more chance for spinning after sleeping has paid off quickly. */
static void spin_again(struct pl_lane *l, int events)
{
	unsigned int *limit = events & PL_IN ? &l->rx_spin : &l->tx_spin;

	if (*limit < 4 && l->spin_max)
		*limit += 1;
}

/* With the lock held: the epoll descriptor is readable until self_clear. */
static void self_set(struct pl_lane *l)
{
	uint64_t one = 1;

	if (!atomic_load_explicit(&l->self_is_set, memory_order_relaxed) &&
	    write(l->self, &one, sizeof(one)) == sizeof(one))
		atomic_store_explicit(&l->self_is_set, true,
				      memory_order_relaxed);
}

static void self_clear(struct pl_lane *l)
{
	uint64_t n;

	if (atomic_load_explicit(&l->self_is_set, memory_order_relaxed) &&
	    read(l->self, &n, sizeof(n)) > 0)
		atomic_store_explicit(&l->self_is_set, false,
				      memory_order_relaxed);
}

/* With the lock held and no reader: take every byte, notice a hang-up. */
static void drain(struct pl_lane *l)
{
	char buf[64];
	ssize_t r;

	do {
		r = recv(l->bell, buf, sizeof(buf), MSG_DONTWAIT);
	} while (r == (ssize_t)sizeof(buf) || (r < 0 && errno == EINTR));
	if (r == 0 || (r < 0 && errno != EAGAIN && errno != EWOULDBLOCK))
		/* Release: pairs with the acquire in pl_lane_rx_ended. */
		atomic_store_explicit(&l->hup, true, memory_order_release);
	l->gen++;
	pthread_cond_broadcast(&l->drained);
}

static uint64_t deadline_of(int timeout_ms)
{
	if (timeout_ms < 0)
		return UINT64_MAX;
	return pl_now_ns() + (uint64_t)timeout_ms * 1000000u;
}

/* Rounded up, so that a wait never ends before its time. */
static int left_ms(uint64_t deadline)
{
	uint64_t now = pl_now_ns();

	if (deadline == UINT64_MAX)
		return -1;
	if (deadline <= now)
		return 0;
	return (int)PL_MIN((deadline - now + 999999u) / 1000000u, 1u << 30);
}

static void wait_for_reader(struct pl_lane *l, uint64_t deadline)
{
	struct timespec ts = {
		.tv_sec = (time_t)(deadline / 1000000000u),
		.tv_nsec = (long)(deadline % 1000000000u),
	};

	if (deadline == UINT64_MAX)
		pthread_cond_wait(&l->drained, &l->lock);
	else
		pthread_cond_timedwait(&l->drained, &l->lock, &ts);
}

/* Sleeps until the doorbell was drained after gen, or the time is over. */
static void sleep_on_bell(struct pl_lane *l, uint64_t gen, uint64_t deadline)
{
	struct pollfd p = { .fd = l->bell, .events = POLLIN };

	pthread_mutex_lock(&l->lock);
	while (l->gen == gen && l->reading && left_ms(deadline))
		wait_for_reader(l, deadline);
	if (l->gen == gen && !l->reading) {
		l->reading = true;
		pthread_mutex_unlock(&l->lock);
		poll(&p, 1, left_ms(deadline));
		pthread_mutex_lock(&l->lock);
		l->reading = false;
		drain(l);
		/* A byte of these may have been for a poll of the receiver. */
		if (l->epfd >= 0)
			self_set(l);
	}
	pthread_mutex_unlock(&l->lock);
}

static uint64_t read_gen(struct pl_lane *l)
{
	uint64_t gen;

	pthread_mutex_lock(&l->lock);
	gen = l->gen;
	pthread_mutex_unlock(&l->lock);
	return gen;
}

int pl_lane_block(struct pl_lane *l, int events, uint64_t want, int timeout_ms)
{
	uint64_t deadline;
	int rc = 0;

	if (ready(l, events, want))
		return 0;
	if (timeout_ms == 0)
		return -ETIMEDOUT;
	if (spin(l, events, want))
		return 0;
	deadline = deadline_of(timeout_ms);
	for (;;) {
		uint64_t gen = read_gen(l);

		arm(l, events);
		if (ready(l, events, want))
			break;
		if (left_ms(deadline) == 0) {
			rc = -ETIMEDOUT;
			break;
		}
		sleep_on_bell(l, gen, deadline);
	}
	disarm(l, events);
	spin_again(l, events);
	if (l->epfd >= 0 && (events & PL_IN))
		pl_lane_poll_left(l);
	return rc;
}

/* --- poll mode ------------------------------------------------------------ */

/* Nothing is there: drain, unless a reader does it anyway, and arm anew. */
void pl_lane_poll_idle(struct pl_lane *l)
{
	pthread_mutex_lock(&l->lock);
	self_clear(l);
	if (!l->reading)
		drain(l);
	pthread_mutex_unlock(&l->lock);
	arm(l, PL_IN);
}

/*
 * The next poll has to find this lane readable, as the doorbell may be silent:
 * bytes are left, or a wait has disarmed.
 */
void pl_lane_poll_left(struct pl_lane *l)
{
	if (atomic_load_explicit(&l->self_is_set, memory_order_relaxed))
		return;
	if (pl_lane_readable(l, 1) == 0 && !pl_lane_rx_final(l) &&
	    atomic_load_explicit(&l->own->rx_wait, memory_order_relaxed) != 0)
		return;
	pthread_mutex_lock(&l->lock);
	self_set(l);
	pthread_mutex_unlock(&l->lock);
}
