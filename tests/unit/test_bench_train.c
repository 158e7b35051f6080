/* tests/unit/test_bench_train.c - nets, data and training */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "common/util.h"
#include "bench/blas.h"
#include "bench/train_alone.h"

#define IMAGES 400
#define BATCH 3

static struct pl_err err;

static void need_blas(void)
{
	if (blas_load(&err) == 0)
		return;
	print_message("%s\n", err.msg);
	skip();
}

/* Images that tell their class: a bright bar at its place, and noise. */
static void make_data(struct dataset *d, uint32_t n)
{
	uint32_t h = 5;

	d->n = n;
	d->pixels = malloc((size_t)n * DATASET_PIXELS);
	d->labels = malloc(n);
	for (uint32_t i = 0; i < n; i++) {
		uint8_t *p = d->pixels + (size_t)i * DATASET_PIXELS;

		d->labels[i] = (uint8_t)(i % DATASET_CLASSES);
		for (uint32_t k = 0; k < DATASET_PIXELS; k++) {
			h = h * 1664525u + 1013904223u;
			p[k] = (uint8_t)(h >> 25);
			if (k % DATASET_SIDE / 2 == d->labels[i])
				p[k] = (uint8_t)(p[k] + 100);
		}
	}
}

static void products(void **state)
{
	static const float a[] = { 1, 2, 3, 4, 5, 6 };	/* 2 x 3 or 3 x 2 */
	static const float b[] = { 1, 0, 0, 1, 1, 1 };	/* 3 x 2 or 2 x 3 */
	float c[4] = { 0 };
	struct blas_product p = { .m = 2, .n = 2, .k = 3 };

	(void)state;
	need_blas();
	assert_true(blas_path()[0] == '/');
	blas_multiply(&p, a, b, c);
	assert_true(c[0] == 4 && c[1] == 5 && c[2] == 10 && c[3] == 11);
	p.add = true;
	blas_multiply(&p, a, b, c);
	assert_true(c[0] == 8 && c[3] == 22);
	p = (struct blas_product){ .m = 2, .n = 2, .k = 3,
				   .a_transposed = true };
	blas_multiply(&p, a, b, c);
	assert_true(c[0] == 6 && c[1] == 8 && c[2] == 8 && c[3] == 10);
	p = (struct blas_product){ .m = 2, .n = 2, .k = 3,
				   .b_transposed = true };
	blas_multiply(&p, a, b, c);
	assert_true(c[0] == 1 && c[1] == 6 && c[2] == 4 && c[3] == 15);
}

static double loss_at(struct net *net, const float *params, const float *x,
		      const uint8_t *labels)
{
	float *grad = malloc(net_elems(net) * sizeof(*grad));
	double loss;

	net_gradient(net, params, x, labels, BATCH, grad, &loss);
	free(grad);
	return loss;
}

/* The gradient is the slope of the loss, in places of every tensor. */
static void check_slopes(const char *name)
{
	struct dataset d;
	struct net *net;
	uint32_t sizes[NET_TENSORS_MAX], n;
	float x[BATCH * DATASET_PIXELS];
	float *params, *grad;
	uint64_t first = 0;
	double loss;

	assert_int_equal(net_create(name, BATCH, &net, &err), 0);
	make_data(&d, BATCH);
	for (uint32_t i = 0; i < BATCH; i++)
		dataset_image(&d, i, x + i * DATASET_PIXELS);
	params = malloc(net_elems(net) * sizeof(*params));
	grad = malloc(net_elems(net) * sizeof(*grad));
	net_init(net, 1, params);
	net_gradient(net, params, x, d.labels, BATCH, grad, &loss);
	n = net_tensors(net, sizes);
	for (uint32_t t = 0; t < n; first += sizes[t++])
		for (uint32_t k = 0; k < 5; k++) {
			uint64_t i = first + (uint64_t)k * 7919 % sizes[t];
			float was = params[i];
			const float h = 1e-2f;
			double up, down, slope;

			params[i] = was + h;
			up = loss_at(net, params, x, d.labels);
			params[i] = was - h;
			down = loss_at(net, params, x, d.labels);
			params[i] = was;
			slope = (up - down) / (2 * (double)h);
			if (fabs(slope - (double)grad[i]) >
			    0.02 + 0.05 * fabs(slope))
				fail_msg("%s, tensor %u, %llu: %g, not %g",
					 name, t, (unsigned long long)i,
					 (double)grad[i], slope);
		}
	assert_int_equal(first, net_elems(net));
	net_destroy(net);
	dataset_free(&d);
	free(params);
	free(grad);
}

static void slopes(void **state)
{
	(void)state;
	need_blas();
	check_slopes("mlp");
	check_slopes("conv");
}

static void sizes_of_nets(void **state)
{
	struct net *net;

	(void)state;
	assert_int_equal(net_create("mlp", 1, &net, &err), 0);
	assert_int_equal(net_elems(net), 784 * 256 + 256 + 256 * 128 + 128 +
			 128 * 10 + 10);
	net_destroy(net);
	assert_int_equal(net_create("lenet", 1, &net, &err), -EINVAL);
}

static void train(const char *net, enum codec_kind kind, uint32_t steps,
		  struct train_result *out)
{
	struct train_alone conf = {
		.learner = { .net = net, .batch = 10, .workers = 2,
			     .epochs = 2, .seed = 1, .rate = 0.02f,
			     .momentum = 0.9f,
			     .sum_has_momentum = kind == CODEC_DGC },
		.codec = { .kind = kind, .workers = 2, .sparsity = 0.99,
			   .momentum = 0.9f, .rank = 2 },
		.steps = steps,
	};
	struct dataset d;

	make_data(&d, IMAGES);
	if (train_alone(&conf, &d, &d, out, &err) < 0)
		fail_msg("%s", err.msg);
	dataset_free(&d);
}

/* All codecs learn what is easy; what they send is as small as they say. */
static void codecs_learn(void **state)
{
	struct train_result none, r;

	(void)state;
	need_blas();
	train("mlp", CODEC_NONE, 0, &none);
	for (int kind = 0; kind < CODEC_KINDS; kind++) {
		train("mlp", (enum codec_kind)kind, 0, &r);
		if (r.accuracy < 0.9)
			fail_msg("%s: %g",
				 codec_name((enum codec_kind)kind),
				 r.accuracy);
		assert_true(kind == CODEC_NONE || r.bytes <= none.bytes / 2);
	}
	train("conv", CODEC_NONE, 0, &r);
	assert_true(r.accuracy > 0.9);
}

static void same_each_time(void **state)
{
	struct train_result a, b;

	(void)state;
	need_blas();
	for (int kind = 0; kind < CODEC_KINDS; kind++) {
		train("mlp", (enum codec_kind)kind, 5, &a);
		train("mlp", (enum codec_kind)kind, 5, &b);
		assert_true(a.checksum == b.checksum);
	}
}

/* Two workers with half a batch each are one with a whole one, but for
 * rounding. */
static void workers_share_the_batch(void **state)
{
	struct train_alone conf = {
		.learner = { .net = "mlp", .batch = 10, .workers = 2,
			     .epochs = 1, .rate = 0.02f, .momentum = 0.9f },
		.codec = { .workers = 2 },
		.steps = 3,
	};
	struct train_result two, one;
	struct dataset d;

	(void)state;
	need_blas();
	make_data(&d, IMAGES);
	assert_int_equal(train_alone(&conf, &d, &d, &two, &err), 0);
	conf.learner.batch = 20;
	conf.learner.workers = conf.codec.workers = 1;
	assert_int_equal(train_alone(&conf, &d, &d, &one, &err), 0);
	assert_true(fabs(one.loss - two.loss) < 1e-4);
	assert_true(fabs(one.accuracy - two.accuracy) < 0.02);
	conf.learner.batch = IMAGES;
	conf.learner.workers = 2;
	assert_int_equal(train_alone(&conf, &d, &d, &one, &err), -EINVAL);
	dataset_free(&d);
}

/* --- the data ------------------------------------------------------------- */

static void write_gz(const char *dir, const char *name, const uint32_t *head,
		     size_t n_head, const void *data, unsigned int len)
{
	char path[256];
	gzFile f;

	pl_format(path, sizeof(path), "%s/%s.gz", dir, name);
	f = gzopen(path, "wb1");
	assert_non_null(f);
	for (size_t i = 0; i < n_head; i++) {
		uint32_t be = htonl(head[i]);

		gzwrite(f, &be, 4);
	}
	gzwrite(f, data, len);
	assert_int_equal(gzclose(f), Z_OK);
}

static void remove_files(const char *dir)
{
	char path[256];

	pl_format(path, sizeof(path), "%s/t10k-images-idx3-ubyte.gz", dir);
	unlink(path);
	pl_format(path, sizeof(path), "%s/t10k-labels-idx1-ubyte.gz", dir);
	unlink(path);
	assert_int_equal(rmdir(dir), 0);
}

static void files(void **state)
{
	uint32_t images[] = { 0x803, 20, 28, 28 }, labels[] = { 0x801, 20 };
	char dir[] = "/tmp/test_bench_train.XXXXXX";
	float x[DATASET_PIXELS];
	struct dataset d, in;

	(void)state;
	assert_non_null(mkdtemp(dir));
	make_data(&d, 20);
	write_gz(dir, "t10k-images-idx3-ubyte", images, 4, d.pixels,
		 20 * DATASET_PIXELS);
	write_gz(dir, "t10k-labels-idx1-ubyte", labels, 2, d.labels, 20);
	assert_int_equal(dataset_load_test(dir, &in, &err), 0);
	assert_int_equal(in.n, 20);
	assert_memory_equal(in.pixels, d.pixels, 20 * DATASET_PIXELS);
	assert_memory_equal(in.labels, d.labels, 20);
	in.pixels[0] = 73;
	dataset_image(&in, 0, x);
	assert_true(fabsf(x[0]) < 2e-3f);
	dataset_free(&in);
	assert_int_equal(dataset_load_train(dir, &in, &err), -ENOENT);

	/* A label too many, an impossible one, a file that ends early. */
	labels[1] = 19;
	write_gz(dir, "t10k-labels-idx1-ubyte", labels, 2, d.labels, 19);
	assert_int_equal(dataset_load_test(dir, &in, &err), -EINVAL);
	labels[1] = 20;
	d.labels[3] = 10;
	write_gz(dir, "t10k-labels-idx1-ubyte", labels, 2, d.labels, 20);
	assert_int_equal(dataset_load_test(dir, &in, &err), -EINVAL);
	write_gz(dir, "t10k-labels-idx1-ubyte", labels, 2, d.labels, 5);
	assert_int_equal(dataset_load_test(dir, &in, &err), -EINVAL);
	images[0] = 7;
	write_gz(dir, "t10k-images-idx3-ubyte", images, 4, d.pixels, 784);
	assert_int_equal(dataset_load_test(dir, &in, &err), -EINVAL);
	assert_null(in.pixels);
	dataset_free(&d);
	remove_files(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(products),
		cmocka_unit_test(slopes),
		cmocka_unit_test(sizes_of_nets),
		cmocka_unit_test(codecs_learn),
		cmocka_unit_test(same_each_time),
		cmocka_unit_test(workers_share_the_batch),
		cmocka_unit_test(files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
