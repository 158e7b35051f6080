/* shm/region_open.c - asking the agent for regions */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "common/util.h"
#include "shm/conn.h"
#include "shm/msg.h"
#include "shm/region.h"

#define RETRY_MIN_NS 5000000u
#define RETRY_MAX_NS 100000000u
/* One question, of a program that does not want to wait. */
#define ASK_ONCE_MS 1000

static void info_set(struct pl_region_info *info, const char *name,
		     const struct pl_msg_region *m)
{
	memset(info, 0, sizeof(*info));
	memcpy(info->name, name, sizeof(info->name));
	memcpy(info->path, m->path, sizeof(info->path));
	memcpy(info->owner, m->owner, sizeof(info->owner));
}

static int ask(struct pl_conn *conn, bool again,
	       const struct pl_conn_call *call, struct pl_err *err)
{
	return again ? pl_conn_call_once(conn, call, err) :
		       pl_conn_call(conn, call, err);
}

int pl_region_ask_create(struct pl_conn *conn, bool again,
			 struct pl_msg_region_create *req, int seg_fd,
			 struct pl_msg_region *ok, int fds[2], uint32_t *epoch,
			 struct pl_err *err)
{
	const struct pl_conn_call call = {
		.request = req,
		.type = PL_MSG_REGION_CREATE,
		.reply_type = PL_MSG_REGION_CREATE_OK,
		.fds = &seg_fd,
		.n_fds = 1,
		.reply = ok,
		.reply_bytes = sizeof(*ok),
		.reply_fds = fds,
		.n_reply_fds = 2,
		.timeout_ms = PL_CONN_REPLY_MS,
		.epoch = epoch,
	};
	int rc = ask(conn, again, &call, err);

	if (rc < 0)
		return rc;
	if (!pl_msg_is_socket(fds[1], SOCK_STREAM))
		rc = pl_err_set(err, EPROTO, "the region's bell is no Unix "
				"stream socket");
	else if (ok->size != req->size || (ok->max_size != req->max_size &&
					   conn->version >= 4))
		rc = pl_err_set(err, EPROTO, "the agent took the region with "
				"another size");
	if (rc == 0)
		return 0;
	pl_close_fd(&fds[0]);
	pl_close_fd(&fds[1]);
	pl_conn_tell(conn, PL_MSG_REGION_CLOSE, ok->id, *epoch);
	return rc;
}

/* Falls back to what is there, with a note. */
static void make_huge(struct pl_seg *s, struct pl_err *err)
{
	size_t at = 0, file = pl_seg_file_bytes(s->data_bytes);

	pl_seg_huge(s, &at, file);
	pl_err_set(err, 0, "%s", "");
	if (file - s->huge_bytes < PL_SEG_HUGE)
		return;
	pl_err_set(err, 0, "%zu of %zu MiB are in huge pages: the kernel had "
		   "no more, or none at all", s->huge_bytes >> 20, file >> 20);
}

/* So much address space may be taken in each reader. */
#define GROW_MAX (UINT64_C(1) << 42)

int pl_region_create(struct pl_conn *conn, const char *name, size_t size,
		     uint32_t flags, struct pl_region **out,
		     struct pl_err *err)
{
	return pl_region_create_growing(conn, name, size, size, flags, out,
					err);
}

int pl_region_create_growing(struct pl_conn *conn, const char *name,
			     size_t size, size_t max_size, uint32_t flags,
			     struct pl_region **out, struct pl_err *err)
{
	struct pl_msg_region_create req = { .size = size,
					    .max_size = max_size,
					    .flags = flags & ~PL_HUGE };
	struct pl_msg_region ok;
	struct pl_region_info info;
	struct pl_region_parts parts = { .seg = PL_SEG_NONE,
					 .is_owner = true,
					 .watch = PL_SEG_NONE,
					 .bell = -1,
					 .conn = conn,
					 .flags = flags & ~PL_HUGE,
					 .msg = &ok,
					 .info = &info };
	int fds[2], rc = pl_msg_set_name(req.name, name, "region", err);

	if (rc == 0 && (flags & ~(PL_ALLOW_ANY | PL_HUGE)))
		rc = pl_err_set(err, EINVAL, "unknown flags %#x", flags);
	if (rc == 0 && (max_size < size ||
			(max_size > size && max_size > GROW_MAX)))
		rc = pl_err_set(err, EINVAL, "a region of %zu bytes may grow "
				"to %zu to %" PRIu64 " bytes, not to %zu", size,
				size, GROW_MAX, max_size);
	if (rc == 0)
		rc = pl_uid_draw(req.uid, err);
	if (rc == 0)
		rc = pl_seg_region_create_max(size, max_size, &parts.seg, err);
	if (rc < 0)
		return rc;
	if (flags & PL_HUGE)
		make_huge(&parts.seg, err);
	rc = pl_region_ask_create(conn, false, &req, parts.seg.fd, &ok, fds,
				  &parts.epoch, err);
	if (rc < 0)
		goto fail;
	parts.bell = fds[1];
	/* Agents of before version 4 do not say it. */
	ok.max_size = max_size;
	info_set(&info, req.name, &ok);
	rc = pl_seg_watch_open(fds[0], &parts.watch, err);
	if (rc == 0)
		return pl_region_attach(&parts, out, err);
	pl_conn_tell(conn, PL_MSG_REGION_CLOSE, ok.id, parts.epoch);
fail:
	pl_seg_close(&parts.seg);
	pl_close_fd(&parts.bell);
	return rc;
}

int pl_region_ask_open(struct pl_conn *conn, bool again,
		       struct pl_msg_region_open *req, struct pl_msg_region *ok,
		       int *fd, uint32_t *epoch, struct pl_err *err)
{
	const struct pl_conn_call call = {
		.request = req,
		.type = PL_MSG_REGION_OPEN,
		.reply_type = PL_MSG_REGION_OPEN_OK,
		.reply = ok,
		.reply_bytes = sizeof(*ok),
		.reply_fds = fd,
		.n_reply_fds = 1,
		.timeout_ms = again ? PL_CONN_REPLY_MS :
			      req->timeout_ms < 0 ? PL_CONN_FAR_MS :
						    req->timeout_ms,
		.grace_ms = PL_CONN_GRACE_MS,
		.epoch = epoch,
	};

	return ask(conn, again, &call, err);
}

static int open_once(struct pl_conn *conn, struct pl_msg_region_open *req,
		     struct pl_region **out, struct pl_err *err)
{
	struct pl_msg_region ok;
	struct pl_region_info info;
	struct pl_region_parts parts = { .watch = PL_SEG_NONE,
					 .bell = -1,
					 .conn = conn,
					 .msg = &ok,
					 .info = &info };
	int fd, rc = pl_region_ask_open(conn, false, req, &ok, &fd,
					&parts.epoch, err);

	if (rc < 0)
		return rc;
	info_set(&info, req->name, &ok);
	if (ok.max_size < ok.size)
		ok.max_size = ok.size;
	rc = pl_seg_region_open_max(fd, ok.size, ok.max_size, &parts.seg, err);
	if (rc == 0)
		rc = pl_region_attach(&parts, out, err);
	if (rc < 0)
		pl_conn_tell(conn, PL_MSG_REGION_CLOSE, ok.id, parts.epoch);
	/* What it had grown by before; else pl_region_wait says why not. */
	else if (pl_region_is_behind(*out) && pl_region_catch_up(*out) < 0)
		return 0;
	return rc;
}

/* What the agent may take for one question. */
static int32_t left_ms(int timeout_ms, uint64_t deadline)
{
	const uint64_t now = pl_now_ns();

	if (timeout_ms <= 0)
		return timeout_ms < 0 ? -1 : ASK_ONCE_MS;
	return now >= deadline ? 1 : (int32_t)((deadline - now) / 1000000 + 1);
}

/* Returns whether there is time left. */
static bool pause_until(uint64_t deadline, uint64_t ns)
{
	uint64_t now = pl_now_ns();
	struct timespec ts;

	if (now >= deadline)
		return false;
	ns = PL_MIN(ns, deadline - now);
	ts.tv_sec = 0;
	ts.tv_nsec = (long)ns;
	nanosleep(&ts, NULL);
	return true;
}

static bool is_unanswered(int rc)
{
	return rc == -EHOSTUNREACH || rc == -ETIMEDOUT;
}

/* As long as the answer is that there is none. *missing: it came once. */
static int open_by(struct pl_conn *conn, int timeout_ms, uint64_t deadline,
		   struct pl_msg_region_open *req, bool *missing,
		   struct pl_region **out, struct pl_err *err)
{
	uint64_t ns = RETRY_MIN_NS;
	int rc;

	do {
		req->timeout_ms = left_ms(timeout_ms, deadline);
		rc = open_once(conn, req, out, err);
		/* An agent that was just started may not know it yet. */
		if (rc == -EAGAIN)
			rc = pl_err_set(err, ENOENT, "no such region, as far "
					"as an agent knows that was started a "
					"moment ago");
		if (rc != -ENOENT)
			return rc;
		*missing = true;
		ns = PL_MIN(ns * 2, (uint64_t)RETRY_MAX_NS);
	} while (pause_until(deadline, ns));
	return rc;
}

int pl_region_open(struct pl_conn *conn, const char *pod_addr,
		   const char *name, int timeout_ms, struct pl_region **out,
		   struct pl_err *err)
{
	const uint64_t deadline = pl_msg_deadline(timeout_ms);
	struct pl_msg_region_open req = { 0 };
	bool missing = false;
	int rc = pl_msg_check_timeout(timeout_ms, "timeout_ms", err);

	if (rc == 0)
		rc = pl_msg_set_addr(req.addr, pod_addr, err);
	if (rc == 0)
		rc = pl_msg_set_name(req.name, name, "region", err);
	if (rc < 0)
		return rc;
	rc = open_by(conn, timeout_ms, deadline, &req, &missing, out, err);
	/* What earlier attempts said is no news any more. */
	if (rc == 0)
		pl_err_clear(err);
	/* That the last question had no time for an answer is none, either. */
	if (missing && is_unanswered(rc) && pl_now_ns() >= deadline)
		rc = pl_err_set(err, ENOENT, "no such region, as was last "
				"heard");
	return rc;
}
