/*
 * plugin/port.h - a port of the node that leads into a pod, as the maps of
 * nftables' table inet podlane_ports name it
 */
#ifndef PLUGIN_PORT_H
#define PLUGIN_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/inet.h"

struct pl_port {
	struct pl_addr ip;	/* of the node; of family only where any_ip */
	bool any_ip;
	uint8_t proto;		/* IPPROTO_... */
	uint16_t number;
};

#define PL_PORT_STRLEN (INET6_ADDRSTRLEN + 32)

/* The map that it is in, and its key there; buf of PL_PORT_STRLEN. */
const char *pl_port_map(const struct pl_port *p);
const char *pl_port_key(const struct pl_port *p, char *buf);

/* The same backwards. false: the map is none of ports, or it is no such key. */
bool pl_port_read(const char *map, const char *key, struct pl_port *p);

/* "8080 (tcp)" or "8080 (tcp) of 192.0.2.1"; buf of PL_PORT_STRLEN. */
const char *pl_port_str(const struct pl_port *p, char *buf);

#endif
