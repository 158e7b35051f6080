/*
 * tests/unit/test_seccomp.c: what the agent's filter lets through
 *
 * Every call has arguments with which it fails harmlessly when it is let
 * through, so the error says who refused it.
 */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util.h"
#include "daemonset/agent_internal.h"

struct call {
	const char *what;
	long nr, a, b, c;
	int free, filtered;		/* errno without the filter and with */
};

#define NO_FAMILY 250

static const struct call calls[] = {
	{ "setns of a network", SYS_setns, -1, CLONE_NEWNET, 0, EBADF, EBADF },
	{ "setns of mounts", SYS_setns, -1, CLONE_NEWNS, 0, EBADF, EPERM },
	{ "setns of anything", SYS_setns, -1, 0, 0, EBADF, EPERM },
	{ "unshare", SYS_unshare, 0, 0, 0, 0, EPERM },
	{ "clone into a user namespace", SYS_clone,
	  CLONE_NEWUSER | CLONE_FS | CLONE_THREAD, 0, 0, EINVAL, EPERM },
	{ "clone", SYS_clone, CLONE_THREAD, 0, 0, EINVAL, EINVAL },
	{ "clone3", SYS_clone3, 0, 0, 0, EINVAL, ENOSYS },
	{ "ptrace", SYS_ptrace, 7 /* PTRACE_CONT */, INT32_MAX, 0, ESRCH,
	  EPERM },
	{ "process_vm_writev", SYS_process_vm_writev, INT32_MAX, 0, 0, 0,
	  EPERM },
	{ "name_to_handle_at", SYS_name_to_handle_at, -1, 0, 0, EFAULT, EPERM },
	{ "umount", SYS_umount2, 0, -1, 0, EINVAL, EPERM },
	{ "personality", SYS_personality, 0xffffffff, 0, 0, 0, EPERM },
	{ "socket", SYS_socket, AF_UNIX, -1, 0, EINVAL, EINVAL },
	{ "socket of netlink", SYS_socket, AF_NETLINK, -1, 0, EINVAL, EINVAL },
	{ "socket of another family", SYS_socket, NO_FAMILY, SOCK_STREAM, 0,
	  EAFNOSUPPORT, EPERM },
	{ "unknown", 100000, 0, 0, 0, ENOSYS, EPERM },
};

static int try(const struct call *c)
{
	long rc = syscall(c->nr, c->a, c->b, c->c, 0, 0, 0);

	return rc == -1 ? errno : 0;
}

/* Runs in a child: returns the index of the call that went wrong, or 255. */
static int try_all(bool filtered)
{
	struct pl_err err;

	if (filtered && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
			 pl_seccomp_install(&err) < 0))
		return 254;
	for (size_t i = 0; i < PL_ARRAY_SIZE(calls); i++) {
		int want = filtered ? calls[i].filtered : calls[i].free;
		int got = try(&calls[i]);

		if (got == want)
			continue;
		dprintf(STDERR_FILENO, "%s: errno %d instead of %d\n",
			calls[i].what, got, want);
		return (int)i;
	}
	return 255;
}

static int in_child(int (*run)(bool), bool arg)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(run(arg));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Otherwise the next test could not fail. */
static void test_without(void **state)
{
	(void)state;
	if (geteuid())
		skip();
	assert_int_equal(in_child(try_all, false), 255);
}

static void test_filtered(void **state)
{
	(void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip();				/* their builds may do more */
#endif
	assert_int_equal(in_child(try_all, true), 255);
}

static int run_shell(bool filtered)
{
	struct pl_err err;

	if (filtered && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
			 pl_seccomp_install(&err) < 0))
		return 254;
	return system("ls / | grep -q etc && unshare --net true 2>/dev/null; "
		      "[ $? != 0 ]") ? 1 : 0;
}

static void test_children(void **state)
{
	(void)state;
	assert_int_equal(in_child(run_shell, true), 0);
	if (geteuid() == 0)
		assert_int_equal(in_child(run_shell, false), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without),
		cmocka_unit_test(test_filtered),
		cmocka_unit_test(test_children),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
