/* plugin/wire.c - the pod's ordinary network: bridge, veth pair, addresses */
#include "plugin/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/netns.h"
#include "common/util.h"

/* The first link of every namespace is its lo. */
#define LO_INDEX 1
/* Addresses that forceAddress removes from a bridge at most. */
#define CLASHES_MAX 64

static int random_mac(uint8_t *mac, struct pl_err *err)
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
	rc = random_mac(mac, err);
	if (rc == 0)
		rc = pl_nl_bridge_add(host, name, mtu, mac, err);
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
	if ((br->flags & want) == want)
		return 0;
	return pl_nl_link_flags(host, br->index, want, want, err);
}

/* --- the pair --- */

int pl_wire_pair(struct pl_nl *host, const struct pl_conf *c,
		 const struct pl_wire_pair *pair, const struct pl_link *br,
		 struct pl_link *port, struct pl_err *err)
{
	uint8_t mac[6];
	struct pl_veth v = { .name = pair->host_name,
			     .peer_name = pair->pod_name,
			     .peer_netns_fd = pair->netns_fd,
			     .mtu = pair->mtu,
			     .mac = c->has_mac ? c->mac : mac,
			     .master = br->index,
			     .up = true,
			     .queues = 1 };
	int rc = random_mac(mac, err);

	/*
	 * One queue: the kernel would make one per CPU, each with its folders
	 * in sysfs, and a pair that has neither a queueing discipline nor XDP
	 * does not use more than one.
	 *
	 * A MAC in the request: then nobody "improves" it later (udev).
	 */
	if (rc == 0)
		rc = pl_nl_veth_add(host, &v, err);
	if (rc == 0)
		rc = pl_nl_link_get(host, pair->host_name, port, err);
	if (rc == 0 && c->hairpin)
		rc = pl_nl_port_hairpin(host, port->index, true, err);
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

/* Some runtimes make pods without IPv6 and expect the plugin to turn it on. */
static int enable_ipv6(const char *ifname, struct pl_err *err)
{
	const char *names[] = { "lo", ifname };
	char path[80];

	for (size_t i = 0; i < PL_ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path),
			 "/proc/sys/net/ipv6/conf/%s/disable_ipv6", names[i]);
		if (set_sysctl(path, '0', err) < 0)
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

static int configure(struct pl_nl *nl, const char *ifname,
		     const struct pl_result *r, struct pl_link *pod,
		     struct pl_err *err)
{
	int rc = pl_nl_link_set(nl, LO_INDEX, -1, 0, 1, err);

	if (rc == 0)
		rc = pl_nl_link_get(nl, ifname, pod, err);
	if (rc == 0 && has_family(r, AF_INET6))
		rc = enable_ipv6(ifname, err);
	if (rc == 0)
		rc = pl_nl_link_set(nl, pod->index, -1, 0, 1, err);
	for (size_t i = 0; rc == 0 && i < r->n_ips; i++)
		rc = pl_nl_addr_add(nl, pod->index, &r->ips[i].addr, true, err);
	for (size_t i = 0; rc == 0 && i < r->n_routes; i++)
		rc = add_route(nl, pod->index, r, &r->routes[i], err);
	return rc;
}

int pl_wire_pod(int netns_fd, const char *ifname, const struct pl_result *r,
		struct pl_link *pod, struct pl_err *err)
{
	struct pl_nl nl;
	int home, rc = pl_netns_enter(netns_fd, &home, err);

	if (rc < 0)
		return rc;
	rc = pl_nl_open(&nl, -1, err);
	if (rc == 0) {
		rc = configure(&nl, ifname, r, pod, err);
		pl_nl_close(&nl);
	}
	pl_netns_leave(home);
	return rc;
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

static int forward(const struct pl_result *r, struct pl_err *err)
{
	int rc = 0;

	if (has_family(r, AF_INET))
		rc = set_sysctl("/proc/sys/net/ipv4/ip_forward", '1', err);
	if (rc == 0 && has_family(r, AF_INET6))
		rc = set_sysctl("/proc/sys/net/ipv6/conf/all/forwarding", '1',
				err);
	return rc;
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
	return rc == 0 ? forward(r, err) : rc;
}
