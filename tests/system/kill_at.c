/*
 * tests/system/kill_at.c - kill_at N PROGRAM [ARG...]
 *
 * Executes the program and kills it as it enters its N-th system call, counted
 * from 1 behind execve, which then is not done. Exit status: 99 when it was
 * killed, else the program's own: it has made fewer calls.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define KILLED 99

static int child(char **argv)
{
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
		return 126;
	execv(argv[0], argv);
	return 127;
}

/* Each call stops the program twice: where it enters and where it leaves. */
static int count(pid_t pid, long n)
{
	long stops = 0;
	int status;

	for (;;) {
		if (waitpid(pid, &status, 0) < 0)
			return 1;
		if (WIFEXITED(status))
			return WEXITSTATUS(status);
		if (WIFSIGNALED(status))
			return WTERMSIG(status) == SIGKILL ? KILLED : 1;
		if (WSTOPSIG(status) == (SIGTRAP | 0x80) &&
		    ++stops == 2 * n - 1)
			kill(pid, SIGKILL);
		else
			ptrace(PTRACE_SYSCALL, pid, NULL,
			       WSTOPSIG(status) == (SIGTRAP | 0x80) ||
					       WSTOPSIG(status) == SIGTRAP ?
				       0L : (long)WSTOPSIG(status));
	}
}

int main(int argc, char **argv)
{
	int status;
	pid_t pid;

	if (argc < 3 || strtol(argv[1], NULL, 10) < 1) {
		fprintf(stderr, "usage: kill_at N PROGRAM [ARG...]\n");
		return 2;
	}
	pid = fork();
	if (pid == 0)
		_exit(child(argv + 2));
	/* The stop behind execve. */
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFSTOPPED(status) ||
	    ptrace(PTRACE_SETOPTIONS, pid, NULL,
		   PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) < 0 ||
	    ptrace(PTRACE_SYSCALL, pid, NULL, NULL) < 0) {
		perror("kill_at");
		return 1;
	}
	return count(pid, strtol(argv[1], NULL, 10));
}
