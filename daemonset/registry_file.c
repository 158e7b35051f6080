/* daemonset/registry_file.c - read the registry again when its file changes */
#include "daemonset/registry_file.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/log.h"
#include "common/util.h"
#include "daemonset/file_watch.h"

struct pl_registry_file {
	char path[PATH_MAX];
	pl_registry_fn *fn;
	void *arg;
	struct pl_registry now;
	struct pl_err problem;
	struct pl_file_watch *watch;
};

static int load(const char *path, struct pl_registry *out, struct pl_err *err)
{
	pl_auto_json *json = NULL;
	int rc = pl_json_load(path, &json, err);

	if (rc < 0)
		return rc;
	pl_registry_init(out);
	rc = pl_registry_parse(json, out, err);
	if (rc < 0) {
		pl_registry_fini(out);
		pl_err_prefix(err, "%s", path);
	}
	return rc;
}

static void reload(void *arg)
{
	struct pl_registry_file *f = arg;
	struct pl_registry was = f->now, now;
	struct pl_err err = { 0 };

	if (load(f->path, &now, &err) < 0) {
		if (strcmp(err.msg, f->problem.msg))
			pl_warn("%s; the nodes stay as they were", err.msg);
		f->problem = err;
		return;
	}
	if (f->problem.code)
		pl_info("%s is good again", f->path);
	pl_err_clear(&f->problem);
	if (pl_registry_equal(&was, &now)) {
		pl_registry_fini(&now);
		return;
	}
	pl_info("%s: %zu nodes, were %zu", f->path, now.n, was.n);
	f->now = now;
	f->fn(&was, &f->now, f->arg);
	pl_registry_fini(&was);
}

int pl_registry_file_open(struct event_base *base, const char *path,
			  pl_registry_fn *fn, void *arg,
			  struct pl_registry_file **out, struct pl_err *err)
{
	struct pl_registry_file *f = calloc(1, sizeof(*f));
	int rc;

	if (!f)
		return pl_err_set(err, ENOMEM, "out of memory");
	f->fn = fn;
	f->arg = arg;
	rc = pl_file_watch_open(base, path, reload, f, &f->watch, err);
	if (rc == 0) {
		pl_format(f->path, sizeof(f->path), "%s", path);
		rc = load(f->path, &f->now, err);
	}
	if (rc < 0) {
		pl_registry_file_close(f);
		return rc;
	}
	*out = f;
	return 0;
}

void pl_registry_file_close(struct pl_registry_file *f)
{
	if (!f)
		return;
	pl_file_watch_close(f->watch);
	pl_registry_fini(&f->now);
	free(f);
}

const struct pl_registry *
pl_registry_file_table(const struct pl_registry_file *f)
{
	return &f->now;
}

const char *pl_registry_file_problem(const struct pl_registry_file *f)
{
	return f->problem.msg;
}
