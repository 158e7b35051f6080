/*
 * daemonset/agent.h - the parts of one agent and how it is configured
 *
 * An agent is one event loop on one thread. Each part (pods, broker, remote
 * part, overlay, the socket for the plugin and podlanectl) is created by
 * pl_agent_run and gets what it needs from there.
 */
#ifndef DAEMONSET_AGENT_H
#define DAEMONSET_AGENT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/log.h"
#include "daemonset/install.h"
#include "daemonset/overlay.h"
#include "daemonset/registry.h"
#include "rdma/carrier.h"
#include "rdma/devices.h"

#define PL_AGENT_CONFIG "/etc/podlane/podlaned.json"

/* What one pod may have. */
struct pl_limits {
	uint32_t connections;		/* of its libraries to the agent */
	uint32_t listeners;
	uint32_t lanes;			/* ends of lanes, pending ones too */
	uint32_t regions;		/* owned, and opened */
	uint64_t bytes;			/* its segments and replicas for it */
};

enum pl_registry_type {
	PL_REGISTRY_NONE,
	PL_REGISTRY_FILE,
	PL_REGISTRY_KUBERNETES,
};

#define PL_AGENT_LISTEN_BYTES 64	/* of an address and a port */
#define PL_AGENT_GID_ANY UINT32_MAX

struct pl_agent_conf {
	enum pl_registry_type registry;
	char registry_file[PATH_MAX];	/* "": none */
	char registry_kubeconfig[PATH_MAX];	/* "": as a pod */
	char registry_account[PATH_MAX];	/* of a pod's service account */
	bool registry_cidrs;		/* pods have addresses of podCIDRs */
	uint32_t event_s;		/* the same Event again; 0: none */
	char policy_file[PATH_MAX];	/* "": none */
	char state_dir[PATH_MAX];
	struct pl_overlay_conf overlay;
	struct pl_install_conf cni;
	char carrier[16];
	uint16_t port;			/* 0: the registry's */
	uint32_t connections;		/* 0: default */
	char congestion[PL_CARRIER_CONGESTION_BYTES];
	enum pl_polling polling;	/* for RDMA */
	char device[PL_RDMA_NAME_BYTES];	/* "": any, and then ... */
	uint32_t device_port;		/* ... 0: any */
	uint32_t gid_index;		/* ... PL_AGENT_GID_ANY */
	enum pl_security security;	/* UNSET only without a registry */
	bool encrypt;			/* or only know each other */
	char ca[PATH_MAX], cert[PATH_MAX], key[PATH_MAX];	/* "": none */
	struct pl_limits limits;
	uint32_t resume_ms;		/* how long others may be away */
	bool checksum;			/* of what pods send over lanes */
	uint32_t peer_ms;		/* silent so long: a node is lost */
	enum pl_log_level log_level;
	bool log_json;
	char metrics_listen[PL_AGENT_LISTEN_BYTES];	/* "": nowhere */
	bool seccomp;			/* filter system calls */
};

void pl_agent_conf_default(struct pl_agent_conf *c);

/*
 * Unknown keys are warned about, wrong values are -EINVAL with key and value
 * in the message.
 */
int pl_agent_conf_load(const char *path, struct pl_agent_conf *c,
		       struct pl_err *err);

/*
 * The same for who only asks: defaults first. path NULL: PL_AGENT_CONFIG, if it
 * is there.
 */
int pl_agent_conf_find(const char *path, struct pl_agent_conf *c,
		       struct pl_err *err);

struct pl_agent_args {
	const char *run_dir;
	const char *node;
	struct pl_agent_conf conf;
};

/* Serve until SIGTERM or SIGINT: 0; or -errno when it can't start. */
int pl_agent_run(const struct pl_agent_args *args, struct pl_err *err);

#endif
