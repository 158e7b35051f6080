/*
 * shm/conn.h - the connection to the agent; wire.h has the protocol
 */
#ifndef SHM_CONN_H
#define SHM_CONN_H

#include <pthread.h>
#include <stdbool.h>

#include "shm/podlane.h"
#include "shm/wire.h"

#define PL_REPLY_TIMEOUT_MS 10000

struct pl_conn {
	int sock;
	bool dead;			/* gone, or it broke the rules */
	uint32_t seq;
	pthread_mutex_t lock;		/* one request at a time */
	struct pl_region *regions;	/* open ones of other pods */
	struct pl_conn_info info;
};

/* A reply: any of them, and the descriptors that came with it. */
union pl_reply {
	struct pl_msg_hdr h;
	struct pl_msg_error error;
	struct pl_msg_ok ok;
	struct pl_msg_hello_ok hello;
	struct pl_msg_lane lane;
	struct pl_msg_region region;
	struct pl_msg_id id;
	char room[PL_WIRE_MAX];
};

/* As pl_open over a socket that is connected already; takes it. */
int pl_conn_start(int sock, struct pl_conn **out, struct pl_err *err);

/*
 * Send a request (its header is filled in here) with descriptor fd (or -1,
 * stays the caller's) and wait for its reply, which must be of want_type with
 * n_fds descriptors; those are then the caller's. An ERROR reply becomes err.
 * timeout_ms -1: no limit.
 */
int pl_conn_call(struct pl_conn *c, void *request, size_t len, uint16_t type,
		 int fd, uint16_t want_type, union pl_reply *reply, int *fds,
		 int n_fds, int timeout_ms, struct pl_err *err);

/* Read what the agent has pushed, without waiting. */
void pl_conn_events(struct pl_conn *c);

void pl_conn_region_opened(struct pl_conn *c, struct pl_region *r);
/* Tell the agent; what it answers does not matter. */
void pl_conn_region_closed(struct pl_conn *c, struct pl_region *r);
void pl_conn_lane_closed(struct pl_conn *c, uint64_t id);

/* Header and length of a received message. */
bool pl_msg_valid(const void *msg, size_t len);
/* The length that a message of this type has; 0: there is no such type. */
size_t pl_msg_len(uint16_t type);
void pl_msg_fill(void *msg, uint16_t type, uint32_t seq);
/* A NUL-terminated string in a field of a message. */
bool pl_msg_text_valid(const char *text, size_t size);
/* A service or region name as podlane.h has it. */
bool pl_name_valid(const char *name);

#endif
