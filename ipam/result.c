/* ipam/result.c - the result document of an IPAM plugin, by CNI version */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "common/util.h"
#include "ipam/ipam.h"

#define RESOLV_MAX (64u << 10)

/* --- dns, from a file like resolv.conf(5) --- */

static int add_words(cJSON *dns, const char *key, char *words)
{
	cJSON *list = cJSON_GetObjectItemCaseSensitive(dns, key);
	char *word;

	if (!list)
		list = cJSON_AddArrayToObject(dns, key);
	while ((word = strsep(&words, " \t\r"))) {
		cJSON *s;

		if (!*word)
			continue;
		s = cJSON_CreateString(word);
		if (!s || !cJSON_AddItemToArray(list, s)) {
			cJSON_Delete(s);
			return -ENOMEM;
		}
	}
	return 0;
}

static int add_line(cJSON *dns, char *line)
{
	static const struct {
		const char *word, *key;
	} lists[] = {
		{ "nameserver", "nameservers" },
		{ "search", "search" },
		{ "options", "options" },
	};
	char *word;

	line[strcspn(line, "#;")] = '\0';
	line += strspn(line, " \t\r");
	word = strsep(&line, " \t");
	if (!line)
		return 0;
	/* The last line of these counts, as for the resolver. */
	if (!strcmp(word, "search") || !strcmp(word, "domain"))
		cJSON_DeleteItemFromObjectCaseSensitive(dns, word);
	if (!strcmp(word, "domain")) {
		char *name = line + strspn(line, " \t\r");

		name[strcspn(name, " \t\r")] = '\0';
		return cJSON_AddStringToObject(dns, word, name) ? 0 : -ENOMEM;
	}
	for (size_t i = 0; i < PL_ARRAY_SIZE(lists); i++)
		if (!strcmp(word, lists[i].word))
			return add_words(dns, lists[i].key, line);
	return 0;
}

static int read_dns(const char *path, cJSON *dns, struct pl_err *err)
{
	pl_auto_free char *text = NULL;
	char *rest, *line;
	int rc;

	if (!*path)
		return 0;
	rc = pl_file_read(path, RESOLV_MAX, &text, NULL, err);
	if (rc < 0) {
		pl_err_prefix(err, "ipam.resolvConf");
		return rc;
	}
	rest = text;
	while (rc == 0 && (line = strsep(&rest, "\n")))
		rc = add_line(dns, line);
	return rc < 0 ? pl_err_set(err, ENOMEM, "out of memory") : 0;
}

/* --- addresses and routes --- */

static bool add_text(cJSON *obj, const char *key, const char *text)
{
	return cJSON_AddStringToObject(obj, key, text) != NULL;
}

/* Adds item, or deletes it. */
static bool add_item(cJSON *list, cJSON *item)
{
	if (item && cJSON_AddItemToArray(list, item))
		return true;
	cJSON_Delete(item);
	return false;
}

static bool add_gateway(cJSON *obj, const struct pl_ipam_ip *ip)
{
	char text[INET6_ADDRSTRLEN];

	return !ip->gateway.family ||
	       add_text(obj, "gateway", pl_addr_str(&ip->gateway, text));
}

/* 0.3.0 and later: "ips" and "routes". */
static bool add_lists(cJSON *doc, const struct pl_ipam_config *cfg,
		      const struct pl_ipam_result *res, int version)
{
	cJSON *ips = cJSON_AddArrayToObject(doc, "ips"), *routes;
	const cJSON *route;
	bool ok = ips != NULL;

	for (unsigned int i = 0; ok && i < res->n_ips; i++) {
		const struct pl_ipam_ip *ip = &res->ips[i];
		char text[PL_PREFIX_STRLEN];
		cJSON *e = cJSON_CreateObject();

		if (version < PL_CNI_V(1, 0, 0))
			ok = add_text(e, "version",
				      ip->address.addr.family == AF_INET ?
				      "4" : "6");
		ok = ok && add_text(e, "address",
				    pl_prefix_str(&ip->address, text)) &&
		     add_gateway(e, ip);
		ok = add_item(ips, e) && ok;
	}
	if (!ok || !cfg->routes || !cfg->routes->child)
		return ok;
	routes = cJSON_AddArrayToObject(doc, "routes");
	cJSON_ArrayForEach(route, cfg->routes)
		ok = ok && add_item(routes, pl_cni_route_for(route, version));
	return ok && routes;
}

/* 0.2.0 and before: "ip4" and "ip6" with the routes of that family. */
static bool add_family(cJSON *doc, const struct pl_ipam_config *cfg,
		       const struct pl_ipam_ip *ip, int version)
{
	uint8_t family = ip->address.addr.family;
	cJSON *e = cJSON_AddObjectToObject(doc, family == AF_INET ? "ip4" :
					   "ip6");
	cJSON *routes = NULL;
	const cJSON *route;
	char text[PL_PREFIX_STRLEN];
	bool ok = e && add_text(e, "ip", pl_prefix_str(&ip->address, text)) &&
		  add_gateway(e, ip);

	cJSON_ArrayForEach(route, cfg->routes) {
		const char *dst = NULL;
		struct pl_prefix p;

		if (!ok || pl_json_str(route, "", "dst", &dst, NULL) <= 0 ||
		    pl_prefix_parse(dst, &p) < 0 || p.addr.family != family)
			continue;
		if (!routes)
			routes = cJSON_AddArrayToObject(e, "routes");
		ok = add_item(routes, pl_cni_route_for(route, version));
	}
	return ok;
}

int pl_ipam_result_doc(const struct pl_ipam_config *cfg,
		       const struct pl_ipam_result *res,
		       const char *version_text, cJSON **out,
		       struct pl_err *err)
{
	int version = pl_cni_version_parse(version_text);
	pl_auto_json *doc = cJSON_CreateObject();
	cJSON *dns;
	bool ok = add_text(doc, "cniVersion", version_text);
	int rc;

	if (version >= PL_CNI_V(0, 3, 0))
		ok = ok && add_lists(doc, cfg, res, version);
	else
		for (unsigned int i = 0; ok && i < res->n_ips; i++)
			ok = add_family(doc, cfg, &res->ips[i], version);
	dns = cJSON_AddObjectToObject(doc, "dns");
	if (!ok || !dns)
		return pl_err_set(err, ENOMEM, "out of memory");
	rc = read_dns(cfg->resolv_conf, dns, err);
	if (rc < 0)
		return rc;
	*out = doc;
	doc = NULL;
	return 0;
}
