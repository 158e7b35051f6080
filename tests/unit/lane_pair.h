/*
 * tests/unit/lane_pair.h - two ends of a lane without an agent
 *
 * What the broker does, done in the test: two segments, a doorbell, and each
 * end attached to its own and to the other's segment. Bytes on the lane are
 * those of a generator that both ends know, so each one is checked.
 */
#ifndef TESTS_LANE_PAIR_H
#define TESTS_LANE_PAIR_H

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/lane.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOWER 8		/* how much less to do then */
#else
#define SLOWER 1
#endif

struct lane_parts {
	struct pl_seg seg[2];
	int bell[2];
};

static inline void lane_parts_init(struct lane_parts *p, uint32_t ring)
{
	for (int i = 0; i < 2; i++)
		if (pl_seg_lane_create(ring, &p->seg[i], NULL) < 0)
			abort();
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p->bell) < 0)
		abort();
}

/* All that was not given to an end. */
static inline void lane_parts_fini(struct lane_parts *p)
{
	for (int i = 0; i < 2; i++) {
		pl_seg_close(&p->seg[i]);
		if (p->bell[i] >= 0)
			close(p->bell[i]);
		p->bell[i] = -1;
	}
}

/* End i; the parts keep a mapping of seg[i] that is not theirs any more. */
static inline struct pl_lane *lane_end(struct lane_parts *p, int i)
{
	struct pl_lane_info info = { .id = 1 };
	struct pl_lane_parts lp = { .own = p->seg[i],
				    .bell = p->bell[i],
				    .info = &info };
	struct pl_lane *l;

	lp.own.fd = -1;
	p->seg[i].map_bytes = 0;
	p->bell[i] = -1;
	if (pl_seg_lane_open(dup(p->seg[!i].fd),
			     (uint32_t)p->seg[!i].data_bytes, &lp.peer,
			     NULL) < 0)
		abort();
	if (pl_lane_attach(&lp, &l, NULL) < 0)
		abort();
	return l;
}

/* End i in a process of its own. */
static inline struct pl_lane *lane_alone(struct lane_parts *p, int i)
{
	struct pl_lane *l = lane_end(p, i);

	lane_parts_fini(p);
	return l;
}

static inline void lane_both(uint32_t ring, struct pl_lane **a,
			     struct pl_lane **b)
{
	struct lane_parts p;

	lane_parts_init(&p, ring);
	*a = lane_end(&p, 0);
	*b = lane_end(&p, 1);
	lane_parts_fini(&p);
}

static inline unsigned char byte_at(uint64_t i)
{
	return (unsigned char)((i * 2654435761u) >> 13);
}

static inline void bytes_fill(void *to, uint64_t at, size_t n)
{
	unsigned char *p = to;

	for (size_t i = 0; i < n; i++)
		p[i] = byte_at(at + i);
}

static inline int bytes_same(const void *from, uint64_t at, size_t n)
{
	const unsigned char *p = from;

	for (size_t i = 0; i < n; i++)
		if (p[i] != byte_at(at + i))
			return 0;
	return 1;
}

/* A length: small ones mostly, at most max and at most left. */
static inline size_t piece(unsigned int *seed, size_t max, uint64_t left)
{
	size_t n = (size_t)rand_r(seed);

	n = 1 + (n & 7 ? n % 300 : n % max);
	n = n < max ? n : max;
	return n < left ? n : (size_t)left;
}

static inline int count_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* cmocka's setup and teardown: a test leaves no descriptor open. */
static inline int fds_before(void **state)
{
	*state = (void *)(intptr_t)count_fds();
	return 0;
}

static inline int fds_after(void **state)
{
	return count_fds() == (int)(intptr_t)*state ? 0 : -1;
}

#define lane_test(f) cmocka_unit_test_setup_teardown(f, fds_before, fds_after)

/* Exit status; 128 + signal. */
static inline int child_status(pid_t pid)
{
	int st;

	if (waitpid(pid, &st, 0) != pid)
		return -1;
	return WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
}

#endif
