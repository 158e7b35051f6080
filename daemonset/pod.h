/*
 * daemonset/pod.h - the pods of this node and their registrations
 *
 * Theory of operation
 *
 * The plugin registers (network, container, interface) with a network
 * namespace. A pod is a namespace with at least one registration. The agent
 * listens in it on the abstract socket "@podlane", so whoever connects there
 * is that pod.
 *
 * Each registration has a record in the state directory, from which the next
 * agent starts. A namespace is known by the device and inode of its file, and
 * for sure by its cookie, a number that the kernel never gives out twice while
 * it runs; the boot id tells the runs of the kernel apart. Paths say nothing:
 * /proc/PID/ns/net may by now be another process's.
 *
 * A socket keeps its namespace alive. So while there are pods, a slow timer
 * looks whether each path still names its namespace, and drops the
 * registrations where it doesn't (a runtime that died never sent DEL). undo.h
 * then does what that DEL would have done.
 */
#ifndef DAEMONSET_POD_H
#define DAEMONSET_POD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <cjson/cJSON.h>
#include <uthash.h>

#include "common/agentapi.h"
#include "common/err.h"
#include "common/inet.h"
#include "daemonset/agent.h"
#include "daemonset/counts.h"

struct event;
struct event_base;
struct pl_broker;
struct pl_client;
struct pl_pods;
struct pl_undo;

#define PL_REG_ADDRS_MAX 16
#define PL_REG_KEY_BYTES 240	/* a file name with room for a suffix */

/* How to execute DEL, should the runtime never do it; plugin "": not said. */
struct pl_reg_undo {
	char plugin[PL_AGENT_UNDO_MAX];
	char state_dir[PL_AGENT_UNDO_MAX];
	char cni_path[PL_AGENT_UNDO_MAX];
	char link[16];			/* the host's end; "": none */
};

struct pl_reg;
struct pl_pod;

/* One address of a registration, found by pl_pods_by_addr. */
struct pl_pod_addr {
	struct pl_addr addr;		/* key */
	uint8_t prefix_len;
	bool is_indexed;		/* else a later registration has it */
	struct pl_reg *reg;
	UT_hash_handle hh;
};

struct pl_reg {
	char key[PL_REG_KEY_BYTES];	/* NETWORK@CONTAINER@IFNAME */
	char network[128], container[128], ifname[16];
	char netns[256];
	char pod_name[254], pod_ns[64], pod_uid[64];
	uint64_t memory_limit;		/* bytes; UINT64_MAX: not said */
	char allow[PL_AGENT_ALLOW_MAX];	/* namespaces, or "" */
	struct pl_reg_undo undo;
	uint64_t dev, ino, cookie;	/* of the namespace */
	uint32_t n_addrs;
	struct pl_pod_addr addrs[PL_REG_ADDRS_MAX];
	struct pl_pod *pod;
	LIST_ENTRY(pl_reg) of_pod;
	UT_hash_handle hh;
};

struct pl_ns_id {
	uint64_t dev, ino;
};

/* What a pod has of what struct pl_limits bounds. */
struct pl_usage {
	uint32_t connections, listeners, lanes, regions;
	uint64_t bytes;
};

#define PL_POD_SAID 16

/* Complaints of one kind in the last minute. */
struct pl_pod_said {
	const char *fmt;		/* which kind */
	uint32_t n;
};

struct pl_pod {
	struct pl_pods *pods;
	struct pl_ns_id id;		/* key */
	uint64_t cookie;
	bool is_restored;		/* an agent before this one had it */
	const char *name, *ns;		/* of its first registration */
	int listen_fd;			/* -1: couldn't; tried again */
	struct event *listen_ev;
	LIST_HEAD(, pl_reg) regs;
	LIST_HEAD(, pl_client) clients;
	struct pl_usage usage;
	struct pl_pod_counts *counts;	/* see counts.h */
	bool has_counts_file;		/* else they end with the agent */
	struct pl_service *services;	/* the broker's, by name */
	struct pl_region_own *regions;	/* the broker's, by name */
	uint64_t log_window_ns;		/* see pl_pod_complain */
	struct pl_pod_said said[PL_POD_SAID];
	UT_hash_handle hh;
};

struct pl_pods {
	struct event_base *base;
	struct pl_broker *broker;
	struct pl_undo *undo;
	const char *node;
	struct pl_limits limits;
	uint32_t resume_ms;
	bool checksum;
	char dir[PATH_MAX];		/* of the records */
	char counts_dir[PATH_MAX];
	char boot[40];			/* id of this run of the kernel */
	struct pl_reg *regs;		/* by key */
	struct pl_pod *by_ns;
	struct pl_pod_addr *by_addr;
	struct event *timer;		/* pending while there are pods */
	int spare_fd;			/* to accept and refuse with */
	int fd_max;			/* see pl_pods_fd_scarce */
};

/* Makes the state directory; run_dir has the pods' counts. */
int pl_pods_create(struct event_base *base, struct pl_broker *broker,
		   const char *node, const char *run_dir,
		   const struct pl_agent_conf *conf, struct pl_pods **out,
		   struct pl_err *err);
/*
 * Reads the records: pods whose namespace is still there are listened for
 * again, other records are removed.
 */
int pl_pods_restore(struct pl_pods *p, struct pl_err *err);
/* Closes listeners and clients; the records stay for the next agent. */
void pl_pods_destroy(struct pl_pods *p);

/*
 * Fill key and the fields of a registration from JSON of agentapi.h's "add"
 * and of a record, all of it checked. -EINVAL.
 */
int pl_reg_parse(const cJSON *j, struct pl_reg *reg, struct pl_err *err);
/* network, containerID, ifname only. */
int pl_reg_parse_key(const cJSON *j, const char *network, struct pl_reg *reg,
		     struct pl_err *err);
/* The reverse; NULL when there is no memory. */
cJSON *pl_reg_json(const struct pl_reg *reg);

/*
 * reg as pl_reg_parse left it; it is copied. ns_fd stays the caller's. The
 * same key again replaces what was there. -EINVAL: reg->netns is not the
 * namespace of ns_fd.
 */
int pl_pods_add(struct pl_pods *p, const struct pl_reg *reg, int ns_fd,
		struct pl_err *err);
/* Also ends the pod with its last registration. False: there was none. */
bool pl_pods_del(struct pl_pods *p, const char *key);
/* -ENOENT, -EINVAL (other addresses, another namespace), -ECONNREFUSED. */
int pl_pods_check(struct pl_pods *p, const struct pl_reg *reg,
		  struct pl_err *err);
/* Drop the registrations of a network whose key is not in valid. */
int pl_pods_gc(struct pl_pods *p, const char *network,
	       bool (*is_valid)(const char *key, void *arg), void *arg);

/*
 * Descriptors are given out from the lowest number, so a high number says that
 * few are left. Those are for the plugin and other nodes: what pods cause is
 * refused (-EMFILE).
 */
int pl_pods_fd_scarce(const struct pl_pods *p, int fd, struct pl_err *err);

/* NULL when no pod of this node has the address. */
struct pl_pod *pl_pods_by_addr(struct pl_pods *p, const struct pl_addr *a);
/* The pod's first address of this family, else its first; NULL: none. */
const struct pl_addr *pl_pod_addr(const struct pl_pod *pod, uint8_t family);

/*
 * What the pod may share, in bytes: the agent's limit or, where it is smaller,
 * the smallest of the registrations. Usage may be above, after a new one.
 */
uint64_t pl_pod_bytes_max(const struct pl_pod *pod);

/* A log line about a pod's bad behaviour; a few a minute, others are dropped */
void pl_pod_complain(struct pl_pod *pod, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* --- pod_listen.c --------------------------------------------------------- */

/*
 * Listen in the namespace, once: 0 when that is so already. *cookie gets the
 * namespace's cookie even when listening fails.
 */
int pl_pod_listen(struct pl_pod *pod, int ns_fd, uint64_t *cookie,
		  struct pl_err *err);
void pl_pod_unlisten(struct pl_pod *pod);

/*
 * Without a free descriptor accept() fails and the listener stays readable:
 * give up the spare one for a moment, so that the connection can be closed.
 */
void pl_pods_refuse_one(struct pl_pods *p, int listen_fd);

/* --- pod_record.c --------------------------------------------------------- */

int pl_reg_record_write(const struct pl_pods *p, const struct pl_reg *reg,
		    struct pl_err *err);
void pl_reg_record_remove(const struct pl_pods *p, const char *key);
/* Calls fn for each good record of this boot; others are removed. */
int pl_reg_record_each(struct pl_pods *p,
		   void (*fn)(struct pl_pods *p, struct pl_reg *reg),
		   struct pl_err *err);

#endif
