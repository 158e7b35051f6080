/*
 * shm/wire.h - messages between a pod's library and its agent, version 1
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
 * regions) ends with it.
 *
 *   HELLO          -> HELLO_OK
 *   LISTEN         -> LISTEN_OK   fds: listener
 *   CONNECT        fds: own segment
 *                  -> CONNECT_OK  fds: peer's segment, doorbell
 *   REGION_CREATE  fds: segment -> REGION_CREATE_OK  fds: watch segment, bell
 *   REGION_OPEN    -> REGION_OPEN_OK  fds: segment (or this node's replica)
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
 * Every field from the other side is checked before use: lengths, NUL
 * termination, enumerations, the number of descriptors, seals and sizes.
 */
#ifndef SHM_WIRE_H
#define SHM_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define PL_WIRE_SOCKET "podlane"	/* abstract: sun_path = "\0podlane" */
#define PL_WIRE_MAGIC 0x31574c50u	/* "PLW1" */
#define PL_WIRE_VERSION 1u
#define PL_WIRE_NAME 64
#define PL_WIRE_ADDR 48
#define PL_WIRE_PATH 16
#define PL_WIRE_TEXT 256
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

struct pl_msg_hello_ok {
	struct pl_msg_hdr h;
	uint32_t version;		/* chosen */
	uint32_t flags;			/* 0 */
	char node[PL_WIRE_NAME];
	char addr[PL_WIRE_ADDR];	/* the pod's first address */
};
_Static_assert(sizeof(struct pl_msg_hello_ok) == 136, "layout");

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
};
_Static_assert(sizeof(struct pl_msg_connect) == 136, "layout");

/* CONNECT_OK: the answer. INCOMING: to a listener. */
struct pl_msg_lane {
	struct pl_msg_hdr h;
	uint64_t id;
	uint32_t ring_bytes;		/* of the peer's segment */
	uint32_t pad;
	char path[PL_WIRE_PATH];
	char peer[PL_WIRE_ADDR];	/* the peer pod */
	char service[PL_WIRE_NAME];
};
_Static_assert(sizeof(struct pl_msg_lane) == 160, "layout");

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
};
_Static_assert(sizeof(struct pl_msg_region_create) == 96, "layout");

struct pl_msg_region_open {
	struct pl_msg_hdr h;
	char addr[PL_WIRE_ADDR];
	char name[PL_WIRE_NAME];
};
_Static_assert(sizeof(struct pl_msg_region_open) == 128, "layout");

/* REGION_CREATE_OK and REGION_OPEN_OK */
struct pl_msg_region {
	struct pl_msg_hdr h;
	uint64_t id;			/* of the region, or of this opening */
	uint64_t size;
	char path[PL_WIRE_PATH];
	char owner[PL_WIRE_ADDR];
};
_Static_assert(sizeof(struct pl_msg_region) == 96, "layout");

#endif
