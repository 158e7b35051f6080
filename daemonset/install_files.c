/*
 * daemonset/install_files.c - the plugins, where the runtime looks for them
 *
 * The record has path, size and checksum of each file, of the new one before it
 * is there: a file is ours when its content is one that the record has. So a
 * kill at any moment leaves nothing of ours that the record does not know, and
 * a file that somebody put in its place is not taken for ours.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/json.h"
#include "common/log.h"
#include "common/tree.h"
#include "common/util.h"
#include "daemonset/install.h"
#include "shm/crc32c.h"

#define FILE_MAX (256u << 20)

static const char *const plugins[] = { "podlane", "podlane-ipam" };

static int join(char path[PATH_MAX], const char *dir, const char *name,
		struct pl_err *err)
{
	int rc = pl_format(path, PATH_MAX, "%s/%s", dir, name);

	return rc < 0 ? pl_err_set(err, -rc, "the path of %s is too long",
				   name) : 0;
}

/* --- the record --- */

static cJSON *record_load(const char *state_dir, struct pl_err *err)
{
	char path[PATH_MAX];
	cJSON *j = NULL;
	int rc = join(path, state_dir, PL_INSTALL_RECORD, err);

	if (rc == 0)
		rc = pl_json_load(path, &j, err);
	if (rc == -ENOENT) {
		pl_err_clear(err);
		j = cJSON_CreateArray();
		if (!j)
			pl_err_set(err, ENOMEM, "out of memory");
	} else if (rc == 0 && !cJSON_IsArray(j)) {
		cJSON_Delete(j);
		j = NULL;
		pl_err_set(err, EINVAL, "%s is no list of files", path);
	}
	return j;
}

static int record_save(const char *state_dir, const cJSON *list,
		       struct pl_err *err)
{
	char path[PATH_MAX];
	int rc = pl_mkdirs(state_dir, 0700, err);

	if (rc == 0)
		rc = join(path, state_dir, PL_INSTALL_RECORD, err);
	if (rc < 0)
		return rc;
	pl_install_sweep(path);
	return pl_json_save(path, list, 0600, err);
}

static cJSON *entry_new(const char *path, const char *data, size_t len)
{
	cJSON *e = cJSON_CreateObject();

	cJSON_AddStringToObject(e, "path", path);
	cJSON_AddNumberToObject(e, "bytes", (double)len);
	cJSON_AddNumberToObject(e, "crc32c", pl_crc32c(0, data, len));
	return e;
}

static bool record_has(const cJSON *list, const cJSON *entry)
{
	const cJSON *e;

	cJSON_ArrayForEach(e, list)
		if (cJSON_Compare(e, entry, true))
			return true;
	return false;
}

/* --- one file --- */

struct state {
	const struct pl_install_args *a;
	cJSON *record, *now;	/* what was, what is to be */
};

static int is_ours(const struct state *s, const char *path,
		   struct pl_err *err)
{
	pl_auto_free char *data = NULL;
	pl_auto_json *e = NULL;
	size_t len;
	int rc = pl_file_read(path, FILE_MAX, &data, &len, err);

	if (rc == -ENOENT) {
		pl_err_clear(err);
		return 0;
	}
	if (rc < 0)
		return rc;
	e = entry_new(path, data, len);
	if (s->a->force || record_has(s->record, e))
		return 0;
	return pl_err_set(err, EEXIST, "%s is there and was not put there by "
			  "podlaned install; remove it, or overwrite it with "
			  "--force", path);
}

/* What a file is to have. */
struct want {
	const char *data;
	size_t len;
	mode_t mode;
};

static bool is_same(const char *path, const struct want *w)
{
	pl_auto_free char *have = NULL;
	size_t n;
	struct stat st;

	return stat(path, &st) == 0 && (st.st_mode & 0777) == w->mode &&
	       pl_file_read(path, FILE_MAX, &have, &n, NULL) == 0 &&
	       n == w->len && !memcmp(have, w->data, w->len);
}

static int put(struct state *s, const struct want *w, const char *path,
	       struct pl_err *err)
{
	cJSON *e;
	int rc;

	pl_install_sweep(path);
	rc = is_same(path, w) ? 0 : is_ours(s, path, err);
	if (rc < 0)
		return rc;
	e = entry_new(path, w->data, w->len);
	/* A file that was there before us and is the same stays another's. */
	if (!record_has(s->record, e) && is_same(path, w)) {
		cJSON_Delete(e);
		return 0;
	}
	cJSON_AddItemToArray(s->now, cJSON_Duplicate(e, true));
	if (!record_has(s->record, e)) {
		cJSON_AddItemToArray(s->record, e);
		rc = record_save(s->a->state_dir, s->record, err);
	} else {
		cJSON_Delete(e);
	}
	if (rc < 0 || is_same(path, w))
		return rc;
	rc = pl_file_replace(path, w->data, w->len, w->mode, err);
	if (rc == 0)
		pl_info("installed %s", path);
	return rc;
}

static int put_file(struct state *s, const char *from, const char *path,
		    struct pl_err *err)
{
	pl_auto_free char *data = NULL;
	struct want w = { .mode = 0755 };
	int rc = pl_file_read(from, FILE_MAX, &data, &w.len, err);

	w.data = data;
	return rc < 0 ? rc : put(s, &w, path, err);
}

void pl_install_sweep(const char *path)
{
	char dir[PATH_MAX];
	const char *base = strrchr(path, '/');
	size_t n;
	struct dirent *d;
	DIR *f;

	if (!base || pl_format(dir, sizeof(dir), "%.*s", (int)(base - path),
			       path) < 0)
		return;
	f = opendir(dir);
	n = strlen(++base);
	while (f && (d = readdir(f))) {
		if (!strncmp(d->d_name, base, n) &&
		    !strncmp(d->d_name + n, ".tmp.", 5))
			unlinkat(dirfd(f), d->d_name, 0);
	}
	if (f)
		closedir(f);
}

/* --- the libraries --- */

/* fn for each name in dir but those with a dot in front. */
static int each(const char *dir, int (*fn)(const char *name, void *arg,
					   struct pl_err *err),
		void *arg, struct pl_err *err)
{
	struct dirent *d;
	DIR *f = opendir(dir);
	int rc = 0;

	if (!f)
		return errno == ENOENT ? 0 :
			       pl_err_sys(err, "cannot read %s", dir);
	while (rc == 0 && (d = readdir(f)))
		if (d->d_name[0] != '.')
			rc = fn(d->d_name, arg, err);
	closedir(f);
	return rc;
}

struct copy {
	struct state *s;
	char from[PATH_MAX], to[PATH_MAX];
};

static int copy_file(const char *name, void *arg, struct pl_err *err)
{
	const struct copy *c = arg;
	char from[PATH_MAX], to[PATH_MAX];

	if (join(from, c->from, name, err) < 0 ||
	    join(to, c->to, name, err) < 0)
		return -ENAMETOOLONG;
	return put_file(c->s, from, to, err);
}

/* A set of libraries has a folder of its own: another set never meets it. */
static int copy_set(const char *name, void *arg, struct pl_err *err)
{
	const struct copy *c = arg;
	struct copy in = { .s = c->s };
	int rc = join(in.from, c->from, name, err);

	if (rc == 0)
		rc = join(in.to, c->to, name, err);
	if (rc == 0)
		rc = pl_mkdirs(in.to, 0755, err);
	return rc < 0 ? rc : each(in.from, copy_file, &in, err);
}

static int drop_set(const char *name, void *arg, struct pl_err *err)
{
	const struct copy *c = arg;
	char path[PATH_MAX];
	int rc = join(path, c->from, name, err);

	if (rc < 0 || access(path, F_OK) == 0)
		return rc;
	rc = join(path, c->to, name, err);
	if (rc == 0)
		rc = pl_tree_remove(path);
	if (rc == 0)
		pl_info("removed %s", path);
	return rc < 0 ? pl_err_set(err, -rc, "cannot remove %s: %s", path,
				   strerror(-rc)) : 0;
}

/* --- containers that want the pods' library --- */

/*
 * A mount wherever dynamic linkers look without being told: LD_LIBRARY_PATH
 * would take the place of what the image has set.
 */
static char *cdi_text(void)
{
	static const char *const folders[] = { "/usr/lib", "/usr/lib64" };
	static const char *const options[] = { "ro", "nosuid", "nodev",
					       "bind" };
	static const char *const env =
		"PODLANE_LIBRARY=/usr/lib/" PL_INSTALL_POD_LIB;
	pl_auto_json *j = cJSON_CreateObject();
	cJSON *d = cJSON_CreateObject(), *e, *mounts;
	char path[64];

	cJSON_AddStringToObject(j, "cdiVersion", "0.3.0");
	cJSON_AddStringToObject(j, "kind", "podlane.io/lib");
	cJSON_AddItemToArray(cJSON_AddArrayToObject(j, "devices"), d);
	cJSON_AddStringToObject(d, "name", "all");
	e = cJSON_AddObjectToObject(d, "containerEdits");
	cJSON_AddItemToObject(e, "env", cJSON_CreateStringArray(&env, 1));
	mounts = cJSON_AddArrayToObject(e, "mounts");
	for (size_t i = 0; i < PL_ARRAY_SIZE(folders); i++) {
		cJSON *m = cJSON_CreateObject();

		snprintf(path, sizeof(path), "%s/" PL_INSTALL_POD_LIB,
			 folders[i]);
		cJSON_AddItemToArray(mounts, m);
		cJSON_AddStringToObject(m, "hostPath", PL_INSTALL_LIB_DIR
					"/pod/" PL_INSTALL_POD_LIB);
		cJSON_AddStringToObject(m, "containerPath", path);
		cJSON_AddItemToObject(m, "options", cJSON_CreateStringArray(
					options, PL_ARRAY_SIZE(options)));
	}
	return cJSON_Print(j);
}

/* Where there is no such library here, there is nothing to mount. */
static int put_cdi(struct state *s, struct pl_err *err)
{
	const char *dir = s->a->cni->cdi_dir;
	pl_auto_free char *text = NULL;
	char path[PATH_MAX];
	struct want w = { .mode = 0644 };

	if (!*dir || access(PL_INSTALL_LIB_DIR "/pod/" PL_INSTALL_POD_LIB,
			    F_OK) < 0)
		return 0;
	w.data = text = cdi_text();
	if (!text)
		return pl_err_set(err, ENOMEM, "out of memory");
	w.len = strlen(text);
	if (join(path, dir, "podlane.json", err) < 0)
		return -ENAMETOOLONG;
	/* Pods have their network without it. */
	if (pl_mkdirs(dir, 0755, err) < 0) {
		pl_warn("no CDI specification for the pods' library: %s (see "
			"cni.cdiDir)", err->msg);
		pl_err_clear(err);
		return 0;
	}
	return put(s, &w, path, err);
}

/* --- all of it --- */

static int put_all(struct state *s, struct pl_err *err)
{
	const struct pl_install_args *a = s->a;
	struct copy libs = { .s = s, .to = PL_INSTALL_LIB_DIR };
	int rc = join(libs.from, a->from, "lib", err);

	/* Plugins last: what they need is there by then. */
	if (rc == 0)
		rc = each(libs.from, copy_set, &libs, err);
	if (rc == 0)
		rc = put_cdi(s, err);
	if (rc == 0)
		rc = pl_mkdirs(a->cni->bin_dir, 0755, err);
	for (size_t i = 0; rc == 0 && i < PL_ARRAY_SIZE(plugins); i++) {
		char from[PATH_MAX], to[PATH_MAX];

		rc = join(from, a->from, plugins[i], err);
		if (rc == 0)
			rc = join(to, a->cni->bin_dir, plugins[i], err);
		if (rc == 0)
			rc = put_file(s, from, to, err);
	}
	return rc == 0 ? each(PL_INSTALL_LIB_DIR, drop_set, &libs, err) : rc;
}

int pl_install_files(const struct pl_install_args *a, struct pl_err *err)
{
	struct state s = { .a = a };
	int rc;

	s.record = record_load(a->state_dir, err);
	if (!s.record)
		return -err->code;
	s.now = cJSON_CreateArray();
	rc = put_all(&s, err);
	if (rc == 0 && !cJSON_Compare(s.now, s.record, true))
		rc = record_save(a->state_dir, s.now, err);
	cJSON_Delete(s.record);
	cJSON_Delete(s.now);
	return rc;
}

int pl_install_files_each(const char *state_dir,
			  int (*fn)(const char *path, bool is_ours, void *arg),
			  void *arg, struct pl_err *err)
{
	pl_auto_json *record = record_load(state_dir, err);
	const cJSON *e;
	int rc = 0;

	if (!record)
		return -err->code;
	for (e = record->child; rc == 0 && e; e = e->next) {
		pl_auto_free char *data = NULL;
		pl_auto_json *is = NULL;
		const char *path = NULL;
		size_t len;

		if (pl_json_str(e, "", "path", &path, NULL) <= 0)
			continue;
		if (pl_file_read(path, FILE_MAX, &data, &len, NULL) == 0)
			is = entry_new(path, data, len);
		rc = fn(path, is && cJSON_Compare(is, e, true), arg);
	}
	return rc;
}
