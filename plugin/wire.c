/* plugin/wire.c - the pod's ordinary network: bridge, veth pair, addresses */
#include "plugin/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_bridge.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "common/netns.h"
#include "common/util.h"

/* The first link of every namespace is its lo. */
#define LO_INDEX 1
/* Addresses that forceAddress removes from a bridge at most. */
#define CLASHES_MAX 64
/* Duplicate address detection takes a second or two. */
#define DAD_WAIT_MS 10000
#define DAD_STEP_MS 20
#define PORT_WAIT_US 100000
#define PORT_STEP_US 100

int pl_wire_random_mac(uint8_t *mac, struct pl_err *err)
{
	if (getrandom(mac, 6, 0) != 6)
		return pl_err_sys(err, "cannot get random bytes");
	mac[0] = (uint8_t)((mac[0] | 2) & ~1);	/* local, no group */
	return 0;
}

/*
 * Write a setting of the namespace that the thread is in, when it has another
 * value: reading is cheap, while writing some of them stops the network.
 */
static int set_sysctl(const char *path, char value, struct pl_err *err)
{
	pl_auto_fd fd = open(path, O_RDWR | O_CLOEXEC);
	char old = '\0';

	if (fd < 0)
		return pl_err_sys(err, "cannot open %s", path);
	if (pread(fd, &old, 1, 0) == 1 && old == value)
		return 0;
	if (pwrite(fd, &value, 1, 0) != 1)
		return pl_err_sys(err, "cannot write %c to %s", value, path);
	return 0;
}

/* --- the bridge --- */

/*
 * Pods are on that link: none of them shall make routes for the node, and all
 * of them hear when somebody gives it another MAC.
 */
static int set_up_bridge(const char *bridge, struct pl_err *err)
{
	static const struct {
		const char *family, *name;
		char value;
	} s[] = {
		{ "ipv6", "accept_ra", '0' },
		{ "ipv6", "ndisc_notify", '1' },
		{ "ipv4", "arp_notify", '1' },
	};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < PL_ARRAY_SIZE(s); i++) {
		char path[80];

		snprintf(path, sizeof(path), "/proc/sys/net/%s/conf/%s/%s",
			 s[i].family, bridge, s[i].name);
		rc = set_sysctl(path, s[i].value, err);
		/* A kernel without IPv6, or the bridge is gone again. */
		rc = rc == -ENOENT ? 0 : rc;
	}
	return rc;
}

static int find_or_make(struct pl_nl *host, const char *name, uint32_t mtu,
			struct pl_link *br, struct pl_err *err)
{
	uint8_t mac[6];
	int rc = pl_nl_link_get(host, name, br, err);

	if (rc != -ENODEV)
		return rc;
	/*
	 * A MAC that was given stays. Otherwise the bridge takes the lowest of
	 * its ports', and every pod's neighbour entry of the gateway is wrong
	 * when that pod goes.
	 */
	rc = pl_wire_random_mac(mac, err);
	if (rc == 0)
		rc = pl_nl_bridge_add(host, name, mtu, mac, err);
	if (rc == 0)
		rc = set_up_bridge(name, err);
	if (rc == 0 || rc == -EEXIST)
		rc = pl_nl_link_get(host, name, br, err);
	return rc;
}

int pl_wire_bridge(struct pl_nl *host, const struct pl_conf *c, uint32_t mtu,
		   struct pl_link *br, struct pl_err *err)
{
	unsigned int want = IFF_UP | (c->promisc ? IFF_PROMISC : 0);
	int rc = find_or_make(host, c->bridge, mtu, br, err);

	if (rc < 0)
		return rc;
	if (strcmp(br->kind, "bridge"))
		return pl_err_set(err, EEXIST,
				  "%s is there and is no bridge but %s; choose "
				  "another name for the key bridge", c->bridge,
				  *br->kind ? br->kind : "another interface");
	if ((br->flags & want) != want)
		rc = pl_nl_link_flags(host, br->index, want, want, err);
	if (rc == 0 && pl_vlan_any(&c->vlan))
		rc = pl_vlan_bridge(host, br, err);
	return rc;
}

/* --- the pair --- */

int pl_wire_pair(struct pl_nl *host, const struct pl_conf *c,
		 const struct pl_wire_pair *pair, const struct pl_link *br,
		 struct pl_link *port, struct pl_err *err)
{
	unsigned int flags = (c->hairpin ? PL_PORT_HAIRPIN : 0) |
			     (c->isolated ? PL_PORT_ISOLATED : 0);
	uint8_t mac[6], own_mac[6];
	struct pl_veth v = { .name = pair->host_name,
			     .peer_name = pair->pod_name,
			     .peer_netns_fd = pair->netns_fd,
			     .mtu = pair->mtu,
			     .mac = c->has_mac ? c->mac : mac,
			     .own_mac = own_mac,
			     .master = br->index,
			     .queues = 1 };
	int rc = pl_wire_random_mac(mac, err);

	if (rc == 0)
		rc = pl_wire_random_mac(own_mac, err);
	/*
	 * One queue: the kernel would make one per CPU, each with its folders
	 * in sysfs, and a pair that has neither a queueing discipline nor XDP
	 * does not use more than one.
	 *
	 * MACs in the request: then nobody "improves" them later (udev).
	 */
	if (rc == 0)
		rc = pl_nl_veth_add(host, &v, err);
	if (rc == 0)
		rc = pl_nl_link_get(host, pair->host_name, port, err);
	if (rc == 0 && flags)
		rc = pl_nl_port_set(host, port->index, flags, err);
	if (rc == 0 && pl_vlan_any(&c->vlan))
		rc = pl_vlan_port(host, &c->vlan, br, port, err);
	return rc;
}

/* --- inside the pod --- */

static bool has_family(const struct pl_result *r, int family)
{
	for (size_t i = 0; i < r->n_ips; i++) {
		if (r->ips[i].addr.addr.family == family)
			return true;
	}
	return false;
}

/*
 * Some runtimes make pods without IPv6 and expect the plugin to turn it on.
 * Without enabledad no address waits, the link-local one neither. What is
 * announced, here and by arp_notify, is asked for by pl_wire_announce.
 */
static const struct ipv6_sysctl {
	const char *link;	/* NULL: the pod's interface */
	const char *name;
	char value, value_dad;	/* with enabledad; 0: leave it */
} ipv6_sysctls[] = {
	{ "lo", "disable_ipv6", '0', '0' },
	{ NULL, "disable_ipv6", '0', '0' },
	{ NULL, "ndisc_notify", '1', '1' },
	{ NULL, "accept_dad", '0', '1' },
	/* Else a hairpin's echo of a probe counts as an answer. */
	{ NULL, "enhanced_dad", 0, '1' },
};

static int set_ipv6_sysctls(const char *ifname, const struct pl_conf *c,
			    struct pl_err *err)
{
	for (size_t i = 0; i < PL_ARRAY_SIZE(ipv6_sysctls); i++) {
		const struct ipv6_sysctl *s = &ipv6_sysctls[i];
		char value = c->dad ? s->value_dad : s->value;
		char path[96];

		if (!value)
			continue;
		snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/%s",
			 s->link ? s->link : ifname, s->name);
		if (set_sysctl(path, value, err) < 0)
			return -err->code;
	}
	return 0;
}

static void gateway_of(const struct pl_result *r, int family,
		       struct pl_addr *gw)
{
	for (size_t i = 0; i < r->n_ips; i++) {
		if (r->ips[i].gw.family != family)
			continue;
		*gw = r->ips[i].gw;
		return;
	}
}

static int add_route(struct pl_nl *nl, int index, const struct pl_result *r,
		     const struct pl_res_route *route, struct pl_err *err)
{
	struct pl_route k = { .dst = route->dst,
			      .gw = route->gw,
			      .index = index,
			      .mtu = route->opt[PL_ROUTE_MTU],
			      .advmss = route->opt[PL_ROUTE_ADVMSS],
			      .priority = route->opt[PL_ROUTE_PRIORITY],
			      .table = route->opt[PL_ROUTE_TABLE],
			      .scope = -1 };
	int rc;

	if (route->has & 1u << PL_ROUTE_SCOPE)
		k.scope = (int)route->opt[PL_ROUTE_SCOPE];
	/* A route of link scope has no gateway by definition. */
	if (!k.gw.family && k.scope < RT_SCOPE_LINK)
		gateway_of(r, k.dst.addr.family, &k.gw);
	rc = pl_nl_route_add(nl, &k, false, err);
	return rc == -EEXIST ? 0 : rc;
}

/* Until duplicate address detection is through. */
static int settle(struct pl_nl *nl, int index, struct pl_err *err)
{
	struct timespec step = { .tv_nsec = DAD_STEP_MS * 1000000L };
	int rc = pl_nl_addr_settled(nl, index, err);

	for (int i = 0; rc > 0 && i < DAD_WAIT_MS / DAD_STEP_MS; i++) {
		nanosleep(&step, NULL);
		rc = pl_nl_addr_settled(nl, index, err);
	}
	if (rc > 0)
		rc = pl_err_set(err, ETIMEDOUT, "the pod's IPv6 addresses are "
				"still tentative after %d s",
				DAD_WAIT_MS / 1000);
	return rc;
}

/*
 * The pod's end first: an end that comes up without a carrier is deactivated
 * again, for which the kernel waits for all RCU readers while nobody else can
 * change a link. The other order would be that, for the host's end; the pod's
 * gets its carrier in the same step as the host's comes up.
 */
static int bring_up(struct pl_nl *nl, const char *ifname,
		    const struct pl_conf *c, const struct pl_result *r,
		    struct pl_nl *host, const struct pl_link *port,
		    struct pl_err *err)
{
	int rc = 0, index = port->peer_index;

	if (!c->leave_pod_down) {
		if (has_family(r, AF_INET6))
			rc = set_ipv6_sysctls(ifname, c, err);
		if (rc == 0)
			rc = has_family(r, AF_INET) ?
			     pl_nl_link_up_notify(nl, index, err) :
			     pl_nl_link_set(nl, index, -1, 0, 1, err);
	}
	return rc == 0 ? pl_nl_link_set(host, port->index, -1, 0, 1, err) : rc;
}

static int configure(struct pl_nl *nl, const char *ifname,
		     const struct pl_conf *c, const struct pl_result *r,
		     struct pl_nl *host, const struct pl_link *port,
		     struct pl_link *pod, struct pl_err *err)
{
	int rc = pl_nl_link_set(nl, LO_INDEX, -1, 0, 1, err);

	if (rc == 0)
		rc = bring_up(nl, ifname, c, r, host, port, err);
	/* Also has the kernel see the carrier now, not some time later. */
	if (rc == 0)
		rc = pl_nl_link_get(nl, ifname, pod, err);
	if (rc < 0 || c->leave_pod_down)
		return rc;
	for (size_t i = 0; rc == 0 && i < r->n_ips; i++)
		rc = pl_nl_addr_add(nl, pod->index, &r->ips[i].addr, !c->dad,
				    err);
	for (size_t i = 0; rc == 0 && i < r->n_routes; i++)
		rc = add_route(nl, pod->index, r, &r->routes[i], err);
	return rc;
}

int pl_wire_pod(int netns_fd, const char *ifname, const struct pl_conf *c,
		const struct pl_result *r, struct pl_nl *host,
		const struct pl_link *port, struct pl_nl *nl,
		struct pl_link *pod, struct pl_err *err)
{
	int home, rc = pl_netns_enter(netns_fd, &home, err);

	if (rc < 0)
		return rc;
	rc = pl_nl_open(nl, -1, err);
	if (rc == 0)
		rc = configure(nl, ifname, c, r, host, port, pod, err);
	pl_netns_leave(home);
	if (rc == 0 && c->dad && has_family(r, AF_INET6))
		rc = settle(nl, pod->index, err);
	return rc;
}

/* 1: frames go through the bridge's port, 0: not yet. */
static int port_forwards(struct pl_nl *host, int index)
{
	struct pl_link port;

	if (pl_nl_link_by_index(host, index, &port, NULL) < 0)
		return 1;
	/* A spanning tree makes it wait for half a minute; we do not. */
	return port.port_state != BR_STATE_DISABLED;
}

void pl_wire_announce(struct pl_nl *host, const struct pl_link *port,
		      struct pl_nl *nl, const struct pl_link *pod)
{
	struct timespec step = { .tv_nsec = PORT_STEP_US * 1000L };

	/* The kernel learns of a new pair's carrier in a work queue. */
	for (int i = 0; i < PORT_WAIT_US / PORT_STEP_US; i++) {
		if (port_forwards(host, port->index))
			break;
		nanosleep(&step, NULL);
	}
	pl_nl_link_mac(nl, pod->index, pod->mac, NULL);
}

/* --- the gateway --- */

struct clash {
	const struct pl_prefix *want;
	const struct pl_result *r;
	struct pl_prefix found;
	bool same;
};

static bool is_gateway_of(const struct pl_result *r, const struct pl_addr *a)
{
	for (size_t i = 0; i < r->n_ips; i++) {
		if (pl_addr_equal(&r->ips[i].gw, a))
			return true;
	}
	return false;
}

/*
 * 1: the bridge has the address, or one that must not be beside it. IPv6
 * subnets may stand side by side, IPv4 ones only when they are of one result.
 */
static int look_at(const struct pl_prefix *a, void *arg)
{
	struct clash *c = arg;

	c->found = *a;
	c->same = pl_addr_equal(&a->addr, &c->want->addr) &&
		  a->len == c->want->len;
	if (c->same)
		return 1;
	if (a->addr.family != c->want->addr.family)
		return 0;
	if (pl_prefix_contains(a, &c->want->addr) ||
	    pl_prefix_contains(c->want, &a->addr))
		return 1;
	return a->addr.family == AF_INET && !is_gateway_of(c->r, &a->addr);
}

static int add_gateway(struct pl_nl *host, const struct pl_conf *conf,
		       const struct pl_link *br, struct clash *c,
		       struct pl_err *err)
{
	char want[PL_PREFIX_STRLEN], have[PL_PREFIX_STRLEN];
	int rc;

	for (int i = 0; i < CLASHES_MAX; i++) {
		rc = pl_nl_addr_each(host, br->index, look_at, c, err);
		if (rc < 0)
			return rc;
		if (rc > 0 && c->same)
			return 0;
		if (rc == 0)
			break;
		if (!conf->force_address)
			return pl_err_set(err, EADDRINUSE,
					  "bridge %s already has the address "
					  "%s, the gateway would be %s; remove "
					  "it or set forceAddress", br->name,
					  pl_prefix_str(&c->found, have),
					  pl_prefix_str(c->want, want));
		rc = pl_nl_addr_del(host, br->index, &c->found, err);
		if (rc < 0 && rc != -EADDRNOTAVAIL)
			return rc;
	}
	rc = pl_nl_addr_add(host, br->index, c->want, true, err);
	return rc == -EEXIST ? 0 : rc;
}

static int forward(struct pl_nl *host, const struct pl_result *r,
		   struct pl_err *err)
{
	static const struct {
		int family;
		const char *path;
	} s[] = {
		{ AF_INET, "/proc/sys/net/ipv4/ip_forward" },
		{ AF_INET6, "/proc/sys/net/ipv6/conf/all/forwarding" },
	};
	int rc = 0;

	for (size_t i = 0; rc >= 0 && i < PL_ARRAY_SIZE(s); i++) {
		if (!has_family(r, s[i].family))
			continue;
		rc = pl_nl_forwards(host, s[i].family, err);
		if (rc == 0)
			rc = set_sysctl(s[i].path, '1', err);
	}
	return rc < 0 ? rc : 0;
}

/*
 * Another pod had the address not long ago, and the node would send to that
 * one's MAC until the entry expires.
 */
static int forget(struct pl_nl *host, const struct pl_link *br,
		  const struct pl_addr *ip, struct pl_err *err)
{
	int rc = pl_nl_neigh_del(host, br->index, ip, err);

	return rc == -ENOENT ? 0 : rc;
}

int pl_wire_gateway(struct pl_nl *host, const struct pl_conf *c,
		    const struct pl_link *br, const struct pl_result *r,
		    struct pl_err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < r->n_ips; i++) {
		struct pl_prefix gw = { r->ips[i].gw, r->ips[i].addr.len };
		struct clash clash = { .want = &gw, .r = r };

		if (gw.addr.family)
			rc = add_gateway(host, c, br, &clash, err);
		if (rc == 0)
			rc = forget(host, br, &r->ips[i].addr.addr, err);
	}
	return rc == 0 ? forward(host, r, err) : rc;
}
