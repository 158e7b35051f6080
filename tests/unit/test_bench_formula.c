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
	struct ps_case c = { ps_model_find("vgg16"), p, s, PS_OVERLAY };

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
			     PS_OVERLAY };
	double s = 32 / 35.4 + 4.0 * 138361641 / 1.25e9;

	(void)state;
	assert_true(fabs(ps_formula_images(&o, &c, false, 1.25e9) - 64 / s) <
		    1e-6);
	o.compute = PS_GPU_NONE;
	c.placement = PS_SAME_NODE;
	assert_true(isinf(ps_formula_images(&o, &c, false, 1.25e9)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_on_the_wire),
		cmocka_unit_test(images),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
