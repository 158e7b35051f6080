/*
 * shm/region_grow.c - regions that grow
 *
 * Theory of operation
 *
 * Nothing that is mapped moves: all address space that the region may ever need
 * is taken at first, and parts (segments of data only) are mapped one behind
 * the other.
 *
 * Owner: make a part, show it to the agent, and when that knows it, say how far
 * the region has grown. So a reader that finds the word finds the part with the
 * agent. A part stays in the list from before it is shown, as another agent may
 * come at any moment, and has to be shown it, too. When no answer came it stays
 * there, unsaid, and is shown once more by the next call.
 *
 * Reader: asks for the segment at the offset where its own end, again and
 * again, until it has as much as the owner says. On another node that makes the
 * agent's replica grow: the new part comes empty, and `filled` of the replica
 * says when it has what the version has.
 *
 * The keeper may put another agent's replica in the place of this one at any
 * moment (region_resume.c), with all parts as one segment. So a part is mapped
 * only when agent, id and offset are still those that it was asked with.
 */
#include <errno.h>
#include <string.h>

#include "common/util.h"
#include "shm/msg.h"
#include "shm/region.h"

static struct pl_region_seg *seg_of(const struct pl_region *r)
{
	return r->seg.base;
}

/* Regions without an agent have no lock, and no other thread. */
static void lock(struct pl_region *r)
{
	if (r->obj.conn)
		pthread_mutex_lock(&r->obj.conn->objs_lock);
}

static void unlock(struct pl_region *r)
{
	if (r->obj.conn)
		pthread_mutex_unlock(&r->obj.conn->objs_lock);
}

static bool is_far(const struct pl_region *r)
{
	return strcmp(r->info.path, "shm") != 0;
}

void pl_region_resize(struct pl_region *r)
{
	const struct pl_region_seg *h = seg_of(r);
	uint64_t size = atomic_load_explicit(&h->grown, memory_order_acquire);
	uint64_t there = r->seg.end_bytes;

	if (is_far(r)) {
		/* Pairs with the release of the agent's put. */
		uint64_t n = atomic_load_explicit(&h->filled,
						  memory_order_acquire);

		there = PL_MIN(there, PL_MAX(n, r->seg.data_bytes));
	}
	size = PL_MIN(PL_MAX(size, r->seg.data_bytes), there);
	size = PL_MIN(size, PL_MAX(r->max_size, r->seg.data_bytes));
	if (size > atomic_load_explicit(&r->size, memory_order_relaxed))
		atomic_store_explicit(&r->size, size, memory_order_release);
}

/* --- owner ---------------------------------------------------------------- */

static int say(struct pl_region *r, const struct pl_region_part *p, bool again,
	       struct pl_err *err)
{
	struct pl_msg_region_grow req = { .offset = p->offset,
					  .bytes = p->bytes };
	const struct pl_conn_call call = {
		.request = &req,
		.type = PL_MSG_REGION_GROW,
		.reply_type = PL_MSG_OK,
		.fds = &p->fd,
		.n_fds = 1,
		.timeout_ms = PL_CONN_REPLY_MS,
	};

	memcpy(req.name, r->info.name, sizeof(req.name));
	memcpy(req.uid, r->uid, sizeof(req.uid));
	return again ? pl_conn_call_once(r->obj.conn, &call, err) :
		       pl_conn_call(r->obj.conn, &call, err);
}

int pl_region_show_parts(struct pl_region *r)
{
	unsigned int n;
	bool is_unsaid;

	lock(r);
	n = r->n_parts;
	is_unsaid = r->is_unsaid;
	unlock(r);
	for (unsigned int i = 0; i < n; i++) {
		int rc = say(r, &r->parts[i], true, NULL);

		/* One that an agent has refused is about to be taken back. */
		if (rc < 0 && !(is_unsaid && i + 1 == n))
			return rc;
	}
	return 0;
}

void pl_region_drop_parts(struct pl_region *r)
{
	for (unsigned int i = 0; i < r->n_parts; i++)
		pl_close_fd(&r->parts[i].fd);
	r->n_parts = 0;
}

static uint32_t epoch_now(struct pl_region *r)
{
	struct pl_conn *c = r->obj.conn;
	uint32_t epoch;

	pthread_mutex_lock(&c->lock);
	epoch = c->away ? 0 : c->epoch;
	pthread_mutex_unlock(&c->lock);
	return epoch;
}

static int part_new(struct pl_region *r, size_t bytes, struct pl_err *err)
{
	struct pl_region_part p = { .offset = r->seg.end_bytes,
				    .bytes = bytes };
	int rc;

	if (r->n_parts == PL_ARRAY_SIZE(r->parts))
		return pl_err_set(err, ENOSPC, "a region grows %zu times at "
				  "most; grow it in larger steps",
				  PL_ARRAY_SIZE(r->parts));
	rc = pl_seg_part_create(&r->seg, bytes, &p.fd, err);
	if (rc < 0)
		return rc;
	lock(r);
	r->parts[r->n_parts++] = p;
	r->is_unsaid = true;
	unlock(r);
	return 0;
}

static void part_undo(struct pl_region *r)
{
	struct pl_region_part p;

	lock(r);
	p = r->parts[--r->n_parts];
	r->is_unsaid = false;
	unlock(r);
	pl_seg_part_undo(&r->seg, p.bytes);
	close(p.fd);
}

/* The last part. What an agent refuses is given back. */
static int part_say(struct pl_region *r, struct pl_err *err)
{
	uint32_t before;
	int rc;

	if (!r->obj.conn) {
		r->is_unsaid = false;
		return 0;
	}
	before = epoch_now(r);
	rc = say(r, &r->parts[r->n_parts - 1], false, err);
	if (rc == 0) {
		lock(r);
		r->is_unsaid = false;
		unlock(r);
		return 0;
	}
	/* Did another agent take it meanwhile? The next call asks. */
	if (rc != -ETIMEDOUT && before && epoch_now(r) == before)
		part_undo(r);
	return rc;
}

int pl_region_grow(struct pl_region *region, size_t size, struct pl_err *err)
{
	const size_t now = pl_region_size(region);
	int rc = 0;

	if (!region->is_owner || region->pid != getpid())
		return pl_err_set(err, EPERM, "only its owner, and no child of "
				  "fork, can make a region grow");
	if (size == now)
		return 0;
	if (size < now || size > region->max_size)
		return pl_err_set(err, EINVAL, "a region of %zu bytes, which "
				  "may grow to %zu, can't have %zu", now,
				  region->max_size, size);
	if (region->is_unsaid)
		rc = part_say(region, err);
	if (rc == 0 && size > region->seg.end_bytes) {
		rc = part_new(region, pl_seg_round(size) -
			      region->seg.end_bytes, err);
		if (rc == 0)
			rc = part_say(region, err);
	}
	if (rc < 0)
		return rc;
	/* Pairs with the acquire in pl_region_is_behind, and the agents'. */
	atomic_store_explicit(&seg_of(region)->grown, size,
			      memory_order_release);
	pl_region_resize(region);
	return 0;
}

/* --- readers -------------------------------------------------------------- */

/* What a part was asked for with. */
struct question {
	uint64_t id;
	uint32_t epoch;
	size_t offset;
};

/* With the lock. */
static bool is_same(const struct pl_region *r, const struct question *q)
{
	return !r->next.base && r->id == q->id && r->id_epoch == q->epoch &&
	       r->seg.end_bytes == q->offset;
}

/* The segment at q->offset. What has to do with the agent's absence: -EAGAIN */
static int ask_more(struct pl_region *r, struct question *q, size_t *bytes,
		    int *fd)
{
	struct pl_msg_region_more req = { .id = q->id, .offset = q->offset };
	struct pl_msg_region_more_ok ok;
	uint32_t epoch;
	const struct pl_conn_call call = {
		.request = &req,
		.type = PL_MSG_REGION_MORE,
		.reply_type = PL_MSG_REGION_MORE_OK,
		.reply = &ok,
		.reply_bytes = sizeof(ok),
		.reply_fds = fd,
		.n_reply_fds = 1,
		.timeout_ms = PL_CONN_REPLY_MS,
		.epoch = &epoch,
	};
	int rc;

	memcpy(req.uid, r->uid, sizeof(req.uid));
	rc = pl_conn_call_once(r->obj.conn, &call, NULL);
	if (rc == -ECONNRESET || rc == -ETIMEDOUT || rc == -ESTALE)
		return -EAGAIN;
	/* Another agent knows nothing of this id, or the wrong thing. */
	if (rc < 0)
		return epoch_now(r) == q->epoch ? rc : -EAGAIN;
	*bytes = (size_t)ok.bytes;
	if (epoch == q->epoch && ok.offset == q->offset)
		return 0;
	pl_close_fd(fd);
	return -EAGAIN;
}

/* One part more, unless the keeper was quicker. */
static int fetch(struct pl_region *r)
{
	struct question q;
	size_t bytes;
	bool wait;
	int fd, rc;

	lock(r);
	q = (struct question){ r->id, r->id_epoch, r->seg.end_bytes };
	wait = r->next.base || r->obj.is_lost;
	unlock(r);
	if (wait)
		return -EAGAIN;
	rc = ask_more(r, &q, &bytes, &fd);
	if (rc < 0)
		return rc;
	lock(r);
	rc = is_same(r, &q) ? pl_seg_part_open(&r->seg, fd, bytes, NULL) : 0;
	unlock(r);
	close(fd);
	return rc;
}

int pl_region_catch_up(struct pl_region *r)
{
	uint64_t want = atomic_load_explicit(&seg_of(r)->grown,
					     memory_order_acquire);

	if (!r->obj.conn || want > r->max_size)
		return -EPROTO;
	if (!pl_conn_is_ours(r->obj.conn))
		return -EPERM;
	for (int i = 0; i < PL_REGION_PARTS; i++) {
		bool mapped;
		int rc;

		lock(r);
		mapped = r->seg.end_bytes >= want;
		pl_region_resize(r);
		unlock(r);
		if (mapped)
			return pl_region_size(r) >= want ? 0 : -EAGAIN;
		rc = fetch(r);
		if (rc < 0)
			return rc;
	}
	return -EAGAIN;
}
