/*
 * rdma/tls.c - one TLS 1.3 connection over a non-blocking socket
 *
 * Between OpenSSL and the socket stands a pair of BIOs with two rings. What is
 * written is encrypted into one, a record of at most 16 KB at a time, and
 * leaves by one send; what arrives lands in the other by one recv. OpenSSL by
 * itself would make a system call per record and per record's header.
 *
 * Nothing is encrypted unless a whole record fits into the ring, so OpenSSL
 * never has a write to be repeated. It does not read ahead: it asks its BIO for
 * what the next record needs and no more, and the pair remembers how much.
 */
#include "rdma/tls_internal.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/socket.h>

#include "common/util.h"

#define RECORD_BYTES ((size_t)SSL3_RT_MAX_PLAIN_LENGTH)
/* With header, tag, and a change of keys before it. */
#define RECORD_ROOM (RECORD_BYTES + 512)
#define RING_BYTES (8 * RECORD_ROOM)

struct pl_tls {
	struct pl_tls_set *set;
	SSL *ssl;
	BIO *net;			/* our end of the pair */
	uint64_t rekey_bytes, written;	/* with the present key */
	struct pl_err broken;		/* what ended it */
	unsigned int syscalls;
	uint8_t stage[RECORD_BYTES];	/* small pieces become one record */
};

/* --- pre-shared keys ------------------------------------------------------ */

static unsigned int psk_client(SSL *ssl, const char *hint, char *identity,
			       unsigned int identity_size, unsigned char *psk,
			       unsigned int psk_size)
{
	const struct pl_tls *t = SSL_get_app_data(ssl);
	const struct pl_psk *mine = &t->set->psk[0];

	(void)hint;
	if (mine->len > psk_size ||
	    pl_format(identity, identity_size, "%s", mine->id) < 0)
		return 0;
	memcpy(psk, mine->key, mine->len);
	return (unsigned int)mine->len;
}

static unsigned int psk_server(SSL *ssl, const char *identity,
			       unsigned char *psk, unsigned int psk_size)
{
	const struct pl_tls *t = SSL_get_app_data(ssl);

	for (unsigned int i = 0; i < t->set->n_psk; i++) {
		const struct pl_psk *k = &t->set->psk[i];

		if (strcmp(k->id, identity) || k->len > psk_size)
			continue;
		memcpy(psk, k->key, k->len);
		return (unsigned int)k->len;
	}
	return 0;
}

/* --- made and freed ------------------------------------------------------- */

static int setup(struct pl_tls *t, const char *peer)
{
	static const unsigned char context[] = "podlane";
	BIO *ours = NULL;

	t->ssl = SSL_new(t->set->ctx);
	if (!t->ssl || BIO_new_bio_pair(&ours, RING_BYTES, &t->net,
					RING_BYTES) != 1)
		return -ENOMEM;
	SSL_set_bio(t->ssl, ours, ours);
	SSL_set_app_data(t->ssl, t);
	if (t->set->n_psk && peer)
		SSL_set_psk_client_callback(t->ssl, psk_client);
	else if (t->set->n_psk)
		SSL_set_psk_server_callback(t->ssl, psk_server);
	else if (peer && X509_VERIFY_PARAM_set1_host(SSL_get0_param(t->ssl),
						     peer, 0) != 1)
		return -ENOMEM;
	if (peer) {
		SSL_set_connect_state(t->ssl);
		return 0;
	}
	SSL_set_accept_state(t->ssl);
	/* For OpenSSL a pre-shared key is a session, which must have one. */
	return SSL_set_session_id_context(t->ssl, context, sizeof(context)) ==
	       1 ? 0 : -ENOMEM;
}

struct pl_tls *pl_tls_create(struct pl_tls_keys *k, const char *peer)
{
	struct pl_tls *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->set = pl_tls_set_get(k);
	t->rekey_bytes = pl_tls_rekey_bytes(k);
	if (setup(t, peer) < 0) {
		ERR_clear_error();
		pl_tls_destroy(t);
		return NULL;
	}
	return t;
}

void pl_tls_destroy(struct pl_tls *t)
{
	if (!t)
		return;
	SSL_free(t->ssl);
	BIO_free(t->net);
	pl_tls_set_put(t->set);
	OPENSSL_cleanse(t->stage, sizeof(t->stage));
	free(t);
}

/* --- the socket ----------------------------------------------------------- */

/* More bytes for TLS: how many, or -errno. */
static ssize_t fill_ring(struct pl_tls *t, int fd, bool exact)
{
	/* In this order: asking for a place forgets the request. */
	size_t asked = BIO_ctrl_get_read_request(t->net);
	char *place;
	int room = BIO_nwrite0(t->net, &place);
	ssize_t n;

	if (exact)
		room = PL_MIN(room, (int)asked);
	if (room <= 0)
		return -EIO;
	do {
		n = recv(fd, place, (size_t)room, 0);
		t->syscalls++;
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (n == 0)
		return -ECONNRESET;
	return BIO_nwrite(t->net, &place, (int)n);
}

int pl_tls_flush(struct pl_tls *t, int fd)
{
	char *place;
	int have;

	while ((have = BIO_nread0(t->net, &place)) > 0) {
		ssize_t n = send(fd, place, (size_t)have, MSG_NOSIGNAL);

		t->syscalls++;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		BIO_nread(t->net, &place, (int)n);
	}
	return 0;
}

size_t pl_tls_unsent(const struct pl_tls *t)
{
	return BIO_ctrl_pending(t->net);
}

size_t pl_tls_held(const struct pl_tls *t)
{
	return (size_t)SSL_pending(t->ssl) +
	       BIO_ctrl_pending(SSL_get_rbio(t->ssl));
}

unsigned int pl_tls_syscalls(struct pl_tls *t)
{
	unsigned int n = t->syscalls;

	t->syscalls = 0;
	return n;
}

/* --- what goes wrong ------------------------------------------------------ */

/* What the last call failed for, and this side's doing first. */
static int failed(const struct pl_tls *t, struct pl_err *err)
{
	long cert = SSL_get_verify_result(t->ssl);
	unsigned long e = ERR_peek_error();
	int reason = ERR_GET_LIB(e) == ERR_LIB_SSL ? ERR_GET_REASON(e) : 0;

	if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && cert != X509_V_OK) {
		ERR_clear_error();
		return pl_err_set(err, cert == X509_V_ERR_CERT_HAS_EXPIRED ?
				  EKEYEXPIRED : EKEYREJECTED,
				  "its certificate is refused: %s",
				  X509_verify_cert_error_string(cert));
	}
	if (reason > SSL_AD_REASON_OFFSET) {
		ERR_clear_error();
		return pl_err_set(err, EKEYREJECTED, "it refuses this node: %s",
				  SSL_alert_desc_string_long(
					  reason - SSL_AD_REASON_OFFSET));
	}
	if (reason == SSL_R_WRONG_VERSION_NUMBER ||
	    reason == SSL_R_UNSUPPORTED_PROTOCOL ||
	    reason == SSL_R_HTTP_REQUEST) {
		ERR_clear_error();
		return pl_err_set(err, EPROTONOSUPPORT, "it does not speak TLS "
				  "1.3; is carrier.security the same there?");
	}
	if (t->set->n_psk && reason == SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM) {
		ERR_clear_error();
		return pl_err_set(err, EKEYREJECTED, "it does not have a "
				  "pre-shared key of this node");
	}
	return pl_tls_err(err, EPROTO, "TLS");
}

/* A key was used, and a certificate not by mistake. */
static int proven(const struct pl_tls *t, struct pl_err *err)
{
	if (t->set->n_psk ? SSL_session_reused(t->ssl) == 1 :
			    SSL_get0_peer_certificate(t->ssl) &&
			    SSL_get_verify_result(t->ssl) == X509_V_OK)
		return 0;
	return pl_err_set(err, EKEYREJECTED, "it did not prove who it is");
}

/* --- handshake ------------------------------------------------------------ */

int pl_tls_handshake(struct pl_tls *t, int fd, struct pl_err *err)
{
	for (;;) {
		int rc, why, sent;
		ssize_t n;

		ERR_clear_error();
		rc = SSL_do_handshake(t->ssl);
		why = SSL_get_error(t->ssl, rc);
		/* Also the alert that says what was wrong. */
		sent = pl_tls_flush(t, fd);
		if (rc == 1)
			return proven(t, err);
		if (why != SSL_ERROR_WANT_READ)
			return failed(t, err);
		n = sent < 0 && sent != -EAGAIN ? sent : fill_ring(t, fd, true);
		if (n == -EAGAIN)
			return -EAGAIN;
		if (n < 0)
			return pl_err_set(err, (int)-n, "%s during the "
					  "handshake of TLS",
					  strerror((int)-n));
	}
}

bool pl_tls_is_peer(const struct pl_tls *t, const char *node)
{
	X509 *cert = SSL_get0_peer_certificate(t->ssl);

	/* A key of all nodes names none of them. */
	if (t->set->n_psk)
		return true;
	return cert && X509_check_host(cert, node, 0,
				       X509_CHECK_FLAG_NO_WILDCARDS |
				       X509_CHECK_FLAG_NEVER_CHECK_SUBJECT,
				       NULL) == 1;
}

/* --- reading and writing -------------------------------------------------- */

/* One SSL_read: bytes, -EAGAIN: TLS needs more from the socket, or -errno. */
static ssize_t read_once(struct pl_tls *t, const struct iovec *to,
			 struct pl_err *err)
{
	int n, why;

	if (t->broken.code)
		return pl_err_set(err, t->broken.code, "%s", t->broken.msg);
	ERR_clear_error();
	n = SSL_read(t->ssl, to->iov_base,
		     (int)PL_MIN(to->iov_len, (size_t)1 << 30));
	if (n > 0)
		return n;
	why = SSL_get_error(t->ssl, n);
	if (why == SSL_ERROR_WANT_READ)
		return -EAGAIN;
	if (why == SSL_ERROR_ZERO_RETURN)
		pl_err_set(&t->broken, ECONNRESET, "it ended the connection");
	else
		failed(t, &t->broken);
	return pl_err_set(err, t->broken.code, "%s", t->broken.msg);
}

ssize_t pl_tls_read(struct pl_tls *t, int fd, enum pl_tls_fill fill,
		    struct iovec *iov, size_t n, struct pl_err *err)
{
	size_t got = 0, i = 0;

	while (i < n) {
		ssize_t k = read_once(t, &iov[i], err);

		if (k > 0) {
			got += (size_t)k;
			iov[i].iov_base = (uint8_t *)iov[i].iov_base + k;
			iov[i].iov_len -= (size_t)k;
			if (iov[i].iov_len == 0)
				i++;
			continue;
		}
		if (k == -EAGAIN && fill != PL_TLS_HELD)
			k = fill_ring(t, fd, fill == PL_TLS_EXACT);
		/* An error comes again, and then alone. */
		if (k < 0)
			return got ? (ssize_t)got : k;
	}
	return (ssize_t)got;
}

/* The next record's bytes, from where they are or gathered. */
static const void *next_record(struct pl_tls *t, const struct iovec *iov,
			       size_t n, size_t *i, size_t *at, size_t *len)
{
	const uint8_t *from = (const uint8_t *)iov[*i].iov_base + *at;

	*len = 0;
	if (iov[*i].iov_len - *at >= RECORD_BYTES) {
		*at += RECORD_BYTES;
		*len = RECORD_BYTES;
		return from;
	}
	while (*i < n && *len < RECORD_BYTES) {
		size_t part = PL_MIN(iov[*i].iov_len - *at,
				     RECORD_BYTES - *len);

		memcpy(t->stage + *len, (const uint8_t *)iov[*i].iov_base + *at,
		       part);
		*len += part;
		*at += part;
		if (*at == iov[*i].iov_len) {
			++*i;
			*at = 0;
		}
	}
	return t->stage;
}

ssize_t pl_tls_write(struct pl_tls *t, const struct iovec *iov, size_t n)
{
	size_t i = 0, at = 0, taken = 0, len;
	BIO *ours = SSL_get_wbio(t->ssl);

	ERR_clear_error();
	while (i < n && BIO_ctrl_get_write_guarantee(ours) >= RECORD_ROOM) {
		const void *record;

		if (at == iov[i].iov_len) {
			i++;
			at = 0;
			continue;
		}
		record = next_record(t, iov, n, &i, &at, &len);
		if (SSL_write(t->ssl, record, (int)len) != (int)len) {
			return -EIO;
		}
		taken += len;
		t->written += len;
		if (t->written < t->rekey_bytes)
			continue;
		t->written = 0;
		if (SSL_key_update(t->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) != 1)
			return -EIO;
	}
	return (ssize_t)taken;
}
