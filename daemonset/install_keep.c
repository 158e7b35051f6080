/*
 * daemonset/install_keep.c - the agent's hand on the configuration of the
 * network
 *
 * The folder is watched. Whenever something in it, or in the agent, changes,
 * and has been quiet for a moment, the file is compared with what it should be.
 * Who else writes it again and again is answered ever more slowly.
 */
#include "daemonset/install_keep.h"

#include <errno.h>
#include <event2/event.h>
#include <string.h>
#include <sys/inotify.h>

#include "common/json.h"
#include "common/log.h"
#include "common/util.h"
#include "daemonset/agent_internal.h"
#include "daemonset/install.h"

#define QUIET_MS 200
#define WAIT_MAX_MS 60000
/* Not ready, or the folder is away: nothing tells when that changes. */
#define LOOK_MS 1000
#define EVENTS (IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_TO | \
		IN_MOVED_FROM | IN_ONLYDIR)

struct pl_keeper {
	struct pl_agent *agent;
	const struct pl_install_conf *conf;
	int fd, wd;			/* wd -1: the folder is away */
	struct event *readable, *timer;
	int wait_ms;			/* before the next look */
	uint64_t wrote_ns;		/* 0: never */
	char before[NAME_MAX + 1];	/* file that sorts before ours */
	char why[PL_ERR_MSG_BYTES];	/* what was last complained about */
};

static void later(struct pl_keeper *k, int ms)
{
	const struct timeval tv = { ms / 1000, ms % 1000 * 1000 };

	event_add(k->timer, &tv);
}

static void complain(struct pl_keeper *k, const char *why)
{
	if (strcmp(k->why, why))
		pl_warn("cni: %s", why);
	snprintf(k->why, sizeof(k->why), "%s", why);
}

/*
 * The bridge is the plugin's to make, unless there is one: before the first
 * pod can come, that is the question whose it is.
 */
static int note_bridge(struct pl_keeper *k, struct pl_err *err)
{
	struct pl_agent *a = k->agent;
	pl_auto_json *j = NULL;
	char path[PATH_MAX];
	const char *was = "";
	struct pl_link link;
	int rc = pl_format(path, sizeof(path), "%s/%s",
			   a->args->conf.state_dir, PL_INSTALL_BRIDGE);

	if (k->conf->mode != PL_CNI_STANDALONE)
		return 0;
	if (rc < 0)
		return pl_err_set(err, -rc, "stateDir is too long");
	if (pl_json_load(path, &j, NULL) == 0 &&
	    pl_json_str(j, "", "name", &was, NULL) > 0 &&
	    !strcmp(was, k->conf->bridge))
		return 0;
	cJSON_Delete(j);
	rc = pl_nl_link_get(&a->overlay.nl, k->conf->bridge, &link, err);
	if (rc < 0 && rc != -ENODEV) {
		j = NULL;
		return rc;
	}
	j = cJSON_CreateObject();
	cJSON_AddStringToObject(j, "name", k->conf->bridge);
	cJSON_AddBoolToObject(j, "ours", rc == -ENODEV);
	return pl_json_save(path, j, 0600, err);
}

static int write_it(struct pl_keeper *k, const char *path, const char *text,
		    const char *source, struct pl_err *err)
{
	int rc = note_bridge(k, err);

	if (rc == 0)
		rc = pl_mkdirs(k->conf->conf_dir, 0755, err);
	if (rc == 0)
		rc = pl_file_replace(path, text, strlen(text), 0644, err);
	if (rc < 0)
		return rc;
	if (k->wrote_ns)
		pl_warn("cni: %s was changed by somebody, written again", path);
	else
		pl_info("cni: wrote %s%s%s", path, *source ? ", behind " : "",
			source);
	k->wrote_ns = pl_now_ns();
	return 0;
}

static void look_before(struct pl_keeper *k)
{
	char first[NAME_MAX + 1];

	pl_conflist_first(k->conf->conf_dir, first);
	if (!strcmp(first, k->conf->file))
		first[0] = '\0';
	if (*first && strcmp(first, k->before))
		pl_warn("cni: %s/%s sorts before %s, so runtimes use that one "
			"and pods get no lanes; remove it, or set cni.file to "
			"a name before it", k->conf->conf_dir, first,
			k->conf->file);
	memcpy(k->before, first, sizeof(k->before));
}

/* The list that ours was made of is gone, and its plugins with it. */
static int withdraw(struct pl_keeper *k, const char *path,
		    enum pl_conflist_whose whose)
{
	if (whose != PL_CONFLIST_OURS || k->conf->mode != PL_CNI_CHAINED)
		return 0;
	if (unlink(path) < 0)
		return -errno;
	k->wrote_ns = 0;
	pl_warn("cni: removed %s, as what it extends is gone", path);
	return 0;
}

/* 1: it is as it should be, 0: it was written. */
static int sync_file(struct pl_keeper *k, struct pl_err *err)
{
	struct pl_agent *a = k->agent;
	pl_auto_free char *want = NULL, *have = NULL;
	char path[PATH_MAX], source[NAME_MAX + 1];
	enum pl_conflist_whose whose;
	int rc = pl_agent_ready(a, err);

	if (rc == 0)
		rc = pl_conflist_path(k->conf, path, err);
	if (rc < 0)
		return rc;
	whose = pl_conflist_look(k->conf, &have);
	rc = pl_conflist_make(k->conf,
			      pl_registry_by_name(pl_agent_registry(a),
						  a->args->node),
			      a->args->run_dir, &want, source, err);
	if (rc == -ENOENT && withdraw(k, path, whose) < 0)
		return pl_err_sys(err, "cannot remove %s", path);
	if (rc < 0)
		return rc;
	if (have && !strcmp(have, want)) {
		k->wrote_ns = k->wrote_ns ? k->wrote_ns : 1;
		return 1;
	}
	/* Once it was ours, whoever wrote over it is an intruder. */
	if (whose == PL_CONFLIST_FOREIGN && !k->wrote_ns)
		return pl_err_set(err, EEXIST, "%s is there and was not "
				  "written by podlaned; remove it, or set "
				  "cni.file to another name", path);
	return write_it(k, path, want, source, err);
}

static void watch(struct pl_keeper *k)
{
	k->wd = inotify_add_watch(k->fd, k->conf->conf_dir, EVENTS);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct pl_keeper *k = arg;
	struct pl_err err = { 0 };
	int rc;

	(void)fd;
	(void)what;
	if (k->wd < 0)
		watch(k);
	rc = sync_file(k, &err);
	if (rc < 0)
		complain(k, err.msg);
	else
		k->why[0] = '\0';
	look_before(k);
	if (rc == 0)
		k->wait_ms = PL_MIN(k->wait_ms * 2, WAIT_MAX_MS);
	else if (pl_now_ns() - k->wrote_ns > WAIT_MAX_MS * 1000000ull)
		k->wait_ms = QUIET_MS;
	if (rc < 0 || k->wd < 0)
		later(k, LOOK_MS);
}

static void on_change(evutil_socket_t fd, short what, void *arg)
{
	_Alignas(struct inotify_event) char buf[4096];
	struct pl_keeper *k = arg;
	ssize_t n = read(fd, buf, sizeof(buf));

	(void)what;
	for (char *p = buf; n > 0 && p < buf + n;) {
		const struct inotify_event *e = (const void *)p;

		if (e->mask & IN_IGNORED)
			k->wd = -1;
		p += sizeof(*e) + e->len;
	}
	if (!event_pending(k->timer, EV_TIMEOUT, NULL))
		later(k, k->wait_ms);
}

int pl_keeper_create(struct pl_agent *a, struct pl_keeper **out,
		     struct pl_err *err)
{
	struct pl_keeper *k = calloc(1, sizeof(*k));
	char path[PATH_MAX];

	if (!k)
		return pl_err_set(err, ENOMEM, "out of memory");
	*out = k;
	k->agent = a;
	k->conf = &a->args->conf.cni;
	k->wd = -1;
	k->wait_ms = QUIET_MS;
	k->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (k->fd < 0)
		return pl_err_sys(err, "inotify (see "
				  "fs.inotify.max_user_instances)");
	k->readable = event_new(a->base, k->fd, EV_READ | EV_PERSIST,
				on_change, k);
	k->timer = evtimer_new(a->base, on_timer, k);
	if (!k->readable || !k->timer || event_add(k->readable, NULL) < 0)
		return pl_err_set(err, ENOMEM, "out of memory");
	if (pl_conflist_path(k->conf, path, err) < 0)
		return -ENAMETOOLONG;
	pl_install_sweep(path);
	on_timer(-1, 0, k);
	return 0;
}

void pl_keeper_destroy(struct pl_keeper *k)
{
	if (!k)
		return;
	if (k->readable)
		event_free(k->readable);
	if (k->timer)
		event_free(k->timer);
	pl_close_fd(&k->fd);
	free(k);
}

void pl_keeper_kick(struct pl_keeper *k)
{
	if (k && !event_pending(k->timer, EV_TIMEOUT, NULL))
		later(k, k->wait_ms);
}

const char *pl_keeper_shadow(const struct pl_keeper *k)
{
	return k ? k->before : "";
}
