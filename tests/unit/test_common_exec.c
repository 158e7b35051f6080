/* tests/unit/test_common_exec.c - common/exec.h */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/exec.h"
#include "common/util.h"

static void found(void **state)
{
	char path[64];

	(void)state;
	assert_int_equal(pl_exec_find("/none:/bin:/usr/bin", "sh", path,
				      sizeof(path)), 0);
	assert_string_equal(path, "/bin/sh");
	assert_int_equal(pl_exec_find("/bin", "no-such-program", path,
				      sizeof(path)), -ENOENT);
	assert_int_equal(pl_exec_find("::", "bin/sh", path, sizeof(path)),
			 -ENOENT);
	assert_int_equal(pl_exec_find("", "sh", path, sizeof(path)), -ENOENT);
	assert_int_equal(pl_exec_find(NULL, "sh", path, sizeof(path)),
			 -ENOENT);
	assert_int_equal(pl_exec_find("/bin", "sh", path, 7), -ENOENT);
}

/* cat gives back its input, and the end of file after it. */
static void input_and_output(void **state)
{
	char *env[] = { NULL }, buf[16];
	int in = pl_exec_input("the input", NULL), p[2], status;
	pid_t pid;

	(void)state;
	assert_true(in >= 0);
	assert_int_equal(pipe(p), 0);
	assert_int_equal(pl_exec_spawn("/bin/cat", env, in, p[1], &pid), 0);
	close(in);
	close(p[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(read(p[0], buf, sizeof(buf)), 9);
	assert_memory_equal(buf, "the input", 9);
	close(p[0]);
}

/* A signal that is blocked here ends it. */
static void signals(void **state)
{
	char *env[] = { NULL };
	int in = pl_exec_input("kill -TERM $$", NULL), status;
	sigset_t term, old;
	pid_t pid;

	(void)state;
	assert_true(in >= 0);
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, &old);
	assert_int_equal(pl_exec_spawn("/bin/sh", env, in, STDERR_FILENO, &pid),
			 0);
	sigprocmask(SIG_SETMASK, &old, NULL);
	close(in);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGTERM);
}

static void absent(void **state)
{
	char *env[] = { NULL };
	pid_t pid;

	(void)state;
	assert_int_equal(pl_exec_spawn("/none", env, STDIN_FILENO,
				       STDOUT_FILENO, &pid), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(found),
		cmocka_unit_test(input_and_output),
		cmocka_unit_test(signals),
		cmocka_unit_test(absent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
