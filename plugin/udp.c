/* plugin/udp.c - UDP that is under way */
#include "plugin/udp.h"

#include <errno.h>
#include <stdlib.h>

#include "common/log.h"
#include "common/nl.h"
#include "common/util.h"

struct forget {
	const struct pl_udp *u;
	struct pl_addr *own;		/* addresses of the node */
	size_t n_own;
};

void pl_udp_add(struct pl_udp *u, const struct pl_port *p)
{
	struct pl_port *ports;

	if (p->proto != IPPROTO_UDP)
		return;
	ports = reallocarray(u->ports, u->n + 1, sizeof(*ports));
	if (!ports) {
		pl_warn("UDP to port %d that is under way: out of memory",
			p->number);
		return;
	}
	u->ports = ports;
	ports[u->n++] = *p;
}

void pl_udp_fini(struct pl_udp *u)
{
	free(u->ports);
	*u = (struct pl_udp){ 0 };
}

static int add_own(const struct pl_prefix *addr, void *arg)
{
	struct forget *f = arg;
	struct pl_addr *own;

	own = reallocarray(f->own, f->n_own + 1, sizeof(*own));
	if (!own)
		return -ENOMEM;
	f->own = own;
	own[f->n_own++] = addr->addr;
	return 0;
}

static bool is_own(const struct forget *f, const struct pl_addr *a)
{
	if (a->family == AF_INET && a->bytes[0] == 127)
		return true;
	for (size_t i = 0; i < f->n_own; i++) {
		if (pl_addr_equal(&f->own[i], a))
			return true;
	}
	return false;
}

static int by_number(const void *a, const void *b)
{
	const struct pl_port *x = a, *y = b;

	return x->number - y->number;
}

/* The first with that number, or a greater one. */
static size_t lower_bound(const struct pl_udp *u, uint16_t number)
{
	size_t lo = 0, hi = u->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (u->ports[mid].number < number)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool wanted(const struct pl_addr *dst, uint16_t number, void *arg)
{
	const struct forget *f = arg;
	const struct pl_udp *u = f->u;

	for (size_t i = lower_bound(u, number);
	     i < u->n && u->ports[i].number == number; i++) {
		const struct pl_port *p = &u->ports[i];

		if (p->ip.family == dst->family &&
		    (p->any_ip ? is_own(f, dst) : pl_addr_equal(&p->ip, dst)))
			return true;
	}
	return false;
}

static int forget(struct forget *f, struct pl_err *err)
{
	static const int families[] = { AF_INET, AF_INET6 };
	struct pl_nl nl, route;
	int rc = pl_nl_open(&route, -1, err);

	if (rc == 0)
		rc = pl_nl_addr_each(&route, 0, add_own, f, err);
	pl_nl_close(&route);
	if (rc < 0)
		return rc;
	rc = pl_nl_open_netfilter(&nl, err);
	for (size_t i = 0; rc >= 0 && i < PL_ARRAY_SIZE(families); i++)
		rc = pl_nl_ct_forget(&nl, families[i], IPPROTO_UDP, wanted, f,
				     err);
	pl_nl_close(&nl);
	return rc;
}

void pl_udp_forget(struct pl_udp *u)
{
	struct forget f = { .u = u };
	struct pl_err why = { 0 };

	if (!u->n)
		return;
	qsort(u->ports, u->n, sizeof(*u->ports), by_number);
	if (forget(&f, &why) < 0)
		pl_warn("UDP that is under way: %s", why.msg);
	free(f.own);
	pl_udp_fini(u);
}
