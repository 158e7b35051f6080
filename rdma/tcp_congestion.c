/*
 * rdma/tcp_congestion.c - which congestion control a carrier's connections use
 *
 * bbr paces what it sends. Without the fq queueing discipline the kernel does
 * that with a timer per packet of 64 KB, which costs a virtual machine more
 * than sending the packet. Between the nodes of a cluster pacing gains nothing
 * that would pay for it: so "auto" is what the node has, unless that is bbr.
 */
#include "rdma/tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "common/log.h"
#include "common/util.h"

#define AVAILABLE "/proc/sys/net/ipv4/tcp_available_congestion_control"
#define LIST_MAX 4096

static int use(int fd, const char *name)
{
	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name,
		       (socklen_t)strlen(name)) < 0)
		return -errno;
	return 0;
}

static int current(int fd, char *name)
{
	socklen_t len = PL_CARRIER_CONGESTION_BYTES - 1;

	memset(name, 0, PL_CARRIER_CONGESTION_BYTES);
	if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len) < 0)
		return -errno;
	return 0;
}

static int refused(const char *name, int code, struct pl_err *err)
{
	pl_auto_free char *there = NULL;

	if (pl_file_read(AVAILABLE, LIST_MAX, &there, NULL, NULL) == 0)
		there[strcspn(there, "\n")] = '\0';
	return pl_err_set(err, code, "TCP congestion control \"%s\": %s; this "
			  "node has: %s (modprobe tcp_NAME loads another)",
			  name, code == ENOENT ? "there is none of that name" :
			  strerror(code), there ? there : "?");
}

static void without_pacing(int fd, char *name)
{
	static const char *const unpaced[] = { "cubic", "reno" };

	if (strncmp(name, "bbr", 3))
		return;
	for (size_t i = 0; i < PL_ARRAY_SIZE(unpaced); i++) {
		if (use(fd, unpaced[i]) < 0)
			continue;
		pl_info("carrier: the node's TCP congestion control %s paces "
			"with timers; connections to other nodes use %s",
			name, unpaced[i]);
		current(fd, name);
		return;
	}
}

int pl_tcp_congestion_find(const char *want, char *name, struct pl_err *err)
{
	pl_auto_fd fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool is_auto = !want || !strcmp(want, "auto");
	int rc;

	if (fd < 0)
		return pl_err_sys(err, "cannot make a TCP socket");
	rc = is_auto ? 0 : use(fd, want);
	if (rc < 0)
		return refused(want, -rc, err);
	rc = current(fd, name);
	if (rc < 0)
		return pl_err_set(err, -rc, "cannot read a socket's congestion "
				  "control: %s", strerror(-rc));
	if (is_auto)
		without_pacing(fd, name);
	return 0;
}

void pl_tcp_congestion_use(const struct pl_tcp_carrier *t, int fd)
{
	int rc = use(fd, t->base.congestion);

	/* It could be used a moment ago; its module may have been unloaded. */
	if (rc < 0)
		pl_warn("carrier: congestion control %s of a connection: %s",
			t->base.congestion, strerror(-rc));
}
