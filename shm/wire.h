/*
 * shm/wire.h - messages between a pod's library and its agent, version 4
 *
 * Theory of operation
 *
 * The agent listens on the abstract SOCK_SEQPACKET socket "@podlane" in each
 * pod's network namespace. One message is one packet: struct pl_msg_hdr, then a
 * body of fixed layout, descriptors by SCM_RIGHTS. Integers are in host order
 * (both ends are on one machine). A client sends a request and waits for the
 * reply with the same seq; it has one request under way. Requests that need the
 * peer (CONNECT, remote REGION_OPEN) are answered when the peer has answered,
 * and other requests of the pod are served meanwhile on other connections.
 *
 * HELLO must be first. Everything that a connection made (listeners, lanes,
 * regions) ends with it, as long as the agent lives.
 *
 *   HELLO          -> HELLO_OK
 *   LISTEN         -> LISTEN_OK   fds: listener
 *   CONNECT        fds: own segment
 *                  -> CONNECT_OK  fds: peer's segment, doorbell
 *   LANE_RESUME    fds: own segment, replica
 *                  -> LANE_RESUMED  fds: fresh replica, doorbell
 *   LANE_SHOW      fds: own segment -> OK
 *   REGION_CREATE  fds: segment -> REGION_CREATE_OK  fds: watch segment, bell
 *   REGION_GROW    fds: one more segment -> OK
 *   REGION_OPEN    -> REGION_OPEN_OK  fds: segment (or this node's replica)
 *   REGION_MORE    -> REGION_MORE_OK  fds: the segment behind those
 *   LANE_CLOSE, REGION_CLOSE -> OK
 *   any            -> ERROR
 *
 * The listener descriptor is one end of a SOCK_SEQPACKET pair of its own. There
 * the agent sends INCOMING (fds: peer's segment, doorbell) and the library
 * answers ACCEPT (fds: own segment) or REJECT, with the same lane id. Closing
 * it ends the listener. An unanswered INCOMING is refused after the connecting
 * side's timeout.
 *
 * The agent pushes REGION_END on the connection (seq 0) when a region that the
 * connection has open has ended; a library reads such messages while it waits
 * for a reply, and between its slices of waiting in pl_region_wait.
 *
 * Another agent. When the agent dies, all that it knew is with the pods. A
 * library that loses its agent connects anew and shows what it has: listeners
 * by LISTEN, own regions by REGION_CREATE and open ones by REGION_OPEN as at
 * first, lanes to other nodes by LANE_RESUME, lanes within the node, which go
 * on by themselves, by LANE_SHOW so that they are counted and listed. What
 * says that it is the same thing as before is its uid: 128 random bits that
 * whoever connects (or creates) draws, and that only the two pods of the lane
 * (the readers of the region) and their agents get to know. A request of which
 * no answer came is sent once more to the next agent, with the same uid.
 * EAGAIN says that something may be there in a moment: an agent that has just
 * been started can't know yet what all pods are going to show it.
 *
 * Versions. HELLO, and an ERROR instead of its answer, is in the layout of
 * version 1. HELLO_OK names the highest version that both know, and is itself
 * of that version, as is all that follows. Each version appends fields to the
 * messages of the one before (PL_..._V1_BYTES is what version 1 has of one) or
 * adds types. Version 1 has no uid, no LANE_RESUME, no LANE_SHOW and no EAGAIN:
 * such a pod's lanes to other nodes end with the agent. Version 2 cuts names of
 * nodes to 63 bytes, and its REGION_OPEN can't say how long the program wants
 * to wait. Versions before 4 know nothing of regions that grow: a reader has
 * what there was at first.
 *
 * Regions that grow. More memory of a region is a segment more, without a
 * control block, for the data from an offset on: the owner shows it by
 * REGION_GROW, and then says in its first segment how far the region has grown.
 * A reader that finds more there than it has asks for the segment at the offset
 * where its own end (REGION_MORE). Both may be repeated; uid says of which
 * region an id is, as another agent gives out other ids.
 *
 * Every field from the other side is checked before use: lengths, NUL
 * termination, enumerations, the number of descriptors, seals and sizes.
 */
#ifndef SHM_WIRE_H
#define SHM_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define PL_WIRE_SOCKET "podlane"	/* abstract: sun_path = "\0podlane" */
#define PL_WIRE_MAGIC 0x31574c50u	/* "PLW1" */
#define PL_WIRE_VERSION 4u
#define PL_WIRE_VERSION_MIN 1u
#define PL_WIRE_NAME 64
#define PL_WIRE_NODE 256
#define PL_WIRE_ADDR 48
#define PL_WIRE_PATH 16
#define PL_WIRE_TEXT 256
#define PL_WIRE_UID 16
#define PL_WIRE_MAX 1024	/* no message is larger */

enum pl_msg_type {
	PL_MSG_ERROR = 1,
	PL_MSG_OK,
	PL_MSG_HELLO,
	PL_MSG_HELLO_OK,
	PL_MSG_LISTEN,
	PL_MSG_LISTEN_OK,
	PL_MSG_CONNECT,
	PL_MSG_CONNECT_OK,
	PL_MSG_INCOMING,
	PL_MSG_ACCEPT,
	PL_MSG_REJECT,
	PL_MSG_LANE_CLOSE,
	PL_MSG_REGION_CREATE,
	PL_MSG_REGION_CREATE_OK,
	PL_MSG_REGION_OPEN,
	PL_MSG_REGION_OPEN_OK,
	PL_MSG_REGION_CLOSE,
	PL_MSG_REGION_END,
	PL_MSG_LANE_RESUME,
	PL_MSG_LANE_RESUMED,
	PL_MSG_LANE_SHOW,
	PL_MSG_REGION_GROW,
	PL_MSG_REGION_MORE,
	PL_MSG_REGION_MORE_OK,
	PL_MSG_TYPES,
};

struct pl_msg_hdr {
	uint32_t magic;
	uint16_t version;
	uint16_t type;
	uint32_t seq;		/* 0: not an answer */
	uint32_t len;		/* of the whole message */
};
_Static_assert(sizeof(struct pl_msg_hdr) == 16, "layout");

struct pl_msg_error {
	struct pl_msg_hdr h;
	int32_t code;		/* positive errno */
	char text[PL_WIRE_TEXT];
};
_Static_assert(sizeof(struct pl_msg_error) == 276, "layout");

/* OK, LISTEN_OK (id: the listener), REJECT on a listener (id: the lane) */
struct pl_msg_ok {
	struct pl_msg_hdr h;
	uint64_t id;
};
_Static_assert(sizeof(struct pl_msg_ok) == 24, "layout");

struct pl_msg_hello {
	struct pl_msg_hdr h;
	uint32_t version_min, version_max;	/* what the library speaks */
};
_Static_assert(sizeof(struct pl_msg_hello) == 24, "layout");

/* New lanes are to have checksums; libraries may not know of it. */
#define PL_HELLO_CHECKSUM 0x1u

struct pl_msg_hello_ok {
	struct pl_msg_hdr h;
	uint32_t version;		/* chosen */
	uint32_t flags;			/* PL_HELLO_... */
	char node[PL_WIRE_NAME];	/* cut, if it is longer */
	char addr[PL_WIRE_ADDR];	/* the pod's first address */
	/* version 2 */
	uint32_t resume_ms;		/* how long an absence may last */
	uint32_t pad;
	/* version 3 */
	char full_node[PL_WIRE_NODE];
};
#define PL_HELLO_OK_V1_BYTES 136u
_Static_assert(offsetof(struct pl_msg_hello_ok, resume_ms) ==
	       PL_HELLO_OK_V1_BYTES, "layout");
#define PL_HELLO_OK_V2_BYTES 144u
_Static_assert(offsetof(struct pl_msg_hello_ok, full_node) ==
	       PL_HELLO_OK_V2_BYTES, "layout");
_Static_assert(sizeof(struct pl_msg_hello_ok) == 400, "layout");

struct pl_msg_listen {
	struct pl_msg_hdr h;
	uint32_t flags;			/* PL_ALLOW_ANY */
	uint32_t pad;
	char service[PL_WIRE_NAME];
};
_Static_assert(sizeof(struct pl_msg_listen) == 88, "layout");

struct pl_msg_connect {
	struct pl_msg_hdr h;
	uint32_t ring_bytes;		/* of the segment that comes along */
	int32_t timeout_ms;		/* -1: none */
	char addr[PL_WIRE_ADDR];
	char service[PL_WIRE_NAME];
	/* version 2 */
	uint8_t uid[PL_WIRE_UID];	/* all 0: the agent draws one */
};
#define PL_CONNECT_V1_BYTES 136u
_Static_assert(offsetof(struct pl_msg_connect, uid) == PL_CONNECT_V1_BYTES,
	       "layout");
_Static_assert(sizeof(struct pl_msg_connect) == 152, "layout");

/* CONNECT_OK: the answer. INCOMING: to a listener. LANE_RESUMED. */
struct pl_msg_lane {
	struct pl_msg_hdr h;
	uint64_t id;
	uint32_t ring_bytes;		/* of the peer's segment */
	uint32_t pad;
	char path[PL_WIRE_PATH];
	char peer[PL_WIRE_ADDR];	/* the peer pod */
	char service[PL_WIRE_NAME];
	/* version 2 */
	char self[PL_WIRE_ADDR];	/* this pod, as the peer knows it */
	uint8_t uid[PL_WIRE_UID];
};
#define PL_LANE_V1_BYTES 160u
_Static_assert(offsetof(struct pl_msg_lane, self) == PL_LANE_V1_BYTES,
	       "layout");
_Static_assert(sizeof(struct pl_msg_lane) == 224, "layout");

#define PL_RESUME_OPENER 0x1u	/* this end has connected, not accepted */

/* LANE_RESUME, LANE_SHOW: as CONNECT_OK or INCOMING said it. */
struct pl_msg_lane_resume {
	struct pl_msg_hdr h;
	uint32_t ring_bytes;		/* of the own segment */
	uint32_t peer_ring_bytes;	/* of the peer's, or its replica */
	uint32_t flags;			/* PL_RESUME_OPENER */
	uint32_t pad;
	char peer[PL_WIRE_ADDR];
	char service[PL_WIRE_NAME];
	char self[PL_WIRE_ADDR];
	uint8_t uid[PL_WIRE_UID];
};
_Static_assert(sizeof(struct pl_msg_lane_resume) == 208, "layout");

struct pl_msg_accept {
	struct pl_msg_hdr h;
	uint64_t id;
	uint32_t ring_bytes;		/* of the acceptor's segment */
	uint32_t pad;
};
_Static_assert(sizeof(struct pl_msg_accept) == 32, "layout");

/* LANE_CLOSE, REGION_CLOSE, REGION_END */
struct pl_msg_id {
	struct pl_msg_hdr h;
	uint64_t id;
};

struct pl_msg_region_create {
	struct pl_msg_hdr h;
	uint64_t size;
	uint32_t flags;			/* PL_ALLOW_ANY */
	uint32_t pad;
	char name[PL_WIRE_NAME];
	/* version 2 */
	uint8_t uid[PL_WIRE_UID];	/* all 0: the agent draws one */
	/* version 4 */
	uint64_t max_size;		/* that it may grow to; 0: size */
};
#define PL_REGION_CREATE_V1_BYTES 96u
_Static_assert(offsetof(struct pl_msg_region_create, uid) ==
	       PL_REGION_CREATE_V1_BYTES, "layout");
#define PL_REGION_CREATE_V2_BYTES 112u
_Static_assert(offsetof(struct pl_msg_region_create, max_size) ==
	       PL_REGION_CREATE_V2_BYTES, "layout");
_Static_assert(sizeof(struct pl_msg_region_create) == 120, "layout");

struct pl_msg_region_grow {
	struct pl_msg_hdr h;
	uint64_t offset;		/* of the data in the region */
	uint64_t bytes;			/* of the segment that comes along */
	char name[PL_WIRE_NAME];
	uint8_t uid[PL_WIRE_UID];
};
_Static_assert(sizeof(struct pl_msg_region_grow) == 112, "layout");

struct pl_msg_region_open {
	struct pl_msg_hdr h;
	char addr[PL_WIRE_ADDR];
	char name[PL_WIRE_NAME];
	/* version 2 */
	uint8_t uid[PL_WIRE_UID];	/* this one, not 0, or none: ESTALE */
	/* version 3 */
	int32_t timeout_ms;		/* for asking another node; -1: none */
	uint32_t pad;
};
#define PL_REGION_OPEN_V1_BYTES 128u
_Static_assert(offsetof(struct pl_msg_region_open, uid) ==
	       PL_REGION_OPEN_V1_BYTES, "layout");
#define PL_REGION_OPEN_V2_BYTES 144u
_Static_assert(offsetof(struct pl_msg_region_open, timeout_ms) ==
	       PL_REGION_OPEN_V2_BYTES, "layout");
_Static_assert(sizeof(struct pl_msg_region_open) == 152, "layout");

/* REGION_CREATE_OK and REGION_OPEN_OK */
struct pl_msg_region {
	struct pl_msg_hdr h;
	uint64_t id;			/* of the region, or of this opening */
	uint64_t size;
	char path[PL_WIRE_PATH];
	char owner[PL_WIRE_ADDR];
	/* version 2 */
	uint8_t uid[PL_WIRE_UID];
	/* version 4 */
	uint64_t max_size;		/* that it may grow to; 0: size */
};
#define PL_REGION_V1_BYTES 96u
_Static_assert(offsetof(struct pl_msg_region, uid) == PL_REGION_V1_BYTES,
	       "layout");
#define PL_REGION_V2_BYTES 112u
_Static_assert(offsetof(struct pl_msg_region, max_size) == PL_REGION_V2_BYTES,
	       "layout");
_Static_assert(sizeof(struct pl_msg_region) == 120, "layout");

struct pl_msg_region_more {
	struct pl_msg_hdr h;
	uint64_t id;			/* of the opening */
	uint64_t offset;		/* where what the reader has ends */
	uint8_t uid[PL_WIRE_UID];
};
_Static_assert(sizeof(struct pl_msg_region_more) == 48, "layout");

struct pl_msg_region_more_ok {
	struct pl_msg_hdr h;
	uint64_t offset;		/* as it was asked for */
	uint64_t bytes;			/* of the segment */
};
_Static_assert(sizeof(struct pl_msg_region_more_ok) == 32, "layout");

#endif
