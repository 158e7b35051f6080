/*
 * daemonset/peer_wire.h - messages between the remote parts of two agents
 *
 * Theory of operation
 *
 * They are carrier messages (rdma/carrier.h) and so arrive whole and, without
 * `after`, in order. Integers are in host order; the carrier refuses peers of
 * another order.
 *
 * Lanes. The node whose pod connects (the opener) numbers the lane; a message
 * names a lane by that number, and PL_PEER_OPENER says that its sender is the
 * opener.
 *
 *   opener                                acceptor
 *   LANE_OPEN  (ring of the opener)  -->  makes a replica of that ring, asks
 *                                         its broker
 *              <--  LANE_ACCEPT (ring of the acceptor, key of its replica)
 *              <--  or LANE_REFUSE
 *   makes a replica, lets its pod go on
 *   LANE_READY (key of its replica)  -->
 *
 * Each side puts to the other's replica as soon as it has the key. LANE_END,
 * sent after the puts of that key, says that there will be no more; the other
 * side answers with its own, unless that has crossed. A side that has seen both
 * frees the lane. Every message about a lane that is not there, except
 * LANE_END, is answered by LANE_END.
 *
 * After a loss of the connection both sides send LANE_SYNC for each lane that
 * was accepted: how far their replica has come, and its key. Each goes on from
 * what it is told. So a LANE_READY or LANE_END that was lost is made up for.
 *
 * Regions. The reader's node asks for each reader (REGION_FIND), as policy is
 * by reader, and gets the region's number and size. It then follows the region
 * (REGION_SUB, numbered by the reader's node) unless it does so already, from
 * the version that its replica has; after a loss of the connection, again. The
 * owner's node ends it, in its own time or after REGION_UNSUB, by REGION_END
 * after the puts of the key.
 *
 * Peers are admitted by the carrier; still every field is checked.
 */
#ifndef DAEMONSET_PEER_WIRE_H
#define DAEMONSET_PEER_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define PL_PEER_MAGIC 0x52504c50u	/* "PLPR" */
#define PL_PEER_VERSION 1u
#define PL_PEER_NAME 64			/* services and regions, with NUL */
#define PL_PEER_NS 64			/* Kubernetes namespace, with NUL */
#define PL_PEER_TEXT 256

#define PL_PEER_OPENER 0x1u		/* the sender opened this lane */

enum pl_peer_type {
	PL_PEER_LANE_OPEN = 1,
	PL_PEER_LANE_ACCEPT,
	PL_PEER_LANE_REFUSE,
	PL_PEER_LANE_READY,
	PL_PEER_LANE_END,
	PL_PEER_LANE_SYNC,
	PL_PEER_REGION_FIND,
	PL_PEER_REGION_FOUND,
	PL_PEER_REGION_REFUSE,
	PL_PEER_REGION_SUB,
	PL_PEER_REGION_UNSUB,
	PL_PEER_REGION_END,
	PL_PEER_TYPES,
};

/* LANE_END, REGION_UNSUB: nothing else. */
struct pl_peer_hdr {
	uint32_t magic;
	uint16_t version;
	uint16_t type;
	uint32_t len;			/* of the whole message */
	uint32_t flags;			/* PL_PEER_OPENER, of LANE_ only */
	uint64_t no;			/* lane, request or subscription */
};
_Static_assert(offsetof(struct pl_peer_hdr, flags) == 12, "layout");
_Static_assert(sizeof(struct pl_peer_hdr) == 24, "layout");

struct pl_peer_addr {
	uint8_t family;			/* 4 or 6 */
	uint8_t pad[7];
	uint8_t bytes[16];
};
_Static_assert(sizeof(struct pl_peer_addr) == 24, "layout");

struct pl_peer_lane_open {
	struct pl_peer_hdr h;
	uint32_t ring_bytes;
	int32_t timeout_ms;		/* -1: none */
	struct pl_peer_addr src, dst;
	char ns[PL_PEER_NS];		/* of src */
	char service[PL_PEER_NAME];
};
_Static_assert(offsetof(struct pl_peer_lane_open, src) == 32, "layout");
_Static_assert(sizeof(struct pl_peer_lane_open) == 208, "layout");

/* LANE_ACCEPT, LANE_READY (ring_bytes 0, have 0), LANE_SYNC */
struct pl_peer_lane_key {
	struct pl_peer_hdr h;
	uint64_t key;			/* of the sender's replica */
	uint64_t have;			/* its head there */
	uint32_t ring_bytes;		/* ACCEPT: of the acceptor's own ring */
	uint32_t pad;
};
_Static_assert(sizeof(struct pl_peer_lane_key) == 48, "layout");

/* LANE_REFUSE, REGION_REFUSE */
struct pl_peer_refuse {
	struct pl_peer_hdr h;
	int32_t code;			/* positive errno */
	char text[PL_PEER_TEXT];
	uint32_t pad;
};
_Static_assert(sizeof(struct pl_peer_refuse) == 288, "layout");

struct pl_peer_region_find {
	struct pl_peer_hdr h;
	struct pl_peer_addr owner, reader;
	char ns[PL_PEER_NS];		/* of the reader */
	char name[PL_PEER_NAME];
};
_Static_assert(sizeof(struct pl_peer_region_find) == 200, "layout");

struct pl_peer_region_found {
	struct pl_peer_hdr h;
	uint64_t region;		/* the owner's node's number for it */
	uint64_t size;
};
_Static_assert(sizeof(struct pl_peer_region_found) == 40, "layout");

struct pl_peer_region_sub {
	struct pl_peer_region_find f;	/* no: the subscription */
	uint64_t region;
	uint64_t key;			/* of the replica */
	uint64_t have;			/* its version */
};
_Static_assert(offsetof(struct pl_peer_region_sub, region) == 200, "layout");
_Static_assert(sizeof(struct pl_peer_region_sub) == 224, "layout");

struct pl_peer_region_end {
	struct pl_peer_hdr h;
	uint32_t died;			/* 0 or 1 */
	uint32_t pad;
};
_Static_assert(sizeof(struct pl_peer_region_end) == 32, "layout");

#endif
