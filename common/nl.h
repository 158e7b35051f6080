/*
 * common/nl.h - links, addresses, routes by libnl, with our errors
 *
 * A pl_nl is one route netlink socket, bound to the namespace that the thread
 * was in when it was opened. Calls are synchronous. Not for several threads at
 * once. libnl's error numbers are translated here and nowhere else; the codes
 * that are returned are the kernel's, and the message carries its own words
 * where it has some.
 *
 * A dump (..._each) that a change interrupted is repeated until it is whole,
 * and only then the callbacks run: none of them sees an entry twice, and they
 * may use the same pl_nl. A callback that returns nonzero ends the walk, and
 * that value is returned.
 */
#ifndef COMMON_NL_H
#define COMMON_NL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/inet.h"

struct nl_sock;

struct pl_nl {
	struct nl_sock *sock;
};

#define PL_IFNAME_BYTES 16

/* A port of a bridge. */
enum pl_port_flags {
	PL_PORT_HAIRPIN = 1,	/* frames may leave as they came in */
	PL_PORT_ISOLATED = 2,	/* none to and from other isolated ports */
};

struct pl_link {
	int index;
	int master;		/* 0: none */
	int peer_index;		/* a veth's other end, else 0 */
	unsigned int flags;	/* IFF_... */
	uint32_t mtu;
	uint8_t port_state;	/* of a bridge's port: BR_STATE_... */
	uint8_t port_flags;	/* PL_PORT_... */
	uint8_t mac[6];
	char name[PL_IFNAME_BYTES];
	char kind[16];		/* "veth", "bridge", "vxlan", "" */
};

/* netns_fd: open it in that namespace; -1: the current one. */
int pl_nl_open(struct pl_nl *nl, int netns_fd, struct pl_err *err);
/* A netfilter socket of the current namespace, for pl_nl_nft_ and pl_nl_ct_. */
int pl_nl_open_netfilter(struct pl_nl *nl, struct pl_err *err);
void pl_nl_close(struct pl_nl *nl);

/* -ENODEV when there is none. */
int pl_nl_link_get(struct pl_nl *nl, const char *name, struct pl_link *out,
		   struct pl_err *err);
/* One call for the current namespace; true also when nobody can say. */
bool pl_nl_link_is_there(const char *name);
int pl_nl_link_by_index(struct pl_nl *nl, int index, struct pl_link *out,
			struct pl_err *err);
/* Each link of the namespace. */
int pl_nl_link_each(struct pl_nl *nl,
		    int (*fn)(const struct pl_link *link, void *arg),
		    void *arg, struct pl_err *err);
int pl_nl_link_del(struct pl_nl *nl, int index, struct pl_err *err);
/*
 * The same for programs that are about to exit, such as a CNI plugin: returns
 * once the kernel has announced that the link is gone (under 1 ms). The request
 * itself waits some 15 ms more for RCU before memory is freed; a child without
 * descriptors does that. In the calling thread's namespace. See
 * docs/decisions.md.
 */
int pl_nl_link_del_quick(int index, struct pl_err *err);

/* -EEXIST when the name is taken. mac NULL: the kernel's choice. */
int pl_nl_bridge_add(struct pl_nl *nl, const char *name, uint32_t mtu,
		     const uint8_t *mac, struct pl_err *err);

struct pl_veth {
	const char *name;		/* here */
	const char *peer_name;		/* in peer_netns_fd */
	int peer_netns_fd;		/* -1: here */
	uint32_t mtu;			/* 0: the kernel's */
	const uint8_t *mac;		/* of the peer; NULL: the kernel's */
	const uint8_t *own_mac;		/* of our end; the same */
	int master;			/* of our end; 0: none */
	bool up;			/* set our end up in the same request */
	uint32_t queues;	/* each way, both ends; 0: the kernel's */
};
/*
 * One request makes both ends where they belong. The peer is down: the kernel
 * configures it before it has its other end, and refuses to bring it up then.
 */
int pl_nl_veth_add(struct pl_nl *nl, const struct pl_veth *v,
		   struct pl_err *err);

struct pl_vxlan {
	const char *name;
	uint32_t vni;
	struct pl_addr local;		/* the node's address */
	uint16_t port;			/* UDP */
	int link;			/* underlay's index; 0: by route */
	uint32_t mtu;			/* 0: the kernel's */
	const uint8_t *mac;		/* NULL: the kernel's */
	bool learning;			/* of addresses from traffic */
};
/* Made down. -EEXIST when the name, or the vni on that port, is taken. */
int pl_nl_vxlan_add(struct pl_nl *nl, const struct pl_vxlan *v,
		    struct pl_err *err);
/*
 * A vxlan device that is there: link's name, mac and mtu, v's other members
 * (name and mac are NULL). -ENODEV: none; -EEXIST: of another kind.
 */
int pl_nl_vxlan_get(struct pl_nl *nl, const char *name, struct pl_link *link,
		    struct pl_vxlan *v, struct pl_err *err);

/* master: -1 leave, 0 release. mtu 0: leave. up: -1 leave, 0 down, 1 up. */
int pl_nl_link_set(struct pl_nl *nl, int index, int master, uint32_t mtu,
		   int up, struct pl_err *err);

/* Of mask's IFF_... flags, set those in flags and clear the others. */
int pl_nl_link_flags(struct pl_nl *nl, int index, unsigned int mask,
		     unsigned int flags, struct pl_err *err);
/*
 * Bring it up, with the sysctl net.ipv4.conf.LINK.arp_notify on: without a walk
 * through /proc/sys, which gets longer with each namespace that has a link of
 * that name.
 */
int pl_nl_link_up_notify(struct pl_nl *nl, int index, struct pl_err *err);
/* Set these of a port; the others stay. */
int pl_nl_port_set(struct pl_nl *nl, int index, unsigned int flags,
		   struct pl_err *err);
/*
 * Even when it is the one that the link has: the kernel then announces the
 * link's addresses, where the sysctls arp_notify and ndisc_notify say so.
 */
int pl_nl_link_mac(struct pl_nl *nl, int index, const uint8_t *mac,
		   struct pl_err *err);

/* -EEXIST when it is there. nodad: no duplicate address detection (IPv6). */
int pl_nl_addr_add(struct pl_nl *nl, int index, const struct pl_prefix *addr,
		   bool nodad, struct pl_err *err);
int pl_nl_addr_del(struct pl_nl *nl, int index, const struct pl_prefix *addr,
		   struct pl_err *err);
/*
 * Duplicate address detection of the link's IPv6 addresses: 0 when it is
 * through, 1 while it is not, -EADDRINUSE when one of them is another's.
 */
int pl_nl_addr_settled(struct pl_nl *nl, int index, struct pl_err *err);
/*
 * index 0: of every link. Of one link the kernel does not say that a change
 * interrupted the dump: it is whole where it fits into one part, some hundreds
 * of addresses.
 */
int pl_nl_addr_each(struct pl_nl *nl, int index,
		    int (*fn)(const struct pl_prefix *addr, void *arg),
		    void *arg, struct pl_err *err);
/* The link that has this address; -EADDRNOTAVAIL when none does. */
int pl_nl_addr_find(struct pl_nl *nl, const struct pl_addr *addr, int *index,
		    struct pl_err *err);

struct pl_route {
	struct pl_prefix dst;		/* len 0: default */
	struct pl_addr gw;		/* family 0: on link */
	int index;			/* output link */
	bool onlink;			/* gw is taken to be on the link */
	uint32_t mtu, advmss, priority, table;	/* 0: unset, main */
	int scope;			/* -1: the usual for gw */
};
/*
 * replace: takes the place of the route with this dst, priority and table, via
 * whatever link that is. Otherwise -EEXIST.
 */
int pl_nl_route_add(struct pl_nl *nl, const struct pl_route *r, bool replace,
		    struct pl_err *err);
int pl_nl_route_del(struct pl_nl *nl, const struct pl_route *r,
		    struct pl_err *err);
/*
 * Unicast routes of all tables; family 0: both. table is 0 for main, scope as
 * the kernel has it; a route of several hops has index 0 and no gw.
 */
int pl_nl_route_each(struct pl_nl *nl, int family,
		     int (*fn)(const struct pl_route *r, void *arg), void *arg,
		     struct pl_err *err);

/*
 * Whether the namespace forwards packets of that family: 1, 0. For the reason
 * that is with pl_nl_link_up_notify, not from /proc/sys.
 */
int pl_nl_forwards(struct pl_nl *nl, int family, struct pl_err *err);

/*
 * The link by which packets to addr leave; direct: not by a router.
 * -ENETUNREACH: there is no way.
 */
int pl_nl_route_to(struct pl_nl *nl, const struct pl_addr *addr, int *index,
		   bool *direct, struct pl_err *err);

/* --- nl_vlan.c ------------------------------------------------------------ */

/* -EOPNOTSUPP: the kernel was built without VLANs of bridges. */
struct pl_bridge_vlans {
	bool filtering;
	uint16_t default_pvid;		/* 0: none */
};
int pl_nl_bridge_vlans(struct pl_nl *nl, int index, struct pl_bridge_vlans *out,
		       struct pl_err *err);
/* The bridge looks at VLANs from now on. */
int pl_nl_bridge_filter(struct pl_nl *nl, int index, struct pl_err *err);
/* access: untagged, and what comes without a tag is of this VLAN. */
int pl_nl_port_vlan_add(struct pl_nl *nl, int index, uint16_t first,
			uint16_t last, bool access, struct pl_err *err);
int pl_nl_port_vlan_del(struct pl_nl *nl, int index, uint16_t vid,
			struct pl_err *err);

/* --- nl_tc.c -------------------------------------------------------------- */

/* Up, with one queue. -EEXIST. mtu 0: the kernel's. */
int pl_nl_ifb_add(struct pl_nl *nl, const char *name, uint32_t mtu,
		  struct pl_link *out, struct pl_err *err);

/* A token bucket; a packet longer than the burst never passes. */
struct pl_tbf {
	uint64_t bytes_per_s;
	uint32_t burst_bytes;
	uint32_t queue_bytes;		/* what waits at most */
};
/* Limit what the link sends. -EEXIST: it has such a limit already. */
int pl_nl_tbf_add(struct pl_nl *nl, int index, const struct pl_tbf *t,
		  struct pl_err *err);
/* -ENOENT: none. burst_bytes is 0: the kernel has it as a time of 32 bits. */
int pl_nl_tbf_get(struct pl_nl *nl, int index, struct pl_tbf *out,
		  struct pl_err *err);
/* What the link sends is late, and limited if bytes_per_s is not 0. */
struct pl_netem {
	uint64_t bytes_per_s, delay_ns;
	uint32_t packets;		/* that wait at most */
};
int pl_nl_netem_add(struct pl_nl *nl, int index, const struct pl_netem *e,
		    struct pl_err *err);
/* All that the link receives goes to the ifb device instead. -EEXIST. */
int pl_nl_redirect_add(struct pl_nl *nl, int index, int to,
		       struct pl_err *err);
/* -ENOENT: none. */
int pl_nl_redirect_get(struct pl_nl *nl, int index, int *to,
		       struct pl_err *err);

/* Permanent neighbour; replaces one that is there. */
int pl_nl_neigh_set(struct pl_nl *nl, int index, const struct pl_addr *ip,
		    const uint8_t *mac, struct pl_err *err);
int pl_nl_neigh_del(struct pl_nl *nl, int index, const struct pl_addr *ip,
		    struct pl_err *err);
struct pl_neigh {
	struct pl_addr ip;		/* an fdb entry: the node behind mac */
	uint8_t mac[6];
	bool permanent;
};
/* Neighbours of both families that have a MAC. */
int pl_nl_neigh_each(struct pl_nl *nl, int index,
		     int (*fn)(const struct pl_neigh *n, void *arg), void *arg,
		     struct pl_err *err);
/* vxlan: frames to mac go to the node at dst. Replaces. */
int pl_nl_fdb_set(struct pl_nl *nl, int index, const uint8_t *mac,
		  const struct pl_addr *dst, struct pl_err *err);
/* dst NULL: wherever they go. */
int pl_nl_fdb_del(struct pl_nl *nl, int index, const uint8_t *mac,
		  const struct pl_addr *dst, struct pl_err *err);
int pl_nl_fdb_each(struct pl_nl *nl, int index,
		   int (*fn)(const struct pl_neigh *n, void *arg), void *arg,
		   struct pl_err *err);

/*
 * Forget the connections of the protocol that began as packets to what is
 * wanted. Returns how many there were.
 */
int pl_nl_ct_forget(struct pl_nl *nl, int family, int proto,
		    bool (*wanted)(const struct pl_addr *dst, uint16_t port,
				   void *arg),
		    void *arg, struct pl_err *err);

/*
 * Whether nftables have this table. family: NFPROTO_... -ENOENT when they do
 * not, or the kernel has no nftables. *dormant: its rules are switched off.
 */
int pl_nl_nft_table(struct pl_nl *nl, int family, const char *table,
		    bool *dormant, struct pl_err *err);

#endif
