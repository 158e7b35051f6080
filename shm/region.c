/* shm/region.c - memory that one pod writes and others read in place */
#include "shm/region.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util.h"
#include "shm/fence.h"
#include "shm/futex.h"

#define SLICE_NS 100000000u
#define LOOKS_PER_CLOCK 32

static struct pl_region_seg *seg_of(const struct pl_region *r)
{
	return r->seg.base;
}

/* The low half of version, which futexes can compare. */
static const void *version_word(const struct pl_region *r)
{
	const char *p = (const char *)&seg_of(r)->version;

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	p += sizeof(uint32_t);
#endif
	return p;
}

int pl_region_attach(const struct pl_region_parts *parts,
		     struct pl_region **out, struct pl_err *err)
{
	struct pl_region_parts p = *parts;
	struct pl_region *r = calloc(1, sizeof(*r));

	if (!r) {
		pl_seg_close(&p.seg);
		pl_seg_close(&p.watch);
		pl_close_fd(&p.bell);
		return pl_err_set(err, ENOMEM, "out of memory");
	}
	r->seg = p.seg;
	r->size = p.seg.data_bytes;
	r->max_size = p.msg && p.msg->max_size ? (size_t)p.msg->max_size :
						 p.seg.data_bytes;
	r->next = PL_SEG_NONE;
	r->watch = p.watch;
	r->bell = p.bell;
	r->is_owner = p.is_owner;
	r->pid = getpid();
	if (p.info)
		r->info = *p.info;
	pl_spin_init(&r->spin);
	pl_region_join(r, &p);
	*out = r;
	return 0;
}

void pl_region_ended(struct pl_region *r)
{
	/* Pairs with the acquire in look. */
	atomic_store_explicit(&r->ended, true, memory_order_release);
	pl_futex_wake(version_word(r), 0);
}

void pl_region_close(struct pl_region *region)
{
	if (!region)
		return;
	/* What a child of fork closes goes on. */
	if (region->is_owner && region->pid == getpid()) {
		/* Version is final; pairs with the acquire in look. */
		atomic_store_explicit(&seg_of(region)->state, PL_STATE_CLOSED,
				      memory_order_release);
		pl_futex_wake(version_word(region), 0);
	}
	pl_region_part(region);
	pl_region_drop_parts(region);
	pl_seg_close(&region->seg);
	pl_seg_close(&region->next);
	pl_seg_close(&region->watch);
	pl_close_fd(&region->bell);
	free(region);
}

void *pl_region_data(const struct pl_region *region)
{
	return pl_seg_data(&region->seg);
}

size_t pl_region_size(const struct pl_region *region)
{
	/* Pairs with the release in pl_region_resize. */
	return atomic_load_explicit(&region->size, memory_order_acquire);
}

uint64_t pl_region_version(const struct pl_region *region)
{
	/* Pairs with the release in pl_region_publish. */
	return atomic_load_explicit(&seg_of(region)->version,
				    memory_order_acquire);
}

void pl_region_info(const struct pl_region *region,
		    struct pl_region_info *info)
{
	*info = region->info;
	info->size = pl_region_size(region);
	info->max_size = region->max_size;
	info->version = pl_region_version(region);
	info->huge_bytes = region->seg.huge_bytes;
}

/* --- owner -------------------------------------------------------------- */

/* Does the agent want to know? */
static void ring_watch(struct pl_region *r)
{
	const struct pl_region_watch *w = r->watch.base;

	if (!w)
		return;
	/* Dekker: the agent asks, issues a fence, and looks at version. */
	pl_fence();
	/* A socket that is full holds a wake-up; an agent that is gone no. */
	if (atomic_load_explicit(&w->wait, memory_order_relaxed) &&
	    send(r->bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return;
}

int pl_region_publish(struct pl_region *region, size_t offset, size_t len,
		      uint64_t *version)
{
	const size_t size = pl_region_size(region);
	struct pl_region_seg *s = seg_of(region);
	struct pl_region_range *range;
	uint64_t v;

	if (!region->is_owner)
		return -EPERM;
	if (offset > size || len > size - offset)
		return -EINVAL;
	/* Ours alone; a child of fork may have moved it. */
	v = atomic_load_explicit(&s->version, memory_order_relaxed);
	/*
	 * Release: whoever reads this entry instead of the one that it wanted
	 * also sees that version has come so far.
	 */
	range = &s->log[v % PL_REGION_LOG];
	atomic_store_explicit(&range->offset, offset, memory_order_release);
	atomic_store_explicit(&range->len, len, memory_order_release);
	v++;
	/* Pairs with the acquire in look and pl_region_version. */
	atomic_store_explicit(&s->version, v, memory_order_release);
	pl_futex_wake(version_word(region), 0);
	ring_watch(region);
	if (version)
		*version = v;
	return 0;
}

/* --- readers ------------------------------------------------------------ */

/*
 * 1: version is there. 0: not yet, and *now is what is there. -ECONNRESET: it
 * will not come.
 */
static int look_at(struct pl_region *r, uint64_t version, uint64_t *now)
{
	/* Acquire: what another thread saw before can't be gone for us. */
	uint64_t seen = atomic_load_explicit(&r->seen, memory_order_acquire);
	/* First, so that what came before the end is not missed. */
	bool ended = atomic_load_explicit(&r->ended, memory_order_acquire);
	uint64_t state = atomic_load_explicit(&seg_of(r)->state,
					      memory_order_acquire);
	uint64_t v = pl_region_version(r);

	if (atomic_load_explicit(&r->error, memory_order_relaxed))
		return -EPROTO;
	if (v < seen || state > PL_STATE_DEAD) {
		atomic_store_explicit(&r->error, -EPROTO,
				      memory_order_relaxed);
		return -EPROTO;
	}
	while (seen < v &&
	       !atomic_compare_exchange_weak_explicit(&r->seen, &seen, v,
						      memory_order_release,
						      memory_order_acquire))
		;
	*now = v;
	if (v >= version)
		return 1;
	return ended || state != PL_STATE_OPEN ? -ECONNRESET : 0;
}

/* The same, with what the region has grown by. */
static int look(struct pl_region *r, uint64_t version, uint64_t *now)
{
	int rc = look_at(r, version, now);

	if (rc != 1 || !pl_region_is_behind(r))
		return rc;
	rc = pl_region_catch_up(r);
	if (rc == 0)
		return 1;
	/* When its owner has gone, what is not here will not come. */
	return rc == -EAGAIN ? look_at(r, UINT64_MAX, now) : rc;
}

static int spin(struct pl_region *r, uint64_t version, uint64_t end_ns)
{
	uint64_t now;

	do {
		for (int i = 0; i < LOOKS_PER_CLOCK; i++) {
			int rc = look(r, version, &now);

			if (rc)
				return rc;
			pl_cpu_relax();
		}
	} while (pl_now_ns() < end_ns);
	return 0;
}

/* One slice of sleep at most, and a look at the agent if nothing came. */
static int sleep_once(struct pl_region *r, uint64_t version, uint64_t end_ns)
{
	uint64_t now, left = end_ns - pl_now_ns();
	int rc = look(r, version, &now);

	if (rc)
		return rc;
	if ((int64_t)left <= 0 && end_ns != UINT64_MAX)
		return -ETIMEDOUT;
	rc = pl_futex_wait(version_word(r), (uint32_t)now,
			   PL_MIN(left, (uint64_t)SLICE_NS), 0);
	if (rc == -ETIMEDOUT && r->obj.conn)
		pl_conn_poll(r->obj.conn);
	return look(r, version, &now);
}

int pl_region_wait(struct pl_region *region, uint64_t version, int timeout_ms)
{
	uint64_t now, start, end = UINT64_MAX;
	int rc = look(region, version, &now);
	bool spins;

	if (timeout_ms < -1)
		return -EINVAL;
	if (rc)
		return rc < 0 ? rc : 0;
	if (timeout_ms == 0)
		return -ETIMEDOUT;
	start = pl_now_ns();
	if (timeout_ms > 0)
		end = start + (uint64_t)timeout_ms * 1000000u;
	spins = pl_spin_wanted(&region->spin, start);
	if (spins)
		rc = spin(region, version, PL_MIN(start + PL_SPIN_NS, end));
	if (rc) {
		pl_spin_learn(&region->spin, 0, false);
		return rc < 0 ? rc : 0;
	}
	while (!rc)
		rc = sleep_once(region, version, end);
	pl_spin_learn(&region->spin, pl_now_ns() - start, spins);
	return rc < 0 ? rc : 0;
}
