/* tests/fuzz/fuzz_ipam_conf.c - the configuration of podlane-ipam */
#include "common/json.h"
#include "ipam/ipam.h"
#include "tests/fuzz/fuzz.h"

static void check(const struct pl_ipam_config *c)
{
	HOLDS(c->n_ranges > 0 && c->n_ranges <= PL_IPAM_MAX_RANGES);
	HOLDS(c->n_sets > 0 && c->n_sets <= PL_IPAM_MAX_SETS);
	HOLDS(c->n_requested <= PL_IPAM_MAX_SETS);
	HOLDS(c->where.network[0]);
	for (unsigned int i = 0; i < c->n_ranges; i++) {
		const struct pl_ipam_range *r = &c->ranges[i];

		HOLDS(r->set < c->n_sets);
		HOLDS(pl_prefix_contains(&r->subnet, &r->start) &&
		      pl_prefix_contains(&r->subnet, &r->end));
		HOLDS(pl_addr_cmp(&r->start, &r->end) <= 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pl_ipam_config c;
	struct pl_ipam_where where;
	struct fuzz f = { data, size };
	struct pl_err err = { 0 };
	pl_auto_json *j = NULL;
	char args[257] = "";

	/* A seed is plain JSON: no arguments. */
	if (size && data[0] != '{')
		fuzz_piece(&f, args, sizeof(args) - 1);
	if (pl_json_parse((const char *)f.at, f.left, &j, &err) < 0)
		return 0;
	if (pl_ipam_config_parse(j, args, &c, &err) == 0)
		check(&c);
	else
		HOLDS(err.code > 0 && err.msg[0]);
	pl_ipam_where_parse(j, &where, &err);
	return 0;
}
