/* rdma/tls_internal.h - what tls.c and tls_keys.c share */
#ifndef RDMA_TLS_INTERNAL_H
#define RDMA_TLS_INTERNAL_H

#include <openssl/ssl.h>

#include "rdma/tls.h"

#define PL_PSK_MAX 8			/* keys in one file */
#define PL_PSK_BYTES_MIN 32
#define PL_PSK_BYTES_MAX 64
#define PL_PSK_ID_BYTES 41		/* with the NUL */

struct pl_psk {
	char id[PL_PSK_ID_BYTES];	/* what is said of it in the clear */
	uint8_t key[PL_PSK_BYTES_MAX];
	size_t len;
};

/* One reading of the files; lives as long as a connection uses it. */
struct pl_tls_set {
	unsigned int refs;
	SSL_CTX *ctx;
	struct pl_psk psk[PL_PSK_MAX];	/* the first one is ours */
	unsigned int n_psk;
};

/* The set in use, with a reference for the caller. */
struct pl_tls_set *pl_tls_set_get(struct pl_tls_keys *k);
void pl_tls_set_put(struct pl_tls_set *s);
uint64_t pl_tls_rekey_bytes(const struct pl_tls_keys *k);

/* err from OpenSSL's queue, which is emptied: "TEXT: why". Returns -code. */
int pl_tls_err(struct pl_err *err, int code, const char *text);

#endif
