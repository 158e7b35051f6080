/* tests/unit/test_region.c - publishing and waiting, between processes */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "common/util.h"
#include "shm/region.h"
#include "tests/unit/lane_pair.h"

#define SIZE 300000u
#define SOON_MS 20000		/* a limit against hanging, not a measure */

static struct pl_region *owner_of(struct pl_seg *seg)
{
	struct pl_region_parts parts = { .is_owner = true,
					 .watch = PL_SEG_NONE,
					 .bell = -1 };
	struct pl_region *r;

	if (pl_seg_region_create(SIZE, &parts.seg, NULL) < 0)
		abort();
	*seg = parts.seg;
	parts.seg.fd = dup(parts.seg.fd);
	seg->map_bytes = 0;
	if (pl_region_attach(&parts, &r, NULL) < 0)
		abort();
	return r;
}

static struct pl_region *reader_of(const struct pl_seg *seg)
{
	struct pl_region_parts parts = { .watch = PL_SEG_NONE, .bell = -1 };
	struct pl_region *r;

	if (pl_seg_region_open(dup(seg->fd), SIZE, &parts.seg, NULL) < 0 ||
	    pl_region_attach(&parts, &r, NULL) < 0)
		abort();
	return r;
}

static void publish_and_wait(void **state)
{
	struct pl_region_info info;
	struct pl_region *o, *r;
	uint64_t v = 7;
	struct pl_seg seg;
	const char *seen;

	(void)state;
	o = owner_of(&seg);
	r = reader_of(&seg);
	seen = pl_region_data(r);
	assert_int_equal(pl_region_size(r), SIZE);
	assert_int_equal(pl_region_version(r), 0);
	assert_int_equal(pl_region_wait(r, 0, 0), 0);
	assert_int_equal(pl_region_wait(r, 0, -2), -EINVAL);
	assert_int_equal(pl_region_wait(r, 1, 0), -ETIMEDOUT);
	assert_int_equal(pl_region_wait(r, 1, 30), -ETIMEDOUT);
	memcpy(pl_region_data(o), "abc", 3);
	assert_int_equal(pl_region_publish(o, 0, 3, &v), 0);
	assert_int_equal(v, 1);
	assert_int_equal(pl_region_wait(r, 1, -1), 0);
	assert_memory_equal(seen, "abc", 3);
	assert_int_equal(pl_region_publish(o, SIZE, 0, NULL), 0);
	assert_int_equal(pl_region_version(r), 2);
	assert_int_equal(pl_region_version(o), 2);
	assert_int_equal(pl_region_wait(o, 2, 0), 0);
	pl_region_info(r, &info);
	assert_int_equal(info.size, SIZE);
	assert_int_equal(info.version, 2);
	pl_region_close(o);
	/* What was published before the end still counts. */
	assert_int_equal(pl_region_wait(r, 2, -1), 0);
	assert_int_equal(pl_region_wait(r, 3, -1), -ECONNRESET);
	assert_memory_equal(seen, "abc", 3);
	pl_region_close(r);
	pl_region_close(NULL);
	pl_seg_close(&seg);
}

static void ranges_out_of_bounds(void **state)
{
	const struct {
		size_t offset, len;
	} bad[] = { { 0, SIZE + 1 }, { SIZE, 1 }, { SIZE + 1, 0 },
		    { SIZE_MAX, 1 }, { 1, SIZE_MAX }, { SIZE - 1, 2 },
		    { SIZE_MAX, SIZE_MAX } };
	struct pl_region *o, *r;
	struct pl_seg seg;

	(void)state;
	o = owner_of(&seg);
	r = reader_of(&seg);
	for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++)
		assert_int_equal(pl_region_publish(o, bad[i].offset,
						   bad[i].len, NULL), -EINVAL);
	assert_int_equal(pl_region_version(r), 0);
	assert_int_equal(pl_region_publish(r, 0, 1, NULL), -EPERM);
	assert_int_equal(pl_region_publish(o, 0, SIZE, NULL), 0);
	pl_region_close(r);
	pl_region_close(o);
	pl_seg_close(&seg);
}

/* Each version fills the region with its number; readers say what they saw. */
static int read_versions(const struct pl_seg *seg, int n, int go)
{
	struct pl_region *r = reader_of(seg);
	const uint32_t *p = pl_region_data(r);
	int rc = 0;

	for (int v = 1; v <= n && rc == 0; v++) {
		rc = pl_region_wait(r, (uint64_t)v, SOON_MS) ? 1 : 0;
		for (size_t i = 0; i < SIZE / sizeof(*p); i += 997)
			if (p[i] != (uint32_t)v)
				rc = 2;
		if (rc == 0 && write(go, "x", 1) != 1)
			rc = 3;
	}
	pl_region_close(r);
	return rc;
}

static void many_readers(void **state)
{
	enum { READERS = 5, VERSIONS = 200 / SLOWER };
	struct pl_region *o;
	pid_t pid[READERS];
	struct pl_seg seg;
	char buf[READERS];
	uint32_t *p;
	int go[2];

	(void)state;
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	o = owner_of(&seg);
	p = pl_region_data(o);
	for (int i = 0; i < READERS; i++) {
		pid[i] = fork();
		if (pid[i] == 0) {
			alarm(60);
			_exit(read_versions(&seg, VERSIONS, go[1]));
		}
	}
	for (uint32_t v = 1; v <= VERSIONS; v++) {
		for (size_t i = 0; i < SIZE / sizeof(*p); i++)
			p[i] = v;
		assert_int_equal(pl_region_publish(o, 0, SIZE, NULL), 0);
		for (int i = 0; i < READERS; i++)
			assert_int_equal(read(go[0], buf, 1), 1);
	}
	for (int i = 0; i < READERS; i++)
		assert_int_equal(child_status(pid[i]), 0);
	pl_region_close(o);
	pl_seg_close(&seg);
	close(go[0]);
	close(go[1]);
}

/* Who comes late sees the newest version at once. */
static void late_reader(void **state)
{
	struct pl_region *o, *r;
	struct pl_seg seg;

	(void)state;
	o = owner_of(&seg);
	for (int i = 0; i < 5000; i++)
		assert_int_equal(pl_region_publish(o, 0, 1, NULL), 0);
	r = reader_of(&seg);
	assert_int_equal(pl_region_version(r), 5000);
	assert_int_equal(pl_region_wait(r, 5000, 0), 0);
	assert_int_equal(pl_region_wait(r, 5001, 0), -ETIMEDOUT);
	pl_region_close(r);
	pl_region_close(o);
	pl_seg_close(&seg);
}

/* The agent follows this: entry v % PL_REGION_LOG is the range of v + 1. */
static void log_of_ranges(void **state)
{
	const struct pl_region_seg *s;
	struct pl_region *o;
	struct pl_seg seg;

	(void)state;
	o = owner_of(&seg);
	s = seg.base;
	for (unsigned int i = 0; i < PL_REGION_LOG + 5; i++)
		assert_int_equal(pl_region_publish(o, i, i + 1, NULL), 0);
	for (unsigned int i = 5; i < PL_REGION_LOG + 5; i++) {
		assert_int_equal(s->log[i % PL_REGION_LOG].offset, i);
		assert_int_equal(s->log[i % PL_REGION_LOG].len, i + 1);
	}
	pl_region_close(o);
	pl_seg_close(&seg);
}

static int bell_rings(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char c;

	if (poll(&p, 1, 0) != 1)
		return 0;
	return recv(fd, &c, 1, MSG_DONTWAIT) == 1;
}

static void watched_by_the_agent(void **state)
{
	struct pl_region_parts parts = { .is_owner = true };
	struct pl_region_watch *w;
	struct pl_region *o;
	struct pl_seg watch;
	int bell[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0,
				    bell), 0);
	assert_int_equal(pl_seg_watch_create(&watch, NULL), 0);
	w = watch.base;
	assert_int_equal(pl_seg_watch_open(dup(watch.fd), &parts.watch, NULL),
			 0);
	parts.bell = bell[0];
	assert_int_equal(pl_seg_region_create(SIZE, &parts.seg, NULL), 0);
	assert_int_equal(pl_region_attach(&parts, &o, NULL), 0);
	assert_int_equal(pl_region_publish(o, 0, 1, NULL), 0);
	assert_int_equal(bell_rings(bell[1]), 0);
	w->wait = 1;
	assert_int_equal(pl_region_publish(o, 0, 1, NULL), 0);
	assert_int_equal(bell_rings(bell[1]), 1);
	/* It asks again with the same number. */
	assert_int_equal(pl_region_publish(o, 0, 1, NULL), 0);
	assert_int_equal(bell_rings(bell[1]), 1);
	w->wait = 0;
	assert_int_equal(pl_region_publish(o, 0, 1, NULL), 0);
	assert_int_equal(bell_rings(bell[1]), 0);
	/* An agent that has gone does no harm. */
	w->wait = 2;
	close(bell[1]);
	assert_int_equal(pl_region_publish(o, 0, 1, NULL), 0);
	pl_region_close(o);
	pl_seg_close(&watch);
}

/* --- ends ----------------------------------------------------------------- */

struct sleeper {
	struct pl_region *r;
	int rc;
	pthread_t thread;
};

static void *sleeping(void *arg)
{
	struct sleeper *s = arg;

	s->rc = pl_region_wait(s->r, 1000, SOON_MS);
	return NULL;
}

/* The owner's close, the agent's word, an agent's state: all wake waiters. */
static void an_end_wakes_waiters(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct sleeper s[3];
		struct pl_region *o, *r;
		struct pl_seg seg;

		o = owner_of(&seg);
		r = reader_of(&seg);
		for (int k = 0; k < 3; k++) {
			s[k].r = r;
			pthread_create(&s[k].thread, NULL, sleeping, &s[k]);
		}
		usleep(20000);
		if (i == 0)
			pl_region_close(o);
		else if (i == 1)
			pl_region_ended(r);
		else
			((struct pl_region_seg *)seg.base)->state =
				PL_STATE_DEAD;
		for (int k = 0; k < 3; k++) {
			pthread_join(s[k].thread, NULL);
			assert_int_equal(s[k].rc, -ECONNRESET);
		}
		pl_region_close(r);
		if (i)
			pl_region_close(o);
		pl_seg_close(&seg);
	}
}

static void hostile_owner(void **state)
{
	struct pl_region_seg *s;
	struct pl_region *o, *r;
	struct pl_seg seg;

	(void)state;
	for (int i = 0; i < 2; i++) {
		o = owner_of(&seg);
		r = reader_of(&seg);
		s = seg.base;
		s->version = 10;
		assert_int_equal(pl_region_wait(r, 10, 0), 0);
		if (i)
			s->state = 77;
		else
			s->version = 9;
		assert_int_equal(pl_region_wait(r, 11, 1000), -EPROTO);
		s->state = 0;
		s->version = 20;
		assert_int_equal(pl_region_wait(r, 11, 1000), -EPROTO);
		pl_region_close(o);
		pl_region_close(r);
		pl_seg_close(&seg);
	}
}

static void readers_cannot_write(void **state)
{
	struct pl_region *o;
	struct pl_seg seg;
	pid_t pid;

	(void)state;
	o = owner_of(&seg);
	pid = fork();
	if (pid == 0) {
		struct pl_region *r = reader_of(&seg);

		signal(SIGSEGV, SIG_DFL);
		*(volatile char *)pl_region_data(r) = 'x';
		_exit(0);
	}
	assert_int_equal(child_status(pid), 128 + SIGSEGV);
	pl_region_close(o);
	pl_seg_close(&seg);
}

/* --- threads -------------------------------------------------------------- */

struct check {
	struct pl_region *r;
	const uint32_t *p;
	int rc;
	pthread_t thread;
};

static void *checking(void *arg)
{
	struct check *c = arg;

	for (uint32_t v = 1; v <= 64 && !c->rc; v++) {
		c->rc = pl_region_wait(c->r, v, SOON_MS);
		if (c->p[v * 16] != v)
			c->rc = 1;
	}
	return NULL;
}

/* One mapping, so that ThreadSanitizer sees who reads what whom wrote. */
static void threads_of_one_mapping(void **state)
{
	struct check c[2] = { { .rc = 0 }, { .rc = 0 } };
	struct pl_region *o;
	struct pl_seg seg;
	uint32_t *p;

	(void)state;
	o = owner_of(&seg);
	p = pl_region_data(o);
	for (int i = 0; i < 2; i++) {
		c[i].r = o;
		c[i].p = p;
		pthread_create(&c[i].thread, NULL, checking, &c[i]);
	}
	for (uint32_t v = 1; v <= 64; v++) {
		p[v * 16] = v;
		assert_int_equal(pl_region_publish(o, v * 64, 4, NULL), 0);
		if (v % 8 == 0)
			usleep(1000);
	}
	for (int i = 0; i < 2; i++) {
		pthread_join(c[i].thread, NULL);
		assert_int_equal(c[i].rc, 0);
	}
	pl_region_close(o);
	pl_seg_close(&seg);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		lane_test(publish_and_wait),
		lane_test(ranges_out_of_bounds),
		lane_test(many_readers),
		lane_test(late_reader),
		lane_test(log_of_ranges),
		lane_test(watched_by_the_agent),
		lane_test(an_end_wakes_waiters),
		lane_test(hostile_owner),
		lane_test(readers_cannot_write),
		lane_test(threads_of_one_mapping),
	};

	alarm(240);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
