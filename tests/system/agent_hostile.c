/*
 * tests/system/agent_hostile.c - a pod that breaks every rule of the protocol
 *
 * Each case has a connection of its own and must be answered by ERROR, or by
 * the end of the connection, within seconds; after each of them a good client
 * must be served. Prints one line per case that goes wrong.
 */
#include <arpa/inet.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "tests/system/agent_client.h"

#define REPLY_MS 5000

struct bad {
	const char *what;
	void (*make)(char *buf, size_t *len, int *fds, int *n_fds);
	int says_hello;
};

static void text(char *to, const char *s)
{
	memcpy(to, s, strlen(s) + 1);
}

static void *message(char *buf, size_t *len, uint16_t type, size_t size)
{
	struct pl_msg_hdr h = head(type, size, 7);

	memset(buf, 0, PL_WIRE_MAX * 4);
	memcpy(buf, &h, sizeof(h));
	*len = size;
	return buf;
}

static void tiny(char *buf, size_t *len, int *fds, int *n)
{
	(void)fds;
	(void)n;
	message(buf, len, PL_MSG_HELLO, 5);
}

static void huge(char *buf, size_t *len, int *fds, int *n)
{
	(void)fds;
	(void)n;
	message(buf, len, PL_MSG_LISTEN, PL_WIRE_MAX * 4);
}

static void bad_magic(char *buf, size_t *len, int *fds, int *n)
{
	struct pl_msg_hdr *h = message(buf, len, PL_MSG_HELLO,
				       sizeof(struct pl_msg_hello));

	(void)fds;
	(void)n;
	h->magic++;
}

static void bad_version(char *buf, size_t *len, int *fds, int *n)
{
	struct pl_msg_hdr *h = message(buf, len, PL_MSG_HELLO,
				       sizeof(struct pl_msg_hello));

	(void)fds;
	(void)n;
	h->version = 99;
}

static void bad_length(char *buf, size_t *len, int *fds, int *n)
{
	struct pl_msg_hdr *h = message(buf, len, PL_MSG_HELLO,
				       sizeof(struct pl_msg_hello));

	(void)fds;
	(void)n;
	h->len = 0xffffffff;
}

static void zero_seq(char *buf, size_t *len, int *fds, int *n)
{
	struct pl_msg_listen *m = message(buf, len, PL_MSG_LISTEN, sizeof(*m));

	(void)fds;
	(void)n;
	m->h.seq = 0;
	text(m->service, "x");
}

static void unknown_type(char *buf, size_t *len, int *fds, int *n)
{
	(void)fds;
	(void)n;
	message(buf, len, 999, sizeof(struct pl_msg_ok));
}

static void agents_type(char *buf, size_t *len, int *fds, int *n)
{
	(void)fds;
	(void)n;
	message(buf, len, PL_MSG_CONNECT_OK, sizeof(struct pl_msg_lane));
}

static void no_hello(char *buf, size_t *len, int *fds, int *n)
{
	struct pl_msg_listen *m = message(buf, len, PL_MSG_LISTEN, sizeof(*m));

	(void)fds;
	(void)n;
	text(m->service, "x");
}

static void future(char *buf, size_t *len, int *fds, int *n)
{
	struct pl_msg_hello *m = message(buf, len, PL_MSG_HELLO, sizeof(*m));

	(void)fds;
	(void)n;
	m->version_min = 7;
	m->version_max = 9;
}

static void hello_again(char *buf, size_t *len, int *fds, int *n)
{
	struct pl_msg_hello *m = message(buf, len, PL_MSG_HELLO, sizeof(*m));

	(void)fds;
	(void)n;
	m->version_min = m->version_max = 1;
}

static void wrong_size(char *buf, size_t *len, int *fds, int *n)
{
	(void)fds;
	(void)n;
	message(buf, len, PL_MSG_LISTEN, sizeof(struct pl_msg_listen) - 8);
}

static void no_name(char *buf, size_t *len, int *fds, int *n)
{
	(void)fds;
	(void)n;
	message(buf, len, PL_MSG_LISTEN, sizeof(struct pl_msg_listen));
}

static void endless_name(char *buf, size_t *len, int *fds, int *n)
{
	struct pl_msg_listen *m = message(buf, len, PL_MSG_LISTEN, sizeof(*m));

	(void)fds;
	(void)n;
	memset(m->service, 'a', sizeof(m->service));
}

static void evil_name(char *buf, size_t *len, int *fds, int *n)
{
	struct pl_msg_listen *m = message(buf, len, PL_MSG_LISTEN, sizeof(*m));

	(void)fds;
	(void)n;
	text(m->service, "a\nlevel=error");
}

static void unknown_flags(char *buf, size_t *len, int *fds, int *n)
{
	struct pl_msg_listen *m = message(buf, len, PL_MSG_LISTEN, sizeof(*m));

	(void)fds;
	(void)n;
	text(m->service, "x");
	m->flags = 0xff;
}

/* CONNECT to oneself, with a segment that make() below spoils. */
static struct pl_msg_connect *connect_with(char *buf, size_t *len, int *fds,
					   int *n, int seg)
{
	struct pl_msg_connect *m = message(buf, len, PL_MSG_CONNECT,
					   sizeof(*m));

	text(m->addr, getenv("SELF"));
	text(m->service, "good");
	m->ring_bytes = RING;
	m->timeout_ms = 1000;
	fds[0] = seg;
	*n = seg >= 0;
	return m;
}

static void no_segment(char *buf, size_t *len, int *fds, int *n)
{
	connect_with(buf, len, fds, n, -1);
}

static void many_fds(char *buf, size_t *len, int *fds, int *n)
{
	struct pl_lane_seg *map;

	connect_with(buf, len, fds, n, make_lane(&map));
	while (*n < PL_FDPASS_MAX) {
		fds[*n] = dup(fds[0]);
		++*n;
	}
}

static void not_memory(char *buf, size_t *len, int *fds, int *n)
{
	connect_with(buf, len, fds, n, open("/dev/null", O_RDWR));
}

/* Accepts nothing: who sends to it is stuck when its buffers are full. */
static int deaf_listener(struct sockaddr_in *sa)
{
	socklen_t len = sizeof(*sa);
	int l = socket(AF_INET, SOCK_STREAM, 0);

	*sa = (struct sockaddr_in){ .sin_family = AF_INET };
	sa->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(l, (struct sockaddr *)sa, sizeof(*sa)) < 0 ||
	    listen(l, 64) < 0 ||
	    getsockname(l, (struct sockaddr *)sa, &len) < 0)
		die("a TCP listener");
	return l;
}

/* A connection whose last close waits for a minute. */
static int lingering(const struct sockaddr_in *sa)
{
	struct linger li = { 1, 60 };
	static char data[4096];
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (connect(fd, (const struct sockaddr *)sa, sizeof(*sa)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_LINGER, &li, sizeof(li)) < 0)
		die("a TCP connection");
	while (send(fd, data, sizeof(data), MSG_DONTWAIT) > 0)
		;
	return fd;
}

static void a_file(char *buf, size_t *len, int *fds, int *n)
{
	connect_with(buf, len, fds, n, open("/proc/self/exe", O_RDONLY));
}

static void no_seals(char *buf, size_t *len, int *fds, int *n)
{
	struct pl_lane_seg h = { .magic = PL_LANE_MAGIC,
				 .version = PL_LAYOUT_VERSION,
				 .ring_bytes = RING };
	void *map;
	int fd = make_segment(RING, &map);

	memcpy(map, &h, sizeof(h));
	connect_with(buf, len, fds, n, fd);
}

static void some_seals(char *buf, size_t *len, int *fds, int *n)
{
	no_seals(buf, len, fds, n);
	if (fcntl(fds[0], F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SEAL) < 0)
		die("seal");
}

static void too_small(char *buf, size_t *len, int *fds, int *n)
{
	struct pl_lane_seg h = { .magic = PL_LANE_MAGIC,
				 .version = PL_LAYOUT_VERSION,
				 .ring_bytes = RING };
	void *map;
	int fd = make_segment(0, &map);

	memcpy(map, &h, sizeof(h));
	seal(fd);
	connect_with(buf, len, fds, n, fd);
}

static void holes(char *buf, size_t *len, int *fds, int *n)
{
	struct pl_lane_seg h = { .magic = PL_LANE_MAGIC,
				 .version = PL_LAYOUT_VERSION,
				 .ring_bytes = RING };
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (ftruncate(fd, (off_t)pl_seg_file_bytes(RING)) < 0 ||
	    pwrite(fd, &h, sizeof(h), 0) != sizeof(h))
		die("memfd");
	seal(fd);
	connect_with(buf, len, fds, n, fd);
}

static void no_header(char *buf, size_t *len, int *fds, int *n)
{
	void *map;
	int fd = make_segment(RING, &map);

	seal(fd);
	connect_with(buf, len, fds, n, fd);
}

static void odd_ring(char *buf, size_t *len, int *fds, int *n)
{
	struct pl_lane_seg *map;

	connect_with(buf, len, fds, n, make_lane(&map))->ring_bytes = 65537;
}

static void zero_ring(char *buf, size_t *len, int *fds, int *n)
{
	struct pl_lane_seg *map;

	connect_with(buf, len, fds, n, make_lane(&map))->ring_bytes = 0;
}

static void vast_ring(char *buf, size_t *len, int *fds, int *n)
{
	struct pl_lane_seg *map;

	connect_with(buf, len, fds, n, make_lane(&map))->ring_bytes = 1u << 31;
}

static void bad_timeout(char *buf, size_t *len, int *fds, int *n)
{
	struct pl_lane_seg *map;

	connect_with(buf, len, fds, n, make_lane(&map))->timeout_ms = -7;
}

static void no_address(char *buf, size_t *len, int *fds, int *n)
{
	struct pl_lane_seg *map;

	text(connect_with(buf, len, fds, n, make_lane(&map))->addr, "pod");
}

static void endless_address(char *buf, size_t *len, int *fds, int *n)
{
	struct pl_lane_seg *map;
	struct pl_msg_connect *m = connect_with(buf, len, fds, n,
						make_lane(&map));

	memset(m->addr, '1', sizeof(m->addr));
}

static struct pl_msg_region_create *region_with(char *buf, size_t *len,
						int *fds, int *n, size_t size)
{
	struct pl_msg_region_create *m = message(buf, len, PL_MSG_REGION_CREATE,
						 sizeof(*m));
	struct pl_region_seg *map;

	text(m->name, "r");
	m->size = size;
	fds[0] = make_region(4096, &map);
	*n = 1;
	return m;
}

static void region_size(char *buf, size_t *len, int *fds, int *n)
{
	region_with(buf, len, fds, n, 1u << 30);
}

static void region_zero(char *buf, size_t *len, int *fds, int *n)
{
	region_with(buf, len, fds, n, 0);
}

static void region_wrap(char *buf, size_t *len, int *fds, int *n)
{
	region_with(buf, len, fds, n, SIZE_MAX - 100);
}

static void region_of_lane(char *buf, size_t *len, int *fds, int *n)
{
	struct pl_lane_seg *map;

	region_with(buf, len, fds, n, RING);
	close(fds[0]);
	fds[0] = make_lane(&map);
}

static void region_name(char *buf, size_t *len, int *fds, int *n)
{
	text(region_with(buf, len, fds, n, 4096)->name, "a b");
}

static const struct bad cases[] = {
	{ "shorter than a header", tiny, 0 },
	{ "longer than allowed", huge, 1 },
	{ "wrong magic", bad_magic, 0 },
	{ "unknown version", bad_version, 0 },
	{ "wrong length", bad_length, 0 },
	{ "sequence number 0", zero_seq, 1 },
	{ "unknown type", unknown_type, 1 },
	{ "a type of the agent", agents_type, 1 },
	{ "no HELLO", no_hello, 0 },
	{ "HELLO of the future", future, 0 },
	{ "HELLO twice", hello_again, 1 },
	{ "size of another type", wrong_size, 1 },
	{ "empty name", no_name, 1 },
	{ "name without an end", endless_name, 1 },
	{ "name with a line feed", evil_name, 1 },
	{ "unknown flags", unknown_flags, 1 },
	{ "no segment", no_segment, 1 },
	{ "too many descriptors", many_fds, 1 },
	{ "a device as segment", not_memory, 1 },
	{ "a file as segment", a_file, 1 },
	{ "no seals", no_seals, 1 },
	{ "too few seals", some_seals, 1 },
	{ "segment too small", too_small, 1 },
	{ "segment with holes", holes, 1 },
	{ "segment without header", no_header, 1 },
	{ "ring that is no power of two", odd_ring, 1 },
	{ "ring of 0", zero_ring, 1 },
	{ "ring too large", vast_ring, 1 },
	{ "timeout below -1", bad_timeout, 1 },
	{ "no address", no_address, 1 },
	{ "address without an end", endless_address, 1 },
	{ "region larger than its segment", region_size, 1 },
	{ "region of 0", region_zero, 1 },
	{ "region whose size wraps", region_wrap, 1 },
	{ "a lane's segment as region", region_of_lane, 1 },
	{ "name of a region with a space", region_name, 1 },
};

static int code_of(const char *buf)
{
	struct pl_msg_error e;

	memcpy(&e, buf, sizeof(e));
	return e.code;
}

/* Nobody listens, so a CONNECT that is refused for that passed the checks. */
static int one(const struct bad *b)
{
	char buf[PL_WIRE_MAX * 4] __attribute__((aligned(8)));
	int fds[PL_FDPASS_MAX], n_fds = 0, got[PL_FDPASS_MAX], n;
	int fd = b->says_hello ? open_agent() : dial();
	struct pl_msg_hdr h = { 0 };
	size_t len;
	ssize_t r;

	if (fd < 0)
		die("connect");
	b->make(buf, &len, fds, &n_fds);
	if (pl_fdpass_send(fd, buf, len, fds, n_fds, 0) < 0)
		die("send");
	for (int i = 0; i < n_fds; i++)
		close(fds[i]);
	r = get(fd, buf, sizeof(buf), got, &n, REPLY_MS);
	close(fd);
	if (r >= (ssize_t)sizeof(h))
		memcpy(&h, buf, sizeof(h));
	if (h.type == PL_MSG_ERROR && code_of(buf) == ECONNREFUSED) {
		printf("%s: was not noticed\n", b->what);
		return 1;
	}
	if (r == 0 || r == -ECONNRESET || h.type == PL_MSG_ERROR)
		return 0;
	printf("%s: answered by %zd, type %d\n", b->what, r, h.type);
	return 1;
}

/* Those that have gone count against the limit until the agent has looked. */
static void wait_served(void)
{
	for (int i = 0; i < 100; i++) {
		union {
			struct pl_msg_hello m;
			char buf[PL_WIRE_MAX];
		} u = { .m = { head(PL_MSG_HELLO, sizeof(u.m), 1), 1, 1 } };
		int got[PL_FDPASS_MAX], n, fd = dial();
		ssize_t r;

		if (fd < 0)
			die("connect");
		pl_fdpass_send(fd, &u, sizeof(u.m), NULL, 0, 0);
		r = get(fd, &u, sizeof(u), got, &n, REPLY_MS);
		close(fd);
		if (r > 0 && u.m.h.type == PL_MSG_HELLO_OK)
			return;
		if (r == -ETIMEDOUT)
			break;
		usleep(20000);
	}
	die("a good client is not served");
}

/*
 * Descriptors that come unasked, from programs that close them while they are
 * under way, so that the agent is the last to do so.
 */
static void linger(void)
{
	struct sockaddr_in sa;
	int listener = deaf_listener(&sa);

	for (int i = 0; i < 10; i++) {
		char buf[PL_WIRE_MAX * 4];
		int fds[PL_FDPASS_MAX], n = 0, fd;
		size_t len;
		pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (pid > 0) {
			waitpid(pid, NULL, 0);
			continue;
		}
		message(buf, &len, PL_MSG_HELLO, sizeof(struct pl_msg_hello));
		while (n < PL_FDPASS_MAX)
			fds[n++] = lingering(&sa);
		fd = dial();
		pl_fdpass_send(fd, buf, len, fds, n, 0);
		/* Where the agent was quicker, we wait, until the alarm. */
		alarm(1);
		while (n > 0)
			close(fds[--n]);
		_exit(0);
	}
	wait_served();
	close(listener);
}

/* Requests whose answers nobody reads. */
static void flood(void)
{
	struct timeval tv = { .tv_sec = 2 };
	int fd = open_agent();
	char buf[PL_WIRE_MAX * 4];
	size_t len;
	struct pl_msg_id *m = message(buf, &len, PL_MSG_LANE_CLOSE,
				      sizeof(*m));

	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	for (int i = 0; i < 20000; i++)
		if (pl_fdpass_send(fd, m, sizeof(*m), NULL, 0, 0) < 0)
			return;
	printf("flood: the agent went on\n");
	exit(1);
}

int main(void)
{
	int bad = 0;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		bad += one(&cases[i]);
		close(open_agent());
	}
	linger();
	flood();
	close(open_agent());
	printf("%zu cases\n", sizeof(cases) / sizeof(*cases));
	return bad != 0;
}
