/* rdma/verbs_calls.c - libibverbs and librdmacm, with one kind of errors */
#include "rdma/verbs_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

/* librdmacm: -1 and errno. A few of its paths leave errno alone. */
static int cm(int rc)
{
	if (rc >= 0)
		return 0;
	return errno ? -errno : -EIO;
}

/* libibverbs, calls that return a pointer: NULL and errno. */
static int made(const void *p)
{
	if (p)
		return 0;
	return errno ? -errno : -EIO;
}

/* libibverbs, calls that return an int: errno, or -1 and errno. */
static int plain(int rc)
{
	if (rc == 0)
		return 0;
	if (rc > 0)
		return -rc;
	return errno ? -errno : -EIO;
}

static int set_nonblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ?
		       -errno : 0;
}

/* --- which devices ------------------------------------------------------- */

static bool there(void)
{
	return pl_rdma_there(PL_RDMA_DEVICES);
}

static size_t gids(struct pl_rdma_gid *out, size_t max)
{
	return pl_rdma_gids(PL_RDMA_DEVICES, out, max);
}

/* --- connections --------------------------------------------------------- */

static int events_open(struct rdma_event_channel **out)
{
	int rc;

	errno = 0;
	*out = rdma_create_event_channel();
	rc = made(*out);
	if (rc == 0)
		rc = set_nonblock((*out)->fd);
	return rc;
}

static void events_close(struct rdma_event_channel *ch)
{
	rdma_destroy_event_channel(ch);
}

static int event_get(struct rdma_event_channel *ch, struct rdma_cm_event **out)
{
	errno = 0;
	return cm(rdma_get_cm_event(ch, out));
}

static void event_ack(struct rdma_cm_event *ev)
{
	rdma_ack_cm_event(ev);
}

static int id_open(struct rdma_event_channel *ch, void *user,
		   struct rdma_cm_id **out)
{
	errno = 0;
	return cm(rdma_create_id(ch, out, user, RDMA_PS_TCP));
}

static void id_close(struct rdma_cm_id *id)
{
	rdma_destroy_id(id);
}

static int bind_id(struct rdma_cm_id *id, struct sockaddr *sa)
{
	errno = 0;
	return cm(rdma_bind_addr(id, sa));
}

static int listen_id(struct rdma_cm_id *id, int backlog)
{
	errno = 0;
	return cm(rdma_listen(id, backlog));
}

static uint16_t port(struct rdma_cm_id *id)
{
	return ntohs(rdma_get_src_port(id));
}

static int resolve_addr(struct rdma_cm_id *id, struct sockaddr *src,
			struct sockaddr *dst, int timeout_ms)
{
	errno = 0;
	return cm(rdma_resolve_addr(id, src, dst, timeout_ms));
}

static int resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	errno = 0;
	return cm(rdma_resolve_route(id, timeout_ms));
}

static int ack_timeout(struct rdma_cm_id *id, uint8_t exponent)
{
	errno = 0;
	return cm(rdma_set_option(id, RDMA_OPTION_ID,
				  RDMA_OPTION_ID_ACK_TIMEOUT, &exponent,
				  sizeof(exponent)));
}

static int connect_id(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	errno = 0;
	return cm(rdma_connect(id, param));
}

static int accept_id(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	errno = 0;
	return cm(rdma_accept(id, param));
}

static int reject_id(struct rdma_cm_id *id)
{
	errno = 0;
	return cm(rdma_reject(id, NULL, 0));
}

static int disconnect_id(struct rdma_cm_id *id)
{
	errno = 0;
	return cm(rdma_disconnect(id));
}

static int qp_create(struct rdma_cm_id *id, struct ibv_pd *pd,
		     struct ibv_qp_init_attr *attr)
{
	errno = 0;
	return cm(rdma_create_qp(id, pd, attr));
}

static void qp_destroy(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
}

/* --- devices ------------------------------------------------------------- */

static int device_query(struct ibv_context *ctx, struct ibv_device_attr *out)
{
	errno = 0;
	return plain(ibv_query_device(ctx, out));
}

static bool port_active(struct ibv_context *ctx, uint8_t num)
{
	struct ibv_port_attr attr;

	return ibv_query_port(ctx, num, &attr) != 0 ||
	       attr.state == IBV_PORT_ACTIVE;
}

static const char *device_name(struct ibv_context *ctx)
{
	return ibv_get_device_name(ctx->device);
}

static int async_get(struct ibv_context *ctx, struct ibv_async_event *out)
{
	struct pollfd p = { .fd = ctx->async_fd, .events = POLLIN };

	/* The descriptor is the library's, for all who use the device. */
	if (poll(&p, 1, 0) <= 0 || !(p.revents & POLLIN))
		return -EAGAIN;
	errno = 0;
	return plain(ibv_get_async_event(ctx, out));
}

static void async_ack(struct ibv_async_event *ev)
{
	ibv_ack_async_event(ev);
}

/*
 * Who removes a device waits until nobody has it open. librdmacm keeps it so,
 * until it finds others in its place, so we put something harmless under its
 * descriptors; it closes that when it finds out.
 */
static void device_abandon(struct ibv_context *ctx)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)dup3(fd, ctx->cmd_fd, O_CLOEXEC);
	(void)dup3(fd, ctx->async_fd, O_CLOEXEC);
	close(fd);
}

static int pd_alloc(struct ibv_context *ctx, struct ibv_pd **out)
{
	errno = 0;
	*out = ibv_alloc_pd(ctx);
	return made(*out);
}

static void pd_free(struct ibv_pd *pd)
{
	ibv_dealloc_pd(pd);
}

static int mr_reg(struct ibv_pd *pd, void *map, size_t len, int access,
		  struct ibv_mr **out)
{
	errno = 0;
	*out = ibv_reg_mr(pd, map, len, access);
	return made(*out);
}

static void mr_dereg(struct ibv_mr *mr)
{
	ibv_dereg_mr(mr);
}

/* --- completions and receive buffers ------------------------------------- */

static int channel_open(struct ibv_context *ctx, struct ibv_comp_channel **out)
{
	int rc;

	errno = 0;
	*out = ibv_create_comp_channel(ctx);
	rc = made(*out);
	if (rc == 0)
		rc = set_nonblock((*out)->fd);
	return rc;
}

static void channel_close(struct ibv_comp_channel *ch)
{
	ibv_destroy_comp_channel(ch);
}

static int channel_next(struct ibv_comp_channel *ch, void **user)
{
	struct ibv_cq *cq;
	int rc;

	errno = 0;
	rc = plain(ibv_get_cq_event(ch, &cq, user));
	if (rc == 0)
		ibv_ack_cq_events(cq, 1);
	return rc;
}

static int cq_open(struct ibv_context *ctx, int entries, void *user,
		   struct ibv_comp_channel *ch, struct ibv_cq **out)
{
	errno = 0;
	*out = ibv_create_cq(ctx, entries, user, ch, 0);
	return made(*out);
}

static void cq_close(struct ibv_cq *cq)
{
	ibv_destroy_cq(cq);
}

static int cq_poll(struct ibv_cq *cq, int n, struct ibv_wc *out)
{
	int rc = ibv_poll_cq(cq, n, out);

	return rc < 0 ? -EIO : rc;
}

static int cq_arm(struct ibv_cq *cq)
{
	errno = 0;
	return plain(ibv_req_notify_cq(cq, 0));
}

static int srq_open(struct ibv_pd *pd, uint32_t entries, struct ibv_srq **out)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = entries,
						    .max_sge = 1 } };

	errno = 0;
	*out = ibv_create_srq(pd, &attr);
	return made(*out);
}

static void srq_close(struct ibv_srq *srq)
{
	ibv_destroy_srq(srq);
}

static int srq_post(struct ibv_srq *srq, struct ibv_recv_wr *wr)
{
	struct ibv_recv_wr *bad;

	errno = 0;
	return plain(ibv_post_srq_recv(srq, wr, &bad));
}

static int send_wr(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	errno = 0;
	return plain(ibv_post_send(qp, wr, &bad));
}

const struct pl_verbs_calls pl_verbs_real = {
	.there = there,
	.gids = gids,
	.events_open = events_open,
	.events_close = events_close,
	.event_get = event_get,
	.event_ack = event_ack,
	.id_open = id_open,
	.id_close = id_close,
	.bind = bind_id,
	.listen = listen_id,
	.port = port,
	.resolve_addr = resolve_addr,
	.resolve_route = resolve_route,
	.ack_timeout = ack_timeout,
	.connect = connect_id,
	.accept = accept_id,
	.reject = reject_id,
	.disconnect = disconnect_id,
	.qp_create = qp_create,
	.qp_destroy = qp_destroy,
	.device_query = device_query,
	.port_active = port_active,
	.device_name = device_name,
	.async_get = async_get,
	.async_ack = async_ack,
	.device_abandon = device_abandon,
	.pd_alloc = pd_alloc,
	.pd_free = pd_free,
	.mr_reg = mr_reg,
	.mr_dereg = mr_dereg,
	.channel_open = channel_open,
	.channel_close = channel_close,
	.channel_next = channel_next,
	.cq_open = cq_open,
	.cq_close = cq_close,
	.cq_poll = cq_poll,
	.cq_arm = cq_arm,
	.srq_open = srq_open,
	.srq_close = srq_close,
	.srq_post = srq_post,
	.send = send_wr,
};
