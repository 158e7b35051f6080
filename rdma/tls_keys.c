/*
 * rdma/tls_keys.c - certificates and pre-shared keys, from files
 *
 * A file of pre-shared keys has one per line, as hexadecimal digits; empty
 * lines and those that begin with # are skipped. This node uses the first one
 * to connect and accepts all of them, so a key can be exchanged on one node
 * after the other: add the new one behind the old one everywhere, then put it
 * first everywhere, then take the old one out. On the wire a key is named by
 * the beginning of a hash of it.
 */
#include "rdma/tls_internal.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/log.h"
#include "common/util.h"

#define FILES 3
#define SECRET_BYTES_MAX (64u << 10)
/* AES-GCM should not protect more than 2^24.5 records with one key. */
#define REKEY_BYTES (UINT64_C(64) << 30)
#define SUITES "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:" \
	       "TLS_CHACHA20_POLY1305_SHA256"

struct stamp {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec mtime, ctime;
};

struct pl_tls_keys {
	const struct pl_carrier_security *conf;
	const char *node;
	struct pl_tls_set *set;
	struct stamp stamps[FILES];
};

int pl_tls_err(struct pl_err *err, int code, const char *text)
{
	unsigned long e = ERR_peek_error();
	const char *why = e ? ERR_reason_error_string(e) : NULL;

	if (e && ERR_SYSTEM_ERROR(e))
		why = strerror(ERR_GET_REASON(e));
	pl_err_set(err, code, "%s: %s", text, why ? why : "unknown reason");
	ERR_clear_error();
	return -code;
}

/* --- secrets -------------------------------------------------------------- */

struct secret {
	char text[SECRET_BYTES_MAX];
	size_t len;
};

static void secret_free(struct secret **s)
{
	if (*s)
		OPENSSL_cleanse(*s, sizeof(**s));
	free(*s);
}

#define auto_secret __attribute__((cleanup(secret_free))) struct secret

/* As ssh does: a key that others can read is none. */
static int secret_check(int fd, const char *path, struct pl_err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return pl_err_sys(err, "cannot read %s", path);
	if (!S_ISREG(st.st_mode))
		return pl_err_set(err, EINVAL, "%s is not a file", path);
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return pl_err_set(err, EPERM, "%s belongs to user %u, who "
				  "could read and change the key; chown it to "
				  "root", path, st.st_uid);
	if (st.st_mode & 077)
		return pl_err_set(err, EPERM, "%s has mode %04o, others than "
				  "its owner could use the key; chmod 600 it "
				  "(a Secret's volume: defaultMode 0400)",
				  path, st.st_mode & 07777);
	return 0;
}

static int secret_read(const char *path, struct secret **out,
		       struct pl_err *err)
{
	auto_secret *s = NULL;
	int rc;

	pl_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return pl_err_sys(err, "cannot open %s", path);
	rc = secret_check(fd, path, err);
	if (rc < 0)
		return rc;
	s = calloc(1, sizeof(*s));
	if (!s)
		return pl_err_set(err, ENOMEM, "out of memory");
	while (s->len < sizeof(s->text)) {
		ssize_t n = read(fd, s->text + s->len,
				 sizeof(s->text) - s->len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return pl_err_sys(err, "cannot read %s", path);
		if (n == 0) {
			*out = s;
			s = NULL;
			return 0;
		}
		s->len += (size_t)n;
	}
	return pl_err_set(err, EFBIG, "%s is too large for a key", path);
}

/* --- pre-shared keys ------------------------------------------------------ */

static int psk_name(struct pl_psk *psk, struct pl_err *err)
{
	static const char purpose[] = "podlane psk name";
	uint8_t in[sizeof(purpose) + PL_PSK_BYTES_MAX];
	uint8_t md[EVP_MAX_MD_SIZE];
	int ok;

	memcpy(in, purpose, sizeof(purpose));
	memcpy(in + sizeof(purpose), psk->key, psk->len);
	ok = EVP_Digest(in, sizeof(purpose) + psk->len, md, NULL, EVP_sha256(),
			NULL);
	OPENSSL_cleanse(in, sizeof(in));
	if (ok != 1)
		return pl_tls_err(err, EIO, "SHA-256");
	snprintf(psk->id, sizeof(psk->id), "podlane:");
	for (size_t i = 0; i < 16; i++)
		snprintf(psk->id + 8 + 2 * i, 3, "%02x", md[i]);
	return 0;
}

static int psk_line(struct pl_tls_set *set, const char *line, size_t len,
		    struct pl_err *err)
{
	struct pl_psk *psk = &set->psk[set->n_psk];
	char pair[3] = "";

	if (set->n_psk == PL_PSK_MAX)
		return pl_err_set(err, EINVAL, "more than %d keys", PL_PSK_MAX);
	if (len % 2 || len < 2 * PL_PSK_BYTES_MIN || len > 2 * PL_PSK_BYTES_MAX)
		return pl_err_set(err, EINVAL, "a key must have an even number "
				  "of %d to %d hexadecimal digits, not %zu; "
				  "make one with: openssl rand -hex %d",
				  2 * PL_PSK_BYTES_MIN, 2 * PL_PSK_BYTES_MAX,
				  len, PL_PSK_BYTES_MIN);
	for (size_t i = 0; i < len; i += 2) {
		memcpy(pair, line + i, 2);
		if (!isxdigit((unsigned char)pair[0]) ||
		    !isxdigit((unsigned char)pair[1]))
			return pl_err_set(err, EINVAL, "a key must consist of "
					  "hexadecimal digits; make one with: "
					  "openssl rand -hex %d",
					  PL_PSK_BYTES_MIN);
		psk->key[i / 2] = (uint8_t)strtoul(pair, NULL, 16);
	}
	OPENSSL_cleanse(pair, sizeof(pair));
	psk->len = len / 2;
	set->n_psk++;
	return psk_name(psk, err);
}

static int psk_parse(struct pl_tls_set *set, const struct secret *s,
		     struct pl_err *err)
{
	const char *at = s->text, *end = s->text + s->len;
	int rc = 0;

	while (rc == 0 && at < end) {
		const char *nl = memchr(at, '\n', (size_t)(end - at));
		const char *next = nl ? nl + 1 : end, *stop = nl ? nl : end;

		while (at < stop && isspace((unsigned char)*at))
			at++;
		while (stop > at && isspace((unsigned char)stop[-1]))
			stop--;
		if (at < stop && *at != '#')
			rc = psk_line(set, at, (size_t)(stop - at), err);
		at = next;
	}
	if (rc == 0 && set->n_psk == 0)
		return pl_err_set(err, EINVAL, "no key in it; make one with: "
				  "openssl rand -hex %d", PL_PSK_BYTES_MIN);
	return rc;
}

static int psk_load(const struct pl_carrier_security *c,
		    struct pl_tls_set *set, struct pl_err *err)
{
	auto_secret *s = NULL;
	int rc = secret_read(c->key, &s, err);

	if (rc < 0)
		return rc;
	rc = psk_parse(set, s, err);
	if (rc < 0)
		pl_err_prefix(err, "%s", c->key);
	return rc;
}

/* --- certificates --------------------------------------------------------- */

static int no_passphrase(char *buf, int size, int writing, void *user)
{
	(void)buf;
	(void)size;
	(void)writing;
	(void)user;
	return -1;
}

static int key_load(SSL_CTX *ctx, const char *path, struct pl_err *err)
{
	auto_secret *s = NULL;
	EVP_PKEY *pkey = NULL;
	BIO *bio;
	int rc = secret_read(path, &s, err);

	if (rc < 0)
		return rc;
	bio = BIO_new_mem_buf(s->text, (int)s->len);
	if (bio)
		pkey = PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL);
	if (!pkey)
		rc = pl_tls_err(err, EINVAL, "not a private key in PEM, "
				"without a passphrase");
	else if (SSL_CTX_use_PrivateKey(ctx, pkey) != 1 ||
		 SSL_CTX_check_private_key(ctx) != 1)
		rc = pl_tls_err(err, EINVAL, "not the key of the certificate");
	EVP_PKEY_free(pkey);
	BIO_free(bio);
	if (rc < 0)
		pl_err_prefix(err, "%s", path);
	return rc;
}

static void warn_dates(const char *path, const X509 *cert)
{
	if (X509_cmp_current_time(X509_get0_notAfter(cert)) < 0)
		pl_warn("%s: the certificate has expired, other nodes will "
			"refuse it", path);
	else if (X509_cmp_current_time(X509_get0_notBefore(cert)) > 0)
		pl_warn("%s: the certificate is not valid yet, other nodes "
			"will refuse it", path);
}

static int cert_load(SSL_CTX *ctx, const char *path, const char *node,
		     struct pl_err *err)
{
	X509 *cert;

	if (SSL_CTX_use_certificate_chain_file(ctx, path) != 1) {
		pl_tls_err(err, EINVAL, "not a certificate in PEM");
		pl_err_prefix(err, "%s", path);
		return -EINVAL;
	}
	cert = SSL_CTX_get0_certificate(ctx);
	if (X509_check_host(cert, node, 0, X509_CHECK_FLAG_NO_WILDCARDS |
			    X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, NULL) != 1)
		return pl_err_set(err, EINVAL, "%s: the certificate is not for "
				  "this node; it needs the subject alternative "
				  "name DNS:%s", path, node);
	warn_dates(path, cert);
	return 0;
}

static int certs_load(const struct pl_carrier_security *c, const char *node,
		      SSL_CTX *ctx, struct pl_err *err)
{
	X509_VERIFY_PARAM *param = SSL_CTX_get0_param(ctx);
	int rc;

	if (SSL_CTX_load_verify_file(ctx, c->ca) != 1) {
		pl_tls_err(err, EINVAL, "no certificates of a CA in PEM");
		pl_err_prefix(err, "%s", c->ca);
		return -EINVAL;
	}
	/* The CA may be an intermediate one, alone. */
	X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_PARTIAL_CHAIN);
	X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_WILDCARDS |
					X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
	rc = cert_load(ctx, c->cert, node, err);
	return rc < 0 ? rc : key_load(ctx, c->key, err);
}

/* --- sets ----------------------------------------------------------------- */

/* Neither tickets nor sessions: each connection proves itself anew. */
static int ctx_make(SSL_CTX **out, struct pl_err *err)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_method());

	if (!ctx || SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) != 1 ||
	    SSL_CTX_set_ciphersuites(ctx, SUITES) != 1 ||
	    SSL_CTX_set_num_tickets(ctx, 0) != 1) {
		SSL_CTX_free(ctx);
		return pl_tls_err(err, EIO, "cannot use TLS 1.3");
	}
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER |
			   SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
			 SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	*out = ctx;
	return 0;
}

void pl_tls_set_put(struct pl_tls_set *s)
{
	if (!s || --s->refs)
		return;
	SSL_CTX_free(s->ctx);
	OPENSSL_cleanse(s, sizeof(*s));
	free(s);
}

struct pl_tls_set *pl_tls_set_get(struct pl_tls_keys *k)
{
	k->set->refs++;
	return k->set;
}

static int set_load(const struct pl_tls_keys *k, struct pl_tls_set **out,
		    struct pl_err *err)
{
	struct pl_tls_set *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return pl_err_set(err, ENOMEM, "out of memory");
	s->refs = 1;
	rc = ctx_make(&s->ctx, err);
	if (rc == 0)
		rc = k->conf->kind == PL_SECURITY_PSK ?
			     psk_load(k->conf, s, err) :
			     certs_load(k->conf, k->node, s->ctx, err);
	if (rc < 0) {
		pl_tls_set_put(s);
		return rc;
	}
	*out = s;
	return 0;
}

/* --- files that change ---------------------------------------------------- */

static void stamps_take(const struct pl_tls_keys *k, struct stamp out[FILES])
{
	const char *paths[FILES] = { k->conf->ca, k->conf->cert,
				     k->conf->key };
	struct stat st;

	memset(out, 0, FILES * sizeof(out[0]));
	for (int i = 0; i < FILES; i++) {
		if (!paths[i] || stat(paths[i], &st) < 0)
			continue;
		out[i].dev = st.st_dev;
		out[i].ino = st.st_ino;
		out[i].size = st.st_size;
		out[i].mtime = st.st_mtim;
		out[i].ctime = st.st_ctim;
	}
}

int pl_tls_keys_open(const struct pl_carrier_security *s, const char *node,
		     struct pl_tls_keys **out, struct pl_err *err)
{
	struct pl_tls_keys *k = calloc(1, sizeof(*k));
	int rc;

	if (!k)
		return pl_err_set(err, ENOMEM, "out of memory");
	k->conf = s;
	k->node = node;
	/* Before the reading: a change in between is seen the next time. */
	stamps_take(k, k->stamps);
	rc = set_load(k, &k->set, err);
	if (rc < 0) {
		free(k);
		return rc;
	}
	*out = k;
	return 0;
}

void pl_tls_keys_close(struct pl_tls_keys *k)
{
	if (!k)
		return;
	pl_tls_set_put(k->set);
	free(k);
}

int pl_tls_keys_refresh(struct pl_tls_keys *k, struct pl_err *err)
{
	struct stamp now[FILES];
	struct pl_tls_set *set;
	int rc;

	stamps_take(k, now);
	if (!memcmp(now, k->stamps, sizeof(now)))
		return 0;
	memcpy(k->stamps, now, sizeof(now));
	rc = set_load(k, &set, err);
	if (rc < 0)
		return rc;
	pl_tls_set_put(k->set);
	k->set = set;
	return 1;
}

uint64_t pl_tls_rekey_bytes(const struct pl_tls_keys *k)
{
	return k->conf->rekey_bytes ? k->conf->rekey_bytes : REKEY_BYTES;
}
