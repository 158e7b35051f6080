/*
 * tests/system/nl_test.c - every call of common/nl.h against the kernel
 *
 * nl_test NS_PATH: runs in a fresh namespace (the current one), with the one at
 * NS_PATH as a pod's. nl_test - is for a process without CAP_NET_ADMIN. Prints
 * "ok NAME" or "FAIL NAME: why" for each case.
 */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "common/netns.h"
#include "common/nl.h"
#include "common/util.h"

static const uint8_t mac1[6] = { 2, 0, 0, 0, 0, 1 };
static const uint8_t mac2[6] = { 2, 0, 0, 0, 0, 2 };

struct env {
	struct pl_nl nl, pod;
	int pod_fd;
	struct pl_err err;
	char why[256];
};

#define EXPECT(e, cond)                                                        \
	do {                                                                   \
		if (!(cond)) {                                                 \
			snprintf((e)->why, sizeof((e)->why),                   \
				 "line %d: %s; last error: %.100s", __LINE__,  \
				 #cond, (e)->err.msg);                         \
			return;                                                \
		}                                                              \
	} while (0)

static struct pl_addr ip(const char *s)
{
	struct pl_addr a = { 0 };

	pl_addr_parse(s, &a);
	return a;
}

static struct pl_prefix net(const char *s)
{
	struct pl_prefix p = { 0 };

	pl_prefix_parse(s, &p);
	return p;
}

static int index_of(struct pl_nl *nl, const char *name)
{
	struct pl_link l;

	return pl_nl_link_get(nl, name, &l, NULL) < 0 ? 0 : l.index;
}

static void t_link_get(struct env *e)
{
	struct pl_link l;

	EXPECT(e, pl_nl_link_get(&e->nl, "lo", &l, &e->err) == 0);
	EXPECT(e, l.index == 1 && strcmp(l.name, "lo") == 0);
	EXPECT(e, (l.flags & IFF_LOOPBACK) && !(l.flags & IFF_UP));
	EXPECT(e, l.mtu == 65536 && l.kind[0] == '\0');
	EXPECT(e, pl_nl_link_get(&e->nl, "nope", &l, &e->err) == -ENODEV);
	EXPECT(e, e->err.code == ENODEV && strstr(e->err.msg, "nope"));
	EXPECT(e, pl_nl_link_get(&e->nl, "a-name-of-20-letters", &l,
				 &e->err) == -EINVAL);
	EXPECT(e, pl_nl_link_get(&e->nl, "", &l, &e->err) == -EINVAL);
	EXPECT(e, pl_nl_link_by_index(&e->nl, 1, &l, &e->err) == 0);
	EXPECT(e, strcmp(l.name, "lo") == 0);
	EXPECT(e, pl_nl_link_by_index(&e->nl, 99, &l, &e->err) == -ENODEV);
	EXPECT(e, pl_nl_link_by_index(&e->nl, 0, &l, &e->err) == -ENODEV);
	EXPECT(e, pl_nl_link_set(&e->nl, 1, -1, 0, 1, &e->err) == 0);
	EXPECT(e, pl_nl_link_get(&e->nl, "lo", &l, &e->err) == 0);
	EXPECT(e, l.flags & IFF_UP);
}

static void t_bridge(struct env *e)
{
	struct pl_link l;

	EXPECT(e, pl_nl_bridge_add(&e->nl, "br0", 1450, mac1, &e->err) == 0);
	EXPECT(e, pl_nl_link_get(&e->nl, "br0", &l, &e->err) == 0);
	EXPECT(e, strcmp(l.kind, "bridge") == 0 && l.mtu == 1450);
	EXPECT(e, memcmp(l.mac, mac1, 6) == 0 && !(l.flags & IFF_UP));
	EXPECT(e, pl_nl_bridge_add(&e->nl, "br0", 0, NULL, &e->err) ==
			  -EEXIST);
	EXPECT(e, strstr(e->err.msg, "br0"));
	EXPECT(e, pl_nl_link_set(&e->nl, l.index, -1, 1400, 1, &e->err) == 0);
	EXPECT(e, pl_nl_link_by_index(&e->nl, l.index, &l, &e->err) == 0);
	EXPECT(e, l.mtu == 1400 && (l.flags & IFF_UP));
	EXPECT(e, pl_nl_link_set(&e->nl, l.index, -1, 100000, -1, &e->err) ==
			  -EINVAL);
}

static void t_veth(struct env *e)
{
	struct pl_veth v = { .name = "veth1", .peer_name = "eth0",
			     .peer_netns_fd = e->pod_fd, .mtu = 1400,
			     .mac = mac2, .up = true };
	struct pl_link l, p;

	v.master = index_of(&e->nl, "br0");
	EXPECT(e, v.master > 0);
	EXPECT(e, pl_nl_veth_add(&e->nl, &v, &e->err) == 0);
	EXPECT(e, pl_nl_link_get(&e->nl, "veth1", &l, &e->err) == 0);
	EXPECT(e, strcmp(l.kind, "veth") == 0 && l.master == v.master);
	EXPECT(e, l.mtu == 1400 && (l.flags & IFF_UP));
	EXPECT(e, pl_nl_link_get(&e->pod, "eth0", &p, &e->err) == 0);
	EXPECT(e, p.mtu == 1400 && !(p.flags & IFF_UP));
	EXPECT(e, memcmp(p.mac, mac2, 6) == 0);
	EXPECT(e, l.peer_index == p.index && p.peer_index == l.index);
	EXPECT(e, index_of(&e->nl, "eth0") == 0);

	v.name = "veth2";
	EXPECT(e, pl_nl_veth_add(&e->nl, &v, &e->err) == -EEXIST);
	EXPECT(e, index_of(&e->nl, "veth2") == 0);
	v.peer_netns_fd = -1;
	v.peer_name = "veth3";
	v.up = false;
	v.master = 0;
	EXPECT(e, pl_nl_veth_add(&e->nl, &v, &e->err) == 0);
	EXPECT(e, pl_nl_link_get(&e->nl, "veth3", &l, &e->err) == 0);
	EXPECT(e, !(l.flags & IFF_UP));
	v.name = "veth4";
	v.peer_name = "veth5";
	v.peer_netns_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	EXPECT(e, pl_nl_veth_add(&e->nl, &v, &e->err) < 0);
	close(v.peer_netns_fd);
}

static void t_master(struct env *e)
{
	int br = index_of(&e->nl, "br0"), ve = index_of(&e->nl, "veth2");
	struct pl_link l;

	EXPECT(e, pl_nl_link_set(&e->nl, ve, br, 0, -1, &e->err) == 0);
	EXPECT(e, pl_nl_link_get(&e->nl, "veth2", &l, &e->err) == 0);
	EXPECT(e, l.master == br);
	EXPECT(e, pl_nl_link_set(&e->nl, ve, 0, 0, -1, &e->err) == 0);
	EXPECT(e, pl_nl_link_get(&e->nl, "veth2", &l, &e->err) == 0);
	EXPECT(e, l.master == 0);
	EXPECT(e, pl_nl_link_set(&e->nl, br, ve, 0, -1, &e->err) ==
			  -EOPNOTSUPP);
	EXPECT(e, pl_nl_link_set(&e->nl, 99, -1, 0, 1, &e->err) == -ENODEV);
}

static int count_link(const struct pl_link *link, void *arg)
{
	int *n = arg;

	if (link->index > 0 && link->name[0])
		++*n;
	return 0;
}

static int stop_at_br0(const struct pl_link *link, void *arg)
{
	(void)arg;
	return strcmp(link->name, "br0") == 0 ? link->index : 0;
}

static void t_link_each(struct env *e)
{
	int n = 0, br = index_of(&e->nl, "br0");

	EXPECT(e, pl_nl_link_each(&e->nl, count_link, &n, &e->err) == 0);
	EXPECT(e, n == 5);	/* lo, br0, veth1, veth2, veth3 */
	EXPECT(e, pl_nl_link_each(&e->nl, stop_at_br0, NULL, &e->err) == br);
}

struct has_addr {
	struct pl_prefix want;
	int found, all;		/* all: those of one address each */
};

static int see_addr(const struct pl_prefix *a, void *arg)
{
	struct has_addr *h = arg;

	h->all += a->len == 32;
	h->found += a->len == h->want.len &&
		    pl_addr_equal(&a->addr, &h->want.addr);
	return 0;
}

static bool has_addr(struct env *e, int index, const char *p)
{
	struct has_addr h = { .want = net(p) };

	return pl_nl_addr_each(&e->nl, index, see_addr, &h, &e->err) == 0 &&
	       h.found == 1;
}

static void addr_case(struct env *e, const char *text, const char *other)
{
	int br = index_of(&e->nl, "br0"), at = 0;
	struct pl_prefix p = net(text);
	struct pl_addr o = ip(other);

	EXPECT(e, pl_nl_addr_add(&e->nl, br, &p, true, &e->err) == 0);
	EXPECT(e, pl_nl_addr_add(&e->nl, br, &p, true, &e->err) == -EEXIST);
	EXPECT(e, strstr(e->err.msg, text));
	EXPECT(e, has_addr(e, br, text) && has_addr(e, 0, text));
	EXPECT(e, !has_addr(e, 1, text));
	EXPECT(e, pl_nl_addr_find(&e->nl, &p.addr, &at, &e->err) == 0);
	EXPECT(e, at == br);
	EXPECT(e, pl_nl_addr_find(&e->nl, &o, &at, &e->err) ==
			  -EADDRNOTAVAIL);
	EXPECT(e, pl_nl_addr_del(&e->nl, br, &p, &e->err) == 0);
	EXPECT(e, pl_nl_addr_del(&e->nl, br, &p, &e->err) == -EADDRNOTAVAIL);
	EXPECT(e, !has_addr(e, br, text));
	EXPECT(e, pl_nl_addr_add(&e->nl, 99, &p, true, &e->err) == -ENODEV);
	EXPECT(e, pl_nl_addr_add(&e->nl, br, &p, true, &e->err) == 0);
}

static void t_addr4(struct env *e)
{
	addr_case(e, "10.1.2.1/24", "10.1.2.2");
}

static void t_addr6(struct env *e)
{
	addr_case(e, "fd00:1:2::1/64", "fd00:1:2::2");
}

struct has_route {
	struct pl_route want;
	int found;
};

static int see_route(const struct pl_route *r, void *arg)
{
	struct has_route *h = arg;
	const struct pl_route *w = &h->want;

	h->found += r->dst.len == w->dst.len &&
		    pl_addr_equal(&r->dst.addr, &w->dst.addr) &&
		    pl_addr_equal(&r->gw, &w->gw) && r->index == w->index &&
		    r->onlink == w->onlink && r->mtu == w->mtu &&
		    r->advmss == w->advmss && r->table == w->table &&
		    (!w->priority || r->priority == w->priority);
	return 0;
}

static int routes_like(struct env *e, const struct pl_route *r)
{
	struct has_route h = { .want = *r };

	if (pl_nl_route_each(&e->nl, r->dst.addr.family, see_route, &h,
			     &e->err) < 0)
		return -1;
	return h.found;
}

static void route_case(struct env *e, struct pl_route r)
{
	struct pl_route other = r;

	EXPECT(e, pl_nl_route_add(&e->nl, &r, false, &e->err) == 0);
	EXPECT(e, routes_like(e, &r) == 1);
	EXPECT(e, pl_nl_route_add(&e->nl, &r, false, &e->err) == -EEXIST);
	EXPECT(e, pl_nl_route_add(&e->nl, &r, true, &e->err) == 0);
	other.mtu = 1350;
	EXPECT(e, pl_nl_route_add(&e->nl, &other, true, &e->err) == 0);
	EXPECT(e, routes_like(e, &r) == 0 && routes_like(e, &other) == 1);
	EXPECT(e, pl_nl_route_del(&e->nl, &other, &e->err) == 0);
	EXPECT(e, routes_like(e, &other) == 0);
	EXPECT(e, pl_nl_route_del(&e->nl, &r, &e->err) == -ESRCH);
	EXPECT(e, strstr(e->err.msg, "route"));
}

static void t_route4(struct env *e)
{
	int br = index_of(&e->nl, "br0");
	struct pl_route r = { .dst = net("10.9.0.0/16"), .index = br,
			      .scope = -1 };

	route_case(e, r);
	r.gw = ip("10.1.2.9");
	r.advmss = 1200;
	r.mtu = 1300;
	route_case(e, r);
	r.dst = net("0.0.0.0/0");
	route_case(e, r);
	r.gw = ip("10.77.0.1");
	EXPECT(e, pl_nl_route_add(&e->nl, &r, false, &e->err) ==
			  -ENETUNREACH);
	EXPECT(e, strstr(e->err.msg, "10.77.0.1"));
	EXPECT(e, strstr(e->err.msg, "gateway"));	/* the kernel's word */
	r.onlink = true;
	r.priority = 77;
	r.table = 1000;
	route_case(e, r);
	r.table = 100;
	route_case(e, r);
}

static void t_route6(struct env *e)
{
	int br = index_of(&e->nl, "br0");
	struct pl_route r = { .dst = net("fd00:9::/48"), .index = br,
			      .scope = -1 };

	route_case(e, r);
	r.gw = ip("fd00:1:2::9");
	r.mtu = 1300;
	route_case(e, r);
	r.dst = net("::/0");
	route_case(e, r);
	r.gw = ip("fd00:77::1");
	r.onlink = true;
	r.dst = net("fd00:8::/48");
	route_case(e, r);
	r = (struct pl_route){ .dst = net("10.8.0.0/16"), .index = br,
			       .gw = ip("fd00:1:2::9"), .scope = -1 };
	route_case(e, r);
}

struct has_neigh {
	struct pl_neigh want;
	int found;
};

static int see_neigh(const struct pl_neigh *n, void *arg)
{
	struct has_neigh *h = arg;

	h->found += n->permanent && pl_addr_equal(&n->ip, &h->want.ip) &&
		    memcmp(n->mac, h->want.mac, 6) == 0;
	return 0;
}

static int neigh_like(struct env *e, int index, const char *a,
		      const uint8_t *mac, bool fdb)
{
	struct has_neigh h = { .want.ip = ip(a) };
	int rc;

	memcpy(h.want.mac, mac, 6);
	rc = (fdb ? pl_nl_fdb_each : pl_nl_neigh_each)(&e->nl, index,
						       see_neigh, &h, &e->err);
	return rc < 0 ? rc : h.found;
}

static void neigh_case(struct env *e, const char *text)
{
	int br = index_of(&e->nl, "br0");
	struct pl_addr a = ip(text);

	EXPECT(e, pl_nl_neigh_set(&e->nl, br, &a, mac1, &e->err) == 0);
	EXPECT(e, neigh_like(e, br, text, mac1, false) == 1);
	EXPECT(e, neigh_like(e, 1, text, mac1, false) == 0);
	EXPECT(e, pl_nl_neigh_set(&e->nl, br, &a, mac2, &e->err) == 0);
	EXPECT(e, neigh_like(e, br, text, mac1, false) == 0);
	EXPECT(e, neigh_like(e, br, text, mac2, false) == 1);
	EXPECT(e, pl_nl_neigh_del(&e->nl, br, &a, &e->err) == 0);
	EXPECT(e, neigh_like(e, br, text, mac2, false) == 0);
	EXPECT(e, pl_nl_neigh_del(&e->nl, br, &a, &e->err) == -ENOENT);
	EXPECT(e, strstr(e->err.msg, text));
}

static void t_neigh(struct env *e)
{
	neigh_case(e, "10.1.2.50");
	if (!e->why[0])
		neigh_case(e, "fd00:1:2::50");
}

static void vxlan_case(struct env *e, struct pl_vxlan v, const char *dst,
		       const char *dst2)
{
	struct pl_addr d = ip(dst), d2 = ip(dst2);
	struct pl_vxlan got;
	struct pl_link l;

	EXPECT(e, pl_nl_vxlan_add(&e->nl, &v, &e->err) == 0);
	EXPECT(e, pl_nl_vxlan_add(&e->nl, &v, &e->err) == -EEXIST);
	EXPECT(e, pl_nl_vxlan_get(&e->nl, v.name, &l, &got, &e->err) == 0);
	EXPECT(e, l.mtu == v.mtu && memcmp(l.mac, v.mac, 6) == 0);
	EXPECT(e, got.vni == v.vni && got.port == v.port);
	EXPECT(e, got.link == v.link && got.learning == v.learning);
	EXPECT(e, pl_addr_equal(&got.local, &v.local));
	EXPECT(e, pl_nl_fdb_set(&e->nl, l.index, mac2, &d, &e->err) == 0);
	EXPECT(e, neigh_like(e, l.index, dst, mac2, true) == 1);
	EXPECT(e, pl_nl_fdb_set(&e->nl, l.index, mac2, &d2, &e->err) == 0);
	EXPECT(e, neigh_like(e, l.index, dst, mac2, true) == 0);
	EXPECT(e, neigh_like(e, l.index, dst2, mac2, true) == 1);
	/* Kernels differ on what they say, but not on what they do. */
	pl_nl_fdb_del(&e->nl, l.index, mac2, &d, &e->err);
	EXPECT(e, neigh_like(e, l.index, dst2, mac2, true) == 1);
	EXPECT(e, pl_nl_fdb_del(&e->nl, l.index, mac2, NULL, &e->err) == 0);
	EXPECT(e, neigh_like(e, l.index, dst2, mac2, true) == 0);
	EXPECT(e, pl_nl_fdb_del(&e->nl, l.index, mac2, NULL, &e->err) ==
			  -ENOENT);
	EXPECT(e, pl_nl_link_del(&e->nl, l.index, &e->err) == 0);
}

static void t_vxlan(struct env *e)
{
	struct pl_vxlan v = { .name = "vx0", .vni = 1, .port = 8472,
			      .local = ip("10.1.2.1"), .mtu = 1350,
			      .mac = mac1 };
	struct pl_link l;

	v.link = index_of(&e->nl, "br0");
	vxlan_case(e, v, "10.1.2.7", "10.1.2.8");
	if (e->why[0])
		return;
	v.local = ip("fd00:1:2::1");
	v.mtu = 1300;
	v.learning = true;
	vxlan_case(e, v, "fd00:1:2::7", "fd00:1:2::8");
	if (e->why[0])
		return;
	EXPECT(e, pl_nl_vxlan_get(&e->nl, "br0", &l, &v, &e->err) == -EEXIST);
	EXPECT(e, pl_nl_vxlan_get(&e->nl, "vx0", &l, &v, &e->err) == -ENODEV);
}

static void forwards_case(struct env *e, int family, const char *path)
{
	for (int want = 1; want >= 0; want--) {
		char text[] = { (char)('0' + want), '\0' };
		int fd = open(path, O_WRONLY | O_CLOEXEC);

		EXPECT(e, fd >= 0 && write(fd, text, 1) == 1);
		close(fd);
		EXPECT(e, pl_nl_forwards(&e->nl, family, &e->err) == want);
		/* Not that of another namespace. */
		EXPECT(e, pl_nl_forwards(&e->pod, family, &e->err) == 0);
	}
}

static void t_forwards(struct env *e)
{
	forwards_case(e, AF_INET, "/proc/sys/net/ipv4/ip_forward");
	forwards_case(e, AF_INET6, "/proc/sys/net/ipv6/conf/all/forwarding");
}

static void t_del(struct env *e)
{
	int ve = index_of(&e->nl, "veth1");

	EXPECT(e, pl_nl_link_del(&e->nl, ve, &e->err) == 0);
	EXPECT(e, index_of(&e->pod, "eth0") == 0);
	EXPECT(e, pl_nl_link_del(&e->nl, ve, &e->err) == -ENODEV);
	EXPECT(e, pl_nl_link_del(&e->nl, 1, &e->err) == -EOPNOTSUPP);
}

#define MANY 3000

static struct pl_prefix one_of_many(int i)
{
	struct pl_prefix p = net("10.200.0.1/32");

	p.addr = pl_addr_add(&p.addr, (uint64_t)i);
	return p;
}

static void t_many(struct env *e)
{
	int br = index_of(&e->nl, "br0");
	struct has_route h = { .want.scope = -1 };
	struct has_addr all = { .found = 0 };

	for (int i = 0; i < MANY; i++) {
		struct pl_prefix p = one_of_many(i);

		EXPECT(e, pl_nl_addr_add(&e->nl, br, &p, true, &e->err) == 0);
	}
	EXPECT(e, pl_nl_addr_each(&e->nl, br, see_addr, &all, &e->err) == 0);
	EXPECT(e, all.all == MANY);
	EXPECT(e, pl_nl_route_each(&e->nl, 0, see_route, &h, &e->err) == 0);
}

/*
 * Takes away the first addresses of the list, one after the other, and puts
 * them behind the last: what a dump has not come to then moves up.
 */
#define MOVED (MANY / 2)

static void move_first(int index)
{
	struct timespec pause = { .tv_nsec = 2000000 };
	struct pl_nl nl;

	if (pl_nl_open(&nl, -1, NULL) < 0)
		_exit(1);
	for (int i = 0; i < MOVED; i++) {
		struct pl_prefix p = one_of_many(i);

		if (pl_nl_addr_del(&nl, index, &p, NULL) < 0 ||
		    pl_nl_addr_add(&nl, index, &p, true, NULL) < 0)
			_exit(1);
		nanosleep(&pause, NULL);
	}
	_exit(0);
}

/* Those that stay: each is seen once. */
static int see_staying(const struct pl_prefix *a, void *arg)
{
	struct pl_addr first = one_of_many(MOVED).addr;
	struct pl_addr last = one_of_many(MANY - 1).addr;
	int *n = arg;

	*n += a->len == 32 && pl_addr_cmp(&a->addr, &first) >= 0 &&
	      pl_addr_cmp(&a->addr, &last) <= 0;
	return 0;
}

static void t_churn(struct env *e)
{
	int br = index_of(&e->nl, "br0"), status = 0, whole = 0, n;
	pid_t pid = fork();

	if (pid == 0)
		move_first(br);
	while (waitpid(pid, &status, WNOHANG) == 0) {
		int rc;

		n = 0;
		/* Of one link alone the kernel does not tell. */
		rc = pl_nl_addr_each(&e->nl, 0, see_staying, &n, &e->err);
		/* Never anything that is not whole; rather none at all. */
		if (rc == -EAGAIN)
			continue;
		if (rc < 0 || n != MANY - MOVED) {
			waitpid(pid, &status, 0);
			EXPECT(e, rc == 0);
			EXPECT(e, n == MANY - MOVED);
		}
		whole++;
	}
	EXPECT(e, status == 0);
	EXPECT(e, whole > 0);
}

static void t_eperm(struct env *e)
{
	struct pl_link l;

	EXPECT(e, pl_nl_link_get(&e->nl, "lo", &l, &e->err) == 0);
	EXPECT(e, pl_nl_bridge_add(&e->nl, "brx", 0, NULL, &e->err) ==
			  -EPERM);
	EXPECT(e, strstr(e->err.msg, "brx"));
	EXPECT(e, strstr(e->err.msg, "CAP_NET_ADMIN"));
	EXPECT(e, pl_nl_link_set(&e->nl, 1, -1, 0, 1, &e->err) == -EPERM);
}

static const struct {
	const char *name;
	void (*fn)(struct env *e);
} cases[] = {
	{ "nl-link-get", t_link_get },	{ "nl-bridge", t_bridge },
	{ "nl-veth", t_veth },		{ "nl-master", t_master },
	{ "nl-link-each", t_link_each }, { "nl-addr4", t_addr4 },
	{ "nl-addr6", t_addr6 },	{ "nl-route4", t_route4 },
	{ "nl-route6", t_route6 },	{ "nl-neigh", t_neigh },
	{ "nl-vxlan", t_vxlan },	{ "nl-forwards", t_forwards },
	{ "nl-del", t_del },		{ "nl-many", t_many },
	{ "nl-churn", t_churn },
};

static int run(struct env *e, const char *name, void (*fn)(struct env *e))
{
	e->why[0] = '\0';
	fn(e);
	if (e->why[0])
		printf("FAIL %s: %s\n", name, e->why);
	else
		printf("ok %s\n", name);
	return e->why[0] != '\0';
}

static int run_all(struct env *e, const char *pod)
{
	int bad = 0;

	if (pl_netns_open(pod, &e->pod_fd, &e->err) < 0 ||
	    pl_nl_open(&e->pod, e->pod_fd, &e->err) < 0) {
		printf("FAIL nl-open: %s\n", e->err.msg);
		return 1;
	}
	for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++)
		bad |= run(e, cases[i].name, cases[i].fn);
	pl_nl_close(&e->pod);
	close(e->pod_fd);
	return bad;
}

int main(int argc, char **argv)
{
	struct env e = { .pod_fd = -1 };
	int bad;

	/* A child that _exits prints again what waits, with ThreadSanitizer. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 2) {
		fprintf(stderr, "usage: nl_test NETNS_OF_A_POD|-\n");
		return 2;
	}
	if (pl_nl_open(&e.nl, -1, &e.err) < 0) {
		printf("FAIL nl-open: %s\n", e.err.msg);
		return 1;
	}
	bad = strcmp(argv[1], "-") ? run_all(&e, argv[1]) :
				     run(&e, "nl-eperm", t_eperm);
	pl_nl_close(&e.nl);
	return bad;
}
