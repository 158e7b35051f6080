/*
 * bench/lane_link.h - one byte stream between two processes, of any kind
 *
 * The same calls over a lane, TCP and a Unix socket, so that what is compared
 * differs in the transport alone.
 */
#ifndef BENCH_LANE_LINK_H
#define BENCH_LANE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bench/lane_perf.h"
#include "shm/podlane.h"

struct lp_end {
	enum lp_link link;
	enum lp_wait wait;
	int fd;				/* -1: a lane */
	struct pl_lane *lane;
	char path[64];			/* as the transport tells */
};

/* All ends of a job, and what they hang from. */
struct lp_ends {
	const struct lp_job *job;
	struct pl_conn *conn;
	struct pl_listener *listener;
	int listen_fd;
	unsigned int n;
	struct lp_end *end;
};

/*
 * The server listens and takes job->lanes connections; the client makes them,
 * and waits until there is a server.
 */
int lp_ends_open(const struct lp_job *j, struct lp_ends *e,
		 struct pl_err *err);
void lp_ends_close(struct lp_ends *e);

/* Listens, or opens what connecting needs; lp_ends_open does it too. */
int lp_ends_init(const struct lp_job *j, struct lp_ends *e,
		 struct pl_err *err);
/* One more of job->lanes. */
int lp_end_accept(struct lp_ends *e, struct pl_err *err);
int lp_end_connect(struct lp_ends *e, struct pl_err *err);
void lp_end_close(struct lp_end *end);

/* All of it; 0 or -errno. -ECONNRESET: the end of the stream. */
int lp_send(const struct lp_end *end, const void *data, size_t len);
int lp_recv(const struct lp_end *end, void *data, size_t len);

/* What there is space for, or what is there: -EAGAIN when that is nothing. */
ssize_t lp_send_now(const struct lp_end *end, const void *data, size_t len);
ssize_t lp_recv_now(const struct lp_end *end, void *data, size_t len);
/* For poll; -errno. */
int lp_end_fd(const struct lp_end *end);

/* What these returned (or -EBADMSG: a message was not as sent) as an error. */
int lp_told(int rc, struct pl_err *err);

/* In place (lanes only): at least want bytes, or -errno. */
ssize_t lp_reserve(const struct lp_end *end, size_t want, void **ptr);
ssize_t lp_peek(const struct lp_end *end, size_t want, const void **ptr);

/* What fits into the ring at once, with room for the other side to go on. */
size_t lp_piece(const struct lp_end *end, size_t size);

#endif
