/*
 * bench/ps_plan.h - how a model is cut into chunks and spread over servers
 *
 * The tensors of a model lie one after the other in one vector of floats. A
 * chunk is a stretch of it, the unit that is filled, sent, summed and waited
 * for. All chunks but that at the end of
 * the vector are equal, and chunk c belongs to server
 * c % servers: every server gets the same bytes to within one chunk, and each
 * of them has work from the first chunk on. Chunks are numbered from the front
 * of the model, or from its back, where gradients come first.
 */
#ifndef BENCH_PS_PLAN_H
#define BENCH_PS_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "bench/ps_models.h"

/* Gradient values change their seed at these boundaries of the vector. */
#define PS_BLOCK_ELEMS 4096u
#define PS_CHUNK_BYTES_DEFAULT (512u << 10)

struct ps_plan {
	const struct ps_model *model;
	uint64_t elems;
	uint32_t chunk_elems;
	uint32_t n_chunks;
	uint32_t servers;
	bool back_first;		/* false by init, set before use */
	uint64_t *tensor_end;		/* of each tensor, in the vector */
};

struct ps_chunk {
	uint64_t first;			/* element of the vector */
	uint32_t n;			/* elements */
	uint32_t server;
	uint64_t server_first;		/* element of the server's share */
};

/*
 * chunk_bytes is a multiple of a block. -EINVAL: more servers than chunks;
 * -ENOMEM. fini frees.
 */
int ps_plan_init(struct ps_plan *plan, const struct ps_model *model,
		 uint32_t servers, uint32_t chunk_bytes, struct pl_err *err);
void ps_plan_fini(struct ps_plan *plan);

struct ps_chunk ps_plan_chunk(const struct ps_plan *plan, uint32_t c);

/* How many chunks a server has; its k-th is chunk k * servers + server. */
uint32_t ps_plan_server_chunks(const struct ps_plan *plan, uint32_t server);
uint64_t ps_plan_server_elems(const struct ps_plan *plan, uint32_t server);

/* The tensor that element i of the vector belongs to. */
uint32_t ps_plan_tensor(const struct ps_plan *plan, uint64_t i);

#endif
