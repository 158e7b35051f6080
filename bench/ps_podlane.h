/*
 * bench/ps_podlane.h - gradients and parameters in regions
 *
 * Each worker owns a region with its gradients for each server, each server one
 * with its share of the parameters: what is published travels to every node
 * that reads the region, so nothing is in it but what is read there. A lane
 * between worker and server carries the hello, the welcome, then nothing until
 * the worker's goodbye (one byte); a server that fails says why in another
 * welcome message with a code. The versions of the regions are the
 * synchronisation:
 *
 *   gradients    the worker publishes the server's i-th chunk of step s as
 *                version s * own chunks + i + 1
 *   parameters   the server publishes its i-th chunk after step s as version
 *                s * own chunks + i + 1, when all workers' gradients for it
 *                were there and the update is done
 *
 * A worker fills the next step when all servers published their last chunk of
 * this one. So gradients are not overwritten before they were read; and since a
 * server needs every worker's gradients of the next step before it touches
 * parameters again, those are not overwritten before every node has them.
 *
 * Where a server is on another node, one worker per node can sum: its
 * neighbours' regions are read as a co-located server would read them, and
 * their sums go into its own region, which is the only one that the server
 * opens. The others say in their hello to this server that they carry nothing.
 *
 * In an asynchronous job the server applies each gradient as it comes and
 * publishes after each; after each step of a worker it sends it a welcome
 * message with code 0. The last version is workers * steps * own chunks. Before
 * the gradients of a step, the worker publishes the version of the parameters
 * that it starts from, a word behind the gradients: one version more per step.
 */
#ifndef BENCH_PS_PODLANE_H
#define BENCH_PS_PODLANE_H

#include <stdint.h>

#include "common/err.h"
#include "shm/podlane.h"
#include "bench/ps_job.h"

#define PS_SLICE_MS 200		/* between two looks at the lanes */
#define PS_BYE_TIMEOUT_MS 120000

/* Names of service and regions; size bytes of buf, PL_NAME_BYTES will do. */
void ps_name_service(const struct ps_job *job, uint32_t server, char *buf,
		     size_t size);
void ps_name_worker(const struct ps_job *job, uint32_t rank, char *buf,
		    size_t size);
void ps_name_grads(const struct ps_job *job, uint32_t server, char *buf,
		   size_t size);
void ps_name_params(const struct ps_job *job, uint32_t server, char *buf,
		    size_t size);

/* Bytes of the region of gradients for a server; where its base version is. */
size_t ps_grads_bytes(const struct ps_job *job, uint32_t server);
size_t ps_grads_base_at(const struct ps_job *job, uint32_t server);
/* Its version before the first chunk of a step; + i + 1: chunk i is there. */
uint64_t ps_grads_version(const struct ps_job *job, uint32_t server,
			  uint32_t step);

/*
 * Whether something came over the lane that nobody waits for: its end, or a
 * message of a server. 0: nothing; -ECONNRESET: the peer has gone; else the
 * error that the peer sent, in err.
 */
int ps_lane_look(struct pl_lane *lane, struct pl_err *err);

/* Tried again until timeout_s, while the pod or the service is not there. */
int ps_lane_connect(struct pl_conn *conn, const char *addr,
		    const char *service, const struct pl_lane_opts *opts,
		    unsigned int timeout_s, struct pl_lane **lane,
		    struct pl_err *err);

/* All len bytes; 0 or -errno (-ECONNRESET also for an orderly end). */
int ps_lane_read(struct pl_lane *lane, void *data, size_t len);
int ps_lane_write(struct pl_lane *lane, const void *data, size_t len);

#endif
