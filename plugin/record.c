/* plugin/record.c - what one attachment did, so that DEL can undo it */
#include "plugin/record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/json.h"
#include "common/util.h"

#define RECORD_MAX (64u << 20)
#define WAIT_STEP_MS 5
#define OPEN_TRIES 8
/* The file begins so; the digit is at DONE_AT. */
#define HEAD "{\"done\":0,\"boot\":\"%s\","
#define DONE_AT 8
#define BOOT_ID_LEN 36

static int boot_id(char *buf)
{
	pl_auto_fd fd = open("/proc/sys/kernel/random/boot_id",
			     O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, buf, BOOT_ID_LEN) != BOOT_ID_LEN)
		return -EIO;
	buf[BOOT_ID_LEN] = '\0';
	return 0;
}

static int make_path(const char *state_dir, const struct pl_attach *at,
		     struct pl_record *r, struct pl_err *err)
{
	int rc = pl_format(r->path, sizeof(r->path), "%s/%s/%s:%s", state_dir,
			   at->network, at->id, at->ifname);

	r->fd = -1;
	r->json = NULL;
	r->done = r->old_boot = false;
	if (rc < 0)
		return pl_err_set(err, ENAMETOOLONG,
				  "the path of the state file is too long; "
				  "choose a shorter stateDir than %s",
				  state_dir);
	return 0;
}

/* Open with O_EXCL; makes the folders when they are not there. */
static int create_file(struct pl_record *r, struct pl_err *err)
{
	int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
	char *slash = strrchr(r->path, '/');
	int rc;

	r->fd = open(r->path, flags, 0600);
	if (r->fd < 0 && errno == ENOENT) {
		*slash = '\0';
		rc = pl_mkdirs(r->path, 0700, err);
		*slash = '/';
		if (rc < 0)
			return rc;
		r->fd = open(r->path, flags, 0600);
	}
	if (r->fd < 0)
		return pl_err_sys(err, "cannot create %s", r->path);
	return 0;
}

static int write_record(int fd, const cJSON *json, struct pl_err *err)
{
	pl_auto_free char *text = cJSON_PrintUnformatted(json);
	pl_auto_free char *all = NULL;
	char boot[BOOT_ID_LEN + 1];
	int n, rc;

	if (boot_id(boot) < 0)
		return pl_err_sys(err, "cannot read the boot id");
	/* text is "{...}" */
	n = text ? asprintf(&all, HEAD "%s\n", boot, text + 1) : -1;
	if (n < 0) {
		all = NULL;
		return pl_err_set(err, ENOMEM, "out of memory");
	}
	rc = pl_write_all(fd, all, (size_t)n);
	if (rc < 0)
		return pl_err_set(err, -rc, "cannot write the state file: %s",
				  strerror(-rc));
	return 0;
}

/* A DEL that came in between may hold the new file, or have removed it. */
static int own(struct pl_record *r, struct pl_err *err)
{
	struct stat st;

	if (flock(r->fd, LOCK_EX | LOCK_NB) < 0 || fstat(r->fd, &st) < 0 ||
	    st.st_nlink == 0)
		return pl_err_set(err, EBUSY,
				  "another process works on this attachment "
				  "(%s)", r->path);
	return 0;
}

int pl_record_create(const char *state_dir, const struct pl_attach *at,
		     const cJSON *json, struct pl_record *r,
		     struct pl_err *err)
{
	int rc = make_path(state_dir, at, r, err);

	if (rc == 0)
		rc = create_file(r, err);
	if (rc < 0)
		return rc;
	rc = own(r, err);
	if (rc == 0)
		rc = write_record(r->fd, json, err);
	if (rc == 0)
		return 0;
	if (rc != -EBUSY)
		unlink(r->path);
	pl_record_close(r);
	return rc;
}

/* 0 when locked; -ESTALE when the file is no longer the one of that name. */
static int lock(struct pl_record *r, int wait_ms, struct pl_err *err)
{
	struct timespec step = { .tv_nsec = WAIT_STEP_MS * 1000000L };
	struct stat a, b;

	while (flock(r->fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return pl_err_sys(err, "cannot lock %s", r->path);
		if (wait_ms <= 0)
			return pl_err_set(err, EBUSY,
					  "another process works on this "
					  "attachment (%s)", r->path);
		nanosleep(&step, NULL);
		wait_ms -= WAIT_STEP_MS;
	}
	if (fstat(r->fd, &a) < 0)
		return pl_err_sys(err, "cannot stat %s", r->path);
	if (stat(r->path, &b) < 0 || a.st_ino != b.st_ino ||
	    a.st_dev != b.st_dev)
		return -ESTALE;
	return 0;
}

static void read_record(struct pl_record *r)
{
	char boot[BOOT_ID_LEN + 1];
	const char *made_in = "";
	pl_auto_free char *text = NULL;
	int64_t done = 0;
	struct stat st;
	ssize_t n;

	if (fstat(r->fd, &st) < 0 || st.st_size <= 0 || st.st_size > RECORD_MAX)
		return;
	text = malloc((size_t)st.st_size + 1);
	n = text ? pread(r->fd, text, (size_t)st.st_size, 0) : -1;
	if (n <= 0 || pl_json_parse(text, (size_t)n, &r->json, NULL) < 0)
		return;
	if (!cJSON_IsObject(r->json) ||
	    pl_json_int(r->json, "", "done", 0, 1, &done, NULL) < 0 ||
	    pl_json_str(r->json, "", "boot", &made_in, NULL) < 0) {
		cJSON_Delete(r->json);
		r->json = NULL;
		return;
	}
	r->done = done;
	r->old_boot = boot_id(boot) == 0 && strcmp(boot, made_in);
}

/* Where nothing can be written it can still be read, and locked. */
static int open_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0 && (errno == EROFS || errno == EACCES || errno == EISDIR))
		fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd;
}

int pl_record_open(const char *state_dir, const struct pl_attach *at,
		   int wait_ms, struct pl_record *r, struct pl_err *err)
{
	int rc = make_path(state_dir, at, r, err);

	/* While we waited, it may have been removed, and made anew. */
	for (int i = 0; rc == 0 && i < OPEN_TRIES; i++) {
		r->fd = open_file(r->path);
		if (r->fd < 0)
			return pl_err_sys(err, "cannot open %s", r->path);
		rc = lock(r, wait_ms, err);
		if (rc == 0) {
			read_record(r);
			return 0;
		}
		pl_record_close(r);
		if (rc == -ESTALE)
			rc = 0;
	}
	return rc < 0 ? rc : pl_err_set(err, EBUSY, "%s comes and goes",
					r->path);
}

int pl_record_done(struct pl_record *r, struct pl_err *err)
{
	ssize_t n = pwrite(r->fd, "1", 1, DONE_AT);

	if (n != 1)
		return pl_err_sys(err, "cannot write %s", r->path);
	r->done = true;
	return 0;
}

int pl_record_remove(struct pl_record *r, struct pl_err *err)
{
	int rc = 0;

	/* Also the folder that somebody has put in the place of the file. */
	if (r->fd >= 0 && remove(r->path) < 0 && errno != ENOENT)
		rc = pl_err_sys(err, "cannot remove %s", r->path);
	pl_record_close(r);
	return rc;
}

void pl_record_close(struct pl_record *r)
{
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
	cJSON_Delete(r->json);
	r->json = NULL;
}

/* "ID:IFNAME"; neither has a colon. Cuts name in two. */
static bool split(char *name, struct pl_attach *at)
{
	char *colon = strchr(name, ':');

	if (!colon)
		return false;
	*colon = '\0';
	at->id = name;
	at->ifname = colon + 1;
	return *at->id && *at->ifname;
}

int pl_record_each(const char *state_dir, const char *network,
		   int (*fn)(const struct pl_attach *at, void *arg), void *arg,
		   struct pl_err *err)
{
	struct pl_attach at = { .network = network };
	char path[4096];
	struct dirent *e;
	int rc = 0;
	DIR *d;

	if (pl_format(path, sizeof(path), "%s/%s", state_dir, network) < 0)
		return pl_err_set(err, ENAMETOOLONG, "stateDir is too long");
	d = opendir(path);
	if (!d && errno == ENOENT)
		return 0;
	if (!d)
		return pl_err_sys(err, "cannot read %s", path);
	while (rc == 0 && (e = readdir(d))) {
		if (split(e->d_name, &at))
			rc = fn(&at, arg);
	}
	closedir(d);
	return rc;
}

/* FNV-1a, with the NUL of each string, and a mixer at the end. */
static uint64_t hash(const struct pl_attach *at)
{
	const char *part[] = { at->network, at->id, at->ifname };
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < PL_ARRAY_SIZE(part); i++) {
		size_t n = strlen(part[i]) + 1;

		for (size_t k = 0; k < n; k++)
			h = (h ^ (uint8_t)part[i][k]) * 0x100000001b3u;
	}
	h = (h ^ h >> 33) * 0xff51afd7ed558ccdu;
	h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
	return h ^ h >> 33;
}

static void name_of(const struct pl_attach *at, const char *prefix, char *buf)
{
	static const char digits[] = "0123456789abcdefghijklmnopqrstuv";
	uint64_t h = hash(at);
	int n = 0;

	buf[n++] = prefix[0];
	buf[n++] = prefix[1];
	/* 13 digits of 5 bits hold 64 bits. */
	for (; n < 15; h >>= 5)
		buf[n++] = digits[h & 31];
	buf[n] = '\0';
}

void pl_record_host_ifname(const struct pl_attach *at, char *buf)
{
	name_of(at, "pl", buf);
}

void pl_record_ifb_name(const struct pl_attach *at, char *buf)
{
	name_of(at, "pi", buf);
}
