/*
 * bench/net.c - small neural networks: forward, backward
 *
 * A layer multiplies a matrix of inputs by its weights: those of a fully
 * connected one are an image's values, those of a convolution the patches of
 * all its places. So a batch of images is n or n * places rows. Values of an
 * image between layers are places x channels, the order in which products
 * leave them.
 */
#include "bench/net.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "bench/blas.h"
#include "bench/dataset.h"

#define LAYERS_MAX (NET_TENSORS_MAX / 2)

struct layer {
	uint32_t inputs, outputs;	/* of the matrix of weights */
	uint32_t side, channels;	/* convolution: of its input; or 0 */
	uint32_t kernel;
	uint64_t first;			/* of its weights, in the vector */

	/* Of a batch. */
	float *patches;			/* convolution: rows x inputs */
	float *out;			/* rows x outputs, after ReLU */
	float *pooled;			/* convolution: a quarter of that */
	uint8_t *argmax;		/* which of the four, of each */
};

struct net {
	uint32_t batch, n;
	uint64_t elems;
	struct layer layers[LAYERS_MAX];
	float *back[2];			/* gradients between two layers */
};

static uint32_t places(const struct layer *l)
{
	return l->side ? l->side * l->side : 1;
}

/* Values of an image that the layer gives to the next one. */
static uint32_t width(const struct layer *l)
{
	return l->side ? l->side * l->side / 4 * l->outputs : l->outputs;
}

static float *result(const struct layer *l)
{
	return l->side ? l->pooled : l->out;
}

/* --- making one ----------------------------------------------------------- */

static void add_full(struct net *net, uint32_t inputs, uint32_t outputs)
{
	struct layer *l = &net->layers[net->n++];

	*l = (struct layer){ .inputs = inputs, .outputs = outputs,
			     .first = net->elems };
	net->elems += (uint64_t)inputs * outputs + outputs;
}

static void add_conv(struct net *net, uint32_t side, uint32_t channels,
		     uint32_t kernel, uint32_t filters)
{
	add_full(net, channels * kernel * kernel, filters);
	net->layers[net->n - 1].side = side;
	net->layers[net->n - 1].channels = channels;
	net->layers[net->n - 1].kernel = kernel;
}

static bool add_layers(struct net *net, const char *name)
{
	if (!strcmp(name, "mlp")) {
		add_full(net, DATASET_PIXELS, 256);
		add_full(net, 256, 128);
		add_full(net, 128, NET_CLASSES);
		return true;
	}
	if (strcmp(name, "conv"))
		return false;
	add_conv(net, DATASET_SIDE, 1, 5, 8);
	add_conv(net, DATASET_SIDE / 2, 8, 5, 16);
	add_full(net, DATASET_SIDE / 4 * (DATASET_SIDE / 4) * 16,
		 NET_CLASSES);
	return true;
}

static float *floats(uint64_t n)
{
	return malloc(n * sizeof(float));
}

static bool add_room(struct net *net)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < net->n; i++) {
		struct layer *l = &net->layers[i];
		uint64_t rows = (uint64_t)net->batch * places(l);

		most = PL_MAX(most, PL_MAX(rows * l->outputs,
					   rows * l->inputs));
		l->out = floats(rows * l->outputs);
		if (!l->out)
			return false;
		if (!l->side)
			continue;
		l->patches = floats(rows * l->inputs);
		l->pooled = floats((uint64_t)net->batch * width(l));
		l->argmax = malloc((uint64_t)net->batch * width(l));
		if (!l->patches || !l->pooled || !l->argmax)
			return false;
	}
	net->back[0] = floats(most);
	net->back[1] = floats(most);
	return net->back[0] && net->back[1];
}

int net_create(const char *name, uint32_t batch, struct net **out,
	       struct pl_err *err)
{
	struct net *net = calloc(1, sizeof(*net));
	int rc = 0;

	*out = NULL;
	if (!net)
		return pl_err_set(err, ENOMEM, "no memory for a net");
	net->batch = batch;
	if (!add_layers(net, name))
		rc = pl_err_set(err, EINVAL, "unknown net '%s', choose mlp or "
				"conv", name);
	else if (!add_room(net))
		rc = pl_err_set(err, ENOMEM, "no memory for a net and %u "
				"images", batch);
	if (rc < 0) {
		net_destroy(net);
		return rc;
	}
	*out = net;
	return 0;
}

void net_destroy(struct net *net)
{
	if (!net)
		return;
	for (uint32_t i = 0; i < net->n; i++) {
		free(net->layers[i].patches);
		free(net->layers[i].out);
		free(net->layers[i].pooled);
		free(net->layers[i].argmax);
	}
	free(net->back[0]);
	free(net->back[1]);
	free(net);
}

uint64_t net_elems(const struct net *net)
{
	return net->elems;
}

uint32_t net_tensors(const struct net *net, uint32_t sizes[NET_TENSORS_MAX])
{
	for (uint32_t i = 0; i < net->n; i++) {
		sizes[2 * i] = net->layers[i].inputs * net->layers[i].outputs;
		sizes[2 * i + 1] = net->layers[i].outputs;
	}
	return 2 * net->n;
}

/* Uniform within the bounds of He et al. (2015), by splitmix64. */
void net_init(const struct net *net, uint64_t seed, float *params)
{
	memset(params, 0, net->elems * sizeof(float));
	for (uint32_t i = 0; i < net->n; i++) {
		const struct layer *l = &net->layers[i];
		uint64_t n = (uint64_t)l->inputs * l->outputs;
		float limit = sqrtf(6.0f / (float)l->inputs);

		for (uint64_t k = 0; k < n; k++) {
			uint64_t z = seed += 0x9e3779b97f4a7c15u;

			z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
			z = (z ^ z >> 27) * 0x94d049bb133111ebu;
			z ^= z >> 31;
			params[l->first + k] = limit *
				((float)(z >> 40) * 0x1p-23f - 1);
		}
	}
}

/* --- patches -------------------------------------------------------------- */

/* Calls for each value of a patch that is within the image. */
#define FOR_PATCH(l, row, col, at, in) \
	for (int dy_ = 0, half_ = (int)(l)->kernel / 2; \
	     dy_ < (int)(l)->kernel; dy_++) \
		for (int dx_ = 0, y_, x_; dx_ < (int)(l)->kernel; dx_++) \
			if (y_ = (int)(row) + dy_ - half_, \
			    x_ = (int)(col) + dx_ - half_, \
			    at = ((uint32_t)dy_ * (l)->kernel + \
				  (uint32_t)dx_) * (l)->channels, \
			    in = ((int64_t)y_ * (l)->side + x_) * \
				 (l)->channels, \
			    y_ >= 0 && x_ >= 0 && y_ < (int)(l)->side && \
			    x_ < (int)(l)->side)

static void make_patches(const struct layer *l, const float *image,
			 float *out)
{
	uint32_t at;
	int64_t in;

	memset(out, 0, (size_t)places(l) * l->inputs * sizeof(float));
	for (uint32_t row = 0; row < l->side; row++)
		for (uint32_t col = 0; col < l->side; col++) {
			FOR_PATCH(l, row, col, at, in)
				memcpy(out + at, image + in,
				       l->channels * sizeof(float));
			out += l->inputs;
		}
}

/* The other way: gradients of patches are summed where their values were. */
static void sum_patches(const struct layer *l, const float *patches,
			float *image)
{
	uint32_t at;
	int64_t in;

	memset(image, 0, (size_t)places(l) * l->channels * sizeof(float));
	for (uint32_t row = 0; row < l->side; row++)
		for (uint32_t col = 0; col < l->side; col++) {
			FOR_PATCH(l, row, col, at, in)
				for (uint32_t c = 0; c < l->channels; c++)
					image[in + c] += patches[at + c];
			patches += l->inputs;
		}
}

/* --- maximum of 2 x 2 ----------------------------------------------------- */

/* Of an image's values: those of a place and channel, of four. */
static uint32_t corner(const struct layer *l, uint32_t row, uint32_t col,
		       uint32_t channel, uint32_t which)
{
	return ((2 * row + which / 2) * l->side + 2 * col + which % 2) *
	       l->outputs + channel;
}

static void pool(const struct layer *l, const float *in, float *out,
		 uint8_t *argmax)
{
	uint32_t i = 0;

	for (uint32_t row = 0; row < l->side / 2; row++)
		for (uint32_t col = 0; col < l->side / 2; col++)
			for (uint32_t c = 0; c < l->outputs; c++, i++) {
				uint8_t best = 0;

				for (uint8_t k = 1; k < 4; k++)
					if (in[corner(l, row, col, c, k)] >
					    in[corner(l, row, col, c, best)])
						best = k;
				argmax[i] = best;
				out[i] = in[corner(l, row, col, c, best)];
			}
}

static void unpool(const struct layer *l, const float *grad,
		   const uint8_t *argmax, float *out)
{
	uint32_t i = 0;

	memset(out, 0, (size_t)places(l) * l->outputs * sizeof(float));
	for (uint32_t row = 0; row < l->side / 2; row++)
		for (uint32_t col = 0; col < l->side / 2; col++)
			for (uint32_t c = 0; c < l->outputs; c++, i++)
				out[corner(l, row, col, c, argmax[i])] =
					grad[i];
}

/* --- forward -------------------------------------------------------------- */

static void add_bias(const float *bias, uint32_t rows, uint32_t n, bool relu,
		     float *out)
{
	for (uint32_t r = 0; r < rows; r++, out += n)
		for (uint32_t i = 0; i < n; i++) {
			out[i] += bias[i];
			if (relu && !(out[i] > 0))
				out[i] = 0;
		}
}

static void layer_forward(const struct layer *l, const float *params,
			  const float *in, uint32_t n, bool relu)
{
	const float *w = params + l->first;
	uint32_t rows = n * places(l);
	uint32_t size = places(l) * l->channels;
	const struct blas_product p = { .m = (int)rows, .k = (int)l->inputs,
					.n = (int)l->outputs };

	for (uint32_t i = 0; l->side && i < n; i++)
		make_patches(l, in + (size_t)i * size, l->patches +
			     (size_t)i * places(l) * l->inputs);
	blas_multiply(&p, l->side ? l->patches : in, w, l->out);
	add_bias(w + (size_t)l->inputs * l->outputs, rows, l->outputs, relu,
		 l->out);
	for (uint32_t i = 0; l->side && i < n; i++)
		pool(l, l->out + (size_t)i * places(l) * l->outputs,
		     l->pooled + (size_t)i * width(l),
		     l->argmax + (size_t)i * width(l));
}

static void forward(struct net *net, const float *params, const float *x,
		    uint32_t n)
{
	for (uint32_t i = 0; i < net->n; i++) {
		layer_forward(&net->layers[i], params, x, n, i + 1 < net->n);
		x = result(&net->layers[i]);
	}
}

void net_forward(struct net *net, const float *params, const float *x,
		 uint32_t n, float *logits)
{
	forward(net, params, x, n);
	memcpy(logits, net->layers[net->n - 1].out,
	       (size_t)n * NET_CLASSES * sizeof(float));
}

uint32_t net_class(const float *logits)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i < NET_CLASSES; i++)
		if (logits[i] > logits[best])
			best = i;
	return best;
}

/* --- backward ------------------------------------------------------------- */

/* Softmax, less the label, by n: the gradient of the mean cross entropy. */
static double loss_gradient(const float *logits, const uint8_t *labels,
			    uint32_t n, float *grad)
{
	double loss = 0;

	for (uint32_t r = 0; r < n; r++) {
		const float *in = logits + (size_t)r * NET_CLASSES;
		float *g = grad + (size_t)r * NET_CLASSES;
		float most = in[net_class(in)], sum = 0;

		for (uint32_t i = 0; i < NET_CLASSES; i++)
			sum += g[i] = expf(in[i] - most);
		for (uint32_t i = 0; i < NET_CLASSES; i++)
			g[i] /= sum * (float)n;
		g[labels[r]] -= 1.0f / (float)n;
		loss += log((double)sum) + (double)most -
			(double)in[labels[r]];
	}
	return loss / n;
}

static void sum_columns(const float *g, uint32_t rows, uint32_t n,
			float *out)
{
	memset(out, 0, n * sizeof(*out));
	for (uint32_t r = 0; r < rows; r++, g += n)
		for (uint32_t i = 0; i < n; i++)
			out[i] += g[i];
}

/* g: gradient of the layer's product, rows x outputs. */
static void weight_gradient(const struct layer *l, const float *in,
			    const float *g, uint32_t rows, float *grad)
{
	const struct blas_product p = { .a_transposed = true,
		.m = (int)l->inputs, .n = (int)l->outputs, .k = (int)rows };

	blas_multiply(&p, l->side ? l->patches : in, g, grad + l->first);
	sum_columns(g, rows, l->outputs, grad + l->first +
		    (size_t)l->inputs * l->outputs);
}

/* Gradients of the inputs of n images, from g; g is used up. */
static void input_gradient(const struct layer *l, const float *params,
			   float *g, uint32_t n, float *out)
{
	uint32_t rows = n * places(l);
	uint32_t size = places(l) * l->channels;
	const struct blas_product p = { .b_transposed = true, .m = (int)rows,
		.n = (int)l->inputs, .k = (int)l->outputs };

	blas_multiply(&p, g, params + l->first, out);
	if (!l->side)
		return;
	for (uint32_t i = 0; i < n; i++)
		sum_patches(l, out + (size_t)i * places(l) * l->inputs,
			    g + (size_t)i * size);
	memcpy(out, g, (size_t)n * size * sizeof(float));
}

/* From the gradient of what the layer gave to that of its product. */
static void through_relu(const struct layer *l, uint32_t n, float *g,
			 float *spare)
{
	size_t all = (size_t)n * places(l) * l->outputs;

	for (uint32_t i = 0; l->side && i < n; i++)
		unpool(l, g + (size_t)i * width(l),
		       l->argmax + (size_t)i * width(l),
		       spare + (size_t)i * places(l) * l->outputs);
	if (l->side)
		memcpy(g, spare, all * sizeof(float));
	for (size_t i = 0; i < all; i++)
		if (!(l->out[i] > 0))
			g[i] = 0;
}

void net_gradient(struct net *net, const float *params, const float *x,
		  const uint8_t *labels, uint32_t n, float *grad,
		  double *loss)
{
	float *g = net->back[0], *other = net->back[1], *t;

	forward(net, params, x, n);
	*loss = loss_gradient(net->layers[net->n - 1].out, labels, n, g);
	for (uint32_t i = net->n; i-- > 0; ) {
		const struct layer *l = &net->layers[i];

		if (i + 1 < net->n)
			through_relu(l, n, g, other);
		weight_gradient(l, i ? result(&net->layers[i - 1]) : x, g,
				n * places(l), grad);
		if (i == 0)
			break;
		input_gradient(l, params, g, n, other);
		t = g;
		g = other;
		other = t;
	}
}
