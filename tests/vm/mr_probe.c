/*
 * tests/vm/mr_probe.c - what a kernel's verbs do with segments
 *
 *     mr_probe FROM TO
 *
 * FROM and TO are RDMA devices that reach each other by their GID 1. Prints a
 * line "NAME ok" or "NAME: REASON" for each of:
 *
 *     writable    a memfd, mapped for writing, is registered
 *     sealed      its seals can be added after that
 *     write       an RDMA WRITE from FROM's memfd lands in TO's, and a process
 *                 that maps that read-only sees it
 *     read-only   a read-only mapping of a sealed memfd is registered
 *     wrong-key   a WRITE with another key is refused
 *     waiting     for a line of input, with two queue pairs, two completion
 *                 queues and all memory regions still there
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN (1 << 20)
#define GID 1
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr, *ro;
	union ibv_gid gid;
	int fd;
	unsigned char *map;
};

static void die(const char *what)
{
	fprintf(stderr, "mr_probe: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int say(const char *name, int err)
{
	if (err)
		printf("%s: %s\n", name, strerror(err));
	else
		printf("%s ok\n", name);
	return err;
}

static void device_open(struct end *e, const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			e->ctx = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	if (!e->ctx || ibv_query_gid(e->ctx, 1, GID, &e->gid))
		die(name);
}

static void queue_pair_create(struct end *e)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { 8, 8, 1, 1, 0 },
	};

	e->pd = ibv_alloc_pd(e->ctx);
	e->cq = ibv_create_cq(e->ctx, 16, NULL, NULL, 0);
	init.send_cq = init.recv_cq = e->cq;
	e->qp = e->pd && e->cq ? ibv_create_qp(e->pd, &init) : NULL;
	if (!e->qp)
		die("queue pair");
}

static void queue_pair_connect(struct end *e, const struct end *peer)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = ACCESS,
	};

	if (ibv_modify_qp(e->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
			  IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		die("INIT");
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {
			.is_global = 1,
			.port_num = 1,
			.grh = { .dgid = peer->gid, .sgid_index = GID,
				 .hop_limit = 64 },
		},
	};
	if (ibv_modify_qp(e->qp, &a, IBV_QP_STATE | IBV_QP_AV |
			  IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		die("RTR");
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};
	if (ibv_modify_qp(e->qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT |
			  IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			  IBV_QP_MAX_QP_RD_ATOMIC))
		die("RTS");
}

static void memory_register(struct end *e)
{
	e->fd = memfd_create("probe", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	if (e->fd < 0 || ftruncate(e->fd, LEN))
		die("memfd");
	e->map = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, e->fd, 0);
	if (e->map == MAP_FAILED)
		die("mmap");
	e->mr = ibv_reg_mr(e->pd, e->map, LEN, ACCESS);
	if (say("writable", e->mr ? 0 : errno))
		exit(1);
	say("sealed", fcntl(e->fd, F_ADD_SEALS, SEALS) ? errno : 0);
}

static void read_only_register(struct end *e)
{
	void *map = mmap(NULL, LEN, PROT_READ, MAP_SHARED, e->fd, 0);

	if (map == MAP_FAILED)
		die("mmap");
	e->ro = ibv_reg_mr(e->pd, map, LEN, 0);
	say("read-only", e->ro ? 0 : errno);
}

/* The status of one WRITE of all of it; it waits without a limit. */
static int put(struct end *from, struct end *to, uint32_t key)
{
	struct ibv_sge sge = { (uintptr_t)from->map, LEN, from->mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = (uintptr_t)to->map, .rkey = key },
	}, *bad;
	struct ibv_wc wc;
	int n;

	if (ibv_post_send(from->qp, &wr, &bad))
		die("post");
	while (!(n = ibv_poll_cq(from->cq, 1, &wc)))
		usleep(1000);
	if (n < 0)
		die("poll");
	return wc.status;
}

/* Another process, with a mapping of its own, finds the pattern. */
static int seen(int fd, unsigned char first)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		unsigned char *p = mmap(NULL, LEN, PROT_READ, MAP_SHARED,
					fd, 0);

		if (p == MAP_FAILED)
			_exit(1);
		for (int i = 0; i < LEN; i++)
			if (p[i] != (unsigned char)(first + i * 7))
				_exit(1);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		die("fork");
	return status ? EBADMSG : 0;
}

int main(int argc, char **argv)
{
	struct end a = { 0 }, b = { 0 };
	int status;

	if (argc != 3) {
		fprintf(stderr, "usage: mr_probe FROM TO\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	device_open(&a, argv[1]);
	device_open(&b, argv[2]);
	queue_pair_create(&a);
	queue_pair_create(&b);
	queue_pair_connect(&a, &b);
	queue_pair_connect(&b, &a);
	memory_register(&a);
	memory_register(&b);
	for (int i = 0; i < LEN; i++)
		a.map[i] = 3 + i * 7;
	status = put(&a, &b, b.mr->rkey);
	if (status)
		printf("write: %s\n", ibv_wc_status_str(status));
	else
		say("write", seen(b.fd, 3));
	read_only_register(&a);
	read_only_register(&b);
	status = put(&a, &b, b.mr->rkey ^ 0xff00);
	printf("wrong-key: %s\n", ibv_wc_status_str(status));
	printf("waiting\n");
	return getchar() == EOF;
}
