/* daemonset/rundir.c - the folder of one running agent: its lock and socket */
#include "daemonset/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "common/agentapi.h"
#include "common/util.h"

#define BACKLOG 128

static int is_busy(const char *dir, int fd, struct pl_err *err)
{
	char pid[16] = "";
	ssize_t n = pread(fd, pid, sizeof(pid) - 1, 0);

	pid[n > 0 ? n : 0] = '\0';
	pid[strspn(pid, "0123456789")] = '\0';
	return pl_err_set(err, EBUSY,
			  "the run directory %s is in use by another agent%s%s; "
			  "stop it, or give this one its own --run-dir", dir,
			  *pid ? ", process " : "", pid);
}

int pl_rundir_lock(const char *dir, int *lock_fd, struct pl_err *err)
{
	char path[PATH_MAX], pid[16];
	int rc = pl_mkdirs(dir, 0755, err);

	if (rc < 0)
		return rc;
	rc = pl_format(path, sizeof(path), "%s/lock", dir);
	if (rc < 0)
		return pl_err_set(err, -rc, "--run-dir is too long");

	pl_auto_fd fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
			     0644);

	if (fd < 0)
		return pl_err_sys(err, "cannot open %s", path);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ?
			       is_busy(dir, fd, err) :
			       pl_err_sys(err, "cannot lock %s", path);
	rc = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
	if (ftruncate(fd, 0) < 0 || pwrite(fd, pid, (size_t)rc, 0) != rc)
		return pl_err_sys(err, "cannot write %s", path);
	*lock_fd = pl_take_fd(&fd);
	return 0;
}

static int address(const char *dir, struct sockaddr_un *sa, struct pl_err *err)
{
	sa->sun_family = AF_UNIX;
	if (pl_format(sa->sun_path, sizeof(sa->sun_path), "%s/%s", dir,
		      PL_AGENT_SOCKET) < 0)
		return pl_err_set(err, ENAMETOOLONG,
				  "--run-dir %s is too long for a socket in it",
				  dir);
	return 0;
}

int pl_rundir_listen(const char *dir, int *fd, struct pl_err *err)
{
	struct sockaddr_un sa = { 0 };
	mode_t old;
	int rc = address(dir, &sa, err);

	if (rc < 0)
		return rc;

	pl_auto_fd s = socket(AF_UNIX,
			      SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (s < 0)
		return pl_err_sys(err, "cannot make a socket");
	if (unlink(sa.sun_path) < 0 && errno != ENOENT)
		return pl_err_sys(err, "cannot remove the old %s",
				  sa.sun_path);
	old = umask(0177);
	rc = bind(s, (struct sockaddr *)&sa, sizeof(sa));
	umask(old);
	if (rc < 0 || listen(s, BACKLOG) < 0)
		return pl_err_sys(err, "cannot listen on %s", sa.sun_path);
	*fd = pl_take_fd(&s);
	return 0;
}

void pl_rundir_unlink(const char *dir)
{
	struct sockaddr_un sa = { 0 };

	if (address(dir, &sa, NULL) == 0)
		unlink(sa.sun_path);
}
