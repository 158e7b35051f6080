/*
 * tests/vm/stranger.c - a host that no agent knows connects by rdma_cm
 *
 *     stranger FROM TO PORT
 *
 * From the address FROM to an agent at TO, with its queue pairs' introduction
 * (rdma/verbs_wire.h) in several wrong forms. Prints "NAME refused" for each, or
 * "NAME: REASON" where something else became of it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rdma/verbs_wire.h"

#define LIMIT_MS 5000

struct stranger {
	struct rdma_event_channel *channel;
	struct sockaddr_in from, to;
};

static struct pl_verbs_intro good(void)
{
	struct pl_verbs_intro m = { .magic = PL_VERBS_MAGIC,
				    .version = PL_VERBS_VERSION,
				    .count = 2 };

	memset(m.token, 0x5a, sizeof(m.token));
	return m;
}

/* -1: there is none */
static int next_event(struct stranger *s)
{
	struct rdma_cm_event *ev;
	int type;

	if (rdma_get_cm_event(s->channel, &ev))
		return -1;
	type = ev->event;
	rdma_ack_cm_event(ev);
	return type;
}

static const char *begin(struct stranger *s, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};

	if (rdma_resolve_addr(id, (struct sockaddr *)&s->from,
			      (struct sockaddr *)&s->to, LIMIT_MS) ||
	    next_event(s) != RDMA_CM_EVENT_ADDR_RESOLVED)
		return "its address is not resolved";
	if (rdma_resolve_route(id, LIMIT_MS) ||
	    next_event(s) != RDMA_CM_EVENT_ROUTE_RESOLVED)
		return "there is no route to it";
	return rdma_create_qp(id, NULL, &attr) ? "no queue pair" : NULL;
}

static const char *try(struct stranger *s, struct rdma_cm_id *id,
		       const void *data, size_t len)
{
	struct rdma_conn_param param = { .private_data = data,
					 .private_data_len = (uint8_t)len,
					 .retry_count = 3 };
	const char *wrong = begin(s, id);
	int type;

	if (wrong)
		return wrong;
	if (rdma_connect(id, &param))
		return "it can't connect";
	type = next_event(s);
	return type == RDMA_CM_EVENT_REJECTED ? NULL :
	       type < 0 ? "no answer" : rdma_event_str(type);
}

static int stranger(struct stranger *s, const char *name, const void *data,
		    size_t len)
{
	struct rdma_cm_id *id;
	const char *wrong;

	if (rdma_create_id(s->channel, &id, NULL, RDMA_PS_TCP))
		return 1;
	wrong = try(s, id, data, len);
	printf(wrong ? "%s: %s\n" : "%s refused\n", name, wrong);
	if (id->qp)
		rdma_destroy_qp(id);
	rdma_destroy_id(id);
	return wrong != NULL;
}

static int all(struct stranger *s)
{
	struct pl_verbs_intro m = good();
	int bad = stranger(s, "without an introduction", NULL, 0);

	bad |= stranger(s, "with half of one", &m, sizeof(m) / 2);
	bad |= stranger(s, "with a token of its own", &m, sizeof(m));
	m.index = m.count = 255;
	bad |= stranger(s, "with a queue pair too many", &m, sizeof(m));
	m = good();
	memset(m.token, 0, sizeof(m.token));
	bad |= stranger(s, "with a token of zeros", &m, sizeof(m));
	m = good();
	m.magic++;
	bad |= stranger(s, "with another protocol", &m, sizeof(m));
	return bad;
}

int main(int argc, char **argv)
{
	struct stranger s = { .channel = rdma_create_event_channel() };

	s.from.sin_family = s.to.sin_family = AF_INET;
	if (argc != 4 || inet_pton(AF_INET, argv[1], &s.from.sin_addr) != 1 ||
	    inet_pton(AF_INET, argv[2], &s.to.sin_addr) != 1) {
		fprintf(stderr, "usage: stranger FROM TO PORT\n");
		return 2;
	}
	s.to.sin_port = htons((uint16_t)strtoul(argv[3], NULL, 10));
	if (!s.channel) {
		perror("stranger");
		return 1;
	}
	return all(&s);
}
