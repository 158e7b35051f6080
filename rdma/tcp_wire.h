/*
 * rdma/tcp_wire.h - what the tcp carrier sends, version 1
 *
 * Each connection starts with a HELLO of the side that made it and a WELCOME of
 * the other; from then on both send frames. With security all of it is within
 * TLS 1.3, or, where both say PL_TCP_AUTH_ONLY, HELLO and WELCOME are, each in
 * a record of its own. Integers are in host order: nodes of different byte
 * order read each other's magic backwards and refuse, as segments are in host
 * order too.
 */
#ifndef RDMA_TCP_WIRE_H
#define RDMA_TCP_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define PL_TCP_MAGIC 0x43544c50u	/* "PLTC" */
#define PL_TCP_VERSION 1u
#define PL_TCP_NODE 256			/* a node's name with its NUL */

#define PL_TCP_AUTH_ONLY 0x1u		/* frames are in plain text */

struct pl_tcp_hello {
	uint32_t magic;
	uint16_t version;
	uint16_t len;			/* of this struct */
	uint64_t instance;		/* random, of the sender's carrier */
	uint64_t set;			/* random, of these connections */
	uint64_t stale;			/* the set that was refused for: gone */
	uint16_t index, count;		/* of this connection in its set */
	uint32_t flags;			/* PL_TCP_AUTH_ONLY */
	char node[PL_TCP_NODE];		/* the sender */
	char to[PL_TCP_NODE];		/* whom it wants to talk to */
};
_Static_assert(offsetof(struct pl_tcp_hello, instance) == 8, "layout");
_Static_assert(offsetof(struct pl_tcp_hello, stale) == 24, "layout");
_Static_assert(offsetof(struct pl_tcp_hello, node) == 40, "layout");
_Static_assert(sizeof(struct pl_tcp_hello) == 552, "layout");

struct pl_tcp_welcome {
	uint32_t magic;
	uint16_t version;
	uint16_t len;			/* of this struct */
	int32_t status;			/* 0, or a positive errno: refused */
	uint32_t pad;
	uint64_t instance;
	uint64_t set;			/* EALREADY: the one in the way, or 0 */
};
_Static_assert(offsetof(struct pl_tcp_welcome, status) == 8, "layout");
_Static_assert(offsetof(struct pl_tcp_welcome, instance) == 16, "layout");
_Static_assert(sizeof(struct pl_tcp_welcome) == 32, "layout");

enum pl_tcp_type {
	PL_TCP_PUT = 1,
	PL_TCP_MESSAGE = 2,
	PL_TCP_LINK = 3,		/* see pl_tcp_link */
};

#define PL_TCP_FRAME_MAGIC 0x4650u	/* "PF" */
#define PL_TCP_FRAME_MAX (256u << 10)	/* payload */

/* Followed by len bytes. */
struct pl_tcp_frame {
	uint16_t magic;
	uint8_t type;
	uint8_t flags;			/* PL_PUT_NOTIFY */
	uint32_t len;			/* at least 1 */
	uint64_t key;			/* of a PUT, else 0 */
	uint64_t offset;		/* of a PUT, else 0 */
};
_Static_assert(offsetof(struct pl_tcp_frame, len) == 4, "layout");
_Static_assert(offsetof(struct pl_tcp_frame, key) == 8, "layout");
_Static_assert(offsetof(struct pl_tcp_frame, offset) == 16, "layout");
_Static_assert(sizeof(struct pl_tcp_frame) == 24, "layout");

#endif
