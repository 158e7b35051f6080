/*
 * tests/system/kill_after.c - kill_after MICROSECONDS PROGRAM [ARG...]
 *
 * Executes the program and kills it after so long, if it is still there then.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct timespec ts = { 0 };
	int status;
	pid_t pid;

	if (argc < 3) {
		fprintf(stderr, "usage: kill_after MICROSECONDS PROGRAM\n");
		return 2;
	}
	ts.tv_nsec = strtol(argv[1], NULL, 10) * 1000;
	pid = fork();
	if (pid == 0) {
		execv(argv[2], argv + 2);
		_exit(127);
	}
	nanosleep(&ts, NULL);
	kill(pid, SIGKILL);
	return waitpid(pid, &status, 0) == pid ? 0 : 1;
}
