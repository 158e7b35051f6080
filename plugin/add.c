/*
 * plugin/add.c - ADD: a transaction
 *
 * A table of steps; each has what undoes it. When one fails, those before it
 * are undone in reverse order and the record goes last: whenever the plugin is
 * killed, a later DEL finds in the record what to undo. A step that fails has
 * left nothing itself.
 *
 * Chained behind another plugin (prevResult), only those steps are taken that
 * concern the agent, and prevResult is printed as it came.
 */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/json.h"
#include "common/log.h"
#include "common/netns.h"
#include "common/util.h"
#include "plugin/address.h"
#include "plugin/dns.h"
#include "plugin/plugin.h"
#include "plugin/portmap.h"
#include "plugin/result.h"
#include "plugin/rules.h"
#include "plugin/rules_call.h"
#include "plugin/wire.h"

/* The place of the pod's interface in the result, behind bridge and port. */
#define POD_IF 2

struct add {
	struct pl_call *c;
	int netns, agent;		/* descriptors; agent -1: none */
	struct pl_nl host, inside;	/* inside: the pod's namespace */
	struct pl_record rec;
	char host_name[PL_IFNAME_BYTES], ifb_name[PL_IFNAME_BYTES];
	uint32_t agent_mtu;		/* 0: not said */
	uint32_t mtu;			/* of the pair; 0: the kernel's */
	struct pl_link br, port, pod, ifb;
	struct pl_result result;
	bool asked;			/* the answer to "add" is to come */
	bool keep_record;		/* something could not be undone */
};

static bool chained(const struct add *a)
{
	return a->c->conf.prev != NULL;
}

/* Something that should be gone is still there; DEL can try again. */
static void not_undone(struct add *a, const struct pl_err *why)
{
	pl_error("cannot undo a failed ADD: %s", why->msg);
	a->keep_record = true;
}

static int step_netns(struct add *a, struct pl_err *err)
{
	return pl_open_netns(a->c, &a->netns, err);
}

/* --- the agent comes first: without it, there is nothing to undo --- */

static void without_agent(struct add *a, const struct pl_err *why)
{
	if (a->c->conf.lanes.enabled)
		pl_warn("container=%s: without lanes: %s", a->c->at.id,
			why->msg);
	pl_close_fd(&a->agent);
}

static int no_agent(struct add *a, struct pl_err *err)
{
	if (!a->c->conf.agent_required) {
		without_agent(a, err);
		return 0;
	}
	err->code = PL_CNI_ERR_BASE + PL_CNI_TRY_AGAIN;
	return -err->code;
}

static int step_ask(struct add *a, struct pl_err *err)
{
	int rc;

	if (chained(a) && !a->c->conf.lanes.enabled)
		return 0;
	rc = pl_agent_open(a->c->conf.agent_socket, &a->agent, err);

	if (rc == 0)
		rc = pl_agent_node_send(a->agent, err);
	return rc < 0 ? no_agent(a, err) : 0;
}

static int step_answer(struct add *a, struct pl_err *err)
{
	int rc = 0;

	if (a->agent >= 0)
		rc = pl_agent_node_recv(a->agent, &a->agent_mtu, err);
	return rc < 0 ? no_agent(a, err) : 0;
}

/* --- the record --- */

static bool has_ifb(const struct add *a)
{
	return a->c->conf.bandwidth.egress.bits_per_s != 0;
}

static cJSON *record_json(struct add *a, struct pl_err *err)
{
	pl_auto_json *j = cJSON_CreateObject();
	cJSON *memo, *ret;

	pl_err_set(err, ENOMEM, "out of memory");
	if (!j || !cJSON_AddBoolToObject(j, "chained", chained(a)) ||
	    !cJSON_AddStringToObject(j, "agent", a->c->conf.agent_socket) ||
	    !cJSON_AddBoolToObject(j, "lanes", a->c->conf.lanes.enabled) ||
	    !cJSON_AddBoolToObject(j, "rules", pl_rules_asked(a->c)) ||
	    !cJSON_AddBoolToObject(j, "ports",
				   pl_portmap_wanted(&a->c->conf)))
		return NULL;
	if (!chained(a)) {
		memo = pl_address_memo(a->c, err);
		if (!memo || !cJSON_AddItemToObject(j, "ipam", memo) ||
		    !cJSON_AddStringToObject(j, "link", a->host_name) ||
		    !cJSON_AddStringToObject(j, "bridge", a->c->conf.bridge) ||
		    (has_ifb(a) &&
		     !cJSON_AddStringToObject(j, "ifb", a->ifb_name)))
			return NULL;
	}
	ret = j;
	j = NULL;
	return ret;
}

/* Behind another plugin there is no interface that could tell. */
static bool is_alive(const struct pl_record *rec)
{
	const char *link = NULL;

	if (!rec->json)
		return true;
	if (!rec->done || rec->old_boot)
		return false;
	return pl_json_str(rec->json, "", "link", &link, NULL) <= 0 ||
	       pl_nl_link_is_there(link);
}

/*
 * A record is there: of a living attachment, or of one that is dead, whose ADD
 * was killed or whose namespace went without DEL.
 */
static int take_over(struct add *a, struct pl_err *err)
{
	struct pl_record old;
	int rc = pl_record_open(a->c->conf.state_dir, &a->c->at, 0, &old, err);

	if (rc == -ENOENT)
		return 0;
	if (rc < 0)
		return rc;
	if (is_alive(&old)) {
		rc = pl_cni_err(err, PL_CNI_DUPLICATE,
				"container %s already has %s in network %s; "
				"DEL it first", a->c->at.id, a->c->at.ifname,
				a->c->at.network);
		pl_record_close(&old);
		return rc;
	}
	pl_warn("container=%s: clearing up after an earlier ADD", a->c->at.id);
	rc = pl_detach(a->c, &a->c->at, &old, true, err);
	if (rc == 0)
		rc = pl_record_remove(&old, err);
	pl_record_close(&old);
	return rc;
}

static int step_record(struct add *a, struct pl_err *err)
{
	struct pl_call *c = a->c;
	const char *dir = c->conf.state_dir;
	pl_auto_json *json = NULL;
	int rc;

	pl_record_host_ifname(&c->at, a->host_name);
	pl_record_ifb_name(&c->at, a->ifb_name);
	json = record_json(a, err);
	if (!json)
		return -err->code;
	rc = pl_record_create(dir, &c->at, json, &a->rec, err);
	if (rc == -EEXIST) {
		rc = take_over(a, err);
		if (rc == 0)
			rc = pl_record_create(dir, &c->at, json, &a->rec, err);
	}
	c->lock_fd = a->rec.fd;
	return rc;
}

static void undo_record(struct add *a)
{
	struct pl_err why;

	if (!a->keep_record && pl_record_remove(&a->rec, &why) < 0)
		pl_error("%s", why.msg);
}

/* --- addresses --- */

static bool has_default(const struct pl_result *r, int family)
{
	for (size_t i = 0; i < r->n_routes; i++) {
		if (r->routes[i].dst.addr.family == family &&
		    r->routes[i].dst.len == 0)
			return true;
	}
	return false;
}

/* What isGateway and isDefaultGateway add to what the allocator said. */
static int complete(const struct pl_conf *conf, struct pl_result *r,
		    struct pl_err *err)
{
	for (size_t i = 0; i < r->n_ips; i++) {
		struct pl_res_ip *ip = &r->ips[i];
		struct pl_res_route *route;
		struct pl_addr net = pl_prefix_first(&ip->addr);

		if (conf->is_gateway && !ip->gw.family)
			ip->gw = pl_addr_add(&net, 1);
		if (!conf->is_default_gateway ||
		    has_default(r, net.family))
			continue;
		route = pl_result_route(r);
		if (!route)
			return pl_err_set(err, ENOMEM, "out of memory");
		route->dst.addr.family = net.family;
		route->gw = ip->gw;
	}
	return pl_dns_choose(conf, r, err);
}

static void undo_addresses(struct add *a)
{
	struct pl_err why;

	if (pl_address_del(a->c, &a->c->at, NULL, &why) < 0)
		not_undone(a, &why);
}

static int step_addresses(struct add *a, struct pl_err *err)
{
	int rc = pl_address_add(a->c, &a->result, err);

	if (rc < 0)
		return rc;
	rc = complete(&a->c->conf, &a->result, err);
	if (rc < 0)
		undo_addresses(a);
	return rc;
}

/* --- links --- */

static void undo_pair(struct add *a)
{
	struct pl_err why;

	if (pl_delete_link(a->host_name, "veth", true, &why) < 0)
		not_undone(a, &why);
}

static void undo_bandwidth(struct add *a)
{
	struct pl_err why;

	if (has_ifb(a) && pl_delete_link(a->ifb_name, "ifb", true, &why) < 0)
		not_undone(a, &why);
}

static int step_bandwidth(struct add *a, struct pl_err *err)
{
	int rc = pl_bandwidth_set(&a->host, &a->c->conf.bandwidth, &a->port,
				  a->ifb_name, &a->ifb, err);

	if (rc < 0)
		undo_bandwidth(a);
	return rc;
}

static int step_host(struct add *a, struct pl_err *err)
{
	return pl_nl_open(&a->host, -1, err);
}

static int step_bridge(struct add *a, struct pl_err *err)
{
	const struct pl_conf *conf = &a->c->conf;
	int rc;

	a->mtu = conf->mtu ? conf->mtu : a->agent_mtu;
	rc = pl_wire_bridge(&a->host, conf, a->mtu, &a->br, err);
	if (rc == 0 && !a->mtu)
		a->mtu = a->br.mtu;
	return rc;
}

static int step_pair(struct add *a, struct pl_err *err)
{
	struct pl_wire_pair pair = { .host_name = a->host_name,
				     .pod_name = a->c->at.ifname,
				     .netns_fd = a->netns,
				     .mtu = a->mtu };
	int rc = pl_wire_pair(&a->host, &a->c->conf, &pair, &a->br, &a->port,
			      err);

	/* Either name: then nothing was made, and what is there is not ours. */
	if (rc == -EEXIST)
		pl_err_prefix(err, "%s is in the pod already, or %s on the host",
			      a->c->at.ifname, a->host_name);
	else if (rc < 0)
		undo_pair(a);
	return rc;
}

static int step_pod(struct add *a, struct pl_err *err)
{
	return pl_wire_pod(a->netns, a->c->at.ifname, &a->c->conf, &a->result,
			   &a->host, &a->port, &a->inside, &a->pod, err);
}

static int step_gateway(struct add *a, struct pl_err *err)
{
	struct pl_link gw = a->br;
	int rc;

	if (!a->c->conf.is_gateway)
		return 0;
	if (a->c->conf.vlan.access) {
		rc = pl_vlan_gateway(&a->host, &a->c->conf.vlan, &a->br, &gw,
				     err);
		if (rc < 0)
			return rc;
	}
	return pl_wire_gateway(&a->host, &a->c->conf, &gw, &a->result, err);
}

static int step_announce(struct add *a, struct pl_err *err)
{
	(void)err;
	if (a->result.n_ips)
		pl_wire_announce(&a->host, &a->port, &a->inside, &a->pod);
	return 0;
}

static int add_if(struct pl_result *r, const struct pl_link *l,
		  const char *sandbox, struct pl_err *err)
{
	struct pl_res_if *i = pl_result_if(r);

	if (!i || (sandbox && !(i->sandbox = strdup(sandbox))))
		return pl_err_set(err, ENOMEM, "out of memory");
	memcpy(i->name, l->name, sizeof(i->name));
	snprintf(i->mac, sizeof(i->mac), "%02x:%02x:%02x:%02x:%02x:%02x",
		 l->mac[0], l->mac[1], l->mac[2], l->mac[3], l->mac[4],
		 l->mac[5]);
	i->mtu = l->mtu;
	return 0;
}

static int step_interfaces(struct add *a, struct pl_err *err)
{
	struct pl_result *r = &a->result;

	if (add_if(r, &a->br, NULL, err) < 0 ||
	    add_if(r, &a->port, NULL, err) < 0 ||
	    add_if(r, &a->pod, a->c->env.netns, err) < 0 ||
	    (has_ifb(a) && add_if(r, &a->ifb, NULL, err) < 0))
		return -ENOMEM;
	for (size_t i = 0; i < r->n_ips; i++)
		r->ips[i].ifindex = POD_IF;
	return 0;
}

/* --- what the attachment has in nftables --- */

static int step_rules(struct add *a, struct pl_err *err)
{
	if (!pl_rules_asked(a->c))
		return 0;
	return pl_rules_make(a->c, &a->result, err);
}

static void undo_rules(struct add *a)
{
	struct pl_err why;

	if (pl_rules_asked(a->c) && pl_rules_del(&a->c->at, true, &why) < 0)
		not_undone(a, &why);
}

static int step_prev(struct add *a, struct pl_err *err)
{
	int rc;

	if (pl_bandwidth_any(&a->c->conf.bandwidth))
		return pl_cni_err(err, PL_CNI_UNSUPPORTED_FIELD,
				  "podlane limits the bandwidth of interfaces "
				  "that it made; behind another plugin, leave "
				  "that to the plugin bandwidth");
	rc = pl_result_parse(a->c->conf.prev, &a->result, err);
	if (rc < 0)
		pl_err_prefix(err, "prevResult");
	return rc;
}

/* --- registration: the agent works while we wire the pod --- */

static void undo_register(struct add *a)
{
	struct pl_err why;

	/* An agent that is gone sees by itself that the pod is. */
	if (a->agent < 0 || !a->c->conf.lanes.enabled)
		return;
	if (a->asked)
		pl_agent_recv(a->agent, NULL, NULL);
	a->asked = false;
	if (pl_agent_unregister_send(a->agent, &a->c->at, &why) < 0 ||
	    pl_agent_recv(a->agent, NULL, &why) < 0)
		pl_warn("container=%s: %s", a->c->at.id, why.msg);
}

/* An agent that went away comes back; one that refuses has its reasons. */
static int agent_failed(struct add *a, int rc, struct pl_err *err)
{
	bool gone = rc == -ECONNRESET || rc == -EPIPE || rc == -ETIMEDOUT;

	if (!a->c->conf.agent_required) {
		undo_register(a);
		without_agent(a, err);
		return 0;
	}
	err->code = PL_CNI_ERR_BASE + (gone ? PL_CNI_TRY_AGAIN : PL_CNI_FAILED);
	return -err->code;
}

static int step_register(struct add *a, struct pl_err *err)
{
	const struct pl_call *c = a->c;
	const struct pl_agent_undo undo = {
		c->conf.state_dir, c->env.path,
		chained(a) ? NULL : a->host_name,
	};
	struct pl_agent_pod pod;
	int rc;

	if (a->agent < 0 || !c->conf.lanes.enabled)
		return 0;
	pl_agent_pod_read(c->env.args, &pod);
	pod.memory_limit = c->conf.lanes.memory_limit;
	pod.allow = c->conf.lanes.allow;
	rc = pl_agent_register_send(a->agent, &c->at, c->env.netns, &a->result,
				    &pod, &undo, a->netns, err);
	a->asked = rc == 0;
	return rc < 0 ? agent_failed(a, rc, err) : 0;
}

static int step_registered(struct add *a, struct pl_err *err)
{
	struct pl_res_if *eth;
	int rc;

	if (!a->asked)
		return 0;
	a->asked = false;
	rc = pl_agent_recv(a->agent, NULL, err);
	if (rc < 0)
		return agent_failed(a, rc, err);
	if (chained(a))
		return 0;
	eth = &a->result.ifs[POD_IF];
	eth->socket_path = strdup(PL_AGENT_CHANNEL);
	return eth->socket_path ? 0 : pl_err_set(err, ENOMEM, "out of memory");
}

/* --- the end --- */

static int step_done(struct add *a, struct pl_err *err)
{
	return pl_record_done(&a->rec, err);
}

/* As it came, unless it has another version than the configuration. */
static int print_prev(const struct add *a, struct pl_err *err)
{
	const struct pl_conf *conf = &a->c->conf;
	const char *version = NULL;
	pl_auto_json *doc = NULL;

	if (pl_json_str(conf->prev, "prevResult", "cniVersion", &version,
			err) < 0)
		return -EINVAL;
	if (version && !strcmp(version, conf->version))
		return pl_cni_print(a->c->out_fd, conf->prev, err);
	if (version) {
		doc = pl_result_print(&a->result, conf->version);
	} else {
		doc = cJSON_Duplicate(conf->prev, true);
		cJSON_AddStringToObject(doc, "cniVersion", conf->version);
	}
	return pl_cni_print(a->c->out_fd, doc, err);
}

static int step_print(struct add *a, struct pl_err *err)
{
	pl_auto_json *doc = NULL;

	if (chained(a))
		return print_prev(a, err);
	doc = pl_result_print(&a->result, a->c->conf.version);
	return pl_cni_print(a->c->out_fd, doc, err);
}

enum { STANDALONE = 1, CHAINED = 2, BOTH = 3 };

static const struct step {
	int when;
	int (*run)(struct add *a, struct pl_err *err);
	void (*undo)(struct add *a);		/* NULL: nothing to undo */
} steps[] = {
	{ BOTH, step_netns, NULL },
	{ BOTH, step_ask, NULL },
	{ CHAINED, step_prev, NULL },
	{ STANDALONE, step_host, NULL },
	{ BOTH, step_answer, NULL },
	{ BOTH, step_record, undo_record },
	{ STANDALONE, step_addresses, undo_addresses },
	{ BOTH, step_register, undo_register },
	{ STANDALONE, step_bridge, NULL },
	{ STANDALONE, step_pair, undo_pair },
	{ STANDALONE, step_bandwidth, undo_bandwidth },
	{ STANDALONE, step_pod, NULL },
	{ STANDALONE, step_gateway, NULL },
	{ STANDALONE, step_interfaces, NULL },
	{ BOTH, step_rules, undo_rules },
	{ BOTH, step_registered, NULL },
	{ STANDALONE, step_announce, NULL },
	{ BOTH, step_done, NULL },
	{ BOTH, step_print, NULL },
};

static bool applies(const struct add *a, const struct step *s)
{
	return s->when & (chained(a) ? CHAINED : STANDALONE);
}

static int run_steps(struct add *a, struct pl_err *err)
{
	size_t i;
	int rc = 0;

	for (i = 0; i < PL_ARRAY_SIZE(steps); i++) {
		if (!applies(a, &steps[i]))
			continue;
		rc = steps[i].run(a, err);
		if (rc < 0)
			break;
	}
	if (rc >= 0)
		return 0;
	while (i-- > 0) {
		if (applies(a, &steps[i]) && steps[i].undo)
			steps[i].undo(a);
	}
	return rc;
}

int pl_cmd_add(struct pl_call *c, struct pl_err *err)
{
	struct add a = { .c = c, .netns = -1, .agent = -1, .rec.fd = -1 };
	int rc = run_steps(&a, err);

	pl_record_close(&a.rec);
	pl_result_fini(&a.result);
	pl_nl_close(&a.inside);
	pl_nl_close(&a.host);
	pl_close_fd(&a.agent);
	pl_close_fd(&a.netns);
	return rc;
}
