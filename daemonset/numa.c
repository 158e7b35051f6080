/* daemonset/numa.c - on which NUMA node replicas lie */
#include "daemonset/numa.h"

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include <hwloc.h>

#include "common/log.h"

struct pl_numa {
	hwloc_topology_t topology;
	hwloc_nodeset_t near;		/* of whoever is asked for now */
};

/*
 * Nodes are all that is asked for. The x86 component would look at each CPU
 * from that CPU.
 */
static int load(hwloc_topology_t t)
{
	hwloc_topology_set_all_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE);
	hwloc_topology_set_components(
		t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
	return hwloc_topology_load(t);
}

static bool several(hwloc_topology_t t)
{
	return hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_NUMANODE) > 1 &&
	       hwloc_topology_is_thissystem(t);
}

struct pl_numa *pl_numa_open(void)
{
	struct pl_numa *n;

	/* The usual machine spares what hwloc takes to find that out. */
	if (access("/sys/devices/system/node/node1", F_OK) < 0)
		return NULL;
	n = calloc(1, sizeof(*n));
	if (!n || hwloc_topology_init(&n->topology) < 0) {
		free(n);
		return NULL;
	}
	n->near = hwloc_bitmap_alloc();
	if (n->near && load(n->topology) == 0 && several(n->topology))
		return n;
	pl_numa_close(n);
	return NULL;
}

void pl_numa_close(struct pl_numa *n)
{
	if (!n)
		return;
	hwloc_topology_destroy(n->topology);
	hwloc_bitmap_free(n->near);
	free(n);
}

unsigned int pl_numa_count(const struct pl_numa *n)
{
	return n ? (unsigned int)hwloc_get_nbobjs_by_type(
			   n->topology, HWLOC_OBJ_NUMANODE) : 1;
}

/* Sets n->near. The page is read first: only what is mapped has a place. */
static bool find(struct pl_numa *n, const void *page)
{
	(void)*(const volatile char *)page;
	return hwloc_get_area_memlocation(n->topology, page, 1, n->near,
					  HWLOC_MEMBIND_BYNODESET) == 0 &&
	       !hwloc_bitmap_iszero(n->near);
}

static void bind(const struct pl_numa *n, hwloc_const_nodeset_t set,
		 hwloc_membind_policy_t policy)
{
	if (hwloc_set_membind(n->topology, set, policy, HWLOC_MEMBIND_THREAD |
			      HWLOC_MEMBIND_BYNODESET) < 0)
		pl_debug("NUMA: memory can't be bound to nodes");
}

void pl_numa_begin(struct pl_numa *n, const void *near)
{
	if (!n)
		return;
	if (!near)
		bind(n, hwloc_topology_get_topology_nodeset(n->topology),
		     HWLOC_MEMBIND_INTERLEAVE);
	else if (find(n, near))
		bind(n, n->near, HWLOC_MEMBIND_BIND);
}

void pl_numa_end(struct pl_numa *n)
{
	if (n)
		bind(n, hwloc_topology_get_topology_nodeset(n->topology),
		     HWLOC_MEMBIND_DEFAULT);
}

void pl_numa_move(struct pl_numa *n, void *addr, size_t bytes,
		  const void *near)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	hwloc_nodeset_t now;

	if (!n || !find(n, addr) || !(now = hwloc_bitmap_dup(n->near)))
		return;
	if (find(n, near) && !hwloc_bitmap_isequal(now, n->near)) {
		/* The kernel moves what this process has mapped. */
		for (size_t at = 0; at < bytes; at += page)
			(void)*((volatile char *)addr + at);
		if (hwloc_set_area_membind(n->topology, addr, bytes, n->near,
					   HWLOC_MEMBIND_BIND,
					   HWLOC_MEMBIND_BYNODESET |
					   HWLOC_MEMBIND_MIGRATE) < 0)
			pl_debug("NUMA: a replica can't be moved");
	}
	hwloc_bitmap_free(now);
}
