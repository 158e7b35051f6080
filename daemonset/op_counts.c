/* daemonset/op_counts.c - how the plugin's requests went, since the start */
#include "daemonset/op_counts.h"

#include <string.h>

#include "common/util.h"

const uint32_t pl_op_bounds_us[PL_OP_BUCKETS - 1] = {
	100, 500, 1000, 5000, 25000, 100000, 1000000
};

static const char *const names[PL_OP_KINDS] = {
	[PL_OP_ADD] = "add",
	[PL_OP_DEL] = "del",
	[PL_OP_CHECK] = "check",
	[PL_OP_GC] = "gc",
};

const char *pl_op_name(enum pl_op_kind kind)
{
	return names[kind];
}

static void count(struct pl_op_count *c, int rc, uint64_t ns)
{
	int code = rc < 0 ? -rc : 0, b = 0;

	if (code >= PL_OP_CODES)
		code = PL_OP_CODES - 1;
	while (b < PL_OP_BUCKETS - 1 && ns > pl_op_bounds_us[b] * 1000ull)
		b++;
	c->ended[code]++;
	c->buckets[b]++;
	c->ns += ns;
}

void pl_op_count(struct pl_op_count counts[PL_OP_KINDS], const char *name,
		 int rc, uint64_t ns)
{
	for (int i = 0; i < PL_OP_KINDS; i++)
		if (!strcmp(names[i], name))
			count(&counts[i], rc, ns);
}
