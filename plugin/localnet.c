/* plugin/localnet.c - the node's 127.0.0.1, which leads to pods */
#include "plugin/localnet.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/util.h"

#define FOLDER "/proc/sys/net/ipv4/conf"
#define OFF '0'
#define OURS '2'

static int open_setting(const char *ifname, int flags, struct pl_err *err)
{
	char path[80];
	int fd;

	if (pl_format(path, sizeof(path), FOLDER "/%s/route_localnet",
		      ifname) < 0)
		return pl_err_set(err, EINVAL, "\"%s\" is no interface",
				  ifname);
	fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? pl_err_sys(err, "cannot open %s", path) : fd;
}

static int get(const char *ifname, char *value, struct pl_err *err)
{
	pl_auto_fd fd = open_setting(ifname, O_RDONLY, err);

	if (fd < 0)
		return fd;
	if (read(fd, value, 1) != 1)
		return pl_err_sys(err, "cannot read route_localnet of %s",
				  ifname);
	return 0;
}

static int set(const char *ifname, char value, struct pl_err *err)
{
	pl_auto_fd fd = open_setting(ifname, O_WRONLY, err);

	if (fd < 0)
		return fd;
	if (write(fd, &value, 1) != 1)
		return pl_err_sys(err, "cannot write route_localnet of %s",
				  ifname);
	return 0;
}

int pl_localnet_find(const struct pl_addr *pod, struct pl_localnet *l,
		     struct pl_err *err)
{
	struct pl_link link;
	struct pl_nl nl;
	char value = OFF;
	bool direct = false;
	int rc = pl_nl_open(&nl, -1, err);

	memset(l, 0, sizeof(*l));
	if (rc == 0)
		rc = pl_nl_route_to(&nl, pod, &l->index, &direct, err);
	if (rc == 0 && direct)
		rc = pl_nl_link_by_index(&nl, l->index, &link, err);
	pl_nl_close(&nl);
	if (rc == -ENETUNREACH || rc == -EHOSTUNREACH || (rc == 0 && !direct)) {
		l->index = 0;
		return 0;
	}
	if (rc < 0)
		return rc;
	memcpy(l->name, link.name, sizeof(l->name));
	rc = get(l->name, &value, err);
	l->on = value != OFF;
	return rc;
}

int pl_localnet_open(const struct pl_localnet *l, struct pl_err *err)
{
	return l->on ? 0 : set(l->name, OURS, err);
}

void pl_localnet_close_all(void)
{
	DIR *d = opendir(FOLDER);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		struct pl_err why;
		char value = OFF;

		/* One that is gone has no setting any more. */
		if (e->d_name[0] == '.' || get(e->d_name, &value, &why) < 0 ||
		    value != OURS)
			continue;
		if (set(e->d_name, OFF, &why) < 0)
			pl_warn("%s", why.msg);
	}
	if (d)
		closedir(d);
}
