/* common/exec.c - find and execute other programs */
#include "common/exec.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>

#include "common/util.h"

int pl_exec_find(const char *folders, const char *name, char *path, size_t size)
{
	const char *at = folders ? folders : "";

	while (*at) {
		int len = (int)strcspn(at, ":");

		if (len && pl_format(path, size, "%.*s/%s", len, at,
				     name) > 0 && access(path, X_OK) == 0)
			return 0;
		at += len;
		at += *at == ':';
	}
	return -ENOENT;
}

int pl_exec_input(const char *text, struct pl_err *err)
{
	pl_auto_fd fd = memfd_create("input", MFD_CLOEXEC);
	int rc;

	if (fd < 0)
		return pl_err_sys(err, "cannot make a file in memory");
	rc = pl_write_all(fd, text, strlen(text));
	if (rc == 0 && lseek(fd, 0, SEEK_SET) < 0)
		rc = -errno;
	if (rc < 0)
		return pl_err_set(err, -rc, "cannot write a file in memory: "
				  "%s", strerror(-rc));
	return pl_take_fd(&fd);
}

int pl_exec_spawn(const char *path, char **env, int in, int out, pid_t *pid)
{
	char *const argv[] = { (char *)path, NULL };
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	sigset_t none, usual;
	int rc = posix_spawn_file_actions_init(&fa);

	if (rc)
		return -rc;
	rc = posix_spawnattr_init(&attr);
	if (rc)
		goto out;
	sigemptyset(&none);
	posix_spawnattr_setsigmask(&attr, &none);
	sigemptyset(&usual);
	sigaddset(&usual, SIGPIPE);
	sigaddset(&usual, SIGXFSZ);
	posix_spawnattr_setsigdefault(&attr, &usual);
	posix_spawnattr_setpgroup(&attr, 0);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK |
				 POSIX_SPAWN_SETSIGDEF |
				 POSIX_SPAWN_SETPGROUP);
	posix_spawn_file_actions_adddup2(&fa, in, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&fa, out, STDOUT_FILENO);
	rc = posix_spawn(pid, path, &fa, &attr, argv, env);
	posix_spawnattr_destroy(&attr);
out:
	posix_spawn_file_actions_destroy(&fa);
	return -rc;
}
