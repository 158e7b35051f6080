/*
 * bench/ps_congestion.c - the TCP congestion control of namespaces and sockets
 *
 * /proc/sys/net shows the namespace of whoever opens a file there.
 */
#include "bench/ps_congestion.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/netns.h"
#include "common/util.h"

#define FOLDER "/proc/sys/net/ipv4/"
#define CURRENT FOLDER "tcp_congestion_control"
#define AVAILABLE FOLDER "tcp_available_congestion_control"
#define LIST_MAX 4096

/* The text of a file without its end of line; NULL: not to be had. */
static char *read_line(const char *path)
{
	char *text;

	if (pl_file_read(path, LIST_MAX, &text, NULL, NULL) < 0)
		return NULL;
	text[strcspn(text, "\n")] = '\0';
	return text;
}

static int refused(const char *name, int code, struct pl_err *err)
{
	pl_auto_free char *there = read_line(AVAILABLE);

	if (code == ENOENT)
		return pl_err_set(err, ENOENT, "this machine has no TCP "
				  "congestion control '%s', it has: %s; load a "
				  "module with: modprobe tcp_%s", name,
				  there ? there : "none that it shows", name);
	if (code == EPERM)
		return pl_err_set(err, EPERM, "TCP congestion control %s may "
				  "not be used in network namespaces; add it "
				  "to the list of sysctl net.ipv4."
				  "tcp_allowed_congestion_control", name);
	return pl_err_set(err, code, "TCP congestion control %s: %s", name,
			  strerror(code));
}

static int write_here(const char *name, struct pl_err *err)
{
	pl_auto_fd fd = open(CURRENT, O_WRONLY | O_CLOEXEC);
	size_t len = strlen(name);

	if (fd < 0)
		return pl_err_sys(err, CURRENT);
	if (write(fd, name, len) != (ssize_t)len)
		return refused(name, errno, err);
	return 0;
}

static int read_here(char *name, struct pl_err *err)
{
	pl_auto_free char *text = read_line(CURRENT);

	if (!text)
		return pl_err_set(err, ENOENT, CURRENT " can't be read");
	snprintf(name, PS_CONGESTION_BYTES, "%s", text);
	return 0;
}

/* Enter a namespace; *home is to be given to pl_netns_leave. */
static int enter(const char *netns, int *home, struct pl_err *err)
{
	pl_auto_fd fd = -1;
	int rc = pl_netns_open(netns, &fd, err);

	return rc < 0 ? rc : pl_netns_enter(fd, home, err);
}

int ps_congestion_set(const char *netns, const char *name, struct pl_err *err)
{
	int home, rc = enter(netns, &home, err);

	if (rc < 0)
		return rc;
	rc = write_here(name, err);
	pl_netns_leave(home);
	return rc;
}

int ps_congestion_get(const char *netns, char *name, struct pl_err *err)
{
	int home, rc = enter(netns, &home, err);

	if (rc < 0)
		return rc;
	rc = read_here(name, err);
	pl_netns_leave(home);
	return rc;
}

void ps_congestion_of(int fd, char *name)
{
	socklen_t len = PS_CONGESTION_BYTES;

	memset(name, 0, PS_CONGESTION_BYTES);
	if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len) < 0)
		name[0] = '\0';
	name[PS_CONGESTION_BYTES - 1] = '\0';
}
