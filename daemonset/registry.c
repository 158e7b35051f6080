/* daemonset/registry.c - which nodes there are, and whose pod an address is */
#include "daemonset/registry.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

void pl_registry_init(struct pl_registry *r)
{
	memset(r, 0, sizeof(*r));
}

void pl_registry_fini(struct pl_registry *r)
{
	free(r->nodes);
	free(r->ranges);
	free(r->by_addr);
	pl_registry_init(r);
}

/* --- one node --- */

static bool name_ok(const char *name)
{
	size_t n = strlen(name);

	if (n == 0 || n >= PL_NODE_NAME_BYTES || !isalnum((uint8_t)name[0]))
		return false;
	for (; *name; name++)
		if (!isalnum((uint8_t)*name) && !strchr("-_.", *name))
			return false;
	return true;
}

/* Whether packets can be sent to it from another machine without a zone. */
static bool is_unicast(const struct pl_addr *a)
{
	static const uint8_t none[16];
	const uint8_t *b = a->bytes;

	if (a->family != AF_INET && a->family != AF_INET6)
		return false;
	if (memcmp(b, none, sizeof(none)) == 0)
		return false;
	if (a->family == AF_INET)
		return b[0] != 0 && b[0] < 224;
	return b[0] != 0xff && !(b[0] == 0xfe && (b[1] & 0xc0) == 0x80);
}

static int check_cidr(const struct pl_prefix *p, struct pl_err *err)
{
	struct pl_addr first = pl_prefix_first(p), last = pl_prefix_last(p);
	char text[PL_PREFIX_STRLEN], net[INET6_ADDRSTRLEN];

	pl_prefix_str(p, text);
	if (p->len == 0 || p->len > pl_addr_bits(&p->addr))
		return pl_err_set(err, EINVAL,
				  "podCIDRs: %s is no range of one node", text);
	if (!pl_addr_equal(&first, &p->addr))
		return pl_err_set(err, EINVAL,
				  "podCIDRs: %s has host bits; write %s/%u",
				  text, pl_addr_str(&first, net), p->len);
	if (!is_unicast(&first) || !is_unicast(&last))
		return pl_err_set(err, EINVAL,
				  "podCIDRs: %s is not all unicast", text);
	return 0;
}

static int check_node(const struct pl_node *node, struct pl_err *err)
{
	char text[INET6_ADDRSTRLEN];

	if (!is_unicast(&node->address))
		return pl_err_set(err, EINVAL,
				  "address: %s cannot be a node's address",
				  pl_addr_str(&node->address, text));
	if (node->n_cidrs > PL_NODE_CIDRS_MAX)
		return pl_err_set(err, EINVAL,
				  "podCIDRs: more than %d ranges",
				  PL_NODE_CIDRS_MAX);
	for (int i = 0; i < node->n_cidrs; i++) {
		int rc = check_cidr(&node->cidrs[i], err);

		if (rc < 0)
			return rc;
	}
	return 0;
}

static int grow(struct pl_registry *r, struct pl_err *err)
{
	size_t size = r->size ? r->size * 2 : 16;
	struct pl_node *p;

	if (r->n == PL_REGISTRY_NODES_MAX)
		return pl_err_set(err, E2BIG, "more than %d nodes",
				  PL_REGISTRY_NODES_MAX);
	if (r->n < r->size)
		return 0;
	p = realloc(r->nodes, size * sizeof(*p));
	if (!p)
		return pl_err_set(err, ENOMEM, "out of memory");
	r->nodes = p;
	r->size = size;
	return 0;
}

int pl_registry_add(struct pl_registry *r, const struct pl_node *node,
		    struct pl_err *err)
{
	int rc;

	if (!name_ok(node->name))
		return pl_err_set(err, EINVAL, "name: '%s' is no node's name",
				  node->name);
	rc = check_node(node, err);
	if (rc < 0) {
		pl_err_prefix(err, "node %s", node->name);
		return rc;
	}
	rc = grow(r, err);
	if (rc < 0)
		return rc;
	r->nodes[r->n] = *node;
	if (!node->port)
		r->nodes[r->n].port = PL_NODE_PORT_DEFAULT;
	r->n++;
	return 0;
}

/* --- the whole --- */

static int by_name(const void *a, const void *b)
{
	const struct pl_node *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int by_first(const void *a, const void *b)
{
	const struct pl_range *x = a, *y = b;
	int c = pl_addr_cmp(&x->cidr.addr, &y->cidr.addr);

	return c ? c : (int)x->cidr.len - (int)y->cidr.len;
}

static int by_address(const void *a, const void *b, void *arg)
{
	const struct pl_registry *r = arg;
	const uint32_t *x = a, *y = b;

	return pl_addr_cmp(&r->nodes[*x].address, &r->nodes[*y].address);
}

static int seal_names(struct pl_registry *r, struct pl_err *err)
{
	if (r->n)
		qsort(r->nodes, r->n, sizeof(*r->nodes), by_name);
	for (size_t i = 1; i < r->n; i++)
		if (strcmp(r->nodes[i - 1].name, r->nodes[i].name) == 0)
			return pl_err_set(err, EEXIST,
					  "node %s: name: it is there twice",
					  r->nodes[i].name);
	return 0;
}

static int seal_addresses(struct pl_registry *r, struct pl_err *err)
{
	char text[INET6_ADDRSTRLEN];

	r->by_addr = calloc(r->n + 1, sizeof(*r->by_addr));
	if (!r->by_addr)
		return pl_err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < r->n; i++)
		r->by_addr[i] = (uint32_t)i;
	qsort_r(r->by_addr, r->n, sizeof(*r->by_addr), by_address, r);
	for (size_t i = 1; i < r->n; i++) {
		const struct pl_node *a = &r->nodes[r->by_addr[i - 1]];
		const struct pl_node *b = &r->nodes[r->by_addr[i]];

		if (pl_addr_equal(&a->address, &b->address))
			return pl_err_set(err, EEXIST,
					  "node %s: address: %s is that of "
					  "node %s too", b->name,
					  pl_addr_str(&b->address, text),
					  a->name);
	}
	return 0;
}

static int overlap(const struct pl_registry *r, const struct pl_range *a,
		   const struct pl_range *b, struct pl_err *err)
{
	char ta[PL_PREFIX_STRLEN], tb[PL_PREFIX_STRLEN];

	return pl_err_set(err, EEXIST,
			  "node %s: podCIDRs: %s overlaps %s of node %s",
			  r->nodes[b->node].name, pl_prefix_str(&b->cidr, tb),
			  pl_prefix_str(&a->cidr, ta), r->nodes[a->node].name);
}

static int seal_ranges(struct pl_registry *r, struct pl_err *err)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n; i++)
		n += r->nodes[i].n_cidrs;
	r->ranges = calloc(n + 1, sizeof(*r->ranges));
	if (!r->ranges)
		return pl_err_set(err, ENOMEM, "out of memory");
	for (uint32_t i = 0; i < r->n; i++)
		for (int k = 0; k < r->nodes[i].n_cidrs; k++)
			r->ranges[r->n_ranges++] = (struct pl_range){
				r->nodes[i].cidrs[k], i
			};
	qsort(r->ranges, n, sizeof(*r->ranges), by_first);
	/* Prefixes nest or are apart, so neighbours tell. */
	for (size_t i = 1; i < n; i++)
		if (pl_prefix_contains(&r->ranges[i - 1].cidr,
				       &r->ranges[i].cidr.addr))
			return overlap(r, &r->ranges[i - 1], &r->ranges[i],
				       err);
	return 0;
}

int pl_registry_seal(struct pl_registry *r, struct pl_err *err)
{
	int rc = seal_names(r, err);

	if (rc == 0)
		rc = seal_addresses(r, err);
	if (rc == 0)
		rc = seal_ranges(r, err);
	return rc;
}

/* --- looking up --- */

const struct pl_node *pl_registry_by_name(const struct pl_registry *r,
					  const char *name)
{
	size_t lo = 0, hi = r->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		int c = strcmp(name, r->nodes[mid].name);

		if (c == 0)
			return &r->nodes[mid];
		if (c < 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	return NULL;
}

const struct pl_node *pl_registry_by_pod(const struct pl_registry *r,
					 const struct pl_addr *pod)
{
	size_t lo = 0, hi = r->n_ranges;

	/* The first range that begins after pod; the one before may have it. */
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (pl_addr_cmp(&r->ranges[mid].cidr.addr, pod) <= 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == 0 || !pl_prefix_contains(&r->ranges[lo - 1].cidr, pod))
		return NULL;
	return &r->nodes[r->ranges[lo - 1].node];
}

const struct pl_node *pl_registry_by_address(const struct pl_registry *r,
					     const struct pl_addr *address)
{
	size_t lo = 0, hi = r->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct pl_node *node = &r->nodes[r->by_addr[mid]];
		int c = pl_addr_cmp(address, &node->address);

		if (c == 0)
			return node;
		if (c < 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	return NULL;
}

/* --- comparing --- */

bool pl_node_equal(const struct pl_node *a, const struct pl_node *b)
{
	if (strcmp(a->name, b->name) || a->port != b->port ||
	    a->n_cidrs != b->n_cidrs ||
	    !pl_addr_equal(&a->address, &b->address))
		return false;
	for (int i = 0; i < a->n_cidrs; i++)
		if (a->cidrs[i].len != b->cidrs[i].len ||
		    !pl_addr_equal(&a->cidrs[i].addr, &b->cidrs[i].addr))
			return false;
	return true;
}

bool pl_registry_equal(const struct pl_registry *a, const struct pl_registry *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (!pl_node_equal(&a->nodes[i], &b->nodes[i]))
			return false;
	return true;
}
