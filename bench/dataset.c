/* bench/dataset.c - Fashion-MNIST, as Debian's dataset-fashion-mnist has it */
#include "bench/dataset.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "common/util.h"

#define MAGIC_IMAGES 0x803
#define MAGIC_LABELS 0x801
#define IMAGES_MAX 1000000
/* Mean and deviation of all pixels of the training set, from 0 to 1. */
#define MEAN 0.2860f
#define DEVIATION 0.3530f

static int read_all(gzFile f, void *buf, size_t len)
{
	return gzread(f, buf, (unsigned int)len) == (int)len ? 0 : -EINVAL;
}

/* The bytes of a file of so many dimensions; dims[0] of them are there. */
static int read_bytes(gzFile f, uint32_t magic, uint32_t n_dims,
		      uint32_t *dims, uint8_t **out)
{
	uint32_t head[4];
	size_t len = 1;

	if (read_all(f, head, (1 + n_dims) * sizeof(*head)) ||
	    ntohl(head[0]) != magic)
		return -EINVAL;
	for (uint32_t i = 0; i < n_dims; i++) {
		dims[i] = ntohl(head[1 + i]);
		if (dims[i] == 0 || dims[i] > (i ? DATASET_SIDE : IMAGES_MAX))
			return -EINVAL;
		len *= dims[i];
	}
	*out = malloc(len);
	if (!*out)
		return -ENOMEM;
	return read_all(f, *out, len);
}

static int read_file(const char *dir, const char *name, uint32_t magic,
		     uint32_t n_dims, uint32_t *dims, uint8_t **out,
		     struct pl_err *err)
{
	char path[PATH_MAX];
	gzFile f;
	int rc;

	pl_format(path, sizeof(path), "%s/%s.gz", dir ? dir : DATASET_DIR,
		  name);
	f = gzopen(path, "rbe");
	if (!f && errno == ENOENT && !dir)
		return pl_err_set(err, ENOENT, "there is no %s; install it "
				  "with: apt-get install dataset-fashion-mnist",
				  path);
	if (!f)
		return pl_err_sys(err, "%s", path);
	gzbuffer(f, 1u << 17);
	rc = read_bytes(f, magic, n_dims, dims, out);
	gzclose(f);
	return rc < 0 ? pl_err_set(err, -rc, "%s: %s", path, rc == -ENOMEM ?
				   "out of memory" : "this is no file of "
				   "images or labels of Fashion-MNIST") : 0;
}

static int check_labels(const struct dataset *d, uint32_t n,
			struct pl_err *err)
{
	if (n != d->n)
		return pl_err_set(err, EINVAL, "%u images have %u labels",
				  d->n, n);
	for (uint32_t i = 0; i < n; i++)
		if (d->labels[i] >= DATASET_CLASSES)
			return pl_err_set(err, EINVAL, "image %u is of class "
					  "%u", i, d->labels[i]);
	return 0;
}

static int load(const char *dir, const char *images, const char *labels,
		struct dataset *d, struct pl_err *err)
{
	uint32_t dims[3], n = 0;
	int rc;

	memset(d, 0, sizeof(*d));
	rc = read_file(dir, images, MAGIC_IMAGES, 3, dims, &d->pixels, err);
	d->n = dims[0];
	if (rc == 0 && (dims[1] != DATASET_SIDE || dims[2] != DATASET_SIDE))
		rc = pl_err_set(err, EINVAL, "images of %u x %u pixels",
				dims[1], dims[2]);
	if (rc == 0)
		rc = read_file(dir, labels, MAGIC_LABELS, 1, &n, &d->labels,
			       err);
	if (rc == 0)
		rc = check_labels(d, n, err);
	if (rc < 0)
		dataset_free(d);
	return rc;
}

int dataset_load_train(const char *dir, struct dataset *out,
		       struct pl_err *err)
{
	return load(dir, "train-images-idx3-ubyte", "train-labels-idx1-ubyte",
		    out, err);
}

int dataset_load_test(const char *dir, struct dataset *out,
		      struct pl_err *err)
{
	return load(dir, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte",
		    out, err);
}

void dataset_free(struct dataset *d)
{
	free(d->pixels);
	free(d->labels);
	memset(d, 0, sizeof(*d));
}

void dataset_image(const struct dataset *d, uint32_t i, float *x)
{
	const uint8_t *p = d->pixels + (size_t)i * DATASET_PIXELS;

	for (int k = 0; k < DATASET_PIXELS; k++)
		x[k] = ((float)p[k] / 255 - MEAN) / DEVIATION;
}
