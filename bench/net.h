/*
 * bench/net.h - small neural networks: forward, backward
 *
 * "mlp"    784-256-128-10, fully connected
 * "conv"   8 filters of 5 x 5, 16 filters of 5 x 5 x 8, each with padding and
 *          a maximum of 2 x 2, and 784-10 fully connected
 *
 * with ReLU between the layers and softmax cross entropy at the end. An image
 * is DATASET_PIXELS floats, row by row. Parameters and gradients are one vector
 * of floats with each layer's weights (inputs x outputs), then its biases.
 * blas_load comes first. A net's room is for one thread; parameters are the
 * caller's, so many nets may share them.
 */
#ifndef BENCH_NET_H
#define BENCH_NET_H

#include <stdint.h>

#include "common/err.h"

#define NET_CLASSES 10
#define NET_TENSORS_MAX 8

struct net;

/* batch: the most images of one call. -EINVAL: no such net; -ENOMEM. */
int net_create(const char *name, uint32_t batch, struct net **out,
	       struct pl_err *err);
void net_destroy(struct net *net);

uint64_t net_elems(const struct net *net);
/* Elements of each tensor, in order. Returns how many there are. */
uint32_t net_tensors(const struct net *net, uint32_t sizes[NET_TENSORS_MAX]);

/* What training begins with; the same for the same seed. */
void net_init(const struct net *net, uint64_t seed, float *params);

/* logits: n x NET_CLASSES, before the softmax. */
void net_forward(struct net *net, const float *params, const float *x,
		 uint32_t n, float *logits);

/*
 * The mean gradient of the loss over n images, and the mean loss. Values and
 * their order do not depend on the machine's load: the same to the bit, each
 * time.
 */
void net_gradient(struct net *net, const float *params, const float *x,
		  const uint8_t *labels, uint32_t n, float *grad,
		  double *loss);

/* The class of the largest of one image's logits. */
uint32_t net_class(const float *logits);

#endif
