/* ipam/usage.c - how many addresses of each range are taken */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util.h"
#include "ipam/index.h"
#include "ipam/ipam.h"

static bool is_in(const struct pl_ipam_range *r, const struct pl_addr *a)
{
	return a->family == r->start.family &&
	       pl_addr_cmp(&r->start, a) <= 0 && pl_addr_cmp(a, &r->end) <= 0;
}

/* What is handed out by itself, see PL_IPAM_RANGE_SPAN. */
static uint64_t total(const struct pl_ipam_range *r)
{
	uint64_t last = pl_index_offset(&r->start, &r->end);
	uint64_t n = PL_MIN(last, PL_IPAM_RANGE_SPAN - 1) + 1;

	return is_in(r, &r->gateway) ? n - 1 : n;
}

int pl_ipam_usage(const struct pl_ipam_config *cfg,
		  struct pl_ipam_usage out[PL_IPAM_MAX_RANGES],
		  struct pl_err *err)
{
	char path[sizeof(cfg->where.data_dir) + sizeof(cfg->where.network)];
	struct pl_addr a;
	DIR *d;

	for (unsigned int i = 0; i < cfg->n_ranges; i++)
		out[i] = (struct pl_ipam_usage){
			.subnet = cfg->ranges[i].subnet,
			.total = total(&cfg->ranges[i]),
		};
	snprintf(path, sizeof(path), "%s/%s", cfg->where.data_dir,
		 cfg->where.network);
	d = opendir(path);
	if (!d)
		return errno == ENOENT ? 0 :
		       pl_err_sys(err, "cannot read %s", path);
	for (const struct dirent *e; (e = readdir(d));) {
		if (pl_addr_parse(e->d_name, &a) < 0)
			continue;
		for (unsigned int i = 0; i < cfg->n_ranges; i++)
			out[i].used += is_in(&cfg->ranges[i], &a);
	}
	closedir(d);
	return 0;
}
