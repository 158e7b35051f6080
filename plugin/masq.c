/* plugin/masq.c - ipMasq: pods reach other networks by the node's address */
#include "plugin/masq.h"

#include <stdio.h>

static int one_address(const struct pl_prefix *a, struct pl_rules *r,
		       struct pl_err *err)
{
	struct pl_prefix net = { pl_prefix_first(a), a->len };
	char ip[INET6_ADDRSTRLEN], subnet[PL_PREFIX_STRLEN], verdict[32];
	bool v4 = a->addr.family == AF_INET;
	const char *word = v4 ? "ip" : "ip6";
	int rc;

	pl_addr_str(&a->addr, ip);
	pl_prefix_str(&net, subnet);
	snprintf(verdict, sizeof(verdict), "jump %s", r->tag);
	rc = pl_rules_elem(r, PL_RULES_MASQ, v4 ? "from4" : "from6", ip,
			   verdict, err);
	if (rc < 0)
		return rc;
	return pl_rules_rule(r, PL_RULES_MASQ, err,
			     "%s saddr %s %s daddr != %s %s daddr != %s "
			     "masquerade", word, ip, word, subnet, word,
			     v4 ? "224.0.0.0/4" : "ff00::/8");
}

int pl_masq_rules(const struct pl_result *res, int ifindex, struct pl_rules *r,
		  struct pl_err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < res->n_ips; i++) {
		if (res->ips[i].ifindex == ifindex)
			rc = one_address(&res->ips[i].addr, r, err);
	}
	return rc;
}
