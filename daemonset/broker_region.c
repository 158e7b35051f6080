/*
 * daemonset/broker_region.c - regions: created, opened, ended
 *
 * The owner's descriptor is kept as long as the region lives, to be given to
 * readers; the watch page and our end of the bell are the remote part's to
 * use. Readers of a region that ends are told by REGION_END; what they have
 * mapped stays readable.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "common/util.h"
#include "daemonset/broker_internal.h"
#include "daemonset/guard.h"
#include "daemonset/seg_check.h"
#include "shm/msg.h"
#include "shm/podlane.h"
#include "shm/segment.h"

/* --- own regions ---------------------------------------------------------- */

struct pl_region_own *pl_region_find(struct pl_pod *pod, const char *name)
{
	struct pl_region_own *r;

	HASH_FIND_STR(pod->regions, name, r);
	return r;
}

static void region_free(struct pl_region_own *r)
{
	struct pl_pod *pod = r->client->pod;

	pod->usage.regions--;
	pod->usage.bytes -= r->bytes;
	HASH_DELETE(hh, pod->regions, r);
	LIST_REMOVE(r, of_client);
	pl_seg_close(&r->watch);
	pl_seg_put_region(r->ctl);
	pl_close_fd(&r->fd);
	for (unsigned int i = 0; i < r->n_parts; i++)
		pl_close_fd(&r->parts[i].fd);
	pl_guard_close(&r->bell_fd);
	free(r);
}

uint64_t pl_region_size_now(const struct pl_region_own *r)
{
	/* Pairs with the release in pl_region_grow. */
	uint64_t grown = atomic_load_explicit(&r->ctl->grown,
					      memory_order_acquire);

	return PL_MAX(r->size, PL_MIN(grown, PL_MIN(r->end, r->max_size)));
}

static void tell_end(struct pl_client *c, uint64_t id)
{
	struct pl_msg_id m = { .h = pl_msg_head(PL_MSG_REGION_END, sizeof(m),
						0),
			       .id = id };

	pl_client_send(c, &m, NULL, 0);
}

void pl_region_end(struct pl_region_own *r, bool died)
{
	struct pl_broker *b = r->client->pod->pods->broker;
	struct pl_region_opening *o;

	if (b->remote)
		pl_remote_region_gone(b->remote, r->id, died);
	while ((o = LIST_FIRST(&r->openings))) {
		tell_end(o->client, o->id);
		pl_opening_end(o);
	}
	region_free(r);
}

static int region_new(struct pl_client *c, const struct pl_msg_region_create *m,
		      struct pl_region_own **out, struct pl_err *err)
{
	const uint64_t bytes = pl_seg_file_bytes(m->size);
	struct pl_pod *pod = c->pod;
	struct pl_region_own *r;
	int rc = pl_quota_take(pod, &pod->usage.regions,
			       pod->pods->limits.regions, "regions", bytes,
			       err);

	if (rc < 0)
		return rc;
	r = calloc(1, sizeof(*r));
	if (!r) {
		pod->usage.regions--;
		pod->usage.bytes -= bytes;
		return pl_err_set(err, ENOMEM, "out of memory");
	}
	memcpy(r->name, m->name, sizeof(r->name));
	memcpy(r->uid, m->uid, sizeof(r->uid));
	r->id = ++pod->pods->broker->last_id;
	r->flags = m->flags;
	r->client = c;
	r->size = m->size;
	r->max_size = PL_MAX(m->max_size, m->size);
	r->end = pl_seg_round(m->size);
	r->bytes = bytes;
	r->fd = -1;
	r->bell_fd = -1;
	r->watch = PL_SEG_NONE;
	LIST_INIT(&r->openings);
	LIST_INSERT_HEAD(&c->regions, r, of_client);
	HASH_ADD_STR(pod->regions, name, r);
	*out = r;
	return 0;
}

/* *bell: the owner's end. */
static int region_equip(struct pl_region_own *r, int fd, int *bell,
			struct pl_err *err)
{
	int fds[2], rc = pl_seg_take_region(fd, r->size, &r->ctl, err);

	if (rc < 0) {
		pl_pod_complain(r->client->pod, "REGION_CREATE refused: %s",
				err->msg);
		return rc;
	}
	r->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (r->fd < 0)
		return pl_err_sys(err, "cannot keep the segment");
	rc = pl_seg_watch_create(&r->watch, err);
	if (rc == 0)
		rc = pl_bell_pair(fds, err);
	if (rc < 0)
		return rc;
	r->bell_fd = fds[0];
	*bell = fds[1];
	return pl_pods_fd_scarce(r->client->pod->pods, fds[1], err);
}

static int region_create(struct pl_client *c,
			 const struct pl_msg_region_create *m, int fd,
			 struct pl_err *err)
{
	struct pl_msg_region a = { .size = m->size,
				   .max_size = m->max_size,
				   .path = "shm" };
	const struct pl_addr *own = pl_pod_addr(c->pod, AF_INET);
	struct pl_region_own *r = NULL;
	pl_auto_fd bell = -1;
	int rc;

	if (pl_region_find(c->pod, m->name))
		return pl_err_set(err, EEXIST,
				  "this pod has a region '%s' already",
				  m->name);
	/* Address space of readers' agents is taken for all of it. */
	if (m->max_size > m->size &&
	    pl_seg_file_bytes(m->max_size) > pl_pod_bytes_max(c->pod)) {
		pl_pod_complain(c->pod, "refused: a region that may grow to "
				"%llu bytes", (unsigned long long)m->max_size);
		pl_pod_counts_event(c->pod->counts, PL_POD_REFUSED_QUOTA);
		return pl_err_set(err, EDQUOT, "a region that may grow to %llu "
				  "bytes, and the pod may share %llu; see "
				  "limits.bytes of podlaned",
				  (unsigned long long)m->max_size,
				  (unsigned long long)
				  pl_pod_bytes_max(c->pod));
	}
	rc = region_new(c, m, &r, err);
	if (rc < 0)
		return rc;
	if (!pl_uid_is_set(m->uid))
		rc = pl_uid_draw(r->uid, err);
	if (rc == 0)
		rc = region_equip(r, fd, &bell, err);
	if (rc < 0) {
		region_free(r);
		return rc;
	}
	a.h = pl_msg_head(PL_MSG_REGION_CREATE_OK, sizeof(a), m->h.seq);
	a.id = r->id;
	memcpy(a.uid, r->uid, sizeof(a.uid));
	if (own)
		pl_addr_str(own, a.owner);
	pl_client_send(c, &a, (int[]){ r->watch.fd, bell }, 2);
	return 0;
}

const char *pl_broker_on_region_create(struct pl_client *c, const void *msg,
				       int *fds, int n_fds)
{
	struct pl_msg_region_create m;
	struct pl_err err;
	int rc;

	(void)n_fds;
	memcpy(&m, msg, sizeof(m));
	if (!pl_msg_name_ok(m.name, sizeof(m.name)) ||
	    (m.flags & ~PL_ALLOW_ANY) || m.size == 0 ||
	    m.size > SIZE_MAX / 4 || m.max_size > SIZE_MAX / 4 ||
	    (m.max_size && m.max_size < m.size))
		return "a REGION_CREATE that is not well formed";
	rc = region_create(c, &m, fds[0], &err);
	if (rc < 0)
		pl_client_send_error(c, m.h.seq, rc, err.msg);
	return NULL;
}

/* --- openings ------------------------------------------------------------- */

static void opening_free(struct pl_region_opening *o)
{
	struct pl_usage *u = &o->client->pod->usage;

	u->regions--;
	u->bytes -= o->bytes;
	if (o->region) {
		o->region->n_openings--;
		LIST_REMOVE(o, of_region);
	}
	LIST_REMOVE(o, of_client);
	HASH_DELETE(hh, o->client->pod->pods->broker->openings, o);
	free(o);
}

void pl_opening_end(struct pl_region_opening *o)
{
	struct pl_remote *remote = o->client->pod->pods->broker->remote;

	if (!o->region && remote)
		pl_remote_region_put(remote, o->id);
	opening_free(o);
}

static struct pl_region_opening *
opening_new(struct pl_client *c, const struct pl_msg_region_open *m,
	    const struct pl_addr *owner, struct pl_err *err)
{
	struct pl_pod *pod = c->pod;
	struct pl_region_opening *o;

	if (pl_quota_take(pod, &pod->usage.regions, pod->pods->limits.regions,
			  "regions", 0, err) < 0)
		return NULL;
	o = calloc(1, sizeof(*o));
	if (!o) {
		pod->usage.regions--;
		pl_err_set(err, ENOMEM, "out of memory");
		return NULL;
	}
	o->id = ++pod->pods->broker->last_id;
	o->client = c;
	o->owner = *owner;
	o->seq = m->h.seq;
	memcpy(o->uid, m->uid, sizeof(o->uid));
	memcpy(o->name, m->name, sizeof(o->name));
	snprintf(o->path, sizeof(o->path), "shm");
	LIST_INSERT_HEAD(&c->openings, o, of_client);
	HASH_ADD(hh, pod->pods->broker->openings, id, sizeof(o->id), o);
	return o;
}

static void opening_ok(struct pl_region_opening *o, uint64_t max_size, int fd)
{
	struct pl_msg_region a = { .id = o->id,
				   .size = o->size,
				   .max_size = max_size };

	a.h = pl_msg_head(PL_MSG_REGION_OPEN_OK, sizeof(a), o->seq);
	memcpy(a.path, o->path, sizeof(a.path));
	memcpy(a.uid, o->uid, sizeof(a.uid));
	pl_addr_str(&o->owner, a.owner);
	pl_client_send(o->client, &a, &fd, 1);
}

/* The owner says that it has more than this agent knows. */
static bool is_partly_shown(const struct pl_region_own *r)
{
	uint64_t grown = atomic_load_explicit(&r->ctl->grown,
					      memory_order_acquire);

	return grown > r->end;
}

/* The region of a pod here, if this reader may have it. */
static int region_get(struct pl_pod *pod, const char *name, const char *ns,
		      struct pl_region_own **out, struct pl_err *err)
{
	*out = pl_region_find(pod, name);
	if (!*out && pl_broker_is_settling(pod->pods->broker, pod))
		return pl_err_set(err, EAGAIN, "the agent has just been "
				  "started, and nobody in that pod has shown it "
				  "a region '%s' yet", name);
	if (!*out)
		return pl_err_set(err, ENOENT, "that pod has no region '%s'",
				  name);
	if (is_partly_shown(*out))
		return pl_err_set(err, EAGAIN, "the agent has just been "
				  "started, and was not yet shown all that the "
				  "region '%s' has grown by", name);
	return pl_broker_policy(pod, (*out)->flags, ns, PL_POLICY_REGION, name,
				err);
}

static int open_local(struct pl_region_opening *o, struct pl_pod *pod,
		      struct pl_err *err)
{
	struct pl_region_own *r;
	int rc = region_get(pod, o->name, o->client->pod->ns, &r, err);

	if (rc < 0)
		return rc;
	if (pl_uid_is_set(o->uid) && memcmp(o->uid, r->uid, sizeof(o->uid)))
		return pl_err_set(err, ESTALE, "it was created anew");
	memcpy(o->uid, r->uid, sizeof(o->uid));
	o->region = r;
	o->size = r->size;
	r->n_openings++;
	LIST_INSERT_HEAD(&r->openings, o, of_region);
	opening_ok(o, r->max_size, r->fd);
	return 0;
}

static void on_opened(void *arg, int status, const char *text,
		      const struct pl_remote_region_up *up)
{
	struct pl_region_opening *o = arg;
	struct pl_client *c = o->client;
	uint32_t seq = o->seq, one = 0;
	struct pl_err err;

	if (status < 0) {
		pl_broker_unreached(c->pod->pods->broker, status, &o->owner);
		if (status == -EACCES)
			pl_pod_complain(c->pod, "may not open a region: %s",
					text);
		opening_free(o);
		pl_client_send_error(c, seq, pl_broker_later(c, status,
							     -ENOENT), text);
		return;
	}
	status = pl_quota_take(c->pod, &one, 1, "regions",
			       pl_seg_file_bytes(up->size), &err);
	if (status < 0) {
		pl_opening_end(o);
		pl_client_send_error(c, seq, status, err.msg);
		return;
	}
	o->bytes = pl_seg_file_bytes(up->size);
	o->end = pl_seg_round(up->size);
	o->size = up->size;
	memcpy(o->uid, up->uid, sizeof(o->uid));
	snprintf(o->path, sizeof(o->path), "%s", up->path);
	o->is_pending = false;
	opening_ok(o, up->max_size, up->replica_fd);
}

static int open_remote(struct pl_region_opening *o, const struct pl_node *node,
		       int timeout_ms, struct pl_err *err)
{
	struct pl_pod *pod = o->client->pod;
	const struct pl_addr *own = pl_pod_addr(pod, o->owner.family);
	const uint64_t max = pl_pod_bytes_max(pod);
	const uint64_t used = pl_seg_file_bytes(0) + pod->usage.bytes;
	struct pl_remote_open r = { .id = o->id,
				    .node = node,
				    .owner = o->owner,
				    .reader_ns = pod->ns,
				    .name = o->name,
				    .uid = o->uid,
				    .room_bytes = max,
				    .timeout_ms = timeout_ms };
	int rc;

	if (own)
		r.reader = *own;
	if (max > used)
		r.max_bytes = max - used;
	snprintf(o->node, sizeof(o->node), "%s", node->name);
	rc = pl_remote_region_open(pod->pods->broker->remote, &r, on_opened, o,
				   err);
	if (rc < 0)
		return rc;
	o->is_pending = true;
	return 0;
}

static int region_open(struct pl_client *c, const struct pl_msg_region_open *m,
		       struct pl_addr *owner, struct pl_err *err)
{
	struct pl_region_opening *o;
	const struct pl_node *node;
	struct pl_pod *pod;
	int rc = pl_broker_find(c->pod->pods->broker, owner, &pod, &node, err);

	if (rc < 0)
		return rc;
	o = opening_new(c, m, owner, err);
	if (!o)
		return -err->code;
	rc = pod ? open_local(o, pod, err) :
		   open_remote(o, node, c->version < 3 ? -1 : m->timeout_ms,
			       err);
	if (rc < 0)
		opening_free(o);
	return rc;
}

const char *pl_broker_on_region_open(struct pl_client *c, const void *msg,
				     int *fds, int n_fds)
{
	struct pl_msg_region_open m;
	struct pl_addr owner;
	struct pl_err err;
	int rc;

	memcpy(&m, msg, sizeof(m));
	if (!pl_msg_name_ok(m.name, sizeof(m.name)) ||
	    !memchr(m.addr, 0, sizeof(m.addr)) || m.timeout_ms < -1)
		return "a REGION_OPEN that is not well formed";
	if (pl_addr_parse(m.addr, &owner) < 0)
		rc = pl_err_set(&err, EINVAL, "'%s' is no address of a pod",
				m.addr);
	else
		rc = region_open(c, &m, &owner, &err);
	if (rc == -EINPROGRESS)
		rc = pl_broker_park(c, &owner, msg, fds, n_fds,
				    c->version < 3 ? -1 : m.timeout_ms,
				    pl_broker_on_region_open, &err);
	if (rc == -EACCES)
		pl_pod_complain(c->pod, "may not open a region: %s", err.msg);
	rc = pl_broker_later(c, rc, -ENOENT);
	if (rc < 0)
		pl_client_send_error(c, m.h.seq, rc, err.msg);
	return NULL;
}

/* One that has ended already is no error: the ways may cross. */
const char *pl_broker_on_region_close(struct pl_client *c, const void *msg,
				      int *fds, int n_fds)
{
	struct pl_region_opening *o;
	struct pl_region_own *r;
	struct pl_msg_id m;

	(void)fds;
	(void)n_fds;
	memcpy(&m, msg, sizeof(m));
	HASH_FIND(hh, c->pod->pods->broker->openings, &m.id, sizeof(m.id), o);
	LIST_FOREACH(r, &c->regions, of_client)
		if (r->id == m.id)
			break;
	if (o && o->client == c)
		pl_opening_end(o);
	else if (r)
		pl_region_end(r, false);
	pl_client_send_ok(c, m.h.seq, m.id);
	return NULL;
}

/* --- for the remote part -------------------------------------------------- */

int pl_broker_region_lookup(struct pl_broker *b, const struct pl_addr *owner,
			    const char *name, const char *reader_ns,
			    struct pl_broker_region *out, struct pl_err *err)
{
	struct pl_pod *pod = pl_pods_by_addr(b->pods, owner);
	char buf[INET6_ADDRSTRLEN];
	struct pl_region_own *r;
	int rc;

	if (!pod)
		return pl_err_set(err, EHOSTUNREACH,
				  "no pod of node %s has address %s", b->node,
				  pl_addr_str(owner, buf));
	rc = region_get(pod, name, reader_ns, &r, err);
	if (rc < 0)
		return rc;
	*out = (struct pl_broker_region){ .id = r->id,
					  .uid = r->uid,
					  .fd = r->fd,
					  .size = r->size,
					  .size_now = pl_region_size_now(r),
					  .max_size = r->max_size,
					  .parts = r->parts,
					  .n_parts = r->n_parts,
					  .bell_fd = r->bell_fd,
					  .watch = r->watch.base };
	return 0;
}

void pl_broker_region_ended(struct pl_broker *b, uint64_t id)
{
	struct pl_region_opening *o;
	struct pl_client *c;
	bool was_pending;

	HASH_FIND(hh, b->openings, &id, sizeof(id), o);
	if (!o || o->region)
		return;
	c = o->client;
	was_pending = o->is_pending;
	if (was_pending)
		pl_client_send_error(c, o->seq, -ENOENT,
				     "the region ended while it was opened");
	else
		tell_end(c, id);
	opening_free(o);
}
