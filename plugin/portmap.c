/* plugin/portmap.c - ports of the node that lead into the pod */
#include "plugin/portmap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/json.h"
#include "common/util.h"
#include "plugin/port.h"

#define WHERE "runtimeConfig.portMappings[]"

struct mapping {
	size_t proto;			/* of protos[] */
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

static const struct {
	const char *name;
	int number;
} protos[] = {
	{ "tcp", IPPROTO_TCP },
	{ "udp", IPPROTO_UDP },
	{ "sctp", IPPROTO_SCTP },
};

static int read_proto(const cJSON *e, size_t *proto, struct pl_err *err)
{
	const char *s = "";

	if (pl_json_str(e, WHERE, "protocol", &s, err) < 0)
		return -EINVAL;
	for (size_t i = 0; i < PL_ARRAY_SIZE(protos); i++) {
		/* The first one is the default. */
		if (*s && strcasecmp(s, protos[i].name))
			continue;
		*proto = i;
		return 0;
	}
	return pl_err_set(err, EINVAL, WHERE ".protocol must be \"tcp\", "
			  "\"udp\" or \"sctp\", is \"%s\"", s);
}

/* An IPv4 address in the clothes of an IPv6 one is IPv4, as in Go. */
static void unwrap(struct pl_addr *a)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct pl_addr v4 = { .family = AF_INET };

	if (a->family != AF_INET6 || memcmp(a->bytes, mapped, sizeof(mapped)))
		return;
	memcpy(v4.bytes, a->bytes + sizeof(mapped), 4);
	*a = v4;
}

static bool all_zero(const struct pl_addr *a)
{
	static const uint8_t zero[16];

	return !memcmp(a->bytes, zero, sizeof(zero));
}

static bool is_loopback(const struct pl_addr *a)
{
	return a->family == AF_INET && a->bytes[0] == 127;
}

/* What no packet could ever come by. */
static int check_ip(const struct pl_conf *c, const struct mapping *m,
		    const char *text, struct pl_err *err)
{
	static const struct pl_addr loopback6 = { .family = AF_INET6,
						  .bytes = { [15] = 1 } };

	if (pl_addr_equal(&m->ip, &loopback6))
		return pl_err_set(err, EINVAL, WHERE ".hostIP ::1: Linux lets "
				  "nothing leave for a pod that was sent to it; "
				  "say 127.0.0.1 or another address");
	if (is_loopback(&m->ip) && !c->snat)
		return pl_err_set(err, EINVAL, WHERE ".hostIP %s: without snat "
				  "a pod could not answer; remove \"snat\": "
				  "false or this mapping", text);
	return 0;
}

static int read_mapping(const struct pl_conf *c, const cJSON *e,
			struct mapping *m, struct pl_err *err)
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
	unwrap(&m->ip);
	m->host = (uint16_t)host;
	m->pod = (uint16_t)pod;
	m->any_ip = all_zero(&m->ip);
	return check_ip(c, m, ip, err);
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
		if (read_mapping(c, e, &m, err) < 0)
			return -EINVAL;
	}
	return 0;
}

/* --- rules --- */

/*
 * The node's ports that lead to the pod, a bit for each: so that a thousand in
 * a row are one rule.
 */
struct ports {
	uint8_t bits[PL_ARRAY_SIZE(protos)][65536 / 8];
};

static bool has(const uint8_t *bits, unsigned int port)
{
	return port <= 65535 && bits[port / 8] & 1u << port % 8;
}

/* Where packets from there come back only if they seem to be from here. */
static int add_back(const struct ports *ports, size_t proto,
		    const char *family, const char *from, struct pl_rules *r,
		    struct pl_err *err)
{
	const uint8_t *bits = ports->bits[proto];
	int rc = 0;

	for (unsigned int p = 1, n; rc == 0 && p <= 65535; p += n + 1) {
		char range[16];

		for (n = 0; has(bits, p + n); n++)
			;
		if (!n)
			continue;
		snprintf(range, sizeof(range), n > 1 ? "%u-%u" : "%u", p,
			 p + n - 1);
		rc = pl_rules_rule(r, PL_RULES_PORTS, err, "meta nfproto %s "
				   "meta l4proto %d ct original proto-dst %s "
				   "%smasquerade", family,
				   protos[proto].number, range, from);
	}
	return rc;
}

static int add_backs(const struct pl_conf *c, const struct ports *ports,
		     const struct pl_prefix *pod, struct pl_rules *r,
		     struct pl_err *err)
{
	struct pl_prefix net = { pl_prefix_first(pod), pod->len };
	bool v4 = pod->addr.family == AF_INET;
	char ip[INET6_ADDRSTRLEN], verdict[32], subnet[PL_PREFIX_STRLEN];
	char from[PL_PREFIX_STRLEN + 40] = "";
	int rc = 0;

	pl_prefix_str(&net, subnet);
	if (!c->masq_all)
		snprintf(from, sizeof(from), v4 ? "ip saddr { %s, 127.0.0.0/8 }"
			 " " : "ip6 saddr %s ", subnet);
	for (size_t i = 0; rc == 0 && i < PL_ARRAY_SIZE(protos); i++)
		rc = add_back(ports, i, v4 ? "ipv4" : "ipv6", from, r, err);
	if (rc < 0)
		return rc;
	if (v4)
		r->local_to = pod->addr;
	snprintf(verdict, sizeof(verdict), "jump %s", r->tag);
	return pl_rules_elem(r, PL_RULES_PORTS, v4 ? "back4" : "back6",
			     pl_addr_str(&pod->addr, ip), verdict, err);
}

static int add_mapping(const struct pl_conf *c, const struct mapping *m,
		       const struct pl_addr *pod, struct ports *ports,
		       struct pl_rules *r, struct pl_err *err)
{
	struct pl_port p = { .ip = m->ip, .any_ip = m->any_ip,
			     .proto = (uint8_t)protos[m->proto].number,
			     .number = m->host };
	char to[INET6_ADDRSTRLEN], key[PL_PORT_STRLEN], data[80];
	int rc = 0;

	p.ip.family = pod->family;
	ports->bits[m->proto][m->host / 8] |= (uint8_t)(1u << m->host % 8);
	snprintf(data, sizeof(data), "%s . %d", pl_addr_str(pod, to), m->pod);
	pl_port_key(&p, key);
	if (p.any_ip && !c->snat && pod->family == AF_INET)
		rc = pl_rules_elem(r, PL_RULES_PORTS, "nolocal", key, NULL,
				   err);
	if (rc < 0)
		return rc;
	return pl_rules_elem(r, PL_RULES_PORTS, pl_port_map(&p), key, data,
			     err);
}

/* The pod's address of one family, with all that leads to it. */
static int map_to(const struct pl_conf *c, const struct pl_prefix *pod,
		  struct pl_rules *r, struct pl_err *err)
{
	const cJSON *list = mappings(c), *e;
	struct ports ports = { 0 };
	struct mapping m;
	int rc, n = 0;

	cJSON_ArrayForEach(e, list) {
		rc = read_mapping(c, e, &m, err);
		if (rc < 0)
			return rc;
		if (m.ip.family && m.ip.family != pod->addr.family)
			continue;
		rc = add_mapping(c, &m, &pod->addr, &ports, r, err);
		if (rc < 0)
			return rc;
		n++;
	}
	return n && c->snat ? add_backs(c, &ports, pod, r, err) : 0;
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
