/* common/util.c - ownership helpers, small files, time */
#include "common/util.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

uint64_t pl_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int pl_file_read(const char *path, size_t max_bytes, char **out, size_t *len,
		 struct pl_err *err)
{
	pl_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	pl_auto_free char *buf = NULL;
	size_t cap = 0, n = 0;

	if (fd < 0)
		return pl_err_sys(err, "cannot open %s", path);
	for (;;) {
		ssize_t r;

		if (cap - n < 2) {
			char *p = realloc(buf, cap ? cap * 2 : 4096);

			if (!p)
				return pl_err_set(err, ENOMEM, "out of memory");
			buf = p;
			cap = cap ? cap * 2 : 4096;
		}
		r = read(fd, buf + n, cap - n - 1);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return pl_err_sys(err, "cannot read %s", path);
		if (r == 0)
			break;
		n += (size_t)r;
		if (n > max_bytes)
			return pl_err_set(err, EFBIG,
					  "%s is larger than %zu bytes", path,
					  max_bytes);
	}
	buf[n] = '\0';
	*out = pl_take_ptr(&buf);
	if (len)
		*len = n;
	return 0;
}

int pl_write_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len) {
		ssize_t r = write(fd, p, len);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		p += r;
		len -= (size_t)r;
	}
	return 0;
}

static int sync_parent(const char *path)
{
	char dir[PATH_MAX];
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 0;

	if (n >= sizeof(dir))
		return -ENAMETOOLONG;
	if (!slash) {
		dir[0] = '.';
		n = 1;
	} else if (n == 0) {
		dir[0] = '/';
		n = 1;
	} else {
		memcpy(dir, path, n);
	}
	dir[n] = '\0';

	pl_auto_fd fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fsync(fd) < 0)
		return -errno;
	return 0;
}

static int replace(const char *path, const void *data, size_t len, mode_t mode,
		   int sync, struct pl_err *err)
{
	char tmp[PATH_MAX];
	int rc;

	rc = pl_format(tmp, sizeof(tmp), "%s.tmp.%d", path, (int)getpid());
	if (rc < 0)
		return pl_err_set(err, -rc, "path too long: %s", path);

	pl_auto_fd fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
			     mode);

	if (fd < 0)
		return pl_err_sys(err, "cannot create %s", tmp);
	rc = pl_write_all(fd, data, len);
	if (rc == 0 && sync && fsync(fd) < 0)
		rc = -errno;
	if (rc == 0 && rename(tmp, path) < 0)
		rc = -errno;
	if (rc < 0) {
		unlink(tmp);
		return pl_err_set(err, -rc, "cannot write %s: %s", path,
				  strerror(-rc));
	}
	rc = sync ? sync_parent(path) : 0;
	if (rc < 0)
		return pl_err_set(err, -rc, "cannot sync the folder of %s: %s",
				  path, strerror(-rc));
	return 0;
}

/* Not a file, a folder or nothing: /dev/stdout, a pipe, a device. */
static int is_special(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && !S_ISREG(st.st_mode) &&
	       !S_ISDIR(st.st_mode);
}

static int write_special(const char *path, const void *data, size_t len,
			 struct pl_err *err)
{
	pl_auto_fd fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	int rc;

	if (fd < 0)
		return pl_err_sys(err, "cannot open %s", path);
	rc = pl_write_all(fd, data, len);
	return rc < 0 ? pl_err_set(err, -rc, "cannot write %s: %s", path,
				   strerror(-rc)) : 0;
}

int pl_file_replace(const char *path, const void *data, size_t len,
		    mode_t mode, struct pl_err *err)
{
	if (is_special(path))
		return write_special(path, data, len, err);
	return replace(path, data, len, mode, 1, err);
}

int pl_file_replace_nosync(const char *path, const void *data, size_t len,
			   mode_t mode, struct pl_err *err)
{
	return replace(path, data, len, mode, 0, err);
}

static int make_dir(const char *path, mode_t mode, struct pl_err *err)
{
	struct stat st;

	if (mkdir(path, mode) == 0)
		return 0;
	if (errno != EEXIST)
		return pl_err_sys(err, "cannot create %s", path);
	if (stat(path, &st) < 0)
		return pl_err_sys(err, "cannot look at %s", path);
	if (!S_ISDIR(st.st_mode))
		return pl_err_set(err, ENOTDIR, "%s is there and no folder",
				  path);
	return 0;
}

int pl_mkdirs(const char *path, mode_t mode, struct pl_err *err)
{
	char buf[PATH_MAX];
	int rc = pl_format(buf, sizeof(buf), "%s", path);

	if (rc < 0)
		return pl_err_set(err, -rc, "path too long: %s", path);
	if (rc == 0)
		return pl_err_set(err, ENOENT, "the path of a folder is empty");
	/* "a/b/": b is the last one, and gets mode. */
	for (size_t n = (size_t)rc; n > 1 && buf[n - 1] == '/'; n--)
		buf[n - 1] = '\0';
	for (char *p = buf + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		rc = make_dir(buf, 0755, err);
		if (rc < 0)
			return rc;
		*p = '/';
	}
	return make_dir(buf, mode, err);
}

int pl_format(char *buf, size_t size, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(buf, size, fmt, ap);
	va_end(ap);
	if (n < 0)
		return -EINVAL;
	return (size_t)n < size ? n : -ENAMETOOLONG;
}

int pl_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *out)
{
	unsigned long long v;
	char *end;

	if (!isdigit((unsigned char)*s))
		return -EINVAL;
	errno = 0;
	v = strtoull(s, &end, 10);
	if (*end)
		return -EINVAL;
	if (errno == ERANGE || v < min || v > max)
		return -ERANGE;
	*out = v;
	return 0;
}
