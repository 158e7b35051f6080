/*
 * daemonset/remote_read.c - regions of other nodes that pods here read
 *
 * Theory of operation
 *
 * For each opening by a pod the owner's node is asked (REGION_FIND), because
 * policy is by reader. The answer names the region; all openings of one region
 * share one replica, which is followed by one subscription however many readers
 * there are. A new replica is empty, version 0; the owner's node fills it and
 * goes on with each publish (remote_own.c).
 *
 * A put of the counters (version, state) is the last of a version and brings a
 * notify: then whoever sleeps on the version word is woken by futex. Readers
 * map the replica read-only, which is enough for FUTEX_WAIT.
 *
 * A replica grows when a reader asks for more (pl_remote_region_more), in
 * address space that it took at first: so much as the pod that asked first may
 * have, but not more than the region may grow to.
 *
 * A replica whose last reader has gone is kept until the owner's node has said
 * REGION_END, behind its last put; a new reader meanwhile gets a new replica.
 */
#include "daemonset/remote_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/log.h"
#include "common/util.h"
#include "daemonset/numa.h"
#include "shm/msg.h"

#define AGAIN_MS 100

/* --- replicas ------------------------------------------------------------ */

static void rep_wake(const struct pl_rrep *p)
{
	struct pl_region_seg *seg = p->seg.base;

	/* The low half, see layout.h; not private, readers are processes. */
	syscall(SYS_futex, (uint32_t *)(void *)&seg->version +
			   (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__),
		FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void rep_notify(struct pl_rsink *s)
{
	struct pl_rrep *p = (struct pl_rrep *)s;

	p->paused_ns = 0;
	rep_wake(p);
}

static void rep_free(struct pl_rrep *p)
{
	HASH_DELETE(hh, p->node->reps, p);
	if (p->key)
		pl_carrier_revoke(p->node->peer, p->key);
	if (p->ev_again)
		event_free(p->ev_again);
	pl_seg_close(&p->seg);
	for (unsigned int i = 0; i < p->n_parts; i++)
		pl_close_fd(&p->parts[i].fd);
	free(p);
}

static struct pl_rrep *rep_find(struct pl_rnode *n,
				const uint8_t uid[PL_PEER_UID])
{
	struct pl_rrep *p, *tmp;

	HASH_ITER(hh, n->reps, p, tmp) {
		if (!memcmp(p->uid, uid, sizeof(p->uid)) && !p->closing)
			return p;
	}
	return NULL;
}

static void again_cb(evutil_socket_t fd, short what, void *arg);

/* A replica of no reader yet. room: bytes that it may have one day. */
static int rep_new(struct pl_rnode *n, const struct pl_peer_region_found *m,
		   uint64_t room, struct pl_rrep **out, struct pl_err *err)
{
	const uint64_t max = PL_MAX(m->size, PL_MIN(room, m->max_size));
	struct pl_rrep *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return pl_err_set(err, ENOMEM, "out of memory");
	p->sink.notify = rep_notify;
	p->node = n;
	p->no = ++n->r->last_no;
	memcpy(p->uid, m->uid, sizeof(p->uid));
	p->max_size = m->max_size;
	p->seg = PL_SEG_NONE;
	HASH_ADD(hh, n->reps, no, sizeof(p->no), p);
	p->ev_again = event_new(n->r->base, -1, 0, again_cb, p);
	/* Reserved, so that no put finds a page that is not to be had. */
	pl_numa_begin(n->r->numa, NULL);
	rc = p->ev_again ? pl_seg_region_create_max(m->size, max, &p->seg,
						    err) :
			   pl_err_set(err, ENOMEM, "out of memory");
	pl_numa_end(n->r->numa);
	if (rc == 0) {
		rc = pl_carrier_expose(n->peer, p->seg.fd, p->seg.base,
				       pl_seg_file_bytes(m->size), &p->sink,
				       &p->key);
		if (rc < 0)
			pl_err_set(err, -rc, "cannot make a replica: %s",
				   strerror(-rc));
	}
	if (rc < 0) {
		rep_free(p);
		return rc;
	}
	*out = p;
	return 0;
}

static void rep_subscribe(struct pl_rrep *p)
{
	const struct pl_region_seg *seg = p->seg.base;
	struct pl_peer_region_sub m = {
		.f = p->reads->find,
		.key = p->key,
		.have = atomic_load_explicit(&seg->version,
					     memory_order_relaxed),
		.room = p->seg.end_bytes,
		.filled = atomic_load_explicit(&seg->filled,
					       memory_order_relaxed),
	};

	m.f.h = pl_peer_head(PL_PEER_REGION_SUB, sizeof(m), p->no, 0);
	memcpy(m.uid, p->uid, sizeof(m.uid));
	/* What it began with is filled from version to version. */
	m.filled = PL_MAX(m.filled, pl_seg_round(p->seg.data_bytes));
	p->paused = false;
	pl_rnode_send(p->node, &m, sizeof(m), 0);
}

static void again_cb(evutil_socket_t fd, short what, void *arg)
{
	struct pl_rrep *p = arg;

	(void)fd;
	(void)what;
	if (p->node->is_up && !p->closing)
		rep_subscribe(p);
}

/* Its owner is yet to show it to the agent there. */
void pl_rread_on_later(struct pl_rnode *n, const void *msg)
{
	const struct pl_peer_hdr *h = msg;
	struct pl_rrep *p;

	HASH_FIND(hh, n->reps, &h->no, sizeof(h->no), p);
	if (!p || p->closing)
		return;
	p->paused = true;
	if (!p->paused_ns)
		p->paused_ns = pl_now_ns();
	pl_rtimer(p->ev_again, AGAIN_MS);
	pl_rnode_watch(n);
}

static void rep_pause(struct pl_rrep *p)
{
	event_del(p->ev_again);
	if (!p->paused)
		p->paused_ns = pl_now_ns();
	p->paused = true;
}

static void rep_unsubscribe(struct pl_rrep *p)
{
	struct pl_peer_hdr h = pl_peer_head(PL_PEER_REGION_UNSUB, sizeof(h),
					    p->no, 0);

	p->closing = true;
	pl_rnode_send(p->node, &h, sizeof(h), 0);
	/* Nobody follows for a node that is not connected. */
	if (!p->node->is_up)
		rep_free(p);
}

/* --- openings ------------------------------------------------------------ */

static void read_free(struct pl_rread *o)
{
	if (o->rep)
		DL_DELETE(o->rep->reads, o);
	else
		DL_DELETE(o->node->finds, o);
	HASH_DELETE(hh, o->node->r->reads, o);
	event_free(o->ev_timer);
	free(o);
}

static void read_fail(struct pl_rread *o, int status, const char *text)
{
	pl_remote_region_done *done = o->done;
	bool quiet = o->node->r->ending;
	void *arg = o->arg;

	read_free(o);
	if (!quiet)
		done(arg, status, text, NULL);
}

static void read_unreachable(struct pl_rread *o)
{
	int reason = o->node->reason ? o->node->reason : -ETIMEDOUT;
	struct pl_err err;

	pl_err_set(&err, EHOSTUNREACH, "the agent of node %s %s: %s",
		   o->node->name, o->asked ? "does not answer" :
					     "can't be reached",
		   strerror(-reason));
	read_fail(o, -EHOSTUNREACH, err.msg);
}

static void timer_cb(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	read_unreachable(arg);
}

/* most_ms, but not longer than the pod wants to wait. */
static void limit(struct pl_rread *o, int most_ms)
{
	const uint64_t now = pl_now_ns();
	uint64_t left = o->give_up_ns > now ? (o->give_up_ns - now) / 1000000u :
					      0;

	pl_rtimer(o->ev_timer, (int)PL_MIN((uint64_t)most_ms, left));
}

static void ask(struct pl_rread *o)
{
	o->asked = true;
	pl_rnode_send(o->node, &o->find, sizeof(o->find), 0);
	limit(o, PL_REMOTE_FIND_MS);
}

/* The node went away; pl_rread_up asks again when it comes back. */
static void ask_later(struct pl_rread *o)
{
	o->asked = false;
	limit(o, PL_REMOTE_AGAIN_MS);
}

static struct pl_rread *read_new(struct pl_rnode *n,
				 const struct pl_remote_open *in)
{
	struct pl_rread *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->node = n;
	o->id = in->id;
	o->no = ++n->r->last_no;
	o->max_bytes = in->max_bytes;
	o->room_bytes = in->room_bytes;
	memcpy(o->uid, in->uid, sizeof(o->uid));
	o->ev_timer = event_new(n->r->base, -1, 0, timer_cb, o);
	if (!o->ev_timer) {
		free(o);
		return NULL;
	}
	HASH_ADD(hh, n->r->reads, id, sizeof(o->id), o);
	DL_APPEND(n->finds, o);
	return o;
}

static int find_make(struct pl_peer_region_find *m, uint64_t no,
		     const struct pl_remote_open *in, struct pl_err *err)
{
	m->h = pl_peer_head(PL_PEER_REGION_FIND, sizeof(*m), no, 0);
	pl_peer_addr_make(&m->owner, &in->owner);
	pl_peer_addr_make(&m->reader, &in->reader);
	if (pl_peer_name_make(m->ns, sizeof(m->ns), in->reader_ns) < 0 ||
	    pl_peer_name_make(m->name, sizeof(m->name), in->name) < 0)
		return pl_err_set(err, EINVAL, "a name is too long");
	return 0;
}

int pl_remote_region_open(struct pl_remote *r, const struct pl_remote_open *in,
			  pl_remote_region_done *done, void *arg,
			  struct pl_err *err)
{
	struct pl_rnode *n;
	struct pl_rread *o;
	int rc = pl_rnode_reach(r, in->node->name, &n, err);

	if (rc < 0)
		return rc;
	if (pl_uid_is_set(in->uid) && !n->is_up)
		return pl_err_set(err, EAGAIN, "node %s is not connected yet",
				  n->name);
	o = read_new(n, in);
	if (!o)
		return pl_err_set(err, ENOMEM, "out of memory");
	rc = find_make(&o->find, o->no, in, err);
	if (rc < 0) {
		read_free(o);
		return rc;
	}
	o->done = done;
	o->arg = arg;
	o->give_up_ns = in->timeout_ms < 0 ? UINT64_MAX : pl_now_ns() +
			(uint64_t)in->timeout_ms * 1000000u;
	if (n->is_up)
		ask(o);
	else if (n->instance)
		ask_later(o);
	else
		limit(o, PL_REMOTE_REACH_MS);
	return 0;
}

void pl_remote_region_put(struct pl_remote *r, uint64_t id)
{
	struct pl_rread *o;
	struct pl_rrep *p;

	HASH_FIND(hh, r->reads, &id, sizeof(id), o);
	if (!o)
		return;
	p = o->rep;
	read_free(o);
	if (p && !p->reads)
		rep_unsubscribe(p);
}

static struct pl_rread *read_find(struct pl_rnode *n, uint64_t no)
{
	struct pl_rread *o;

	DL_FOREACH(n->finds, o) {
		if (o->no == no && o->asked)
			return o;
	}
	return NULL;
}

static int attach(struct pl_rread *o, const struct pl_peer_region_found *m,
		  struct pl_err *err)
{
	struct pl_rnode *n = o->node;
	struct pl_rrep *p = rep_find(n, m->uid);
	const uint64_t size = p ? p->seg.data_bytes : m->size;
	bool fresh = !p;
	int rc = 0;

	if (pl_uid_is_set(o->uid) && memcmp(o->uid, m->uid, sizeof(o->uid)))
		return pl_err_set(err, ESTALE, "it was created anew");
	if (!m->size || m->size > m->max_size || !pl_uid_is_set(m->uid) ||
	    (p && (p->seg.data_bytes > m->size || p->max_size != m->max_size)))
		return pl_err_set(err, EPROTO, "node %s has the region in a "
				  "way that is not understood", n->name);
	if (size > o->max_bytes)
		return pl_err_set(err, EDQUOT, "the region has %llu bytes, "
				  "this pod may have %llu more",
				  (unsigned long long)size,
				  (unsigned long long)o->max_bytes);
	if (fresh)
		rc = rep_new(n, m, o->room_bytes, &p, err);
	if (rc < 0)
		return rc;
	event_del(o->ev_timer);
	DL_DELETE(n->finds, o);
	o->rep = p;
	DL_APPEND(p->reads, o);
	if (fresh)
		rep_subscribe(p);
	return 0;
}

void pl_rread_on_found(struct pl_rnode *n, const void *msg)
{
	const struct pl_peer_region_found *m = msg;
	struct pl_rread *o = read_find(n, m->h.no);
	struct pl_remote_region_up up = { .uid = m->uid,
					  .max_size = m->max_size,
					  .path = pl_carrier_path(n->peer) };
	struct pl_err err;
	int rc;

	if (!o)
		return;
	rc = attach(o, m, &err);
	if (rc < 0) {
		read_fail(o, rc, err.msg);
		return;
	}
	up.size = o->rep->seg.data_bytes;
	/* The pod may close it in done; the descriptor must outlive that. */
	up.replica_fd = fcntl(o->rep->seg.fd, F_DUPFD_CLOEXEC, 3);
	if (up.replica_fd < 0) {
		struct pl_rrep *p = o->rep;

		read_fail(o, -EMFILE, "the agent is out of descriptors");
		if (!p->reads)
			rep_unsubscribe(p);
		return;
	}
	o->done(o->arg, 0, NULL, &up);
	close(up.replica_fd);
}

void pl_rread_on_refuse(struct pl_rnode *n, const void *msg)
{
	const struct pl_peer_refuse *m = msg;
	struct pl_rread *o = read_find(n, m->h.no);
	char text[PL_PEER_TEXT];

	if (!o)
		return;
	pl_peer_text(text, m->text);
	read_fail(o, m->code > 0 && m->code < 4096 ? -m->code : -EPROTO, text);
}

/* --- growing -------------------------------------------------------------- */

/* How many bytes are to come behind what there is; 0: none, as is known. */
static uint64_t rep_lacks(const struct pl_rrep *p)
{
	const struct pl_region_seg *seg = p->seg.base;
	uint64_t grown = atomic_load_explicit(&seg->grown,
					      memory_order_acquire);

	return grown > p->seg.end_bytes && grown <= p->max_size ?
		       pl_seg_round(grown) - p->seg.end_bytes : 0;
}

static int rep_grow(struct pl_rrep *p, uint64_t bytes, struct pl_err *err)
{
	struct pl_peer_region_more m = {
		.h = pl_peer_head(PL_PEER_REGION_MORE, sizeof(m), p->no, 0),
	};
	struct pl_broker_part part = { .offset = p->seg.end_bytes,
				       .bytes = bytes };
	int rc;

	if (p->n_parts == PL_ARRAY_SIZE(p->parts) ||
	    bytes > pl_seg_room(&p->seg) - p->seg.end_bytes)
		return pl_err_set(err, EDQUOT, "the region has grown more than "
				  "the pod that opened it first here may have");
	pl_numa_begin(p->node->r->numa, NULL);
	rc = pl_seg_part_create(&p->seg, bytes, &part.fd, err);
	pl_numa_end(p->node->r->numa);
	if (rc < 0)
		return rc;
	rc = pl_carrier_extend(p->node->peer, p->key, part.fd,
			       PL_SEG_CTL_BYTES + p->seg.end_bytes);
	if (rc < 0) {
		pl_seg_part_undo(&p->seg, bytes);
		close(part.fd);
		return pl_err_set(err, -rc, "cannot make the replica larger: "
				  "%s", strerror(-rc));
	}
	p->parts[p->n_parts++] = part;
	m.room = p->seg.end_bytes;
	/* To a node that is not there REGION_SUB will say it. */
	if (!p->paused)
		pl_rnode_send(p->node, &m, sizeof(m), 0);
	return 0;
}

int pl_remote_region_more(struct pl_remote *r, uint64_t id, uint64_t offset,
			  uint64_t max_bytes, struct pl_broker_part *out,
			  struct pl_err *err)
{
	struct pl_rread *o;
	struct pl_rrep *p;
	uint64_t bytes;
	int rc;

	HASH_FIND(hh, r->reads, &id, sizeof(id), o);
	p = o ? o->rep : NULL;
	if (!p)
		return pl_err_set(err, ESTALE, "the region has ended");
	if (offset == p->seg.end_bytes) {
		bytes = rep_lacks(p);
		if (!bytes)
			return pl_err_set(err, EAGAIN, "the region has not "
					  "grown");
		if (bytes > max_bytes)
			return pl_err_set(err, EDQUOT, "the region has grown "
					  "by %llu bytes, this pod may have "
					  "%llu more",
					  (unsigned long long)bytes,
					  (unsigned long long)max_bytes);
		rc = rep_grow(p, bytes, err);
		if (rc < 0)
			return rc;
	}
	for (unsigned int i = 0; i < p->n_parts; i++) {
		*out = p->parts[i];
		if (out->offset == offset)
			return 0;
	}
	return pl_err_set(err, EPROTO, "the region has no part that begins at "
			  "%llu", (unsigned long long)offset);
}

/* --- ends ---------------------------------------------------------------- */

/* What readers have mapped stays; they are told that no more will come. */
static void rep_end(struct pl_rrep *p, bool died)
{
	struct pl_remote *r = p->node->r;
	struct pl_region_seg *seg = p->seg.base;
	struct pl_rread *o;

	/* An agent that ends leaves it to the next one. */
	if (!r->ending &&
	    atomic_load_explicit(&seg->state, memory_order_relaxed) ==
		    PL_STATE_OPEN)
		/* Pairs with the acquire of pl_region_wait. */
		atomic_store_explicit(&seg->state, died ? PL_STATE_DEAD :
						   PL_STATE_CLOSED,
				      memory_order_release);
	rep_wake(p);
	while ((o = p->reads)) {
		uint64_t id = o->id;

		read_free(o);
		if (!r->ending)
			pl_broker_region_ended(r->broker, id);
	}
	rep_free(p);
}

void pl_rread_on_end(struct pl_rnode *n, const void *msg)
{
	const struct pl_peer_region_end *m = msg;
	struct pl_rrep *p;

	HASH_FIND(hh, n->reps, &m->h.no, sizeof(m->h.no), p);
	if (p)
		rep_end(p, m->died);
}

void pl_rread_up(struct pl_rnode *n)
{
	struct pl_rrep *p, *tmp;
	struct pl_rread *o;

	HASH_ITER(hh, n->reps, p, tmp)
		rep_subscribe(p);
	DL_FOREACH(n->finds, o)
		ask(o);
}

void pl_rread_down(struct pl_rnode *n)
{
	struct pl_rrep *p, *tmp;
	struct pl_rread *o, *next;

	/* The one that shows what a pod had looks again by itself. */
	DL_FOREACH_SAFE(n->finds, o, next) {
		if (n->instance && !pl_uid_is_set(o->uid))
			ask_later(o);
		else
			read_unreachable(o);
	}
	HASH_ITER(hh, n->reps, p, tmp) {
		if (p->closing)
			rep_free(p);
		else
			rep_pause(p);
	}
}

uint64_t pl_rread_expire(struct pl_rnode *n, uint64_t now)
{
	uint64_t least = UINT64_MAX;
	struct pl_rrep *p, *tmp;

	HASH_ITER(hh, n->reps, p, tmp) {
		uint64_t since = now - p->paused_ns;

		if (!p->paused || p->closing)
			continue;
		if (since >= n->r->resume_ns)
			rep_end(p, true);
		else
			least = PL_MIN(least, n->r->resume_ns - since);
	}
	return least;
}

void pl_rread_lost(struct pl_rnode *n)
{
	struct pl_rrep *p, *tmp;

	while (n->finds)
		read_unreachable(n->finds);
	HASH_ITER(hh, n->reps, p, tmp)
		rep_end(p, true);
}
