/* shm/region.c - publishing a region and waiting for it; see layout.h */
#include "shm/region.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/util.h"
#include "shm/conn.h"

/* Between two looks at the agent connection; see docs/decisions.md. */
#define SLICE_NS 100000000u
#define SPIN_MAX 256

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "the low half of version must come first");

static uint32_t *futex_word(const struct pl_region *r)
{
	return (uint32_t *)&r->ctl->version;
}

static long futex(uint32_t *word, int op, uint32_t val, struct timespec *ts)
{
	return syscall(SYS_futex, word, op, val, ts, NULL, 0);
}

int pl_region_attach(struct pl_seg *seg, struct pl_seg *watch, int bell,
		     bool owner, const struct pl_region_info *info,
		     struct pl_conn *conn, uint64_t id, struct pl_region **out,
		     struct pl_err *err)
{
	struct pl_region *r = calloc(1, sizeof(*r));

	if (!r) {
		pl_seg_close(seg);
		pl_seg_close(watch);
		pl_close_fd(&bell);
		return pl_err_set(err, ENOMEM, "out of memory");
	}
	r->seg = *seg;
	r->watch = *watch;
	*seg = *watch = PL_SEG_NONE;
	r->ctl = r->seg.base;
	r->bell = bell;
	r->owner = owner;
	r->conn = conn;
	r->id = id;
	r->info = *info;
	r->info.size = r->seg.data_bytes;
	*out = r;
	return 0;
}

void pl_region_free(struct pl_region *r)
{
	pl_seg_close(&r->seg);
	pl_seg_close(&r->watch);
	pl_close_fd(&r->bell);
	free(r);
}

void pl_region_set_ended(struct pl_region *r)
{
	atomic_store(&r->ended, true);
}

void *pl_region_data(const struct pl_region *r)
{
	return pl_seg_data(&r->seg);
}

size_t pl_region_size(const struct pl_region *r)
{
	return r->seg.data_bytes;
}

uint64_t pl_region_version(const struct pl_region *r)
{
	/* Pairs with the release in pl_region_publish (or of the agent). */
	return atomic_load_explicit(&r->ctl->version, memory_order_acquire);
}

/* The agent sleeps until we ring, when it replicates this region. */
static void wake_agent(struct pl_region *r)
{
	const struct pl_region_watch *w = r->watch.base;
	uint32_t n;

	if (!w)
		return;
	/* Dekker: the agent stores wait, fences, and looks at version again. */
	atomic_thread_fence(memory_order_seq_cst);
	n = atomic_load_explicit(&w->wait, memory_order_relaxed);
	if (n == 0 || n == r->rang)
		return;
	r->rang = n;
	if (send(r->bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return;	/* full: it is awake; gone: nobody replicates */
}

int pl_region_publish(struct pl_region *r, size_t offset, size_t len,
		      uint64_t *version)
{
	struct pl_region_range *e;
	uint64_t v;

	if (!r->owner)
		return -EPERM;
	if (offset > r->seg.data_bytes || len > r->seg.data_bytes - offset)
		return -EINVAL;
	v = atomic_load_explicit(&r->ctl->version, memory_order_relaxed);
	e = &r->ctl->log[v % PL_REGION_LOG];
	atomic_store_explicit(&e->offset, offset, memory_order_relaxed);
	atomic_store_explicit(&e->len, len, memory_order_relaxed);
	/* Pairs with the acquire in pl_region_version, and in the agent. */
	atomic_store_explicit(&r->ctl->version, v + 1, memory_order_release);
	futex(futex_word(r), FUTEX_WAKE, INT_MAX, NULL);
	wake_agent(r);
	if (version)
		*version = v + 1;
	return 0;
}

static bool spin(struct pl_region *r, uint64_t version)
{
	for (unsigned int i = 0; i < r->spin; i++) {
		if (pl_region_version(r) >= version) {
			r->spin = PL_MIN(r->spin * 2, (unsigned int)SPIN_MAX);
			return true;
		}
#if defined(__x86_64__)
		__builtin_ia32_pause();
#endif
	}
	r->spin = PL_MAX(r->spin / 2, 4u);
	return false;
}

/* 1: there; 0: not yet; -ECONNRESET: it will never be. */
static int look(struct pl_region *r, uint64_t version)
{
	bool ended = atomic_load(&r->ended);
	/* Acquire: what the state's writer published before is seen next. */
	uint64_t state = atomic_load_explicit(&r->ctl->state,
					      memory_order_acquire);

	if (pl_region_version(r) >= version)
		return 1;
	if (!r->owner && (ended || state != PL_STATE_OPEN))
		return -ECONNRESET;
	return 0;
}

static void sleep_slice(struct pl_region *r, uint64_t version, uint64_t ns)
{
	struct timespec ts = { .tv_sec = 0, .tv_nsec = (long)ns };
	uint64_t now = pl_region_version(r);

	if (now < version)
		futex(futex_word(r), FUTEX_WAIT, (uint32_t)now, &ts);
}

int pl_region_wait(struct pl_region *r, uint64_t version, int timeout_ms)
{
	uint64_t deadline = UINT64_MAX;
	int rc = look(r, version);

	if (rc)
		return PL_MIN(rc, 0);
	if (timeout_ms == 0)
		return -ETIMEDOUT;
	if (spin(r, version))
		return 0;
	if (timeout_ms > 0)
		deadline = pl_now_ns() + (uint64_t)timeout_ms * 1000000u;
	for (;;) {
		uint64_t now = pl_now_ns();

		if (now >= deadline)
			return -ETIMEDOUT;
		sleep_slice(r, version,
			    PL_MIN(deadline - now, (uint64_t)SLICE_NS));
		rc = look(r, version);
		if (rc == 0 && r->conn && pl_now_ns() - now >= SLICE_NS) {
			pl_conn_events(r->conn);
			rc = look(r, version);
		}
		if (rc)
			return PL_MIN(rc, 0);
	}
}

void pl_region_close(struct pl_region *r)
{
	if (r->owner) {
		atomic_store_explicit(&r->ctl->state, PL_STATE_CLOSED,
				      memory_order_release);
		futex(futex_word(r), FUTEX_WAKE, INT_MAX, NULL);
	}
	if (r->conn)
		pl_conn_region_closed(r->conn, r);
	pl_region_free(r);
}

void pl_region_info(const struct pl_region *r, struct pl_region_info *info)
{
	*info = r->info;
	info->version = pl_region_version(r);
}
