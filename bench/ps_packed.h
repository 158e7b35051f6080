/*
 * bench/ps_packed.h - exchange of compressed gradients, and training
 *
 * What differs from the other strategies: a gradient is one message of
 * compress.h whose length is not known before, and parameters are never sent.
 * Every worker keeps them and applies the sum of the gradients, so they are the
 * same everywhere.
 *
 *   parameter_server   one server takes the workers' messages in the order of
 *                      their ranks, combines them, and sends the result to all
 *   ring               messages go around until every worker has all of them,
 *                      n - 1 of each; each combines them for itself
 *
 * Both give the same sums to the bit. A message travels as its length, a
 * checksum of its bytes (both 64 bits) and its bytes. The byte PS_BYE from each
 * worker ends a job.
 */
#ifndef BENCH_PS_PACKED_H
#define BENCH_PS_PACKED_H

#include "common/err.h"
#include "bench/compress.h"
#include "bench/ps_job.h"
#include "bench/ps_link.h"

/* Of the codec of the job's model and options; the caller's to destroy. */
int ps_packed_codec(const struct ps_job *job, struct codec **out,
		    struct pl_err *err);

/* One message; buf has room for `room` bytes. -EBADMSG: not what was sent. */
int ps_packed_send(struct ps_link *link, const void *buf, size_t len);
int ps_packed_recv(struct ps_link *link, void *buf, size_t room,
		   size_t *len);

#endif
