/* plugin/portmap.c - ports of the node that lead into the pod */
#include "plugin/portmap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/json.h"
#include "common/log.h"
#include "common/nl.h"
#include "common/util.h"

#define WHERE "runtimeConfig.portMappings[]"

struct mapping {
	int proto;			/* IPPROTO_... */
	uint16_t host, pod;		/* ports */
	struct pl_addr ip;		/* of the node; family 0: any */
	bool any_ip;			/* of that family */
};

static const cJSON *mappings(const struct pl_conf *c)
{
	return pl_json_member(pl_json_member(c->json, "runtimeConfig"),
			      "portMappings");
}

bool pl_portmap_wanted(const struct pl_conf *c)
{
	const cJSON *list = mappings(c);

	return cJSON_IsArray(list) && list->child;
}

static int read_proto(const cJSON *e, int *proto, struct pl_err *err)
{
	static const struct {
		const char *name;
		int number;
	} protos[] = {
		{ "tcp", IPPROTO_TCP },
		{ "udp", IPPROTO_UDP },
		{ "sctp", IPPROTO_SCTP },
	};
	const char *s = "tcp";

	if (pl_json_str(e, WHERE, "protocol", &s, err) < 0)
		return -EINVAL;
	for (size_t i = 0; i < PL_ARRAY_SIZE(protos); i++) {
		if (strcasecmp(s, protos[i].name))
			continue;
		*proto = protos[i].number;
		return 0;
	}
	return pl_err_set(err, EINVAL, WHERE ".protocol must be \"tcp\", "
			  "\"udp\" or \"sctp\", is \"%s\"", s);
}

static bool all_zero(const struct pl_addr *a)
{
	static const uint8_t zero[16];

	return !memcmp(a->bytes, zero, sizeof(zero));
}

static int read_mapping(const cJSON *e, struct mapping *m, struct pl_err *err)
{
	int64_t host = 0, pod = 0;
	const char *ip = "";

	memset(m, 0, sizeof(*m));
	if (!cJSON_IsObject(e))
		return pl_err_set(err, EINVAL, WHERE " must be objects");
	if (pl_json_int(e, WHERE, "hostPort", 1, 65535, &host, err) < 0 ||
	    pl_json_int(e, WHERE, "containerPort", 1, 65535, &pod, err) < 0 ||
	    pl_json_str(e, WHERE, "hostIP", &ip, err) < 0 ||
	    read_proto(e, &m->proto, err) < 0)
		return -EINVAL;
	if (!host || !pod)
		return pl_err_set(err, EINVAL, WHERE " needs hostPort and "
				  "containerPort");
	if (*ip && pl_addr_parse(ip, &m->ip) < 0)
		return pl_err_set(err, EINVAL, WHERE ".hostIP must be an "
				  "address, is \"%s\"", ip);
	m->host = (uint16_t)host;
	m->pod = (uint16_t)pod;
	m->any_ip = all_zero(&m->ip);
	return 0;
}

int pl_portmap_check(const struct pl_conf *c, struct pl_err *err)
{
	const cJSON *list = NULL, *rt = NULL, *e;
	struct mapping m;

	if (pl_json_obj(c->json, "", "runtimeConfig", &rt, err) < 0 ||
	    (rt && pl_json_arr(rt, "runtimeConfig", "portMappings", &list,
			       err) < 0))
		return -EINVAL;
	cJSON_ArrayForEach(e, list) {
		if (read_mapping(e, &m, err) < 0)
			return -EINVAL;
	}
	return 0;
}

/* --- rules --- */

/* Where packets from there come back only if they seem to be from here. */
static int add_back(const struct pl_conf *c, const struct mapping *m,
		    const struct pl_prefix *pod, struct pl_rules *r,
		    struct pl_err *err)
{
	struct pl_prefix net = { pl_prefix_first(pod), pod->len };
	bool v4 = pod->addr.family == AF_INET;
	char subnet[PL_PREFIX_STRLEN], from[PL_PREFIX_STRLEN + 40] = "";

	pl_prefix_str(&net, subnet);
	if (!c->masq_all)
		snprintf(from, sizeof(from), v4 ? "ip saddr { %s, 127.0.0.0/8 }"
			 " " : "ip6 saddr %s ", subnet);
	return pl_rules_rule(r, PL_RULES_PORTS, err,
			     "meta nfproto %s meta l4proto %d "
			     "ct original proto-dst %d %smasquerade",
			     v4 ? "ipv4" : "ipv6", m->proto, m->host, from);
}

static int add_mapping(const struct mapping *m, const struct pl_addr *pod,
		       struct pl_rules *r, struct pl_err *err)
{
	bool v4 = pod->family == AF_INET;
	char to[INET6_ADDRSTRLEN], ip[INET6_ADDRSTRLEN], key[80], data[80];

	pl_addr_str(pod, to);
	snprintf(data, sizeof(data), "%s . %d", to, m->pod);
	if (m->any_ip) {
		snprintf(key, sizeof(key), "%d . %d", m->proto, m->host);
		return pl_rules_elem(r, PL_RULES_PORTS, v4 ? "port4" : "port6",
				     key, data, err);
	}
	snprintf(key, sizeof(key), "%s . %d . %d", pl_addr_str(&m->ip, ip),
		 m->proto, m->host);
	return pl_rules_elem(r, PL_RULES_PORTS, v4 ? "hostport4" : "hostport6",
			     key, data, err);
}

/* The pod's address of one family, with all that leads to it. */
static int map_to(const struct pl_conf *c, const struct pl_prefix *pod,
		  struct pl_rules *r, struct pl_err *err)
{
	bool v4 = pod->addr.family == AF_INET;
	char ip[INET6_ADDRSTRLEN], verdict[32];
	const cJSON *list = mappings(c), *e;
	int rc = 0, n = 0;

	cJSON_ArrayForEach(e, list) {
		struct mapping m;

		rc = read_mapping(e, &m, err);
		if (rc < 0)
			return rc;
		if (m.ip.family && m.ip.family != pod->addr.family)
			continue;
		rc = add_mapping(&m, &pod->addr, r, err);
		if (rc == -EEXIST)
			rc = pl_err_set(err, EINVAL, WHERE " has hostPort %d "
					"twice, for different ports", m.host);
		if (rc == 0 && c->snat)
			rc = add_back(c, &m, pod, r, err);
		if (rc < 0)
			return rc;
		n++;
	}
	if (!n || !c->snat)
		return 0;
	snprintf(verdict, sizeof(verdict), "jump %s", r->tag);
	if (v4)
		r->local_to = pod->addr;
	return pl_rules_elem(r, PL_RULES_PORTS, v4 ? "back4" : "back6",
			     pl_addr_str(&pod->addr, ip), verdict, err);
}

int pl_portmap_rules(const struct pl_conf *c, const struct pl_result *res,
		     int ifindex, struct pl_rules *r, struct pl_err *err)
{
	bool seen4 = false, seen6 = false;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < res->n_ips; i++) {
		const struct pl_res_ip *ip = &res->ips[i];
		bool *seen = ip->addr.addr.family == AF_INET ? &seen4 : &seen6;

		if (*seen || (ip->ifindex >= 0 && ip->ifindex != ifindex))
			continue;
		*seen = true;
		rc = map_to(c, &ip->addr, r, err);
	}
	return rc;
}

/* --- UDP that is under way --- */

static void flush(struct pl_nl *nl, const struct mapping *m, int family)
{
	struct pl_err why;
	int n;

	if (m->ip.family && m->ip.family != family)
		return;
	n = pl_nl_ct_forget(nl, family, m->any_ip ? NULL : &m->ip, m->proto,
			    m->host, &why);
	if (n < 0)
		pl_warn("UDP to port %d that is under way: %s", m->host,
			why.msg);
}

void pl_portmap_flush(const struct pl_conf *c)
{
	const cJSON *list = mappings(c), *e;
	struct pl_nl nl = { 0 };
	struct pl_err why;
	struct mapping m;

	cJSON_ArrayForEach(e, list) {
		if (read_mapping(e, &m, &why) < 0 || m.proto != IPPROTO_UDP)
			continue;
		if (!nl.sock && pl_nl_open_netfilter(&nl, &why) < 0) {
			pl_warn("%s", why.msg);
			return;
		}
		flush(&nl, &m, AF_INET);
		flush(&nl, &m, AF_INET6);
	}
	pl_nl_close(&nl);
}
