/*
 * tests/system/grow_pods.c - what the pods of grow.sh do
 *
 *   own STEPS BYTES MS    a region "g" that grows so often by so much, with a
 *                         pause before each, and is published each time; then
 *                         waits for SIGUSR1
 *   read ADDR STEPS       waits for each version of it and looks at all bytes
 *   lie                   an owner whose segment says that it has grown
 *   part                  an owner that shows its agent wrong segments
 *
 * The first page of the region has the size of each version; every word behind
 * it is a function of its place, and written once.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "common/util.h"
#include "shm/msg.h"
#include "shm/region.h"

#define TABLE 4096u			/* bytes of the sizes */
#define FIRST 100000u			/* bytes at first: not of a page */
#define WAIT_MS 100000

static _Atomic bool stop;

static void on_usr1(int sig)
{
	(void)sig;
	atomic_store(&stop, true);
}

static int fail(const char *what, int rc, const struct pl_err *err)
{
	printf("failed: %s: %s: %s\n", what, strerrorname_np(-rc),
	       err && err->msg[0] ? err->msg : "");
	fflush(stdout);
	return 1;
}

static void pause_for(long ms)
{
	const struct timespec ts = { ms / 1000, ms % 1000 * 1000000L };

	nanosleep(&ts, NULL);
}

static void until_told(void)
{
	while (!atomic_load(&stop))
		pause_for(20);
}

static uint64_t word(size_t at)
{
	return (at + 1) * 0x9e3779b97f4a7c15ull;
}

/* Words of [from, to), as far as they are whole. */
static void fill(struct pl_region *r, size_t from, size_t to)
{
	uint64_t *p = pl_region_data(r);

	for (size_t i = from / 8; i < to / 8; i++)
		p[i] = word(i);
}

static int create(struct pl_conn *conn, size_t max, struct pl_region **r)
{
	struct pl_err err = { 0 };
	int rc = pl_region_create_growing(conn, "g", FIRST, max, 0, r, &err);

	if (rc < 0)
		return fail("create", rc, &err);
	fill(*r, TABLE, FIRST);
	printf("created\n");
	fflush(stdout);
	return 0;
}

static int publish(struct pl_region *r)
{
	uint64_t *sizes = pl_region_data(r), v = pl_region_version(r) + 1;
	size_t size = pl_region_size(r);
	int rc;

	sizes[v] = size;
	rc = pl_region_publish(r, 0, size, &v);
	if (rc < 0)
		return fail("publish", rc, NULL);
	printf("version %llu size %zu\n", (unsigned long long)v, size);
	fflush(stdout);
	return 0;
}

static int cmd_own(struct pl_conn *conn, char **arg)
{
	const long steps = strtol(arg[0], NULL, 10);
	const size_t step = strtoull(arg[1], NULL, 10);
	struct pl_err err = { 0 };
	struct pl_region *r;

	if (create(conn, FIRST + (size_t)steps * step, &r) || publish(r))
		return 1;
	for (long i = 0; i < steps && !atomic_load(&stop); i++) {
		const size_t was = pl_region_size(r);
		const void *at = pl_region_data(r);
		int rc;

		pause_for(strtol(arg[2], NULL, 10));
		rc = pl_region_grow(r, was + step, &err);
		if (rc < 0) {
			fail("grow", rc, &err);
			break;
		}
		if (at != pl_region_data(r))
			return fail("it moved", -EFAULT, NULL);
		fill(r, was & ~(size_t)7, was + step);
		if (publish(r))
			return 1;
	}
	printf("grown\n");
	fflush(stdout);
	until_told();
	pl_region_close(r);
	printf("ok\n");
	return 0;
}

static int look(const struct pl_region *r, uint64_t v, const void *at)
{
	const uint64_t *p = pl_region_data(r);
	const size_t size = v * 8 < TABLE ? p[v] : 0;

	if (p != at)
		return fail("it moved", -EFAULT, NULL);
	if (size < FIRST || size > pl_region_size(r)) {
		printf("failed: version %llu has %zu bytes, %zu are there\n",
		       (unsigned long long)v, size, pl_region_size(r));
		return 1;
	}
	for (size_t i = TABLE / 8; i < size / 8; i++)
		if (p[i] != word(i)) {
			printf("failed: version %llu word %zu is %llx\n",
			       (unsigned long long)v, i,
			       (unsigned long long)p[i]);
			return 1;
		}
	return 0;
}

static int cmd_read(struct pl_conn *conn, char **arg)
{
	const uint64_t last = strtoull(arg[1], NULL, 10) + 1;
	struct pl_region_info info;
	struct pl_err err = { 0 };
	struct pl_region *r;
	const void *at;
	int rc = pl_region_open(conn, arg[0], "g", WAIT_MS, &r, &err);

	if (rc < 0)
		return fail("open", rc, &err);
	pl_region_info(r, &info);
	printf("reading %s\n", info.path);
	fflush(stdout);
	at = pl_region_data(r);
	for (uint64_t v = 1; v <= last; v = pl_region_version(r) + 1) {
		rc = pl_region_wait(r, v, WAIT_MS);
		if (rc < 0) {
			fail("wait", rc, NULL);
			break;
		}
		if (look(r, pl_region_version(r) >= last ? last : v, at))
			return 1;
	}
	/* What was there before an error still is. */
	if (rc < 0 && pl_region_version(r) > 0 &&
	    ((const uint64_t *)at)[TABLE / 8] != word(TABLE / 8))
		return fail("what was there", -EFAULT, NULL);
	pl_region_info(r, &info);
	printf("end size %zu max %zu\n", info.size, info.max_size);
	fflush(stdout);
	until_told();
	pl_region_close(r);
	printf("ok\n");
	return rc < 0;
}

/* As if it had grown: another size in the segment, and a version. */
static int cmd_lie(struct pl_conn *conn, char **arg)
{
	struct pl_region_seg *h;
	struct pl_region *r;

	(void)arg;
	if (create(conn, FIRST + (8u << 20), &r))
		return 1;
	h = r->seg.base;
	pause_for(500);
	atomic_store(&h->grown, FIRST + (4u << 20));
	if (publish(r))
		return 1;
	until_told();
	pl_region_close(r);
	return 0;
}

/* One segment more, as the agent is told of it. */
static int show(struct pl_region *r, int fd, uint64_t offset, uint64_t bytes)
{
	struct pl_msg_region_grow m = { .offset = offset, .bytes = bytes };
	const struct pl_conn_call call = { .request = &m,
					   .type = PL_MSG_REGION_GROW,
					   .reply_type = PL_MSG_OK,
					   .fds = &fd,
					   .n_fds = 1,
					   .timeout_ms = PL_CONN_REPLY_MS };
	struct pl_err err = { 0 };
	int rc;

	memcpy(m.name, r->info.name, sizeof(m.name));
	memcpy(m.uid, r->uid, sizeof(m.uid));
	rc = pl_conn_call(r->obj.conn, &call, &err);
	printf("%s %s\n", rc ? strerrorname_np(-rc) : "0", err.msg);
	fflush(stdout);
	return rc;
}

static int cmd_part(struct pl_conn *conn, char **arg)
{
	const size_t page = PL_SEG_CTL_BYTES;
	struct pl_seg good = PL_SEG_NONE;
	struct pl_region *r;
	size_t end;
	int fd;

	(void)arg;
	if (create(conn, FIRST + (8u << 20), &r) ||
	    pl_seg_region_create_max(1, 1u << 20, &good, NULL) < 0 ||
	    pl_seg_part_create(&good, page, &fd, NULL) < 0)
		return 1;
	end = r->seg.end_bytes;
	show(r, fd, end, 2 * page);		/* larger than it is */
	show(r, fd, end, page / 2);
	show(r, fd, end, 0);
	show(r, fd, end + page, page);		/* with a gap before it */
	show(r, fd, 0, page);			/* over what there is */
	show(r, fd, end, ~(uint64_t)0 - page + 1);
	show(r, memfd_create("open", MFD_CLOEXEC), end, page);
	show(r, STDIN_FILENO, end, page);
	show(r, conn->fd, end, page);
	printf("good: ");
	show(r, fd, end, page);
	printf("again: ");
	show(r, fd, end, page);
	printf("tried\n");
	fflush(stdout);
	until_told();
	pl_region_close(r);
	printf("ok\n");
	return 0;
}

static const struct {
	const char *name;
	int (*fn)(struct pl_conn *conn, char **arg);
	int n_args;
} commands[] = {
	{ "own", cmd_own, 3 },
	{ "read", cmd_read, 2 },
	{ "lie", cmd_lie, 0 },
	{ "part", cmd_part, 0 },
};

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = on_usr1 };
	struct pl_err err = { 0 };
	struct pl_conn *conn;
	int rc;

	sigaction(SIGUSR1, &sa, NULL);
	for (size_t i = 0; argc > 1 && i < PL_ARRAY_SIZE(commands); i++) {
		if (strcmp(commands[i].name, argv[1]) ||
		    argc != commands[i].n_args + 2)
			continue;
		rc = pl_open(&conn, &err);
		if (rc < 0)
			return fail("pl_open", rc, &err);
		rc = commands[i].fn(conn, argv + 2);
		pl_close(conn);
		return rc;
	}
	return 2;
}
