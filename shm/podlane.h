/*
 * podlane.h - lanes and regions between pods
 *
 * A program in a pod that the podlane CNI plugin wired opens a connection to
 * its node's agent and then exchanges data with other pods over lanes (byte
 * streams, one ring a direction) and regions (memory that one pod writes and
 * others read in place). Whether the peer is on the same node is not visible
 * in these calls, except in the path that pl_lane_info and pl_region_info
 * report.
 *
 * Errors: calls return 0 or a positive result, a negative errno on failure.
 * Those off the data path also fill *err (may be NULL) with a line of text.
 *
 * Threads: different objects may be used by different threads. One lane may be
 * used by one sending and one receiving thread at a time; one region by one
 * publishing thread and any number of waiting threads. pl_conn calls are
 * serialised inside. Closing an object while another thread uses it is an
 * error of the caller.
 *
 * Ownership: each object is freed by its own close call, in any order; lanes
 * and regions must be closed before their connection. Close calls take NULL.
 *
 * Processes: descriptors are close-on-exec. A child of fork may go on with
 * lanes and regions, and its parent after it, one of the two at a time. What a
 * child closes only frees what the child has of it; it can't ask the agent for
 * anything (-EPERM), nor go on with another one. See podlane(7).
 *
 * Signals: SIGPIPE is never raised, and a handler that runs ends no wait.
 *
 * Needs libc only: link with -lpodlane.
 */
#ifndef PODLANE_H
#define PODLANE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef PL_ERR_DEFINED
#define PL_ERR_DEFINED
#define PL_ERR_MSG_BYTES 1024
struct pl_err {
	int code;			/* positive errno, 0: none */
	char msg[PL_ERR_MSG_BYTES];	/* one line, says what to do */
};
#endif

#define PL_NAME_BYTES 64	/* service and region names, with the NUL */
#define PL_ADDR_BYTES 48	/* a pod address as text, with the NUL */
#define PL_PATH_BYTES 16	/* "shm", "tcp+tls", "verbs", with the NUL */

#define PL_RING_DEFAULT (1u << 20)	/* bytes of a lane's ring, each way */
#define PL_RING_MIN (1u << 16)
#define PL_RING_MAX (1u << 30)

struct pl_conn;
struct pl_listener;
struct pl_lane;
struct pl_region;

/*
 * Connect to the agent of this pod, over the abstract Unix socket @podlane of
 * the caller's network namespace. -ECONNREFUSED: no agent serves this pod.
 * -EDQUOT: the pod has as many connections as it may. -EPROTO: the agent speaks
 * no version that this library knows. -ETIMEDOUT: it does not answer.
 */
int pl_open(struct pl_conn **out, struct pl_err *err);

/* Frees conn. The agent ends the listeners and regions that are left open. */
void pl_close(struct pl_conn *conn);

struct pl_conn_info {
	char node[PL_NAME_BYTES];	/* of the node; cut, if longer */
	char addr[PL_ADDR_BYTES];	/* this pod's first address */
};

/* What the agent said of this pod when the connection was opened. */
void pl_conn_info(const struct pl_conn *conn, struct pl_conn_info *info);

/* All of the node's name (up to 253 bytes); valid until pl_close. */
const char *pl_conn_node(const struct pl_conn *conn);

/* Options of a lane; NULL or a zeroed struct means the defaults. */
struct pl_lane_opts {
	uint32_t ring_bytes;	/* own ring, a power of two; 0: default */
	uint32_t flags;		/* PL_CHECKSUM; pl_listen: PL_ALLOW_ANY */
	int connect_timeout_ms;	/* 0: 10 s; -1: none */
};

/*
 * Flag of pl_listen and pl_region_create: pods of every Kubernetes namespace
 * may connect or open, not just those of the owner's namespace.
 */
#define PL_ALLOW_ANY 0x1u

/*
 * Flag of pl_connect and pl_listen: what this end sends over the lane has a
 * checksum (CRC32C), which the receiving library compares before it gives bytes
 * out, whatever is between the two. To have it both ways, both ends say so, or
 * the agents of both are configured to ("checksum").
 */
#define PL_CHECKSUM 0x2u

/*
 * Flag of pl_region_create: huge pages for all of it that fills them, which
 * makes large regions faster to read. Where the kernel has none left (or knows
 * no MADV_COLLAPSE: before Linux 6.1), small pages remain and the region works
 * as any other; err->msg then says so, with err->code 0, and pl_region_info how
 * much it is. Takes 0.1 to 4 ms for each MiB.
 */
#define PL_HUGE 0x4u

/*
 * Offer a service by name (1 to 63 bytes of [A-Za-z0-9._/:-]; a port number as
 * text is a name like any other). -EADDRINUSE: this pod offers it already.
 * -EDQUOT: the pod's quota is used up.
 */
int pl_listen(struct pl_conn *conn, const char *service,
	      const struct pl_lane_opts *opts, struct pl_listener **out,
	      struct pl_err *err);

/*
 * Take the next lane. timeout_ms -1 waits for ever, 0 does not wait; less is
 * -EINVAL, here and elsewhere. -ETIMEDOUT, or -ECONNRESET when the agent has
 * gone and no other has come. A peer that gave up just now leaves a lane that
 * has ended, with -ECONNRESET.
 */
int pl_accept(struct pl_listener *l, int timeout_ms, struct pl_lane **out,
	      struct pl_err *err);

/*
 * Readable when pl_accept would not wait (now and then for nothing). Stays the
 * listener's.
 */
int pl_listener_fd(const struct pl_listener *l);
void pl_unlisten(struct pl_listener *l);

/*
 * A lane to a service of the pod with this address. Returns when the peer has
 * accepted. -EHOSTUNREACH: no node has this pod; -ECONNREFUSED: nobody listens
 * there; -EACCES: policy forbids it; -ETIMEDOUT; -EDQUOT.
 */
int pl_connect(struct pl_conn *conn, const char *pod_addr, const char *service,
	       const struct pl_lane_opts *opts, struct pl_lane **out,
	       struct pl_err *err);

/*
 * Say that no more will be sent; the peer reads what is there and then 0. Own
 * receiving goes on. 0, also when it was said before; -EPROTO; -EBADMSG.
 */
int pl_lane_shutdown(struct pl_lane *lane);
/*
 * Also frees the lane. What was sent before still reaches the peer; when that
 * is on another node, the call waits until it is there, see podlane(7).
 */
void pl_lane_close(struct pl_lane *lane);

#define PL_DONTWAIT 0x1	/* -EAGAIN instead of waiting */
#define PL_WAITALL 0x2	/* pl_lane_recv(v): only return with all of it */
/* Each call refuses flags that it does not know: -EINVAL. */

/*
 * Copy bytes into the lane. Waits for space, and without PL_DONTWAIT sends all.
 * Returns the bytes sent. -EPIPE: the peer closed or died; -EPROTO: the peer
 * broke the rules of the lane; -EBADMSG: see pl_lane_recv; -ETIMEDOUT by
 * pl_lane_set_timeout. When some bytes were sent before an error, their number
 * is returned and the next call returns the error.
 */
ssize_t pl_lane_send(struct pl_lane *lane, const void *data, size_t len,
		     int flags);

/*
 * Copy bytes out. Waits until there is at least one byte (PL_WAITALL: all of
 * them, less only before the end or an error; PL_DONTWAIT wins over it).
 * 0: the peer ended the stream in good order. -ECONNRESET: the peer died and
 * everything it had sent was read. -EBADMSG: bytes arrived that are not those
 * that were sent (PL_CHECKSUM); the lane has ended. -EPROTO, -ETIMEDOUT, and
 * numbers before errors, as in pl_lane_send.
 */
ssize_t pl_lane_recv(struct pl_lane *lane, void *data, size_t len, int flags);

/*
 * The same from and into several buffers, in their order, as one stream: what
 * writev and readv are to write and read. Lengths of 0 are skipped. -EINVAL:
 * iovcnt below 0 or above IOV_MAX, or lengths that add up to more than
 * SSIZE_MAX; nothing is moved then.
 */
ssize_t pl_lane_sendv(struct pl_lane *lane, const struct iovec *iov, int iovcnt,
		      int flags);
ssize_t pl_lane_recvv(struct pl_lane *lane, const struct iovec *iov, int iovcnt,
		      int flags);

/*
 * In place: *ptr points to at least `want` contiguous writable bytes (waits
 * for them; want at most the ring's size, else -EINVAL; 0 is as 1); returns how
 * many there are. pl_lane_commit makes the first len of them visible to the
 * peer; more commits may follow for the rest, until the next reserve or send.
 * Errors as in pl_lane_send; -EINVAL: more than what was reserved.
 */
ssize_t pl_lane_reserve(struct pl_lane *lane, size_t want, void **ptr,
			int flags);
int pl_lane_commit(struct pl_lane *lane, size_t len);

/*
 * In place: *ptr points to what has arrived (waits for at least `want` bytes,
 * of which there are less only before the end of the stream or an error; 0 is
 * as 1); returns how many there are, or as pl_lane_recv. pl_lane_consume gives
 * the first len of them back (-EINVAL: there are not so many). The peer can't
 * change bytes that it committed unless it is hostile: copy before checking
 * what must not change. Two ends that each wait for more than half a ring, one
 * to write and one to read, can wait for each other for ever.
 */
ssize_t pl_lane_peek(struct pl_lane *lane, size_t want, const void **ptr,
		     int flags);
int pl_lane_consume(struct pl_lane *lane, size_t len);

/* Limit of every waiting call of this lane; -1 (the default) or less: none. */
void pl_lane_set_timeout(struct pl_lane *lane, int timeout_ms);

/*
 * Whether waiting calls of this lane may spin for some microseconds before they
 * sleep: 1 (the default), where that is likely to pay and CPUs are free; 0:
 * they never do.
 */
void pl_lane_set_spin(struct pl_lane *lane, int may_spin);

/*
 * A descriptor for poll and epoll, level-triggered: readable while bytes, the
 * end of the stream or an error can be read, also when only a part was read,
 * and when the peer died. Now and then it is readable for nothing: receiving
 * with PL_DONTWAIT clears that. It does not tell about space for sending: use
 * pl_lane_wait for that.
 *
 * Stays the lane's; it is an epoll descriptor over the doorbell and an event of
 * the lane's own, made at the first call. Lanes of which it is never asked do
 * not pay for it. Negative errno: no descriptors are left. Called by the
 * receiving thread.
 */
int pl_lane_fd(struct pl_lane *lane);

#define PL_IN 0x1
#define PL_OUT 0x2
/*
 * Wait until one of events holds; returns those that do. The end of the stream
 * counts as PL_IN, a peer that receives no more as PL_OUT, an error as both.
 * PL_IN is for the receiving thread, PL_OUT for the sending one. -ETIMEDOUT;
 * -EINVAL: no or unknown events.
 */
int pl_lane_wait(struct pl_lane *lane, int events, int timeout_ms);

struct pl_lane_info {
	uint64_t id;			/* the node's number for this lane */
	char path[PL_PATH_BYTES];	/* how the bytes travel */
	char peer[PL_ADDR_BYTES];	/* the peer pod's address */
	char service[PL_NAME_BYTES];
	uint32_t send_ring_bytes, recv_ring_bytes;
	uint64_t sent_bytes, received_bytes;
};
void pl_lane_info(const struct pl_lane *lane, struct pl_lane_info *info);

/*
 * A region of size bytes that this pod writes and other pods read. name is
 * unique within the pod (see pl_listen for its form). flags: PL_ALLOW_ANY,
 * PL_HUGE.
 * The memory is reserved at once and is zero: -ENOMEM when the machine, the
 * pod's memory limit or a limit of the process does not have it. -EEXIST,
 * -EDQUOT.
 */
int pl_region_create(struct pl_conn *conn, const char *name, size_t size,
		     uint32_t flags, struct pl_region **out,
		     struct pl_err *err);

/*
 * A region that may grow up to max_size bytes (size to 4 TiB), see
 * pl_region_grow. Its memory is that of size at first; max_size costs address
 * space only, in the owner and in each reader, and must be within what the pod
 * may share at all (-EDQUOT). Otherwise as pl_region_create. Where PL_HUGE is
 * given, what it grows by is in small pages.
 */
int pl_region_create_growing(struct pl_conn *conn, const char *name,
			     size_t size, size_t max_size, uint32_t flags,
			     struct pl_region **out, struct pl_err *err);

/*
 * Owner, the publishing thread: the region has size bytes from now on; what is
 * new is zero, and nothing moves. Readers get it with the next version that is
 * published: when pl_region_wait has returned for that, pl_region_size is at
 * least this size, and pl_region_data is what it was. A region may grow 31
 * times at least, in steps of any size, and never shrinks.
 * 0, also when it has this size already. -EINVAL: it is smaller, or beyond
 * max_size, or the region does not grow; -EDQUOT: beyond what the pod may share
 * at present; -ENOMEM: there is no such memory; -ENOSPC: it has grown too
 * often; -EPERM: it is another pod's, or came by fork; -EPROTO: the agent is of
 * a release that can't. Then the region is as before. -ETIMEDOUT: the agent
 * does not answer; try again.
 */
int pl_region_grow(struct pl_region *region, size_t size, struct pl_err *err);

/*
 * Map another pod's region read-only, waiting for it to exist up to timeout_ms
 * (-1: for ever; 0: ask once, which takes up to a second when the other node
 * does not answer). -ENOENT: still not there, when its node was last heard of;
 * -EACCES; -EHOSTUNREACH: no node has this pod, or its node can't be reached,
 * which is told after some seconds at most, or when time is up without any
 * answer.
 * What was published so far is readable once pl_region_wait has returned for
 * that version.
 */
int pl_region_open(struct pl_conn *conn, const char *pod_addr,
		   const char *name, int timeout_ms, struct pl_region **out,
		   struct pl_err *err);

/* Unmaps and frees. The owner's close ends the region for its readers. */
void pl_region_close(struct pl_region *region);

/* Writable in the owner, read-only (by the MMU) in readers. */
void *pl_region_data(const struct pl_region *region);
/* What can be read here; grows in pl_region_wait, if the region does. */
size_t pl_region_size(const struct pl_region *region);

/*
 * Owner: make [offset, offset + len) visible to all readers and move the
 * version by one; *version (may be NULL) gets the new one. A reader that sees
 * this version sees these bytes. The owner must not overwrite a range that
 * readers may still be reading: agree on that, over a lane or by versions of a
 * region of theirs. len 0 moves the version only. -EINVAL: out of bounds.
 */
int pl_region_publish(struct pl_region *region, size_t offset, size_t len,
		      uint64_t *version);

/* The newest version whose bytes are readable here. Starts at 0. */
uint64_t pl_region_version(const struct pl_region *region);

/*
 * Sleep until pl_region_version is at least version. timeout_ms -1: for ever.
 * -ETIMEDOUT; -ECONNRESET: the owner closed it or died, and this version will
 * not come (what is mapped stays readable until pl_region_close); -EPROTO: the
 * owner broke the rules. The end of the agent ends no wait, unless no other
 * comes.
 * Of a region that grows, a version is there when what the region had grown by
 * is there, too. -EDQUOT: it has grown beyond what this pod may have;
 * -ENOMEM: there is no memory for it; -EPERM: it has grown since this process
 * came about by fork. What was there before stays readable, and the next call
 * tries again.
 */
int pl_region_wait(struct pl_region *region, uint64_t version, int timeout_ms);

struct pl_region_info {
	char path[PL_PATH_BYTES];	/* "shm", or the carrier of the replica */
	char owner[PL_ADDR_BYTES];	/* the owner pod's address */
	char name[PL_NAME_BYTES];
	size_t size;
	uint64_t version;
	size_t huge_bytes;	/* owner: of it, in huge pages by PL_HUGE */
	size_t max_size;	/* that it may grow to */
};
void pl_region_info(const struct pl_region *region,
		    struct pl_region_info *info);

#ifdef __cplusplus
}
#endif

#endif
