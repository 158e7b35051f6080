/*
 * plugin/conf.h - the plugin's network configuration
 *
 * Keys are the reference bridge plugin's where it has one for the same thing;
 * ours are agentPolicy, agentSocket and stateDir. Unknown keys are tolerated. A
 * known key that asks for what this version can't do is an error that names it.
 */
#ifndef PLUGIN_CONF_H
#define PLUGIN_CONF_H

#include <stdbool.h>
#include <stdint.h>
#include <cjson/cJSON.h>

#include "common/err.h"
#include "ipam/cni.h"
#include "plugin/bandwidth.h"
#include "plugin/lanes.h"
#include "plugin/vlan.h"

#define PL_CONF_STATE_DIR "/var/lib/podlane/cni"
#define PL_CONF_AGENT_SOCKET "/run/podlane/agent.sock"
#define PL_CONF_BRIDGE "cni0"

/* Strings and objects point into json. */
struct pl_conf {
	const cJSON *json;
	const char *version, *name;	/* the network's; NULL: VERSION */
	const cJSON *prev;		/* prevResult; NULL: none */
	const char *bridge;
	bool is_gateway;		/* also by isDefaultGateway */
	bool is_default_gateway;
	bool force_address;
	bool hairpin, promisc;
	bool isolated;			/* portIsolation */
	bool dad;			/* enabledad */
	bool leave_pod_down;		/* disableContainerInterface */
	bool ip_masq;
	bool mac_check;			/* macspoofchk */
	bool snat, masq_all;		/* of port mappings */
	uint32_t mtu;			/* 0: not said */
	struct pl_lanes lanes;
	bool agent_required;		/* never for a pod without lanes */
	const char *agent_socket, *state_dir;
	const char *ipam_type;		/* "": no addresses */
	const cJSON *dns;		/* for the result; NULL: the IPAM's */
	const cJSON *runtime_dns;	/* goes before it; NULL: none */
	struct pl_bandwidth bandwidth;
	struct pl_vlan vlan;
	bool has_mac;
	uint8_t mac[6];			/* of the pod's interface */
};

/*
 * Read the configuration and CNI_ARGS (NULL: none). strict: refuse what is
 * wrong or can't be done. DEL and GC do not, since they configure nothing: what
 * can't be read has its default then, and it does not fail.
 */
int pl_conf_parse(const struct pl_cni_conf *doc, const char *args, bool strict,
		  struct pl_conf *c, struct pl_err *err);

#endif
