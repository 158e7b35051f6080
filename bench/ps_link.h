/*
 * bench/ps_link.h - byte streams between two workers, over any transport
 *
 * A port is where a worker's neighbours find it: a TCP port of its address, or
 * a service of its pod. A link begins with the hello of who connects and the
 * welcome of who accepts; whole chunks follow.
 *
 * One thread may send and another one receive.
 */
#ifndef BENCH_PS_LINK_H
#define BENCH_PS_LINK_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "shm/podlane.h"
#include "bench/ps_job.h"

struct ps_port {
	const struct ps_job *job;
	int fd;				/* TCP */
	struct pl_conn *conn;		/* lanes */
	struct pl_listener *listener;
};

struct ps_link {
	int fd;				/* -1: a lane */
	struct pl_lane *lane;
	void *buf;			/* TCP: what was received last */
	size_t buf_bytes;
	char peer[PS_ADDR_BYTES];
	char path[PS_PATH_BYTES];
};

#define PS_PORT_NONE ((struct ps_port){ .fd = -1 })
#define PS_LINK_NONE ((struct ps_link){ .fd = -1 })

/* Listens. The job stays with the caller; close takes also PS_PORT_NONE. */
int ps_port_open(const struct ps_job *job, struct ps_port *port,
		 struct pl_err *err);
void ps_port_close(struct ps_port *port);

/* For one who only connects: nobody finds it there. */
int ps_port_dial(const struct ps_job *job, struct ps_port *port,
		 struct pl_err *err);

/*
 * To the worker of this rank at addr, tried again until the job's timeout while
 * it is not there. -EINVAL: it has another job.
 */
int ps_link_connect(struct ps_port *port, const char *addr, uint32_t rank,
		    struct ps_link *link, struct pl_err *err);

/* From the worker of this rank; one that does not fit is refused. */
int ps_link_accept(struct ps_port *port, uint32_t rank, struct ps_link *link,
		   struct pl_err *err);
/* From a worker that was not seen yet, whose rank is told. */
int ps_link_accept_any(struct ps_port *port, bool *seen, uint32_t *rank,
		       struct ps_link *link, struct pl_err *err);
void ps_link_close(struct ps_link *link);

/* All of it; -ECONNRESET: the other end has gone. */
int ps_link_send(struct ps_link *link, const void *data, size_t len);
int ps_link_recv(struct ps_link *link, void *data, size_t len);

/*
 * The next len bytes (at most a chunk), where they are: valid until consume,
 * which takes them out.
 */
int ps_link_peek(struct ps_link *link, size_t len, const void **data);
int ps_link_consume(struct ps_link *link, size_t len);

/* What send, peek or consume returned, as an error. Returns rc. */
int ps_link_error(const struct ps_link *link, int rc, struct pl_err *err);

#endif
