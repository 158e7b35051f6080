/* tests/unit/test_devices.c - rdma/devices.h, on a folder like sysfs */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/util.h"
#include "rdma/devices.h"

static char root[64];
static struct pl_rdma_gid all[PL_RDMA_GIDS_MAX];

/* The text of a file, made with its folders. */
static void put(const char *path, const char *text)
{
	char cmd[512];

	snprintf(cmd, sizeof(cmd), "f='%s/%s'; mkdir -p \"${f%%/*}\" && "
		 "echo '%s' >\"$f\"", root, path, text);
	assert_int_equal(system(cmd), 0);
}

/* Two devices: near node 1 with two ports, near node 0 with one. */
static int setup(void **state)
{
	(void)state;
	snprintf(root, sizeof(root), "/tmp/podlane-unit.XXXXXX");
	assert_non_null(mkdtemp(root));
	put("mlx5_1/device/numa_node", "1");
	put("mlx5_1/ports/1/state", "4: ACTIVE");
	put("mlx5_1/ports/1/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001");
	put("mlx5_1/ports/1/gid_attrs/types/0", "RoCE v2");
	put("mlx5_1/ports/1/gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0001");
	put("mlx5_1/ports/1/gid_attrs/types/1", "IB/RoCE v1");
	put("mlx5_1/ports/1/gids/2", "0000:0000:0000:0000:0000:ffff:0a00:0001");
	put("mlx5_1/ports/1/gid_attrs/types/2", "RoCE v2");
	put("mlx5_1/ports/1/gids/3", "0000:0000:0000:0000:0000:0000:0000:0000");
	put("mlx5_1/ports/2/state", "1: DOWN");
	put("mlx5_1/ports/2/gids/0", "2001:0db8:0000:0000:0000:0000:0000:0001");
	put("mlx5_1/ports/2/gid_attrs/types/0", "RoCE v2");
	put("mlx5_0/device/numa_node", "0");
	put("mlx5_0/ports/1/state", "4: ACTIVE");
	put("mlx5_0/ports/1/gids/5", "0000:0000:0000:0000:0000:ffff:0a00:0002");
	put("mlx5_0/ports/1/gid_attrs/types/5", "RoCE v2");
	return 0;
}

static int teardown(void **state)
{
	char cmd[128];

	(void)state;
	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", root);
	assert_int_equal(system(cmd), 0);
	return 0;
}

static void listed(void **state)
{
	char text[INET6_ADDRSTRLEN];

	(void)state;
	assert_true(pl_rdma_there(root));
	assert_int_equal(pl_rdma_gids(root, all, PL_RDMA_GIDS_MAX), 3);
	assert_string_equal(all[0].device, "mlx5_0");
	assert_int_equal(all[0].index, 5);
	assert_int_equal(all[0].numa, 0);
	assert_string_equal(all[1].device, "mlx5_1");
	assert_int_equal(all[1].index, 2);
	assert_int_equal(all[1].numa, 1);
	assert_true(all[1].is_active);
	assert_string_equal(pl_addr_str(&all[1].addr, text), "10.0.0.1");
	assert_int_equal(all[2].port, 2);
	assert_false(all[2].is_active);
	assert_string_equal(pl_addr_str(&all[2].addr, text), "2001:db8::1");
	assert_int_equal(pl_rdma_gids(root, all, 1), 1);
}

static void none(void **state)
{
	struct pl_rdma_want any = { .index = -1 };
	const struct pl_rdma_gid *g;
	struct pl_err err;

	(void)state;
	assert_false(pl_rdma_there("/nonexistent"));
	assert_int_equal(pl_rdma_gids("/nonexistent", all, 1), 0);
	assert_int_equal(pl_rdma_choose(all, 0, &any, -1, &g, &err), -ENODEV);
	assert_null(g);
}

/* Interfaces of InfiniBand and iWARP have the addresses. */
static void by_interface(void **state)
{
	(void)state;
	put("ib0/ports/1/state", "4: ACTIVE");
	put("ib0/ports/1/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001");
	put("ib0/ports/1/gid_attrs/types/0", "IB/RoCE v1");
	put("ib0/device/net/lo/x", "");
	assert_true(pl_rdma_gids(root, all, PL_RDMA_GIDS_MAX) >= 4);
	assert_string_equal(all[0].device, "ib0");
	assert_int_equal(all[0].index, -1);
	assert_int_equal(all[0].addr.bytes[0], 127);
}

static const struct {
	const char *device;
	int port, index;
	const char *own;
	int near;
	const char *chosen;		/* NULL: the error has `says` */
	const char *says;
} choices[] = {
	/* Order, nearness, activity, own address: each beats the last. */
	{ NULL, 0, -1, "10.9.9.9", -1, "10.0.0.2", "" },
	{ NULL, 0, -1, "10.9.9.9", 1, "10.0.0.1", "" },
	{ NULL, 0, -1, "10.9.9.9", 7, "10.0.0.2", "" },
	{ NULL, 0, -1, "10.0.0.1", 0, "10.0.0.1", "" },
	{ NULL, 0, -1, "2001:db8::1", 0, "2001:db8::1", "" },
	{ "mlx5_1", 0, -1, "10.0.0.2", 0, "10.0.0.1", "" },
	{ "mlx5_1", 2, -1, "10.0.0.1", 0, "2001:db8::1", "" },
	{ "mlx5_1", 1, 2, "10.0.0.2", 0, "10.0.0.1", "" },
	{ "mlx5_1", 1, 1, "10.0.0.1", 0, NULL,
	  "no RDMA device mlx5_1 port 1 GID 1 with an address; there is "
	  "mlx5_0 port 1 GID 5 (10.0.0.2), mlx5_1 port 1 GID 2 (10.0.0.1), "
	  "mlx5_1 port 2 GID 0 (2001:db8::1, down)" },
	{ "mlx5_1", 3, -1, "10.0.0.1", 0, NULL, "device mlx5_1 port 3 with" },
	{ "mlx4_0", 0, -1, "10.0.0.1", 0, NULL, "device mlx4_0 with" },
};

static void chosen(void **state)
{
	size_t n = pl_rdma_gids(root, all, PL_RDMA_GIDS_MAX);

	(void)state;
	for (size_t i = 0; i < PL_ARRAY_SIZE(choices); i++) {
		struct pl_rdma_want want = { .device = choices[i].device,
					     .port = choices[i].port,
					     .index = choices[i].index };
		const struct pl_rdma_gid *g;
		char text[INET6_ADDRSTRLEN];
		struct pl_err err = { 0 };
		int rc;

		assert_int_equal(pl_addr_parse(choices[i].own, &want.addr), 0);
		rc = pl_rdma_choose(all, n, &want, choices[i].near, &g, &err);
		if (choices[i].chosen) {
			assert_int_equal(rc, 0);
			assert_string_equal(pl_addr_str(&g->addr, text),
					    choices[i].chosen);
		} else {
			assert_int_equal(rc, -ENODEV);
			if (!strstr(err.msg, choices[i].says))
				fail_msg("%s", err.msg);
		}
	}
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
	const struct CMUnitTest tests[] = { T(listed), T(none),
					    T(by_interface), T(chosen) };

	return cmocka_run_group_tests_name("devices", tests, NULL, NULL);
}
