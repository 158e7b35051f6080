/* tests/fuzz/fuzz_registry.c - the file of nodes, and looking them up */
#include "common/json.h"
#include "daemonset/registry_file.h"
#include "tests/fuzz/fuzz.h"

/* Each node is found by what is its own. */
static void lookups(const struct pl_registry *r)
{
	for (size_t i = 0; i < r->n; i++) {
		const struct pl_node *n = &r->nodes[i];

		HOLDS(pl_registry_by_name(r, n->name) == n);
		HOLDS(pl_registry_by_address(r, &n->address) == n);
		for (int j = 0; j < n->n_cidrs; j++)
			HOLDS(pl_registry_by_pod(r, &n->cidrs[j].addr) == n);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pl_err err = { 0 };
	pl_auto_json *j = NULL;
	struct pl_registry r;

	if (pl_json_parse((const char *)data, size, &j, &err) < 0) {
		HOLDS(err.code > 0 && err.msg[0]);
		return 0;
	}
	pl_registry_init(&r);
	if (pl_registry_parse(j, &r, &err) == 0)
		lookups(&r);
	else
		HOLDS(err.code > 0 && err.msg[0]);
	pl_registry_fini(&r);
	return 0;
}
