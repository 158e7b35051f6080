/*
 * daemonset/broker.h - lanes and regions of the pods of this node
 *
 * Theory of operation
 *
 * The broker acts for clients (client.h): connections of pods' libraries, each
 * known to be of one pod because that pod's namespace is where it connected.
 * It finds the listener or region that a client asks for, checks policy (pods
 * of one Kubernetes namespace may reach each other, others only where the
 * owner said PL_ALLOW_ANY) and quotas, checks the segment that came along, and
 * passes descriptors. Then bytes flow without it. What it keeps of a lane is a
 * read-only map of the control page of each end, for statistics.
 *
 * An address of another node goes to the remote part; see remote.h for how the
 * two work together.
 *
 * All functions run on the event loop's thread and never block.
 */
#ifndef DAEMONSET_BROKER_H
#define DAEMONSET_BROKER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/inet.h"
#include "shm/layout.h"

struct pl_broker;

/* --- for the remote part ------------------------------------------------- */

struct pl_broker_incoming {
	struct pl_addr dst, src;	/* pods; dst is of this node */
	const char *src_ns;		/* Kubernetes namespace of src, or "" */
	const char *service;
	int replica_fd;			/* of src's segment, sealed */
	int bell_fd;			/* dst's end of its doorbell */
	uint32_t ring_bytes;		/* of the replica */
	int timeout_ms;			/* -1: none */
	const char *path;		/* "tcp" */
	const uint8_t *uid;		/* of the lane, PL_WIRE_UID bytes */
};

/* seg_fd: of the accepting pod, checked; borrowed, -1 when status is not 0. */
typedef void pl_broker_incoming_done(void *arg, int status, const char *text,
				     int seg_fd, uint32_t ring_bytes);

/*
 * A pod of another node wants a lane. Everything in it came from the network:
 * it is checked here. Returns 0 with the lane's id, and whether the pod here
 * can go on with another agent; then done runs later, once (-ECONNREFUSED,
 * -ETIMEDOUT, or 0 when it was accepted). Or -errno and done never runs:
 * -EHOSTUNREACH, -ECONNREFUSED, -EACCES, -EDQUOT; -EAGAIN: it may listen in a
 * moment. The broker keeps duplicates of what it needs of the descriptors.
 */
int pl_broker_incoming(struct pl_broker *b, const struct pl_broker_incoming *in,
		       pl_broker_incoming_done *done, void *arg, uint64_t *id,
		       bool *resumes, struct pl_err *err);

/*
 * Another node speaks of a lane of the pod with this address, and the remote
 * part does not know it. May the pod still show it?
 */
bool pl_broker_may_show(struct pl_broker *b, const struct pl_addr *pod);

/*
 * A lane that pl_broker_incoming or pl_remote_connect made has ended at the
 * other node; the pod has been told through its replica. Before done: cancels.
 */
void pl_broker_lane_ended(struct pl_broker *b, uint64_t id);

/* What a region has grown by, checked; behind the data of its segments. */
struct pl_broker_part {
	int fd;
	uint64_t offset, bytes;
};

/*
 * The pod of this node whose lane or region has this id broke a rule: it is
 * named in the log.
 */
void pl_broker_broke(struct pl_broker *b, uint64_t id, const char *rule);

struct pl_broker_region {
	uint64_t id;
	const uint8_t *uid;
	int fd;				/* the owner's segment, checked */
	uint64_t size;			/* bytes of data at first */
	uint64_t size_now, max_size;	/* by now; that it may grow to */
	const struct pl_broker_part *parts;
	unsigned int n_parts;
	int bell_fd;			/* readable: a publish was rung */
	struct pl_region_watch *watch;	/* ours to write */
};

/*
 * A pod of another node wants to read a region of this one. All that *out has
 * is the broker's and valid until pl_remote_region_gone(id); nobody else
 * reads bell_fd or writes watch. Asked anew for each reader, as policy is by
 * the reader's Kubernetes namespace. -EHOSTUNREACH, -ENOENT, -EACCES; -EAGAIN:
 * its owner may show it in a moment.
 */
int pl_broker_region_lookup(struct pl_broker *b, const struct pl_addr *owner,
			    const char *name, const char *reader_ns,
			    struct pl_broker_region *out, struct pl_err *err);

/* Has this node a pod of this address? */
bool pl_broker_has_pod(struct pl_broker *b, const struct pl_addr *addr);

/* The owner of a region that was opened with this id ended it. */
void pl_broker_region_ended(struct pl_broker *b, uint64_t id);

#endif
