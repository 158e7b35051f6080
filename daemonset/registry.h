/*
 * daemonset/registry.h - which nodes there are, and whose pod an address is
 *
 * A pl_registry is a table that a source fills once and that nobody changes
 * afterwards: a source that learns something builds the next table and hands
 * both over (pl_registry_fn). Sources: a static file (registry_file.h); the
 * Kubernetes API feeds the same calls.
 *
 * Names are unique, addresses are unique, and no two pod ranges overlap, so an
 * address belongs to one node at most. Lookups are binary searches. Not
 * locked: one thread, or readers only.
 */
#ifndef DAEMONSET_REGISTRY_H
#define DAEMONSET_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/inet.h"

#define PL_NODE_NAME_BYTES 254		/* with the NUL */
#define PL_NODE_CIDRS_MAX 8
#define PL_NODE_PORT_DEFAULT 7471
#define PL_REGISTRY_NODES_MAX 65536

struct pl_node {
	char name[PL_NODE_NAME_BYTES];
	struct pl_addr address;		/* on the network between nodes */
	uint16_t port;			/* of its agent */
	uint8_t n_cidrs;
	struct pl_prefix cidrs[PL_NODE_CIDRS_MAX];	/* of its pods */
};

/* One pod range and its node, as an index of nodes[]. */
struct pl_range {
	struct pl_prefix cidr;
	uint32_t node;
};

struct pl_registry {
	struct pl_node *nodes;		/* by name, once sealed */
	size_t n, size;
	struct pl_range *ranges;	/* by family and first address */
	size_t n_ranges;
	uint32_t *by_addr;		/* indices of nodes[], by address */
};

/*
 * A source tells of a change: was is what held before (never NULL, perhaps
 * empty), both are valid until this returns and now until the next call.
 */
typedef void pl_registry_fn(const struct pl_registry *was,
			    const struct pl_registry *now, void *arg);

void pl_registry_init(struct pl_registry *r);
void pl_registry_fini(struct pl_registry *r);

/*
 * Add a copy of a node; port 0 is the default port. -EINVAL: its name is none
 * (letters, digits, '-', '_', '.'; a letter or digit first), its address can
 * not be a node's, a range has host bits or length 0.
 */
int pl_registry_add(struct pl_registry *r, const struct pl_node *node,
		    struct pl_err *err);

/*
 * After the last add, before the first lookup: sorts, and checks what concerns
 * several nodes. -EEXIST: two nodes share a name or an address, or ranges
 * overlap; the message names both nodes.
 */
int pl_registry_seal(struct pl_registry *r, struct pl_err *err);

/* NULL when there is none. The results live as long as the table. */
const struct pl_node *pl_registry_by_name(const struct pl_registry *r,
					  const char *name);
/* The node whose pod may have this address. */
const struct pl_node *pl_registry_by_pod(const struct pl_registry *r,
					 const struct pl_addr *pod);
/* The node whose own address this is. */
const struct pl_node *pl_registry_by_address(const struct pl_registry *r,
					     const struct pl_addr *address);

bool pl_node_equal(const struct pl_node *a, const struct pl_node *b);
bool pl_registry_equal(const struct pl_registry *a,
		       const struct pl_registry *b);

#endif
