/*
 * daemonset/remote_own.c - regions of this node that other nodes follow
 *
 * Theory of operation
 *
 * A subscription (pl_rsub) is one node that has a replica of a region. It is
 * led from version to version by jobs: a job is a set of ranges and the version
 * that the replica has when they are there. The ranges are put, then the
 * counters (version, state) with notify, then the next job begins at once: a
 * region that is published in small ranges streams.
 *
 * A job takes from the publish log as many versions as make up JOB_BYTES, with
 * ranges merged. When what is behind exceeds the region's size, as ranges were
 * published again and again, one job takes all of it. The log is a ring that
 * the owner overwrites: an entry is copied, and it counts only if the version,
 * read after it (acquire, pairs with the owner's release of entries and
 * version), says that it had not been overwritten. A subscription that is
 * behind by PL_REGION_LOG or more gets everything.
 *
 * A region that has grown is more than a replica has room for until somebody
 * there wants more: ranges are clipped to the room. Then the room is more than
 * what is filled, and the next job is all of what is between. The owner says
 * how far it has grown before it publishes, and has shown the segments before
 * that; one that says more than it has shown has broken a rule.
 *
 * Bytes may be newer than the version that they are put with: the owner's
 * contract is with its readers (see pl_region_publish), not with us.
 *
 * The agent sleeps by the watch word, one for all subscriptions of a region: a
 * fresh number, fence, look again; the owner rings the bell once per number.
 *
 * A subscription ends with its connection; the other side subscribes again,
 * from the version that it has. When the region has ended, what was published
 * is still sent (we have our own mapping), then the final state, then
 * REGION_END.
 */
#include "daemonset/remote_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"
#include "daemonset/guard.h"
#include "shm/fence.h"

#define JOB_BYTES (1u << 20)
#define RETRY_MS 5
#define ROUNDS 64

struct counters_line {
	uint64_t grown, filled, version, state;
};
_Static_assert(sizeof(struct counters_line) == PL_REGION_COUNTERS_BYTES,
	       "one put of words");

static void sub_pump(struct pl_rsub *s);

/* --- subscriptions and regions ------------------------------------------- */

static void own_put(struct pl_rown *own)
{
	if (!own->subs)
		pl_rown_free(own);
}

void pl_rown_free(struct pl_rown *own)
{
	if (!own->gone)
		HASH_DELETE(hh, own->r->owns, own);
	if (own->watch)
		atomic_store_explicit(&own->watch->wait, 0,
				      memory_order_relaxed);
	if (own->ev_bell)
		event_free(own->ev_bell);
	pl_seg_close(&own->seg);
	for (unsigned int i = 0; i < own->n_parts; i++)
		pl_close_fd(&own->parts[i].fd);
	free(own);
}

static void sub_free(struct pl_rsub *s)
{
	HASH_DELETE(hh, s->node->subs, s);
	DL_DELETE(s->own->subs, s);
	for (unsigned int i = 0; i < s->n_sources; i++)
		pl_carrier_source_end(s->node->peer, s->source[i]);
	if (s->ev_pump)
		event_free(s->ev_pump);
	free(s);
}

static void end_send(struct pl_rnode *n, uint64_t no, bool died, uint64_t key)
{
	struct pl_peer_region_end m = {
		.h = pl_peer_head(PL_PEER_REGION_END, sizeof(m), no, 0),
		.died = died,
	};

	pl_rnode_send(n, &m, sizeof(m), key);
}

/* Its owner may show it in a moment. */
static void later_send(struct pl_rnode *n, uint64_t no)
{
	struct pl_peer_hdr h = pl_peer_head(PL_PEER_REGION_LATER, sizeof(h),
					    no, 0);

	pl_rnode_send(n, &h, sizeof(h), 0);
}

/* Puts that are queued are dropped; may free the region. */
static void sub_drop(struct pl_rsub *s)
{
	struct pl_rown *own = s->own;

	sub_free(s);
	own_put(own);
}

/* --- jobs ---------------------------------------------------------------- */

static uint64_t version_now(const struct pl_rsub *s)
{
	const struct pl_region_seg *seg = s->own->seg.base;

	/* Pairs with the owner's release in pl_region_publish. */
	return atomic_load_explicit(&seg->version, memory_order_acquire);
}

/*
 * Bytes of data that the owner has published from, or could have; for after
 * version was read. 0: it says that it has what it did not show.
 */
static uint64_t size_now(const struct pl_rsub *s)
{
	const struct pl_seg *seg = &s->own->seg;
	const struct pl_region_seg *h = seg->base;
	/* Pairs with the release in pl_region_grow. */
	uint64_t grown = atomic_load_explicit(&h->grown, memory_order_acquire);

	if (grown > seg->end_bytes || grown > s->own->max_size)
		return 0;
	return PL_MAX(grown, seg->data_bytes);
}

/* The entry of version v + 1; not checked against the log's overrun. */
static struct pl_rrange entry(const struct pl_rsub *s, uint64_t v)
{
	const struct pl_region_seg *seg = s->own->seg.base;
	const struct pl_region_range *e = &seg->log[v % PL_REGION_LOG];

	return (struct pl_rrange){
		atomic_load_explicit(&e->offset, memory_order_acquire),
		atomic_load_explicit(&e->len, memory_order_acquire),
	};
}

static bool in_bounds(uint64_t size, const struct pl_rrange *e)
{
	return e->off <= size && e->len <= size - e->off;
}

/* Is what is behind more than the region has? */
static bool repeats(const struct pl_rsub *s, uint64_t now)
{
	uint64_t sum = 0;

	for (uint64_t v = s->version; v < now; v++) {
		struct pl_rrange e = entry(s, v);

		if (in_bounds(s->job_size, &e))
			sum += e.len;
		if (sum > s->job_size)
			return true;
	}
	return false;
}

static void job_everything(struct pl_rsub *s, uint64_t now)
{
	s->n_job = pl_rrange_add(s->job, 0, 0, s->job_size);
	s->job_version = now;
}

/* What the replica has grown by, whatever was published of it. */
static void job_fill(struct pl_rsub *s)
{
	s->n_job = pl_rrange_add(s->job, 0, s->filled, s->room - s->filled);
	s->job_version = s->version;
	s->job_filled = s->room;
}

/* Versions from the log, all of them or about JOB_BYTES. */
static bool job_collect(struct pl_rsub *s, uint64_t now)
{
	bool all = now - s->version > 1 && repeats(s, now);
	bool good = true;
	uint64_t v;

	s->n_job = 0;
	for (v = s->version; v < now; v++) {
		struct pl_rrange e = entry(s, v);

		if (!in_bounds(s->job_size, &e)) {
			good = false;
			break;
		}
		s->n_job = pl_rrange_add(s->job, s->n_job, e.off, e.len);
		if (!all && pl_rrange_bytes(s->job, s->n_job) >= JOB_BYTES) {
			v++;
			break;
		}
	}
	s->job_version = v;
	return good;
}

/* Returns whether there is a job; s->broken when the owner broke a rule. */
static bool job_make(struct pl_rsub *s)
{
	uint64_t now = version_now(s), after;
	bool good = true;

	s->job_size = size_now(s);
	s->job_filled = s->filled;
	s->at_job = 0;
	if (!s->job_size) {
		s->broken = true;
		return false;
	}
	if (s->filled < s->room) {
		job_fill(s);
		s->has_job = true;
		return true;
	}
	if (now == s->version)
		return false;
	if (now - s->version < PL_REGION_LOG)
		good = job_collect(s, now);
	/* After the entries, which were loaded with acquire. */
	after = version_now(s);
	if (now < s->version || after < now) {
		s->broken = true;
		return false;
	}
	if (after - s->version >= PL_REGION_LOG) {
		s->job_size = PL_MAX(s->job_size, size_now(s));
		job_everything(s, after);
	} else if (!good) {
		s->broken = true;
	}
	s->has_job = !s->broken;
	return s->has_job;
}

/* --- putting ------------------------------------------------------------- */

static void put_done(void *user, int status)
{
	struct pl_rsub *s = user;

	s->n_puts--;
	if (s->ended && s->n_puts == 0)
		pl_rtimer(s->ev_pump, 0);
	if (status < 0 || !s->blocked ||
	    s->n_puts > PL_REMOTE_SUB_PUTS / 2)
		return;
	s->blocked = false;
	pl_rtimer(s->ev_pump, 0);
}

static int put(struct pl_rsub *s, uint64_t source, uint64_t off,
	       const void *data, size_t len, unsigned int flags)
{
	int rc;

	if (s->n_puts >= PL_REMOTE_SUB_PUTS) {
		s->blocked = true;
		return -EAGAIN;
	}
	rc = pl_carrier_put(s->node->peer, source, s->key, off, data, len,
			    flags, put_done, s);
	if (rc == 0) {
		s->n_puts++;
		return 0;
	}
	s->blocked = true;
	if (s->n_puts == 0)
		pl_rtimer(s->ev_pump, RETRY_MS);
	return rc;
}

static int counters_put(struct pl_rsub *s, uint64_t version, uint64_t state)
{
	struct counters_line line = { s->job_size, s->job_filled, version,
				      state };

	return put(s, s->source[0], PL_REGION_COUNTERS_OFF, &line, sizeof(line),
		   PL_PUT_NOTIFY);
}

/* Bytes from here on that are of one segment, and its source. */
static uint64_t stretch(const struct pl_rsub *s, uint64_t off, uint64_t *source)
{
	const struct pl_rown *own = s->own;
	unsigned int i = own->n_parts;

	while (i > 0 && own->parts[i - 1].offset > off)
		i--;
	*source = s->source[i];
	return (i < own->n_parts ? own->parts[i].offset : own->seg.end_bytes) -
	       off;
}

/* One put of a range, which becomes shorter. */
static int range_put(struct pl_rsub *s, struct pl_rrange *e)
{
	uint64_t source, n = stretch(s, e->off, &source);
	int rc;

	n = PL_MIN(n, PL_MIN(e->len, (uint64_t)PL_REMOTE_CHUNK));
	n = PL_MIN(n, s->room - e->off);
	rc = put(s, source, PL_SEG_CTL_BYTES + e->off,
		 (char *)pl_seg_data(&s->own->seg) + e->off, n, 0);
	if (rc < 0)
		return rc;
	e->off += n;
	e->len -= n;
	return 0;
}

/* 0 when the job is done, -errno when it has to wait. */
static int job_run(struct pl_rsub *s)
{
	int rc;

	while (s->at_job < s->n_job) {
		struct pl_rrange *e = &s->job[s->at_job];

		if (e->len == 0 || e->off >= s->room) {
			s->at_job++;
			continue;
		}
		rc = range_put(s, e);
		if (rc < 0)
			return rc;
	}
	rc = counters_put(s, s->job_version, PL_STATE_OPEN);
	if (rc < 0)
		return rc;
	s->version = s->job_version;
	s->filled = s->job_filled;
	s->has_job = false;
	return 0;
}

/* --- sleeping ------------------------------------------------------------ */

/* Returns whether there is still nothing to do. */
static bool arm(struct pl_rsub *s)
{
	struct pl_rown *own = s->own;

	if (!own->watch)
		return version_now(s) == s->version;
	if (!own->armed) {
		if (++own->wait_no == 0)
			own->wait_no = 1;
		own->armed = true;
		atomic_store_explicit(&own->watch->wait, own->wait_no,
				      memory_order_relaxed);
	}
	/* Dekker, pairs with the owner's fence before it looks at wait. */
	pl_fence();
	return version_now(s) == s->version;
}

/* All of a region that is over has been put; s goes when that is sent. */
static void finish(struct pl_rsub *s)
{
	bool died = s->own->died || s->broken;

	if (s->broken)
		pl_broker_broke(s->node->r->broker, s->own->id,
				"its publish log, or its size, is wrong");
	if (counters_put(s, s->version, died ? PL_STATE_DEAD :
					       PL_STATE_CLOSED) < 0)
		return;
	end_send(s->node, s->no, died, s->key);
	s->ended = true;
}

static void sub_pump(struct pl_rsub *s)
{
	if (s->ended) {
		if (s->n_puts == 0)
			sub_drop(s);
		return;
	}
	for (int i = 0; i < ROUNDS; i++) {
		if (s->blocked)
			return;
		if (s->has_job || job_make(s)) {
			if (job_run(s) < 0)
				return;
			continue;
		}
		if (s->broken || s->own->gone) {
			finish(s);
			return;
		}
		if (arm(s))
			return;
	}
	/* An owner that publishes without end: others' turn. */
	pl_rtimer(s->ev_pump, 0);
}

static void pump_cb(evutil_socket_t fd, short what, void *arg)
{
	struct pl_rsub *s = arg;

	(void)fd;
	(void)what;
	s->blocked = false;
	sub_pump(s);
}

static void bell_cb(evutil_socket_t fd, short what, void *arg)
{
	struct pl_rown *own = arg;
	struct pl_rsub *s, *tmp;
	ssize_t n = pl_guard_drain(fd);

	(void)what;
	if (n == -EAGAIN || n == -EINTR)
		return;
	/* The owner hung up: the broker says what that means. */
	if (n <= 0)
		event_del(own->ev_bell);
	own->armed = false;
	/* Pumping one may free it, and the region with the last one. */
	DL_FOREACH_SAFE(own->subs, s, tmp)
		sub_pump(s);
}

/* --- messages ------------------------------------------------------------ */

static int own_map(struct pl_rown *own, const struct pl_broker_part *part,
		   struct pl_err *err)
{
	struct pl_broker_part p = *part;
	int rc;

	p.fd = fcntl(part->fd, F_DUPFD_CLOEXEC, 3);
	if (p.fd < 0)
		return pl_err_sys(err, "cannot keep a segment");
	rc = pl_seg_part_open(&own->seg, p.fd, p.bytes, err);
	if (rc < 0) {
		close(p.fd);
		return rc;
	}
	own->parts[own->n_parts++] = p;
	return 0;
}

static int own_fill(struct pl_rown *own, const struct pl_broker_region *b,
		    struct pl_err *err)
{
	int fd = fcntl(b->fd, F_DUPFD_CLOEXEC, 3), rc;

	if (fd < 0)
		return pl_err_sys(err, "cannot keep a segment");
	rc = pl_seg_region_open_max(fd, b->size, b->max_size, &own->seg, err);
	for (unsigned int i = 0; rc == 0 && i < b->n_parts; i++)
		rc = own_map(own, &b->parts[i], err);
	if (rc < 0)
		return rc;
	own->ev_bell = event_new(own->r->base, b->bell_fd, EV_READ | EV_PERSIST,
				 bell_cb, own);
	if (!own->ev_bell || event_add(own->ev_bell, NULL) < 0)
		return pl_err_set(err, ENOMEM, "out of memory");
	return 0;
}

static int own_get(struct pl_remote *r, const struct pl_broker_region *b,
		   struct pl_rown **out, struct pl_err *err)
{
	struct pl_rown *own;
	int rc;

	HASH_FIND(hh, r->owns, &b->id, sizeof(b->id), own);
	*out = own;
	if (own)
		return 0;
	own = calloc(1, sizeof(*own));
	if (!own)
		return pl_err_set(err, ENOMEM, "out of memory");
	own->r = r;
	own->id = b->id;
	own->max_size = b->max_size;
	own->seg = PL_SEG_NONE;
	own->watch = b->watch;
	HASH_ADD(hh, r->owns, id, sizeof(own->id), own);
	rc = own_fill(own, b, err);
	if (rc < 0) {
		pl_rown_free(own);
		return rc;
	}
	*out = own;
	return 0;
}

static int find_take(struct pl_rnode *n, const struct pl_peer_region_find *m,
		     struct pl_broker_region *b, struct pl_err *err)
{
	struct pl_addr owner, reader;

	if (pl_peer_addr_take(&m->owner, &owner) < 0 ||
	    (m->reader.family && pl_peer_addr_take(&m->reader, &reader) < 0) ||
	    !pl_peer_name_ok(m->ns, sizeof(m->ns), true) ||
	    !pl_peer_name_ok(m->name, sizeof(m->name), false))
		return pl_err_set(err, EPROTO, "a request for a region that is "
				  "not understood");
	if (m->reader.family && pl_rnode_speaks_for(n, &reader, err) < 0)
		return -err->code;
	return pl_broker_region_lookup(n->r->broker, &owner, m->name, m->ns, b,
				       err);
}

void pl_rown_on_find(struct pl_rnode *n, const void *msg)
{
	const struct pl_peer_region_find *m = msg;
	struct pl_peer_region_found a = {
		.h = pl_peer_head(PL_PEER_REGION_FOUND, sizeof(a), m->h.no, 0),
	};
	struct pl_broker_region b;
	struct pl_err err;
	int rc = find_take(n, m, &b, &err);

	if (rc == -EACCES)
		pl_rnode_complain(n, &m->reader, err.msg);
	if (rc < 0) {
		pl_peer_refuse_send(n, PL_PEER_REGION_REFUSE, m->h.no, rc,
				    err.msg);
		return;
	}
	memcpy(a.uid, b.uid, sizeof(a.uid));
	a.size = b.size_now;
	a.max_size = b.max_size;
	pl_rnode_send(n, &a, sizeof(a), 0);
}

/* A segment's memory may be put from: the first one's, or part no. i - 1. */
static int source_add(struct pl_rsub *s)
{
	const struct pl_rown *own = s->own;
	const unsigned int i = s->n_sources;
	const struct pl_broker_part *p = i ? &own->parts[i - 1] : NULL;
	const char *data = pl_seg_data(&own->seg);
	int rc = p ? pl_carrier_source(s->node->peer, p->fd, data + p->offset,
				       p->bytes, &s->source[i]) :
		     pl_carrier_source(s->node->peer, own->seg.fd,
				       own->seg.base,
				       pl_seg_file_bytes(own->seg.data_bytes),
				       &s->source[i]);

	s->n_sources += rc == 0;
	return rc;
}

static int sub_new(struct pl_rnode *n, struct pl_rown *own,
		   const struct pl_peer_region_sub *m, struct pl_rsub **out,
		   struct pl_err *err)
{
	struct pl_rsub *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return pl_err_set(err, ENOMEM, "out of memory");
	s->node = n;
	s->own = own;
	s->no = m->f.h.no;
	s->key = m->key;
	s->version = m->have;
	/* There is nothing to be put behind what there is. */
	s->room = PL_MIN(m->room, own->seg.end_bytes);
	s->filled = PL_MIN(m->filled, s->room);
	HASH_ADD(hh, n->subs, no, sizeof(s->no), s);
	DL_APPEND(own->subs, s);
	s->ev_pump = event_new(n->r->base, -1, 0, pump_cb, s);
	rc = s->ev_pump ? 0 : -ENOMEM;
	for (unsigned int i = 0; rc == 0 && i <= own->n_parts; i++)
		rc = source_add(s);
	if (rc < 0) {
		sub_free(s);
		return pl_err_set(err, -rc, "cannot follow a region: %s",
				  strerror(-rc));
	}
	*out = s;
	return 0;
}

void pl_rown_on_sub(struct pl_rnode *n, const void *msg)
{
	struct pl_peer_region_sub m;
	struct pl_broker_region b;
	struct pl_rown *own = NULL;
	struct pl_rsub *s;
	struct pl_err err;
	int rc;

	memcpy(&m, msg, sizeof(m));
	HASH_FIND(hh, n->subs, &m.f.h.no, sizeof(m.f.h.no), s);
	if (s) {
		pl_warn("node=%s: a REGION_SUB out of order", n->name);
		return;
	}
	rc = find_take(n, &m.f, &b, &err);
	if (rc == 0 && (memcmp(b.uid, m.uid, sizeof(m.uid)) || !m.key))
		rc = pl_err_set(&err, ESTALE, "it was created anew");
	if (rc == 0)
		rc = own_get(n->r, &b, &own, &err);
	if (rc == 0)
		rc = sub_new(n, own, &m, &s, &err);
	if (rc == 0) {
		sub_pump(s);
		return;
	}
	if (rc == -EAGAIN) {
		later_send(n, m.f.h.no);
		return;
	}
	pl_info("node=%s: does not follow a region any more: %s", n->name,
		err.msg);
	end_send(n, m.f.h.no, true, 0);
	if (own)
		own_put(own);
}

void pl_rown_on_unsub(struct pl_rnode *n, const void *msg)
{
	const struct pl_peer_hdr *h = msg;
	struct pl_rsub *s;

	HASH_FIND(hh, n->subs, &h->no, sizeof(h->no), s);
	if (!s)
		return;
	if (!s->ended)
		end_send(n, s->no, false, s->key);
	sub_drop(s);
}

/* A replica has grown. Twice the same is no harm. */
void pl_rown_on_more(struct pl_rnode *n, const void *msg)
{
	const struct pl_peer_region_more *m = msg;
	struct pl_rsub *s;

	HASH_FIND(hh, n->subs, &m->h.no, sizeof(m->h.no), s);
	if (!s || s->ended || m->room > s->own->seg.end_bytes ||
	    m->room <= s->room)
		return;
	s->room = m->room;
	sub_pump(s);
}

int pl_remote_region_grew(struct pl_remote *r, uint64_t id,
			  const struct pl_broker_part *part,
			  struct pl_err *err)
{
	struct pl_rown *own;
	struct pl_rsub *s;
	int rc;

	HASH_FIND(hh, r->owns, &id, sizeof(id), own);
	if (!own)
		return 0;
	rc = own_map(own, part, err);
	if (rc < 0)
		return rc;
	/* Who can't follow any more is told so when it is pumped. */
	DL_FOREACH(own->subs, s)
		if (source_add(s) < 0)
			s->broken = true;
	return 0;
}

void pl_rown_down(struct pl_rnode *n)
{
	struct pl_rsub *s, *tmp;

	HASH_ITER(hh, n->subs, s, tmp)
		sub_drop(s);
}

void pl_remote_region_gone(struct pl_remote *r, uint64_t id, bool died)
{
	struct pl_rown *own;
	struct pl_rsub *s, *tmp;

	HASH_FIND(hh, r->owns, &id, sizeof(id), own);
	if (!own)
		return;
	HASH_DELETE(hh, r->owns, own);
	own->gone = true;
	own->died = died;
	own->watch = NULL;
	/* The bell is closed after this call. */
	event_free(own->ev_bell);
	own->ev_bell = NULL;
	DL_FOREACH_SAFE(own->subs, s, tmp)
		sub_pump(s);
}
