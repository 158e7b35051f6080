/* plugin/result.c - the result of ADD, apart from the shape of any version */
#include "plugin/result.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/util.h"

/* What differs between versions. */
struct shape {
	const char *version;
	bool by_family;		/* "ip4" and "ip6" */
	bool ip_version;	/* ips[].version */
	bool details;		/* the fields of 1.1.0 */
};

static const struct shape shapes[] = {
	{ "0.1.0", true, false, false },  { "0.2.0", true, false, false },
	{ "0.3.0", false, true, false },  { "0.3.1", false, true, false },
	{ "0.4.0", false, true, false },  { "1.0.0", false, false, false },
	{ "1.1.0", false, false, true },
};

/* Of by_family. */
static const struct {
	const char *key;
	int family;
} families[] = { { "ip4", AF_INET }, { "ip6", AF_INET6 } };

static const char *const route_keys[PL_ROUTE_OPTS] = {
	[PL_ROUTE_MTU] = "mtu",		  [PL_ROUTE_ADVMSS] = "advmss",
	[PL_ROUTE_PRIORITY] = "priority", [PL_ROUTE_TABLE] = "table",
	[PL_ROUTE_SCOPE] = "scope",
};

void pl_result_fini(struct pl_result *r)
{
	for (size_t i = 0; i < r->n_ifs; i++) {
		free(r->ifs[i].sandbox);
		free(r->ifs[i].socket_path);
		free(r->ifs[i].pci_id);
	}
	free(r->ifs);
	free(r->ips);
	free(r->routes);
	cJSON_Delete(r->dns);
	memset(r, 0, sizeof(*r));
}

static void *append(void *list, size_t *n, size_t bytes)
{
	char *p = *(char **)list;

	/* Grows at powers of two. */
	if ((*n & (*n - 1)) == 0) {
		p = realloc(p, (*n ? *n * 2 : 1) * bytes);
		if (!p)
			return NULL;
		*(char **)list = p;
	}
	p += (*n)++ * bytes;
	memset(p, 0, bytes);
	return p;
}

struct pl_res_if *pl_result_if(struct pl_result *r)
{
	return append(&r->ifs, &r->n_ifs, sizeof(*r->ifs));
}

struct pl_res_ip *pl_result_ip(struct pl_result *r)
{
	struct pl_res_ip *ip = append(&r->ips, &r->n_ips, sizeof(*r->ips));

	if (ip)
		ip->ifindex = -1;
	return ip;
}

struct pl_res_route *pl_result_route(struct pl_result *r)
{
	return append(&r->routes, &r->n_routes, sizeof(*r->routes));
}

int pl_result_find(const struct pl_result *r, const char *ifname)
{
	for (size_t i = 0; i < r->n_ifs; i++) {
		if (r->ifs[i].sandbox && !strcmp(r->ifs[i].name, ifname))
			return (int)i;
	}
	return -1;
}

static int no_memory(struct pl_err *err)
{
	return pl_err_set(err, ENOMEM, "out of memory");
}

static int copy_str(const cJSON *j, const char *where, const char *key,
		    char **out, struct pl_err *err)
{
	const char *s = NULL;
	int rc = pl_json_str(j, where, key, &s, err);

	if (rc < 0 || !s || !*s)
		return rc < 0 ? rc : 0;
	*out = strdup(s);
	return *out ? 0 : no_memory(err);
}

static int fixed_str(const cJSON *j, const char *where, const char *key,
		     char *buf, size_t size, struct pl_err *err)
{
	const char *s = "";

	if (pl_json_str(j, where, key, &s, err) < 0)
		return -EINVAL;
	if (pl_format(buf, size, "%s", s) < 0)
		return pl_err_set(err, EINVAL, "%s.%s is longer than %zu bytes",
				  where, key, size - 1);
	return 0;
}

static int parse_if(const cJSON *j, const char *where, struct pl_result *r,
		    struct pl_err *err)
{
	struct pl_res_if *i = pl_result_if(r);
	int64_t mtu = 0;

	if (!i)
		return no_memory(err);
	if (fixed_str(j, where, "name", i->name, sizeof(i->name), err) < 0 ||
	    fixed_str(j, where, "mac", i->mac, sizeof(i->mac), err) < 0 ||
	    pl_json_int(j, where, "mtu", 0, UINT32_MAX, &mtu, err) < 0 ||
	    copy_str(j, where, "sandbox", &i->sandbox, err) < 0 ||
	    copy_str(j, where, "socketPath", &i->socket_path, err) < 0 ||
	    copy_str(j, where, "pciID", &i->pci_id, err) < 0)
		return -EINVAL;
	i->mtu = (uint32_t)mtu;
	return 0;
}

static int parse_addr(const cJSON *j, const char *where, const char *key,
		      struct pl_addr *out, struct pl_err *err)
{
	const char *s = NULL;

	if (pl_json_str(j, where, key, &s, err) < 0)
		return -EINVAL;
	if (s && *s && pl_addr_parse(s, out) < 0)
		return pl_err_set(err, EINVAL, "%s.%s is no address: %s", where,
				  key, s);
	return 0;
}

static int parse_prefix(const cJSON *j, const char *where, const char *key,
			struct pl_prefix *out, struct pl_err *err)
{
	const char *s = "";

	if (pl_json_str(j, where, key, &s, err) < 0)
		return -EINVAL;
	if (pl_prefix_parse(s, out) < 0)
		return pl_err_set(err, EINVAL,
				  "%s.%s must be ADDRESS/LENGTH, is \"%s\"",
				  where, key, s);
	return 0;
}

static int parse_ip(const cJSON *j, const char *where, struct pl_result *r,
		    struct pl_err *err)
{
	struct pl_res_ip *ip = pl_result_ip(r);
	int64_t index = -1;

	if (!ip)
		return no_memory(err);
	if (parse_prefix(j, where, "address", &ip->addr, err) < 0 ||
	    parse_addr(j, where, "gateway", &ip->gw, err) < 0 ||
	    pl_json_int(j, where, "interface", -1, INT32_MAX, &index, err) < 0)
		return -EINVAL;
	ip->ifindex = (int)index;
	return 0;
}

static int parse_route(const cJSON *j, const char *where, struct pl_result *r,
		       struct pl_err *err)
{
	struct pl_res_route *route = pl_result_route(r);

	if (!route)
		return no_memory(err);
	if (parse_prefix(j, where, "dst", &route->dst, err) < 0 ||
	    parse_addr(j, where, "gw", &route->gw, err) < 0)
		return -EINVAL;
	for (int i = 0; i < PL_ROUTE_OPTS; i++) {
		int64_t v = 0;
		int rc = pl_json_int(j, where, route_keys[i], 0, UINT32_MAX, &v,
				     err);

		if (rc < 0)
			return rc;
		route->opt[i] = (uint32_t)v;
		route->has |= rc ? 1u << i : 0;
	}
	return 0;
}

static int parse_list(const cJSON *json, const char *key, struct pl_result *r,
		      int (*one)(const cJSON *j, const char *where,
				 struct pl_result *r, struct pl_err *err),
		      struct pl_err *err)
{
	const cJSON *list = NULL, *j;
	int n = 0, rc = pl_json_arr(json, "", key, &list, err);

	if (rc <= 0)
		return rc;
	cJSON_ArrayForEach(j, list) {
		char where[64];

		snprintf(where, sizeof(where), "%s[%d]", key, n++);
		rc = one(j, where, r, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int parse_family(const cJSON *json, const char *key,
			struct pl_result *r, struct pl_err *err)
{
	const cJSON *j = NULL;
	struct pl_res_ip *ip;
	int rc = pl_json_obj(json, "", key, &j, err);

	if (rc <= 0)
		return rc;
	ip = pl_result_ip(r);
	if (!ip)
		return no_memory(err);
	if (parse_prefix(j, key, "ip", &ip->addr, err) < 0 ||
	    parse_addr(j, key, "gateway", &ip->gw, err) < 0)
		return -EINVAL;
	return parse_list(j, "routes", r, parse_route, err);
}

int pl_result_parse(const cJSON *json, struct pl_result *r, struct pl_err *err)
{
	const cJSON *dns = NULL;
	int rc;

	memset(r, 0, sizeof(*r));
	if (!cJSON_IsObject(json))
		return pl_err_set(err, EINVAL, "a result must be an object");
	rc = parse_list(json, "interfaces", r, parse_if, err);
	if (rc == 0)
		rc = parse_list(json, "ips", r, parse_ip, err);
	if (rc == 0)
		rc = parse_list(json, "routes", r, parse_route, err);
	for (size_t i = 0; rc == 0 && i < PL_ARRAY_SIZE(families); i++)
		rc = parse_family(json, families[i].key, r, err);
	if (rc == 0)
		rc = pl_json_obj(json, "", "dns", &dns, err);
	if (rc > 0) {
		r->dns = cJSON_Duplicate(dns, true);
		rc = r->dns ? 0 : no_memory(err);
	}
	if (rc < 0)
		pl_result_fini(r);
	return rc;
}

static const struct shape *shape_of(const char *version)
{
	for (size_t i = 0; i < PL_ARRAY_SIZE(shapes); i++) {
		if (!strcmp(shapes[i].version, version))
			return &shapes[i];
	}
	return &shapes[PL_ARRAY_SIZE(shapes) - 1];
}

/* The adders below: true when it is there, or need not be. */
static bool add_str(cJSON *j, const char *key, const char *s)
{
	return !s || !*s || cJSON_AddStringToObject(j, key, s);
}

static bool add_addr(cJSON *j, const char *key, const struct pl_addr *a)
{
	char buf[INET6_ADDRSTRLEN];

	return !a->family || add_str(j, key, pl_addr_str(a, buf));
}

static bool add_prefix(cJSON *j, const char *key, const struct pl_prefix *p)
{
	char buf[PL_PREFIX_STRLEN];

	return add_str(j, key, pl_prefix_str(p, buf));
}

static bool print_if(cJSON *j, const struct pl_res_if *i,
		     const struct shape *shape)
{
	if (!cJSON_AddStringToObject(j, "name", i->name) ||
	    !add_str(j, "mac", i->mac) || !add_str(j, "sandbox", i->sandbox))
		return false;
	if (!shape->details)
		return true;
	return (!i->mtu || cJSON_AddNumberToObject(j, "mtu", i->mtu)) &&
	       add_str(j, "socketPath", i->socket_path) &&
	       add_str(j, "pciID", i->pci_id);
}

static bool print_ip(cJSON *j, const struct pl_res_ip *ip,
		     const struct shape *shape)
{
	const char *v = ip->addr.addr.family == AF_INET6 ? "6" : "4";

	if (shape->ip_version && !add_str(j, "version", v))
		return false;
	if (ip->ifindex >= 0 &&
	    !cJSON_AddNumberToObject(j, "interface", ip->ifindex))
		return false;
	return add_prefix(j, "address", &ip->addr) &&
	       add_addr(j, "gateway", &ip->gw);
}

static bool print_route(cJSON *j, const struct pl_res_route *r,
			const struct shape *shape)
{
	if (!add_prefix(j, "dst", &r->dst) || !add_addr(j, "gw", &r->gw))
		return false;
	for (int i = 0; shape->details && i < PL_ROUTE_OPTS; i++) {
		if ((r->has & 1u << i) &&
		    !cJSON_AddNumberToObject(j, route_keys[i], r->opt[i]))
			return false;
	}
	return true;
}

/*
 * A new object at the end of the list of that name; NULL when out of memory.
 * The first one makes the list: programs in Go leave empty ones out.
 */
static cJSON *item(cJSON *out, cJSON **list, const char *name)
{
	cJSON *j;

	if (!*list)
		*list = cJSON_AddArrayToObject(out, name);
	j = *list ? cJSON_CreateObject() : NULL;
	if (j)
		cJSON_AddItemToArray(*list, j);
	return j;
}

static bool print_lists(cJSON *out, const struct pl_result *r,
			const struct shape *s)
{
	cJSON *ifs = NULL, *ips = NULL, *routes = NULL, *j;

	for (size_t i = 0; i < r->n_ifs; i++) {
		j = item(out, &ifs, "interfaces");
		if (!j || !print_if(j, &r->ifs[i], s))
			return false;
	}
	for (size_t i = 0; i < r->n_ips; i++) {
		j = item(out, &ips, "ips");
		if (!j || !print_ip(j, &r->ips[i], s))
			return false;
	}
	for (size_t i = 0; i < r->n_routes; i++) {
		j = item(out, &routes, "routes");
		if (!j || !print_route(j, &r->routes[i], s))
			return false;
	}
	return true;
}

/* The first address of the family, and the routes of the family. */
static bool print_family(cJSON *out, const struct pl_result *r,
			 const char *key, int family, const struct shape *s)
{
	cJSON *j, *route, *list = NULL;
	size_t n = 0;

	while (n < r->n_ips && r->ips[n].addr.addr.family != family)
		n++;
	if (n == r->n_ips)
		return true;
	j = cJSON_AddObjectToObject(out, key);
	if (!add_prefix(j, "ip", &r->ips[n].addr) ||
	    !add_addr(j, "gateway", &r->ips[n].gw))
		return false;
	for (size_t i = 0; i < r->n_routes; i++) {
		if (r->routes[i].dst.addr.family != family)
			continue;
		route = item(j, &list, "routes");
		if (!route || !print_route(route, &r->routes[i], s))
			return false;
	}
	return true;
}

static bool print_body(cJSON *out, const struct pl_result *r,
		       const struct shape *s)
{
	if (!s->by_family)
		return print_lists(out, r, s);
	for (size_t i = 0; i < PL_ARRAY_SIZE(families); i++) {
		if (!print_family(out, r, families[i].key, families[i].family,
				  s))
			return false;
	}
	return true;
}

cJSON *pl_result_print(const struct pl_result *r, const char *version)
{
	pl_auto_json *out = cJSON_CreateObject();
	cJSON *dns, *ret;

	if (!out || !cJSON_AddStringToObject(out, "cniVersion", version) ||
	    !print_body(out, r, shape_of(version)))
		return NULL;
	dns = r->dns ? cJSON_Duplicate(r->dns, true) : cJSON_CreateObject();
	if (!dns)
		return NULL;
	cJSON_AddItemToObject(out, "dns", dns);
	ret = out;
	out = NULL;
	return ret;
}
