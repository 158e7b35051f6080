/*
 * daemonset/broker_grow.c - regions that grow
 *
 * A region's owner shows one segment more, of data only; it is checked and
 * charged as the first one was. Readers here are given it when they ask for
 * what is at the end of what they have. For readers of a region of another
 * node the remote part makes the replica grow, and each is charged for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/util.h"
#include "daemonset/broker_internal.h"
#include "shm/msg.h"
#include "shm/segment.h"

static bool same_file(int a, int b)
{
	struct stat sa, sb;

	return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 &&
	       sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

static int charge(struct pl_pod *pod, uint64_t bytes, struct pl_err *err)
{
	uint32_t one = 0;

	return pl_quota_take(pod, &one, 1, "regions", bytes, err);
}

/* --- owners --------------------------------------------------------------- */

/* The same request once more? */
static bool is_there(const struct pl_region_own *r,
		     const struct pl_msg_region_grow *m, int fd)
{
	for (unsigned int i = 0; i < r->n_parts; i++) {
		const struct pl_broker_part *p = &r->parts[i];

		if (p->offset == m->offset && p->bytes == m->bytes &&
		    same_file(p->fd, fd))
			return true;
	}
	return false;
}

static int check(struct pl_region_own *r, const struct pl_msg_region_grow *m,
		 int fd, struct pl_err *err)
{
	if (m->offset != r->end || m->bytes == 0 ||
	    m->bytes % PL_SEG_CTL_BYTES ||
	    m->bytes > pl_seg_round(r->max_size) - r->end)
		return pl_err_set(err, EPROTO, "region '%s' of %llu bytes, "
				  "which may grow to %llu, can't have %llu at "
				  "%llu", r->name, (unsigned long long)r->end,
				  (unsigned long long)r->max_size,
				  (unsigned long long)m->bytes,
				  (unsigned long long)m->offset);
	if (r->n_parts == PL_ARRAY_SIZE(r->parts))
		return pl_err_set(err, ENOSPC, "region '%s' has grown too "
				  "often; grow it in larger steps", r->name);
	return pl_seg_part_check(fd, m->bytes, err);
}

static int part_take(struct pl_region_own *r,
		     const struct pl_msg_region_grow *m, int fd,
		     struct pl_err *err)
{
	struct pl_broker *b = r->client->pod->pods->broker;
	struct pl_broker_part p = { .offset = m->offset, .bytes = m->bytes };
	int rc;

	p.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (p.fd < 0)
		return pl_err_sys(err, "cannot keep the segment");
	rc = pl_pods_fd_scarce(r->client->pod->pods, p.fd, err);
	if (rc == 0 && b->remote)
		rc = pl_remote_region_grew(b->remote, r->id, &p, err);
	if (rc < 0) {
		close(p.fd);
		return rc;
	}
	r->parts[r->n_parts++] = p;
	r->end += p.bytes;
	r->bytes += p.bytes;
	return 0;
}

static int region_grow(struct pl_client *c, const struct pl_msg_region_grow *m,
		       int fd, uint64_t *id, struct pl_err *err)
{
	struct pl_region_own *r = pl_region_find(c->pod, m->name);
	int rc;

	if (!r || r->client != c || memcmp(r->uid, m->uid, sizeof(r->uid)))
		return pl_err_set(err, ENOENT, "this connection has no region "
				  "'%s'", m->name);
	*id = r->id;
	if (is_there(r, m, fd))
		return 0;
	rc = check(r, m, fd, err);
	if (rc < 0) {
		pl_pod_complain(c->pod, "REGION_GROW refused: %s", err->msg);
		return rc;
	}
	rc = charge(c->pod, m->bytes, err);
	if (rc < 0)
		return rc;
	rc = part_take(r, m, fd, err);
	if (rc < 0)
		c->pod->usage.bytes -= m->bytes;
	return rc;
}

const char *pl_broker_on_region_grow(struct pl_client *c, const void *msg,
				     int *fds, int n_fds)
{
	struct pl_msg_region_grow m;
	struct pl_err err;
	uint64_t id = 0;
	int rc;

	(void)n_fds;
	memcpy(&m, msg, sizeof(m));
	if (!pl_msg_name_ok(m.name, sizeof(m.name)))
		return "a REGION_GROW that is not well formed";
	rc = region_grow(c, &m, fds[0], &id, &err);
	if (rc < 0)
		pl_client_send_error(c, m.h.seq, rc, err.msg);
	else
		pl_client_send_ok(c, m.h.seq, id);
	return NULL;
}

/* --- readers -------------------------------------------------------------- */

static int more_here(const struct pl_region_own *r, uint64_t offset,
		     struct pl_broker_part *out, struct pl_err *err)
{
	for (unsigned int i = 0; i < r->n_parts; i++) {
		*out = r->parts[i];
		if (out->offset == offset)
			return 0;
	}
	/* Is it the reader who makes it up, or the owner? */
	if (atomic_load_explicit(&r->ctl->grown, memory_order_acquire) > r->end)
		pl_pod_complain(r->client->pod, "region '%s' has not grown so "
				"far as its segment says", r->name);
	return pl_err_set(err, EPROTO, "the region has nothing at %llu",
			  (unsigned long long)offset);
}

static int more_there(struct pl_region_opening *o, uint64_t offset,
		      struct pl_broker_part *out, struct pl_err *err)
{
	struct pl_pod *pod = o->client->pod;
	struct pl_remote *remote = pod->pods->broker->remote;
	const uint64_t max = pl_pod_bytes_max(pod), used = pod->usage.bytes;
	int rc = remote && !o->is_pending ?
			 pl_remote_region_more(remote, o->id, offset,
					       max > used ? max - used : 0,
					       out, err) :
			 pl_err_set(err, ESTALE, "it is not open");

	if (rc == -EDQUOT) {
		pl_pod_counts_event(pod->counts, PL_POD_REFUSED_QUOTA);
		pl_pod_complain(pod, "refused: %s", err->msg);
	}
	/* It may have asked for this one before. */
	if (rc < 0 || offset + out->bytes <= o->end)
		return rc;
	rc = charge(pod, out->bytes, err);
	if (rc < 0)
		return rc;
	o->end = offset + out->bytes;
	o->bytes += out->bytes;
	return 0;
}

static int region_more(struct pl_client *c, const struct pl_msg_region_more *m,
		       struct pl_broker_part *out, struct pl_err *err)
{
	struct pl_region_opening *o;

	HASH_FIND(hh, c->pod->pods->broker->openings, &m->id, sizeof(m->id), o);
	if (!o || o->client != c || memcmp(o->uid, m->uid, sizeof(o->uid)))
		return pl_err_set(err, ESTALE, "this connection has not opened "
				  "that region");
	return o->region ? more_here(o->region, m->offset, out, err) :
			   more_there(o, m->offset, out, err);
}

const char *pl_broker_on_region_more(struct pl_client *c, const void *msg,
				     int *fds, int n_fds)
{
	struct pl_msg_region_more_ok a = { 0 };
	struct pl_msg_region_more m;
	struct pl_broker_part part;
	struct pl_err err;
	int rc;

	(void)fds;
	(void)n_fds;
	memcpy(&m, msg, sizeof(m));
	rc = region_more(c, &m, &part, &err);
	if (rc < 0) {
		pl_client_send_error(c, m.h.seq, rc, err.msg);
		return NULL;
	}
	a.h = pl_msg_head(PL_MSG_REGION_MORE_OK, sizeof(a), m.h.seq);
	a.offset = part.offset;
	a.bytes = part.bytes;
	pl_client_send(c, &a, &part.fd, 1);
	return NULL;
}
