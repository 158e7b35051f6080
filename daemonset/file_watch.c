/*
 * daemonset/file_watch.c - a file that is read again when it changes
 *
 * Two watches of one inotify descriptor. That of the folder sees a file that is
 * renamed over the path, and the "..data" link of a ConfigMap. That of the file
 * itself, which follows a symbolic link and is armed anew at every reading,
 * sees what happens where the link points to. Neither can tell when a writer is
 * done, so a reading waits until it has been quiet for a moment.
 */
#include "daemonset/file_watch.h"

#include <errno.h>
#include <event2/event.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>

#include "common/util.h"

#define QUIET_MS 100
/* For a file that never rests. */
#define READ_WITHIN_MS 2000
/* Where the folder went away. */
#define RETRY_MS 2000

#define FOLDER_EVENTS (IN_CLOSE_WRITE | IN_MODIFY | IN_CREATE | IN_DELETE | \
		       IN_MOVED_TO | IN_MOVED_FROM | IN_ONLYDIR)
#define FILE_EVENTS (IN_CLOSE_WRITE | IN_MODIFY | IN_ATTRIB | \
		     IN_DELETE_SELF | IN_MOVE_SELF)

struct pl_file_watch {
	char path[PATH_MAX], folder[PATH_MAX];
	const char *base_name;		/* within path */
	pl_file_watch_fn *fn;
	void *arg;
	int fd, folder_wd, file_wd;
	struct event *readable, *timer;
	uint64_t first_ns;		/* of the events not yet looked at */
};

static int watch_folder(struct pl_file_watch *f, struct pl_err *err)
{
	f->folder_wd = inotify_add_watch(f->fd, f->folder, FOLDER_EVENTS);
	if (f->folder_wd < 0)
		return pl_err_sys(err, "cannot watch the folder %s",
				  f->folder);
	return 0;
}

/* The file may be missing; its folder tells when it comes. */
static void watch_file(struct pl_file_watch *f)
{
	int wd = inotify_add_watch(f->fd, f->path, FILE_EVENTS);

	if (f->file_wd >= 0 && f->file_wd != wd)
		inotify_rm_watch(f->fd, f->file_wd);
	f->file_wd = wd;
}

static void timer_start(struct pl_file_watch *f, int ms)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };

	evtimer_add(f->timer, &tv);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct pl_file_watch *f = arg;

	(void)fd;
	(void)what;
	f->first_ns = 0;
	if (f->folder_wd < 0 && watch_folder(f, NULL) < 0)
		timer_start(f, RETRY_MS);
	/* Armed before the reading, so that no change falls in between. */
	watch_file(f);
	f->fn(f->arg);
}

static bool concerns_us(struct pl_file_watch *f,
			const struct inotify_event *e)
{
	if (e->mask & IN_Q_OVERFLOW)
		return true;
	if (e->wd == f->file_wd) {
		if (e->mask & IN_IGNORED)
			f->file_wd = -1;
		return true;
	}
	if (e->wd == f->folder_wd && (e->mask & IN_IGNORED)) {
		f->folder_wd = -1;
		return true;
	}
	return e->wd == f->folder_wd && e->len &&
	       (strcmp(e->name, f->base_name) == 0 ||
		strcmp(e->name, "..data") == 0);
}

static void on_change(evutil_socket_t fd, short what, void *arg)
{
	_Alignas(struct inotify_event) char buf[4096];
	struct pl_file_watch *f = arg;
	ssize_t n = read(fd, buf, sizeof(buf));
	uint64_t now = pl_now_ns();
	bool ours = false;

	(void)what;
	for (char *p = buf; n > 0 && p < buf + n;) {
		const struct inotify_event *e = (const void *)p;

		ours |= concerns_us(f, e);
		p += sizeof(*e) + e->len;
	}
	if (!ours)
		return;
	if (!f->first_ns)
		f->first_ns = now;
	if (now - f->first_ns < READ_WITHIN_MS * 1000000ull)
		timer_start(f, QUIET_MS);
}

static int start(struct pl_file_watch *f, struct event_base *base,
		 struct pl_err *err)
{
	f->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (f->fd < 0)
		return pl_err_sys(err, "inotify (see fs.inotify."
				  "max_user_instances)");
	f->readable = event_new(base, f->fd, EV_READ | EV_PERSIST, on_change,
				f);
	f->timer = evtimer_new(base, on_timer, f);
	if (!f->readable || !f->timer || event_add(f->readable, NULL) < 0)
		return pl_err_set(err, ENOMEM, "out of memory");
	return watch_folder(f, err);
}

static int set_path(struct pl_file_watch *f, const char *path,
		    struct pl_err *err)
{
	char *slash;

	if (pl_format(f->path, sizeof(f->path), "%s", path) < 0)
		return pl_err_set(err, ENAMETOOLONG, "path too long: %s", path);
	slash = strrchr(f->path, '/');
	f->base_name = slash ? slash + 1 : f->path;
	if (!slash)
		memcpy(f->folder, ".", 2);
	else if (slash == f->path)
		memcpy(f->folder, "/", 2);
	else
		memcpy(f->folder, f->path, (size_t)(slash - f->path));
	return 0;
}

int pl_file_watch_open(struct event_base *base, const char *path,
		       pl_file_watch_fn *fn, void *arg,
		       struct pl_file_watch **out, struct pl_err *err)
{
	struct pl_file_watch *f = calloc(1, sizeof(*f));
	int rc;

	if (!f)
		return pl_err_set(err, ENOMEM, "out of memory");
	f->fn = fn;
	f->arg = arg;
	f->fd = f->folder_wd = f->file_wd = -1;
	rc = set_path(f, path, err);
	if (rc == 0)
		rc = start(f, base, err);
	if (rc < 0) {
		pl_file_watch_close(f);
		return rc;
	}
	watch_file(f);
	*out = f;
	return 0;
}

void pl_file_watch_close(struct pl_file_watch *f)
{
	if (!f)
		return;
	if (f->readable)
		event_free(f->readable);
	if (f->timer)
		event_free(f->timer);
	pl_close_fd(&f->fd);
	free(f);
}
