/*
 * tests/system/resume_pods.c - what the pods of resume.sh do
 *
 *   serve [MS]          listens on "s", takes every lane, talks on each
 *   talk ADDR N [MS]    N lanes to there, talks on each until SIGUSR1;
 *                       MS: of its pause between records
 *   storm ADDR N        N lanes one after the other, a few records on each
 *   keep                listens on "k", takes one lane and waits for its end
 *   hold ADDR           a lane to there on which nothing is sent; its end
 *   pour ADDR           the same, sends for as long as it can
 *   try WHAT ADDR MS    tries for so long to connect or to open the region
 *   own SIZE            publishes a region "r" until SIGUSR1
 *   read ADDR           follows it until its end
 *   watch ADDR          the same, without a look at what is in it
 *
 * To talk is to send records both ways: number, length, checksum, bytes of a
 * random number. The first that is lost, repeated, out of order or changed
 * ends the program with 1. A file PROGRESS in the environment gets the number
 * of records (or versions) so far; RING_BYTES there is the size of the rings,
 * RECORD_BYTES that of the largest record.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <fcntl.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "common/util.h"
#include "shm/podlane.h"

#define RECORD_MAX 90000u
#define LIMIT_MS 120000
#define STORM_RECORDS 3u
#define SLOTS 512u

struct record {
	uint64_t no;
	uint32_t len;			/* 0: the last one */
	uint32_t sum;
};

struct talk {
	struct pl_lane *lane;
	unsigned int seed, pause_ms;
	uint64_t limit;			/* records; 0: until told to stop */
	_Atomic bool *stop;
	_Atomic bool own_stop;
	uint64_t sent, received, bytes;
	bool is_new;			/* nothing came before the end */
	char wrong[200], unsent[200];	/* the second: the sender's */
};

/* Of the whole program. */
static _Atomic bool stop_all;
static _Atomic uint64_t *progress;
static uint32_t record_max = RECORD_MAX;

static void on_usr1(int sig)
{
	(void)sig;
	atomic_store(&stop_all, true);
}

static void count_one(void)
{
	if (progress)
		atomic_fetch_add(progress, 1);
}

static int fail(const char *what, ssize_t rc, const struct pl_err *err)
{
	printf("failed: %s: %s\n", what,
	       err && err->msg[0] ? err->msg : strerror((int)-rc));
	fflush(stdout);
	return 1;
}

static void pause_for(unsigned int ms)
{
	const struct timespec ts = { ms / 1000, ms % 1000 * 1000000L };

	if (ms)
		nanosleep(&ts, NULL);
}

/* --- talking ---------------------------------------------------------- */

static uint32_t sum_of(const uint8_t *p, size_t n)
{
	uint32_t h = 2166136261u;
	size_t i = 0;

	for (; i + 4 <= n; i += 4) {
		uint32_t w;

		memcpy(&w, p + i, 4);
		h = (h ^ w) * 16777619u;
	}
	for (; i < n; i++)
		h = (h ^ p[i]) * 16777619u;
	return h;
}

static int send_all(struct talk *t, const void *p, size_t n)
{
	ssize_t rc = pl_lane_send(t->lane, p, n, 0);

	if (rc == (ssize_t)n)
		return 0;
	snprintf(t->unsent, sizeof(t->unsent), "send: %s",
		 rc < 0 ? strerror((int)-rc) : "not all of it");
	return -1;
}

static bool is_over(const struct talk *t)
{
	if (t->limit)
		return t->sent >= t->limit;
	return atomic_load(t->stop) || atomic_load(&t->own_stop);
}

static void *sender(void *arg)
{
	uint8_t *buf = malloc(RECORD_MAX);
	struct talk *t = arg;
	struct record r = { 0 };

	while (!is_over(t)) {
		r.no = t->sent;
		r.len = 1 + (uint32_t)rand_r(&t->seed) % record_max;
		for (uint32_t i = 0; i < r.len; i += 509)
			buf[i] = (uint8_t)rand_r(&t->seed);
		r.sum = sum_of(buf, r.len);
		if (send_all(t, &r, sizeof(r)) || send_all(t, buf, r.len))
			goto out;
		t->sent++;
		pause_for(t->pause_ms);
	}
	r = (struct record){ .no = t->sent };
	if (send_all(t, &r, sizeof(r)) == 0)
		pl_lane_shutdown(t->lane);
out:
	free(buf);
	return NULL;
}

static int recv_all(struct talk *t, void *p, size_t n)
{
	ssize_t rc = pl_lane_recv(t->lane, p, n, PL_WAITALL);

	if (rc == (ssize_t)n)
		return 0;
	t->is_new = rc == -ECONNRESET && t->received == 0;
	snprintf(t->wrong, sizeof(t->wrong), "receive: %s",
		 rc < 0 ? strerror((int)-rc) : "a part of it");
	return -1;
}

static void receive(struct talk *t)
{
	uint8_t *buf = malloc(RECORD_MAX);
	struct record r;
	ssize_t rc;
	char c;

	for (;;) {
		if (recv_all(t, &r, sizeof(r)))
			goto out;
		if (r.no != t->received || r.len > RECORD_MAX) {
			snprintf(t->wrong, sizeof(t->wrong),
				 "record %llu where %llu must be",
				 (unsigned long long)r.no,
				 (unsigned long long)t->received);
			goto out;
		}
		if (r.len == 0)
			break;
		if (recv_all(t, buf, r.len))
			goto out;
		if (sum_of(buf, r.len) != r.sum) {
			snprintf(t->wrong, sizeof(t->wrong),
				 "record %llu was changed",
				 (unsigned long long)r.no);
			goto out;
		}
		t->received++;
		t->bytes += r.len;
		count_one();
	}
	atomic_store(&t->own_stop, true);
	rc = pl_lane_recv(t->lane, &c, 1, 0);
	if (rc != 0)
		snprintf(t->wrong, sizeof(t->wrong), "no end: %zd", rc);
out:
	free(buf);
}

/* Both ways, until both have said their last. */
static void *talk_on(void *arg)
{
	struct talk *t = arg;
	pthread_t s;

	if (pthread_create(&s, NULL, sender, t)) {
		snprintf(t->wrong, sizeof(t->wrong), "no thread");
		return NULL;
	}
	receive(t);
	pthread_join(s, NULL);
	if (t->unsent[0] && !t->wrong[0])
		memcpy(t->wrong, t->unsent, sizeof(t->wrong));
	pl_lane_close(t->lane);
	return NULL;
}

static void report(const struct talk *t)
{
	if (t->wrong[0])
		printf("failed: %s after %llu sent, %llu received\n", t->wrong,
		       (unsigned long long)t->sent,
		       (unsigned long long)t->received);
	else
		printf("ok %llu sent, %llu received\n",
		       (unsigned long long)t->sent,
		       (unsigned long long)t->received);
	fflush(stdout);
}

static void *serve_one(void *arg)
{
	struct talk *t = arg;

	talk_on(t);
	/* Its asker's agent died between the two answers. */
	if (t->is_new)
		t->wrong[0] = '\0', printf("stillborn\n");
	else
		report(t);
	fflush(stdout);
	free(t);
	return NULL;
}

static unsigned int pause_of(const char *ms)
{
	return ms ? (unsigned int)strtoul(ms, NULL, 10) : 0;
}

static int cmd_serve(char **arg)
{
	static _Atomic bool never;
	struct pl_listener *l;
	struct pl_conn *conn;
	struct pl_err err = { 0 };
	int rc = pl_open(&conn, &err);

	if (rc == 0)
		rc = pl_listen(conn, "s", NULL, &l, &err);
	if (rc < 0)
		return fail("listen", rc, &err);
	printf("listening\n");
	fflush(stdout);
	while (!atomic_load(&stop_all)) {
		struct talk *t = calloc(1, sizeof(*t));
		pthread_t p;

		rc = pl_accept(l, 200, &t->lane, &err);
		if (rc == -ETIMEDOUT) {
			free(t);
			continue;
		}
		if (rc < 0)
			return fail("accept", rc, &err);
		t->stop = &never;
		t->seed = (unsigned int)rand();
		t->pause_ms = pause_of(arg[0]);
		if (pthread_create(&p, NULL, serve_one, t))
			return fail("thread", -EAGAIN, NULL);
		pthread_detach(p);
	}
	pl_unlisten(l);
	return 0;
}

static int connect_to(struct pl_conn *conn, const char *addr, struct talk *t)
{
	const char *ring = getenv("RING_BYTES");
	const struct pl_lane_opts opts = {
		.connect_timeout_ms = LIMIT_MS,
		.ring_bytes = ring ? strtoul(ring, NULL, 10) : 0,
	};
	struct pl_err err = { 0 };
	int rc = pl_connect(conn, addr, "s", &opts, &t->lane, &err);

	return rc < 0 ? fail("connect", rc, &err) : 0;
}

static int cmd_talk(char **arg)
{
	size_t n = strtoull(arg[1], NULL, 10);
	struct talk *t = calloc(n, sizeof(*t));
	pthread_t *threads = calloc(n, sizeof(*threads));
	struct pl_lane_info info;
	struct pl_conn *conn;
	struct pl_err err = { 0 };
	int rc = pl_open(&conn, &err), bad = 0;

	if (rc < 0)
		return fail("open", rc, &err);
	for (size_t i = 0; i < n; i++) {
		if (connect_to(conn, arg[0], &t[i]))
			return 1;
		t[i].stop = &stop_all;
		t[i].seed = (unsigned int)i + 77;
		t[i].pause_ms = pause_of(arg[2]);
		pl_lane_info(t[i].lane, &info);
		if (pthread_create(&threads[i], NULL, talk_on, &t[i]))
			return fail("thread", -EAGAIN, NULL);
	}
	printf("talking %s\n", info.path);
	fflush(stdout);
	for (size_t i = 0; i < n; i++) {
		pthread_join(threads[i], NULL);
		report(&t[i]);
		bad |= t[i].wrong[0] != '\0';
	}
	pl_close(conn);
	free(t);
	free(threads);
	return bad;
}

static int cmd_storm(char **arg)
{
	unsigned long n = strtoul(arg[1], NULL, 10);
	struct pl_conn *conn;
	struct pl_err err = { 0 };
	int rc = pl_open(&conn, &err);

	if (rc < 0)
		return fail("open", rc, &err);
	for (unsigned long i = 0; i < n; i++) {
		struct talk t = { .stop = &stop_all,
				  .seed = (unsigned int)i,
				  .limit = STORM_RECORDS };

		if (connect_to(conn, arg[0], &t))
			return 1;
		talk_on(&t);
		if (t.wrong[0]) {
			report(&t);
			return 1;
		}
	}
	printf("ok %lu lanes\n", n);
	pl_close(conn);
	return 0;
}

/* --- lanes that end by themselves ------------------------------------- */

/* Waits in poll, then says how the lane ended for its receiver and sender. */
static int tell_end(struct pl_lane *l)
{
	struct pollfd p = { .fd = pl_lane_fd(l), .events = POLLIN };
	ssize_t rc = -EAGAIN;
	char buf[4096];

	while (rc > 0 || rc == -EAGAIN) {
		if (poll(&p, 1, LIMIT_MS) != 1)
			return fail("poll", -ETIMEDOUT, NULL);
		rc = pl_lane_recv(l, buf, sizeof(buf), PL_DONTWAIT);
	}
	printf("receive %s\n", rc ? strerrorname_np((int)-rc) : "0");
	rc = pl_lane_send(l, "x", 1, 0);
	printf("send %s\n", rc < 0 ? strerrorname_np((int)-rc) : "1");
	fflush(stdout);
	pl_lane_close(l);
	return 0;
}

static int cmd_keep(char **arg)
{
	struct pl_listener *l;
	struct pl_lane *lane;
	struct pl_conn *conn;
	struct pl_err err = { 0 };
	int rc = pl_open(&conn, &err);

	(void)arg;
	if (rc == 0)
		rc = pl_listen(conn, "k", NULL, &l, &err);
	if (rc < 0)
		return fail("listen", rc, &err);
	printf("listening\n");
	fflush(stdout);
	rc = pl_accept(l, LIMIT_MS, &lane, &err);
	if (rc < 0)
		return fail("accept", rc, &err);
	printf("taken\n");
	fflush(stdout);
	rc = tell_end(lane);
	pl_unlisten(l);
	pl_close(conn);
	return rc;
}

static int hold(const char *addr, bool pour)
{
	static const char bytes[30000];
	struct pl_lane *lane;
	struct pl_conn *conn;
	struct pl_err err = { 0 };
	int rc = pl_open(&conn, &err);

	if (rc == 0)
		rc = pl_connect(conn, addr, "k", NULL, &lane, &err);
	if (rc < 0)
		return fail("connect", rc, &err);
	printf("holding\n");
	fflush(stdout);
	while (pour && pl_lane_send(lane, bytes, sizeof(bytes), 0) > 0)
		count_one();
	rc = tell_end(lane);
	pl_close(conn);
	return rc;
}

static int cmd_hold(char **arg)
{
	return hold(arg[0], false);
}

static int cmd_pour(char **arg)
{
	return hold(arg[0], true);
}

static int cmd_try(char **arg)
{
	const int ms = (int)strtol(arg[2], NULL, 10);
	const struct pl_lane_opts opts = { .connect_timeout_ms = ms };
	struct pl_region *r;
	struct pl_lane *lane;
	struct pl_conn *conn;
	struct pl_err err = { 0 };
	int rc = pl_open(&conn, &err);

	if (rc < 0)
		return fail("open", rc, &err);
	if (strcmp(arg[0], "region"))
		rc = pl_connect(conn, arg[1], "s", &opts, &lane, &err);
	else
		rc = pl_region_open(conn, arg[1], "r", ms, &r, &err);
	printf("%s %s\n", rc ? strerrorname_np(-rc) : "0", err.msg);
	fflush(stdout);
	return rc < 0;
}

/* --- regions ---------------------------------------------------------- */

/* Version v fills slot v % SLOTS with itself. */
static void fill(uint64_t *p, size_t words, uint64_t v)
{
	for (size_t i = 0; i < words; i++)
		p[i] = v;
}

static int cmd_own(char **arg)
{
	size_t size = strtoull(arg[0], NULL, 10), words = size / SLOTS / 8;
	struct pl_region *r;
	struct pl_conn *conn;
	struct pl_err err = { 0 };
	uint64_t v = 0;
	int rc = pl_open(&conn, &err);

	if (rc == 0)
		rc = pl_region_create(conn, "r", size, 0, &r, &err);
	if (rc < 0)
		return fail("create", rc, &err);
	printf("created\n");
	fflush(stdout);
	while (!atomic_load(&stop_all) && rc == 0) {
		size_t at = (v + 1) % SLOTS * words;

		fill((uint64_t *)pl_region_data(r) + at, words, v + 1);
		rc = pl_region_publish(r, at * 8, words * 8, &v);
		count_one();
		pause_for(1);
	}
	if (rc < 0)
		return fail("publish", rc, NULL);
	printf("published %llu\n", (unsigned long long)v);
	fflush(stdout);
	pl_region_close(r);
	pl_close(conn);
	return 0;
}

/* A word of version v's slot: of that version, or of a later round. */
static bool word_ok(uint64_t w, uint64_t v, bool exact)
{
	return exact ? w == v : w >= v && (w - v) % SLOTS == 0;
}

static int check_version(struct pl_region *r, uint64_t v, bool exact)
{
	size_t words = pl_region_size(r) / SLOTS / 8;
	const uint64_t *data = pl_region_data(r);

	for (uint64_t u = v > SLOTS - 1 ? v - (SLOTS - 1) : 1; u <= v; u++) {
		const uint64_t *p = data + u % SLOTS * words;

		for (size_t i = 0; i < words; i += exact ? 1 : words - 1)
			if (!word_ok(p[i], u, exact)) {
				printf("failed: version %llu has %llu in the "
				       "slot of %llu\n",
				       (unsigned long long)v,
				       (unsigned long long)p[i],
				       (unsigned long long)u);
				return 1;
			}
	}
	return 0;
}

static int cmd_read(char **arg)
{
	struct pl_region_info info;
	struct pl_region *r;
	struct pl_conn *conn;
	struct pl_err err = { 0 };
	uint64_t v = 0, now;
	int rc = pl_open(&conn, &err);

	if (rc == 0)
		rc = pl_region_open(conn, arg[0], "r", LIMIT_MS, &r, &err);
	if (rc < 0)
		return fail("open", rc, &err);
	pl_region_info(r, &info);
	printf("reading %s\n", info.path);
	fflush(stdout);
	while ((rc = pl_region_wait(r, v + 1, LIMIT_MS)) == 0) {
		now = pl_region_version(r);
		if (now <= v)
			return fail("the version went back", -EPROTO, NULL);
		v = now;
		if (check_version(r, v, false))
			return 1;
		if (progress)
			atomic_store(progress, v);
	}
	if (rc != -ECONNRESET)
		return fail("wait", rc, NULL);
	if (check_version(r, pl_region_version(r), true))
		return 1;
	printf("ok version %llu\n",
	       (unsigned long long)pl_region_version(r));
	pl_region_close(r);
	pl_close(conn);
	return 0;
}

static int cmd_watch(char **arg)
{
	struct pl_region *r;
	struct pl_conn *conn;
	struct pl_err err = { 0 };
	int rc = pl_open(&conn, &err);

	if (rc == 0)
		rc = pl_region_open(conn, arg[0], "r", LIMIT_MS, &r, &err);
	if (rc < 0)
		return fail("open", rc, &err);
	printf("watching\n");
	fflush(stdout);
	while (rc == 0)
		rc = pl_region_wait(r, pl_region_version(r) + 1, LIMIT_MS);
	printf("wait %s\n", strerrorname_np(-rc));
	fflush(stdout);
	pl_region_close(r);
	pl_close(conn);
	return 0;
}

/* ---------------------------------------------------------------------- */

static void map_progress(void)
{
	const char *path = getenv("PROGRESS");
	int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;

	if (fd < 0 || ftruncate(fd, 8) < 0)
		return;
	progress = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (progress == MAP_FAILED)
		progress = NULL;
	close(fd);
}

static const struct {
	const char *name;
	int n_args, n_more;
	int (*fn)(char **arg);
} commands[] = {
	{ "serve", 0, 1, cmd_serve }, { "talk", 2, 1, cmd_talk },
	{ "storm", 2, 0, cmd_storm }, { "own", 1, 0, cmd_own },
	{ "read", 1, 0, cmd_read },   { "watch", 1, 0, cmd_watch },
	{ "keep", 0, 0, cmd_keep },   { "hold", 1, 0, cmd_hold },
	{ "pour", 1, 0, cmd_pour },   { "try", 3, 0, cmd_try },
};

int main(int argc, char **argv)
{
	const struct sigaction sa = { .sa_handler = on_usr1 };
	const char *most = getenv("RECORD_BYTES");

	sigaction(SIGUSR1, &sa, NULL);
	map_progress();
	if (most)
		record_max = (uint32_t)strtoul(most, NULL, 10);
	if (record_max == 0 || record_max > RECORD_MAX)
		return 2;
	for (size_t i = 0; argc > 1 && i < PL_ARRAY_SIZE(commands); i++) {
		if (!strcmp(commands[i].name, argv[1]) &&
		    argc - 2 >= commands[i].n_args &&
		    argc - 2 <= commands[i].n_args + commands[i].n_more)
			return commands[i].fn(argv + 2);
	}
	fprintf(stderr, "usage: resume_pods COMMAND ARG...\n");
	return 2;
}
