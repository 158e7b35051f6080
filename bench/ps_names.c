/* bench/ps_names.c - names of ranks, and their addresses */
#include "bench/ps_names.h"

#include <errno.h>
#include <string.h>

#include "common/util.h"

static int expand_one(const char *pattern, const char *mark, unsigned int rank,
		      char *out)
{
	return pl_format(out, PS_HOST_BYTES, "%.*s%u%s",
			 (int)(mark - pattern), pattern, rank, mark + 1);
}

static bool has_mark(const struct ps_addrs *list)
{
	for (unsigned int i = 0; i < list->n; i++) {
		if (strchr(list->text[i], '%'))
			return true;
	}
	return false;
}

int ps_names_expand(struct ps_addrs *list, unsigned int n, const char *option,
		    struct pl_err *err)
{
	char pattern[PS_HOST_BYTES];
	bool is_good = list->n == 1;
	const char *mark;

	if (!has_mark(list))
		return 0;
	memcpy(pattern, list->text[0], sizeof(pattern));
	mark = strchr(pattern, '%');
	for (list->n = 0; list->n < n && is_good; list->n++)
		is_good = expand_one(pattern, mark, list->n,
				     list->text[list->n]) >= 0 &&
			  bench_host_valid(list->text[list->n]);
	return is_good ? 0 :
	       pl_err_set(err, EINVAL, "--%s: one name with one %% in it "
			  "stands for all ranks", option);
}

static int resolve_list(struct ps_addrs *list, const char *option,
			uint64_t end_ns, struct pl_err *err)
{
	char addr[PS_ADDR_BYTES];
	int rc = 0;

	for (unsigned int i = 0; i < list->n && rc == 0; i++) {
		rc = bench_resolve_wait(list->text[i], end_ns, addr,
					sizeof(addr), err);
		if (rc == 0)
			pl_format(list->text[i], PS_HOST_BYTES, "%s", addr);
		else
			pl_err_prefix(err, "--%s", option);
	}
	return rc;
}

int ps_names_resolve(struct ps_opts *o, struct pl_err *err)
{
	const uint64_t end = pl_now_ns() + o->timeout_s * 1000000000ull;
	int rc = 0;

	if (o->strategies == PS_SERVER)
		rc = resolve_list(&o->server, "server", end, err);
	if (rc == 0 && o->strategies == PS_SERVER)
		rc = resolve_list(&o->local, "local", end, err);
	if (rc == 0 && o->strategies & (PS_RING | PS_HIERARCHICAL))
		rc = resolve_list(&o->peers, "peers", end, err);
	if (rc < 0)
		pl_err_prefix(err, "after %u s", o->timeout_s);
	return rc;
}
