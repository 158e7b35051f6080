/*
 * tests/fuzz/fuzz_tcp.c - what another node sends to the tcp carrier
 *
 * A connection that was accepted: an introduction, made up or right, then any
 * bytes, or frames with keys that were given out. Memory behind the exposed
 * one is no one's business.
 */
#include <fcntl.h>
#include <sys/socket.h>

#include "rdma/tcp.h"
#include "tests/fuzz/fuzz.h"

#define EXPOSED 4096u
#define GUARD 4096u
#define STEPS_MAX 16

static struct event_base *base;
static struct pl_carrier *carrier;
static uint8_t memory[GUARD + EXPOSED + GUARD];
static uint64_t key, revoked;
static struct pl_carrier_peer *peer;

static bool admit(void *arg, const char *node, const struct pl_addr *from)
{
	(void)arg;
	(void)from;
	return !strcmp(node, "b");
}

static void up(void *arg, struct pl_carrier_peer *p)
{
	(void)arg;
	HOLDS(p->is_up && !strcmp(p->node, "b"));
	peer = p;
	HOLDS(pl_carrier_expose(p, -1, memory + GUARD, EXPOSED, &key, &key) ==
	      0);
	HOLDS(pl_carrier_expose(p, -1, memory + GUARD, EXPOSED, &revoked,
				&revoked) == 0);
	pl_carrier_revoke(p, revoked);
}

static void down(void *arg, struct pl_carrier_peer *p, int reason)
{
	(void)arg;
	HOLDS(!p->is_up && reason < 0);
}

static void message(void *arg, struct pl_carrier_peer *p, const void *data,
		    size_t len)
{
	(void)arg;
	HOLDS(p == peer && len > 0 && len <= PL_CARRIER_MSG_MAX);
	/* An echo: what is to be sent is not at issue. */
	pl_carrier_message(p, data, len, len % 2 ? key : 0);
}

static void notify(void *arg, struct pl_carrier_peer *p, uint64_t k, void *user)
{
	(void)arg;
	HOLDS(p == peer && k == key && user == &key);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct pl_carrier_config cfg = {
		.node = "a",
		.security = { .kind = PL_SECURITY_NONE },
		.cb = { admit, up, down, message, notify },
	};
	struct pl_err err = { 0 };

	(void)argc;
	(void)argv;
	base = event_base_new();
	cfg.base = base;
	HOLDS(base && pl_addr_parse("127.0.0.1", &cfg.listen_addr) == 0);
	HOLDS(pl_carrier_create(&pl_carrier_tcp, &cfg, &carrier, &err) == 0);
	return 0;
}

/* What accepting does. */
static int incoming(void)
{
	struct pl_tcp_carrier *t = (struct pl_tcp_carrier *)carrier;
	struct pl_tcp_conn *c;
	int fds[2];

	HOLDS(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			 0, fds) == 0);
	c = pl_tcp_conn_new(t, fds[0]);
	HOLDS(c);
	c->phase = PL_TCP_HELLO;
	c->since_ns = pl_now_ns();
	DL_APPEND(t->pending, c);
	t->n_pending++;
	HOLDS(event_add(c->ev_read, NULL) == 0);
	return fds[1];
}

static void loop(void)
{
	for (int i = 0; i < 4; i++)
		event_base_loop(base, EVLOOP_NONBLOCK);
}

static void say(int fd, const void *data, size_t len)
{
	(void)!send(fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void hello(struct fuzz *f, int fd)
{
	uint8_t how = fuzz_u8(f);
	struct pl_tcp_hello h = { .magic = PL_TCP_MAGIC,
				  .version = PL_TCP_VERSION,
				  .len = sizeof(h),
				  .instance = 1,
				  .set = 2,
				  .count = 1,
				  .node = "b",
				  .to = "a" };

	if (how & 0x80)
		fuzz_take(f, &h, sizeof(h));
	else if (how & 0x40) {
		h.count = 1 + how % 4;
		h.index = (how >> 2) % 4;
		fuzz_take(f, h.node, 16);
	}
	say(fd, &h, sizeof(h));
}

static void frame(struct fuzz *f, int fd)
{
	static char body[65536];
	uint8_t how = fuzz_u8(f);
	struct pl_tcp_frame h = { .magic = PL_TCP_FRAME_MAGIC,
				  .type = how & 1 ? PL_TCP_PUT :
						    PL_TCP_MESSAGE };
	size_t n;

	if (how & 1) {
		h.flags = how & 2 ? PL_PUT_NOTIFY : 0;
		h.key = how & 4 ? revoked : key;
		h.offset = fuzz_u32(f);
		if (how & 8)
			h.offset = h.offset % EXPOSED & ~7u;
	}
	h.len = fuzz_u32(f);
	if (how & 0x10)
		h.len %= 200;
	if (how & 0x20)
		h.len &= ~7u;
	n = fuzz_u8(f) == 1 ? h.len / 2 : h.len;
	n = PL_MIN(n, sizeof(body));
	memset(body, how, n);
	fuzz_take(f, body, PL_MIN(n, 16u));
	say(fd, &h, sizeof(h));
	say(fd, body, n);
}

static void forget(void)
{
	struct pl_tcp_carrier *t = (struct pl_tcp_carrier *)carrier;
	struct pl_tcp_peer *p, *tmp;

	HASH_ITER(hh, t->peers, p, tmp)
		pl_carrier_peer_forget(&p->base);
	while (t->pending)
		pl_tcp_conn_close(t->pending);
	peer = NULL;
	loop();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char bytes[4097];
	struct fuzz f = { data, size };
	int fd = incoming();

	hello(&f, fd);
	loop();
	for (int i = 0; i < STEPS_MAX && f.left; i++) {
		uint8_t what = fuzz_u8(&f);

		if (what & 1)
			frame(&f, fd);
		else
			say(fd, bytes, fuzz_piece(&f, bytes,
						  sizeof(bytes) - 1));
		if (what & 2)
			loop();
		if (what & 4)
			while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
				;
	}
	loop();
	close(fd);
	loop();
	forget();
	for (size_t i = 0; i < GUARD; i++)
		HOLDS(!memory[i] && !memory[GUARD + EXPOSED + i]);
	return 0;
}
