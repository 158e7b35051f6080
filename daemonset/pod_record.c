/*
 * daemonset/pod_record.c - registrations that outlive the agent
 *
 * One file per registration, replaced as a whole and not synced to the disk:
 * what was handed to the kernel survives the death of any process, and when
 * the kernel dies the namespaces die with it and the boot id tells. A file
 * that is empty or damaged after such a crash is removed like any stale one.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "common/util.h"
#include "daemonset/pod.h"

#define RECORD_MAX 65536
#define RECORD_SUFFIX ".json"

static int record_path(const struct pl_pods *p, const char *name,
		       const char *suffix, char *buf, struct pl_err *err)
{
	int rc = pl_format(buf, PATH_MAX, "%s/%s%s", p->dir, name, suffix);

	return rc < 0 ? pl_err_set(err, -rc, "stateDir is too long") : 0;
}

/* As text: a JSON number has 53 bits. */
static void add_u64(cJSON *j, const char *key, uint64_t v)
{
	char buf[24];

	snprintf(buf, sizeof(buf), "%" PRIu64, v);
	cJSON_AddStringToObject(j, key, buf);
}

static int get_u64(const cJSON *j, const char *key, uint64_t *out,
		   struct pl_err *err)
{
	const char *s = "";

	if (pl_json_str(j, "", key, &s, err) < 0)
		return -EINVAL;
	if (pl_parse_u64(s, 0, UINT64_MAX, out) < 0)
		return pl_err_set(err, EINVAL, "%s is no number", key);
	return 0;
}

static void add_undo(cJSON *j, const struct pl_reg_undo *undo)
{
	cJSON *u;

	if (!*undo->plugin)
		return;
	u = cJSON_AddObjectToObject(j, "undo");
	cJSON_AddStringToObject(u, "plugin", undo->plugin);
	cJSON_AddStringToObject(u, "stateDir", undo->state_dir);
	cJSON_AddStringToObject(u, "cniPath", undo->cni_path);
	if (*undo->link)
		cJSON_AddStringToObject(u, "link", undo->link);
}

int pl_reg_record_write(const struct pl_pods *p, const struct pl_reg *reg,
		    struct pl_err *err)
{
	pl_auto_json *j = pl_reg_json(reg);
	pl_auto_free char *text = NULL;
	char path[PATH_MAX];
	int rc = record_path(p, reg->key, RECORD_SUFFIX, path, err);

	if (rc < 0)
		return rc;
	cJSON_AddStringToObject(j, "boot", p->boot);
	add_undo(j, &reg->undo);
	add_u64(j, "dev", reg->dev);
	add_u64(j, "ino", reg->ino);
	add_u64(j, "cookie", reg->cookie);
	text = cJSON_PrintUnformatted(j);
	if (!text)
		return pl_err_set(err, ENOMEM, "out of memory");
	return pl_file_replace_nosync(path, text, strlen(text), 0600, err);
}

void pl_reg_record_remove(const struct pl_pods *p, const char *key)
{
	char path[PATH_MAX];

	if (record_path(p, key, RECORD_SUFFIX, path, NULL) == 0)
		unlink(path);
}

static int record_parse(const struct pl_pods *p, const cJSON *j,
			struct pl_reg *reg, struct pl_err *err)
{
	const char *boot = "";
	int rc = pl_reg_parse(j, reg, err);

	if (rc == 0)
		rc = pl_json_str(j, "", "boot", &boot, err);
	if (rc >= 0 && strcmp(boot, p->boot))
		return pl_err_set(err, ESTALE, "it is from before the boot");
	if (rc >= 0)
		rc = get_u64(j, "dev", &reg->dev, err);
	if (rc == 0)
		rc = get_u64(j, "ino", &reg->ino, err);
	if (rc == 0)
		rc = get_u64(j, "cookie", &reg->cookie, err);
	return rc;
}

static int record_read(const struct pl_pods *p, const char *name,
		       struct pl_reg *reg, struct pl_err *err)
{
	pl_auto_free char *text = NULL;
	pl_auto_json *j = NULL;
	char path[PATH_MAX];
	size_t len, n;
	int rc = record_path(p, name, "", path, err);

	if (rc == 0)
		rc = pl_file_read(path, RECORD_MAX, &text, &len, err);
	if (rc == 0)
		rc = pl_json_parse(text, len, &j, err);
	if (rc == 0)
		rc = record_parse(p, j, reg, err);
	if (rc < 0)
		return rc;
	n = strlen(reg->key);
	if (strncmp(name, reg->key, n) || strcmp(name + n, RECORD_SUFFIX))
		return pl_err_set(err, EINVAL, "it belongs to another name");
	return 0;
}

static bool has_suffix(const char *name)
{
	size_t n = strlen(name), m = strlen(RECORD_SUFFIX);

	return n > m && !strcmp(name + n - m, RECORD_SUFFIX);
}

/* A name as pl_file_replace makes it: another agent's death left it. */
static bool is_leftover(const char *name)
{
	return strstr(name, RECORD_SUFFIX ".tmp.") != NULL;
}

static void one(struct pl_pods *p, const char *name,
		void (*fn)(struct pl_pods *p, struct pl_reg *reg))
{
	char path[PATH_MAX];
	struct pl_err err;
	struct pl_reg reg;
	int rc;

	if (record_path(p, name, "", path, NULL) < 0)
		return;
	if (is_leftover(name)) {
		unlink(path);
		return;
	}
	if (!has_suffix(name))
		return;
	rc = record_read(p, name, &reg, &err);
	if (rc == 0) {
		fn(p, &reg);
	} else if (rc == -EINVAL || rc == -ESTALE) {
		pl_warn("record %s is of no use, removed: %s", path, err.msg);
		unlink(path);
	} else {
		pl_error("record %s: %s", path, err.msg);
	}
}

int pl_reg_record_each(struct pl_pods *p,
		   void (*fn)(struct pl_pods *p, struct pl_reg *reg),
		   struct pl_err *err)
{
	struct dirent **names;
	int n = scandir(p->dir, &names, NULL, NULL);

	if (n < 0)
		return pl_err_sys(err, "cannot read %s", p->dir);
	for (int i = 0; i < n; i++) {
		one(p, names[i]->d_name, fn);
		free(names[i]);
	}
	free(names);
	return 0;
}
