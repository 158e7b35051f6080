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
 * what it is told, once. So a LANE_READY or LANE_END that was lost is made up
 * for.
 *
 * Another agent. A lane is known by its uid, 128 random bits, of which `no` is
 * a part, and by the addresses of both pods. An agent that takes the place of
 * another gets its pods' lanes from the pods, and sends LANE_SYNC for each; so
 * does the other side when it sees that the agent is another one. A side
 * that has been told answers PL_PEER_ASK with its own LANE_SYNC. The receiver
 * checks uid, addresses and the sizes of both rings; that the sender's pod has
 * the address that it claims the sender has checked. A lane of which nobody has
 * spoken yet may be shown by its pod in a moment: LANE_SYNC is not answered
 * then, until the time that pods have for that is over. LANE_OPEN of a lane
 * that is there is the same request once more: a LANE_ACCEPT that may have been
 * lost is repeated.
 *
 * Regions. The reader's node asks for each reader (REGION_FIND), as policy is
 * by reader, and gets the region's uid and size. It then follows the region
 * (REGION_SUB, numbered by the reader's node) unless it does so already, from
 * the version that its replica has; after a loss of the connection, again. The
 * owner's node ends it, in its own time or after REGION_UNSUB, by REGION_END
 * after the puts of the key. When it does not know the region, but may come to
 * know it, as its owner has not shown it yet, it says so (REGION_LATER), and is
 * asked again.
 *
 * Regions that grow. The replica has the region's size at the time of the
 * answer. When a reader wants what the region has grown by since, the replica
 * grows, under the key that it has, and the owner's node is told (REGION_MORE).
 * It has clipped what it put to the replica's room so far; now it puts all of
 * what is new, and then says so with the counters.
 *
 * Pods. Where no node's range has an address, POD_FIND asks whether the other
 * node has a pod of it; POD_FOUND says so, or not.
 *
 * Peers are admitted by the carrier; still every field is checked.
 */
#ifndef DAEMONSET_PEER_WIRE_H
#define DAEMONSET_PEER_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define PL_PEER_MAGIC 0x52504c50u	/* "PLPR" */
#define PL_PEER_VERSION 3u
#define PL_PEER_NAME 64			/* services and regions, with NUL */
#define PL_PEER_NS 64			/* Kubernetes namespace, with NUL */
#define PL_PEER_TEXT 256

#define PL_PEER_UID 16

#define PL_PEER_OPENER 0x1u		/* the sender opened this lane */
#define PL_PEER_ASK 0x2u		/* LANE_SYNC: say how far you are */
/* LANE_OPEN, LANE_ACCEPT: the sender's pod can go on with another agent. */
#define PL_PEER_RESUMES 0x4u
#define PL_PEER_FLAGS (PL_PEER_OPENER | PL_PEER_ASK | PL_PEER_RESUMES)

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
	PL_PEER_REGION_LATER,
	PL_PEER_POD_FIND,
	PL_PEER_POD_FOUND,
	PL_PEER_REGION_MORE,
	PL_PEER_TYPES,
};

/* LANE_END, REGION_UNSUB, REGION_LATER: nothing else. */
struct pl_peer_hdr {
	uint32_t magic;
	uint16_t version;
	uint16_t type;
	uint32_t len;			/* of the whole message */
	uint32_t flags;			/* PL_PEER_..., of LANE_ only */
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
	uint8_t uid[PL_PEER_UID];
};
_Static_assert(offsetof(struct pl_peer_lane_open, src) == 32, "layout");
_Static_assert(sizeof(struct pl_peer_lane_open) == 224, "layout");

/* LANE_ACCEPT, LANE_READY (ring_bytes 0) */
struct pl_peer_lane_key {
	struct pl_peer_hdr h;
	uint64_t key;			/* of the sender's replica */
	uint32_t ring_bytes;		/* ACCEPT: of the acceptor's own ring */
	uint32_t pad;
};
_Static_assert(sizeof(struct pl_peer_lane_key) == 40, "layout");

struct pl_peer_lane_sync {
	struct pl_peer_hdr h;
	uint64_t key;			/* of the sender's replica */
	uint64_t have;			/* its head there */
	uint32_t own_ring, rep_ring;	/* bytes, of the sender's two */
	struct pl_peer_addr src, dst;	/* the opener's pod, the acceptor's */
	uint8_t uid[PL_PEER_UID];
};
_Static_assert(offsetof(struct pl_peer_lane_sync, src) == 48, "layout");
_Static_assert(sizeof(struct pl_peer_lane_sync) == 112, "layout");

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
	uint8_t uid[PL_PEER_UID];
	uint64_t size;			/* by now */
	uint64_t max_size;
};
_Static_assert(sizeof(struct pl_peer_region_found) == 56, "layout");

struct pl_peer_region_sub {
	struct pl_peer_region_find f;	/* no: the subscription */
	uint8_t uid[PL_PEER_UID];
	uint64_t key;			/* of the replica */
	uint64_t have;			/* its version */
	uint64_t room;			/* bytes of data that fit in it */
	uint64_t filled;		/* of them, of that version */
};
_Static_assert(offsetof(struct pl_peer_region_sub, uid) == 200, "layout");
_Static_assert(sizeof(struct pl_peer_region_sub) == 248, "layout");

struct pl_peer_region_more {
	struct pl_peer_hdr h;		/* no: the subscription */
	uint64_t room;
};
_Static_assert(sizeof(struct pl_peer_region_more) == 32, "layout");

struct pl_peer_region_end {
	struct pl_peer_hdr h;
	uint32_t died;			/* 0 or 1 */
	uint32_t pad;
};
_Static_assert(sizeof(struct pl_peer_region_end) == 32, "layout");

/* POD_FIND, POD_FOUND */
struct pl_peer_pod {
	struct pl_peer_hdr h;		/* no: of the question */
	struct pl_peer_addr addr;
	uint32_t has;			/* POD_FOUND: 0 or 1 */
	uint32_t pad;
};
_Static_assert(sizeof(struct pl_peer_pod) == 56, "layout");

#endif
