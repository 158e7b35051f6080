/*
 * plugin/vlan.h - VLANs of a pod's port
 *
 * Keys are the reference bridge plugin's: "vlan" makes the port an access port
 * of that VLAN, "vlanTrunk" lets more of them through with their tags. With
 * "preserveDefaultVlan" (true) the port stays in the bridge's own VLAN, too.
 *
 * The gateway of an access port must be in its VLAN: its addresses are on a
 * link named BRIDGE.VLAN, one end of a pair whose other end is an access port.
 * It is shared by the pods of that VLAN and stays, as the bridge does.
 */
#ifndef PLUGIN_VLAN_H
#define PLUGIN_VLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <cjson/cJSON.h>

#include "common/nl.h"

#define PL_VLAN_MAX 4094

struct pl_vlan {
	uint16_t access;		/* 0: none */
	bool has_trunk, keep_default;
	uint8_t trunk[(PL_VLAN_MAX + 8) / 8];	/* a bit per VLAN */
};

int pl_vlan_parse(const cJSON *json, struct pl_vlan *v, struct pl_err *err);

/* A configuration without VLANs costs nothing. */
static inline bool pl_vlan_any(const struct pl_vlan *v)
{
	return v->access || v->has_trunk;
}

/* The bridge looks at VLANs from now on. */
int pl_vlan_bridge(struct pl_nl *host, const struct pl_link *br,
		   struct pl_err *err);

/* Put a new port of the bridge into its VLANs. */
int pl_vlan_port(struct pl_nl *host, const struct pl_vlan *v,
		 const struct pl_link *br, const struct pl_link *port,
		 struct pl_err *err);

/* Find or make the link that has the gateway's addresses; *gw is up. */
int pl_vlan_gateway(struct pl_nl *host, const struct pl_vlan *v,
		    const struct pl_link *br, struct pl_link *gw,
		    struct pl_err *err);

#endif
