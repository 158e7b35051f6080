/*
 * shm/conn.h - the connection of a program to its agent
 *
 * Theory of operation
 *
 * wire.h says what is sent. One request is under way at a time: the connection
 * is locked from the request to its reply. What the agent pushes in between
 * (REGION_END) is taken by whoever reads. Each message is checked as a whole;
 * one that is wrong breaks the connection for good, since nobody knows what the
 * next message would belong to. A reply that comes too late is undone: the
 * agent is told that nobody wants what it made.
 *
 * Closing a lane must not wait for another thread's pl_connect: what the agent
 * has to be told is queued, and whoever holds the lock tells it before the
 * lock is free.
 *
 * The keeper (keeper.c) is a thread that sleeps until the agent has gone. Then
 * the connection is away: requests wait, and one that had no answer is sent
 * anew. The keeper looks for the next agent, says HELLO, and shows it each
 * object of the connection (pl_conn_obj); with that the epoch moves. An id is
 * one of the agent of an epoch, and nothing is told of it to another. When no
 * agent came within resume_ms, the connection is broken for good, and so is
 * every object that could not be shown.
 *
 * A child of fork has a copy of all this, but no keeper, and any lock may be
 * taken for ever: it touches nothing but what it closes (pl_conn_is_ours).
 *
 * Locks: lock, then objs_lock; neither is held while an object is resumed, for
 * which it is busy, and pl_conn_obj_remove waits for that.
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
#define PL_CONN_GRACE_MS 5000	/* ... behind the time that it was given */
#define PL_CONN_TELL_MS 1000
#define PL_CONN_RESUME_MS 60000	/* for agents that do not say it */
#define PL_CONN_ENDED 32

struct pl_conn_note;
struct pl_conn_obj;

struct pl_conn_obj_ops {
	int rank;			/* higher ones are shown later */
	/*
	 * Show it to the agent that is there now. 0: that knows it. -EAGAIN,
	 * -EHOSTUNREACH, -ECONNRESET and whatever a lack of something is: to be
	 * tried again, for resume_ms at most; -EINPROGRESS: for any time. Else
	 * it is lost.
	 */
	int (*resume)(struct pl_conn_obj *o);
	/* The others are called with objs_lock held: the agent has gone, */
	void (*away)(struct pl_conn_obj *o);
	/* there will be none that knows it, */
	void (*lost)(struct pl_conn_obj *o);
	/* the agent of an epoch says that an id has ended (may be NULL). */
	void (*ended)(struct pl_conn_obj *o, uint64_t id, uint32_t epoch);
};

/* Something that the agent knows by an id. */
struct pl_conn_obj {
	const struct pl_conn_obj_ops *ops;
	struct pl_conn *conn;		/* NULL: it hangs from none */
	uint32_t epoch;			/* in which an agent knows it */
	uint32_t round;			/* in which it was tried last */
	bool busy, is_lost;
	LIST_ENTRY(pl_conn_obj) of_conn;
};

/* A socket on its way to the agent, or -errno. */
typedef int pl_conn_dial(void *arg, struct pl_err *err);

struct pl_conn {
	int fd;				/* changed by the keeper only */
	pid_t pid;			/* whose it is: not a child's of fork */
	struct pl_conn_info info;
	char node[PL_WIRE_NODE];
	unsigned int version;		/* of the protocol */
	pthread_mutex_t lock;		/* reading fd, and up to late */
	pthread_cond_t moved;		/* away, or broken */
	uint32_t seq;
	/* Changed with the lock held. */
	_Atomic int broken;		/* 0 or -errno, for ever */
	_Atomic bool away;
	_Atomic uint64_t away_ns;	/* since when */
	uint32_t epoch;
	_Atomic uint32_t resume_ms;
	_Atomic bool sums;		/* new lanes have checksums */
	bool late;			/* the agent did not answer in time */
	pthread_mutex_t notes_lock;
	STAILQ_HEAD(, pl_conn_note) notes;	/* still to be told */

	pthread_mutex_t objs_lock;
	pthread_cond_t idle;		/* an object is not busy any more */
	LIST_HEAD(, pl_conn_obj) objs;
	/* Ends of which nobody knew the id yet, the last ones. */
	struct pl_conn_ended {
		uint64_t id;
		uint32_t epoch;
	} ended[PL_CONN_ENDED];
	unsigned int n_ended;

	pl_conn_dial *dial;		/* NULL: no keeper */
	void *dial_arg;
	bool has_keeper;
	pthread_t keeper;
	int poke_fd;			/* an eventfd */
	_Atomic bool ending;
};

/* Say HELLO on a connected socket; there is no keeper. Takes fd, always. */
int pl_conn_attach(int fd, struct pl_conn **out, struct pl_err *err);

/* Dial, say HELLO, start the keeper. */
int pl_conn_open(pl_conn_dial *dial, void *arg, struct pl_conn **out,
		 struct pl_err *err);

/* A request and where its reply goes. */
struct pl_conn_call {
	void *request;			/* its header is filled in here */
	uint16_t type, reply_type;
	const int *fds;
	int n_fds;
	void *reply;			/* NULL: of no interest */
	uint32_t reply_bytes;
	int *reply_fds;			/* the caller's on success */
	int n_reply_fds;		/* exactly so many come */
	int timeout_ms;			/* -1: none */
	/* So much longer for the reply, as the agent keeps the time. */
	int grace_ms;
	uint32_t *epoch;		/* of the reply; NULL: of no interest */
};

/* Not inherited by fork. */
bool pl_conn_is_ours(const struct pl_conn *conn);

/*
 * The agent's ERROR becomes -errno and its text. -EPERM: this process has it by
 * fork. -EPROTO: the reply was not
 * what it should be. -ETIMEDOUT: no reply. -ECONNRESET: there is no agent any
 * more.
 */
int pl_conn_call(struct pl_conn *conn, const struct pl_conn_call *call,
		 struct pl_err *err);

/* The same for the keeper: an agent that goes ends it. */
int pl_conn_call_once(struct pl_conn *conn, const struct pl_conn_call *call,
		      struct pl_err *err);

/*
 * Tell the agent of this epoch that an id has ended; waits a second at most,
 * and not for one that did not answer last time.
 */
void pl_conn_tell(struct pl_conn *conn, enum pl_msg_type type, uint64_t id,
		  uint32_t epoch);

/* Take what the agent pushed, if nobody else is reading. Does not wait. */
void pl_conn_poll(struct pl_conn *conn);

/*
 * From now on the keeper shows it. epoch: of the reply by which it came about.
 * `ended` is called for what has ended a moment before, too.
 */
void pl_conn_obj_add(struct pl_conn *conn, struct pl_conn_obj *o,
		     const struct pl_conn_obj_ops *ops, uint32_t epoch);
/* It has another id now: what of `ended` may have been for that? */
void pl_conn_obj_recheck(struct pl_conn_obj *o);
/*
 * Waits until the keeper has done with it. Does nothing without a conn, and
 * without waiting in a child of fork.
 */
void pl_conn_obj_remove(struct pl_conn_obj *o);

/* --- keeper.c ------------------------------------------------------------- */

int pl_keeper_start(struct pl_conn *conn, struct pl_err *err);
/* Nothing of conn is used by it any more. */
void pl_keeper_stop(struct pl_conn *conn);
/* Something is to be shown. */
void pl_keeper_poke(struct pl_conn *conn);

/* --- conn.c, for the keeper ----------------------------------------------- */

/* Locked: HELLO on conn->fd. */
int pl_conn_hello(struct pl_conn *conn, int timeout_ms, struct pl_err *err);
/* Locked: nothing can be sent or received any more. Returns why. */
int pl_conn_lose(struct pl_conn *conn, int why);
/* Tell what could not be told. */
void pl_conn_flush(struct pl_conn *conn);
/* objs_lock is held: no agent will know it. */
void pl_conn_obj_lose(struct pl_conn_obj *o);

#endif
