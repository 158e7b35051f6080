/*
 * ipam/config.c - the "ipam" part of a network configuration
 *
 * Keys and defaults are host-local's: the gateway is the first address of the
 * subnet, a range goes from there to the last address (IPv4: before the
 * broadcast address). The network and broadcast addresses are never handed
 * out, also when rangeStart or rangeEnd names them. Stricter than host-local:
 * host bits and a reversed range are errors.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "common/util.h"
#include "ipam/ipam.h"

#define LABEL_BYTES 48

/* A configuration being read: where each range came from, for messages. */
struct parse {
	struct pl_ipam_config *cfg;
	char label[PL_IPAM_MAX_RANGES][LABEL_BYTES];
	struct pl_err *err;
};

/* One address of a range; "" counts as absent, as Go's decoder has it. */
static int get_addr(struct parse *p, const cJSON *obj, const char *where,
		    const char *key, struct pl_addr *out)
{
	const char *text = NULL;

	if (pl_json_str(obj, where, key, &text, p->err) < 0)
		return -EINVAL;
	if (!text || !*text)
		return 0;
	if (pl_addr_parse(text, out) < 0)
		return pl_err_set(p->err, EINVAL,
				  "%s.%s \"%.64s\" is no address", where, key,
				  text);
	return 1;
}

static int get_subnet(struct parse *p, const cJSON *obj, const char *where,
		      struct pl_prefix *subnet)
{
	char buf[PL_PREFIX_STRLEN];
	const char *text = NULL;
	struct pl_addr first;

	if (pl_json_str(obj, where, "subnet", &text, p->err) < 0)
		return -EINVAL;
	if (!text)
		return pl_err_set(p->err, EINVAL, "%s.subnet is missing",
				  where);
	if (pl_prefix_parse(text, subnet) < 0)
		return pl_err_set(p->err, EINVAL, "%s.subnet \"%.64s\" is no "
				  "prefix like 10.1.0.0/16", where, text);
	if (subnet->len > pl_addr_bits(&subnet->addr) - 2)
		return pl_err_set(p->err, EINVAL, "%s.subnet %s is too small "
				  "to allocate from; it must be a /%d or "
				  "larger", where, text,
				  pl_addr_bits(&subnet->addr) - 2);
	first = pl_prefix_first(subnet);
	if (!pl_addr_equal(&first, &subnet->addr)) {
		subnet->addr = first;
		return pl_err_set(p->err, EINVAL, "%s.subnet %s has host bits "
				  "set; did you mean %s?", where, text,
				  pl_prefix_str(subnet, buf));
	}
	return 0;
}

/*
 * rangeStart, rangeEnd or gateway: *addr stays as it is when absent. The
 * gateway may be elsewhere: the pod then needs a route to it, which plugins
 * such as the reference ptp make.
 */
static int get_member(struct parse *p, const cJSON *obj, const char *where,
		      const char *key, const struct pl_prefix *subnet,
		      bool inside, struct pl_addr *addr)
{
	char a[INET6_ADDRSTRLEN], s[PL_PREFIX_STRLEN];
	int rc = get_addr(p, obj, where, key, addr);

	if (rc <= 0)
		return rc;
	if (addr->family != subnet->addr.family)
		return pl_err_set(p->err, EINVAL, "%s.%s %s is not of the "
				  "family of its subnet %s", where, key,
				  pl_addr_str(addr, a),
				  pl_prefix_str(subnet, s));
	if (inside && !pl_prefix_contains(subnet, addr))
		return pl_err_set(p->err, EINVAL,
				  "%s.%s %s is not in the subnet %s", where,
				  key, pl_addr_str(addr, a),
				  pl_prefix_str(subnet, s));
	return 0;
}

static struct pl_addr addr_before(struct pl_addr a)
{
	int i = pl_addr_bits(&a) / 8;

	while (i-- > 0)
		if (a.bytes[i]-- != 0)
			break;
	return a;
}

static int read_range(struct parse *p, const cJSON *obj, const char *where,
		      struct pl_ipam_range *r)
{
	char a[INET6_ADDRSTRLEN], b[INET6_ADDRSTRLEN];
	struct pl_addr first, last;

	if (!cJSON_IsObject(obj))
		return pl_err_set(p->err, EINVAL, "%s must be an object",
				  where);
	if (get_subnet(p, obj, where, &r->subnet) < 0)
		return -EINVAL;
	first = pl_addr_add(&r->subnet.addr, 1);
	last = pl_prefix_last(&r->subnet);
	if (last.family == AF_INET)
		last = addr_before(last);
	r->start = first;
	r->end = last;
	r->gateway = first;
	if (get_member(p, obj, where, "rangeStart", &r->subnet, true,
		       &r->start) ||
	    get_member(p, obj, where, "rangeEnd", &r->subnet, true, &r->end) ||
	    get_member(p, obj, where, "gateway", &r->subnet, false,
		       &r->gateway))
		return -EINVAL;
	if (pl_addr_cmp(&r->start, &r->end) > 0)
		return pl_err_set(p->err, EINVAL, "%s is reversed: rangeStart "
				  "%s is after rangeEnd %s", where,
				  pl_addr_str(&r->start, a),
				  pl_addr_str(&r->end, b));
	if (pl_addr_cmp(&r->start, &first) < 0)
		r->start = first;
	if (pl_addr_cmp(&r->end, &last) > 0)
		r->end = last;
	if (pl_addr_cmp(&r->start, &r->end) > 0 ||
	    (pl_addr_equal(&r->start, &r->end) &&
	     pl_addr_equal(&r->start, &r->gateway)))
		return pl_err_set(p->err, EINVAL, "%s has no address beside "
				  "the network, gateway and broadcast "
				  "addresses", where);
	return 0;
}

static int add_range(struct parse *p, const cJSON *obj, const char *where)
{
	struct pl_ipam_config *cfg = p->cfg;
	struct pl_ipam_range *r = &cfg->ranges[cfg->n_ranges];
	char a[PL_PREFIX_STRLEN], b[PL_PREFIX_STRLEN];

	if (cfg->n_ranges == PL_IPAM_MAX_RANGES)
		return pl_err_set(p->err, EINVAL, "%s: there are more than %d "
				  "ranges in all sets; join neighbouring ones",
				  where, PL_IPAM_MAX_RANGES);
	snprintf(p->label[cfg->n_ranges], LABEL_BYTES, "%s", where);
	if (read_range(p, obj, where, r) < 0)
		return -EINVAL;
	r->set = cfg->n_sets;
	for (unsigned int i = 0; i < cfg->n_ranges; i++) {
		const struct pl_ipam_range *o = &cfg->ranges[i];

		if (o->set == r->set &&
		    o->start.family != r->start.family)
			return pl_err_set(p->err, EINVAL, "%s (%s) and %s (%s) "
					  "mix families in one range set; give "
					  "each family a set of its own",
					  p->label[i],
					  pl_prefix_str(&o->subnet, a), where,
					  pl_prefix_str(&r->subnet, b));
		if (o->start.family == r->start.family &&
		    pl_addr_cmp(&o->start, &r->end) <= 0 &&
		    pl_addr_cmp(&r->start, &o->end) <= 0)
			return pl_err_set(p->err, EINVAL,
					  "%s (%s) and %s (%s) overlap",
					  p->label[i],
					  pl_prefix_str(&o->subnet, a), where,
					  pl_prefix_str(&r->subnet, b));
	}
	cfg->n_ranges++;
	return 0;
}

static int end_set(struct parse *p, const char *where)
{
	if (p->cfg->n_sets == PL_IPAM_MAX_SETS)
		return pl_err_set(p->err, EINVAL, "%s: there are more than %d "
				  "range sets, each of which gives a pod one more "
				  "address; put ranges to choose from into one set",
				  where, PL_IPAM_MAX_SETS);
	p->cfg->n_sets++;
	return 0;
}

/* A list of range sets: "ranges" or "ipRanges". */
static int add_sets(struct parse *p, const cJSON *sets, const char *path)
{
	const cJSON *set, *range;
	int i = 0;

	cJSON_ArrayForEach(set, sets) {
		char where[LABEL_BYTES];
		int k = 0;

		snprintf(where, sizeof(where), "%s[%d]", path, i);
		if (!cJSON_IsArray(set))
			return pl_err_set(p->err, EINVAL,
					  "%s must be a list of ranges", where);
		if (!cJSON_GetArraySize(set))
			return pl_err_set(p->err, EINVAL,
					  "%s has no range", where);
		cJSON_ArrayForEach(range, set) {
			snprintf(where, sizeof(where), "%s[%d][%d]", path, i,
				 k++);
			if (add_range(p, range, where) < 0)
				return -EINVAL;
		}
		if (end_set(p, where) < 0)
			return -EINVAL;
		i++;
	}
	return 0;
}

/* The order of host-local: runtimeConfig.ipRanges, subnet, ranges. */
static int read_ranges(struct parse *p, const cJSON *netconf, const cJSON *ipam)
{
	const cJSON *runtime = NULL, *extra = NULL, *sets = NULL;

	if (pl_json_obj(netconf, "", "runtimeConfig", &runtime, p->err) < 0 ||
	    pl_json_arr(runtime, "runtimeConfig", "ipRanges", &extra,
			p->err) < 0 ||
	    pl_json_arr(ipam, "ipam", "ranges", &sets, p->err) < 0)
		return -EINVAL;
	if (add_sets(p, extra, "runtimeConfig.ipRanges") < 0)
		return -EINVAL;
	if (pl_json_member(ipam, "subnet") &&
	    (add_range(p, ipam, "ipam") < 0 || end_set(p, "ipam") < 0))
		return -EINVAL;
	if (add_sets(p, sets, "ipam.ranges") < 0)
		return -EINVAL;
	if (!p->cfg->n_sets)
		return pl_err_set(p->err, EINVAL, "the configuration has no "
				  "range of addresses: set ipam.ranges, for "
				  "example [[{\"subnet\": \"10.1.0.0/16\"}]]");
	return 0;
}

/* Results of 0.2.0 and before have room for one address of each family. */
static int check_version(struct parse *p, const cJSON *netconf)
{
	const char *text = PL_CNI_VERSION_DEFAULT;
	int n[2] = { 0, 0 };
	unsigned int last = PL_IPAM_MAX_SETS;

	if (pl_json_str(netconf, "", "cniVersion", &text, p->err) < 0)
		return -EINVAL;
	if (pl_cni_version_parse(*text ? text : PL_CNI_VERSION_DEFAULT) >=
	    PL_CNI_V(0, 3, 0))
		return 0;
	for (unsigned int i = 0; i < p->cfg->n_ranges; i++) {
		const struct pl_ipam_range *r = &p->cfg->ranges[i];

		if (r->set == last)
			continue;
		last = r->set;
		if (++n[r->start.family == AF_INET6] > 1)
			return pl_err_set(p->err, EINVAL, "%s: cniVersion %s "
					  "has room for one address of each "
					  "family only; use 0.3.0 or later",
					  p->label[i], text);
	}
	return 0;
}

/* The range that an address may come from, or NULL. */
static const struct pl_ipam_range *range_of(const struct pl_ipam_config *cfg,
					    const struct pl_addr *a)
{
	for (unsigned int i = 0; i < cfg->n_ranges; i++) {
		const struct pl_ipam_range *r = &cfg->ranges[i];

		if (r->start.family == a->family &&
		    pl_addr_cmp(&r->start, a) <= 0 &&
		    pl_addr_cmp(a, &r->end) <= 0)
			return r;
	}
	return NULL;
}

static int add_request(struct parse *p, const char *where, const char *text)
{
	struct pl_ipam_config *cfg = p->cfg;
	const struct pl_ipam_range *r;
	struct pl_prefix prefix;
	struct pl_addr a;
	char other[INET6_ADDRSTRLEN];

	if (pl_prefix_parse(text, &prefix) == 0)
		a = prefix.addr;
	else if (pl_addr_parse(text, &a) < 0)
		return pl_err_set(p->err, EINVAL, "%s \"%.64s\" is no address",
				  where, text);
	r = range_of(cfg, &a);
	if (!r)
		return pl_err_set(p->err, EINVAL, "%s %s is in none of the "
				  "configured ranges", where, text);
	if (pl_addr_equal(&a, &r->gateway))
		return pl_err_set(p->err, EINVAL, "%s %s is the gateway of its "
				  "subnet", where, text);
	for (unsigned int i = 0; i < cfg->n_requested; i++) {
		const struct pl_addr *o = &cfg->requested[i];

		if (pl_addr_equal(o, &a))
			return 0;
		if (range_of(cfg, o)->set == r->set)
			return pl_err_set(p->err, EINVAL, "%s %s and %s are "
					  "requested from one range set, which "
					  "gives one address", where, text,
					  pl_addr_str(o, other));
	}
	/* No more than one for each set, so there is room. */
	cfg->requested[cfg->n_requested++] = a;
	return 0;
}

/* A list of texts; 1 when it asks for anything. */
static int add_requests(struct parse *p, const cJSON *list, const char *path)
{
	const cJSON *e;
	int i = 0;

	cJSON_ArrayForEach(e, list) {
		char where[LABEL_BYTES];

		snprintf(where, sizeof(where), "%s[%d]", path, i++);
		if (!cJSON_IsString(e))
			return pl_err_set(p->err, EINVAL, "%s must be a string",
					  where);
		if (add_request(p, where, e->valuestring) < 0)
			return -EINVAL;
	}
	return i > 0;
}

/* What is given nearest to the pod counts, and nothing is added up. */
static int read_requests(struct parse *p, const cJSON *netconf,
			 const char *cni_args)
{
	const cJSON *runtime = NULL, *args = NULL, *cni = NULL, *list = NULL;
	char text[128];
	int rc;

	if (pl_json_obj(netconf, "", "runtimeConfig", &runtime, p->err) < 0 ||
	    pl_json_arr(runtime, "runtimeConfig", "ips", &list, p->err) < 0)
		return -EINVAL;
	rc = add_requests(p, list, "runtimeConfig.ips");
	if (rc)
		return rc;
	list = NULL;
	if (pl_json_obj(netconf, "", "args", &args, p->err) < 0 ||
	    pl_json_obj(args, "args", "cni", &cni, p->err) < 0 ||
	    pl_json_arr(cni, "args.cni", "ips", &list, p->err) < 0)
		return -EINVAL;
	rc = add_requests(p, list, "args.cni.ips");
	if (rc)
		return rc;
	rc = pl_cni_args_get(cni_args, "IP", text, sizeof(text));
	if (rc < 0)
		return pl_err_set(p->err, EINVAL,
				  "IP of CNI_ARGS is no address");
	if (rc > 0 && *text)
		return add_request(p, "IP of CNI_ARGS", text);
	return 0;
}

int pl_ipam_where_parse(const cJSON *netconf, struct pl_ipam_where *where,
			struct pl_err *err)
{
	const char *dir = NULL, *name = NULL;
	const cJSON *ipam = NULL;

	memset(where, 0, sizeof(*where));
	if (pl_json_str(netconf, "", "name", &name, err) < 0 ||
	    pl_json_obj(netconf, "", "ipam", &ipam, err) < 0 ||
	    pl_json_str(ipam, "ipam", "dataDir", &dir, err) < 0)
		return -EINVAL;
	if (!name)
		return pl_err_set(err, EINVAL, "name (of the network) is "
				  "missing");
	if (pl_cni_check_network(name, err) < 0)
		return -EINVAL;
	if (!dir || !*dir)
		dir = PL_IPAM_DATA_DIR;
	if (pl_format(where->data_dir, sizeof(where->data_dir), "%s", dir) < 0)
		return pl_err_set(err, EINVAL, "ipam.dataDir is too long");
	pl_format(where->network, sizeof(where->network), "%s", name);
	return 0;
}

int pl_ipam_config_parse(const cJSON *netconf, const char *cni_args,
			 struct pl_ipam_config *cfg, struct pl_err *err)
{
	struct parse p = { .cfg = cfg, .err = err };
	const char *resolv = NULL;
	const cJSON *ipam = NULL;

	memset(cfg, 0, sizeof(*cfg));
	if (pl_ipam_where_parse(netconf, &cfg->where, err) < 0 ||
	    pl_json_obj(netconf, "", "ipam", &ipam, err) < 0)
		return -EINVAL;
	if (!ipam)
		return pl_err_set(err, EINVAL, "ipam is missing");
	if (read_ranges(&p, netconf, ipam) < 0 ||
	    check_version(&p, netconf) < 0 ||
	    read_requests(&p, netconf, cni_args) < 0)
		return -EINVAL;
	if (pl_json_arr(ipam, "ipam", "routes", &cfg->routes, err) < 0 ||
	    pl_cni_check_routes(cfg->routes, "ipam.routes", err) < 0)
		return -EINVAL;
	if (pl_json_str(ipam, "ipam", "resolvConf", &resolv, err) < 0)
		return -EINVAL;
	if (resolv && pl_format(cfg->resolv_conf, sizeof(cfg->resolv_conf),
				"%s", resolv) < 0)
		return pl_err_set(err, EINVAL, "ipam.resolvConf is too long");
	return 0;
}
