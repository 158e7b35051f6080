/*
 * plugin/result.h - the result of ADD, apart from the shape of any version
 *
 * A result is read from what an IPAM plugin or an earlier plugin printed, and
 * printed in the shape of the version that the configuration asks for:
 *
 *   0.1.0, 0.2.0     one address of each family, in "ip4" and "ip6"
 *   0.3.0 to 0.4.0   ips[] carry "version": "4" | "6"
 *   1.0.0            they do not
 *   1.1.0            interfaces[] and routes[] have more fields
 *
 * A field that the version does not know is left out.
 */
#ifndef PLUGIN_RESULT_H
#define PLUGIN_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cjson/cJSON.h>

#include "common/err.h"
#include "common/inet.h"

#define PL_RESULT_MAC_BYTES 64

struct pl_res_if {
	char name[16];
	char mac[PL_RESULT_MAC_BYTES];	/* "": none */
	uint32_t mtu;			/* 0: not said */
	char *sandbox;			/* NULL: on the host */
	char *socket_path;		/* NULL: none */
	char *pci_id;			/* NULL: none */
};

struct pl_res_ip {
	struct pl_prefix addr;
	struct pl_addr gw;		/* family 0: none */
	int ifindex;			/* in the list of interfaces; -1 */
};

/* Absent and 0 differ in these. */
enum pl_res_route_opt {
	PL_ROUTE_MTU,
	PL_ROUTE_ADVMSS,
	PL_ROUTE_PRIORITY,
	PL_ROUTE_TABLE,
	PL_ROUTE_SCOPE,
	PL_ROUTE_OPTS,
};

struct pl_res_route {
	struct pl_prefix dst;
	struct pl_addr gw;		/* family 0: the gateway of the ips */
	unsigned int has;		/* 1 << PL_ROUTE_x */
	uint32_t opt[PL_ROUTE_OPTS];
};

/* Zeroed is empty. */
struct pl_result {
	struct pl_res_if *ifs;
	struct pl_res_ip *ips;
	struct pl_res_route *routes;
	size_t n_ifs, n_ips, n_routes;
	cJSON *dns;			/* NULL: none */
};

void pl_result_fini(struct pl_result *r);

/*
 * Each appends a zeroed element and returns it, NULL when out of memory. The
 * pointer lives until the next append.
 */
struct pl_res_if *pl_result_if(struct pl_result *r);
struct pl_res_ip *pl_result_ip(struct pl_result *r);
struct pl_res_route *pl_result_route(struct pl_result *r);

/* The place of the pod's interface of that name in r's list; -1: none. */
int pl_result_find(const struct pl_result *r, const char *ifname);

/* Reads any of the versions. On failure r is empty. */
int pl_result_parse(const cJSON *json, struct pl_result *r,
		    struct pl_err *err);

/* version must be a supported one. NULL when out of memory. */
cJSON *pl_result_print(const struct pl_result *r, const char *version);

#endif
