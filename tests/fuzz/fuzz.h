/*
 * tests/fuzz/fuzz.h - what the fuzzers share
 *
 * A fuzzer is LLVMFuzzerTestOneInput of one noun: it takes what libFuzzer made
 * up as what a peer, a file or shared memory says. Whatever that is, nothing
 * may crash, hang or leak; HOLDS says what else must be so.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/tree.h"
#include "common/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* A rule that no input may break. */
#define HOLDS(x) \
	do { \
		if (!(x)) \
			fuzz_broken(__FILE__, __LINE__, #x); \
	} while (0)

static inline void fuzz_broken(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
	abort();
}

/* What is left of the input. */
struct fuzz {
	const uint8_t *at;
	size_t left;
};

/* The next len bytes, zeroes where it has ended. */
static inline void fuzz_take(struct fuzz *f, void *to, size_t len)
{
	size_t n = PL_MIN(len, f->left);

	memset(to, 0, len);
	if (n)
		memcpy(to, f->at, n);
	f->at += n;
	f->left -= n;
}

static inline uint8_t fuzz_u8(struct fuzz *f)
{
	uint8_t v;

	fuzz_take(f, &v, sizeof(v));
	return v;
}

static inline uint32_t fuzz_u32(struct fuzz *f)
{
	uint32_t v;

	fuzz_take(f, &v, sizeof(v));
	return v;
}

static inline uint64_t fuzz_u64(struct fuzz *f)
{
	uint64_t v;

	fuzz_take(f, &v, sizeof(v));
	return v;
}

/* A piece whose length, at most max, comes first; to has one byte for a NUL. */
static inline size_t fuzz_piece(struct fuzz *f, char *to, size_t max)
{
	size_t n = fuzz_u8(f) | (size_t)fuzz_u8(f) << 8;

	n = PL_MIN(PL_MIN(n, max), f->left);
	fuzz_take(f, to, n);
	to[n] = '\0';
	return n;
}

/* The path of a file with this content: /proc/self/fd/N of a memfd. */
static inline int fuzz_file(const void *data, size_t len, char path[32])
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	HOLDS(fd >= 0 && pl_write_all(fd, data, len) == 0);
	snprintf(path, 32, "/proc/self/fd/%d", fd);
	return fd;
}

/*
 * The lowest descriptor that is free: another one than before says that some
 * were left open.
 */
static inline int fuzz_fd_free(void)
{
	int fd = dup(STDIN_FILENO);

	HOLDS(fd >= 0);
	close(fd);
	return fd;
}

/*
 * A folder of this process, in memory where there is such; gone at its end, or
 * when it makes another one.
 */
static char fuzz_dir[256];

static inline void fuzz_dir_remove(void)
{
	pl_tree_remove(fuzz_dir);
}

static inline void fuzz_dir_make(void)
{
	const char *tmp = getenv("TMPDIR");
	const bool is_first = !fuzz_dir[0];

	if (!is_first)
		fuzz_dir_remove();
	snprintf(fuzz_dir, sizeof(fuzz_dir), "%.200s/fuzz.XXXXXX",
		 tmp ? tmp : "/dev/shm");
	HOLDS(mkdtemp(fuzz_dir) &&
	      (!is_first || atexit(fuzz_dir_remove) == 0));
}

static inline void fuzz_dir_put(const char *name, const void *data, size_t len)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", fuzz_dir, name);
	f = fopen(path, "w");
	HOLDS(f);
	if (len)
		HOLDS(fwrite(data, 1, len, f) == len);
	HOLDS(fclose(f) == 0);
}

#endif
