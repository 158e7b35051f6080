/*
 * bench/ps_overlay.h - TCP between the pods' own addresses
 *
 * One connection per worker and server. A worker sends its hello; after the
 * server's welcome, the chunks of its gradients go up in order, the chunks of
 * the parameters come down in order, nothing else is on the wire. After its
 * last step the worker sends one byte, its goodbye.
 */
#ifndef BENCH_PS_OVERLAY_H
#define BENCH_PS_OVERLAY_H

#include <stdint.h>

#include "common/err.h"
#include "bench/ps_job.h"

#define PS_BYE 'b'

/* Where this server or worker listens; they share addresses with host. */
unsigned int ps_tcp_port(const struct ps_job *job, uint32_t rank);

/* Connect, tried again until timeout_s while nobody listens there. */
int ps_tcp_connect(const char *addr, unsigned int port, unsigned int timeout_s,
		   int *fd, struct pl_err *err);
/* Listen on addr, or on all addresses when it is NULL. */
int ps_tcp_listen(const char *addr, unsigned int port, int *fd,
		  struct pl_err *err);
/* -ETIMEDOUT after deadline_ns of CLOCK_MONOTONIC. */
int ps_tcp_accept(int listener, uint64_t deadline_ns, int *fd,
		  struct pl_err *err);

/* Limit of one read or write, for the greeting; 0: none. */
void ps_tcp_timeout(int fd, unsigned int seconds);

/*
 * All of it. ps_tcp_recv: -ECONNRESET also when the peer ended the stream.
 */
int ps_tcp_send(int fd, const void *data, size_t len);
int ps_tcp_recv(int fd, void *data, size_t len);

/* The other end's address as text. */
void ps_tcp_peer(int fd, char *buf, size_t size);

/*
 * What carries this connection by its two addresses: "overlay-tcp" between
 * two different ones of pods, "host-tcp" of nodes, "loopback-tcp" within one
 * namespace.
 */
const char *ps_tcp_path(const struct ps_job *job, int fd);

#endif
