/* daemonset/broker_remote.c - lanes between a pod here and another node */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util.h"
#include "daemonset/broker_internal.h"
#include "daemonset/seg_check.h"
#include "shm/msg.h"
#include "shm/segment.h"

/* The replica is there: count it for FROM. */
static int set_to(struct pl_lane_rec *l, const struct pl_remote_lane_up *up,
		  struct pl_err *err)
{
	struct pl_lane_end *from = &l->ends[PL_END_FROM];
	struct pl_lane_end *to = &l->ends[PL_END_TO];
	int rc = pl_seg_take_lane(up->replica_fd, up->ring_bytes, &to->ctl,
				  err);

	to->ring_bytes = up->ring_bytes;
	return rc < 0 ? rc : pl_lane_charge(from, from->client,
					    pl_seg_file_bytes(up->ring_bytes),
					    err);
}

static void on_connected(void *arg, int status, const char *text,
			 const struct pl_remote_lane_up *up)
{
	struct pl_lane_rec *l = arg;
	struct pl_err err;
	int rc;

	if (status < 0) {
		pl_broker_unreached(l->broker, status,
				    &l->ends[PL_END_TO].addr);
		if (status == -EACCES)
			pl_pod_complain(l->ends[PL_END_FROM].client->pod,
					"may not connect: %s", text);
		pl_lane_refuse(l, status, text);
		return;
	}
	rc = set_to(l, up, &err);
	if (rc < 0) {
		pl_remote_lane_close(l->broker->remote, l->id, true);
		pl_lane_refuse(l, rc, err.msg);
		return;
	}
	snprintf(l->path, sizeof(l->path), "%s", up->path);
	l->is_open = true;
	pl_lane_connected(l, up->replica_fd, up->bell_fd);
	l->seq = 0;
}

int pl_lane_connect_remote(struct pl_lane_rec *l, const struct pl_node *node,
			   int seg_fd, int timeout_ms, struct pl_err *err)
{
	const struct pl_lane_end *from = &l->ends[PL_END_FROM];
	const struct pl_remote_lane r = { .id = l->id,
					  .node = node,
					  .src = from->addr,
					  .dst = l->ends[PL_END_TO].addr,
					  .src_ns = from->client->pod->ns,
					  .service = l->service,
					  .ring_bytes = from->ring_bytes,
					  .seg_fd = seg_fd,
					  .timeout_ms = timeout_ms,
					  .uid = l->uid,
					  .resumes = from->client->version >= 2
	};

	l->ends[PL_END_TO].is_remote = true;
	snprintf(l->node, sizeof(l->node), "%s", node->name);
	return pl_remote_connect(l->broker->remote, &r, on_connected, l, err);
}

static int check_incoming(const struct pl_broker_incoming *in,
			  struct pl_err *err)
{
	if (!pl_name_valid(in->service))
		return pl_err_set(err, EINVAL, "no valid name of a service");
	if (in->timeout_ms < -1)
		return pl_err_set(err, EINVAL, "no valid timeout");
	return 0;
}

/* Everything of an incoming lane but the offer to its listener. */
static int set_incoming(struct pl_lane_rec *l, struct pl_service *s,
			const struct pl_broker_incoming *in,
			struct pl_err *err)
{
	struct pl_lane_end *from = &l->ends[PL_END_FROM];
	struct pl_lane_end *to = &l->ends[PL_END_TO];
	const struct pl_node *node = NULL;
	int rc;

	from->is_remote = true;
	from->addr = in->src;
	from->ring_bytes = in->ring_bytes;
	to->addr = in->dst;
	if (l->broker->registry)
		node = pl_registry_by_pod(l->broker->registry, &in->src);
	if (node)
		snprintf(l->node, sizeof(l->node), "%s", node->name);
	snprintf(l->path, sizeof(l->path), "%s", in->path);
	memcpy(l->uid, in->uid, sizeof(l->uid));
	rc = pl_seg_take_lane(in->replica_fd, in->ring_bytes, &from->ctl, err);
	return rc < 0 ? rc : pl_lane_end_attach(to, s->client,
						pl_seg_file_bytes(
							in->ring_bytes), err);
}

static int find_service(struct pl_broker *b,
			const struct pl_broker_incoming *in,
			struct pl_service **s, struct pl_err *err)
{
	struct pl_pod *pod = pl_pods_by_addr(b->pods, &in->dst);
	char buf[INET6_ADDRSTRLEN];

	if (!pod)
		return pl_err_set(err, EHOSTUNREACH,
				  "no pod of node %s has address %s", b->node,
				  pl_addr_str(&in->dst, buf));
	*s = pl_service_find(pod, in->service);
	if (!*s)
		return pl_service_missing(b, pod, in->service, err);
	return pl_broker_policy(pod, (*s)->flags, in->src_ns,
				PL_POLICY_SERVICE, in->service, err);
}

int pl_broker_incoming(struct pl_broker *b, const struct pl_broker_incoming *in,
		       pl_broker_incoming_done *done, void *arg, uint64_t *id,
		       bool *resumes, struct pl_err *err)
{
	struct pl_lane_rec *l;
	struct pl_service *s = NULL;
	int rc = check_incoming(in, err);

	if (rc == 0)
		rc = find_service(b, in, &s, err);
	if (rc < 0)
		return rc;
	l = pl_lane_rec_new(b, in->service, err);
	if (!l)
		return -ENOMEM;
	rc = set_incoming(l, s, in, err);
	if (rc == 0)
		rc = pl_lane_offer(l, s, in->replica_fd, in->bell_fd,
				   in->timeout_ms, err);
	if (rc < 0) {
		pl_lane_rec_free(l);
		return rc;
	}
	l->done = done;
	l->done_arg = arg;
	*id = l->id;
	*resumes = s->client->version >= 2;
	return 0;
}

void pl_broker_lane_ended(struct pl_broker *b, uint64_t id)
{
	struct pl_lane_rec *l;

	HASH_FIND(hh, b->lanes, &id, sizeof(id), l);
	if (!l || (!l->ends[PL_END_FROM].is_remote &&
		   !l->ends[PL_END_TO].is_remote))
		return;
	l->done = NULL;
	if (l->is_open)
		pl_lane_rec_free(l);
	else
		pl_lane_refuse(l, -ECONNRESET, "the other node has gone");
}
