/* tests/unit/test_common_netns.c - common/netns.h, as far as anybody may */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/netns.h"

static void opening(void **state)
{
	struct pl_err e = { 0 };
	int fd = -1;

	(void)state;
	assert_int_equal(pl_netns_open("/proc/self/ns/net", &fd, &e), 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
	fd = -1;
	assert_int_equal(pl_netns_open("/proc/self/ns/none", &fd, &e),
			 -ENOENT);
	assert_int_equal(pl_netns_open("/dev/null", &fd, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "/dev/null"));
	/* A namespace, but of another type. */
	assert_int_equal(pl_netns_open("/proc/self/ns/uts", &fd, &e),
			 -EINVAL);
	assert_int_equal(pl_netns_open("/proc", &fd, &e), -EINVAL);
	assert_int_equal(fd, -1);
}

static void identity(void **state)
{
	uint64_t dev = 0, ino = 0, dev2 = 0, ino2 = 0;
	int a = -1, b = -1, n = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(pl_netns_open("/proc/self/ns/net", &a, NULL), 0);
	assert_int_equal(pl_netns_open("/proc/self/ns/net", &b, NULL), 0);
	assert_int_equal(pl_netns_id(a, &dev, &ino), 0);
	assert_int_equal(pl_netns_id(b, &dev2, &ino2), 0);
	assert_true(dev == dev2 && ino == ino2 && ino);
	assert_true(pl_netns_same(a, b));
	assert_false(pl_netns_same(a, n));
	assert_false(pl_netns_same(a, -1));
	assert_int_equal(pl_netns_id(-1, &dev, &ino), -EBADF);
	close(a);
	close(b);
	close(n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opening),
		cmocka_unit_test(identity),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
