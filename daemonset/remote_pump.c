/*
 * daemonset/remote_pump.c - bytes and counters of a lane go to the other node
 *
 * Theory of operation
 *
 * Towards its pod the agent is a lane's peer that always sleeps: it writes the
 * wait words of the replica, the pod rings the doorbell once per number, the
 * agent reads the counters of the pod's segment (once, then checked) and puts
 * what is new: ring bytes, then head, state and tail in one put of words, with
 * notify. So the other side never sees a head without its bytes.
 *
 * Ring bytes need no credit of their own. The pod may only write what the
 * peer's tail leaves free, that tail came from the other node, and there it was
 * stored after the bytes had been read; so the place in the replica is free.
 * The agent checks just this of its pod: head - tail <= ring.
 *
 * What has been put is bounded (PL_REMOTE_LANE_PUTS); `done` goes on. Puts that
 * are lost with a connection are repeated from where the other side says.
 *
 * Tails. To report each small step of a reader at once would double the
 * messages. The tail goes along with every counters put; otherwise steps of an
 * eighth of the ring are reported at once, as is the first step of a reader
 * that was quiet, and smaller ones every TICK_MS. tx_wait is armed while the
 * reader is quiet, and while it takes large steps and the writer may be running
 * out of space. Whatever was read is thus known to the other side within
 * TICK_MS.
 *
 * On the other side a notify wakes the pod if it sleeps by its own wait words:
 * the same fence and the same "once per number" as between two pods.
 */
#include "daemonset/remote_internal.h"

#include <errno.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"
#include "daemonset/guard.h"
#include "shm/fence.h"
#include "shm/sum.h"

#define TICK_MS 1
#define RETRY_MS 5
/* Looks at a pod that keeps on moving, per turn of the event loop. */
#define ROUNDS 4

struct counters {
	uint64_t head, state, tail;
	uint64_t sum;			/* of head; 0: there are none */
	bool more;			/* head is not the pod's last one */
};

/* What is replicated: head at 64, state at 72, tail at 128. */
struct counters_line {
	uint64_t head, state, sends, sum, pad[4], tail;
};
_Static_assert(sizeof(struct counters_line) == PL_LANE_COUNTERS_BYTES &&
		       sizeof(struct counters_line) <= PL_PUT_WORDS_MAX,
	       "one put of words");
_Static_assert(offsetof(struct counters_line, tail) ==
		       offsetof(struct pl_lane_seg, tail) -
			       PL_LANE_COUNTERS_OFF,
	       "layout");
_Static_assert(offsetof(struct counters_line, sum) ==
		       offsetof(struct pl_lane_seg, sum) - PL_LANE_COUNTERS_OFF,
	       "layout");
_Static_assert(offsetof(struct counters_line, sends) ==
		       offsetof(struct pl_lane_seg, carried_sends) -
			       PL_LANE_COUNTERS_OFF,
	       "layout");

/* --- waking the pod ------------------------------------------------------ */

void pl_rlane_ring(struct pl_rlane *l)
{
	pl_carry_add(&pl_rlane_carry(l)->rings, 1);
	/* Full: it holds a wake-up already. Hung up: the event tells. */
	(void)!send(l->bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void rung_now(struct pl_lane_wake *w)
{
	atomic_store_explicit(&w->rung_ns, pl_now_ns(), memory_order_relaxed);
}

void pl_rlane_wake(struct pl_rlane *l)
{
	const struct pl_lane_seg *own = l->own.base;
	struct pl_lane_seg *rep = l->rep.base;
	uint32_t rx, tx;
	bool ring = false;

	/* Dekker, pairs with the fence of the pod after it armed. */
	pl_fence();
	rx = atomic_load_explicit(&own->rx_wait, memory_order_relaxed);
	tx = atomic_load_explicit(&own->tx_wait, memory_order_relaxed);
	if (rx && rx != l->rang_rx) {
		l->rang_rx = rx;
		rung_now(&rep->tx_wake);
		ring = true;
	}
	if (tx && tx != l->rang_tx) {
		l->rang_tx = tx;
		rung_now(&rep->rx_wake);
		ring = true;
	}
	if (ring)
		pl_rlane_ring(l);
}

void pl_rlane_notify(struct pl_rsink *s)
{
	struct pl_rlane *l = (struct pl_rlane *)s;

	if (l->state != PL_RLANE_OPEN)
		return;
	pl_carry_add(&pl_rlane_carry(l)->notifies, 1);
	pl_rlane_wake(l);
	/* There is more to be read: how its tail is reported may change. */
	pl_rlane_pump(l);
}

/* --- what the pod wrote -------------------------------------------------- */

static uint64_t rep_head(const struct pl_rlane *l)
{
	const struct pl_lane_seg *rep = l->rep.base;

	return atomic_load_explicit(&rep->head, memory_order_relaxed);
}

uint64_t pl_rlane_head(const struct pl_rlane *l, uint64_t *sum)
{
	const struct pl_lane_seg *own = l->own.base;
	uint64_t head = atomic_load_explicit(&own->head, memory_order_acquire);

	/* After head, so it is of that or a newer one. */
	*sum = atomic_load_explicit(&own->sum, memory_order_acquire);
	if (*sum & PL_SUM_ON)
		return pl_sum_head(*sum, head);
	*sum = 0;
	return head;
}

/*
 * With checksums the other side is only told of heads whose checksum is known:
 * what was there at a look is sent to its end before the next one counts.
 */
static void set_goal(struct pl_rlane *l, struct counters *c)
{
	if (!c->sum)
		return;
	if (l->sent < l->goal) {
		c->more = c->head != l->goal;
		c->head = l->goal;
		c->sum = l->goal_sum;
	} else {
		l->goal = c->head;
		l->goal_sum = c->sum;
	}
}

/* NULL, or the rule that the pod (or its peer) has broken. */
static const char *counters_read(struct pl_rlane *l, struct counters *c)
{
	const struct pl_lane_seg *own = l->own.base;
	const struct pl_lane_seg *rep = l->rep.base;
	uint64_t peer_tail, in = rep_head(l);

	/* State first: when it is final, the head that follows is, too. */
	c->state = atomic_load_explicit(&own->state, memory_order_acquire);
	c->head = pl_rlane_head(l, &c->sum);
	c->more = false;
	c->tail = atomic_load_explicit(&own->tail, memory_order_acquire);
	peer_tail = atomic_load_explicit(&rep->tail, memory_order_relaxed);
	if (peer_tail > l->sent)
		return "the peer read more than was sent";
	if (c->head < l->sent || c->head - peer_tail > l->own.data_bytes)
		return "its head is out of bounds";
	if (c->tail < l->tail_sent || c->tail > in ||
	    in - c->tail > l->rep.data_bytes)
		return "its tail is out of bounds";
	if (c->state > PL_STATE_CLOSED)
		return "its state is none";
	set_goal(l, c);
	return NULL;
}

/* What the other side is to see of this end once all bytes have been put. */
static uint64_t state_out(const struct pl_rlane *l, const struct counters *c)
{
	if (c->head != l->sent || c->more)
		return l->state_sent;
	if (!l->closing)
		return PL_MAX(c->state, l->state_sent);
	if (c->state >= PL_STATE_SHUT || !l->died)
		return PL_STATE_CLOSED;
	return PL_STATE_DEAD;
}

/* --- putting ------------------------------------------------------------- */

static void schedule(struct pl_rlane *l, int ms)
{
	/* Not event_active: other descriptors come first. */
	pl_rtimer(l->ev_pump, ms);
}

static void put_done(void *user, int status)
{
	struct pl_rlane *l = user;

	l->n_puts--;
	if (status < 0 || !l->blocked ||
	    l->n_puts > PL_REMOTE_LANE_PUTS / 2)
		return;
	l->blocked = false;
	schedule(l, 0);
}

static int put(struct pl_rlane *l, uint64_t off, const void *data, size_t len,
	       unsigned int flags)
{
	int rc = pl_carrier_put(l->node->peer, l->source, l->out_key, off,
				data, len, flags, put_done, l);

	if (rc == 0) {
		l->n_puts++;
		return 0;
	}
	if (rc != -ENOTCONN && l->n_puts == 0)
		schedule(l, RETRY_MS);
	l->blocked = true;
	return rc;
}

/* How often the pod has published, as it says. */
static uint64_t sends_of(const struct pl_rlane *l)
{
	const struct pl_lane_seg *own = l->own.base;

	return atomic_load_explicit(&own->tx_count.calls,
				    memory_order_relaxed);
}

static int counters_put(struct pl_rlane *l, const struct counters *c)
{
	struct counters_line line = { .head = l->sent,
				      .state = state_out(l, c),
				      .sends = sends_of(l),
				      .sum = c->sum,
				      .tail = c->tail };
	int rc = put(l, PL_LANE_COUNTERS_OFF, &line, sizeof(line),
		     PL_PUT_NOTIFY);

	if (rc < 0) {
		l->stale = true;
		return rc;
	}
	pl_carry_add(&pl_rlane_carry(l)->counter_puts, 1);
	l->summed = line.head;
	l->summed_sum = line.sum;
	l->stale = false;
	l->state_sent = line.state;
	l->tail_step += line.tail - l->tail_sent;
	l->tail_sent = line.tail;
	return 0;
}

/* The next stretch of the ring that is contiguous in the replica. */
static int ring_put(struct pl_rlane *l, uint64_t head)
{
	struct pl_lane_carry *carry = pl_rlane_carry(l);
	size_t at = l->sent & (l->own.data_bytes - 1);
	size_t n = PL_MIN(head - l->sent, l->own.data_bytes - at);
	int rc;

	n = PL_MIN(n, (size_t)PL_REMOTE_CHUNK);
	rc = put(l, PL_SEG_CTL_BYTES + at, (char *)pl_seg_data(&l->own) + at,
		 n, 0);
	if (rc < 0)
		return rc;
	pl_carry_add(&carry->puts, 1);
	pl_carry_add(&carry->put_bytes, n);
	if (l->sent < l->sent_max)
		pl_carry_add(&carry->again_bytes,
			     PL_MIN(n, l->sent_max - l->sent));
	l->sent += n;
	return 0;
}

static bool tail_due(const struct pl_rlane *l, const struct counters *c)
{
	uint64_t moved = c->tail - l->tail_sent;

	return moved && (l->tick || moved >= l->rep.data_bytes / 8);
}

/* Returns whether anything was put; l->blocked when it has to stop. */
static bool send_new(struct pl_rlane *l, const struct counters *c)
{
	bool any = false;

	while (l->sent != c->head) {
		/* A stretch and the counters that make it visible. */
		if (l->n_puts + 2 > PL_REMOTE_LANE_PUTS) {
			l->blocked = true;
			return any;
		}
		if (ring_put(l, c->head) < 0)
			return any;
		if ((!c->sum || l->sent == c->head) && counters_put(l, c) < 0)
			return any;
		any = true;
	}
	if (l->stale || state_out(l, c) != l->state_sent || tail_due(l, c)) {
		if (l->n_puts >= PL_REMOTE_LANE_PUTS) {
			l->blocked = true;
			return any;
		}
		any |= counters_put(l, c) == 0;
	}
	return any;
}

/* --- sleeping ------------------------------------------------------------ */

static uint32_t fresh(struct pl_rlane *l)
{
	if (++l->wait_no == 0)
		l->wait_no = 1;
	return l->wait_no;
}

/* Shall the next step of the reader ring? Else a timer looks again. */
static bool want_tail(struct pl_rlane *l, const struct counters *c)
{
	uint64_t held = rep_head(l) - l->tail_sent;
	uint64_t ring = l->rep.data_bytes;

	if (held == 0)
		return false;
	if (c->tail == l->tail_sent && (l->tick || held >= ring / 2) &&
	    (l->tail_step == 0 || l->tail_step >= ring / 8))
		return true;
	if (!event_pending(l->ev_timer, EV_TIMEOUT, 0))
		pl_rtimer(l->ev_timer, TICK_MS);
	return false;
}

static void arm(struct pl_rlane *l, const struct counters *c)
{
	struct pl_lane_seg *rep = l->rep.base;

	if (!l->rx_armed)
		atomic_store_explicit(&rep->rx_wait, fresh(l),
				      memory_order_relaxed);
	if (!l->tx_armed && want_tail(l, c)) {
		atomic_store_explicit(&rep->tx_wait, fresh(l),
				      memory_order_relaxed);
		l->tx_armed = true;
		l->tx_quiet = l->tail_step == 0;
	}
	l->rx_armed = true;
	/* Dekker, pairs with the fence of the pod before it looks at these. */
	pl_fence();
}

static bool same(const struct counters *a, const struct counters *b)
{
	return a->head == b->head && a->more == b->more &&
	       a->state == b->state && a->tail == b->tail;
}

/* --- the pump ------------------------------------------------------------ */

/* The lane ends for the other side as if the pod had died here. */
static void broke(struct pl_rlane *l, const char *rule)
{
	struct counters c = { .tail = l->tail_sent, .sum = l->summed_sum };

	if (c.sum)
		l->sent = l->summed;
	c.head = l->sent;

	pl_broker_broke(l->node->r->broker, l->id, rule);
	l->closing = true;
	l->died = true;
	counters_put(l, &c);
	pl_rlane_end_send(l);
}

static bool is_over(const struct pl_rlane *l, const struct counters *c)
{
	return l->closing && !l->blocked && !l->stale && !c->more &&
	       l->sent == c->head &&
	       l->state_sent >= PL_STATE_CLOSED;
}

static void look(struct pl_rlane *l)
{
	struct counters c, again;
	const char *rule;

	for (int i = 0; i < ROUNDS; i++) {
		rule = counters_read(l, &c);
		if (rule) {
			broke(l, rule);
			return;
		}
		/* A pod that has closed may not live to say so. */
		if (c.state == PL_STATE_CLOSED)
			l->closing = true;
		send_new(l, &c);
		if (is_over(l, &c)) {
			pl_rlane_end_send(l);
			return;
		}
		if (l->blocked)
			return;
		arm(l, &c);
		rule = counters_read(l, &again);
		if (!rule && same(&c, &again))
			return;
	}
	schedule(l, 0);
}

void pl_rlane_pump(struct pl_rlane *l)
{
	if (l->state != PL_RLANE_OPEN || !l->node->is_up || l->paused ||
	    !l->out_key || l->end_sent || l->blocked)
		return;
	look(l);
	l->tick = false;
	l->tail_step = 0;
}

void pl_rlane_pump_cb(evutil_socket_t fd, short what, void *arg)
{
	struct pl_rlane *l = arg;

	(void)fd;
	(void)what;
	l->blocked = false;
	pl_rlane_pump(l);
}

void pl_rlane_bell_cb(evutil_socket_t fd, short what, void *arg)
{
	struct pl_rlane *l = arg;
	ssize_t n = pl_guard_drain(fd);

	(void)what;
	if (n == -EAGAIN || n == -EINTR)
		return;
	if (n <= 0)
		pl_rlane_hangup(l);
	else
		pl_carry_add(&pl_rlane_carry(l)->rung, 1);
	if (l->tx_armed && l->tx_quiet)
		l->tick = true;
	l->rx_armed = l->tx_armed = false;
	pl_rlane_pump(l);
}
