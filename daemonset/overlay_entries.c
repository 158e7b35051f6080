/*
 * daemonset/overlay_entries.c - what is on the overlay's device, and should be
 *
 * Four kinds of entries, each with a key (address, destination, neighbour or
 * MAC) and a value. What the registry asks for is compared with a dump: what
 * has no place is removed, what has another value is replaced, what is missing
 * is added. Routes are removed first and added last, so that no packet takes a
 * route whose neighbour isn't there.
 */
#include "daemonset/overlay_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"

/* The kernel's default for IPv6; its IPv4 has 0. */
#define PRIORITY_V6 1024
/* Failures of one pass that are logged one by one. */
#define LOG_MAX 10

struct entry {
	struct pl_prefix dst;	/* of address, route, neighbour */
	struct pl_addr via;	/* gateway of a route; node of an fdb entry */
	uint8_t mac[6];		/* of neighbour, fdb entry */
	uint32_t priority;	/* of a route */
	bool there;		/* wanted: with this key */
	bool right;		/* and with this value */
};

struct set {
	struct entry *e;
	size_t n, size;
};

struct pass {
	struct pl_overlay *o;
	int index;
	struct pl_err *err;	/* the first failure */
	int rc;
	unsigned int failures, changes;
};

struct kind {
	int (*cmp)(const void *a, const void *b);
	bool (*same)(const struct entry *a, const struct entry *b);
	int (*list)(struct pass *p, struct set *have, struct pl_err *err);
	int (*put)(struct pass *p, const struct entry *e, struct pl_err *err);
	int (*del)(struct pass *p, const struct entry *e, struct pl_err *err);
};

static int set_add(struct set *s, const struct entry *e)
{
	if (s->n == s->size) {
		size_t size = s->size ? s->size * 2 : 32;
		struct entry *p = realloc(s->e, size * sizeof(*p));

		if (!p)
			return -ENOMEM;
		s->e = p;
		s->size = size;
	}
	s->e[s->n++] = *e;
	return 0;
}

static struct pl_prefix whole(const struct pl_addr *a)
{
	return (struct pl_prefix){ *a, (uint8_t)pl_addr_bits(a) };
}

/* --- keys and values --- */

static int cmp_dst(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int c = pl_addr_cmp(&x->dst.addr, &y->dst.addr);

	if (!c)
		c = (int)x->dst.len - (int)y->dst.len;
	if (!c && x->priority != y->priority)
		c = x->priority < y->priority ? -1 : 1;
	return c;
}

static int cmp_mac(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return memcmp(x->mac, y->mac, sizeof(x->mac));
}

static bool same_any(const struct entry *a, const struct entry *b)
{
	(void)a;
	(void)b;
	return true;
}

static bool same_via(const struct entry *a, const struct entry *b)
{
	return pl_addr_equal(&a->via, &b->via);
}

static bool same_mac(const struct entry *a, const struct entry *b)
{
	return memcmp(a->mac, b->mac, sizeof(a->mac)) == 0;
}

/* --- listing, adding, removing --- */

static bool is_link_local(const struct pl_addr *a)
{
	return a->family == AF_INET6 && a->bytes[0] == 0xfe &&
	       (a->bytes[1] & 0xc0) == 0x80;
}

static int see_addr(const struct pl_prefix *addr, void *arg)
{
	struct entry e = { .dst = *addr };

	return is_link_local(&addr->addr) ? 0 : set_add(arg, &e);
}

static int list_addrs(struct pass *p, struct set *have, struct pl_err *err)
{
	return pl_nl_addr_each(&p->o->nl, p->index, see_addr, have, err);
}

static int put_addr(struct pass *p, const struct entry *e, struct pl_err *err)
{
	return pl_nl_addr_add(&p->o->nl, p->index, &e->dst, true, err);
}

static int del_addr(struct pass *p, const struct entry *e, struct pl_err *err)
{
	return pl_nl_addr_del(&p->o->nl, p->index, &e->dst, err);
}

struct see_routes {
	struct set *have;
	int index;
};

/* The kernel's own: link-local ones, and that of an IPv6 address we have. */
static bool is_kernels(const struct pl_route *r)
{
	return is_link_local(&r->dst.addr) ||
	       (r->dst.addr.family == AF_INET6 && !r->gw.family &&
		(r->dst.addr.bytes[0] == 0xff || r->dst.len == 128));
}

static int see_route(const struct pl_route *r, void *arg)
{
	struct see_routes *s = arg;
	struct entry e = { .dst = r->dst, .via = r->gw,
			   .priority = r->priority };

	if (r->index != s->index || r->table || is_kernels(r))
		return 0;
	return set_add(s->have, &e);
}

static int list_routes(struct pass *p, struct set *have, struct pl_err *err)
{
	struct see_routes s = { have, p->index };

	return pl_nl_route_each(&p->o->nl, 0, see_route, &s, err);
}

static struct pl_route route_of(const struct pass *p, const struct entry *e)
{
	return (struct pl_route){ .dst = e->dst,
				  .gw = e->via,
				  .index = p->index,
				  .onlink = e->via.family != 0,
				  .priority = e->priority,
				  .scope = -1 };
}

static int put_route(struct pass *p, const struct entry *e, struct pl_err *err)
{
	struct pl_route r = route_of(p, e);
	/* Replaces one of ours; another device's makes it fail. */
	int rc = pl_nl_route_add(&p->o->nl, &r, e->there, err);

	if (rc == -EEXIST)
		pl_err_prefix(err, "a route of another interface is in the "
			      "way; remove it");
	return rc;
}

static int del_route(struct pass *p, const struct entry *e, struct pl_err *err)
{
	struct pl_route r = route_of(p, e);

	return pl_nl_route_del(&p->o->nl, &r, err);
}

static int see_neigh(const struct pl_neigh *n, void *arg)
{
	struct entry e = { .dst = whole(&n->ip) };

	memcpy(e.mac, n->mac, sizeof(e.mac));
	return n->permanent ? set_add(arg, &e) : 0;
}

static int list_neighs(struct pass *p, struct set *have, struct pl_err *err)
{
	return pl_nl_neigh_each(&p->o->nl, p->index, see_neigh, have, err);
}

static int put_neigh(struct pass *p, const struct entry *e, struct pl_err *err)
{
	return pl_nl_neigh_set(&p->o->nl, p->index, &e->dst.addr, e->mac, err);
}

static int del_neigh(struct pass *p, const struct entry *e, struct pl_err *err)
{
	return pl_nl_neigh_del(&p->o->nl, p->index, &e->dst.addr, err);
}

static int see_fdb(const struct pl_neigh *n, void *arg)
{
	struct entry e = { .via = n->ip };

	memcpy(e.mac, n->mac, sizeof(e.mac));
	return set_add(arg, &e);
}

static int list_fdb(struct pass *p, struct set *have, struct pl_err *err)
{
	return pl_nl_fdb_each(&p->o->nl, p->index, see_fdb, have, err);
}

static int put_fdb(struct pass *p, const struct entry *e, struct pl_err *err)
{
	return pl_nl_fdb_set(&p->o->nl, p->index, e->mac, &e->via, err);
}

static int del_fdb(struct pass *p, const struct entry *e, struct pl_err *err)
{
	return pl_nl_fdb_del(&p->o->nl, p->index, e->mac, &e->via, err);
}

/* In the order in which they are added; they are removed in the other. */
enum { ADDRS, FDB, NEIGHS, ROUTES, KINDS };

static const struct kind kinds[KINDS] = {
	[ADDRS] = { cmp_dst, same_any, list_addrs, put_addr, del_addr },
	[FDB] = { cmp_mac, same_via, list_fdb, put_fdb, del_fdb },
	[NEIGHS] = { cmp_dst, same_mac, list_neighs, put_neigh, del_neigh },
	[ROUTES] = { cmp_dst, same_via, list_routes, put_route, del_route },
};

/* --- what the registry asks for --- */

static int want_own(const struct pl_node *own, struct set *want)
{
	int rc = 0;

	for (int i = 0; i < own->n_cidrs && rc == 0; i++) {
		struct entry e = { .dst = whole(&own->cidrs[i].addr) };

		rc = set_add(&want[ADDRS], &e);
	}
	return rc;
}

static int want_peer(const struct pl_node *n, struct set *want)
{
	struct entry fdb = { .via = n->address };
	int rc;

	pl_overlay_mac(n->name, fdb.mac);
	rc = set_add(&want[FDB], &fdb);
	for (int i = 0; i < n->n_cidrs && rc == 0; i++) {
		const struct pl_prefix *c = &n->cidrs[i];
		struct entry neigh = { .dst = whole(&c->addr) };
		struct entry route = { .dst = *c, .via = c->addr };

		memcpy(neigh.mac, fdb.mac, sizeof(neigh.mac));
		if (c->addr.family == AF_INET6)
			route.priority = PRIORITY_V6;
		rc = set_add(&want[NEIGHS], &neigh);
		if (rc == 0)
			rc = set_add(&want[ROUTES], &route);
	}
	return rc;
}

static void failed(struct pass *p, int rc, const struct pl_err *e)
{
	if (p->rc == 0) {
		p->rc = rc;
		if (p->err)
			*p->err = *e;
	}
	if (p->failures++ < LOG_MAX)
		pl_warn("overlay %s: %s", p->o->conf.device, e->msg);
}

static int want_all(struct pass *p, const struct pl_registry *reg,
		    const struct pl_node *own, struct set *want)
{
	struct pl_err e = { 0 };
	int rc = want_own(own, want);

	for (size_t i = 0; i < reg->n && rc == 0; i++) {
		const struct pl_node *n = &reg->nodes[i];

		if (n == own)
			continue;
		if (n->address.family == own->address.family) {
			rc = want_peer(n, want);
			continue;
		}
		failed(p, pl_err_set(&e, EAFNOSUPPORT,
				     "node %s has an address of another family "
				     "than this node", n->name), &e);
	}
	for (int k = 0; k < KINDS && rc == 0; k++)
		if (want[k].n)
			qsort(want[k].e, want[k].n, sizeof(struct entry),
			      kinds[k].cmp);
	return rc;
}

/* Names that hash to one MAC: some 1 in 10^7 for 5000 nodes. */
static int check_macs(struct pass *p, struct set *fdb)
{
	char a[INET6_ADDRSTRLEN], b[INET6_ADDRSTRLEN];
	struct pl_err e = { 0 };
	int rc = 0;

	for (size_t i = 1; i < fdb->n; i++) {
		if (cmp_mac(&fdb->e[i - 1], &fdb->e[i]))
			continue;
		rc = pl_err_set(&e, EEXIST, "the names of the nodes at %s and "
				"%s give one MAC; rename one of them",
				pl_addr_str(&fdb->e[i - 1].via, a),
				pl_addr_str(&fdb->e[i].via, b));
		failed(p, rc, &e);
	}
	return rc;
}

/* --- the difference --- */

static void remove_one(struct pass *p, const struct kind *k,
		       const struct entry *e)
{
	struct pl_err err = { 0 };
	int rc = k->del(p, e, &err);

	/* Gone meanwhile, perhaps with something that we removed. */
	if (rc == -ENOENT || rc == -ESRCH || rc == -EADDRNOTAVAIL)
		return;
	if (rc < 0)
		failed(p, rc, &err);
	else
		p->changes++;
}

static void remove_unwanted(struct pass *p, const struct kind *k,
			    struct set *want)
{
	struct set have = { 0 };
	struct pl_err err = { 0 };
	int rc = k->list(p, &have, &err);

	if (rc < 0) {
		if (!err.code)
			pl_err_set(&err, -rc, "%s", strerror(-rc));
		failed(p, rc, &err);
	}
	for (size_t i = 0; i < have.n && rc == 0; i++) {
		struct entry *w = want->n ?
			bsearch(&have.e[i], want->e, want->n,
				sizeof(*w), k->cmp) : NULL;

		if (!w || w->there) {	/* not wanted, or one too many */
			remove_one(p, k, &have.e[i]);
			continue;
		}
		w->there = true;
		w->right = k->same(w, &have.e[i]);
	}
	free(have.e);
}

static void add_missing(struct pass *p, const struct kind *k, struct set *want)
{
	for (size_t i = 0; i < want->n; i++) {
		struct pl_err err = { 0 };
		int rc;

		if (want->e[i].right)
			continue;
		rc = k->put(p, &want->e[i], &err);
		if (rc < 0)
			failed(p, rc, &err);
		else
			p->changes++;
	}
}

int pl_overlay_entries(struct pl_overlay *o, int index,
		       const struct pl_registry *reg, const struct pl_node *own,
		       struct pl_err *err)
{
	struct pass p = { .o = o, .index = index, .err = err };
	struct set want[KINDS] = { { 0 } };
	int rc = want_all(&p, reg, own, want);

	if (rc < 0)
		p.rc = pl_err_set(err, -rc, "out of memory");
	if (rc == 0 && check_macs(&p, &want[FDB]) == 0) {
		for (int k = KINDS - 1; k >= 0; k--)
			remove_unwanted(&p, &kinds[k], &want[k]);
		for (int k = 0; k < KINDS; k++)
			add_missing(&p, &kinds[k], &want[k]);
	}
	for (int k = 0; k < KINDS; k++)
		free(want[k].e);
	if (p.failures > LOG_MAX)
		pl_warn("overlay %s: %u failures more", o->conf.device,
			p.failures - LOG_MAX);
	if (p.changes)
		pl_info("overlay %s: %u changes for %zu nodes",
			o->conf.device, p.changes, reg->n);
	return p.rc;
}
