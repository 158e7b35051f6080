/*
 * bench/ps_cluster.h - nodes and pods on this machine, for the comparison
 *
 * A node is a network namespace, held by a child process that dies with us and
 * reached by /proc/PID/ns/net, so nothing is mounted: node N has the address
 * 10.99.0.N on a veth pair between the nodes, an agent of its own, and pods in
 * 10.88.N.0/24. A pod is a namespace too, wired by executing the plugins of
 * its node's conflist as a container runtime does. Everything else lives in
 * one folder, which goes at the end.
 */
#ifndef BENCH_PS_CLUSTER_H
#define BENCH_PS_CLUSTER_H

#include <stdbool.h>
#include <sys/types.h>
#include <cjson/cJSON.h>

#include "common/err.h"
#include "bench/cni_run.h"
#include "bench/ps_child.h"
#include "bench/ps_machine.h"
#include "bench/ps_options.h"
#include "bench/ps_wire.h"

#define PS_NODES 2
#define PS_WIRE_NAME "u"	/* the device between the nodes, in each of them */
#define PS_PODS_MAX (PS_WORKERS_MAX + 2 * PS_SERVERS_MAX)
#define PS_FILE_BYTES 512
/* A socket in it must fit into a sockaddr_un. */
#define PS_DIR_BYTES 80

/* Where the programs are. */
struct ps_programs {
	char podlaned[PS_FILE_BYTES];
	char cni_path[3 * PS_FILE_BYTES];	/* as CNI_PATH */
};

struct ps_pod {
	char name[PS_CHILD_NAME];
	unsigned int node;		/* from 1 */
	struct cni_pod ns;
	char addr[PS_ADDR_BYTES];
	char *result;			/* of ADD; NULL: not wired */
};

struct ps_cluster {
	struct ps_programs programs;
	const char *congestion;		/* of TCP; NULL: as it is */
	const char *security;		/* between agents; NULL: "none" */
	struct ps_wire wire;		/* between nodes */
	char dir[PS_DIR_BYTES];		/* "": none */
	struct cni_pod node[PS_NODES];
	pid_t agent[PS_NODES];		/* 0: none */
	unsigned int n_pods;
	struct ps_pod pod[PS_PODS_MAX];
};

/*
 * Beside this program's build tree, else installed. --cni-bin and --podlaned
 * (NULL: not given) come first. -ENOENT names what is missing.
 */
int ps_programs_find(struct ps_programs *p, const char *cni_bin,
		     const char *podlaned, struct pl_err *err);

/*
 * Nodes and agents. run_dir NULL: a temporary folder. c is zeroed before, but
 * for programs, congestion, security and wire.
 */
int ps_cluster_init(struct ps_cluster *c, const char *run_dir,
		    const struct ps_watch *watch, struct pl_err *err);

/*
 * Also after a failure of init; c->dir, the namespaces and whatever the plugins
 * left running are gone then.
 */
int ps_cluster_fini(struct ps_cluster *c, struct pl_err *err);

/* A wired pod on a node (from 1); *pod stays the cluster's. */
int ps_cluster_pod_add(struct ps_cluster *c, unsigned int node,
		       const char *name, struct ps_pod **pod,
		       struct pl_err *err);

/*
 * What is between the pods: m's congestion control of all namespaces ("bbr",
 * "bbr+reno" where they differ) and of the agents' connections, their carrier,
 * and the wire.
 */
int ps_cluster_facts(const struct ps_cluster *c, struct ps_machine *m,
		     struct pl_err *err);

/*
 * "none", "auth" (a pre-shared key, then plain text) or "tls" (a pre-shared key
 * and encryption), else -EINVAL.
 */
int ps_security_check(const char *name, struct pl_err *err);

/* The address of a node (from 1) on the link between them. */
const char *ps_cluster_node_addr(unsigned int node);

/*
 * ps_children_wait for children in the cluster's pods. An agent that dies ends
 * it, too: lanes would wait for another one. -ECHILD then, and err names the
 * agent and says why.
 */
int ps_cluster_wait(struct ps_cluster *c, struct ps_child *child,
		    unsigned int n, const struct ps_watch *watch,
		    int timeout_ms, struct pl_err *err);

/* Shared by the files of the cluster: text of a document into dir/name. */
int ps_cluster_save(const struct ps_cluster *c, const char *name,
		    const cJSON *doc, struct pl_err *err);

/* The conflist of a node; ADD or DEL of all its plugins, in order. */
int ps_conflist_write(const struct ps_cluster *c, unsigned int node,
		      struct pl_err *err);
int ps_conflist_add(const struct ps_cluster *c, struct ps_pod *pod,
		    struct pl_err *err);
int ps_conflist_del(const struct ps_cluster *c, struct ps_pod *pod,
		    struct pl_err *err);

#endif
