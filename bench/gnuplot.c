/*
 * bench/gnuplot.c - pictures by gnuplot
 *
 * gnuplot gets script and data on standard input, and a bounded time.
 */
#include "bench/gnuplot.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "common/exec.h"
#include "common/util.h"

#define GNUPLOT_MS 30000
#define PNG_MAX (64u << 20)
#define PATH_BYTES 512

extern char **environ;

int gnuplot_check(struct pl_err *err)
{
	char path[PATH_BYTES];

	if (pl_exec_find(getenv("PATH"), "gnuplot", path, sizeof(path)) == 0)
		return 0;
	return pl_err_set(err, ENOENT, "--plot needs gnuplot; install it with: "
			  "apt-get install gnuplot-nox");
}

static int wait_bounded(pid_t pid, int *status)
{
	struct timespec nap = { .tv_nsec = 10000000 };

	for (int ms = 0; ms < GNUPLOT_MS; ms += 10) {
		if (waitpid(pid, status, WNOHANG) == pid)
			return 0;
		nanosleep(&nap, NULL);
	}
	kill(pid, SIGKILL);
	waitpid(pid, status, 0);
	return -ETIMEDOUT;
}

static int run_gnuplot(int script_fd, struct pl_err *err)
{
	char *argv[] = { (char *)"gnuplot", NULL };
	pl_auto_fd null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	posix_spawn_file_actions_t fa;
	int rc, status = 0;
	pid_t pid;

	if (null < 0)
		return pl_err_sys(err, "/dev/null");
	rc = posix_spawn_file_actions_init(&fa);
	if (rc)
		return pl_err_set(err, rc, "gnuplot: %s", strerror(rc));
	posix_spawn_file_actions_adddup2(&fa, script_fd, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&fa, null, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&fa, null, STDERR_FILENO);
	rc = posix_spawnp(&pid, argv[0], &fa, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	if (rc)
		return pl_err_set(err, rc, "cannot execute gnuplot: %s",
				  strerror(rc));
	rc = wait_bounded(pid, &status);
	if (rc < 0 || status)
		return pl_err_set(err, EIO, "gnuplot failed (status %d)",
				  status);
	return 0;
}

int gnuplot_open(FILE **script, struct pl_err *err)
{
	pl_auto_fd fd = memfd_create("gnuplot", MFD_CLOEXEC);

	*script = fd < 0 ? NULL : fdopen(fd, "w");
	if (!*script)
		return pl_err_sys(err, "cannot make a file in memory");
	pl_take_fd(&fd);
	return 0;
}

int gnuplot_draw(FILE *script, const char *png, const char *path,
		 struct pl_err *err)
{
	pl_auto_free char *data = NULL;
	size_t len;
	int rc = 0;

	/* This writes what is still in the buffer. */
	if (fseek(script, 0, SEEK_SET) < 0 || ferror(script))
		rc = pl_err_sys(err, "cannot write gnuplot's script");
	if (rc == 0)
		rc = run_gnuplot(fileno(script), err);
	fclose(script);
	if (rc == 0)
		rc = pl_file_read(png, PNG_MAX, &data, &len, err);
	return rc < 0 ? rc : pl_file_replace(path, data, len, 0644, err);
}
