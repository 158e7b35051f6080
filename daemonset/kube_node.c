/* daemonset/kube_node.c - a Node of the Kubernetes API, and a table of them */
#include "daemonset/kube_node.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"

static const cJSON *get(const cJSON *o, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(o, key);
}

const char *pl_kube_annotation(const cJSON *obj, const char *key)
{
	return cJSON_GetStringValue(
		get(get(get(obj, "metadata"), "annotations"), key));
}

const char *pl_kube_name(const cJSON *obj)
{
	const char *s = cJSON_GetStringValue(get(get(obj, "metadata"),
						 "name"));

	return s ? s : "";
}

/* --- one ------------------------------------------------------------------ */

/* "192.0.2.1:7471", "[2001:db8::1]:7471" */
static int parse_endpoint(const char *s, struct pl_addr *a, uint16_t *port)
{
	const char *colon = strrchr(s, ':');
	bool is_v6 = *s == '[';
	char text[INET6_ADDRSTRLEN + 2];
	uint64_t n;

	if (!colon || (is_v6 && (colon == s || colon[-1] != ']')))
		return -EINVAL;
	if (pl_format(text, sizeof(text), "%.*s",
		      (int)(colon - s) - 2 * is_v6, s + is_v6) < 0 ||
	    pl_addr_parse(text, a) < 0 ||
	    pl_parse_u64(colon + 1, 1, 65535, &n) < 0)
		return -EINVAL;
	*port = (uint16_t)n;
	return 0;
}

/* The InternalIP that wanted is, else the first. */
static int find_address(const cJSON *obj, const struct pl_addr *wanted,
			struct pl_addr *out)
{
	const cJSON *e;
	bool found = false;

	cJSON_ArrayForEach(e, get(get(obj, "status"), "addresses")) {
		const char *type = cJSON_GetStringValue(get(e, "type"));
		const char *s = cJSON_GetStringValue(get(e, "address"));
		struct pl_addr a;

		if (!type || !s || strcmp(type, "InternalIP") ||
		    pl_addr_parse(s, &a) < 0)
			continue;
		if (!found || pl_addr_equal(&a, wanted))
			*out = a;
		found = true;
	}
	return found ? 0 : -ENOENT;
}

static void add_cidr(struct pl_node *n, const char *s)
{
	struct pl_prefix p;

	if (s && n->n_cidrs < PL_NODE_CIDRS_MAX && pl_prefix_parse(s, &p) == 0)
		n->cidrs[n->n_cidrs++] = p;
}

/* podCIDR is the first of podCIDRs, or all that an old server has. */
static void take_cidrs(const cJSON *obj, struct pl_node *n)
{
	const cJSON *spec = get(obj, "spec"), *e;

	cJSON_ArrayForEach(e, get(spec, "podCIDRs"))
		add_cidr(n, cJSON_GetStringValue(e));
	if (!n->n_cidrs)
		add_cidr(n, cJSON_GetStringValue(get(spec, "podCIDR")));
}

int pl_kube_node_parse(const cJSON *obj, bool with_cidrs,
		       struct pl_kube_node *n, struct pl_err *err)
{
	const char *endpoint = pl_kube_annotation(obj, PL_KUBE_ENDPOINT);
	const char *created = cJSON_GetStringValue(
		get(get(obj, "metadata"), "creationTimestamp"));
	const char *name = pl_kube_name(obj);
	struct pl_addr wanted = { 0 };
	uint16_t port = 0;

	*n = (struct pl_kube_node){ 0 };
	if (!*name || pl_format(n->node.name, sizeof(n->node.name), "%s",
				name) < 0)
		return pl_err_set(err, EINVAL, "a Node without a good "
				  "metadata.name");
	if (created)
		pl_format(n->created, sizeof(n->created), "%.31s", created);
	if (endpoint && parse_endpoint(endpoint, &wanted, &port) < 0)
		wanted.family = 0;
	if (find_address(obj, &wanted, &n->node.address) < 0)
		return pl_err_set(err, ENOENT, "node %s has no InternalIP",
				  name);
	if (pl_addr_equal(&wanted, &n->node.address))
		n->node.port = port;
	if (with_cidrs)
		take_cidrs(obj, &n->node);
	return 0;
}

/* --- many ----------------------------------------------------------------- */

/* What a node says is its own; rank 0 is the youngest node. */
struct claim {
	struct pl_prefix p;
	uint32_t rank;
};

struct build {
	struct pl_kube_node **by_rank;
	bool *is_out;
	uint32_t n;
	struct claim *claims;
};

static int by_age(const void *a, const void *b)
{
	const struct pl_kube_node *const *x = a, *const *y = b;
	int c = strcmp((*y)->created, (*x)->created);

	return c ? c : strcmp((*x)->node.name, (*y)->node.name);
}

static int by_prefix(const void *a, const void *b)
{
	const struct claim *x = a, *y = b;
	int c = pl_addr_cmp(&x->p.addr, &y->p.addr);

	if (!c)
		c = (int)x->p.len - (int)y->p.len;
	return c ? c : (x->rank > y->rank) - (x->rank < y->rank);
}

static void leave_out(struct build *b, uint32_t rank, const char *why)
{
	struct pl_kube_node *k = b->by_rank[rank];

	b->is_out[rank] = true;
	if (!k->is_told)
		pl_warn("node=%s: left out: %s", k->node.name, why);
	k->is_told = true;
}

static void overlap(struct build *b, const struct claim *x,
		    const struct claim *y)
{
	uint32_t old = PL_MAX(x->rank, y->rank), young = PL_MIN(x->rank,
								y->rank);
	const struct pl_prefix *p = x->rank == old ? &x->p : &y->p;
	char why[PL_NODE_NAME_BYTES + PL_PREFIX_STRLEN + 64];
	char text[PL_PREFIX_STRLEN];

	pl_format(why, sizeof(why), "its %s is claimed by node %s too, which "
		  "is younger", pl_prefix_str(p, text),
		  b->by_rank[young]->node.name);
	leave_out(b, old, why);
}

/* Prefixes nest or are apart, so each is compared with the last that stays. */
static void settle(struct build *b, size_t n)
{
	const struct claim *last = NULL;

	qsort(b->claims, n, sizeof(*b->claims), by_prefix);
	for (size_t i = 0; i < n; i++) {
		const struct claim *c = &b->claims[i];

		if (b->is_out[c->rank])
			continue;
		if (last && !b->is_out[last->rank] &&
		    pl_prefix_contains(&last->p, &c->p.addr))
			overlap(b, last, c);
		if (!b->is_out[c->rank])
			last = c;
	}
}

static void settle_addresses(struct build *b)
{
	size_t n = 0;

	for (uint32_t i = 0; i < b->n; i++) {
		const struct pl_addr *a = &b->by_rank[i]->node.address;

		if (!b->is_out[i])
			b->claims[n++] = (struct claim){
				{ *a, (uint8_t)pl_addr_bits(a) }, i };
	}
	settle(b, n);
}

static void settle_ranges(struct build *b)
{
	size_t n = 0;

	for (uint32_t i = 0; i < b->n; i++) {
		const struct pl_node *node = &b->by_rank[i]->node;

		for (int k = 0; !b->is_out[i] && k < node->n_cidrs; k++)
			b->claims[n++] = (struct claim){ node->cidrs[k], i };
	}
	settle(b, n);
}

/* Nodes that can be no part of a registry, whatever the others are. */
static void settle_each(struct build *b)
{
	for (uint32_t i = 0; i < b->n; i++) {
		struct pl_registry one;
		struct pl_err err = { 0 };

		pl_registry_init(&one);
		if (!b->by_rank[i]->node.address.family)
			leave_out(b, i, "it has no InternalIP yet");
		else if (pl_registry_add(&one, &b->by_rank[i]->node, &err) < 0)
			leave_out(b, i, err.msg);
		pl_registry_fini(&one);
	}
}

static int build(struct build *b, struct pl_registry *out, struct pl_err *err)
{
	int rc = 0;

	qsort(b->by_rank, b->n, sizeof(*b->by_rank), by_age);
	settle_each(b);
	settle_addresses(b);
	settle_ranges(b);
	for (uint32_t i = 0; rc == 0 && i < b->n; i++) {
		if (b->is_out[i])
			continue;
		b->by_rank[i]->is_told = false;
		rc = pl_registry_add(out, &b->by_rank[i]->node, err);
	}
	return rc < 0 ? rc : pl_registry_seal(out, err);
}

int pl_kube_table(struct pl_kube_node *nodes, struct pl_registry *out,
		  struct pl_err *err)
{
	struct build b = { .n = HASH_COUNT(nodes) };
	struct pl_kube_node *k;
	size_t n_cidrs = 0, i = 0;
	int rc;

	for (k = nodes; k; k = k->hh.next)
		n_cidrs += k->node.n_cidrs;
	b.by_rank = calloc(b.n + 1, sizeof(*b.by_rank));
	b.is_out = calloc(b.n + 1, sizeof(*b.is_out));
	b.claims = calloc(PL_MAX(n_cidrs, b.n) + 1, sizeof(*b.claims));
	for (k = nodes; b.by_rank && k; k = k->hh.next)
		b.by_rank[i++] = k;
	rc = b.by_rank && b.is_out && b.claims ?
		     build(&b, out, err) :
		     pl_err_set(err, ENOMEM, "out of memory");
	free(b.by_rank);
	free(b.is_out);
	free(b.claims);
	return rc;
}
