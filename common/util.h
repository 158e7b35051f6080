/*
 * common/util.h - ownership helpers, small files, time
 *
 * Needs libc only, so the pods' libraries may use it.
 */
#ifndef COMMON_UTIL_H
#define COMMON_UTIL_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include "common/err.h"

#define PL_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define PL_MIN(a, b) ((a) < (b) ? (a) : (b))
#define PL_MAX(a, b) ((a) > (b) ? (a) : (b))

static inline void pl_close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static inline void pl_free_ptr(void *p)
{
	free(*(void **)p);
}

/* A descriptor or block that is released when it goes out of scope. */
#define pl_auto_fd __attribute__((cleanup(pl_close_fd))) int
#define pl_auto_free __attribute__((cleanup(pl_free_ptr)))

/* The only way out of a pl_auto_fd: the caller owns what is returned. */
static inline int pl_take_fd(int *fd)
{
	int r = *fd;

	*fd = -1;
	return r;
}

static inline void *pl_take_ptr_(void *p)
{
	void *r = *(void **)p;

	*(void **)p = NULL;
	return r;
}
/* The same for a pl_auto_free pointer: pl_take_ptr(&p). */
#define pl_take_ptr(p) ((__typeof__(*(p)))pl_take_ptr_(p))

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t pl_now_ns(void);

/*
 * Read a whole file, at most max_bytes; *out is NUL terminated, to be freed
 * with free(). -EFBIG when it is larger.
 */
int pl_file_read(const char *path, size_t max_bytes, char **out, size_t *len,
		 struct pl_err *err);

/*
 * Replace path by a file of this content so that a crash or a full disk at any
 * moment leaves the old or the new content, never a mixture: temporary name in
 * the same directory, write, fsync, rename, fsync of the directory. What is no
 * file (a link, a device such as /dev/stdout, a pipe) is written to and stays.
 */
int pl_file_replace(const char *path, const void *data, size_t len,
		    mode_t mode, struct pl_err *err);

/*
 * The same without the fsyncs, some milliseconds faster: what the kernel was
 * given survives the kill of any process. After a crash of the machine the
 * file may be empty or the old one; for what such a crash makes worthless
 * anyway (network namespaces), and whose reader puts up with an empty file.
 */
int pl_file_replace_nosync(const char *path, const void *data, size_t len,
			   mode_t mode, struct pl_err *err);

/* mkdir -p; mode is for the last one, 0755 for those on the way. */
int pl_mkdirs(const char *path, mode_t mode, struct pl_err *err);

/* Write all of it, whatever write() returns in between. 0 or -errno. */
int pl_write_all(int fd, const void *data, size_t len);

/* snprintf that fails with -ENAMETOOLONG instead of cutting off. */
int pl_format(char *buf, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Whole string to a number within [min, max]; -EINVAL or -ERANGE. */
int pl_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *out);

#endif
