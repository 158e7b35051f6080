/*
 * daemonset/broker_internal.h - between the broker's parts, pods and clients
 */
#ifndef DAEMONSET_BROKER_INTERNAL_H
#define DAEMONSET_BROKER_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <cjson/cJSON.h>
#include <uthash.h>

#include "daemonset/broker.h"
#include "daemonset/client.h"
#include "daemonset/locate.h"
#include "daemonset/pod.h"
#include "daemonset/policy.h"
#include "daemonset/registry.h"
#include "daemonset/remote.h"
#include "shm/segment.h"

struct event;
struct event_base;

struct pl_broker {
	struct event_base *base;
	const char *node;
	struct pl_pods *pods;
	struct pl_remote *remote;		/* NULL: no other nodes */
	const struct pl_registry *registry;	/* NULL: none */
	const struct pl_policy *policy;		/* NULL: none */
	struct pl_locate *locate;		/* NULL: ranges say it all */
	uint64_t last_id;
	struct pl_lane_rec *lanes;		/* by id */
	struct pl_region_opening *openings;	/* by id */
	uint64_t show_until_ns;			/* see pl_broker_may_show */
	uint64_t settle_until_ns;		/* see pl_broker_is_settling */
	bool ending;				/* nobody is told anything */
};

/* A listener of a client. */
struct pl_service {
	char name[PL_WIRE_NAME];		/* key in the pod */
	uint32_t flags;
	struct pl_client *client;
	struct pl_broker *broker;
	int fd;					/* our end of the listener */
	struct event *ev;
	uint32_t n_pending;
	LIST_HEAD(, pl_lane_rec) pending;
	LIST_ENTRY(pl_service) of_client;
	UT_hash_handle hh;
};

/* Ends of a lane: who connected, who accepted. */
enum { PL_END_FROM, PL_END_TO, PL_ENDS };

struct pl_lane_end {
	struct pl_lane_rec *lane;
	struct pl_client *client;	/* NULL: other node's, or closed */
	bool is_remote;
	struct pl_addr addr;
	uint32_t ring_bytes;
	uint64_t bytes;			/* charged to the pod */
	const struct pl_lane_seg *ctl;	/* NULL: not known yet */
	bool sum_told;			/* that a checksum was wrong */
	bool rules_told;		/* that its counters are */
	LIST_ENTRY(pl_lane_end) of_client;
};

struct pl_lane_rec {
	uint64_t id;			/* key */
	uint8_t uid[PL_WIRE_UID];
	struct pl_broker *broker;
	bool is_open;			/* else the answer is awaited */
	struct pl_lane_end ends[PL_ENDS];
	char service[PL_WIRE_NAME];
	char path[PL_WIRE_PATH];
	char node[PL_NODE_NAME_BYTES];	/* of a remote TO, else "" */
	/* while the answer is awaited */
	struct pl_service *svc;		/* NULL: TO is remote */
	LIST_ENTRY(pl_lane_rec) of_svc;
	uint32_t seq;			/* of the request of a local FROM */
	int bell_fd;			/* FROM's end of a local lane's bell */
	struct event *timer;
	pl_broker_incoming_done *done;	/* of a remote FROM */
	void *done_arg;
	UT_hash_handle hh;
};

/* A region of a pod of this node. */
struct pl_region_own {
	uint64_t id;
	uint8_t uid[PL_WIRE_UID];
	char name[PL_WIRE_NAME];		/* key in the pod */
	uint32_t flags;
	struct pl_client *client;
	uint64_t size, bytes;		/* at first; charged to the pod */
	uint64_t max_size;		/* that it may grow to */
	uint64_t end;			/* of data, as segments have it */
	int fd, bell_fd;
	struct pl_broker_part parts[PL_REGION_PARTS - 1];
	unsigned int n_parts;
	struct pl_seg watch;
	const struct pl_region_seg *ctl;
	uint32_t n_openings;
	LIST_HEAD(, pl_region_opening) openings;
	LIST_ENTRY(pl_region_own) of_client;
	UT_hash_handle hh;
};

/* A region that a client opened, of this node or another. */
struct pl_region_opening {
	uint64_t id;			/* key */
	struct pl_client *client;
	struct pl_region_own *region;	/* NULL: of another node */
	bool is_pending;
	uint32_t seq;
	uint8_t uid[PL_WIRE_UID];	/* asked for, or 0; then what it has */
	char name[PL_WIRE_NAME];
	struct pl_addr owner;
	char node[PL_NODE_NAME_BYTES];
	char path[PL_WIRE_PATH];
	uint64_t size, bytes;
	uint64_t end;			/* remote: of data that is charged */
	LIST_ENTRY(pl_region_opening) of_region;
	LIST_ENTRY(pl_region_opening) of_client;
	UT_hash_handle hh;
};

/* --- broker.c ------------------------------------------------------------- */

int pl_broker_create(struct event_base *base, const char *node,
		     struct pl_broker **out, struct pl_err *err);
/* After its pods: nothing hangs from it any more. */
void pl_broker_destroy(struct pl_broker *b);

/* End everything that the client made. */
void pl_broker_client_gone(struct pl_broker *b, struct pl_client *c);

/* May pods of this Kubernetes namespace use what owner offers so? -EACCES. */
int pl_broker_policy(struct pl_pod *owner, uint32_t flags, const char *ns,
		     enum pl_policy_kind kind, const char *name,
		     struct pl_err *err);

/*
 * Count one more of *used, and bytes, against the pod's limits; both or
 * neither. -EDQUOT. name: of the limit in the configuration.
 */
int pl_quota_take(struct pl_pod *pod, uint32_t *used, uint32_t limit,
		  const char *name, uint64_t bytes, struct pl_err *err);

/*
 * The local pod of an address, or the node of a pod elsewhere, or
 * -EHOSTUNREACH. A Service's address becomes that of its pod. -EINPROGRESS:
 * park the request.
 */
int pl_broker_find(struct pl_broker *b, struct pl_addr *addr,
		   struct pl_pod **pod, const struct pl_node **node,
		   struct pl_err *err);

/*
 * After a start, and only for pods of the agent before: their libraries may
 * still be about to show what they have. Then what is missing is -EAGAIN.
 */
bool pl_broker_is_settling(const struct pl_broker *b, const struct pl_pod *pod);

/* What a client is told instead of -EAGAIN if it does not know that. */
int pl_broker_later(const struct pl_client *c, int rc, int instead);

/* A node that was asked for a pod says that it has none, or can't be asked. */
void pl_broker_unreached(struct pl_broker *b, int status,
			 const struct pl_addr *pod);

/* --- broker_park.c -------------------------------------------------------- */

typedef const char *pl_broker_handler(struct pl_client *c, const void *msg,
				      int *fds, int n_fds);

/*
 * pl_broker_find is still looking for addr: keep the request that handler got
 * (msg has PL_WIRE_MAX bytes), with its descriptors, and call handler again
 * when there is an answer. timeout_ms as the request says, -1: none; when it is
 * over the client gets ETIMEDOUT. -EAGAIN: too many are kept for this client.
 */
int pl_broker_park(struct pl_client *c, const struct pl_addr *addr,
		   const void *msg, int *fds, int n_fds, int timeout_ms,
		   pl_broker_handler *handler, struct pl_err *err);
void pl_parked_end(struct pl_parked *p);

/* --- broker_listen.c ------------------------------------------------------ */

const char *pl_broker_on_listen(struct pl_client *c, const void *msg, int *fds,
				int n_fds);
void pl_service_end(struct pl_service *s);
/*
 * Take the answers that have come, one for each lane that waits for one. A
 * client says by another socket that it closes a lane, or that it is gone, and
 * what it accepted before that is not to be overtaken. May end s.
 */
void pl_service_catch_up(struct pl_service *s);
struct pl_service *pl_service_find(struct pl_pod *pod, const char *name);
/* -ECONNREFUSED, or -EAGAIN. */
int pl_service_missing(const struct pl_broker *b, const struct pl_pod *pod,
		       const char *name, struct pl_err *err);

/* --- broker_lane.c -------------------------------------------------------- */

const char *pl_broker_on_connect(struct pl_client *c, const void *msg,
				 int *fds, int n_fds);
const char *pl_broker_on_lane_close(struct pl_client *c, const void *msg,
				    int *fds, int n_fds);
/* The listener's client answered; fd is its segment. */
void pl_lane_accepted(struct pl_service *s, uint64_t id, uint32_t ring_bytes,
		      int fd);
/* End a lane whose answer is awaited, and tell who connected. */
void pl_lane_refuse(struct pl_lane_rec *l, int status, const char *text);
/* Log once that the pod says that a checksum was wrong, if it does. */
void pl_lane_end_look(struct pl_lane_end *end);
/* The same for all lanes of the node's pods. */
void pl_broker_look_sums(struct pl_broker *b);
/* The pod's end is over. died: it did not close it. */
void pl_lane_end_close(struct pl_lane_end *end, bool died);

/* --- broker_resume.c ------------------------------------------------------ */

const char *pl_broker_on_lane_resume(struct pl_client *c, const void *msg,
				     int *fds, int n_fds);
const char *pl_broker_on_lane_show(struct pl_client *c, const void *msg,
				   int *fds, int n_fds);

/* --- broker_remote.c ------------------------------------------------------ */

/* A lane to a pod of another node; the answer comes later. */
int pl_lane_connect_remote(struct pl_lane_rec *l, const struct pl_node *node,
			   int seg_fd, int timeout_ms, struct pl_err *err);

/* --- what broker_lane.c has for broker_remote.c --------------------------- */

struct pl_lane_rec *pl_lane_rec_new(struct pl_broker *b, const char *service,
				struct pl_err *err);
void pl_lane_rec_free(struct pl_lane_rec *l);
/* Count the end for a client and hang it there. */
int pl_lane_end_attach(struct pl_lane_end *end, struct pl_client *c,
		       uint64_t bytes, struct pl_err *err);
/* Ask the listener of l's TO; from here on a failure is told by refuse. */
int pl_lane_offer(struct pl_lane_rec *l, struct pl_service *s, int seg_fd,
		  int bell_fd, int timeout_ms, struct pl_err *err);
/* CONNECT_OK to a local FROM. */
void pl_lane_connected(struct pl_lane_rec *l, int seg_fd, int bell_fd);
/* What CONNECT_OK, INCOMING and LANE_RESUMED say to end. */
void pl_lane_describe(const struct pl_lane_end *end, struct pl_msg_lane *m);
/* More bytes on account of an end; -EDQUOT. */
int pl_lane_charge(struct pl_lane_end *end, struct pl_client *c,
		   uint64_t bytes, struct pl_err *err);

/* --- broker_region.c ------------------------------------------------------ */

const char *pl_broker_on_region_create(struct pl_client *c, const void *msg,
				       int *fds, int n_fds);
const char *pl_broker_on_region_open(struct pl_client *c, const void *msg,
				     int *fds, int n_fds);
const char *pl_broker_on_region_close(struct pl_client *c, const void *msg,
				      int *fds, int n_fds);
void pl_region_end(struct pl_region_own *r, bool died);
struct pl_region_own *pl_region_find(struct pl_pod *pod, const char *name);
/* What the owner says that it has by now, as far as its segments go. */
uint64_t pl_region_size_now(const struct pl_region_own *r);
void pl_opening_end(struct pl_region_opening *o);

/* --- broker_rules.c ------------------------------------------------------- */

/* Log once that the end's counters break the rules of the lane, if they do. */
void pl_lane_end_rules(struct pl_lane_end *end);

/* --- broker_grow.c -------------------------------------------------------- */

const char *pl_broker_on_region_grow(struct pl_client *c, const void *msg,
				     int *fds, int n_fds);
const char *pl_broker_on_region_more(struct pl_client *c, const void *msg,
				     int *fds, int n_fds);

/* --- broker_list.c -------------------------------------------------------- */

/* What the pod has had, ends of lanes that are still there included. */
void pl_pod_traffic(const struct pl_pod *pod, struct pl_flow *tx,
		    struct pl_flow *rx);
void pl_pod_wakes(const struct pl_pod *pod, struct pl_wakes *out);

/* Lists for podlanectl; NULL when there is no memory. */
cJSON *pl_list_pods(const struct pl_pods *p);
cJSON *pl_list_lanes(const struct pl_broker *b);
cJSON *pl_list_regions(const struct pl_broker *b);
cJSON *pl_list_nodes(const struct pl_broker *b);

#endif
