/* tests/unit/test_carrier_link.c - connections of the tcp carrier, bad peers */
#include "tests/unit/carrier_util.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/resource.h>

#include "rdma/tcp_wire.h"

struct pair {
	struct event_base *base;
	struct end a, b;
	struct memory mem;		/* b's, exposed */
	int done, failed;
};

static int setup(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	/* What these tests provoke would fill the log. */
	pl_log_init("test", getenv("VERBOSE") ? PL_LOG_DEBUG : PL_LOG_ERROR);
	p->base = event_base_new();
	end_create(&p->a, p->base, "node-a", 0);
	end_create(&p->b, p->base, "node-b", 0);
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	struct pair *p = *state;

	if (p->a.c)
		pl_carrier_destroy(p->a.c);
	if (p->b.c)
		pl_carrier_destroy(p->b.c);
	if (p->mem.map)
		memory_fini(&p->mem);
	event_base_free(p->base);
	free(p);
	return 0;
}

static void pair_up(struct pair *p)
{
	end_dial(&p->a, "node-b", &p->b);
	RUN_UNTIL(p->base, p->a.ups == 1 && p->b.ups == 1);
}

static void expose(struct pair *p, size_t len)
{
	memory_init(&p->mem, len);
	assert_int_equal(pl_carrier_expose(p->b.peer, p->mem.fd, p->mem.map,
					   len, p, &p->mem.id), 0);
}

/* Connected TCP sockets of this process; breaks those with local port `cut`. */
static int sockets(uint16_t cut)
{
	int n = 0;

	for (int fd = 3; fd < 1024; fd++) {
		struct sockaddr_in sa;
		socklen_t len = sizeof(sa);

		if (getpeername(fd, (struct sockaddr *)&sa, &len) < 0 ||
		    sa.sin_family != AF_INET)
			continue;
		n++;
		len = sizeof(sa);
		getsockname(fd, (struct sockaddr *)&sa, &len);
		if (cut && ntohs(sa.sin_port) == cut)
			shutdown(fd, SHUT_RDWR);
	}
	return n;
}

static void on_done(void *user, int status)
{
	struct pair *p = user;

	if (status)
		p->failed++;
	else
		p->done++;
}

static void reconnects(void **state)
{
	struct pair *p = *state;
	uint64_t instance, words[2] = { 1, 2 };

	pair_up(p);
	expose(p, 4096);
	instance = p->a.peer->instance;
	for (int i = 1; i <= 20; i++) {
		sockets(p->b.c->port);
		RUN_UNTIL(p->base, p->a.ups == i + 1 && p->b.ups == i + 1);
		assert_int_equal(p->a.downs, i);
		assert_int_equal(p->b.downs, i);
		words[0]++;
		assert_int_equal(pl_carrier_put(p->a.peer, 0, p->mem.id, 64,
						words, 16, PL_PUT_NOTIFY, NULL,
						NULL), 0);
		RUN_UNTIL(p->base, p->b.notifies == i);
		assert_memory_equal(p->mem.map + 64, words, 16);
	}
	/* A mere loss of the connection: the same agent. */
	assert_true(p->a.peer->instance == instance);
	assert_int_equal(sockets(0), 4);
}

static void loss_ends_puts(void **state)
{
	struct pair *p = *state;
	struct memory src;

	pair_up(p);
	expose(p, 32 << 20);
	memory_init(&src, 32 << 20);
	assert_int_equal(pl_carrier_source(p->a.peer, src.fd, src.map, src.len,
					   &src.id), 0);
	assert_int_equal(pl_carrier_put(p->a.peer, src.id, p->mem.id, 0,
					src.map, 4096, 0, on_done, p), 0);
	assert_int_equal(pl_carrier_put(p->a.peer, src.id, p->mem.id, 0,
					src.map, 4096, 0, on_done, p), 0);
	sockets(p->b.c->port);
	RUN_UNTIL(p->base, p->a.downs == 1);
	assert_int_equal(p->done + p->failed, 2);
	assert_int_equal(pl_carrier_queued(p->a.peer), 0);
	if (!p->a.peer->is_up) {
		assert_int_equal(pl_carrier_put(p->a.peer, 0, p->mem.id, 0,
						src.map, 8, 0, NULL, NULL),
				 -ENOTCONN);
		assert_int_equal(pl_carrier_message(p->a.peer, "x", 1, 0),
				 -ENOTCONN);
	}
	RUN_UNTIL(p->base, p->a.ups == 2);
	/* Sources and keys are still good. */
	assert_int_equal(pl_carrier_put(p->a.peer, src.id, p->mem.id, 0,
					src.map, src.len, PL_PUT_NOTIFY, NULL,
					NULL), 0);
	RUN_UNTIL(p->base, p->b.notifies == 1);
	memory_fini(&src);
}

static void restart_shows(void **state)
{
	struct pair *p = *state;
	uint64_t instance;
	uint16_t port = p->b.c->port;

	pair_up(p);
	instance = p->a.peer->instance;
	pl_carrier_destroy(p->b.c);
	RUN_UNTIL(p->base, p->a.downs == 1);
	assert_int_equal(p->b.downs, 0);
	memset(&p->b, 0, sizeof(p->b));
	run_ms(p->base, 200);
	/* Once, however often it tries. */
	assert_int_equal(p->a.downs, 1);
	end_create(&p->b, p->base, "node-b", port);
	RUN_UNTIL(p->base, p->a.ups == 2 && p->b.ups == 1);
	assert_true(p->a.peer->instance != instance);
	assert_string_equal(p->a.peer->node, "node-b");
}

static void unreachable_is_told_once(void **state)
{
	struct pair *p = *state;
	uint16_t port = p->b.c->port;

	pl_carrier_destroy(p->b.c);
	memset(&p->b, 0, sizeof(p->b));
	struct pl_addr a = loopback();

	assert_non_null(pl_carrier_peer_get(p->a.c, "node-b", &a, port));
	RUN_UNTIL(p->base, p->a.downs == 1);
	assert_int_equal(p->a.reason, -ECONNREFUSED);
	run_ms(p->base, 300);
	assert_int_equal(p->a.downs, 1);
	end_create(&p->b, p->base, "node-b", port);
	RUN_UNTIL(p->base, p->a.ups == 1 && p->b.ups == 1);
}

/* Whatever the order in which things cross, one set remains, with no loss. */
static void both_dial(void **state)
{
	struct pair *p = *state;

	for (int i = 0; i < 60; i++) {
		end_dial(i % 2 ? &p->a : &p->b, i % 2 ? "node-b" : "node-a",
			 i % 2 ? &p->b : &p->a);
		for (int k = 0; k < i % 7; k++)
			event_base_loop(p->base, EVLOOP_NONBLOCK);
		end_dial(i % 2 ? &p->b : &p->a, i % 2 ? "node-a" : "node-b",
			 i % 2 ? &p->a : &p->b);
		RUN_UNTIL(p->base, p->a.ups == 1 && p->b.ups == 1);
		run_ms(p->base, i < 3 ? 300 : 10);
		assert_int_equal(p->a.ups + p->b.ups, 2);
		assert_int_equal(p->a.downs + p->b.downs, 0);
		if (i < 3)
			assert_int_equal(sockets(0), 4);
		pl_carrier_message(p->a.peer, "x", 1, 0);
		pl_carrier_message(p->b.peer, "x", 1, 0);
		RUN_UNTIL(p->base, p->a.messages == 1 && p->b.messages == 1);
		pl_carrier_destroy(p->a.c);
		pl_carrier_destroy(p->b.c);
		memset(&p->a, 0, sizeof(p->a));
		memset(&p->b, 0, sizeof(p->b));
		end_create(&p->a, p->base, "node-a", 0);
		end_create(&p->b, p->base, "node-b", 0);
	}
}

/* Both sides redial at once after each loss. */
static void both_redial(void **state)
{
	struct pair *p = *state;

	pair_up(p);
	end_dial(&p->b, "node-a", &p->a);
	for (int i = 1; i <= 20; i++) {
		sockets(i % 2 ? p->b.c->port : p->a.c->port);
		sockets(i % 2 ? p->a.c->port : p->b.c->port);
		RUN_UNTIL(p->base, p->a.ups == p->a.downs + 1 &&
			  p->b.ups == p->b.downs + 1 && p->a.downs >= i);
		assert_int_equal(p->a.downs, i);
		assert_int_equal(p->b.downs, i);
	}
	run_ms(p->base, 300);
	assert_int_equal(sockets(0), 4);
}

static void stranger_is_refused(void **state)
{
	struct pair *p = *state;

	p->b.refuse = "node-a";
	end_dial(&p->a, "node-b", &p->b);
	RUN_UNTIL(p->base, p->a.downs == 1);
	assert_int_equal(p->a.reason, -EACCES);
	assert_int_equal(p->b.ups + p->b.downs, 0);
	assert_true(p->b.admits >= 1);
	p->b.refuse = NULL;
	RUN_UNTIL(p->base, p->a.ups == 1);
}

static void without_admit_only_wanted(void **state)
{
	struct pair *p = *state;
	struct pl_carrier_config cfg;

	pl_carrier_destroy(p->b.c);
	cfg = end_config(&p->b, p->base, "node-b", 0);
	cfg.cb.admit = NULL;
	assert_int_equal(pl_carrier_create(&pl_carrier_tcp, &cfg, &p->b.c,
					   NULL), 0);
	end_dial(&p->a, "node-b", &p->b);
	RUN_UNTIL(p->base, p->a.downs == 1);
	assert_int_equal(p->a.reason, -EACCES);
	end_dial(&p->b, "node-a", &p->a);
	RUN_UNTIL(p->base, p->a.ups == 1 && p->b.ups == 1);
}

static void wrong_name_is_refused(void **state)
{
	struct pair *p = *state;

	/* b is there, but is not node-x. */
	end_dial(&p->a, "node-x", &p->b);
	RUN_UNTIL(p->base, p->a.downs == 1);
	assert_int_equal(p->a.reason, -EACCES);
	assert_int_equal(p->b.ups, 0);
}

/* Whether somebody came, who is sent away without a word. */
static bool came(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static bool written(int fd, const char *text)
{
	char buf[4096];
	ssize_t n = pread(fd, buf, sizeof(buf) - 1, 0);

	assert_true(n >= 0);
	buf[n] = '\0';
	return strstr(buf, text);
}

/* Once may be an agent that stops, again and again is none. */
static void silence_asks_in_the_end(void **state)
{
	struct pair *p = *state;
	struct sockaddr_in sa = { .sin_family = AF_INET };
	socklen_t len = sizeof(sa);
	struct pl_addr a = loopback();
	int old = dup(STDERR_FILENO), log = memfd_create("log", MFD_CLOEXEC);
	int l = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	bool early;

	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(l, (struct sockaddr *)&sa, len), 0);
	assert_int_equal(listen(l, 8), 0);
	assert_int_equal(getsockname(l, (struct sockaddr *)&sa, &len), 0);
	pl_log_init("test", PL_LOG_WARN);
	assert_int_equal(dup2(log, STDERR_FILENO), STDERR_FILENO);
	assert_non_null(pl_carrier_peer_get(p->a.c, "node-b", &a,
					    ntohs(sa.sin_port)));
	RUN_UNTIL(p->base, came(l));
	RUN_UNTIL(p->base, came(l));
	early = written(log, "without an answer\n") &&
		!written(log, "carrier.security");
	RUN_UNTIL(p->base, came(l));
	RUN_UNTIL(p->base, written(log, "carrier.security the same there?\n"));
	assert_int_equal(dup2(old, STDERR_FILENO), STDERR_FILENO);
	assert_true(early);
	assert_int_equal(p->a.reason, -ECONNRESET);
	assert_int_equal(p->a.downs, 1);
	close(old);
	close(log);
	close(l);
}

/* --- a hostile client ----------------------------------------------------- */

static struct pl_tcp_hello hello_make(uint64_t instance, uint64_t set)
{
	struct pl_tcp_hello h = {
		.magic = PL_TCP_MAGIC,
		.version = PL_TCP_VERSION,
		.len = sizeof(h),
		.instance = instance,
		.set = set,
		.count = 1,
		.node = "evil",
		.to = "node-b",
	};

	return h;
}

static int client(const struct pair *p)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_port = htons(p->b.c->port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	return fd;
}

/* What b answers: a status, or -1 for the end of the connection. */
static int say(struct pair *p, int fd, const struct pl_tcp_hello *h)
{
	uint64_t end_ns = pl_now_ns() + WAIT_NS;
	struct pl_tcp_welcome w;
	ssize_t n = -1;

	assert_int_equal(send(fd, h, sizeof(*h), MSG_NOSIGNAL), sizeof(*h));
	while (n < 0 && pl_now_ns() < end_ns) {
		run_once(p->base);
		n = recv(fd, &w, sizeof(w), 0);
		if (n < 0 && errno == ECONNRESET)
			return -1;
	}
	assert_true(n >= 0);
	if (n != sizeof(w))
		return -1;
	assert_int_equal(w.magic, PL_TCP_MAGIC);
	return w.status;
}

static bool is_closed(int fd)
{
	char c[256];
	ssize_t n = recv(fd, c, sizeof(c), 0);

	return n == 0 || (n < 0 && errno != EAGAIN);
}

static int evil(struct pair *p)
{
	struct pl_tcp_hello h = hello_make(4711, pl_now_ns() | 1);
	int fd = client(p);
	int ups = p->b.ups;

	assert_int_equal(say(p, fd, &h), 0);
	RUN_UNTIL(p->base, p->b.ups == ups + 1);
	return fd;
}

static void hello_is_checked(void **state)
{
	struct pair *p = *state;
	struct pl_tcp_hello bad[13];
	int fd;

	for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++)
		bad[i] = hello_make(1, 2);
	bad[0].magic++;
	bad[1].version++;
	bad[2].len--;
	bad[3].set = 0;
	bad[4].count = 0;
	bad[5].count = PL_CARRIER_CONNECTIONS_MAX + 1;
	bad[6].index = 1;
	memset(bad[7].node, 'x', sizeof(bad[7].node));
	bad[8].node[0] = '\0';
	memset(bad[9].to, 'x', sizeof(bad[9].to));
	memcpy(bad[10].node, "node-b", 7);
	bad[11].node[1] = '\n';
	bad[12].instance = 0;
	for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++) {
		fd = client(p);
		assert_true(say(p, fd, &bad[i]) > 0);
		RUN_UNTIL(p->base, is_closed(fd));
		close(fd);
	}
	/* Number 1 of a set whose number 0 never came. */
	bad[0] = hello_make(1, 2);
	bad[0].count = 2;
	bad[0].index = 1;
	fd = client(p);
	assert_int_equal(say(p, fd, &bad[0]), ESTALE);
	close(fd);
	assert_int_equal(p->b.ups + p->b.downs, 0);
	pair_up(p);
}

static void silent_clients_are_bounded(void **state)
{
	struct pair *p = *state;
	int fd[100], closed = 0;

	for (size_t i = 0; i < PL_ARRAY_SIZE(fd); i++) {
		fd[i] = client(p);
		run_ms(p->base, 1);
	}
	RUN_UNTIL(p->base, is_closed(fd[30]));
	for (size_t i = 0; i < PL_ARRAY_SIZE(fd); i++) {
		closed += is_closed(fd[i]);
		close(fd[i]);
	}
	assert_true(closed >= 36 && closed < 100);
	pair_up(p);
}

static void frame(struct pair *p, const struct pl_tcp_frame *f,
		  const char *what)
{
	static const char body[4096];
	int fd = evil(p), downs = p->b.downs;

	if (!p->mem.map)
		expose(p, 4096);
	assert_int_equal(send(fd, f, sizeof(*f), MSG_NOSIGNAL), sizeof(*f));
	send(fd, body, PL_MIN(f->len, sizeof(body)), MSG_NOSIGNAL);
	RUN_UNTIL(p->base, p->b.downs == downs + 1);
	if (p->b.reason != -EPROTO)
		fail_msg("%s: %d", what, p->b.reason);
	RUN_UNTIL(p->base, is_closed(fd));
	close(fd);
}

static void frames_are_checked(void **state)
{
	struct pair *p = *state;
	int fd = evil(p);
	uint64_t key;

	expose(p, 4096);
	key = p->mem.id;
	memset(p->mem.map, 0x55, 4096);
	close(fd);
	RUN_UNTIL(p->base, p->b.downs == 1);
	const struct pl_tcp_frame good = { .magic = PL_TCP_FRAME_MAGIC,
					   .type = PL_TCP_PUT,
					   .len = 64,
					   .key = key };
	struct pl_tcp_frame bad[] = { good, good, good, good, good, good, good,
				      good, good, good, good, good, good };

	bad[0].magic++;
	bad[1].type = 0;
	bad[2].type = 4;
	bad[3].len = 0;
	bad[4].len = 4097;
	bad[5].offset = 4096 - 63;
	bad[6].offset = ~0ull - 31;
	bad[7].len = ~0u;
	bad[8].key ^= 8;
	bad[9].key = 0;
	bad[10].flags = 0x80;
	bad[11].type = PL_TCP_MESSAGE;		/* with a key */
	bad[12].type = PL_TCP_MESSAGE;
	bad[12].key = 0;
	bad[12].len = PL_CARRIER_MSG_MAX + 1;
	for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++) {
		char what[32];

		snprintf(what, sizeof(what), "frame %zu", i);
		frame(p, &bad[i], what);
	}
	for (size_t i = 0; i < 4096; i++)
		assert_int_equal(p->mem.map[i], 0x55);
	assert_int_equal(p->b.notifies + p->b.messages, 0);
	/* The last byte is in bounds. */
	struct pl_tcp_frame last = good;

	last.offset = 4096 - 64;
	last.flags = PL_PUT_NOTIFY;
	fd = evil(p);
	assert_int_equal(send(fd, &last, sizeof(last), 0), sizeof(last));
	assert_int_equal(send(fd, (char[64]){ 0 }, 64, 0), 64);
	RUN_UNTIL(p->base, p->b.notifies == 1);
	assert_int_equal(p->mem.map[4095], 0);
	assert_int_equal(p->mem.map[4096 - 65], 0x55);
	close(fd);
}

/* A key of one node is of no use to another. */
static void keys_are_of_one_peer(void **state)
{
	struct pair *p = *state;
	uint64_t word = ~0ull;
	int fd, downs;

	pair_up(p);
	expose(p, 4096);
	downs = p->b.downs;
	fd = evil(p);
	struct pl_tcp_frame f = { .magic = PL_TCP_FRAME_MAGIC,
				  .type = PL_TCP_PUT,
				  .len = 8,
				  .key = p->mem.id };

	assert_int_equal(send(fd, &f, sizeof(f), 0), sizeof(f));
	assert_int_equal(send(fd, &word, 8, 0), 8);
	RUN_UNTIL(p->base, p->b.downs == downs + 1);
	assert_int_equal(p->mem.map[0], 0);
	assert_true(p->a.peer->is_up);
	close(fd);
}

/* Bytes one by one: every cut of headers and bodies. */
static void dribble(void **state)
{
	struct pair *p = *state;
	int fd = evil(p);
	char buf[sizeof(struct pl_tcp_frame) * 3 + 16 + 13 + 5];
	size_t n = 0;
	struct pl_tcp_frame f[3] = {
		{ .magic = PL_TCP_FRAME_MAGIC, .type = PL_TCP_PUT, .len = 16 },
		{ .magic = PL_TCP_FRAME_MAGIC, .type = PL_TCP_PUT, .len = 13,
		  .offset = 16, .flags = PL_PUT_NOTIFY },
		{ .magic = PL_TCP_FRAME_MAGIC, .type = PL_TCP_MESSAGE,
		  .len = 5 },
	};

	expose(p, 4096);
	f[0].key = f[1].key = p->mem.id;
	for (int i = 0; i < 3; i++) {
		memcpy(buf + n, &f[i], sizeof(f[i]));
		n += sizeof(f[i]);
		memset(buf + n, 'a' + i, f[i].len);
		n += f[i].len;
	}
	assert_int_equal(n, sizeof(buf));
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(send(fd, buf + i, 1, 0), 1);
		event_base_loop(p->base, EVLOOP_ONCE);
	}
	RUN_UNTIL(p->base, p->b.messages == 1 && p->b.notifies == 1);
	assert_memory_equal(p->mem.map, "aaaaaaaaaaaaaaaabbbbbbbbbbbbb", 30);
	assert_memory_equal(p->b.last, "ccccc", 5);
	close(fd);
}

/* The peer lost a set that is still up here. */
static void stale_set_makes_way(void **state)
{
	struct pair *p = *state;
	struct pl_tcp_hello h = hello_make(4711, 21);
	int one = client(p), two;

	assert_int_equal(say(p, one, &h), 0);
	RUN_UNTIL(p->base, p->b.ups == 1);
	h.set = 23;
	two = client(p);
	assert_int_equal(say(p, two, &h), EALREADY);
	close(two);
	run_ms(p->base, 20);
	assert_int_equal(p->b.downs, 0);
	h.stale = 21;
	two = client(p);
	assert_int_equal(say(p, two, &h), 0);
	RUN_UNTIL(p->base, p->b.ups == 2 && p->b.downs == 1);
	RUN_UNTIL(p->base, is_closed(one));
	/* A new instance needs to know nothing. */
	h = hello_make(4712, 25);
	close(one);
	one = client(p);
	assert_int_equal(say(p, one, &h), 0);
	RUN_UNTIL(p->base, p->b.ups == 3 && p->b.downs == 2);
	assert_true(p->b.peer->instance == 4712);
	close(one);
	close(two);
}

/* Out of descriptors: it waits instead of spinning, then goes on. */
static void out_of_descriptors(void **state)
{
	struct pair *p = *state;
	struct rlimit old, low;
	int fd = client(p), top = dup(fd);

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	low.rlim_cur = (rlim_t)top;
	close(top);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	run_ms(p->base, 100);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	struct pl_tcp_hello h = hello_make(1, 3);

	assert_int_equal(say(p, fd, &h), 0);
	close(fd);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
int main(void)
{
	const struct CMUnitTest links[] = {
		T(reconnects), T(loss_ends_puts), T(restart_shows),
		T(unreachable_is_told_once), T(both_dial), T(both_redial),
		T(stranger_is_refused), T(without_admit_only_wanted),
	};
	const struct CMUnitTest foreign[] = {
		T(wrong_name_is_refused), T(hello_is_checked),
		T(silent_clients_are_bounded), T(frames_are_checked),
		T(keys_are_of_one_peer), T(dribble), T(stale_set_makes_way),
		T(out_of_descriptors), T(silence_asks_in_the_end),
	};

	return cmocka_run_group_tests_name("plain", links, NULL, NULL) +
	       cmocka_run_group_tests_name("psk", links, ends_psk, ends_fini) +
	       cmocka_run_group_tests_name("tls", links, ends_tls, ends_fini) +
	       cmocka_run_group_tests_name("auth", links, ends_auth,
					   ends_fini) +
	       cmocka_run_group_tests_name("foreign", foreign, NULL, NULL);
}
