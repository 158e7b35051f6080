/* plugin/conf.c - the plugin's network configuration */
#include "plugin/conf.h"

#include <ctype.h>
#include <errno.h>
#include <net/if.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "common/util.h"
#include "plugin/portmap.h"

#define MTU_MIN 68
#define MTU_MAX 65535

static const char hex[] = "0123456789abcdef";

static const struct {
	const char *key;
	size_t at;
} flags[] = {
	{ "isGateway", offsetof(struct pl_conf, is_gateway) },
	{ "isDefaultGateway", offsetof(struct pl_conf, is_default_gateway) },
	{ "forceAddress", offsetof(struct pl_conf, force_address) },
	{ "hairpinMode", offsetof(struct pl_conf, hairpin) },
	{ "promiscMode", offsetof(struct pl_conf, promisc) },
	{ "portIsolation", offsetof(struct pl_conf, isolated) },
	{ "enabledad", offsetof(struct pl_conf, dad) },
	{ "disableContainerInterface",
	  offsetof(struct pl_conf, leave_pod_down) },
	{ "ipMasq", offsetof(struct pl_conf, ip_masq) },
	{ "macspoofchk", offsetof(struct pl_conf, mac_check) },
	{ "snat", offsetof(struct pl_conf, snat) },
	{ "masqAll", offsetof(struct pl_conf, masq_all) },
};

static int check_path(const char *key, const char *v, struct pl_err *err);
static int check_ifname(const char *key, const char *v, struct pl_err *err);

static const struct {
	const char *key;
	size_t at;
	int (*check)(const char *key, const char *v, struct pl_err *err);
} texts[] = {
	{ "bridge", offsetof(struct pl_conf, bridge), check_ifname },
	{ "agentSocket", offsetof(struct pl_conf, agent_socket), check_path },
	{ "stateDir", offsetof(struct pl_conf, state_dir), check_path },
};

/* Keys that ask for something when they are true, not 0 and not empty. */
static const struct unbuilt {
	const char *in;			/* the object that it is in */
	const char *key;
	const char *why;
} unbuilt[] = {
	{ "", "conditionsV4", "it holds words of iptables, and there are none; "
	  "say hostIP in a mapping, or remove it" },
	{ "", "conditionsV6", "it holds words of iptables, and there are none; "
	  "say hostIP in a mapping, or remove it" },
	{ "runtimeConfig", "infinibandGUID", "remove it" },
};

static bool asks(const cJSON *v)
{
	if (cJSON_IsNumber(v))
		return v->valuedouble != 0;
	if (cJSON_IsString(v))
		return v->valuestring[0] != '\0';
	if (cJSON_IsArray(v) || cJSON_IsObject(v))
		return v->child != NULL;
	return cJSON_IsTrue(v);
}

static int check_unbuilt(const cJSON *json, struct pl_err *err)
{
	for (size_t i = 0; i < PL_ARRAY_SIZE(unbuilt); i++) {
		const struct unbuilt *u = &unbuilt[i];
		const cJSON *in = json;

		if (*u->in)
			in = pl_json_member(json, u->in);
		if (asks(pl_json_member(in, u->key)))
			return pl_cni_err(err, PL_CNI_UNSUPPORTED_FIELD,
					  "%s%s%s is not supported by this "
					  "version of podlane: %s", u->in,
					  *u->in ? "." : "", u->key, u->why);
	}
	return 0;
}

/* What is told is the first that was wrong; what is behind it counts, too. */
static void note(int *first, int rc, const struct pl_err *why,
		 struct pl_err *err)
{
	if (rc >= 0 || *first < 0)
		return;
	*first = rc;
	if (err)
		*err = *why;
}

static int parse_prev(const cJSON *json, struct pl_conf *c, struct pl_err *err)
{
	return pl_json_obj(json, "", "prevResult", &c->prev, err);
}

static int parse_flags(const cJSON *json, struct pl_conf *c,
		       struct pl_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < PL_ARRAY_SIZE(flags); i++) {
		bool *b = (bool *)((char *)c + flags[i].at);
		struct pl_err why;

		note(&rc, pl_json_bool(json, "", flags[i].key, b, &why), &why,
		     err);
	}
	c->is_gateway |= c->is_default_gateway;
	return rc;
}

static int check_path(const char *key, const char *v, struct pl_err *err)
{
	if (*v == '/')
		return 0;
	return pl_err_set(err, EINVAL, "%s must be an absolute path, is "
			  "\"%s\"", key, v);
}

static int check_ifname(const char *key, const char *v, struct pl_err *err)
{
	/* Linux replaces %d by a number: each ADD would make a bridge. */
	if (strlen(v) < IFNAMSIZ && !v[strcspn(v, "/%")])
		return 0;
	return pl_err_set(err, EINVAL, "%s must be an interface name of at "
			  "most %d characters, without \"/\" and \"%%\", is "
			  "\"%s\"", key, IFNAMSIZ - 1, v);
}

static int parse_texts(const cJSON *json, struct pl_conf *c,
		       struct pl_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < PL_ARRAY_SIZE(texts); i++) {
		const char **s = (const char **)((char *)c + texts[i].at);
		const char *v = "";
		struct pl_err why;
		int one = pl_json_str(json, "", texts[i].key, &v, &why);

		if (one > 0 && *v)
			one = texts[i].check(texts[i].key, v, &why);
		if (one == 0 && *v)
			*s = v;
		note(&rc, one, &why, err);
	}
	return rc;
}

static int parse_mtu(const cJSON *json, struct pl_conf *c, struct pl_err *err)
{
	int64_t mtu = 0;

	if (pl_json_int(json, "", "mtu", 0, MTU_MAX, &mtu, err) < 0)
		return -EINVAL;
	if (mtu && mtu < MTU_MIN)
		return pl_err_set(err, EINVAL, "mtu must be %d to %d, or 0",
				  MTU_MIN, MTU_MAX);
	c->mtu = (uint32_t)mtu;
	return 0;
}

/* Either asks for the same packets; how we do it is our business. */
static int parse_masq(const cJSON *json, struct pl_conf *c, struct pl_err *err)
{
	const char *backend = "";

	(void)c;
	if (pl_json_str(json, "", "ipMasqBackend", &backend, err) < 0)
		return -EINVAL;
	if (*backend && strcmp(backend, "nftables") &&
	    strcmp(backend, "iptables"))
		return pl_err_set(err, EINVAL,
				  "ipMasqBackend must be \"nftables\" or "
				  "\"iptables\", is \"%s\"", backend);
	return 0;
}

static int parse_agent(const cJSON *json, struct pl_conf *c,
		       struct pl_err *err)
{
	const char *policy = "required";

	if (pl_json_str(json, "", "agentPolicy", &policy, err) < 0)
		return -EINVAL;
	c->agent_required = !strcmp(policy, "required");
	if (!c->agent_required && strcmp(policy, "optional"))
		return pl_err_set(err, EINVAL,
				  "agentPolicy must be \"required\" or "
				  "\"optional\", is \"%s\"", policy);
	if (pl_lanes_parse(json, &c->lanes, err) < 0)
		return -EINVAL;
	c->agent_required &= c->lanes.enabled;
	return 0;
}

static int parse_ipam(const cJSON *json, struct pl_conf *c, struct pl_err *err)
{
	const cJSON *ipam = NULL;
	const char *type = "";

	if (pl_json_obj(json, "", "ipam", &ipam, err) < 0 ||
	    (ipam && pl_json_str(ipam, "ipam", "type", &type, err) < 0))
		return -EINVAL;
	if (strchr(type, '/') || !strcmp(type, ".") || !strcmp(type, ".."))
		return pl_err_set(err, EINVAL,
				  "ipam.type must be the name of a plugin, "
				  "is \"%s\"", type);
	c->ipam_type = type;
	return 0;
}

static int check_together(const struct pl_conf *c, struct pl_err *err)
{
	if (c->hairpin && c->promisc)
		return pl_err_set(err, EINVAL, "hairpinMode and promiscMode "
				  "exclude each other: a pod would get its own "
				  "frames twice; remove one");
	if (c->leave_pod_down && *c->ipam_type)
		return pl_err_set(err, EINVAL, "disableContainerInterface "
				  "leaves nothing that could have an address; "
				  "remove it or ipam");
	return 0;
}

/* 02:00:.., 02-00-.. and 0200.00.., the forms that Go's net.ParseMAC knows. */
static int parse_mac(const char *s, uint8_t *mac)
{
	const char sep = strlen(s) == 17 ? s[2] : '.';
	const int group = sep == '.' ? 4 : 2;	/* digits */
	static const uint8_t zero[6];

	if (!strchr(":-.", sep) || strlen(s) != 12u + 12u / group - 1)
		return -EINVAL;
	for (int i = 0; i < 12; i++, s++) {
		const char *d = strchr(hex, tolower((unsigned char)*s));

		if (!*s || !d)
			return -EINVAL;
		mac[i / 2] = (uint8_t)(mac[i / 2] << 4 | (d - hex));
		if (i % group == group - 1 && i < 11 && *++s != sep)
			return -EINVAL;
	}
	/* A group address can't be an interface's, nor can all zeros. */
	return mac[0] & 1 || !memcmp(mac, zero, 6) ? -EINVAL : 0;
}

static int mac_in(const cJSON *obj, const char *where, const char **mac,
		  struct pl_err *err)
{
	const char *v = "";
	int rc = pl_json_str(obj, where, "mac", &v, err);

	if (rc > 0 && *v)
		*mac = v;
	return rc;
}

/* runtimeConfig goes before args, and args before CNI_ARGS; "" is none. */
static int find_mac(const cJSON *json, const char *cni_args, struct pl_conf *c,
		    struct pl_err *err)
{
	const cJSON *rt = NULL, *args = NULL, *cni = NULL;
	const char *s = "";
	char buf[32] = "";

	if (pl_cni_args_get(cni_args, "MAC", buf, sizeof(buf)) < 0)
		return pl_err_set(err, EINVAL, "MAC in CNI_ARGS is too long");
	if (*buf)
		s = buf;
	if (pl_json_obj(json, "", "args", &args, err) < 0 ||
	    pl_json_obj(args, "args", "cni", &cni, err) < 0 ||
	    mac_in(cni, "args.cni", &s, err) < 0 ||
	    pl_json_obj(json, "", "runtimeConfig", &rt, err) < 0 ||
	    mac_in(rt, "runtimeConfig", &s, err) < 0)
		return -EINVAL;
	if (!*s)
		return 0;
	if (parse_mac(s, c->mac) < 0)
		return pl_err_set(err, EINVAL,
				  "the requested MAC \"%s\" is none of an "
				  "interface (six hexadecimal bytes, the first "
				  "even, not all zero)", s);
	c->has_mac = true;
	return 0;
}

static int parse_dns(const cJSON *json, struct pl_conf *c, struct pl_err *err)
{
	const cJSON *rt = NULL;

	if (pl_json_obj(json, "", "dns", &c->dns, err) < 0 ||
	    pl_json_obj(json, "", "runtimeConfig", &rt, err) < 0)
		return -EINVAL;
	return pl_json_obj(rt, "runtimeConfig", "dns", &c->runtime_dns, err);
}

/* In the order in which what is wrong is told. */
static int (*const parts[])(const cJSON *json, struct pl_conf *c,
			    struct pl_err *err) = {
	parse_prev, parse_flags, parse_texts, parse_mtu,
	parse_masq, parse_agent, parse_ipam,  parse_dns,
};

int pl_conf_parse(const struct pl_cni_conf *doc, const char *args, bool strict,
		  struct pl_conf *c, struct pl_err *err)
{
	const cJSON *json = doc->json;
	struct pl_err why;
	int rc = 0;

	*c = (struct pl_conf){ .json = json, .version = doc->version_text,
			       .name = doc->name, .bridge = PL_CONF_BRIDGE,
			       .agent_socket = PL_CONF_AGENT_SOCKET,
			       .state_dir = PL_CONF_STATE_DIR,
			       .ipam_type = "", .snat = true,
			       .lanes = { .enabled = true,
					  .memory_limit = PL_LANES_NO_LIMIT } };
	for (size_t i = 0; i < PL_ARRAY_SIZE(parts); i++)
		note(&rc, parts[i](json, c, &why), &why, err);
	if (!strict)
		return 0;
	if (rc == 0)
		rc = check_together(c, err);
	if (rc == 0 && !c->prev)
		rc = find_mac(json, args, c, err);
	if (rc == 0)
		rc = pl_bandwidth_parse(json, &c->bandwidth, err);
	if (rc == 0)
		rc = pl_vlan_parse(json, &c->vlan, err);
	if (rc == 0)
		rc = pl_portmap_check(c, err);
	/*
	 * Where br_netfilter sees bridged packets, one to a port of the node
	 * that leads back to its sender leaves by the port that it came in by.
	 */
	c->hairpin |= pl_portmap_wanted(c) && c->snat && !c->promisc;
	return rc == 0 ? check_unbuilt(json, err) : rc;
}
