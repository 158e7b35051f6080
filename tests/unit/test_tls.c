/* tests/unit/test_tls.c - keys from files, and TLS over a pair of sockets */
#include "tests/unit/tls_util.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "common/log.h"
#include "rdma/tls.h"

struct side {
	struct files files;
	struct pl_carrier_security sec;
	struct pl_tls_keys *keys;
	struct pl_tls *tls;
	int fd, rc;
	struct pl_err err;
};

struct world {
	struct pki pki;
	struct side a, b;		/* a connects */
};

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	pl_log_init("test", PL_LOG_ERROR);
	pki_init(&w->pki);
	leaf_write(&w->pki, "node-a", "DNS:node-a", &w->pki.ca, DAY_S);
	leaf_write(&w->pki, "node-b", "DNS:node-b", &w->pki.ca, DAY_S);
	text_write(&w->pki, "psk1", KEY_1 "\n");
	text_write(&w->pki, "psk2", KEY_2 "\n");
	w->a.fd = w->b.fd = -1;
	*state = w;
	return 0;
}

static void side_end(struct side *s)
{
	pl_tls_destroy(s->tls);
	s->tls = NULL;
	pl_close_fd(&s->fd);
}

static int teardown(void **state)
{
	struct world *w = *state;

	side_end(&w->a);
	side_end(&w->b);
	pl_tls_keys_close(w->a.keys);
	pl_tls_keys_close(w->b.keys);
	pki_fini(&w->pki);
	free(w);
	return 0;
}

static void keys_open(struct side *s, const char *node)
{
	if (pl_tls_keys_open(&s->sec, node, &s->keys, &s->err) < 0)
		fail_msg("%s", s->err.msg);
}

static void with_tls(struct world *w)
{
	w->a.sec = tls_of(&w->pki, &w->a.files, "ca", "node-a");
	w->b.sec = tls_of(&w->pki, &w->b.files, "ca", "node-b");
	keys_open(&w->a, "node-a");
	keys_open(&w->b, "node-b");
}

static void with_psk(struct world *w, const char *a, const char *b)
{
	w->a.sec = psk_of(&w->pki, &w->a.files, a);
	w->b.sec = psk_of(&w->pki, &w->b.files, b);
	keys_open(&w->a, "node-a");
	keys_open(&w->b, "node-b");
}

static void sockets_make(struct world *w)
{
	int fds[2];

	side_end(&w->a);
	side_end(&w->b);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC |
				    SOCK_NONBLOCK, 0, fds), 0);
	w->a.fd = fds[0];
	w->b.fd = fds[1];
}

static bool step(struct side *s)
{
	if (s->rc == -EAGAIN)
		s->rc = pl_tls_handshake(s->tls, s->fd, &s->err);
	return s->rc != -EAGAIN;
}

/* rc of both; the accepting side of a failure may just be left waiting. */
static void meet(struct world *w, const char *a_wants)
{
	sockets_make(w);
	w->a.tls = pl_tls_create(w->a.keys, a_wants);
	w->b.tls = pl_tls_create(w->b.keys, NULL);
	assert_true(w->a.tls && w->b.tls);
	w->a.rc = w->b.rc = -EAGAIN;
	pl_err_clear(&w->a.err);
	pl_err_clear(&w->b.err);
	for (int i = 0; i < 20; i++) {
		bool a = step(&w->a), b = step(&w->b);

		if (a && b)
			return;
	}
}

static ssize_t get(struct side *s, void *buf, size_t len)
{
	struct iovec iov = { buf, len };

	pl_err_clear(&s->err);
	return pl_tls_read(s->tls, s->fd, PL_TLS_AHEAD, &iov, 1, &s->err);
}

static void say(struct side *from, struct side *to, const char *text)
{
	struct iovec iov = { (void *)(uintptr_t)text, strlen(text) };
	char buf[64] = "";

	assert_int_equal(pl_tls_write(from->tls, &iov, 1), strlen(text));
	assert_int_equal(pl_tls_flush(from->tls, from->fd), 0);
	assert_int_equal(get(to, buf, sizeof(buf)), strlen(text));
	assert_string_equal(buf, text);
	assert_int_equal(get(to, buf, sizeof(buf)), -EAGAIN);
}

static void agree(struct world *w)
{
	meet(w, "node-b");
	if (w->a.rc || w->b.rc)
		fail_msg("%s; %s", w->a.err.msg, w->b.err.msg);
	say(&w->a, &w->b, "from a to b");
	say(&w->b, &w->a, "from b to a");
}

static void certificates(void **state)
{
	struct world *w = *state;

	with_tls(w);
	agree(w);
	assert_true(pl_tls_is_peer(w->b.tls, "node-a"));
	assert_false(pl_tls_is_peer(w->b.tls, "node-b"));
	assert_false(pl_tls_is_peer(w->b.tls, "node-"));
	assert_true(pl_tls_is_peer(w->a.tls, "node-b"));
}

static void shared_key(void **state)
{
	struct world *w = *state;

	with_psk(w, "psk1", "psk1");
	agree(w);
	assert_true(pl_tls_is_peer(w->b.tls, "node-a"));
}

/* One side fails; the other one learns of it at once or when it reads. */
static void disagree(struct world *w, const char *a_wants, int a, int b,
		     const char *text)
{
	char buf[8];

	meet(w, a_wants);
	/* In TLS 1.3 the connecting side is through before it is checked. */
	if (w->a.rc == 0)
		w->a.rc = (int)get(&w->a, buf, sizeof(buf));
	if (w->a.rc != a || w->b.rc != b ||
	    (!strstr(w->a.err.msg, text) && !strstr(w->b.err.msg, text)))
		fail_msg("%d (%s), %d (%s)", w->a.rc, w->a.err.msg, w->b.rc,
			 w->b.err.msg);
}

static void wrong_shared_key(void **state)
{
	struct world *w = *state;

	with_psk(w, "psk1", "psk2");
	disagree(w, "node-b", -EKEYREJECTED, -EKEYREJECTED,
		 "does not have a pre-shared key of this node");
}

/* Several keys: the first one connects, all are accepted. */
static void keys_are_exchanged(void **state)
{
	struct world *w = *state;

	text_write(&w->pki, "both", "# old\n" KEY_1 "\n\n  # new\n  " KEY_2
		   " \r\n");
	with_psk(w, "psk2", "both");
	agree(w);
	assert_int_equal(pl_tls_keys_refresh(w->a.keys, NULL), 0);
	text_write(&w->pki, "psk2", KEY_1);
	assert_int_equal(pl_tls_keys_refresh(w->a.keys, NULL), 1);
	/* What is connected stays so. */
	say(&w->a, &w->b, "still");
	agree(w);
	text_write(&w->pki, "both", KEY_2);
	assert_int_equal(pl_tls_keys_refresh(w->b.keys, NULL), 1);
	disagree(w, "node-b", -EKEYREJECTED, -EKEYREJECTED, "pre-shared key");
}

static void wrong_authority(void **state)
{
	struct world *w = *state;

	leaf_write(&w->pki, "node-b", "DNS:node-b", &w->pki.other, DAY_S);
	with_tls(w);
	disagree(w, "node-b", -EKEYREJECTED, -EKEYREJECTED,
		 "its certificate is refused: unable to get local issuer");
	leaf_write(&w->pki, "node-b", "DNS:node-b", &w->pki.ca, DAY_S);
	leaf_write(&w->pki, "node-a", "DNS:node-a", &w->pki.other, DAY_S);
	assert_int_equal(pl_tls_keys_refresh(w->a.keys, NULL), 1);
	assert_int_equal(pl_tls_keys_refresh(w->b.keys, NULL), 1);
	disagree(w, "node-b", -EKEYREJECTED, -EKEYREJECTED,
		 "it refuses this node: unknown CA");
}

static void expired(void **state)
{
	struct world *w = *state;

	leaf_write(&w->pki, "node-b", "DNS:node-b", &w->pki.ca, -DAY_S);
	with_tls(w);
	disagree(w, "node-b", -EKEYEXPIRED, -EKEYREJECTED,
		 "certificate has expired");
	leaf_write(&w->pki, "node-b", "DNS:node-b", &w->pki.ca, DAY_S);
	leaf_write(&w->pki, "node-a", "DNS:node-a", &w->pki.ca, -DAY_S);
	pl_tls_keys_refresh(w->a.keys, NULL);
	pl_tls_keys_refresh(w->b.keys, NULL);
	disagree(w, "node-b", -EKEYREJECTED, -EKEYEXPIRED,
		 "it refuses this node: certificate expired");
}

static void wrong_name(void **state)
{
	struct world *w = *state;

	with_tls(w);
	disagree(w, "node-c", -EKEYREJECTED, -EKEYREJECTED,
		 "its certificate is refused: hostname mismatch");
}

static void no_certificate(void **state)
{
	struct world *w = *state;

	with_tls(w);
	pl_tls_keys_close(w->a.keys);
	w->a.sec = psk_of(&w->pki, &w->a.files, "psk1");
	keys_open(&w->a, "node-a");
	disagree(w, "node-b", -EKEYREJECTED, -EKEYREJECTED, "refuse");
	pl_tls_keys_close(w->a.keys);
	pl_tls_keys_close(w->b.keys);
	w->a.sec = tls_of(&w->pki, &w->a.files, "ca", "node-a");
	w->b.sec = psk_of(&w->pki, &w->b.files, "psk1");
	keys_open(&w->a, "node-a");
	keys_open(&w->b, "node-b");
	disagree(w, "node-b", -EKEYREJECTED, -EKEYREJECTED, "refuse");
}

/* All that a stream brings, through small sockets, with a change of keys. */
static void much(void **state)
{
	static uint8_t in[3 << 20], out[sizeof(in)];
	struct world *w = *state;
	size_t sent = 0, got = 0, size = 1;

	with_psk(w, "psk1", "psk1");
	pl_tls_keys_close(w->a.keys);
	w->a.sec.rekey_bytes = 100000;
	keys_open(&w->a, "node-a");
	meet(w, "node-b");
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (uint8_t)(i * 7 + i / 251);
	while (got < sizeof(in)) {
		size_t len = PL_MIN(size, sizeof(in) - sent);
		struct iovec iov[3] = { { in + sent, len / 3 },
					{ in + sent + len / 3, 0 },
					{ in + sent + len / 3,
					  len - len / 3 } };
		struct iovec to[2] = { { out + got,
					 PL_MIN(sizeof(in) - got,
						size % 100000 + 1) }, };
		ssize_t n = pl_tls_write(w->a.tls, iov, 3);

		assert_true(n >= 0);
		sent += (size_t)n;
		n = pl_tls_flush(w->a.tls, w->a.fd);
		assert_true(n == 0 || n == -EAGAIN);
		n = pl_tls_read(w->b.tls, w->b.fd, size % 3 ? PL_TLS_AHEAD :
				PL_TLS_EXACT, to, 1, NULL);
		assert_true(n > 0 || n == -EAGAIN);
		got += n > 0 ? (size_t)n : 0;
		size = size * 5 / 3 + 1;
		if (size > 300000)
			size = 1;
	}
	assert_int_equal(sent, sizeof(in));
	assert_memory_equal(in, out, sizeof(in));
	assert_true(pl_tls_syscalls(w->b.tls) > 0);
	assert_int_equal(pl_tls_syscalls(w->b.tls), 0);
}

/* Plain text may follow behind a record. */
static void reads_exactly(void **state)
{
	struct world *w = *state;
	struct iovec iov = { (void *)(uintptr_t)"secret", 6 };
	char buf[64] = "";
	struct iovec to = { buf, 6 };

	with_tls(w);
	meet(w, "node-b");
	assert_int_equal(pl_tls_write(w->b.tls, &iov, 1), 6);
	assert_int_equal(pl_tls_flush(w->b.tls, w->b.fd), 0);
	assert_int_equal(send(w->b.fd, "plain", 5, 0), 5);
	assert_int_equal(pl_tls_read(w->a.tls, w->a.fd, PL_TLS_EXACT, &to, 1,
				     NULL), 6);
	assert_string_equal(buf, "secret");
	assert_int_equal(pl_tls_held(w->a.tls), 0);
	assert_int_equal(recv(w->a.fd, buf, sizeof(buf), 0), 5);
	assert_memory_equal(buf, "plain", 5);
}

/* A record that somebody on the way has changed, or sent twice. */
static void altered(void **state)
{
	struct world *w = *state;
	struct iovec iov = { (void *)(uintptr_t)"payload", 7 };
	char buf[256];
	ssize_t n;

	for (int twice = 0; twice < 2; twice++) {
		struct world *v = w;

		pl_tls_keys_close(v->a.keys);
		pl_tls_keys_close(v->b.keys);
		with_tls(v);
		meet(v, "node-b");
		assert_int_equal(pl_tls_write(v->a.tls, &iov, 1), 7);
		assert_int_equal(pl_tls_flush(v->a.tls, v->a.fd), 0);
		n = recv(v->b.fd, buf, sizeof(buf), 0);
		assert_true(n > 7);
		assert_null(memmem(buf, (size_t)n, "payload", 7));
		if (!twice)
			buf[n - 1] ^= 1;
		assert_int_equal(send(v->a.fd, buf, (size_t)n, 0), n);
		assert_int_equal(send(v->a.fd, buf, (size_t)n, 0), n);
		if (twice)
			assert_int_equal(get(&v->b, buf, sizeof(buf)), 7);
		assert_int_equal(get(&v->b, buf, sizeof(buf)), -EPROTO);
		if (!strstr(v->b.err.msg, "bad record mac"))
			fail_msg("%s", v->b.err.msg);
	}
}

static void garbage(void **state)
{
	struct world *w = *state;
	char buf[64];

	with_psk(w, "psk1", "psk1");
	sockets_make(w);
	w->b.tls = pl_tls_create(w->b.keys, NULL);
	assert_int_equal(send(w->a.fd, "GET / HTTP/1.1\r\n", 16, 0), 16);
	assert_int_equal(pl_tls_handshake(w->b.tls, w->b.fd, &w->b.err),
			 -EPROTONOSUPPORT);
	/* An alert at most. */
	assert_true(recv(w->a.fd, buf, sizeof(buf), 0) <= 7);
	/* It went away in the middle. */
	sockets_make(w);
	w->b.tls = pl_tls_create(w->b.keys, NULL);
	assert_int_equal(send(w->a.fd, "\x16\x03\x01\x01\x00\x01", 6, 0), 6);
	assert_int_equal(pl_tls_handshake(w->b.tls, w->b.fd, &w->b.err),
			 -EAGAIN);
	pl_close_fd(&w->a.fd);
	assert_int_equal(pl_tls_handshake(w->b.tls, w->b.fd, &w->b.err),
			 -ECONNRESET);
}

/* --- files ---------------------------------------------------------------- */

static void refused(struct side *s, int rc, const char *text)
{
	struct pl_tls_keys *keys = NULL;
	struct pl_err err = { 0 };
	int got = pl_tls_keys_open(&s->sec, "node-a", &keys, &err);

	if (got != rc || !strstr(err.msg, text))
		fail_msg("%d: %s", got, err.msg);
	assert_null(keys);
}

static void wrong_psk_files(void **state)
{
	static const struct { const char *text, *says; } bad[] = {
		{ "", "no key in it" },
		{ "# nothing\n\n", "no key in it; make one with: openssl" },
		{ "abcd\n", "64 to 128 hexadecimal digits, not 4" },
		{ KEY_1 "0", "not 65" },
		{ KEY_1 KEY_2 "00", "not 130" },
		{ "x" KEY_1 "y", "must consist of hexadecimal digits" },
		{ KEY_1 "\n" KEY_1 "\n" KEY_1 "\n" KEY_1 "\n" KEY_1 "\n" KEY_1
		  "\n" KEY_1 "\n" KEY_1 "\n" KEY_1, "more than 8 keys" },
	};
	struct world *w = *state;
	struct side *s = &w->a;

	s->sec = psk_of(&w->pki, &s->files, "bad");
	refused(s, -ENOENT, "cannot open");
	for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++) {
		text_write(&w->pki, "bad", bad[i].text);
		refused(s, -EINVAL, bad[i].says);
	}
	text_write(&w->pki, "bad", KEY_1 KEY_2);
	keys_open(s, "node-a");
	s->sec.key = "/dev/zero";
	refused(s, -EINVAL, "/dev/zero is not a file");
}

static void others_can_read(void **state)
{
	static const mode_t wrong[] = { 0644, 0640, 0604, 0620, 0602, 0610 };
	struct world *w = *state;
	struct side *s = &w->a;
	struct files f;

	s->sec = psk_of(&w->pki, &s->files, "psk1");
	for (size_t i = 0; i < PL_ARRAY_SIZE(wrong); i++) {
		assert_int_equal(chmod(s->sec.key, wrong[i]), 0);
		refused(s, -EPERM, "chmod 600 it");
	}
	assert_int_equal(chmod(s->sec.key, 0400), 0);
	keys_open(s, "node-a");
	s->sec = tls_of(&w->pki, &f, "ca", "node-a");
	assert_int_equal(chmod(f.key, 0644), 0);
	refused(s, -EPERM, "node-a.key has mode 0644");
	if (geteuid() == 0) {
		assert_int_equal(chmod(f.key, 0600), 0);
		assert_int_equal(chown(f.key, 65534, 65534), 0);
		refused(s, -EPERM, "belongs to user 65534");
	}
}

static void wrong_certificate_files(void **state)
{
	struct world *w = *state;
	struct side *s = &w->a;
	struct pki *p = &w->pki;

	s->sec = tls_of(p, &s->files, "none", "node-a");
	refused(s, -EINVAL, "none.pem: no certificates of a CA");
	s->sec = tls_of(p, &s->files, "ca", "none");
	refused(s, -EINVAL, "none.crt: not a certificate in PEM");
	s->sec = tls_of(p, &s->files, "ca", "node-b");
	refused(s, -EINVAL, "it needs the subject alternative name DNS:node-a");
	leaf_write(p, "star", "DNS:*", &p->ca, DAY_S);
	s->sec = tls_of(p, &s->files, "ca", "star");
	refused(s, -EINVAL, "not for this node");
	leaf_write(p, "node-a", NULL, &p->ca, DAY_S);
	s->sec = tls_of(p, &s->files, "ca", "node-a");
	refused(s, -EINVAL, "not for this node");
	leaf_write(p, "node-a", "DNS:node-a", &p->ca, DAY_S);
	pki_path(p, s->files.key, "node-b", ".key");
	refused(s, -EINVAL, "not the key of the certificate");
	text_write(p, "text", "hello");
	pki_path(p, s->files.key, "text", "");
	refused(s, -EINVAL, "text: not a private key in PEM");
}

static void rotation_keeps_the_former(void **state)
{
	struct world *w = *state;
	struct pl_err err = { 0 };

	with_tls(w);
	agree(w);
	text_write(&w->pki, "node-a.crt", "half a certif");
	assert_int_equal(pl_tls_keys_refresh(w->a.keys, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "node-a.crt: not a certificate"));
	/* Said once. */
	assert_int_equal(pl_tls_keys_refresh(w->a.keys, &err), 0);
	agree(w);
	/* The whole cluster goes over to another CA. */
	leaf_write(&w->pki, "node-a", "DNS:node-a", &w->pki.other, DAY_S);
	assert_int_equal(pl_tls_keys_refresh(w->a.keys, &err), 1);
	disagree(w, "node-b", -EKEYREJECTED, -EKEYREJECTED, "unknown CA");
	ca_write(&w->pki, "ca", &w->pki.other);
	leaf_write(&w->pki, "node-b", "DNS:node-b", &w->pki.other, DAY_S);
	assert_int_equal(pl_tls_keys_refresh(w->a.keys, &err), 1);
	assert_int_equal(pl_tls_keys_refresh(w->b.keys, &err), 1);
	agree(w);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
int main(void)
{
	const struct CMUnitTest tests[] = {
		T(certificates), T(shared_key), T(wrong_shared_key),
		T(keys_are_exchanged), T(wrong_authority), T(expired),
		T(wrong_name), T(no_certificate), T(much), T(reads_exactly),
		T(altered), T(garbage), T(wrong_psk_files), T(others_can_read),
		T(wrong_certificate_files), T(rotation_keeps_the_former),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
