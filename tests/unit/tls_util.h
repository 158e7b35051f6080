/* tests/unit/tls_util.h - a folder of CAs, certificates and keys, for tests */
#ifndef TESTS_TLS_UTIL_H
#define TESTS_TLS_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <limits.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util.h"
#include "rdma/carrier.h"

#define DAY_S (24 * 3600L)

#define KEY_1 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789ABCDEF"
#define KEY_2 "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"

struct authority {
	EVP_PKEY *key;
	X509 *cert;
};

struct pki {
	char dir[64];
	long serial;
	struct authority ca, other;
};

/* Paths that a struct pl_carrier_security refers to. */
struct files {
	char ca[128], cert[128], key[128];
};

static inline void extend(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *ext;

	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	assert_non_null(ext);
	assert_int_equal(X509_add_ext(cert, ext, -1), 1);
	X509_EXTENSION_free(ext);
}

/* Valid from a day ago until `until` seconds from now. */
static inline X509 *cert_make(struct pki *p, const char *name, EVP_PKEY *key,
			      const struct authority *by, long until)
{
	X509 *cert = X509_new();
	X509_NAME *subject = X509_NAME_new();

	assert_non_null(cert);
	assert_int_equal(X509_set_version(cert, 2), 1);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), ++p->serial);
	X509_gmtime_adj(X509_getm_notBefore(cert), -2 * DAY_S);
	X509_gmtime_adj(X509_getm_notAfter(cert), until);
	X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
				   (const unsigned char *)name, -1, -1, 0);
	X509_set_subject_name(cert, subject);
	X509_set_issuer_name(cert, by ? X509_get_subject_name(by->cert) :
					subject);
	X509_NAME_free(subject);
	X509_set_pubkey(cert, key);
	return cert;
}

static inline void authority_make(struct pki *p, struct authority *a,
				  const char *name)
{
	a->key = EVP_EC_gen("P-256");
	a->cert = cert_make(p, name, a->key, NULL, DAY_S);
	extend(a->cert, a->cert, NID_basic_constraints, "critical,CA:TRUE");
	extend(a->cert, a->cert, NID_key_usage, "critical,keyCertSign");
	assert_true(X509_sign(a->cert, a->key, EVP_sha256()) > 0);
}

static inline void pki_path(const struct pki *p, char out[128],
			    const char *name, const char *suffix)
{
	assert_true(pl_format(out, 128, "%s/%s%s", p->dir, name, suffix) >= 0);
}

static inline FILE *pki_open(const char *path, mode_t mode)
{
	FILE *f;

	/* As rotation does it: another file in its place. */
	unlink(path);
	f = fopen(path, "we");
	assert_non_null(f);
	assert_int_equal(chmod(path, mode), 0);
	return f;
}

static inline void ca_write(const struct pki *p, const char *name,
			    const struct authority *a)
{
	char path[128];
	FILE *f;

	pki_path(p, path, name, ".pem");
	f = pki_open(path, 0644);
	assert_int_equal(PEM_write_X509(f, a->cert), 1);
	fclose(f);
}

/* NAME.crt and NAME.key: for the subject alternative name `san`. */
static inline void leaf_write(struct pki *p, const char *name, const char *san,
			      const struct authority *by, long until)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = cert_make(p, name, key, by, until);
	char path[128];
	FILE *f;

	if (san)
		extend(cert, by->cert, NID_subject_alt_name, san);
	assert_true(X509_sign(cert, by->key, EVP_sha256()) > 0);
	pki_path(p, path, name, ".crt");
	f = pki_open(path, 0644);
	assert_int_equal(PEM_write_X509(f, cert), 1);
	fclose(f);
	pki_path(p, path, name, ".key");
	f = pki_open(path, 0600);
	assert_int_equal(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL,
					      NULL), 1);
	fclose(f);
	X509_free(cert);
	EVP_PKEY_free(key);
}

static inline void text_write(const struct pki *p, const char *name,
			      const char *text)
{
	char path[128];
	FILE *f;

	pki_path(p, path, name, "");
	f = pki_open(path, 0600);
	assert_true(fputs(text, f) >= 0);
	fclose(f);
}

/* ca.pem, other.pem. */
static inline void pki_init(struct pki *p)
{
	const char *tmp = getenv("TMPDIR");

	memset(p, 0, sizeof(*p));
	assert_true(pl_format(p->dir, sizeof(p->dir), "%s/podlane-pki.XXXXXX",
			      tmp ? tmp : "/tmp") >= 0);
	assert_non_null(mkdtemp(p->dir));
	authority_make(p, &p->ca, "the cluster's CA");
	authority_make(p, &p->other, "somebody else");
	ca_write(p, "ca", &p->ca);
	ca_write(p, "other", &p->other);
}

static inline void pki_fini(struct pki *p)
{
	char cmd[128];

	EVP_PKEY_free(p->ca.key);
	EVP_PKEY_free(p->other.key);
	X509_free(p->ca.cert);
	X509_free(p->other.cert);
	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", p->dir);
	assert_int_equal(system(cmd), 0);
}

/* CA file and NAME's certificate. */
static inline struct pl_carrier_security tls_of(const struct pki *p,
						struct files *f,
						const char *ca,
						const char *name)
{
	pki_path(p, f->ca, ca, ".pem");
	pki_path(p, f->cert, name, ".crt");
	pki_path(p, f->key, name, ".key");
	return (struct pl_carrier_security){ .kind = PL_SECURITY_TLS,
					     .ca = f->ca,
					     .cert = f->cert,
					     .key = f->key };
}

static inline struct pl_carrier_security psk_of(const struct pki *p,
						struct files *f,
						const char *name)
{
	pki_path(p, f->key, name, "");
	return (struct pl_carrier_security){ .kind = PL_SECURITY_PSK,
					     .key = f->key };
}

#endif
