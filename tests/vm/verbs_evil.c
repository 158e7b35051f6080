/*
 * tests/vm/verbs_evil.c - a preloaded library: an agent that breaks the rules
 *
 * Work requests of the program that it is loaded into are what the program
 * makes of them, until the first word of the file EVIL is not 0. The next one
 * that can be changed in the way that the word says is changed, and the word
 * is 0 again:
 *
 *     1  a WRITE with a key that nobody has
 *     2  a WRITE with a key of an earlier time: of this memory, but its last
 *        byte, which is another one each time that the kernel makes one
 *     3  a WRITE far behind the end of the memory
 *     4  counters for a place behind the end
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rdma/verbs_wire.h"

static _Atomic uint32_t *evil;
static int (*send_real)(struct ibv_qp *qp, struct ibv_send_wr *wr,
			struct ibv_send_wr **bad);

static _Bool change_write(struct ibv_send_wr *wr, uint32_t how)
{
	switch (how) {
	case 1:
		wr->wr.rdma.rkey ^= 0x33300;
		return 1;
	case 2:
		wr->wr.rdma.rkey ^= 0x5a;
		return 1;
	case 3:
		wr->wr.rdma.remote_addr += 1u << 28;
		return 1;
	default:
		return 0;
	}
}

static _Bool change_send(struct ibv_send_wr *wr, uint32_t how)
{
	struct pl_verbs_send *m = (void *)(uintptr_t)wr->sg_list->addr;

	if (how != 4 || m->type != PL_VERBS_WORDS || m->len == 0)
		return 0;
	m->offset = UINT64_C(1) << 40;
	return 1;
}

static int send_evil(struct ibv_qp *qp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	uint32_t how = atomic_load(evil);
	_Bool done = 0;

	for (struct ibv_send_wr *w = wr; how && !done && w; w = w->next)
		done = w->opcode == IBV_WR_RDMA_WRITE ? change_write(w, how) :
							change_send(w, how);
	if (done)
		atomic_store(evil, 0);
	return send_real(qp, wr, bad);
}

static void evil_map(void)
{
	const char *path = getenv("EVIL");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *map = mmap(NULL, 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		abort();
	evil = map;
	close(fd);
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *attr)
{
	static int (*real)(struct rdma_cm_id *, struct ibv_pd *,
			   struct ibv_qp_init_attr *);
	int rc;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "rdma_create_qp");
	rc = real(id, pd, attr);
	if (rc == 0 && id->verbs->ops.post_send != send_evil) {
		send_real = id->verbs->ops.post_send;
		id->verbs->ops.post_send = send_evil;
	}
	return rc;
}

/* Before the program gives up the right to open files. */
__attribute__((constructor)) static void start(void)
{
	evil_map();
}
