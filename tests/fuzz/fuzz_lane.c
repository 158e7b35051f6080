/*
 * tests/fuzz/fuzz_lane.c - a lane whose peer writes what it likes
 *
 * The peer's segment is writable here: between the calls of a program its
 * counters, state and wait words become anything, its doorbell is rung, sent
 * descriptors and closed. HOLDS says what a program may rely on: no more bytes
 * than the ring has, an error once a rule was broken, and own counters that
 * only grow.
 */
#include <errno.h>
#include <limits.h>
#include <sys/socket.h>

#include "common/fdpass.h"
#include "shm/lane.h"
#include "shm/sum.h"
#include "tests/fuzz/fuzz.h"

#define RING PL_RING_MIN
#define STEPS_MAX 64

static struct pl_seg own, peer;

struct end {
	struct pl_lane *l;
	int bell;			/* the peer's; -1: closed */
	bool broken;			/* -EPROTO was returned */
	uint64_t head, tail;		/* ours, as last seen */
};

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct pl_err err = { 0 };

	(void)argc;
	(void)argv;
	HOLDS(pl_seg_lane_create(RING, &own, &err) == 0);
	HOLDS(pl_seg_lane_create(RING, &peer, &err) == 0);
	return 0;
}

static void blank(struct pl_seg *s)
{
	struct pl_lane_seg *h = s->base;

	atomic_store(&h->head, 0);
	atomic_store(&h->state, 0);
	atomic_store(&h->tail, 0);
	atomic_store(&h->sum, 0);
	atomic_store(&h->rx_wait, 0);
	atomic_store(&h->tx_wait, 0);
}

/* Mappings that the lane does not own. */
static struct pl_seg lend(const struct pl_seg *s)
{
	struct pl_seg b = *s;

	b.fd = -1;
	b.map_bytes = 0;
	return b;
}

static void end_make(struct end *e)
{
	const struct pl_lane_info info = { .id = 1 };
	struct pl_lane_parts parts = { .own = lend(&own),
				       .peer = lend(&peer),
				       .info = &info };
	struct pl_err err = { 0 };
	int fds[2];

	blank(&own);
	blank(&peer);
	HOLDS(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	parts.bell = fds[0];
	e->bell = fds[1];
	HOLDS(pl_lane_attach(&parts, &e->l, &err) == 0);
	pl_lane_set_timeout(e->l, 0);
}

/* --- the peer ------------------------------------------------------------- */

/* Something near to what is right, or anything. */
static uint64_t value(struct fuzz *f, uint64_t right, uint64_t other)
{
	uint8_t how = fuzz_u8(f);

	switch (how & 7) {
	case 0:
		return fuzz_u64(f);
	case 1:
		return right - 1 - (how >> 3);
	case 2:
		return other + RING;
	case 3:
		return other + RING + 1;
	case 4:
		return right;
	case 5:
		return other;
	default:
		return right + fuzz_u32(f) % (RING / 2);
	}
}

static void ring_bell(struct end *e, uint8_t how)
{
	static const int null = 0;
	char buf[100] = { 0 };

	if (e->bell < 0)
		return;
	if (how & 1)
		(void)!pl_fdpass_send(e->bell, buf, 1 + how % sizeof(buf),
				      &null, 1, MSG_DONTWAIT);
	else
		(void)!send(e->bell, buf, 1 + how % sizeof(buf),
			    MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void peer_step(struct end *e, struct fuzz *f)
{
	struct pl_lane_seg *p = peer.base, *o = own.base;
	uint8_t how = fuzz_u8(f);

	switch (how % 8) {
	case 0:
	case 1:
		atomic_store(&p->head, value(f, atomic_load(&p->head),
					     atomic_load(&o->tail)));
		break;
	case 2:
	case 3:
		atomic_store(&p->tail, value(f, atomic_load(&p->tail),
					     atomic_load(&o->head)));
		break;
	case 4:
		atomic_store(&p->state, how & 0x80 ? fuzz_u64(f) :
						     (how >> 3) % 4);
		break;
	case 5:
		/* A checksum: of any bytes, of this head or another. */
		if (how & 0x80) {
			uint64_t head = atomic_load(&p->head);

			atomic_store(&p->sum, how & 0x40 ? fuzz_u64(f) :
					pl_sum_make(head + how % 4, how & 0x20 ?
						    fuzz_u32(f) : 0));
			break;
		}
		atomic_store(&p->rx_wait, fuzz_u32(f));
		atomic_store(&p->tx_wait, fuzz_u32(f));
		break;
	case 6:
		ring_bell(e, how >> 3);
		break;
	default:
		if (how & 0x80)
			pl_close_fd(&e->bell);
		else if (e->bell >= 0)
			shutdown(e->bell, (how >> 3) % 3);
	}
}

/* --- the program ---------------------------------------------------------- */

static ssize_t in_place(struct pl_lane *l, bool sends, size_t want)
{
	const void *data;
	void *to;
	ssize_t n = sends ? pl_lane_reserve(l, want, &to, PL_DONTWAIT) :
			    pl_lane_peek(l, want, &data, PL_DONTWAIT);

	HOLDS(n <= (ssize_t)RING);
	if (n <= 0)
		return n;
	HOLDS(pl_lane_commit(l, RING + 1) == -EINVAL);
	HOLDS(pl_lane_consume(l, RING + 1) == -EINVAL);
	if (sends) {
		memset(to, 1, (size_t)n);
		return pl_lane_commit(l, (size_t)n / 2);
	}
	for (ssize_t i = 0; i < n; i += 64)
		HOLDS(((const volatile char *)data)[i] >= CHAR_MIN);
	return pl_lane_consume(l, (size_t)n / 2);
}

static ssize_t step(struct pl_lane *l, struct fuzz *f)
{
	static char buf[2 * RING];
	uint8_t what = fuzz_u8(f);
	size_t len = fuzz_u32(f) % sizeof(buf);
	int fd;

	switch (what % 8) {
	case 0:
		return pl_lane_send(l, buf, len, PL_DONTWAIT);
	case 1:
		return pl_lane_recv(l, buf, len, PL_DONTWAIT);
	case 2:
		return pl_lane_recv(l, buf, len, PL_WAITALL);
	case 3:
		return in_place(l, what & 8, len % (RING + 1));
	case 4:
		/* An error counts as any event. */
		HOLDS(pl_lane_wait(l, 1 + (what >> 3) % 3, 0) != 0);
		return 0;
	case 5:
		fd = pl_lane_fd(l);
		HOLDS(fd >= 0);
		return 0;
	case 6:
		return what & 0x80 ? pl_lane_shutdown(l) : 0;
	default:
		return pl_lane_send(l, buf, len % 128, 0);
	}
}

static void check(struct end *e, ssize_t rc)
{
	struct pl_lane_info info;

	pl_lane_info(e->l, &info);
	HOLDS(info.sent_bytes >= e->head && info.received_bytes >= e->tail);
	HOLDS(info.sent_bytes - e->head <= 4 * (uint64_t)RING);
	e->head = info.sent_bytes;
	e->tail = info.received_bytes;
	/* Once broken, it stays so: what was received before may be left. */
	if (e->broken)
		HOLDS(rc <= 0);
	if (rc == -EPROTO || rc == -EBADMSG)
		e->broken = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz f = { data, size };
	struct end e = { 0 };

	end_make(&e);
	if (size & 1)
		pl_tx_sum_start(e.l);
	for (int i = 0; i < STEPS_MAX && f.left; i++) {
		if (fuzz_u8(&f) & 1)
			peer_step(&e, &f);
		else
			check(&e, step(e.l, &f));
	}
	pl_lane_close(e.l);
	pl_close_fd(&e.bell);
	return 0;
}
