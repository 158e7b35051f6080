/* bench/blas.c - matrix products by the BLAS of the system */
#include "bench/blas.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>

#include "common/util.h"

/* Of the C interface of BLAS. */
enum { ROW_MAJOR = 101, AS_IT_IS = 111, TRANSPOSED = 112 };
typedef void sgemm(int order, int trans_a, int trans_b, int m, int n, int k,
		   float alpha, const float *a, int lda, const float *b,
		   int ldb, float beta, float *c, int ldc);

static struct {
	sgemm *multiply;
	char path[PATH_MAX];
} blas;

static const char *const names[] = { "libopenblas.so.0", "libblas.so.3" };

static bool load_one(const char *name)
{
	void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	Dl_info info;

	if (!lib)
		return false;
	blas.multiply = (sgemm *)dlsym(lib, "cblas_sgemm");
	if (!blas.multiply) {
		dlclose(lib);
		return false;
	}
	if (!dladdr((void *)blas.multiply, &info) ||
	    !realpath(info.dli_fname, blas.path))
		pl_format(blas.path, sizeof(blas.path), "%s", name);
	return true;
}

int blas_load(struct pl_err *err)
{
	if (blas.multiply)
		return 0;
	setenv("OPENBLAS_NUM_THREADS", "1", 1);
	setenv("OMP_NUM_THREADS", "1", 1);
	for (size_t i = 0; i < PL_ARRAY_SIZE(names); i++)
		if (load_one(names[i]))
			return 0;
	return pl_err_set(err, ENOENT, "training needs a BLAS; install one with"
			  ": apt-get install libopenblas0-serial");
}

const char *blas_path(void)
{
	return blas.path;
}

void blas_multiply(const struct blas_product *p, const float *a,
		   const float *b, float *c)
{
	blas.multiply(ROW_MAJOR, p->a_transposed ? TRANSPOSED : AS_IT_IS,
		      p->b_transposed ? TRANSPOSED : AS_IT_IS, p->m, p->n,
		      p->k, 1, a, p->a_transposed ? p->m : p->k, b,
		      p->b_transposed ? p->k : p->n, p->add ? 1 : 0, c, p->n);
}
