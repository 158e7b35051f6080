/* rdma/devices.c - which RDMA devices this machine has, from sysfs */
#include "rdma/devices.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

/* --- files of sysfs ------------------------------------------------------ */

/* The first line of a small file; "" when there is none. */
static const char *line(char *out, size_t size, const char *dir,
			const char *name)
{
	pl_auto_free char *text = NULL;
	char path[PATH_MAX];
	size_t len;

	*out = '\0';
	if (pl_format(path, sizeof(path), "%s/%s", dir, name) < 0 ||
	    pl_file_read(path, 4096, &text, &len, NULL) < 0)
		return out;
	text[strcspn(text, "\n")] = '\0';
	(void)pl_format(out, size, "%s", text);
	return out;
}

/* Calls fn with the name of each entry. */
static void each(const char *dir, void (*fn)(void *arg, const char *name),
		 void *arg)
{
	DIR *d = opendir(dir);

	if (!d)
		return;
	for (const struct dirent *e; (e = readdir(d));) {
		if (e->d_name[0] != '.')
			fn(arg, e->d_name);
	}
	closedir(d);
}

static void found(void *arg, const char *name)
{
	(void)name;
	*(bool *)arg = true;
}

bool pl_rdma_there(const char *root)
{
	bool there = false;

	each(root, found, &there);
	return there;
}

/* --- addresses ----------------------------------------------------------- */

struct scan {
	const char *root;
	struct pl_rdma_gid *out;
	size_t n, max;
	struct pl_rdma_gid at;		/* of the device and port looked at */
	char dir[PATH_MAX];		/* of the port */
};

static void add(struct scan *s, const struct pl_addr *addr, int index)
{
	if (s->n == s->max)
		return;
	s->out[s->n] = s->at;
	s->out[s->n].addr = *addr;
	s->out[s->n++].index = index;
}

/* A GID that is an IP address; link-local ones say nothing of their link. */
static bool gid_addr(const char *text, struct pl_addr *out)
{
	static const struct in6_addr none;
	struct in6_addr a;

	if (inet_pton(AF_INET6, text, &a) != 1 ||
	    !memcmp(&a, &none, sizeof(a)) || IN6_IS_ADDR_LINKLOCAL(&a))
		return false;
	*out = (struct pl_addr){ .family = AF_INET6 };
	memcpy(out->bytes, &a, sizeof(a));
	if (!IN6_IS_ADDR_V4MAPPED(&a))
		return true;
	*out = (struct pl_addr){ .family = AF_INET };
	memcpy(out->bytes, &a.s6_addr[12], 4);
	return true;
}

/* rdma_cm makes RoCE v2 of an address, so others of RoCE are not for us. */
static void see_gid(void *arg, const char *name)
{
	char text[64], type[64], path[64];
	struct scan *s = arg;
	struct pl_addr addr;
	uint64_t index;

	if (pl_parse_u64(name, 0, INT_MAX, &index) < 0 ||
	    pl_format(path, sizeof(path), "gids/%s", name) < 0 ||
	    !gid_addr(line(text, sizeof(text), s->dir, path), &addr) ||
	    pl_format(path, sizeof(path), "gid_attrs/types/%s", name) < 0 ||
	    strcmp(line(type, sizeof(type), s->dir, path), "RoCE v2"))
		return;
	add(s, &addr, (int)index);
}

/* Of InfiniBand and iWARP: GIDs are no addresses, interfaces have them. */
static void see_net(void *arg, const char *name)
{
	struct ifaddrs *all, *i;
	struct scan *s = arg;

	if (getifaddrs(&all) < 0)
		return;
	for (i = all; i; i = i->ifa_next) {
		struct pl_addr a = { 0 };

		if (!i->ifa_addr || strcmp(i->ifa_name, name))
			continue;
		a.family = (uint8_t)i->ifa_addr->sa_family;
		if (a.family == AF_INET)
			memcpy(a.bytes, &((struct sockaddr_in *)(void *)
					  i->ifa_addr)->sin_addr, 4);
		else if (a.family == AF_INET6)
			memcpy(a.bytes, &((struct sockaddr_in6 *)(void *)
					  i->ifa_addr)->sin6_addr, 16);
		else
			continue;
		if (a.family == AF_INET || a.bytes[0] != 0xfe)
			add(s, &a, -1);
	}
	freeifaddrs(all);
}

static void see_port(void *arg, const char *name)
{
	char device[PATH_MAX], path[PATH_MAX], text[64];
	struct scan *s = arg;
	size_t before = s->n;
	uint64_t port;

	if (pl_parse_u64(name, 1, 255, &port) < 0 ||
	    pl_format(device, sizeof(device), "%s/%s", s->root,
		      s->at.device) < 0 ||
	    pl_format(s->dir, sizeof(s->dir), "%s/ports/%s", device, name) < 0)
		return;
	s->at.port = (int)port;
	s->at.is_active = strstr(line(text, sizeof(text), s->dir, "state"),
				 "ACTIVE");
	if (pl_format(path, sizeof(path), "%s/gids", s->dir) >= 0)
		each(path, see_gid, s);
	if (s->n == before &&
	    pl_format(path, sizeof(path), "%s/device/net", device) >= 0)
		each(path, see_net, s);
}

static void see_device(void *arg, const char *name)
{
	char path[PATH_MAX], text[64];
	struct scan *s = arg;

	s->at = (struct pl_rdma_gid){ .numa = -1 };
	if (pl_format(s->at.device, sizeof(s->at.device), "%s", name) < 0 ||
	    pl_format(path, sizeof(path), "%s/%s", s->root, name) < 0)
		return;
	if (*line(text, sizeof(text), path, "device/numa_node"))
		s->at.numa = (int)strtol(text, NULL, 10);
	if (pl_format(path, sizeof(path), "%s/%s/ports", s->root, name) >= 0)
		each(path, see_port, s);
}

static int by_place(const void *a, const void *b)
{
	const struct pl_rdma_gid *x = a, *y = b;
	int c = strcmp(x->device, y->device);

	if (c)
		return c;
	return x->port != y->port ? x->port - y->port : x->index - y->index;
}

size_t pl_rdma_gids(const char *root, struct pl_rdma_gid *out, size_t max)
{
	struct scan s = { .root = root, .out = out, .max = max };

	each(root, see_device, &s);
	qsort(out, s.n, sizeof(*out), by_place);
	return s.n;
}

/* --- the one to use ------------------------------------------------------ */

static bool fits(const struct pl_rdma_gid *g, const struct pl_rdma_want *w)
{
	return !w->device || (!strcmp(w->device, g->device) &&
			      (!w->port || w->port == g->port) &&
			      (w->index < 0 || w->index == g->index));
}

static int worth(const struct pl_rdma_gid *g, const struct pl_rdma_want *w,
		 int near_numa)
{
	return 4 * pl_addr_equal(&g->addr, &w->addr) + 2 * g->is_active +
	       (near_numa >= 0 && g->numa == near_numa);
}

/* "mlx5_0 port 1 GID 3 (192.0.2.1), ..." as far as there is room. */
static void names(const struct pl_rdma_gid *all, size_t n, char *out,
		  size_t size)
{
	char addr[INET6_ADDRSTRLEN], gid[32];

	*out = '\0';
	for (size_t i = 0; i < n; i++) {
		size_t at = strlen(out);

		pl_format(gid, sizeof(gid), " GID %d", all[i].index);
		if (pl_format(out + at, size - at, "%s%s port %d%s (%s%s)",
			      i ? ", " : "", all[i].device, all[i].port,
			      all[i].index < 0 ? "" : gid,
			      pl_addr_str(&all[i].addr, addr),
			      all[i].is_active ? "" : ", down") < 0) {
			out[at] = '\0';
			return;
		}
	}
}

static int no_such(const struct pl_rdma_gid *all, size_t n,
		   const struct pl_rdma_want *w, struct pl_err *err)
{
	char port[32] = "", gid[32] = "", there[512];

	if (n == 0)
		return pl_err_set(err, ENODEV, "no RDMA device has an address "
				  "of its own");
	names(all, n, there, sizeof(there));
	if (w->device && w->port)
		pl_format(port, sizeof(port), " port %d", w->port);
	if (w->device && w->index >= 0)
		pl_format(gid, sizeof(gid), " GID %d", w->index);
	return pl_err_set(err, ENODEV, "there is no RDMA device %s%s%s with "
			  "an address; there is %s", w->device ? w->device : "",
			  port, gid, there);
}

int pl_rdma_choose(const struct pl_rdma_gid *all, size_t n,
		   const struct pl_rdma_want *want, int near_numa,
		   const struct pl_rdma_gid **out, struct pl_err *err)
{
	*out = NULL;
	for (size_t i = 0; i < n; i++) {
		if (fits(&all[i], want) &&
		    (!*out || worth(&all[i], want, near_numa) >
			      worth(*out, want, near_numa)))
			*out = &all[i];
	}
	return *out ? 0 : no_such(all, n, want, err);
}
