/*
 * ipam/ipam.h - addresses for pods: the allocator as a library
 *
 * Compatible with host-local of containernetworking/plugins in its
 * configuration and in its directory, dataDir/NETWORK. Each function takes the
 * directory's lock, does its work and leaves; nothing stays open and there is
 * nothing to initialise. Any number of processes (and of host-local) may work
 * on one directory.
 *
 * An attachment is (network, container ID, interface name). Whatever
 * instruction a process dies at, an address is either reserved for the
 * attachment (and DEL, GC or the next boot give it back) or free. ipam/store.c
 * tells how.
 */
#ifndef IPAM_IPAM_H
#define IPAM_IPAM_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cjson/cJSON.h>

#include "common/err.h"
#include "common/inet.h"
#include "ipam/cni.h"

#define PL_IPAM_DATA_DIR "/var/lib/cni/networks"
#define PL_IPAM_MAX_SETS 16	/* addresses per attachment */
#define PL_IPAM_MAX_RANGES 32	/* in all sets of a configuration */
/*
 * Of a larger range only the first addresses are handed out by themselves; any
 * of them can be requested.
 */
#define PL_IPAM_RANGE_SPAN (1u << 20)

/* Where the reservations of a network are; all that DEL and GC need. */
struct pl_ipam_where {
	char data_dir[PATH_MAX];
	char network[PL_CNI_NAME_MAX + 1];
};

struct pl_ipam_range {
	struct pl_prefix subnet;
	struct pl_addr start, end;	/* inclusive */
	struct pl_addr gateway;
	unsigned int set;		/* one address comes from each set */
};

struct pl_ipam_config {
	struct pl_ipam_where where;
	struct pl_ipam_range ranges[PL_IPAM_MAX_RANGES];	/* by set */
	unsigned int n_ranges, n_sets;
	struct pl_addr requested[PL_IPAM_MAX_SETS];
	unsigned int n_requested;
	const cJSON *routes;		/* checked, in netconf; or NULL */
	char resolv_conf[PATH_MAX];	/* "": none */
};

/*
 * netconf: the whole network configuration, with its "ipam", "runtimeConfig"
 * and "args"; it must outlive cfg. cni_args: CNI_ARGS or NULL. Requested
 * addresses come from runtimeConfig.ips, else args.cni.ips, else IP of
 * CNI_ARGS; runtimeConfig.ipRanges go before the configuration's own. Errors
 * name the key and the value.
 */
int pl_ipam_config_parse(const cJSON *netconf, const char *cni_args,
			 struct pl_ipam_config *cfg, struct pl_err *err);

/*
 * The part of it that says where. Takes a configuration without "ipam", and
 * one whose ranges are wrong: an address must be given back all the same.
 */
int pl_ipam_where_parse(const cJSON *netconf, struct pl_ipam_where *where,
			struct pl_err *err);

struct pl_ipam_ip {
	struct pl_prefix address;	/* with the length of its subnet */
	struct pl_addr gateway;
};

struct pl_ipam_result {
	struct pl_ipam_ip ips[PL_IPAM_MAX_SETS];	/* one per set */
	unsigned int n_ips;
	bool existed;	/* all of it was reserved already */
};

/* pl_ipam_add: an attachment that has addresses gets the same ones again. */
#define PL_IPAM_REUSE 1u

/*
 * Reserve one address of each range set, all or none. Errors, as pl_cni_code
 * gives them: PL_CNI_EXHAUSTED, PL_CNI_IN_USE (a requested address),
 * PL_CNI_DUPLICATE (the attachment has addresses, without PL_IPAM_REUSE; they
 * stay), PL_CNI_TRY_AGAIN (the lock is held for too long), PL_CNI_IO.
 */
int pl_ipam_add(const struct pl_ipam_config *cfg, const char *container_id,
		const char *ifname, unsigned int flags,
		struct pl_ipam_result *out, struct pl_err *err);

/* Give all addresses of the attachment back. Having none is success. */
int pl_ipam_del(const struct pl_ipam_where *where, const char *container_id,
		const char *ifname, struct pl_err *err);

/*
 * The attachment has a reservation for each of these addresses; with n_addrs 0,
 * any at all. PL_CNI_CHECK_FAILED tells what is missing.
 */
int pl_ipam_check(const struct pl_ipam_where *where, const char *container_id,
		  const char *ifname, const struct pl_addr *addrs,
		  size_t n_addrs, struct pl_err *err);

struct pl_ipam_key {
	const char *container_id;
	const char *ifname;
};

/*
 * Give back what belongs to no attachment of the list. Goes on past errors and
 * reports the first one. *dropped (or NULL): number of addresses given back.
 */
int pl_ipam_gc(const struct pl_ipam_where *where,
	       const struct pl_ipam_key *valid, size_t n_valid,
	       unsigned int *dropped, struct pl_err *err);

/* An ADD without a requested address could be served; PL_CNI_NOT_AVAILABLE. */
int pl_ipam_status(const struct pl_ipam_config *cfg, struct pl_err *err);

struct pl_ipam_entry {
	struct pl_addr addr;
	const char *container_id;
	const char *ifname;		/* "": of an old host-local */
};

/*
 * Every reservation, in the order of the directory, under the lock (so fn must
 * not call back here). fn returns 0 to go on; anything else ends the list and
 * is returned.
 */
int pl_ipam_list(const struct pl_ipam_where *where,
		 int (*fn)(const struct pl_ipam_entry *e, void *arg), void *arg,
		 struct pl_err *err);

struct pl_ipam_problem {
	const char *file;		/* in the network's directory */
	const char *text;		/* "is empty ..." */
};

/*
 * Is the network's directory in order? fn as for pl_ipam_list, for each
 * problem; *reserved: how many reservations there are. Changes nothing. A
 * directory that does not exist is in order.
 */
int pl_ipam_verify(const struct pl_ipam_where *where,
		   int (*fn)(const struct pl_ipam_problem *p, void *arg),
		   void *arg, unsigned int *reserved, struct pl_err *err);

/* Give one address back, whoever has it. -ENOENT: nobody. */
int pl_ipam_release(const struct pl_ipam_where *where,
		    const struct pl_addr *addr, struct pl_err *err);

struct pl_ipam_usage {
	struct pl_prefix subnet;
	uint64_t total;		/* that may be handed out without being named */
	uint64_t used;
};

/*
 * How many addresses of each range are taken: one element for each of
 * cfg->ranges. Reads the directory without its lock, so that nobody is waited
 * for; what is made or given back in that moment is counted or not.
 */
int pl_ipam_usage(const struct pl_ipam_config *cfg,
		  struct pl_ipam_usage out[PL_IPAM_MAX_RANGES],
		  struct pl_err *err);

/*
 * The result document of an IPAM plugin ("ips", "routes", "dns") in the form of
 * that CNI version; to be deleted by the caller. Reads cfg->resolv_conf.
 */
int pl_ipam_result_doc(const struct pl_ipam_config *cfg,
		       const struct pl_ipam_result *res,
		       const char *version_text, cJSON **out,
		       struct pl_err *err);

#endif
