/*
 * shm/conn.h - the connection of a program to its agent
 *
 * Theory of operation
 *
 * wire.h says what is sent. One request is under way at a time: the connection
 * is locked from the request to its reply. What the agent pushes in between
 * (REGION_END) is taken by whoever reads. Each message is checked as a whole;
 * one that is wrong, or a reply that does not come, breaks the connection for
 * good, since nobody knows what the next message would belong to. Lanes and
 * regions on this node do not need it any more then.
 *
 * Closing a lane must not wait for another thread's pl_connect: what the agent
 * has to be told is queued, and whoever holds the lock tells it before the
 * lock is free.
 */
#ifndef SHM_CONN_H
#define SHM_CONN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "common/err.h"
#include "shm/podlane.h"
#include "shm/wire.h"

#define PL_CONN_REPLY_MS 10000	/* an agent that lives answers sooner */
#define PL_CONN_FAR_MS 30000	/* ... when it has to ask another node first */
#define PL_CONN_TELL_MS 1000

struct pl_region;
struct pl_conn_note;

struct pl_conn {
	int fd;
	struct pl_conn_info info;
	pthread_mutex_t lock;		/* seq, broken, regions, reading fd */
	uint32_t seq;
	int broken;			/* 0 or -errno, for ever */
	LIST_HEAD(, pl_region) regions;		/* that were opened */
	pthread_mutex_t notes_lock;
	STAILQ_HEAD(, pl_conn_note) notes;	/* still to be told */
};

/* Say HELLO on a connected socket. Takes fd, always. */
int pl_conn_attach(int fd, struct pl_conn **out, struct pl_err *err);

/* A request and where its reply goes. */
struct pl_conn_call {
	void *request;			/* its header is filled in here */
	uint32_t request_bytes;
	uint16_t type, reply_type;
	const int *fds;
	int n_fds;
	void *reply;			/* NULL: of no interest */
	uint32_t reply_bytes;
	int *reply_fds;			/* the caller's on success */
	int n_reply_fds;		/* exactly so many come */
	int timeout_ms;			/* -1: none */
};

/*
 * The agent's ERROR becomes -errno and its text. -EPROTO: the reply was not
 * what it should be. -ETIMEDOUT, -ECONNRESET: no reply.
 */
int pl_conn_call(struct pl_conn *conn, const struct pl_conn_call *call,
		 struct pl_err *err);

/* Tell the agent that an id has ended; waits a second at most. */
void pl_conn_tell(struct pl_conn *conn, enum pl_msg_type type, uint64_t id);

/* Take what the agent pushed, if nobody else is reading. Does not wait. */
void pl_conn_poll(struct pl_conn *conn);

/* Regions that REGION_END may be about. */
void pl_conn_region_add(struct pl_conn *conn, struct pl_region *r);
void pl_conn_region_remove(struct pl_conn *conn, struct pl_region *r);

#endif
