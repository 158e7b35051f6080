/* plugin/localnet.c - the node's 127.0.0.1, which leads to pods */
#include "plugin/localnet.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/util.h"

static int open_setting(const char *ifname, int flags, struct pl_err *err)
{
	char path[80];
	int fd;

	/* Names of interfaces have no slash, but these may be somebody's. */
	if (!*ifname || strchr(ifname, '/') || !strcmp(ifname, "..") ||
	    pl_format(path, sizeof(path),
		      "/proc/sys/net/ipv4/conf/%s/route_localnet", ifname) < 0)
		return pl_err_set(err, EINVAL, "\"%s\" is no interface",
				  ifname);
	fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? pl_err_sys(err, "cannot open %s", path) : fd;
}

int pl_localnet_find(const struct pl_addr *pod, struct pl_localnet *l,
		     struct pl_err *err)
{
	struct pl_link link;
	struct pl_nl nl;
	pl_auto_fd fd = -1;
	char c = '0';
	int rc = pl_nl_open(&nl, -1, err);

	memset(l, 0, sizeof(*l));
	if (rc == 0)
		rc = pl_nl_route_to(&nl, pod, &l->index, err);
	if (rc == 0)
		rc = pl_nl_link_by_index(&nl, l->index, &link, err);
	pl_nl_close(&nl);
	if (rc == -ENETUNREACH || rc == -EHOSTUNREACH) {
		l->index = 0;
		return 0;
	}
	if (rc < 0)
		return rc;
	memcpy(l->name, link.name, sizeof(l->name));
	fd = open_setting(l->name, O_RDONLY, err);
	if (fd < 0)
		return fd;
	if (read(fd, &c, 1) != 1)
		return pl_err_sys(err, "cannot read route_localnet of %s",
				  l->name);
	l->on = c != '0';
	return 0;
}

int pl_localnet_set(const char *ifname, bool on, struct pl_err *err)
{
	pl_auto_fd fd = open_setting(ifname, O_WRONLY, err);

	if (fd < 0)
		return fd;
	if (write(fd, on ? "1" : "0", 1) != 1)
		return pl_err_sys(err, "cannot write route_localnet of %s",
				  ifname);
	return 0;
}
