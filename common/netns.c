/* common/netns.c - enter a network namespace and come back */
#include "common/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "common/util.h"

#define PL_NSFS_MAGIC 0x6e736673

int pl_netns_open(const char *path, int *fd, struct pl_err *err)
{
	pl_auto_fd f = open(path, O_RDONLY | O_CLOEXEC);
	struct statfs st;

	if (f < 0)
		return pl_err_sys(err, "cannot open network namespace %s",
				  path);
	if (fstatfs(f, &st) < 0 || st.f_type != PL_NSFS_MAGIC ||
	    ioctl(f, NS_GET_NSTYPE) != CLONE_NEWNET)
		return pl_err_set(err, EINVAL,
				  "%s is not a network namespace", path);
	*fd = pl_take_fd(&f);
	return 0;
}

int pl_netns_id(int fd, uint64_t *dev, uint64_t *ino)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	*dev = st.st_dev;
	*ino = st.st_ino;
	return 0;
}

bool pl_netns_same(int fd_a, int fd_b)
{
	uint64_t da, ia, db, ib;

	return pl_netns_id(fd_a, &da, &ia) == 0 &&
	       pl_netns_id(fd_b, &db, &ib) == 0 && da == db && ia == ib;
}

int pl_netns_enter(int fd, int *home, struct pl_err *err)
{
	pl_auto_fd h = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

	if (h < 0)
		return pl_err_sys(err, "cannot open /proc/thread-self/ns/net");
	if (setns(fd, CLONE_NEWNET) < 0)
		return pl_err_sys(err,
				  "cannot enter the pod's network namespace");
	*home = pl_take_fd(&h);
	return 0;
}

void pl_netns_leave(int home)
{
	if (setns(home, CLONE_NEWNET) < 0)
		abort();
	close(home);
}
