/*
 * rdma/verbs_calls.h - the calls of libibverbs and librdmacm that we make
 *
 * The libraries have four conventions for errors; behind this table there is
 * one: 0 (or a number) or -errno, output last. The table also lets a fake stand
 * in for hardware. All calls are made on one thread; none of them waits for a
 * peer.
 */
#ifndef RDMA_VERBS_CALLS_H
#define RDMA_VERBS_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "rdma/devices.h"

struct pl_verbs_calls {
	/* --- connections --- */
	int (*events_open)(struct rdma_event_channel **out);
	void (*events_close)(struct rdma_event_channel *ch);
	/* -EAGAIN: there is none; does not block. To be acknowledged. */
	int (*event_get)(struct rdma_event_channel *ch,
			 struct rdma_cm_event **out);
	void (*event_ack)(struct rdma_cm_event *ev);
	int (*id_open)(struct rdma_event_channel *ch, void *user,
		       struct rdma_cm_id **out);
	/* All of its events must have been acknowledged. */
	void (*id_close)(struct rdma_cm_id *id);
	int (*bind)(struct rdma_cm_id *id, struct sockaddr *sa);
	int (*listen)(struct rdma_cm_id *id, int backlog);
	uint16_t (*port)(struct rdma_cm_id *id);
	int (*resolve_addr)(struct rdma_cm_id *id, struct sockaddr *src,
			    struct sockaddr *dst, int timeout_ms);
	int (*resolve_route)(struct rdma_cm_id *id, int timeout_ms);
	/* Of local acknowledgements: 4.096 us << exponent. */
	int (*ack_timeout)(struct rdma_cm_id *id, uint8_t exponent);
	int (*connect)(struct rdma_cm_id *id, struct rdma_conn_param *param);
	int (*accept)(struct rdma_cm_id *id, struct rdma_conn_param *param);
	int (*reject)(struct rdma_cm_id *id);
	int (*disconnect)(struct rdma_cm_id *id);
	int (*qp_create)(struct rdma_cm_id *id, struct ibv_pd *pd,
			 struct ibv_qp_init_attr *attr);
	void (*qp_destroy)(struct rdma_cm_id *id);

	/* --- devices --- */
	/* Whether there is any: the libraries say so loudly when not. */
	bool (*there)(void);
	/* As pl_rdma_gids. */
	size_t (*gids)(struct pl_rdma_gid *out, size_t max);
	int (*device_query)(struct ibv_context *ctx,
			    struct ibv_device_attr *out);
	/* Or unknown. */
	bool (*port_active)(struct ibv_context *ctx, uint8_t port);
	const char *(*device_name)(struct ibv_context *ctx);
	/* -EAGAIN: there is none; does not block. */
	int (*async_get)(struct ibv_context *ctx, struct ibv_async_event *out);
	void (*async_ack)(struct ibv_async_event *ev);
	/* It was removed, and nothing of ours is left: let the kernel go on. */
	void (*device_abandon)(struct ibv_context *ctx);
	int (*pd_alloc)(struct ibv_context *ctx, struct ibv_pd **out);
	void (*pd_free)(struct ibv_pd *pd);
	int (*mr_reg)(struct ibv_pd *pd, void *map, size_t len, int access,
		      struct ibv_mr **out);
	void (*mr_dereg)(struct ibv_mr *mr);

	/* --- completions and receive buffers --- */
	int (*channel_open)(struct ibv_context *ctx,
			    struct ibv_comp_channel **out);
	void (*channel_close)(struct ibv_comp_channel *ch);
	/* Takes one event: of the queue of this user. -EAGAIN: no more. */
	int (*channel_next)(struct ibv_comp_channel *ch, void **user);
	int (*cq_open)(struct ibv_context *ctx, int entries, void *user,
		       struct ibv_comp_channel *ch, struct ibv_cq **out);
	void (*cq_close)(struct ibv_cq *cq);
	int (*cq_poll)(struct ibv_cq *cq, int n, struct ibv_wc *out);
	int (*cq_arm)(struct ibv_cq *cq);
	int (*srq_open)(struct ibv_pd *pd, uint32_t entries,
			struct ibv_srq **out);
	void (*srq_close)(struct ibv_srq *srq);
	int (*srq_post)(struct ibv_srq *srq, struct ibv_recv_wr *wr);

	/* All of the chain, or -errno: then nothing can be said of it. */
	int (*send)(struct ibv_qp *qp, struct ibv_send_wr *wr);
};

/* The libraries. */
extern const struct pl_verbs_calls pl_verbs_real;

#endif
