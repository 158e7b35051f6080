/*
 * rdma/verbs_wire.h - what two verbs carriers say to each other, version 1
 *
 * Over the tcp carrier (pl_tcp_link), the channel on which the agents know each
 * other: offers, keys of memory, and messages that have to wait for puts. Over
 * the queue pairs: what rdma_cm carries along when they are made, and SENDs.
 * Integers are in host order, as in tcp_wire.h.
 */
#ifndef RDMA_VERBS_WIRE_H
#define RDMA_VERBS_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "rdma/carrier.h"

#define PL_VERBS_MAGIC 0x42564c50u	/* "PLVB" */
#define PL_VERBS_VERSION 1u
#define PL_VERBS_QPS_MAX 8u
#define PL_VERBS_TOKEN 16
/* SENDs of one queue pair that the other side has room for. */
#define PL_VERBS_CREDITS 64u

/* --- over the tcp carrier ------------------------------------------------ */

enum pl_verbs_type {
	PL_VERBS_OFFER = 1,		/* here I am, make queue pairs */
	PL_VERBS_NONE,			/* no verbs (any more) on this node */
	PL_VERBS_ASK,			/* make an offer: it may work now */
	PL_VERBS_KEYS,			/* memory that may be written */
	PL_VERBS_READY,			/* all queue pairs are made, here */
	PL_VERBS_FAIL,			/* they can't be made */
	PL_VERBS_AFTER,			/* a message, not before its barrier */
	PL_VERBS_REVOKE,		/* put no more of this key */
	PL_VERBS_REVOKED,		/* all puts of it are over */
};

/* NONE, ASK, READY: nothing else. */
struct pl_verbs_hdr {
	uint32_t magic;
	uint16_t version;
	uint16_t type;
	uint32_t len;			/* of the whole */
	uint32_t pad;
};
_Static_assert(sizeof(struct pl_verbs_hdr) == 16, "layout");

struct pl_verbs_offer {
	struct pl_verbs_hdr h;
	uint16_t port;			/* of rdma_cm */
	uint16_t qps;			/* queue pairs that are wanted */
	uint8_t family;			/* 4 or 6 */
	uint8_t pad[3];
	uint8_t addr[16];
	uint8_t token[PL_VERBS_TOKEN];	/* random, of this offer */
};
_Static_assert(offsetof(struct pl_verbs_offer, addr) == 24, "layout");
_Static_assert(sizeof(struct pl_verbs_offer) == 56, "layout");

struct pl_verbs_key_entry {
	uint64_t key;			/* as the owner of the carrier has it */
	uint64_t addr, len;
	uint32_t rkey;
	uint32_t pad;
};
_Static_assert(sizeof(struct pl_verbs_key_entry) == 32, "layout");

#define PL_VERBS_KEYS_MAX 100u

struct pl_verbs_keys {
	struct pl_verbs_hdr h;
	struct pl_verbs_key_entry e[PL_VERBS_KEYS_MAX];	/* as many as fit */
};
_Static_assert(sizeof(struct pl_verbs_keys) <= PL_CARRIER_MSG_MAX, "fits");

struct pl_verbs_fail {
	struct pl_verbs_hdr h;
	int32_t code;			/* positive errno */
	uint32_t pad;
};
_Static_assert(sizeof(struct pl_verbs_fail) == 24, "layout");

/* REVOKE, REVOKED */
struct pl_verbs_revoke {
	struct pl_verbs_hdr h;
	uint64_t key;
};
_Static_assert(sizeof(struct pl_verbs_revoke) == 24, "layout");

/* Followed by the message. */
struct pl_verbs_after {
	struct pl_verbs_hdr h;
	uint32_t qp;			/* on which the barrier comes */
	uint32_t barrier;
};
_Static_assert(sizeof(struct pl_verbs_after) == 24, "layout");

/* --- with rdma_cm -------------------------------------------------------- */

/* Of the side that makes a queue pair; the answer has its own token. */
struct pl_verbs_intro {
	uint32_t magic;
	uint16_t version;
	uint8_t index, count;		/* of this queue pair */
	uint8_t token[PL_VERBS_TOKEN];	/* that the other side has offered */
};
_Static_assert(sizeof(struct pl_verbs_intro) == 24, "layout");

/* --- SENDs --------------------------------------------------------------- */

enum pl_verbs_send_type {
	PL_VERBS_WORDS = 1,		/* a put of words; len may be 0 */
	PL_VERBS_BARRIER,		/* key: its number */
	PL_VERBS_GRANT,			/* nothing but `got` */
};

struct pl_verbs_send {
	uint32_t magic;
	uint8_t type;
	uint8_t flags;			/* PL_PUT_NOTIFY, of WORDS */
	uint16_t len;			/* of words, in bytes */
	uint32_t got;			/* SENDs of yours, GRANTs aside */
	uint32_t wrote;			/* bytes written since the last SEND */
	uint64_t key, offset;
	uint64_t words[PL_PUT_WORDS_MAX / 8];
};
_Static_assert(offsetof(struct pl_verbs_send, key) == 16, "layout");
_Static_assert(offsetof(struct pl_verbs_send, words) == 32, "layout");
_Static_assert(sizeof(struct pl_verbs_send) == 160, "layout");

#define PL_VERBS_SEND_HDR offsetof(struct pl_verbs_send, words)

#endif
