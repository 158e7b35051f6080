/*
 * tests/unit/test_bench_machine.c - memory that is left, processes of the
 * comparison
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/tree.h"
#include "common/util.h"
#include "bench/ps_bench.h"
#include "bench/ps_machine.h"
#include "bench/ps_role.h"

static int make_root(void **state)
{
	char *dir = strdup("/tmp/test_bench.XXXXXX");

	*state = dir;
	return dir && mkdtemp(dir) ? 0 : -1;
}

static int remove_root(void **state)
{
	pl_tree_remove(*state);
	free(*state);
	return 0;
}

static void put(const char *root, const char *path, const char *text)
{
	char full[512], *slash;

	snprintf(full, sizeof(full), "%s%s", root, path);
	slash = strrchr(full, '/');
	*slash = '\0';
	assert_int_equal(pl_mkdirs(full, 0700, NULL), 0);
	*slash = '/';
	assert_int_equal(pl_file_replace(full, text, strlen(text), 0600,
					 NULL), 0);
}

#define MEMINFO "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:   800 kB\n"

static void machine_without_groups(void **state)
{
	const char *limit;

	put(*state, "/proc/meminfo", MEMINFO);
	assert_int_equal(ps_machine_free_bytes(*state, &limit), 800 * 1024);
	assert_string_equal(limit, "this machine");
}

static void limit_of_a_parent_counts(void **state)
{
	const char *limit;

	put(*state, "/proc/meminfo", MEMINFO);
	put(*state, "/proc/self/cgroup", "0::/a/b\n");
	put(*state, "/sys/fs/cgroup/a/b/memory.max", "max\n");
	put(*state, "/sys/fs/cgroup/a/b/memory.current", "1000\n");
	put(*state, "/sys/fs/cgroup/a/memory.max", "100000\n");
	put(*state, "/sys/fs/cgroup/a/memory.current", "70000\n");
	/* The kernel drops clean page cache before it says no. */
	put(*state, "/sys/fs/cgroup/a/memory.stat",
	    "anon 1\ninactive_file 20000\nactive_file 10000\n");
	assert_int_equal(ps_machine_free_bytes(*state, &limit), 60000);
	assert_string_equal(limit, "the control group's memory limit");
}

static void root_of_a_container_counts(void **state)
{
	put(*state, "/proc/meminfo", MEMINFO);
	put(*state, "/proc/self/cgroup", "0::/\n");
	put(*state, "/sys/fs/cgroup/memory.max", "5000\n");
	put(*state, "/sys/fs/cgroup/memory.current", "6000\n");
	assert_int_equal(ps_machine_free_bytes(*state, NULL), 0);
}

static void version_1_counts(void **state)
{
	put(*state, "/proc/meminfo", MEMINFO);
	put(*state, "/proc/self/cgroup", "3:cpu:/x\n4:memory:/x\n0::/\n");
	put(*state, "/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9000\n");
	put(*state, "/sys/fs/cgroup/memory/x/memory.usage_in_bytes", "2000\n");
	assert_int_equal(ps_machine_free_bytes(*state, NULL), 7000);
}

static void need_grows_with_the_job(void **state)
{
	struct ps_opts o = { .workers = 2, .servers = 1, .n_models = 1,
			     .placements = PS_SAME_NODE,
			     .transports = PS_PODLANE };
	const struct ps_model *m = ps_model_find("vgg16");
	uint64_t model = m->elems * 4, need;

	(void)state;
	o.models[0] = m;
	need = ps_memory_need(&o);
	assert_true(need > 3 * model && need < 4 * model);
	o.transports |= PS_OVERLAY;
	need = ps_memory_need(&o);
	assert_true(need > 5 * model && need < 6 * model);
	o.workers = 4;
	assert_true(ps_memory_need(&o) > need + 4 * model);
}

static void machine_is_known(void **state)
{
	struct ps_machine m;

	(void)state;
	ps_machine_probe(&m);
	assert_true(m.cores >= 1);
	assert_true(m.cpu[0] && m.kernel[0]);
	assert_true(ps_machine_busy_ns() > 0);
	assert_true(ps_machine_free_bytes("", NULL) > 0);
}

/*
 * Threads that can't have their memory all give up: none waits for another.
 * Which one is first is chance, so it is done often. Sanitizers need address
 * space of their own.
 */
__attribute__((unused))
static void no_memory_for_the_bandwidth(void **state)
{
	const struct rlimit limit = { 128u << 20, 128u << 20 };
	int status, i;
	pid_t pid;

	(void)state;
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(20);
		if (setrlimit(RLIMIT_AS, &limit) < 0)
			_exit(2);
		for (i = 0; i < 200; i++) {
			if (ps_memory_bandwidth() > 0)
				_exit(3);
		}
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define ROOTED(f) cmocka_unit_test_setup_teardown(f, make_root, remove_root)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROOTED(machine_without_groups),
		ROOTED(limit_of_a_parent_counts),
		ROOTED(root_of_a_container_counts),
		ROOTED(version_1_counts),
		cmocka_unit_test(need_grows_with_the_job),
		cmocka_unit_test(machine_is_known),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
		cmocka_unit_test(no_memory_for_the_bandwidth),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
