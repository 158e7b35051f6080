/*
 * tests/system/hostile_pods.c - what the pods of hostile.sh do
 *
 *   victim N            listens on "v", takes N lanes, one after the other, and
 *                       moves data on each until it ends; says with what error
 *   memory ADDR         tries to write into what it shares with that pod: the
 *                       region "r", a lane's segments; into its own ones anew
 *   lane ADDR CASE      a lane to "v" there, whose rules it breaks
 *   guess ADDR SELF     asks for things of other pods by all numbers
 *   requests ADDR N     N requests to connect, whose answers it never reads
 */
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/util.h"
#include "shm/podlane.h"
#include "tests/system/agent_client.h"

static int failures;

/* --- a pod that does what is right --- */

static const char *move_all(struct pl_lane *l)
{
	char buf[4096] = { 0 };
	ssize_t rc = 1;

	pl_lane_set_timeout(l, 50);
	while (rc > 0 || rc == -EAGAIN || rc == -ETIMEDOUT) {
		rc = pl_lane_send(l, buf, sizeof(buf), 0);
		if (rc < 0 && rc != -ETIMEDOUT)
			break;
		rc = pl_lane_recv(l, buf, sizeof(buf), PL_DONTWAIT);
	}
	return rc ? strerrorname_np((int)-rc) : "end";
}

static int cmd_victim(char **arg)
{
	struct pl_listener *listener;
	struct pl_err err = { 0 };
	struct pl_conn *conn;
	struct pl_lane *l;

	if (pl_open(&conn, &err) < 0 ||
	    pl_listen(conn, "v", NULL, &listener, &err) < 0)
		die(err.msg);
	printf("listening\n");
	fflush(stdout);
	for (long i = strtol(arg[0], NULL, 10); i > 0; i--) {
		if (pl_accept(listener, -1, &l, &err) < 0)
			die(err.msg);
		printf("lane: %s\n", move_all(l));
		fflush(stdout);
		pl_lane_close(l);
	}
	pl_unlisten(listener);
	pl_close(conn);
	return 0;
}

/* --- memory --- */

static void may_not(bool worked, const char *what, const char *whose)
{
	if (!worked)
		return;
	printf("FAIL %s: %s\n", whose, what);
	failures++;
}

static void map_again(int fd, size_t size, const char *whose)
{
	char path[64];
	int other;
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	may_not(p != MAP_FAILED, "a second writable mapping", whose);
	p = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	may_not(p == MAP_FAILED, "no mapping to read", whose);
	may_not(mprotect(p, size, PROT_READ | PROT_WRITE) == 0,
		"a mapping made writable", whose);
	may_not(madvise(p, size, MADV_REMOVE) == 0, "MADV_REMOVE", whose);
	p = mremap(p, size, size + PL_SEG_CTL_BYTES, MREMAP_MAYMOVE);
	may_not(p != MAP_FAILED && mprotect(p, size, PROT_WRITE) == 0,
		"a mapping moved and made writable", whose);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	other = open(path, O_RDWR | O_CLOEXEC);
	if (other >= 0) {
		p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, other,
			 0);
		may_not(p != MAP_FAILED, "mapped by /proc/self/fd", whose);
		may_not(pwrite(other, "x", 1, 0) == 1,
			"written by /proc/self/fd", whose);
		close(other);
	}
	may_not(open(path, O_RDWR | O_TRUNC | O_CLOEXEC) >= 0,
		"truncated by /proc/self/fd", whose);
}

static void change_file(int fd, off_t size, const char *whose)
{
	int pipes[2];
	loff_t at = 0;

	may_not(pwrite(fd, "x", 1, PL_SEG_CTL_BYTES) == 1, "written", whose);
	may_not(ftruncate(fd, size / 2) == 0, "made smaller", whose);
	may_not(ftruncate(fd, 2 * size) == 0, "made larger", whose);
	may_not(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
			  4096) == 0, "a hole", whose);
	may_not(fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, 4096) == 0,
		"a range of zeros", whose);
	may_not(fallocate(fd, 0, 0, 2 * size) == 0, "more of it", whose);
	may_not(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0, "one seal more",
		whose);
	if (pipe(pipes) < 0 || write(pipes[1], "x", 1) != 1)
		die("pipe");
	may_not(splice(pipes[0], NULL, fd, &at, 1, 0) == 1, "spliced into",
		whose);
	close(pipes[0]);
	close(pipes[1]);
}

static void attack(int fd, const char *whose)
{
	char before[PL_SEG_CTL_BYTES + 1], after[PL_SEG_CTL_BYTES + 1];
	struct stat st;

	if (fstat(fd, &st) < 0 ||
	    pread(fd, before, sizeof(before), 0) != sizeof(before))
		die("cannot read a segment");
	map_again(fd, (size_t)st.st_size, whose);
	change_file(fd, st.st_size, whose);
	if (pread(fd, after, sizeof(after), 0) != sizeof(after) ||
	    before[PL_SEG_CTL_BYTES] != after[PL_SEG_CTL_BYTES])
		may_not(true, "its data have changed", whose);
	if (fstat(fd, &st) < 0 || (off_t)st.st_blocks * 512 < st.st_size)
		may_not(true, "it has holes", whose);
}

struct raw {
	int agent, own_fd, peer_fd, bell;
	struct pl_lane_seg *own;
};

static uint16_t ask_lane(struct raw *r, const char *addr, const char *service,
			 void *answer)
{
	union {
		struct pl_msg_connect m;
		char buf[PL_WIRE_MAX];
	} u = { .m = { head(PL_MSG_CONNECT, sizeof(u.m), 3),
		       .ring_bytes = RING,
		       .timeout_ms = 5000 } };
	int got[PL_FDPASS_MAX];
	uint16_t type;

	snprintf(u.m.addr, sizeof(u.m.addr), "%s", addr);
	snprintf(u.m.service, sizeof(u.m.service), "%s", service);
	r->own_fd = make_lane(&r->own);
	type = ask(r->agent, &u, &r->own_fd, 1, got);
	memcpy(answer, &u, sizeof(u));
	if (type == PL_MSG_CONNECT_OK) {
		r->peer_fd = got[0];
		r->bell = got[1];
	}
	return type;
}

static void raw_lane(struct raw *r, const char *addr)
{
	char answer[PL_WIRE_MAX];

	r->agent = open_agent();
	want(ask_lane(r, addr, "v", answer), PL_MSG_CONNECT_OK, answer);
}

static uint16_t ask_region(int agent, const char *addr, const char *name,
			   void *answer, int *fd)
{
	union {
		struct pl_msg_region_open m;
		char buf[PL_WIRE_MAX];
	} u = { .m = { head(PL_MSG_REGION_OPEN, sizeof(u.m), 4),
		       .timeout_ms = 3000 } };
	int got[PL_FDPASS_MAX];
	uint16_t type;

	snprintf(u.m.addr, sizeof(u.m.addr), "%s", addr);
	snprintf(u.m.name, sizeof(u.m.name), "%s", name);
	type = ask(agent, &u, NULL, 0, got);
	memcpy(answer, &u, sizeof(u));
	if (type == PL_MSG_REGION_OPEN_OK)
		*fd = got[0];
	return type;
}

static int cmd_memory(char **arg)
{
	char answer[PL_WIRE_MAX];
	struct raw r;
	int fd = -1;

	raw_lane(&r, arg[0]);
	attack(r.own_fd, "own segment");
	attack(r.peer_fd, "peer's segment");
	want(ask_region(r.agent, arg[0], "r", answer, &fd),
	     PL_MSG_REGION_OPEN_OK, answer);
	attack(fd, "region");
	printf("tried\n");
	return failures != 0;
}

/* --- lanes --- */

static void ring(const struct raw *r)
{
	(void)!send(r->bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void head_far(struct raw *r)
{
	atomic_store(&r->own->head, RING + 1);
}

static void head_back(struct raw *r)
{
	atomic_store(&r->own->head, 1000);
	ring(r);
	usleep(300000);
	atomic_store(&r->own->head, 10);
}

static void head_wraps(struct raw *r)
{
	atomic_store(&r->own->head, UINT64_MAX - 5);
}

static void tail_far(struct raw *r)
{
	atomic_store(&r->own->tail, UINT64_C(1) << 40);
}

static void tail_back(struct raw *r)
{
	atomic_store(&r->own->tail, 4000);
	ring(r);
	usleep(300000);
	atomic_store(&r->own->tail, 1);
}

static void state_none(struct raw *r)
{
	atomic_store(&r->own->state, 77);
}

static void closes_early(struct raw *r)
{
	close(r->bell);
	close(r->own_fd);
	close(r->peer_fd);
	r->bell = -1;
}

static void other_header(struct raw *r)
{
	r->own->ring_bytes = 1u << 30;
	r->own->magic = 0;
	r->own->version = 99;
	atomic_store(&r->own->head, RING + 1);
}

static const struct {
	const char *name;
	void (*fn)(struct raw *r);
} cases[] = {
	{ "head-far", head_far },
	{ "head-back", head_back },
	{ "head-wraps", head_wraps },
	{ "tail-far", tail_far },
	{ "tail-back", tail_back },
	{ "state", state_none },
	{ "early", closes_early },
	{ "header", other_header },
};

static int cmd_lane(char **arg)
{
	struct raw r;

	raw_lane(&r, arg[0]);
	for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++)
		if (!strcmp(cases[i].name, arg[1]))
			cases[i].fn(&r);
	/* It goes on ringing, and does not go until it is told. */
	for (int i = 0; i < 200; i++) {
		ring(&r);
		usleep(10000);
	}
	return 0;
}

/* --- guessing --- */

static uint16_t by_id(int agent, uint16_t type, uint64_t id)
{
	union {
		struct pl_msg_id m;
		struct pl_msg_region_more more;
		char buf[PL_WIRE_MAX];
	} u = { .m = { head(type, type == PL_MSG_REGION_MORE ?
			    sizeof(u.more) : sizeof(u.m), 9), id } };
	int got[PL_FDPASS_MAX];

	return ask(agent, &u, NULL, 0, got);
}

/* A lane of two others, or of this pod and another, that there never was. */
static uint16_t resume(int agent, const char *self, const char *peer)
{
	union {
		struct pl_msg_lane_resume m;
		char buf[PL_WIRE_MAX];
	} u = { .m = { head(PL_MSG_LANE_RESUME, sizeof(u.m), 5),
		       .ring_bytes = RING, .peer_ring_bytes = RING } };
	struct pl_lane_seg *a, *b;
	const int fds[2] = { make_lane(&a), make_lane(&b) };
	int got[PL_FDPASS_MAX];

	snprintf(u.m.self, sizeof(u.m.self), "%s", self);
	snprintf(u.m.peer, sizeof(u.m.peer), "%s", peer);
	snprintf(u.m.service, sizeof(u.m.service), "v");
	memset(u.m.uid, 7, sizeof(u.m.uid));
	return ask(agent, &u, fds, 2, got);
}

static int cmd_guess(char **arg)
{
	static const char *const names[] = { "r", "s", "secret", "g" };
	char answer[PL_WIRE_MAX];
	int agent = open_agent(), fd;
	struct raw r = { .agent = agent };

	for (uint64_t id = 0; id < 3000; id++) {
		by_id(agent, PL_MSG_LANE_CLOSE, id);
		by_id(agent, PL_MSG_REGION_CLOSE, id);
		may_not(by_id(agent, PL_MSG_REGION_MORE, id) != PL_MSG_ERROR,
			"a part of another's region", "guess");
	}
	for (size_t i = 0; i < PL_ARRAY_SIZE(names); i++)
		may_not(ask_region(agent, arg[0], names[i], answer, &fd) !=
			PL_MSG_ERROR, names[i], "region elsewhere");
	may_not(ask_lane(&r, arg[0], "v", answer) != PL_MSG_ERROR, "v",
		"a service of another namespace");
	may_not(resume(agent, arg[0], arg[1]) != PL_MSG_ERROR,
		"another pod's lane", "guess");
	may_not(resume(agent, arg[1], arg[0]) != PL_MSG_ERROR,
		"a lane that never was", "guess");
	printf("tried\n");
	return failures != 0;
}

static int cmd_requests(char **arg)
{
	const long n = strtol(arg[1], NULL, 10);
	struct pl_msg_connect m = { head(PL_MSG_CONNECT, sizeof(m), 3),
				    .ring_bytes = RING,
				    .timeout_ms = 60000 };
	struct pl_lane_seg *own;
	int agent = open_agent(), fd = make_lane(&own);

	snprintf(m.addr, sizeof(m.addr), "%s", arg[0]);
	snprintf(m.service, sizeof(m.service), "v");
	for (long i = 0; i < n; i++) {
		m.h.seq = 10 + (uint32_t)i;
		if (pl_fdpass_send(agent, &m, m.h.len, &fd, 1, 0) < 0) {
			close(agent);
			agent = open_agent();
		}
	}
	printf("tried\n");
	return 0;
}

static const struct {
	const char *name;
	int (*fn)(char **arg);
	int n_args;
} commands[] = {
	{ "victim", cmd_victim, 1 },
	{ "memory", cmd_memory, 1 },
	{ "lane", cmd_lane, 2 },
	{ "guess", cmd_guess, 2 },
	{ "requests", cmd_requests, 2 },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < PL_ARRAY_SIZE(commands); i++)
		if (!strcmp(commands[i].name, argv[1]) &&
		    argc == commands[i].n_args + 2)
			return commands[i].fn(argv + 2);
	return 2;
}
