/* tests/unit/verbs_fake_state.h - what verbs_fake.h is made of */
#ifndef TESTS_VERBS_FAKE_STATE_H
#define TESTS_VERBS_FAKE_STATE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/util.h"
#include "rdma/verbs_calls.h"

enum fake_call {
	FAKE_EVENTS_OPEN, FAKE_ID_OPEN, FAKE_BIND, FAKE_LISTEN,
	FAKE_RESOLVE_ADDR, FAKE_RESOLVE_ROUTE, FAKE_CONNECT, FAKE_ACCEPT,
	FAKE_QP_CREATE, FAKE_QUERY, FAKE_PD, FAKE_MR, FAKE_CHANNEL, FAKE_CQ,
	FAKE_POLL, FAKE_ARM, FAKE_SRQ, FAKE_SRQ_POST, FAKE_SEND, FAKE_CALLS,
};

struct fake_event {
	struct rdma_cm_event ev;
	struct fake_event *next;
	uint8_t data[64];
};

struct fake_channel {
	struct rdma_event_channel ch;
	struct fake_event *events;
};

struct fake_wr {
	struct fake_wr *next;
	struct ibv_send_wr wr;
	uint64_t addr;			/* of what is not inline */
	uint32_t lkey, len;
	uint8_t *data;			/* as it was when it was posted */
};

struct fake_cq {
	struct ibv_cq cq;
	struct ibv_wc *wc;
	unsigned int n, users;
	bool armed, event;
	struct fake_cq *next;
};

struct fake_recv {
	struct fake_recv *next;
	uint64_t id;
	struct ibv_sge sge;
};

struct fake_srq {
	struct ibv_srq srq;
	struct fake_recv *recv;
	unsigned int users;
};

struct fake_qp {
	struct ibv_qp qp;
	struct fake_qp *next, *peer;
	struct fake_wr *wrs;
	unsigned int depth, n;		/* posted, whose room is taken */
	unsigned int unsignalled;
	uint32_t inline_max;
	bool error;
};

struct fake_id {
	struct rdma_cm_id id;
	struct fake_id *next, *peer;
	uint16_t port, to;
	bool listens, connected;
};

struct fake_mr {
	struct ibv_mr mr;
	struct fake_mr *next;
	int access;
};

struct fake_pd {
	struct ibv_pd pd;
	unsigned int users;
};

static struct fake {
	struct event_base *base;
	struct event *ev_run;
	struct ibv_context ctx;
	struct ibv_device device;
	bool there, backwards;
	bool others;			/* fake1 is there, at 127.0.0.2 */
	bool port_down;			/* no id may be closed */
	uint64_t down_ns;		/* since when */
	const void *read_only;		/* memory that can't be registered */
	uint16_t last_port;
	uint32_t last_key, last_qp;
	unsigned int hold, late;	/* runs to stand still; to be late */
	uint32_t inline_max;
	int max_qp;
	size_t memlock;			/* bytes that that can be; 0: all */
	size_t locked;
	unsigned int calls[FAKE_CALLS];
	unsigned int fail_at[FAKE_CALLS];
	int fail_with[FAKE_CALLS];
	unsigned int wrs, wr_error_at;
	enum ibv_wc_status wr_error;
	struct fake_id *ids;
	struct fake_qp *qps;
	struct fake_mr *mrs;
	struct fake_cq *cqs;
	unsigned int abandoned;
	bool event_there;		/* in event */
	struct ibv_async_event event;
	unsigned int n_qps, n_mrs, n_pds, n_srqs, n_channels, n_comp;
} fk;

/* The Nth call from now on, and no other, fails. */
static inline void fake_fail(enum fake_call call, unsigned int nth, int error)
{
	fk.calls[call] = 0;
	fk.fail_at[call] = nth;
	fk.fail_with[call] = error;
}

static inline int fake_fails(enum fake_call call)
{
	return ++fk.calls[call] == fk.fail_at[call] ? -fk.fail_with[call] : 0;
}

static inline void *fake_alloc(size_t size)
{
	void *p = calloc(1, size);

	assert_non_null(p);
	return p;
}

static inline void fake_signal(int fd)
{
	uint64_t one = 1;

	assert_int_equal(write(fd, &one, 8), 8);
}

static inline void fake_unsignal(int fd)
{
	uint64_t n;

	(void)!read(fd, &n, 8);
}

static inline void fake_schedule(void)
{
	struct timeval now = { 0, 0 };

	if (fk.ev_run)
		event_add(fk.ev_run, &now);
}

#endif
