/*
 * shm/layout.h - layouts of shared memory, version 1
 *
 * Theory of operation
 *
 * A segment is a memfd that one party writes. It starts with a control block
 * of PL_SEG_CTL_BYTES, of which each cache line (64 bytes) has one kind of
 * traffic, and goes on with data at PL_SEG_CTL_BYTES. The owner maps it read-
 * write, then seals it with PL_SEG_SEALS; whoever gets it from a pod checks
 * the seals, the size, and this header (once, on a private copy) before the
 * first use.
 *
 * Lane. Party A owns segment S_A: the ring A -> B, A's head (bytes ever
 * written to that ring), A's tail (bytes ever consumed from the ring B -> A in
 * S_B), its state and its wait words. B sees S_A read-only (or, across nodes,
 * a replica that B's agent writes at the same offsets).
 *
 *   head, state  release stores by the owner after ring data;
 *   sum          likewise, before head (sum.h);
 *   tail         release store after the bytes were read;
 *   readers      acquire loads, then 0 <= head - tail <= ring_bytes is checked.
 *
 * Wake-ups (Dekker): the sleeper stores a fresh nonzero number to its wait
 * word (rx_wait for data or end, tx_wait for space), issues a seq_cst fence,
 * looks again, then polls its doorbell. The waker stores head (or tail, or
 * state), issues a seq_cst fence, loads the wait word; if nonzero and not the
 * number it rang for last, it writes one byte to the doorbell (never waiting:
 * a full socket already holds a wake-up). The sleeper stores 0 when it is
 * awake.
 *
 * Across nodes. Agents replicate the counters block (PL_LANE_COUNTERS_OFF,
 * PL_LANE_COUNTERS_BYTES: head, state and tail lines) and the ring. Wait words
 * are local to a hop: in a pod's own segment the pod writes them for its
 * agent, in the replica the agent writes them for its pod.
 *
 * Statistics (tx_count and rx_count). The owner's sending and its receiving
 * thread each have a line that nobody else writes, with plain stores; nothing
 * depends on what stands there, and whoever reads it bears in mind that a pod
 * wrote it. A replica has the agent's own instead (carry); how often the owner
 * has published comes with the counters (carried_sends). Likewise each has its
 * tx_wake and rx_wake, of which the peer reads when it was rung for last
 * (wake.h); in a replica the agent stores only that.
 *
 * Versions. What has been added to a lane's control block since version 1 is in
 * places that were zero and that nobody looked at, so that libraries and agents
 * of either age read each other's segments; `additions` says what the owner
 * fills in.
 *
 * Region. The owner writes data, then log[version % PL_REGION_LOG] = range,
 * then version = version + 1 (release). Sleepers FUTEX_WAIT on the low 32 bits
 * of version (a read-only mapping suffices, FUTEX_WAIT is not private); the
 * owner FUTEX_WAKEs. The agent follows the log to know what to replicate; when
 * it falls behind by PL_REGION_LOG or more it sends everything. In a replica
 * the agent writes version (after the bytes) and state; the log is unused.
 *
 * A region that grows has more segments, of data only, which follow the first
 * one's file. `grown` is how many bytes of data it has by now, stored before
 * the version with which they matter (in a replica, too: before version, by its
 * place); a reader gets the missing segments from its agent, at most up to what
 * was said when it opened the region. A replica grows when a reader asks, and
 * `filled` says how much of it has come; up to there, version holds.
 *
 * The agent's wish to be woken at a publish is in a segment of one page per
 * region that the agent writes and the owner reads: struct pl_region_watch.
 * The bell is the region's socket pair.
 */
#ifndef SHM_LAYOUT_H
#define SHM_LAYOUT_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
/* Debian 12's libc header has no name for it (Linux 6.3). */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#define PL_SEG_SEALS \
	(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)

#define PL_CACHELINE 64
/* Largest page size of the supported machines: data can be mapped twice. */
#define PL_SEG_CTL_BYTES 65536u

#define PL_LANE_MAGIC 0x314e414c2d4c50ull	/* "PL-LAN1" */
#define PL_REGION_MAGIC 0x314745522d4c50ull	/* "PL-REG1" */
#define PL_WATCH_MAGIC 0x315441572d4c50ull	/* "PL-WAT1" */
#define PL_LAYOUT_VERSION 1u

/* state of a lane's owner; only ever moves up */
enum {
	PL_STATE_OPEN = 0,
	PL_STATE_SHUT = 1,	/* head is final, still receiving */
	PL_STATE_CLOSED = 2,	/* head is final, nobody receives any more */
	PL_STATE_DEAD = 3,	/* agents only: the owner died, head is final */
};

/* What one thread did with its direction of a lane; only ever moves up. */
struct pl_lane_count {
	_Atomic uint64_t calls;		/* bytes published, or given back */
	_Atomic uint64_t rings;		/* the doorbell, for that */
	_Atomic uint64_t waits;		/* for space, or for bytes */
	_Atomic uint64_t sleeps;	/* on the doorbell, in those */
	_Atomic uint64_t wait_ns;	/* all of them */
	_Atomic uint64_t refusals;	/* -EAGAIN, -ETIMEDOUT */
	_Atomic uint64_t errors;	/* any other */
	_Atomic uint64_t bad_sums;	/* received bytes that had changed */
};
_Static_assert(sizeof(struct pl_lane_count) == PL_CACHELINE, "layout");

/* What an agent did for a lane to another node since it has this replica. */
struct pl_lane_carry {
	_Atomic uint64_t puts;		/* to the other node: of the ring, */
	_Atomic uint64_t put_bytes;
	_Atomic uint64_t again_bytes;	/* of them, a second time or more */
	_Atomic uint64_t counter_puts;	/* and of counters */
	_Atomic uint64_t notifies;	/* puts of counters from there */
	_Atomic uint64_t rings;		/* the pod's doorbell, by the agent */
	_Atomic uint64_t rung;		/* the agent's, by the pod */
	_Atomic uint64_t resumes;	/* after a loss */
};
_Static_assert(sizeof(struct pl_lane_carry) == PL_CACHELINE, "layout");

#define PL_WAKE_BUCKETS 14

/* What woke the peer, and how fast the owner's thread woke up; see wake.h. */
struct pl_lane_wake {
	_Atomic uint64_t rung_ns;	/* CLOCK_MONOTONIC */
	_Atomic uint64_t ns;		/* all of the thread's own wake-ups */
	_Atomic uint64_t n[PL_WAKE_BUCKETS];
};
_Static_assert(sizeof(struct pl_lane_wake) == 2 * PL_CACHELINE, "layout");

/* additions */
#define PL_LANE_COUNTS 0x1u		/* tx_count and rx_count */
#define PL_LANE_CARRY 0x2u		/* carry, carried_sends */
#define PL_LANE_WAKES 0x4u		/* tx_wake and rx_wake, all of them */

struct pl_lane_seg {
	/* line 0: written before it is handed out, constant then */
	uint64_t magic;
	uint32_t version;
	uint32_t ring_bytes;		/* power of two */
	uint32_t additions;		/* PL_LANE_COUNTS ... */
	uint8_t pad0[44];
	/* line 1 */
	_Atomic uint64_t head;
	_Atomic uint64_t state;
	_Atomic uint64_t carried_sends;	/* in a replica: the owner's tx calls */
	_Atomic uint64_t sum;		/* see sum.h; 0: no checksums */
	uint8_t pad1[32];
	/* line 2 */
	_Atomic uint64_t tail;
	_Atomic uint64_t rx_sum;	/* the owner's own, see lane_fork.c */
	uint8_t pad2[48];
	/* line 3: local to a hop */
	_Atomic uint32_t rx_wait;
	_Atomic uint32_t tx_wait;
	_Atomic uint32_t rx_wait_no;	/* the owner's own: the last ones */
	_Atomic uint32_t tx_wait_no;	/* that were not 0 */
	uint8_t pad3[48];
	/* lines 4 and 5 */
	union {
		struct pl_lane_count tx_count;	/* the sending thread's */
		struct pl_lane_carry carry;	/* a replica's */
	};
	struct pl_lane_count rx_count;	/* the receiving thread's */
	/* lines 6 to 9 */
	struct pl_lane_wake tx_wake;
	struct pl_lane_wake rx_wake;
};
_Static_assert(offsetof(struct pl_lane_seg, ring_bytes) == 12, "layout");
_Static_assert(offsetof(struct pl_lane_seg, additions) == 16, "layout");
_Static_assert(offsetof(struct pl_lane_seg, head) == 64, "layout");
_Static_assert(offsetof(struct pl_lane_seg, state) == 72, "layout");
_Static_assert(offsetof(struct pl_lane_seg, carried_sends) == 80, "layout");
_Static_assert(offsetof(struct pl_lane_seg, sum) == 88, "layout");
_Static_assert(offsetof(struct pl_lane_seg, tail) == 128, "layout");
_Static_assert(offsetof(struct pl_lane_seg, rx_sum) == 136, "layout");
_Static_assert(offsetof(struct pl_lane_seg, rx_wait) == 192, "layout");
_Static_assert(offsetof(struct pl_lane_seg, tx_wait) == 196, "layout");
_Static_assert(offsetof(struct pl_lane_seg, rx_wait_no) == 200, "layout");
_Static_assert(offsetof(struct pl_lane_seg, tx_wait_no) == 204, "layout");
_Static_assert(offsetof(struct pl_lane_seg, tx_count) == 256, "layout");
_Static_assert(offsetof(struct pl_lane_seg, rx_count) == 320, "layout");
_Static_assert(offsetof(struct pl_lane_seg, tx_wake) == 384, "layout");
_Static_assert(offsetof(struct pl_lane_seg, rx_wake) == 512, "layout");
_Static_assert(sizeof(struct pl_lane_seg) == 640, "layout");

/* What agents replicate of the control block: lines 1 and 2. */
#define PL_LANE_COUNTERS_OFF 64u
#define PL_LANE_COUNTERS_BYTES 72u

#define PL_REGION_LOG 2048u

struct pl_region_range {
	_Atomic uint64_t offset;
	_Atomic uint64_t len;
};

struct pl_region_seg {
	/* line 0: constant, but for its end */
	uint64_t magic;
	uint32_t version_layout;
	uint32_t log_entries;		/* PL_REGION_LOG */
	uint64_t size;			/* bytes of data of this segment */
	uint8_t pad0[24];
	_Atomic uint64_t grown;		/* bytes of data by now; 0: size */
	_Atomic uint64_t filled;	/* replica: of them there; 0: size */
	/* line 1 */
	_Atomic uint64_t version;
	_Atomic uint64_t state;		/* PL_STATE_OPEN, _CLOSED, _DEAD */
	uint8_t pad1[48];
	struct pl_region_range log[PL_REGION_LOG];
};
_Static_assert(offsetof(struct pl_region_seg, size) == 16, "layout");
_Static_assert(offsetof(struct pl_region_seg, grown) == 48, "layout");
_Static_assert(offsetof(struct pl_region_seg, filled) == 56, "layout");
_Static_assert(offsetof(struct pl_region_seg, version) == 64, "layout");
_Static_assert(offsetof(struct pl_region_seg, state) == 72, "layout");
_Static_assert(offsetof(struct pl_region_seg, log) == 128, "layout");
_Static_assert(sizeof(struct pl_region_seg) <= PL_SEG_CTL_BYTES, "layout");

/* What agents put after the data of a region: grown to state, in this order. */
#define PL_REGION_COUNTERS_OFF 48u
#define PL_REGION_COUNTERS_BYTES 32u

/* Segments of one region at most. */
#define PL_REGION_PARTS 32

/* Written by the agent, read by the region's owner. */
struct pl_region_watch {
	uint64_t magic;
	uint32_t version_layout;
	_Atomic uint32_t wait;	/* nonzero: ring the bell at a publish */
	uint8_t pad[48];
};
_Static_assert(offsetof(struct pl_region_watch, wait) == 12, "layout");
_Static_assert(sizeof(struct pl_region_watch) == 64, "layout");
#define PL_WATCH_BYTES 4096u

#endif
