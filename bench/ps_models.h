/*
 * bench/ps_models.h - the models whose gradients are exchanged
 */
#ifndef BENCH_PS_MODELS_H
#define BENCH_PS_MODELS_H

#include <stddef.h>
#include <stdint.h>

#define PS_MODELS_MAX 12

/* Whose computing time a worker sleeps; PS_GPU_NONE: none at all. */
enum ps_gpu { PS_GPU_NONE, PS_GPU_K80, PS_GPU_P100, PS_GPU_V100, PS_GPUS };

/* Published images per second of one GPU, synthetic data; batch 0: unknown. */
struct ps_gpu_rate {
	double images_per_s;
	unsigned int batch;
	const char *source;
};

struct ps_model {
	const char *name;
	const uint32_t *tensors;	/* float elements of each, in order */
	unsigned int n_tensors;
	uint64_t elems;			/* of all tensors */
	struct ps_gpu_rate rates[PS_GPUS];
};

/* Those before this one are published; the others, bench/net.h learns. */
#define PS_MODELS_PUBLISHED 10

/* NULL past the last one. */
const struct ps_model *ps_model_at(size_t i);
const struct ps_model *ps_model_find(const char *name);

const char *ps_gpu_name(enum ps_gpu gpu);

/* The published batch of this GPU, 64 for PS_GPU_NONE; 0: no rate known. */
unsigned int ps_model_batch(const struct ps_model *m, enum ps_gpu gpu);

/* Nanoseconds that the GPU takes for one batch; 0 for PS_GPU_NONE. */
uint64_t ps_model_compute_ns(const struct ps_model *m, enum ps_gpu gpu,
			     unsigned int batch);

#endif
