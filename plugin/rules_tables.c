/* plugin/rules_tables.c - our tables in nftables, and how they are read */
#include "plugin/rules_tables.h"

#include <errno.h>
#include <linux/netfilter.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "common/util.h"

/*
 * Chains of rules are written anew each time: that is part of the transaction,
 * so no packet sees them empty, and it repairs what somebody changed.
 */
#define MASQ "inet podlane_masq"
static const char masq[] =
	"add table " MASQ "\n"
	"add map " MASQ " from4 { type ipv4_addr : verdict; }\n"
	"add map " MASQ " from6 { type ipv6_addr : verdict; }\n"
	"add chain " MASQ " postrouting "
	"{ type nat hook postrouting priority 100; }\n"
	"flush chain " MASQ " postrouting\n"
	"add rule " MASQ " postrouting ip saddr vmap @from4\n"
	"add rule " MASQ " postrouting ip6 saddr vmap @from6\n";

/*
 * Ports of the node, and of one of its addresses, which goes first. How packets
 * come back is the business of the pod's own chain, which only those enter that
 * were sent to it here. Nobody on the wire may say 127.0.0.1, nor that it is
 * that: the interfaces of localnet route it, so that the node's own packets to
 * it can be sent to a pod.
 * Linux can't do that with ::1, so those are not sent anywhere either, nor what
 * is said to 127.0.0.1 and a port of nolocal, whose pod does not want snat.
 *
 * Data of two parts, "meta l4proto" and "th dport" together serve all protocols
 * that have ports; Linux 5.6, nft 0.9.4.
 */
#define PORTS "inet podlane_ports"
static const char ports[] =
	"add table " PORTS "\n"
	"add map " PORTS " port4 { type inet_proto . inet_service : "
	"ipv4_addr . inet_service; }\n"
	"add map " PORTS " port6 { type inet_proto . inet_service : "
	"ipv6_addr . inet_service; }\n"
	"add map " PORTS " hostport4 { type ipv4_addr . inet_proto . "
	"inet_service : ipv4_addr . inet_service; }\n"
	"add map " PORTS " hostport6 { type ipv6_addr . inet_proto . "
	"inet_service : ipv6_addr . inet_service; }\n"
	"add map " PORTS " back4 { type ipv4_addr : verdict; }\n"
	"add map " PORTS " back6 { type ipv6_addr : verdict; }\n"
	"add set " PORTS " localnet { type iface_index; }\n"
	"add set " PORTS " nolocal { type inet_proto . inet_service; }\n"
	"add chain " PORTS " hostports\n"
	"flush chain " PORTS " hostports\n"
	"add rule " PORTS " hostports dnat ip to "
	"ip daddr . meta l4proto . th dport map @hostport4\n"
	"add rule " PORTS " hostports dnat ip to "
	"meta l4proto . th dport map @port4\n"
	"add rule " PORTS " hostports dnat ip6 to "
	"ip6 daddr . meta l4proto . th dport map @hostport6\n"
	"add rule " PORTS " hostports dnat ip6 to "
	"meta l4proto . th dport map @port6\n"
	"add chain " PORTS " prerouting "
	"{ type nat hook prerouting priority -100; }\n"
	"flush chain " PORTS " prerouting\n"
	"add rule " PORTS " prerouting fib daddr type local jump hostports\n"
	"add chain " PORTS " output { type nat hook output priority -100; }\n"
	"flush chain " PORTS " output\n"
	"add rule " PORTS " output ip6 daddr ::1 return\n"
	"add rule " PORTS " output ip daddr 127.0.0.0/8 dnat ip to "
	"ip daddr . meta l4proto . th dport map @hostport4\n"
	"add rule " PORTS " output ip daddr 127.0.0.0/8 "
	"meta l4proto . th dport @nolocal return\n"
	"add rule " PORTS " output fib daddr type local jump hostports\n"
	"add chain " PORTS " postrouting "
	"{ type nat hook postrouting priority 100; }\n"
	"flush chain " PORTS " postrouting\n"
	"add rule " PORTS " postrouting ct status dnat "
	"ip daddr vmap @back4\n"
	"add rule " PORTS " postrouting ct status dnat "
	"ip6 daddr vmap @back6\n"
	"add chain " PORTS " martians "
	"{ type filter hook prerouting priority -300; }\n"
	"flush chain " PORTS " martians\n"
	"add rule " PORTS " martians iif @localnet ip daddr 127.0.0.0/8 "
	"drop\n"
	"add rule " PORTS " martians iif @localnet ip saddr 127.0.0.0/8 "
	"drop\n";

#define MAC "bridge podlane_mac"
static const char mac[] =
	"add table " MAC "\n"
	"add set " MAC " macs { type ifname . ether_addr; }\n"
	"add set " MAC " guarded { type ifname; }\n"
	"add chain " MAC " prerouting "
	"{ type filter hook prerouting priority -300; }\n"
	"flush chain " MAC " prerouting\n"
	"add rule " MAC " prerouting iifname @guarded "
	"iifname . ether saddr != @macs drop\n";

const struct pl_rules_def pl_rules_defs[PL_RULES_TABLES] = {
	[PL_RULES_MASQ] = { "inet", "podlane_masq", NFPROTO_INET, masq },
	[PL_RULES_PORTS] = { "inet", "podlane_ports", NFPROTO_INET, ports },
	[PL_RULES_MAC] = { "bridge", "podlane_mac", NFPROTO_BRIDGE, mac },
};

/* --- reading --- */

/* Nothing else stands in keys and data of ours. */
static bool add_text(char *buf, size_t size, const char *s)
{
	size_t have = strlen(buf), n = strlen(s);

	if (n >= size - have || strspn(s, "abcdefghijklmnopqrstuvwxyz"
				       "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				       "0123456789_.:- ") != n)
		return false;
	memcpy(buf + have, s, n + 1);
	return true;
}

static bool add_value(char *buf, size_t size, const cJSON *v)
{
	char number[24];

	if (cJSON_IsString(v))
		return add_text(buf, size, v->valuestring);
	if (!cJSON_IsNumber(v) || v->valuedouble < 0 ||
	    v->valuedouble > UINT32_MAX)
		return false;
	snprintf(number, sizeof(number), "%.0f", v->valuedouble);
	return add_text(buf, size, number);
}

static const cJSON *get(const cJSON *obj, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(obj, key);
}

/* A value, or several of a concatenation: "10.0.0.1 . 80". */
static bool read_value(char *buf, size_t size, const cJSON *v)
{
	const cJSON *concat = get(v, "concat"), *part;

	buf[0] = '\0';
	if (!concat)
		return add_value(buf, size, v);
	cJSON_ArrayForEach(part, concat) {
		if (part != concat->child && !add_text(buf, size, " . "))
			return false;
		if (!add_value(buf, size, part))
			return false;
	}
	return true;
}

static bool read_data(char *buf, size_t size, const cJSON *d)
{
	const char *target = NULL;

	if (pl_json_str(get(d, "jump"), "", "target", &target, NULL) <= 0)
		return read_value(buf, size, d);
	buf[0] = '\0';
	return add_text(buf, size, "jump ") && add_text(buf, size, target);
}

/* "TAG TAG who" or "TAG TAG chained who" */
static void read_comment(const char *c, struct pl_rules_item *item)
{
	const size_t len = PL_RULES_TAG_BYTES - 1;
	const size_t chained = strlen(PL_RULES_CHAINED);

	if (strlen(c) < 2 * len + 1 || c[len] != ' ' || strncmp(c, "pl", 2))
		return;
	memcpy(item->owner, c, len);
	memcpy(item->network, c + len + 1, len);
	item->owner[len] = item->network[len] = '\0';
	item->who = c + 2 * len + 1;
	item->who += *item->who == ' ';
	item->chained = !strncmp(item->who, PL_RULES_CHAINED, chained);
	if (item->chained)
		item->who += chained;
}

/* A set's element is KEY, a map's [KEY, DATA]. */
static bool read_elem(const cJSON *e, struct pl_rules_item *item)
{
	const cJSON *key = cJSON_IsArray(e) ? cJSON_GetArrayItem(e, 0) : e;
	const cJSON *data = cJSON_IsArray(e) ? cJSON_GetArrayItem(e, 1) : NULL;
	const cJSON *elem = get(key, "elem");
	const char *comment = "";

	item->owner[0] = item->network[0] = item->data[0] = '\0';
	item->chained = false;
	item->who = "";
	if (elem) {
		pl_json_str(elem, "", "comment", &comment, NULL);
		key = get(elem, "val");
	}
	read_comment(comment, item);
	return read_value(item->key, sizeof(item->key), key) &&
	       (!data || read_data(item->data, sizeof(item->data), data));
}

typedef int item_fn(const struct pl_rules_item *item, void *arg);

static int each_elem(const cJSON *set, item_fn *fn, void *arg)
{
	struct pl_rules_item item = { .kind = PL_RULES_ELEM };
	const cJSON *elems = get(set, "elem"), *e;
	int rc = 0;

	if (pl_json_str(set, "", "name", &item.name, NULL) <= 0)
		return 0;
	cJSON_ArrayForEach(e, elems) {
		if (read_elem(e, &item))
			rc = fn(&item, arg);
		if (rc)
			break;
	}
	return rc;
}

static int one(const cJSON *obj, const char *key, enum pl_rules_kind kind,
	       item_fn *fn, void *arg)
{
	struct pl_rules_item item = { .kind = kind, .who = "" };

	if (pl_json_str(obj, "", key, &item.name, NULL) <= 0)
		return 0;
	return fn(&item, arg);
}

int pl_rules_each(const cJSON *list, item_fn *fn, void *arg)
{
	const cJSON *e, *o;
	int rc = 0;

	cJSON_ArrayForEach(e, list) {
		if ((o = get(e, "map")) || (o = get(e, "set")))
			rc = each_elem(o, fn, arg);
		if (rc)
			return rc;
	}
	cJSON_ArrayForEach(e, list) {
		if ((o = get(e, "chain")))
			rc = one(o, "name", PL_RULES_CHAIN, fn, arg);
		else if ((o = get(e, "rule")))
			rc = one(o, "chain", PL_RULES_RULE, fn, arg);
		if (rc)
			return rc;
	}
	return rc;
}

const cJSON *pl_rules_set(const cJSON *list, const char *name)
{
	const cJSON *e;

	cJSON_ArrayForEach(e, list) {
		const cJSON *set = get(e, "set");
		const char *s = "";

		pl_json_str(set, "", "name", &s, NULL);
		if (!strcmp(s, name))
			return get(set, "elem");
	}
	return NULL;
}
