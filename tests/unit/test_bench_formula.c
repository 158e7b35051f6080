/* tests/unit/test_bench_formula.c - what must cross the wire */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "bench/ps_formula.h"

static double models(enum ps_placement p, enum ps_strategy s,
		     unsigned int workers, unsigned int servers, bool once)
{
	struct ps_opts o = { .workers = workers, .servers = servers };
	struct ps_case c = { ps_model_find("vgg16"), p, s, PS_OVERLAY,
			     CODEC_NONE };

	return ps_formula_bytes(&o, &c, once) / (4.0 * 138361641);
}

static void near(double a, double b)
{
	assert_true(fabs(a - b) < 1e-9);
}

static void bytes_on_the_wire(void **state)
{
	(void)state;
	near(models(PS_SAME_NODE, PS_SERVER, 4, 2, false), 0);
	near(models(PS_SPREAD, PS_INDEPENDENT, 4, 2, false), 0);
	/* n S / (k B), as all servers share a wire: k is 1. */
	near(models(PS_CROSS_NODE, PS_SERVER, 4, 2, false), 4);
	near(models(PS_CROSS_NODE, PS_SERVER, 4, 2, true), 1);
	near(models(PS_SPREAD, PS_RING, 4, 1, false), 1.5);
	near(models(PS_SPREAD, PS_RING, 2, 1, false), 1);
	/* Of two nodes, however many workers they have. */
	near(models(PS_SPREAD, PS_HIERARCHICAL, 4, 1, false), 1);
	near(models(PS_SPREAD, PS_HIERARCHICAL, 64, 1, true), 1);
	near(models(PS_SAME_NODE, PS_HIERARCHICAL, 4, 1, false), 0);
	/* One worker and one server on each of two nodes. */
	near(models(PS_SPREAD, PS_SERVER, 2, 2, false), 1);
	near(models(PS_SPREAD, PS_SERVER, 4, 2, false), 2);
	near(models(PS_SPREAD, PS_SERVER, 4, 2, true), 1);
	/* One server: gradients one way, parameters the other. */
	near(models(PS_SPREAD, PS_SERVER, 4, 1, false), 2);
	near(models(PS_SPREAD, PS_SERVER, 3, 1, false), 1);
}

static void images(void **state)
{
	struct ps_opts o = { .workers = 2, .servers = 1,
			     .compute = PS_GPU_K80 };
	struct ps_case c = { ps_model_find("vgg16"), PS_SPREAD, PS_RING,
			     PS_OVERLAY, CODEC_NONE };
	double s = 32 / 35.4 + 4.0 * 138361641 / 1.25e9;

	(void)state;
	assert_true(fabs(ps_formula_images(&o, &c, false, 1.25e9) - 64 / s) <
		    1e-6);
	o.compute = PS_GPU_NONE;
	c.placement = PS_SAME_NODE;
	assert_true(isinf(ps_formula_images(&o, &c, false, 1.25e9)));
}

/* What comes last can't be hidden, what comes first can. */
static void overlap_hides_the_wire(void **state)
{
	static const uint32_t front[] = { 4000000, 1 }, back[] = { 1, 4000000 };
	struct ps_model m = { .name = "m", .n_tensors = 2, .elems = 4000001,
			      .rates[PS_GPU_K80] = { 1, 3, "" } };
	struct ps_opts o = { .workers = 2, .overlap = true, .batch = 3,
			     .compute = PS_GPU_K80 };
	struct ps_case c = { &m, PS_SPREAD, PS_RING, PS_OVERLAY,
			     CODEC_NONE };

	(void)state;
	/* 1 s forward, 2 s backward, 1 s of the wire for all of it. */
	m.tensors = front;
	assert_true(fabs(ps_formula_images(&o, &c, false, 16000004) - 6 / 4.) <
		    1e-5);
	m.tensors = back;
	assert_true(fabs(ps_formula_images(&o, &c, false, 16000004) - 6 / 3.) <
		    1e-5);
	o.overlap = false;
	assert_true(fabs(ps_formula_images(&o, &c, false, 16000004) - 6 / 4.) <
		    1e-5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_on_the_wire),
		cmocka_unit_test(images),
		cmocka_unit_test(overlap_hides_the_wire),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
