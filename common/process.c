/* common/process.c - what every program does first and last */
#include "common/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

#include "common/util.h"

int pl_process_init(struct pl_err *err)
{
	int fd;

	signal(SIGXFSZ, SIG_IGN);
	do {
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return pl_err_sys(err, "cannot open /dev/null");
		/* A standard one is for our children, too. */
		if (fd <= STDERR_FILENO)
			fcntl(fd, F_SETFD, 0);
	} while (fd <= STDERR_FILENO);
	close(fd);
	return 0;
}

int pl_stdout_end(struct pl_err *err)
{
	int failed = ferror(stdout);

	if (fflush(stdout) == 0 && !failed)
		return 0;
	return pl_err_sys(err, "cannot write to standard output");
}
