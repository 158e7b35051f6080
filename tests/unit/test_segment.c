/* tests/unit/test_segment.c - memory files with one writer */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "common/util.h"
#include "shm/memroom.h"
#include "shm/podlane.h"
#include "shm/segment.h"

#define RING PL_RING_MIN
#define FILE_BYTES (PL_SEG_CTL_BYTES + RING)

static void lane_maps_ring_twice(void **state)
{
	struct pl_seg own, peer;
	struct pl_err err;
	char *w;
	const char *r;

	(void)state;
	assert_int_equal(pl_seg_lane_create(RING, &own, &err), 0);
	assert_int_equal(pl_seg_lane_open(dup(own.fd), RING, &peer, &err), 0);
	w = pl_seg_data(&own);
	r = pl_seg_data(&peer);
	memcpy(w + RING - 3, "around", 6);
	assert_memory_equal(w, "und", 3);
	assert_memory_equal(r, "und", 3);
	assert_memory_equal(r + RING - 3, "around", 6);
	assert_memory_equal(r + RING, "und", 3);
	pl_seg_drop_fd(&own);
	assert_int_equal(own.fd, -1);
	w[7] = 'x';
	assert_int_equal(r[7], 'x');
	pl_seg_close(&own);
	pl_seg_close(&own);
	pl_seg_close(&peer);
}

#define LARGE (3 * PL_SEG_HUGE)

/* KiB that the kernel maps here in one piece. */
static unsigned int huge_kib(const void *at)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	unsigned int kib = 0;
	char line[256], want[32];
	int here = 0;

	assert_non_null(f);
	snprintf(want, sizeof(want), "%lx-", (unsigned long)(uintptr_t)at);
	while (fgets(line, sizeof(line), f)) {
		if (strchr(line, '-') && strstr(line, " r"))
			here = !strncmp(line, want, strlen(want));
		else if (here && sscanf(line, "ShmemPmdMapped: %u", &kib) == 1)
			break;
	}
	fclose(f);
	return kib;
}

/* Huge pages change where bytes are, not what they are, nor who may write. */
static void huge_pages(void **state)
{
	struct pl_seg own, early, late;
	struct pl_err err;
	size_t at = 0, steps = 1;
	unsigned char *w;

	(void)state;
	assert_int_equal(pl_seg_region_create(LARGE, &own, &err), 0);
	assert_int_equal(pl_seg_region_open(dup(own.fd), LARGE, &early, &err),
			 0);
	w = pl_seg_data(&own);
	for (size_t i = 0; i < LARGE; i++)
		w[i] = (unsigned char)(i * 7 >> 3);
	while (pl_seg_huge(&own, &at, PL_SEG_HUGE))
		assert_true(++steps < 100);
	assert_false(pl_seg_huge(&own, &at, LARGE));
	assert_int_equal(pl_seg_region_open(dup(own.fd), LARGE, &late, &err),
			 0);
	assert_memory_equal(pl_seg_data(&own), pl_seg_data(&early), LARGE);
	assert_memory_equal(pl_seg_data(&own), pl_seg_data(&late), LARGE);
	for (size_t i = 0; i < LARGE; i++)
		assert_int_equal(w[i], (unsigned char)(i * 7 >> 3));
	assert_int_equal((uintptr_t)own.base % PL_SEG_HUGE, 0);
	assert_int_equal((uintptr_t)late.base % PL_SEG_HUGE, 0);
	assert_true(own.huge_bytes <= LARGE);
	if (own.huge_bytes) {
		assert_int_equal(huge_kib(own.base), own.huge_bytes >> 10);
		assert_int_equal(huge_kib(late.base), own.huge_bytes >> 10);
	} else {
		print_message("this kernel has no huge pages to give\n");
	}
	w[LARGE - 1] = 'x';
	w[0] = 'y';
	assert_int_equal(((unsigned char *)pl_seg_data(&early))[LARGE - 1],
			 'x');
	assert_int_equal(((unsigned char *)pl_seg_data(&late))[0], 'y');
	pl_seg_close(&own);
	pl_seg_close(&early);
	pl_seg_close(&late);
}

static void large_rings(void **state)
{
	const uint32_t ring = 2 * PL_SEG_HUGE;
	struct pl_seg own, peer;
	struct pl_err err;
	size_t at = 0;
	char *w;

	(void)state;
	assert_int_equal(pl_seg_lane_create(ring, &own, &err), 0);
	w = pl_seg_data(&own);
	memcpy(w + ring - 3, "around", 6);
	pl_seg_huge(&own, &at, SIZE_MAX);
	assert_int_equal(pl_seg_lane_open(dup(own.fd), ring, &peer, &err), 0);
	assert_memory_equal((char *)pl_seg_data(&peer) + ring - 3, "around",
			    6);
	assert_memory_equal(pl_seg_data(&peer), "und", 3);
	w[ring - 1] = 'X';
	assert_int_equal(((char *)pl_seg_data(&peer))[ring - 1], 'X');
	pl_seg_close(&own);
	pl_seg_close(&peer);
}

/* Whoever has the descriptor: no writing, no other size, no holes. */
static void assert_read_only(int fd)
{
	char path[64];
	void *p;

	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_equal(p, MAP_FAILED);
	assert_int_equal(errno, EPERM);
	assert_int_equal(pwrite(fd, "x", 1, PL_SEG_CTL_BYTES), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(fd, 4096), -1);
	assert_int_equal(ftruncate(fd, (off_t)FILE_BYTES * 2), -1);
	assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE |
				   FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(mprotect(p, 4096, PROT_READ | PROT_WRITE), -1);
	assert_int_equal(madvise(p, 4096, MADV_REMOVE), -1);
	munmap(p, 4096);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_int_equal(truncate(path, 4096), -1);
}

static void sealed_for_everybody(void **state)
{
	struct pl_seg s;
	char path[64];
	int fd;

	(void)state;
	assert_int_equal(pl_seg_lane_create(RING, &s, NULL), 0);
	assert_read_only(s.fd);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", s.fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0) {
		assert_read_only(fd);
		close(fd);
	}
	/* Its owner still writes, and can't punch holes either. */
	((char *)pl_seg_data(&s))[0] = 'x';
	assert_int_equal(madvise(s.base, 4096, MADV_REMOVE), -1);
	pl_seg_close(&s);
}

static void sizes_of_rings(void **state)
{
	const uint32_t bad[] = { 0, 1, 4096, PL_RING_MIN - 1, PL_RING_MIN + 1,
				 PL_RING_MIN * 3, PL_RING_MAX + 1, UINT32_MAX };
	struct pl_err err;
	struct pl_seg s;

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++) {
		assert_int_equal(pl_seg_lane_create(bad[i], &s, &err),
				 -EINVAL);
		assert_int_equal(err.code, EINVAL);
	}
	assert_int_equal(pl_seg_region_create(0, &s, &err), -EINVAL);
	assert_int_equal(pl_seg_region_create(SIZE_MAX, &s, &err), -EINVAL);
}

struct odd {
	const char *name;
	unsigned int memfd_flags;
	off_t size;
	int seals;
	uint64_t magic;
	uint32_t version, ring_bytes;
	int reserved, beyond;
};

/* A lane segment made wrongly. */
static int make_odd(const struct odd *o)
{
	struct pl_lane_seg h = { .magic = o->magic,
				 .version = o->version,
				 .ring_bytes = o->ring_bytes };
	int fd = memfd_create("odd", MFD_CLOEXEC | o->memfd_flags);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, o->size), 0);
	if (o->reserved)
		assert_int_equal(fallocate(fd, 0, 0, o->size), 0);
	if (o->beyond)
		assert_int_equal(fallocate(fd, FALLOC_FL_KEEP_SIZE, o->size,
					   o->size), 0);
	if (o->size >= (off_t)sizeof(h))
		assert_int_equal(pwrite(fd, &h, sizeof(h), 0), sizeof(h));
	if (o->seals)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, o->seals), 0);
	return fd;
}

#define GOOD(n)                                                                \
	.name = (n), .memfd_flags = MFD_ALLOW_SEALING, .size = FILE_BYTES,     \
	.seals = PL_SEG_SEALS, .magic = PL_LANE_MAGIC,                         \
	.version = PL_LAYOUT_VERSION, .ring_bytes = RING, .reserved = 1
/* The last of two initialisers counts, and that is what is meant here. */
#pragma GCC diagnostic ignored "-Woverride-init"

static const struct odd odds[] = {
	{ GOOD("good") },
	{ GOOD("no seals"), .seals = 0 },
	{ GOOD("not sealable"), .seals = 0, .memfd_flags = 0 },
	{ GOOD("can shrink"), .seals = PL_SEG_SEALS & ~F_SEAL_SHRINK },
	{ GOOD("can be written"), .seals = PL_SEG_SEALS &
					   ~F_SEAL_FUTURE_WRITE },
	{ GOOD("takes more seals"), .seals = PL_SEG_SEALS & ~F_SEAL_SEAL },
	{ GOOD("too small"), .size = FILE_BYTES - 4096 },
	{ GOOD("empty"), .size = 0, .reserved = 0 },
	{ GOOD("too large"), .size = FILE_BYTES + 4096 },
	{ GOOD("with holes"), .reserved = 0 },
	{ GOOD("with blocks for them beyond its end"), .reserved = 0,
	  .beyond = 1 },
	{ GOOD("magic"), .magic = PL_REGION_MAGIC },
	{ GOOD("version"), .version = PL_LAYOUT_VERSION + 1 },
	{ GOOD("another ring"), .ring_bytes = RING * 2 },
};

static int count_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void odd_segments_are_refused(void **state)
{
	int before = count_fds();

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(odds); i++) {
		struct pl_err err = { 0 };
		struct pl_seg s = PL_SEG_NONE;
		int fd = make_odd(&odds[i]);
		int rc = pl_seg_lane_open(fd, RING, &s, &err);

		if (rc != (i == 0 ? 0 : -EPROTO))
			fail_msg("%s: %d %s", odds[i].name, rc, err.msg);
		pl_seg_close(&s);
		assert_int_equal(count_fds(), before);
	}
}

static void other_files_are_refused(void **state)
{
	char path[] = "/tmp/podlane-segment.XXXXXX";
	int before = count_fds(), pair[2], fd = mkostemp(path, O_CLOEXEC);
	struct pl_err err;
	struct pl_seg s;

	(void)state;
	assert_true(fd >= 0);
	unlink(path);
	assert_int_equal(ftruncate(fd, FILE_BYTES), 0);
	assert_int_equal(pl_seg_lane_open(fd, RING, &s, &err), -EPROTO);
	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	assert_int_equal(pl_seg_lane_open(pair[0], RING, &s, &err), -EPROTO);
	assert_int_equal(pl_seg_region_open(pair[1], 5, &s, &err), -EPROTO);
	assert_int_equal(pl_seg_watch_open(-1, &s, &err), -EPROTO);
	assert_int_equal(pl_seg_lane_create(RING, &s, NULL), 0);
	/* A good one, but not of the size that was announced. */
	assert_int_equal(pl_seg_lane_open(dup(s.fd), RING * 2,
					  &(struct pl_seg){ 0 }, &err),
			 -EPROTO);
	assert_int_equal(pl_seg_lane_open(dup(s.fd), 3, &(struct pl_seg){ 0 },
					  &err), -EPROTO);
	pl_seg_close(&s);
	assert_int_equal(count_fds(), before);
}

static void regions_and_watches(void **state)
{
	struct pl_seg own, peer;
	struct pl_err err;

	(void)state;
	for (size_t size = 1; size < 1 << 20; size = size * 3 + 1) {
		assert_int_equal(pl_seg_region_create(size, &own, &err), 0);
		assert_read_only(own.fd);
		assert_int_equal(pl_seg_region_open(dup(own.fd), size + 1,
						    &peer, &err), -EPROTO);
		assert_int_equal(pl_seg_region_open(dup(own.fd), size, &peer,
						    &err), 0);
		((char *)pl_seg_data(&own))[size - 1] = 'z';
		assert_int_equal(((char *)pl_seg_data(&peer))[size - 1], 'z');
		assert_int_equal(peer.data_bytes, size);
		pl_seg_close(&own);
		pl_seg_close(&peer);
	}
	assert_int_equal(pl_seg_watch_create(&own, &err), 0);
	assert_int_equal(pl_seg_watch_open(dup(own.fd), &peer, &err), 0);
	atomic_store(&((struct pl_region_watch *)own.base)->wait, 7);
	assert_int_equal(atomic_load(&((struct pl_region_watch *)peer.base)
					      ->wait), 7);
	pl_seg_close(&own);
	pl_seg_close(&peer);
}

static void memory_that_is_not_there(void **state)
{
	int before = count_fds();
	uint64_t room = pl_mem_room(UINT64_MAX);
	struct pl_err err;
	struct pl_seg s;

	(void)state;
	assert_true(room > 0 && room < UINT64_MAX);
	assert_int_equal(pl_seg_region_create(room + (64 << 20), &s, &err),
			 -ENOMEM);
	assert_non_null(strstr(err.msg, "MiB"));
	assert_int_equal(count_fds(), before);
}

static int limited(int resource, rlim_t limit)
{
	struct rlimit r = { limit, limit };
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct pl_seg s;

		if (setrlimit(resource, &r) < 0)
			_exit(255);
		_exit(-pl_seg_region_create(32 << 20, &s, NULL));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return -WEXITSTATUS(status);
}

static void limits_of_the_process(void **state)
{
	(void)state;
	assert_int_equal(limited(RLIMIT_FSIZE, 1 << 20), -EFBIG);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	assert_int_equal(limited(RLIMIT_AS, 24 << 20), -ENOMEM);
#endif
	assert_int_equal(limited(RLIMIT_NOFILE, 0), -EMFILE);
}

static void ring_rules(void **state)
{
	const uint64_t big = UINT64_MAX - 10;

	(void)state;
	assert_true(pl_ring_head_valid(0, 0, 0, RING));
	assert_true(pl_ring_head_valid(RING, 0, 0, RING));
	assert_false(pl_ring_head_valid(RING + 1, 0, 0, RING));
	assert_true(pl_ring_head_valid(100 + RING, 150, 100, RING));
	assert_false(pl_ring_head_valid(101 + RING, 150, 100, RING));
	assert_false(pl_ring_head_valid(149, 150, 100, RING));
	assert_false(pl_ring_head_valid(0, 150, 100, RING));
	assert_false(pl_ring_head_valid(big, 150, 100, RING));
	assert_true(pl_ring_tail_valid(100, 100, 100));
	assert_true(pl_ring_tail_valid(170, 100, 170));
	assert_false(pl_ring_tail_valid(171, 100, 170));
	assert_false(pl_ring_tail_valid(99, 100, 170));
	assert_false(pl_ring_tail_valid(big, 100, 170));
}

static void put_file(const char *dir, const char *name, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_int_equal(pl_file_replace_nosync(path, text, strlen(text), 0600,
						NULL), 0);
}

static void rooms_of_groups(void **state)
{
	static const char *const names[] = { "memory.max", "memory.current",
					     "memory.stat" };
	char dir[] = "/tmp/podlane-room.XXXXXX", path[128];

	(void)state;
	assert_int_equal(pl_mem_field("a 1\nab 2\n\nb:\t3 kB\n", "ab"), 2);
	assert_int_equal(pl_mem_field("a 1\nab 2\n\nb:\t3 kB\n", "b"), 3);
	assert_true(pl_mem_field("a 1\n", "c") == UINT64_MAX);
	assert_true(pl_mem_field("a x\n", "a") == UINT64_MAX);
	assert_true(pl_mem_field("", "a") == UINT64_MAX);
	assert_non_null(mkdtemp(dir));
	assert_true(pl_mem_group_room(dir, 1, UINT64_MAX) == UINT64_MAX);
	put_file(dir, "memory.max", "1000\n");
	put_file(dir, "memory.current", "700\n");
	assert_int_equal(pl_mem_group_room(dir, 1, UINT64_MAX), 300);
	put_file(dir, "memory.stat", "anon 5\ninactive_file 100\n"
				     "active_file 50\n");
	assert_int_equal(pl_mem_group_room(dir, 1, UINT64_MAX), 450);
	assert_int_equal(pl_mem_group_room(dir, 1, 301), 450);
	assert_int_equal(pl_mem_group_room(dir, 1, 300), 300);
	put_file(dir, "memory.current", "2000\n");
	assert_int_equal(pl_mem_group_room(dir, 1, UINT64_MAX), 0);
	put_file(dir, "memory.max", "max\n");
	assert_true(pl_mem_group_room(dir, 1, UINT64_MAX) == UINT64_MAX);
	for (size_t i = 0; i < PL_ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		unlink(path);
	}
	assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lane_maps_ring_twice),
		cmocka_unit_test(huge_pages),
		cmocka_unit_test(large_rings),
		cmocka_unit_test(sealed_for_everybody),
		cmocka_unit_test(sizes_of_rings),
		cmocka_unit_test(odd_segments_are_refused),
		cmocka_unit_test(other_files_are_refused),
		cmocka_unit_test(regions_and_watches),
		cmocka_unit_test(memory_that_is_not_there),
		cmocka_unit_test(limits_of_the_process),
		cmocka_unit_test(ring_rules),
		cmocka_unit_test(rooms_of_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
