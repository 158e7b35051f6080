/*
 * bench/ps_plan.c - chunks of a model and who serves them
 */
#include "bench/ps_plan.h"

#include <errno.h>
#include <stdlib.h>

#include "common/util.h"

int ps_plan_init(struct ps_plan *plan, const struct ps_model *model,
		 uint32_t servers, uint32_t chunk_bytes, struct pl_err *err)
{
	uint64_t end = 0;
	uint32_t i;

	*plan = (struct ps_plan){ .model = model, .servers = servers,
		.elems = model->elems,
		.chunk_elems = chunk_bytes / (uint32_t)sizeof(float) };
	plan->n_chunks = (uint32_t)((plan->elems + plan->chunk_elems - 1) /
				    plan->chunk_elems);
	if (servers == 0 || servers > plan->n_chunks)
		return pl_err_set(err, EINVAL, "%s has parts for 1 to %u "
				  "servers, not for %u", model->name,
				  plan->n_chunks, servers);
	plan->tensor_end = calloc(model->n_tensors, sizeof(uint64_t));
	if (!plan->tensor_end)
		return pl_err_set(err, ENOMEM, "no memory for the plan of %s",
				  model->name);
	for (i = 0; i < model->n_tensors; i++) {
		end += model->tensors[i];
		plan->tensor_end[i] = end;
	}
	return 0;
}

void ps_plan_fini(struct ps_plan *plan)
{
	free(plan->tensor_end);
	*plan = (struct ps_plan){ .model = NULL };
}

struct ps_chunk ps_plan_chunk(const struct ps_plan *plan, uint32_t c)
{
	uint32_t at = plan->back_first ? plan->n_chunks - 1 - c : c;
	struct ps_chunk k = { .first = (uint64_t)at * plan->chunk_elems };

	k.n = (uint32_t)PL_MIN((uint64_t)plan->chunk_elems,
			       plan->elems - k.first);
	k.server = c % plan->servers;
	k.server_first = (uint64_t)(c / plan->servers) * plan->chunk_elems;
	return k;
}

uint32_t ps_plan_server_chunks(const struct ps_plan *plan, uint32_t server)
{
	return (plan->n_chunks - server + plan->servers - 1) / plan->servers;
}

uint64_t ps_plan_server_elems(const struct ps_plan *plan, uint32_t server)
{
	uint32_t n = ps_plan_server_chunks(plan, server);
	struct ps_chunk last;

	last = ps_plan_chunk(plan, (n - 1) * plan->servers + server);
	return last.server_first + last.n;
}

uint32_t ps_plan_tensor(const struct ps_plan *plan, uint64_t i)
{
	uint32_t lo = 0, hi = plan->model->n_tensors - 1, mid;

	while (lo < hi) {
		mid = (lo + hi) / 2;
		if (i < plan->tensor_end[mid])
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}
