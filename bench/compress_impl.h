/*
 * bench/compress_impl.h - what the codecs of compress.h share among themselves
 */
#ifndef BENCH_COMPRESS_IMPL_H
#define BENCH_COMPRESS_IMPL_H

#include "bench/compress.h"

struct codec;

struct codec_ops {
	const char *name;
	unsigned int rounds;
	bool has_momentum;
	int (*init)(struct codec *c);		/* NULL: nothing; -ENOMEM */
	size_t (*message_max)(const struct codec *c);
	size_t (*encode)(struct codec *c, unsigned int round,
			 const float *grad, uint8_t *msg);
	int (*combine)(struct codec *c, unsigned int round,
		       const void *const *msgs, const size_t *lens,
		       uint8_t *out, size_t *out_len, struct pl_err *err);
	int (*decode)(struct codec *c, unsigned int round,
		      const uint8_t *msg, size_t len, float *sum,
		      struct pl_err *err);
};

/* One tensor in the flattened vector. */
struct codec_part {
	uint64_t first;
	uint32_t elems, rows;
};

/* An element that is sent: its place in the flattened matrices. */
struct codec_pick {
	uint64_t at;
	float value;
};

struct codec {
	const struct codec_ops *ops;
	struct codec_conf conf;
	struct codec_part *parts;
	uint32_t n;
	uint64_t elems;
	uint64_t vector_elems;		/* of all vectors */

	/* Zeroed, of elems floats each, where the kind has them. */
	float *residual;		/* of the worker */
	float *velocity;		/* dgc */
	float *work;
	float *combined;		/* residual of who combines */
	struct codec_pick *picks;	/* elems of room */
	float *magnitudes;
	uint64_t step;
	/* powersgd: the factors of all matrices, one after the other. */
	float *p, *q;
	size_t p_floats, q_floats;
};

extern const struct codec_ops codec_none, codec_fp16, codec_dgc, codec_drop,
	codec_onebit, codec_twobit, codec_powersgd;

static inline bool codec_is_vector(const struct codec_part *p)
{
	return p->rows == 1;
}

/* calloc of floats into *p; -ENOMEM. */
int codec_floats(float **p, uint64_t n);

/* -EPROTO: a message of this length is none of this codec. */
int codec_no_message(const struct codec *c, size_t len, struct pl_err *err);

/*
 * The indices of the k largest magnitudes of n values, in order; of equal ones
 * the first. out has room for n, scratch too. Exact: a threshold from a sample
 * only spares most of them the selection. Returns how many: k, or n if less.
 */
uint32_t codec_select(const float *v, uint32_t n, uint32_t k, uint64_t salt,
		      float *scratch, uint32_t *out);

/* The k-th largest (from 1) of n values, which change places. */
float codec_kth_largest(float *v, uint32_t n, uint32_t k);

/*
 * Vectors (of v, a whole gradient) and picks as a message. Returns its bytes;
 * at most codec_sparse_max.
 */
size_t codec_sparse_write(const struct codec *c, const float *v,
			  const struct codec_pick *picks, uint64_t n,
			  uint8_t *msg);
size_t codec_sparse_max(const struct codec *c);
int codec_sparse_combine(struct codec *c, unsigned int round,
			 const void *const *msgs, const size_t *lens,
			 uint8_t *out, size_t *out_len, struct pl_err *err);
int codec_sparse_decode(struct codec *c, unsigned int round,
			const uint8_t *msg, size_t len, float *sum,
			struct pl_err *err);

#endif
