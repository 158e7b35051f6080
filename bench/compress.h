/*
 * bench/compress.h - codecs that make gradients smaller on the wire
 *
 * A step of n workers, each with a gradient g of all tensors one after the
 * other, as floats:
 *
 *   every worker    codec_encode    g -> message
 *   somebody        codec_combine   n messages, by rank -> one message
 *   every worker    codec_decode    that message -> sum over the workers
 *
 * once per round; all kinds have one, powersgd two. Who combines, one server or
 * every worker for itself, makes no difference to a bit of the result, since
 * sums go by rank. What a message leaves out stays with the worker who made it
 * and is in a later one. Tensors that are vectors (biases, batch norms) are
 * never reduced but by fp16.
 *
 *   none       float32
 *   fp16       IEEE 754 halves, rounded to nearest even; beyond 65504: that
 *   dgc        Deep Gradient Compression (Lin et al., ICLR 2018)
 *   drop       Gradient Dropping (Aji and Heafield, EMNLP 2017): what is small
 *              is kept for later, and nothing else
 *   onebit     a sign per element and one scale per tensor, the mean magnitude
 *              (1-Bit SGD, Seide et al., Interspeech 2014; the scale of
 *              EF-SignSGD, Karimireddy et al., ICML 2019)
 *   twobit     -s, 0 or s, with the threshold 0.7 mean and the scale of Ternary
 *              Weight Networks (Li et al., 2016); error feedback as in MXNet's
 *              2-bit compression
 *   powersgd   matrices of low rank (Vogels et al., NeurIPS 2019)
 *
 * A message of dgc or drop is what the first of these papers counts: vectors as
 * floats, then the values of the chosen elements as floats, then as many 16-bit
 * lengths of the runs of zeros before each, in the flattened matrices. A run of
 * more than 65535 is cut by an element of the value 0. When that would not be
 * smaller than all floats, a message is all floats. Numbers have the byte order
 * of the machine.
 */
#ifndef BENCH_COMPRESS_H
#define BENCH_COMPRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum codec_kind {
	CODEC_NONE, CODEC_FP16, CODEC_DGC, CODEC_DROP, CODEC_ONEBIT,
	CODEC_TWOBIT, CODEC_POWERSGD, CODEC_KINDS
};

struct codec_tensor {
	uint32_t elems;
	uint32_t rows;		/* of the matrix, divides elems; 1: a vector */
};

struct codec_conf {
	enum codec_kind kind;
	uint32_t workers;
	double sparsity;	/* dgc, drop: part that is not sent, 0 to 1 */
	float momentum;		/* dgc: of the momentum correction */
	double clip;		/* dgc: norm of the workers' sum; 0: none */
	uint32_t rank;		/* powersgd: of the matrices */
};

struct codec;

/* "none", "fp16" …; -1: there is no such kind. */
const char *codec_name(enum codec_kind kind);
int codec_find(const char *name);

/*
 * Everything that one party keeps: worker, or whoever combines, or both.
 * tensors are copied. -EINVAL: rows that don't divide; -ENOMEM. One thread at
 * a time may use it.
 */
int codec_create(const struct codec_conf *conf,
		 const struct codec_tensor *tensors, uint32_t n,
		 struct codec **out, struct pl_err *err);
void codec_destroy(struct codec *c);

unsigned int codec_rounds(const struct codec *c);
/* Room for any message of any round. */
size_t codec_message_max(const struct codec *c);
uint64_t codec_elems(const struct codec *c);

/* Whether sums have the momentum in them, so that the update adds none. */
bool codec_has_momentum(const struct codec *c);

/* From the next step on, as in the warm-up of dgc. */
void codec_set_sparsity(struct codec *c, double sparsity);

/*
 * What the first epochs (from 0) of dgc have, before the sparsity of the rest:
 * 0.75, 0.9375, 0.984375, 0.99609375.
 */
double codec_warmup(double sparsity, uint32_t epoch);

/* Bytes of the message, in msg. grad stays as it is until the last round. */
size_t codec_encode(struct codec *c, unsigned int round, const float *grad,
		    void *msg);

/*
 * conf.workers messages into one, in out: *out_len bytes. -EPROTO: one of them
 * is none of this codec.
 */
int codec_combine(struct codec *c, unsigned int round,
		  const void *const *msgs, const size_t *lens, void *out,
		  size_t *out_len, struct pl_err *err);

/* sum is whole after the last round. -EPROTO as above. */
int codec_decode(struct codec *c, unsigned int round, const void *msg,
		 size_t len, float *sum, struct pl_err *err);

#endif
