/* daemonset/counts.c - what pods did and were refused, in shared memory */
#include "daemonset/counts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/util.h"

static int path_of(char path[PATH_MAX], const char *dir,
		   const struct pl_counts_key *key, struct pl_err *err)
{
	if (pl_format(path, PATH_MAX, "%s/%" PRIu64 "-%" PRIu64, dir, key->dev,
		      key->ino) < 0)
		return pl_err_set(err, ENAMETOOLONG, "%s is too long", dir);
	return 0;
}

static bool is_counts(const struct pl_pod_counts *c)
{
	return c->magic == PL_POD_COUNTS_MAGIC &&
	       c->version == PL_POD_COUNTS_VERSION;
}

/* All of its one page is there before it is mapped. */
static int file_map(const char *path, int flags, struct pl_pod_counts **out,
		    struct pl_err *err)
{
	pl_auto_fd fd = open(path, flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW,
			     0600);
	void *p;
	int rc;

	if (fd < 0)
		return pl_err_sys(err, "cannot open %s", path);
	rc = posix_fallocate(fd, 0, PL_POD_COUNTS_BYTES);
	if (rc)
		return pl_err_set(err, rc, "cannot make %s: %s", path,
				  strerror(rc));
	p = mmap(NULL, PL_POD_COUNTS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
		 fd, 0);
	if (p == MAP_FAILED)
		return pl_err_sys(err, "cannot map %s", path);
	*out = p;
	return 0;
}

static int file_new(const char *path, const struct pl_counts_key *key,
		    struct pl_pod_counts **out, struct pl_err *err)
{
	struct pl_pod_counts *c;
	int rc;

	/* Not truncated: whoever has the old one mapped may go on reading. */
	if (unlink(path) < 0 && errno != ENOENT)
		return pl_err_sys(err, "cannot remove %s", path);
	rc = file_map(path, O_CREAT | O_EXCL, &c, err);
	if (rc < 0)
		return rc;
	c->version = PL_POD_COUNTS_VERSION;
	c->cookie = key->cookie;
	c->magic = PL_POD_COUNTS_MAGIC;
	*out = c;
	return 0;
}

int pl_counts_open(const char *dir, const struct pl_counts_key *key,
		   bool is_restored, struct pl_pod_counts **out,
		   struct pl_err *err)
{
	struct pl_pod_counts *c;
	char path[PATH_MAX];
	int rc = pl_mkdirs(dir, 0755, err);

	if (rc == 0)
		rc = path_of(path, dir, key, err);
	if (rc < 0)
		return rc;
	if (is_restored && file_map(path, 0, &c, NULL) == 0) {
		if (is_counts(c) && c->cookie == key->cookie) {
			*out = c;
			return 0;
		}
		pl_counts_close(c);
	}
	return file_new(path, key, out, err);
}

void pl_counts_close(struct pl_pod_counts *c)
{
	if (c)
		munmap(c, PL_POD_COUNTS_BYTES);
}

void pl_counts_remove(const char *dir, const struct pl_counts_key *key)
{
	char path[PATH_MAX];

	if (path_of(path, dir, key, NULL) == 0)
		unlink(path);
}

static bool name_parse(const char *name, uint64_t *dev, uint64_t *ino)
{
	int n = -1;

	return sscanf(name, "%" SCNu64 "-%" SCNu64 "%n", dev, ino, &n) == 2 &&
	       n > 0 && !name[n];
}

void pl_counts_sweep(const char *dir,
		     bool (*has)(uint64_t dev, uint64_t ino, void *arg),
		     void *arg)
{
	DIR *d = opendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		struct pl_counts_key key = { 0 };

		if (name_parse(e->d_name, &key.dev, &key.ino) &&
		    !has(key.dev, key.ino, arg))
			pl_counts_remove(dir, &key);
	}
	if (d)
		closedir(d);
}

void pl_counts_name(struct pl_pod_counts *c, const char *ns, const char *name)
{
	snprintf(c->ns, sizeof(c->ns), "%s", ns);
	snprintf(c->name, sizeof(c->name), "%s", name);
}

/* --- as JSON -------------------------------------------------------------- */

static void add_event(cJSON *j, const char *key, const struct pl_pod_counts *c,
		      enum pl_pod_event e)
{
	cJSON_AddNumberToObject(j, key, (double)pl_stat_read(&c->events[e]));
}

cJSON *pl_counts_refused_json(const struct pl_pod_counts *c)
{
	cJSON *j = cJSON_CreateObject();

	add_event(j, "quota", c, PL_POD_REFUSED_QUOTA);
	add_event(j, "halfOpen", c, PL_POD_REFUSED_HALF_OPEN);
	add_event(j, "policy", c, PL_POD_REFUSED_POLICY);
	return j;
}

static cJSON *counts_json(const struct pl_pod_counts *c)
{
	cJSON *j = cJSON_CreateObject();
	cJSON *pod = cJSON_AddObjectToObject(j, "pod");
	struct pl_flow tx, rx;
	char text[sizeof(c->name)];

	snprintf(text, sizeof(text), "%.*s", (int)sizeof(c->ns) - 1, c->ns);
	cJSON_AddStringToObject(pod, "namespace", text);
	snprintf(text, sizeof(text), "%.*s", (int)sizeof(c->name) - 1, c->name);
	cJSON_AddStringToObject(pod, "name", text);
	pl_pod_counts_flows(c, &tx, &rx);
	cJSON_AddItemToObject(j, "sent", pl_flow_json(&tx, true));
	cJSON_AddItemToObject(j, "received", pl_flow_json(&rx, true));
	add_event(j, "lanesEnded", c, PL_POD_LANES);
	cJSON_AddItemToObject(j, "refused", pl_counts_refused_json(c));
	add_event(j, "complaints", c, PL_POD_COMPLAINTS);
	return j;
}

/* Read-only: podlanectl is not the writer. */
static void add_file(cJSON *list, const char *path)
{
	pl_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;
	void *p;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size != PL_POD_COUNTS_BYTES)
		return;
	p = mmap(NULL, PL_POD_COUNTS_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return;
	if (is_counts(p))
		cJSON_AddItemToArray(list, counts_json(p));
	munmap(p, PL_POD_COUNTS_BYTES);
}

int pl_counts_list(const char *run_dir, cJSON **out, struct pl_err *err)
{
	char dir[PATH_MAX], path[PATH_MAX];
	struct dirent *e;
	DIR *d;

	if (pl_format(dir, sizeof(dir), "%s/" PL_COUNTS_DIR, run_dir) < 0)
		return pl_err_set(err, ENAMETOOLONG, "--run-dir is too long");
	d = opendir(dir);
	if (!d)
		return pl_err_sys(err, "cannot read %s; has podlaned served "
				  "pods on this node?", dir);
	*out = cJSON_CreateArray();
	while ((e = readdir(d))) {
		uint64_t dev, ino;

		if (name_parse(e->d_name, &dev, &ino) &&
		    pl_format(path, sizeof(path), "%s/%s", dir, e->d_name) >= 0)
			add_file(*out, path);
	}
	closedir(d);
	return 0;
}
