/* tests/unit/test_common_util.c - common/util.h and common/err.h */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "common/util.h"

struct dir {
	char path[64];
	char file[128];
};

static int setup(void **state)
{
	struct dir *d = calloc(1, sizeof(*d));

	snprintf(d->path, sizeof(d->path), "/tmp/podlane-unit.XXXXXX");
	assert_non_null(mkdtemp(d->path));
	snprintf(d->file, sizeof(d->file), "%s/f", d->path);
	*state = d;
	return 0;
}

static int teardown(void **state)
{
	struct dir *d = *state;
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", d->path);
	assert_int_equal(system(cmd), 0);
	free(d);
	return 0;
}

static void err_messages(void **state)
{
	struct pl_err e = { 0 };

	(void)state;
	assert_int_equal(pl_err_set(&e, EINVAL, "x=%d", 7), -EINVAL);
	assert_int_equal(e.code, EINVAL);
	assert_string_equal(e.msg, "x=7");
	pl_err_prefix(&e, "file %s", "f");
	assert_string_equal(e.msg, "file f: x=7");
	assert_int_equal(e.code, EINVAL);
	errno = ENOENT;
	assert_int_equal(pl_err_sys(&e, "open"), -ENOENT);
	assert_string_equal(e.msg, "open: No such file or directory");
	pl_err_clear(&e);
	assert_int_equal(e.code, 0);
	assert_string_equal(e.msg, "");
}

static void err_null(void **state)
{
	(void)state;
	assert_int_equal(pl_err_set(NULL, EPERM, "x"), -EPERM);
	errno = EIO;
	assert_int_equal(pl_err_sys(NULL, "x"), -EIO);
	pl_err_prefix(NULL, "x");
	pl_err_clear(NULL);
}

/* Longer than there is room for: cut off, never past the end. */
static void err_long(void **state)
{
	struct {
		struct pl_err e;
		char guard[8];
	} s = { .guard = "guarded" };
	char text[3000];

	(void)state;
	memset(text, 'y', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	pl_err_set(&s.e, EINVAL, "%s", text);
	assert_int_equal(strlen(s.e.msg), PL_ERR_MSG_BYTES - 1);
	pl_err_prefix(&s.e, "front");
	assert_int_equal(strlen(s.e.msg), PL_ERR_MSG_BYTES - 1);
	assert_memory_equal(s.e.msg, "front: yyy", 10);
	pl_err_prefix(&s.e, "%s", text);
	assert_int_equal(strlen(s.e.msg), PL_ERR_MSG_BYTES - 1);
	errno = EIO;
	pl_err_sys(&s.e, "%s", text);
	assert_int_equal(strlen(s.e.msg), PL_ERR_MSG_BYTES - 1);
	assert_string_equal(s.guard, "guarded");
}

static void numbers(void **state)
{
	static const struct {
		const char *text;
		uint64_t min, max;
		int rc;
		uint64_t value;
	} t[] = {
		{ "0", 0, 9, 0, 0 },
		{ "18446744073709551615", 0, UINT64_MAX, 0, UINT64_MAX },
		{ "18446744073709551616", 0, UINT64_MAX, -ERANGE, 0 },
		{ "10", 0, 9, -ERANGE, 0 },
		{ "1", 2, 9, -ERANGE, 0 },
		{ "", 0, 9, -EINVAL, 0 },
		{ "-1", 0, UINT64_MAX, -EINVAL, 0 },
		{ "+1", 0, 9, -EINVAL, 0 },
		{ " 1", 0, 9, -EINVAL, 0 },
		{ "1 ", 0, 9, -EINVAL, 0 },
		{ "0x1", 0, 9, -EINVAL, 0 },
		{ "1k", 0, 9, -EINVAL, 0 },
		{ "007", 0, 9, 0, 7 },
	};

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(t); i++) {
		uint64_t v = 42;

		assert_int_equal(pl_parse_u64(t[i].text, t[i].min, t[i].max,
					      &v), t[i].rc);
		assert_int_equal(v, t[i].rc ? 42 : t[i].value);
	}
}

static void format(void **state)
{
	char buf[8];

	(void)state;
	assert_int_equal(pl_format(buf, sizeof(buf), "%s", "1234567"), 7);
	assert_string_equal(buf, "1234567");
	assert_int_equal(pl_format(buf, sizeof(buf), "%s", "12345678"),
			 -ENAMETOOLONG);
}

static void ownership(void **state)
{
	int kept, gone;
	char *p;

	(void)state;
	{
		pl_auto_fd a = open("/dev/null", O_RDONLY | O_CLOEXEC);
		pl_auto_fd b = open("/dev/null", O_RDONLY | O_CLOEXEC);
		pl_auto_free char *s = strdup("kept");

		gone = a;
		kept = pl_take_fd(&b);
		assert_int_equal(b, -1);
		p = pl_take_ptr(&s);
		assert_null(s);
	}
	assert_int_equal(fcntl(gone, F_GETFD), -1);
	assert_int_equal(fcntl(kept, F_GETFD), FD_CLOEXEC);
	assert_string_equal(p, "kept");
	close(kept);
	free(p);
}

static void files(void **state)
{
	struct dir *d = *state;
	struct pl_err e = { 0 };
	char *text = NULL;
	struct stat st;
	size_t len = 0;

	assert_int_equal(pl_file_read(d->file, 10, &text, &len, &e), -ENOENT);
	assert_non_null(strstr(e.msg, d->file));
	assert_int_equal(pl_file_replace(d->file, "one\0two", 7, 0600, &e), 0);
	assert_int_equal(stat(d->file, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(pl_file_read(d->file, 7, &text, &len, &e), 0);
	assert_int_equal(len, 7);
	assert_memory_equal(text, "one\0two", 8);
	free(text);
	assert_int_equal(pl_file_read(d->file, 6, &text, &len, &e), -EFBIG);
	assert_int_equal(pl_file_replace_nosync(d->file, "", 0, 0600, &e), 0);
	assert_int_equal(pl_file_read(d->file, 6, &text, NULL, &e), 0);
	assert_string_equal(text, "");
	free(text);
	assert_int_equal(pl_file_read(d->path, 6, &text, NULL, &e), -EISDIR);
}

/* What grows by steps, with every length around a step. */
static void file_lengths(void **state)
{
	static const size_t lens[] = { 4093, 4094, 4095, 4096, 4097, 8190,
				       8191, 8192, 100000 };
	static char in[100000];
	struct dir *d = *state;

	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (char)(i * 31);
	for (size_t i = 0; i < PL_ARRAY_SIZE(lens); i++) {
		pl_auto_free char *out = NULL;
		size_t len = 0;

		assert_int_equal(pl_file_replace_nosync(d->file, in, lens[i],
							0600, NULL), 0);
		assert_int_equal(pl_file_read(d->file, lens[i], &out, &len,
					      NULL), 0);
		assert_int_equal(len, lens[i]);
		assert_memory_equal(in, out, len);
		assert_int_equal(out[len], '\0');
	}
}

/* "--json /dev/stdout" must not make a file of it, nor of a device. */
static void replace_special(void **state)
{
	struct dir *d = *state;
	struct pl_err e = { 0 };
	char link[160], text[8] = "";
	struct stat st;
	int fd;

	snprintf(link, sizeof(link), "%s/link", d->path);
	fd = open(d->file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(symlink(d->file, link), 0);
	assert_int_equal(pl_file_replace(link, "new", 3, 0600, &e), 0);
	assert_int_equal(lstat(link, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(read(fd, text, sizeof(text)), 3);
	assert_string_equal(text, "new");
	close(fd);
	assert_int_equal(unlink(link), 0);
	assert_int_equal(mkfifo(link, 0600), 0);
	fd = open(link, O_RDWR | O_CLOEXEC);
	assert_int_equal(pl_file_replace(link, "old", 3, 0600, &e), 0);
	assert_int_equal(lstat(link, &st), 0);
	assert_true(S_ISFIFO(st.st_mode));
	assert_int_equal(read(fd, text, sizeof(text)), 3);
	assert_string_equal(text, "old");
	close(fd);
}

/* A replacement that fails leaves what was there, and nothing beside it. */
static void replace_fails(void **state)
{
	struct dir *d = *state;
	struct pl_err e = { 0 };
	char path[160], cmd[200];

	snprintf(path, sizeof(path), "%s/sub", d->path);
	assert_int_equal(mkdir(path, 0755), 0);
	/* A folder can't be replaced by a file. */
	assert_int_equal(pl_file_replace(path, "x", 1, 0600, &e), -EISDIR);
	assert_non_null(strstr(e.msg, path));
	snprintf(cmd, sizeof(cmd), "test \"$(ls -A '%s')\" = sub", d->path);
	assert_int_equal(system(cmd), 0);
	snprintf(path, sizeof(path), "%s/none/f", d->path);
	assert_int_equal(pl_file_replace(path, "x", 1, 0600, &e), -ENOENT);
}

static void mkdirs(void **state)
{
	struct dir *d = *state;
	struct pl_err e = { 0 };
	char path[160];
	struct stat st;

	snprintf(path, sizeof(path), "%s/a/b/c//", d->path);
	assert_int_equal(pl_mkdirs(path, 0700, &e), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_int_equal(pl_mkdirs(path, 0700, &e), 0);
	snprintf(path, sizeof(path), "%s/a/b", d->path);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0755);
	assert_int_equal(pl_mkdirs("", 0700, &e), -ENOENT);
	assert_int_equal(pl_mkdirs("/", 0700, &e), 0);
	assert_int_equal(pl_file_replace(d->file, "", 0, 0600, &e), 0);
	assert_int_equal(pl_mkdirs(d->file, 0700, &e), -ENOTDIR);
	snprintf(path, sizeof(path), "%s/x", d->file);
	assert_int_equal(pl_mkdirs(path, 0700, &e), -ENOTDIR);
	assert_non_null(strstr(e.msg, d->file));
}

static void now_grows(void **state)
{
	uint64_t a = pl_now_ns(), b = pl_now_ns();

	(void)state;
	assert_true(b >= a && a > 0);
}

#define DIR_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(err_messages), cmocka_unit_test(err_null),
		cmocka_unit_test(err_long),	cmocka_unit_test(numbers),
		cmocka_unit_test(format),	cmocka_unit_test(ownership),
		DIR_TEST(files),		DIR_TEST(file_lengths),
		DIR_TEST(replace_special),	DIR_TEST(replace_fails),
		DIR_TEST(mkdirs),
		cmocka_unit_test(now_grows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
