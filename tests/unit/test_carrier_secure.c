/* tests/unit/test_carrier_secure.c - who gets in to the tcp carrier, who not */
#include "tests/unit/carrier_util.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>

#include "rdma/tcp.h"
#include "rdma/tls.h"

struct pair {
	struct event_base *base;
	struct end a, b;
	struct files other;
};

static int setup(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	/* What these tests provoke would fill the log. */
	pl_log_init("test", getenv("VERBOSE") ? PL_LOG_DEBUG : PL_LOG_ERROR);
	p->base = event_base_new();
	*state = p;
	return 0;
}

static void end_destroy(struct end *e)
{
	if (e->c)
		pl_carrier_destroy(e->c);
	memset(e, 0, sizeof(*e));
}

static int teardown(void **state)
{
	struct pair *p = *state;

	end_destroy(&p->a);
	end_destroy(&p->b);
	event_base_free(p->base);
	free(p);
	return 0;
}

static int setup_tls(void **state)
{
	ends_tls(state);
	return setup(state);
}

static int setup_psk(void **state)
{
	ends_psk(state);
	return setup(state);
}

static int teardown_ends(void **state)
{
	int rc = teardown(state);

	ends_fini(NULL);
	return rc;
}

static void end_open(struct end *e, struct event_base *base, const char *node,
		     const struct pl_carrier_security *s)
{
	struct pl_carrier_config cfg = end_config(e, base, node, 0);
	struct pl_err err = { 0 };

	if (s)
		cfg.security = *s;
	if (pl_carrier_create(&pl_carrier_tcp, &cfg, &e->c, &err) < 0)
		fail_msg("%s", err.msg);
}

static void both_open(struct pair *p)
{
	end_open(&p->a, p->base, "node-a", NULL);
	end_open(&p->b, p->base, "node-b", NULL);
}

static void pair_up(struct pair *p)
{
	end_dial(&p->a, "node-b", &p->b);
	RUN_UNTIL(p->base, p->a.ups == 1 && p->b.ups == 1);
	pl_carrier_message(p->a.peer, "hello", 5, 0);
	RUN_UNTIL(p->base, p->b.messages == 1);
}

/* a tries and gets nothing, for this reason. */
static void a_stays_out(struct pair *p, int reason)
{
	end_dial(&p->a, "node-b", &p->b);
	RUN_UNTIL(p->base, p->a.downs == 1);
	if (p->a.reason != reason)
		fail_msg("%s", strerror(-p->a.reason));
	run_ms(p->base, 100);
	assert_int_equal(p->a.ups + p->b.ups + p->b.downs, 0);
	/* The owner of b was never asked. */
	assert_int_equal(p->b.admits, 0);
}

static void must_be_said(void **state)
{
	static const struct pl_carrier_security unset = {
		.kind = PL_SECURITY_UNSET,
	};
	struct pair *p = *state;
	struct pl_carrier_config cfg = end_config(&p->a, p->base, "node-a", 0);
	struct pl_err err = { 0 };

	cfg.security = unset;
	assert_int_equal(pl_carrier_create(&pl_carrier_tcp, &cfg, &p->a.c,
					   &err), -EINVAL);
	assert_non_null(strstr(err.msg, "not said"));
	cfg.security = psk_of(&ends.pki, &p->a.files, "none");
	assert_int_equal(pl_carrier_create(&pl_carrier_tcp, &cfg, &p->a.c,
					   &err), -ENOENT);
	p->a.c = NULL;
}

static void paths_tell(void **state)
{
	struct pair *p = *state;
	struct pl_carrier_security s = end_security(&p->a, "node-a");

	end_open(&p->a, p->base, "node-a", &s);
	assert_string_equal(p->a.c->path, "tcp+tls");
	end_destroy(&p->a);
	s = end_security(&p->a, "node-a");
	s.plain = true;
	end_open(&p->a, p->base, "node-a", &s);
	assert_string_equal(p->a.c->path, "tcp+auth");
	end_destroy(&p->a);
	s.kind = PL_SECURITY_NONE;
	end_open(&p->a, p->base, "node-a", &s);
	assert_string_equal(p->a.c->path, "tcp");
}

static void other_authority(void **state)
{
	struct pair *p = *state;

	leaf_write(&ends.pki, "node-a", "DNS:node-a", &ends.pki.other, DAY_S);
	both_open(p);
	a_stays_out(p, -EKEYREJECTED);
}

static void expired(void **state)
{
	struct pair *p = *state;

	leaf_write(&ends.pki, "node-b", "DNS:node-b", &ends.pki.ca, -DAY_S);
	both_open(p);
	a_stays_out(p, -EKEYEXPIRED);
}

/* Another node has b's address. */
static void not_whom_we_want(void **state)
{
	struct pair *p = *state;

	end_open(&p->a, p->base, "node-a", NULL);
	end_open(&p->b, p->base, "node-c", NULL);
	a_stays_out(p, -EKEYREJECTED);
}

static void other_key(void **state)
{
	struct pair *p = *state;
	struct pl_carrier_security s;

	text_write(&ends.pki, "psk2", KEY_2);
	s = psk_of(&ends.pki, &p->other, "psk2");
	end_open(&p->a, p->base, "node-a", &s);
	end_open(&p->b, p->base, "node-b", NULL);
	a_stays_out(p, -EKEYREJECTED);
}

static void plain_and_not(void **state)
{
	static const struct pl_carrier_security none = {
		.kind = PL_SECURITY_NONE,
	};
	struct pair *p = *state;

	end_open(&p->a, p->base, "node-a", &none);
	end_open(&p->b, p->base, "node-b", NULL);
	a_stays_out(p, -ECONNRESET);
	end_destroy(&p->a);
	end_destroy(&p->b);
	end_open(&p->a, p->base, "node-a", NULL);
	end_open(&p->b, p->base, "node-b", &none);
	a_stays_out(p, -EPROTONOSUPPORT);
}

/* Neither is asked to do what its configuration does not say. */
static void encryption_differs(void **state)
{
	struct pair *p = *state;

	for (int i = 0; i < 2; i++) {
		struct pl_carrier_security s = end_security(&p->a, "node-a");

		s.plain = i;
		end_open(&p->a, p->base, "node-a", &s);
		s = end_security(&p->b, "node-b");
		s.plain = !i;
		end_open(&p->b, p->base, "node-b", &s);
		a_stays_out(p, -EPROTONOSUPPORT);
		end_destroy(&p->a);
		end_destroy(&p->b);
	}
}

static void rotation(void **state)
{
	struct pair *p = *state;

	both_open(p);
	pair_up(p);
	/* All of the cluster goes over to another CA. */
	ca_write(&ends.pki, "ca", &ends.pki.other);
	leaf_write(&ends.pki, "node-a", "DNS:node-a", &ends.pki.other, DAY_S);
	pl_carrier_refresh(p->a.c);
	pl_carrier_message(p->a.peer, "still", 5, 0);
	RUN_UNTIL(p->base, p->b.messages == 2);
	/* b has the old certificate, and is told when it comes back. */
	pl_carrier_destroy(p->b.c);
	memset(&p->b, 0, sizeof(p->b));
	RUN_UNTIL(p->base, p->a.downs == 1);
	end_open(&p->b, p->base, "node-b", NULL);
	end_dial(&p->b, "node-a", &p->a);
	RUN_UNTIL(p->base, p->b.downs == 1);
	assert_int_equal(p->b.reason, -EKEYREJECTED);
	leaf_write(&ends.pki, "node-b", "DNS:node-b", &ends.pki.other, DAY_S);
	/* By itself: keys are looked at before each connection. */
	RUN_UNTIL(p->base, p->a.ups == 2 && p->b.ups == 1);
}

static void bad_rotation(void **state)
{
	struct pair *p = *state;

	both_open(p);
	text_write(&ends.pki, "psk", "not a key");
	pair_up(p);
}

/* --- somebody by hand ----------------------------------------------------- */

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

/* Its end, after at most an alert of TLS. */
static bool is_closed(int fd)
{
	uint8_t buf[64];
	ssize_t n = recv(fd, buf, sizeof(buf), 0);

	if (n > 0 && (n > 7 || buf[0] != 0x15))
		fail_msg("%zd bytes were said, the first is %u", n, buf[0]);
	return n == 0 || (n < 0 && errno != EAGAIN);
}

struct hand {
	struct files files;
	struct pl_carrier_security sec;
	struct pl_tls_keys *keys;
	struct pl_tls *tls;
	int fd;
};

/* As `node`, through the handshake. */
static void hand_open(struct hand *h, struct pair *p, const char *node)
{
	struct pl_err err = { 0 };
	int rc = -EAGAIN;

	h->sec = ends.kind == PL_SECURITY_PSK ?
			 psk_of(&ends.pki, &h->files, "psk") :
			 tls_of(&ends.pki, &h->files, "ca", node);
	assert_int_equal(pl_tls_keys_open(&h->sec, node, &h->keys, &err), 0);
	h->tls = pl_tls_create(h->keys, "node-b");
	h->fd = client(p);
	for (int i = 0; rc == -EAGAIN && i < 1000; i++) {
		rc = pl_tls_handshake(h->tls, h->fd, &err);
		run_once(p->base);
	}
	if (rc)
		fail_msg("%s", err.msg);
}

static void hand_close(struct hand *h)
{
	pl_tls_destroy(h->tls);
	pl_tls_keys_close(h->keys);
	close(h->fd);
}

static void hand_say(struct hand *h, const void *data, size_t len)
{
	struct iovec iov = { (void *)(uintptr_t)data, len };

	assert_int_equal(pl_tls_write(h->tls, &iov, 1), len);
	assert_int_equal(pl_tls_flush(h->tls, h->fd), 0);
}

static struct pl_tcp_hello hello_of(const char *node, uint32_t flags)
{
	struct pl_tcp_hello h = { .magic = PL_TCP_MAGIC,
				  .version = PL_TCP_VERSION,
				  .len = sizeof(h),
				  .instance = 4711,
				  .set = 13,
				  .count = 1,
				  .flags = flags,
				  .to = "node-b" };

	memcpy(h.node, node, strlen(node));
	return h;
}

/* b's answer: a status. */
static int hand_hello(struct hand *h, struct pair *p, const char *node)
{
	struct pl_tcp_hello hello = hello_of(node, 0);
	struct pl_tcp_welcome w;
	ssize_t n = -EAGAIN;

	hand_say(h, &hello, sizeof(hello));
	for (int i = 0; n == -EAGAIN && i < 1000; i++) {
		struct iovec iov = { &w, sizeof(w) };

		run_once(p->base);
		n = pl_tls_read(h->tls, h->fd, PL_TLS_AHEAD, &iov, 1, NULL);
	}
	assert_int_equal(n, sizeof(w));
	return w.status;
}

/* A good certificate is good for its own name only. */
static void claims_another_name(void **state)
{
	struct pair *p = *state;
	struct hand h;

	end_open(&p->b, p->base, "node-b", NULL);
	hand_open(&h, p, "node-c");
	assert_int_equal(hand_hello(&h, p, "node-a"), EKEYREJECTED);
	assert_int_equal(p->b.admits + p->b.ups, 0);
	hand_close(&h);
	hand_open(&h, p, "node-c");
	assert_int_equal(hand_hello(&h, p, "node-c"), 0);
	RUN_UNTIL(p->base, p->b.ups == 1);
	hand_close(&h);
}

/* With one key for all, a node's own words may come back to it. */
static void own_name_is_refused(void **state)
{
	struct pair *p = *state;
	struct hand h;

	end_open(&p->b, p->base, "node-b", NULL);
	hand_open(&h, p, "node-b");
	assert_int_equal(hand_hello(&h, p, "node-b"), EACCES);
	assert_int_equal(p->b.ups, 0);
	hand_close(&h);
}

static void hello_is_checked_inside(void **state)
{
	struct pair *p = *state;
	struct pl_tcp_hello bad = hello_of("node-a", 0x2);
	struct hand h;

	end_open(&p->b, p->base, "node-b", NULL);
	hand_open(&h, p, "node-a");
	hand_say(&h, &bad, sizeof(bad));
	RUN_UNTIL(p->base, ({
		char buf[4096];
		ssize_t n = recv(h.fd, buf, sizeof(buf), 0);

		n == 0 || (n < 0 && errno != EAGAIN);
	}));
	assert_int_equal(p->b.ups, 0);
	hand_close(&h);
}

/* Frames in HELLO's record: whoever does that speaks something else. */
static void more_than_hello(void **state)
{
	struct pair *p = *state;
	struct {
		struct pl_tcp_hello hello;
		char more[8];
	} both = { .hello = hello_of("node-a", 0) };
	struct hand h;

	end_open(&p->b, p->base, "node-b", NULL);
	hand_open(&h, p, "node-a");
	hand_say(&h, &both, sizeof(both));
	RUN_UNTIL(p->base, p->b.admits == 1);
	run_ms(p->base, 50);
	assert_int_equal(p->b.ups, 0);
	hand_close(&h);
}

static void says(struct pair *p, const void *data, size_t len)
{
	int fd = client(p);

	assert_int_equal(send(fd, data, len, MSG_NOSIGNAL), len);
	RUN_UNTIL(p->base, is_closed(fd));
	close(fd);
}

static void strangers(void **state)
{
	struct pair *p = *state;
	struct pl_tcp_hello hello = hello_of("node-a", 0);
	uint8_t noise[4096];

	both_open(p);
	says(p, &hello, sizeof(hello));
	says(p, "GET / HTTP/1.0\r\n\r\n", 18);
	for (unsigned int i = 0; i < 200; i++) {
		for (size_t k = 0; k < sizeof(noise); k++)
			noise[k] = (uint8_t)(pl_tcp_random() >> 24);
		if (i % 2)
			/* As a handshake's record, at first sight. */
			memcpy(noise, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
			       9);
		else
			noise[0] &= 0x0f;
		says(p, noise, sizeof(noise));
	}
	assert_int_equal(p->b.admits + p->b.ups, 0);
	pair_up(p);
}

/* Whoever is not expected is closed before a byte of theirs is read. */
static bool expects_nobody(void *arg, const struct pl_addr *from)
{
	struct end *e = arg;

	(void)from;
	return !e->refuse;
}

static void unexpected_address(void **state)
{
	struct pair *p = *state;
	struct pl_carrier_config cfg = end_config(&p->b, p->base, "node-b", 0);
	int fd;

	end_open(&p->a, p->base, "node-a", NULL);
	cfg.cb.expects = expects_nobody;
	assert_int_equal(pl_carrier_create(&pl_carrier_tcp, &cfg, &p->b.c,
					   NULL), 0);
	p->b.refuse = "anybody";
	fd = client(p);
	RUN_UNTIL(p->base, is_closed(fd));
	close(fd);
	end_dial(&p->a, "node-b", &p->b);
	RUN_UNTIL(p->base, p->a.downs == 1);
	assert_int_equal(p->b.admits, 0);
	p->b.refuse = NULL;
	RUN_UNTIL(p->base, p->a.ups == 1 && p->b.ups == 1);
}

/* Half a ClientHello and silence; the same and a byte now and then. */
static void half_open(void **state)
{
	static const uint8_t part[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03";
	struct pair *p = *state;
	uint64_t next = 0, give_up = pl_now_ns() + WAIT_NS;
	bool silent_ended = false, drip_ended = false;
	int silent, drip;

	both_open(p);
	silent = client(p);
	drip = client(p);
	send(silent, part, sizeof(part), MSG_NOSIGNAL);
	send(drip, part, sizeof(part), MSG_NOSIGNAL);
	while (!(silent_ended && drip_ended) && pl_now_ns() < give_up) {
		run_once(p->base);
		silent_ended = silent_ended || is_closed(silent);
		drip_ended = drip_ended || is_closed(drip);
		if (!drip_ended && pl_now_ns() > next) {
			send(drip, "x", 1, MSG_NOSIGNAL);
			next = pl_now_ns() + 300000000;
		}
	}
	assert_true(silent_ended && drip_ended);
	close(silent);
	close(drip);
	assert_int_equal(p->b.admits, 0);
	pair_up(p);
}

static void many_half_open(void **state)
{
	struct pair *p = *state;
	int fd[100], closed = 0;

	both_open(p);
	for (size_t i = 0; i < PL_ARRAY_SIZE(fd); i++) {
		fd[i] = client(p);
		send(fd[i], "\x16\x03\x01", 3, MSG_NOSIGNAL);
		run_ms(p->base, 1);
	}
	RUN_UNTIL(p->base, is_closed(fd[30]));
	/* Others get in all the same. */
	pair_up(p);
	for (size_t i = 0; i < PL_ARRAY_SIZE(fd); i++) {
		closed += is_closed(fd[i]);
		close(fd[i]);
	}
	assert_true(closed >= 36);
}

/* The peer ends in the middle of its handshake, again and again. */
static void ends_in_handshakes(void **state)
{
	struct pair *p = *state;

	both_open(p);
	end_dial(&p->a, "node-b", &p->b);
	for (int turns = 0; turns < 12; turns++) {
		for (int i = 0; i < turns; i++)
			event_base_loop(p->base, EVLOOP_NONBLOCK);
		pl_carrier_destroy(p->a.c);
		memset(&p->a, 0, sizeof(p->a));
		end_open(&p->a, p->base, "node-a", NULL);
		end_dial(&p->a, "node-b", &p->b);
	}
	RUN_UNTIL(p->base, p->a.ups == 1 && p->b.ups == p->b.downs + 1);
	pl_carrier_message(p->a.peer, "hello", 5, 0);
	RUN_UNTIL(p->base, p->b.messages == 1);
}

#define TLS(fn) cmocka_unit_test_setup_teardown(fn, setup_tls, teardown_ends)
#define PSK(fn) cmocka_unit_test_setup_teardown(fn, setup_psk, teardown_ends)
int main(void)
{
	const struct CMUnitTest tests[] = {
		PSK(must_be_said), PSK(paths_tell), TLS(other_authority),
		TLS(expired), TLS(not_whom_we_want), PSK(other_key),
		TLS(plain_and_not), PSK(encryption_differs), TLS(rotation),
		PSK(bad_rotation), TLS(claims_another_name),
		PSK(own_name_is_refused), TLS(hello_is_checked_inside),
		PSK(more_than_hello), TLS(strangers), PSK(unexpected_address),
		TLS(half_open), PSK(many_half_open), TLS(ends_in_handshakes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
