/*
 * plugin/check.c - CHECK and STATUS
 *
 * CHECK compares what is there with prevResult, which is the last word of the
 * whole chain: what a later plugin changed and reported is right.
 */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/json.h"
#include "common/netns.h"
#include "common/nl.h"
#include "common/util.h"
#include "plugin/address.h"
#include "plugin/nft.h"
#include "plugin/plugin.h"
#include "plugin/result.h"
#include "plugin/rules_call.h"

#define failed(err, ...) pl_cni_err(err, PL_CNI_CHECK_FAILED, __VA_ARGS__)

int pl_open_netns(const struct pl_call *c, int *fd, struct pl_err *err)
{
	pl_auto_fd own = -1;
	int rc = pl_netns_open(c->env.netns, fd, err);

	if (rc == 0)
		rc = pl_netns_open("/proc/self/ns/net", &own, err);
	if (rc == 0 && !c->env.netns_override && pl_netns_same(*fd, own))
		rc = pl_err_set(err, EINVAL, "CNI_NETNS %s is the plugin's own "
				"network namespace", c->env.netns);
	if (rc == 0)
		return 0;
	err->code = PL_CNI_ERR_BASE + PL_CNI_INVALID_NETNS;
	return -err->code;
}

struct check {
	struct pl_call *c;
	int netns;
	struct pl_result prev;
	const struct pl_res_if *eth;	/* the pod's interface in prev */
	int eth_index;			/* its place in prev */
	struct pl_nl host, pod;
	struct pl_link port, link;	/* the host's end, the pod's end */
};

/* --- what the configuration and prevResult say --- */

static int read_prev(struct check *k, struct pl_err *err)
{
	const struct pl_attach *at = &k->c->at;
	int rc = pl_result_parse(k->c->conf.prev, &k->prev, err);

	if (rc < 0) {
		pl_err_prefix(err, "prevResult");
		return rc;
	}
	k->eth_index = pl_result_find(&k->prev, at->ifname);
	if (k->eth_index >= 0)
		k->eth = &k->prev.ifs[k->eth_index];
	return 0;
}

static int check_record(struct check *k, bool *chained, bool *lanes,
			struct pl_err *err)
{
	struct pl_record rec;
	int rc = pl_record_open(k->c->conf.state_dir, &k->c->at, 0, &rec, err);

	if (rc == -ENOENT)
		return failed(err, "container %s has no %s in network %s",
			      k->c->at.id, k->c->at.ifname, k->c->at.network);
	if (rc < 0)
		return rc;
	if (!rec.json)
		rc = failed(err, "%s is damaged", rec.path);
	else if (!rec.done || rec.old_boot)
		rc = failed(err, "ADD did not come to its end");
	else
		rc = pl_json_bool(rec.json, "", "chained", chained, err);
	if (rc >= 0)
		rc = pl_json_bool(rec.json, "", "lanes", lanes, err);
	pl_record_close(&rec);
	return rc < 0 ? rc : 0;
}

/* --- links --- */

/* What the configuration asks of the port; more may have been set. */
static int check_port_flags(const struct pl_conf *c, const struct pl_link *l,
			    struct pl_err *err)
{
	if (c->hairpin && !(l->port_flags & PL_PORT_HAIRPIN))
		return failed(err, "%s is not in hairpin mode", l->name);
	if (c->isolated && !(l->port_flags & PL_PORT_ISOLATED))
		return failed(err, "%s is not isolated", l->name);
	return 0;
}

static int check_port(struct check *k, struct pl_err *err)
{
	const char *bridge = k->c->conf.bridge;
	char name[PL_IFNAME_BYTES];
	struct pl_link br;

	pl_record_host_ifname(&k->c->at, name);
	if (pl_nl_link_get(&k->host, bridge, &br, err) < 0 ||
	    pl_nl_link_get(&k->host, name, &k->port, err) < 0)
		return failed(err, "%s or bridge %s is missing", name, bridge);
	if (k->port.master != br.index)
		return failed(err, "%s is not in bridge %s", name, bridge);
	if (!(k->port.flags & br.flags & IFF_UP))
		return failed(err, "%s or bridge %s is down", name, bridge);
	if (k->c->conf.promisc && !(br.flags & IFF_PROMISC))
		return failed(err, "bridge %s is not promiscuous", bridge);
	return check_port_flags(&k->c->conf, &k->port, err);
}

static int check_bandwidth(struct check *k, struct pl_err *err)
{
	char ifb_name[PL_IFNAME_BYTES];
	struct pl_err why;

	pl_record_ifb_name(&k->c->at, ifb_name);
	if (pl_bandwidth_check(&k->host, &k->c->conf.bandwidth, &k->port,
			       ifb_name, &why) < 0)
		return failed(err, "bandwidth: %s", why.msg);
	return 0;
}

static int check_link(struct check *k, struct pl_err *err)
{
	const char *ifname = k->c->at.ifname;
	struct pl_link *l = &k->link;
	char mac[20];

	if (pl_nl_link_get(&k->pod, ifname, l, err) < 0)
		return failed(err, "the pod has no %s", ifname);
	if (strcmp(l->kind, "veth") || l->peer_index != k->port.index ||
	    k->port.peer_index != l->index)
		return failed(err, "the pod's %s is not ours", ifname);
	if (!(l->flags & IFF_UP) && !k->c->conf.leave_pod_down)
		return failed(err, "the pod's %s is down", ifname);
	snprintf(mac, sizeof(mac), "%02x:%02x:%02x:%02x:%02x:%02x", l->mac[0],
		 l->mac[1], l->mac[2], l->mac[3], l->mac[4], l->mac[5]);
	if (k->eth->mac[0] && strcasecmp(k->eth->mac, mac))
		return failed(err, "the pod's %s has MAC %s, not %s", ifname,
			      mac, k->eth->mac);
	return 0;
}

/* --- addresses and routes --- */

static int same_prefix(const struct pl_prefix *a, void *arg)
{
	const struct pl_prefix *b = arg;

	return a->len == b->len && pl_addr_equal(&a->addr, &b->addr);
}

static int check_addresses(struct check *k, struct pl_err *err)
{
	char buf[PL_PREFIX_STRLEN];

	for (size_t i = 0; i < k->prev.n_ips; i++) {
		struct pl_res_ip *ip = &k->prev.ips[i];
		int rc;

		if (ip->ifindex != k->eth_index)
			continue;
		rc = pl_nl_addr_each(&k->pod, k->link.index, same_prefix,
				     &ip->addr, err);
		if (rc < 0)
			return rc;
		if (rc == 0)
			return failed(err, "the pod's %s lacks address %s",
				      k->c->at.ifname,
				      pl_prefix_str(&ip->addr, buf));
	}
	return 0;
}

static int same_route(const struct pl_route *have, void *arg)
{
	const struct pl_res_route *want = arg;
	struct pl_prefix dst = { pl_prefix_first(&want->dst), want->dst.len };

	return same_prefix(&have->dst, &dst) &&
	       (!want->gw.family || pl_addr_equal(&have->gw, &want->gw)) &&
	       (!(want->has & 1u << PL_ROUTE_TABLE) ||
		want->opt[PL_ROUTE_TABLE] == have->table ||
		have->table == 0);
}

static int check_routes(struct check *k, struct pl_err *err)
{
	char buf[PL_PREFIX_STRLEN];

	for (size_t i = 0; i < k->prev.n_routes; i++) {
		struct pl_res_route *r = &k->prev.routes[i];
		int rc = pl_nl_route_each(&k->pod, r->dst.addr.family,
					  same_route, r, err);

		if (rc < 0)
			return rc;
		if (rc == 0)
			return failed(err, "the pod lacks the route to %s",
				      pl_prefix_str(&r->dst, buf));
	}
	return 0;
}

static int check_wiring(struct check *k, struct pl_err *err)
{
	int rc;

	if (!k->eth)
		return failed(err, "prevResult has no %s in the pod",
			      k->c->at.ifname);
	rc = pl_nl_open(&k->host, -1, err);
	if (rc == 0)
		rc = pl_nl_open(&k->pod, k->netns, err);
	if (rc == 0)
		rc = check_port(k, err);
	if (rc == 0)
		rc = check_link(k, err);
	if (rc == 0)
		rc = check_bandwidth(k, err);
	if (rc == 0)
		rc = check_addresses(k, err);
	if (rc == 0)
		rc = check_routes(k, err);
	if (rc == 0)
		rc = pl_address_check(k->c, &k->prev, k->eth_index, err);
	pl_nl_close(&k->pod);
	pl_nl_close(&k->host);
	return rc;
}

static int check_agent(struct check *k, struct pl_err *err)
{
	const struct pl_call *c = k->c;
	struct pl_agent_pod pod;
	pl_auto_fd fd = -1;
	int rc = pl_agent_open(c->conf.agent_socket, &fd, err);

	if (rc == 0) {
		pl_agent_pod_read(c->env.args, &pod);
		pod.memory_limit = c->conf.lanes.memory_limit;
		pod.allow = c->conf.lanes.allow;
		rc = pl_agent_register_send(fd, &c->at, c->env.netns, &k->prev,
					    &pod, NULL, -1, err);
		if (rc == 0)
			rc = pl_agent_recv(fd, NULL, err);
	}
	/* An ADD without the agent was all right. */
	return c->conf.agent_required ? rc : 0;
}

int pl_cmd_check(struct pl_call *c, struct pl_err *err)
{
	struct check k = { .c = c, .netns = -1, .eth_index = -1 };
	bool chained = false, lanes = true;
	int rc;

	if (!c->conf.prev)
		return pl_cni_err(err, PL_CNI_INVALID_CONFIG,
				  "CHECK needs prevResult");
	rc = pl_open_netns(c, &k.netns, err);
	if (rc == 0)
		rc = read_prev(&k, err);
	if (rc == 0)
		rc = check_record(&k, &chained, &lanes, err);
	if (rc == 0 && !chained)
		rc = check_wiring(&k, err);
	if (rc == 0)
		rc = pl_rules_verify(c, &k.prev, chained, err);
	if (rc == 0 && lanes)
		rc = check_agent(&k, err);
	pl_result_fini(&k.prev);
	pl_close_fd(&k.netns);
	return rc;
}

/* --- STATUS --- */

static int status_agent(const struct pl_call *c, struct pl_err *err)
{
	pl_auto_fd fd = -1;
	int rc = pl_agent_open(c->conf.agent_socket, &fd, err);

	if (rc == 0)
		rc = pl_agent_status(fd, err);
	if (rc == 0 || !c->conf.agent_required)
		return 0;
	err->code = PL_CNI_ERR_BASE + PL_CNI_NOT_AVAILABLE;
	return -err->code;
}

/*
 * Rules that every pod needs. Without ipam we may be in a chain, where we make
 * none; STATUS does not say.
 */
static int status_rules(const struct pl_call *c, struct pl_err *err)
{
	const struct pl_conf *conf = &c->conf;
	struct pl_nft *nft = NULL;
	int rc;

	if (!*conf->ipam_type || !(conf->ip_masq || conf->mac_check))
		return 0;
	rc = pl_nft_open(&nft, err);
	pl_nft_close(nft);
	if (rc == 0)
		return 0;
	err->code = PL_CNI_ERR_BASE + PL_CNI_NOT_AVAILABLE;
	return -err->code;
}

int pl_cmd_status(struct pl_call *c, struct pl_err *err)
{
	int rc = status_agent(c, err);

	if (rc == 0)
		rc = status_rules(c, err);
	return rc == 0 ? pl_address_status(c, err) : rc;
}
