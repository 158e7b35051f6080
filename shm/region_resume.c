/*
 * shm/region_resume.c - regions go on with another agent
 *
 * Theory of operation
 *
 * Owner. The segment is its own, the versions and the publish log are in it:
 * nothing is lost with an agent. The next one gets the descriptor under the
 * same name and uid, and gives a watch page and a bell, which take the places
 * of the old ones (mapped over, dup3). Whoever looked at the old page did not
 * ring for the new one, so the bell is rung once.
 *
 * Reader on the owner's node. It has the owner's segment and needs no agent but
 * to learn of the end; the same inode says that it is the same region.
 *
 * Reader on another node. Its replica comes no further. The next agent gets
 * one from the owner's node, all of it: it may not take pods' word for what was
 * in the old one, as other pods read the new one. When it has come as far as
 * the old one, it is mapped over that, so the version never goes back. The
 * owner does not overwrite what is being read (pl_region_publish says so), so
 * that is right at any moment.
 *
 * Sleepers wait on the word of the old replica, in slices: they find the new
 * one after at most one of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/util.h"
#include "shm/msg.h"
#include "shm/region.h"

static struct pl_region *region_of(struct pl_conn_obj *o)
{
	return (struct pl_region *)((char *)o -
				    offsetof(struct pl_region, obj));
}

static uint64_t version_of(const struct pl_seg *s)
{
	const struct pl_region_seg *h = s->base;

	/* Pairs with the release of the owner, or of the agent. */
	return atomic_load_explicit(&h->version, memory_order_acquire);
}

static bool is_over(const struct pl_region *r)
{
	const struct pl_region_seg *h = r->seg.base;

	return atomic_load_explicit(&r->ended, memory_order_relaxed) ||
	       atomic_load_explicit(&h->state, memory_order_relaxed) !=
		       PL_STATE_OPEN;
}

static void id_set(struct pl_region *r, uint64_t id, uint32_t epoch)
{
	struct pl_conn *c = r->obj.conn;

	pthread_mutex_lock(&c->objs_lock);
	r->id = id;
	r->id_epoch = epoch;
	pthread_mutex_unlock(&c->objs_lock);
	pl_conn_obj_recheck(&r->obj);
}

/* --- owner ---------------------------------------------------------------- */

static int create_again(struct pl_region *r)
{
	struct pl_msg_region_create req = { .size = r->seg.data_bytes,
					    .max_size = r->max_size,
					    .flags = r->flags };
	struct pl_msg_region ok;
	uint32_t epoch;
	int fds[2], rc;

	memcpy(req.name, r->info.name, sizeof(req.name));
	memcpy(req.uid, r->uid, sizeof(req.uid));
	rc = pl_region_ask_create(r->obj.conn, true, &req, r->seg.fd, &ok, fds,
				  &epoch, NULL);
	/* Our own one, of an agent that has not noticed our absence yet. */
	if (rc < 0)
		return rc == -EEXIST ? -EAGAIN : rc;
	id_set(r, ok.id, epoch);
	rc = pl_seg_watch_replace(&r->watch, fds[0], NULL);
	pl_seg_drop_fd(&r->watch);
	if (rc == 0 && dup3(fds[1], r->bell, O_CLOEXEC) < 0)
		rc = -errno;
	pl_close_fd(&fds[1]);
	/* A socket that is full holds a wake-up. */
	if (rc == 0 && send(r->bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return 0;
	return rc;
}

/* Parts may have to be tried again when the region is there. */
static int show_own(struct pl_region *r)
{
	int rc = r->id_epoch == r->obj.conn->epoch ? 0 : create_again(r);

	return rc < 0 ? rc : pl_region_show_parts(r);
}

/* --- readers -------------------------------------------------------------- */

static bool same_file(int a, int b)
{
	struct stat sa, sb;

	return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 &&
	       sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

/* 0: it is there. -EINPROGRESS: in r->next, perhaps not as far yet. */
static int open_again(struct pl_region *r)
{
	struct pl_msg_region_open req = { .timeout_ms = -1 };
	struct pl_seg next = PL_SEG_NONE;
	struct pl_msg_region ok;
	bool is_local;
	uint32_t epoch;
	int fd, rc;

	memcpy(req.addr, r->info.owner, sizeof(req.addr));
	memcpy(req.name, r->info.name, sizeof(req.name));
	memcpy(req.uid, r->uid, sizeof(req.uid));
	rc = pl_region_ask_open(r->obj.conn, true, &req, &ok, &fd, &epoch,
				NULL);
	/* Its owner may be about to show it. */
	if (rc < 0)
		return rc == -ENOENT ? -EAGAIN : rc;
	is_local = !strcmp(ok.path, "shm");
	if (ok.size < r->seg.data_bytes ||
	    is_local != !strcmp(r->info.path, "shm") ||
	    (is_local && !same_file(fd, r->seg.fd)))
		rc = -ESTALE;
	if (rc == 0 && !is_local)
		rc = pl_seg_region_open(fd, ok.size, &next, NULL);
	else
		pl_close_fd(&fd);
	if (rc < 0) {
		pl_conn_tell(r->obj.conn, PL_MSG_REGION_CLOSE, ok.id, epoch);
		return rc;
	}
	pthread_mutex_lock(&r->obj.conn->objs_lock);
	r->next = next;
	pthread_mutex_unlock(&r->obj.conn->objs_lock);
	id_set(r, ok.id, epoch);
	return is_local ? 0 : -EINPROGRESS;
}

/* The next replica is there: has it come as far as this one? */
static int follow(struct pl_region *r)
{
	bool ended;
	int rc;

	pthread_mutex_lock(&r->obj.conn->objs_lock);
	ended = r->next_ended;
	pthread_mutex_unlock(&r->obj.conn->objs_lock);
	if (version_of(&r->next) < version_of(&r->seg))
		return ended ? -ESTALE : -EINPROGRESS;
	pthread_mutex_lock(&r->obj.conn->objs_lock);
	rc = pl_seg_region_replace(&r->seg, pl_take_fd(&r->next.fd),
				   r->next.data_bytes, NULL);
	if (rc < 0) {
		pthread_mutex_unlock(&r->obj.conn->objs_lock);
		return rc;
	}
	pl_region_resize(r);
	pl_seg_close(&r->next);
	ended = r->next_ended;
	r->next_ended = false;
	pthread_mutex_unlock(&r->obj.conn->objs_lock);
	if (ended)
		pl_region_ended(r);
	return 0;
}

static int on_resume(struct pl_conn_obj *o)
{
	struct pl_region *r = region_of(o);
	int rc = 0;

	if (r->is_owner)
		return show_own(r);
	if (is_over(r))
		return 0;
	if (!r->next.base)
		rc = open_again(r);
	return r->next.base ? follow(r) : rc;
}

static void on_away(struct pl_conn_obj *o)
{
	struct pl_region *r = region_of(o);

	pl_seg_close(&r->next);
	r->next_ended = false;
}

static void on_lost(struct pl_conn_obj *o)
{
	struct pl_region *r = region_of(o);

	pl_seg_close(&r->next);
	if (!r->is_owner)
		pl_region_ended(r);
}

static void on_ended(struct pl_conn_obj *o, uint64_t id, uint32_t epoch)
{
	struct pl_region *r = region_of(o);

	if (r->is_owner || r->id != id || r->id_epoch != epoch)
		return;
	if (r->next.base)
		r->next_ended = true;
	else
		pl_region_ended(r);
}

static const struct pl_conn_obj_ops region_ops = {
	.resume = on_resume,
	.away = on_away,
	.lost = on_lost,
	.ended = on_ended,
};

/* --- begin and end -------------------------------------------------------- */

void pl_region_join(struct pl_region *r, const struct pl_region_parts *p)
{
	/* Mappings stay; the owner's descriptor is kept to be shown. */
	pl_seg_drop_fd(&r->watch);
	if (!p->conn || !p->msg) {
		pl_seg_drop_fd(&r->seg);
		return;
	}
	memcpy(r->uid, p->msg->uid, sizeof(r->uid));
	r->flags = p->flags;
	r->id = p->msg->id;
	r->id_epoch = p->epoch;
	pl_conn_obj_add(p->conn, &r->obj, &region_ops, p->epoch);
}

void pl_region_part(struct pl_region *r)
{
	struct pl_conn *c = r->obj.conn;

	if (!c)
		return;
	pl_conn_obj_remove(&r->obj);
	if (r->id)
		pl_conn_tell(c, PL_MSG_REGION_CLOSE, r->id, r->id_epoch);
}
