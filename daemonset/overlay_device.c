/* daemonset/overlay_device.c - the overlay's device and the node's switches */
#include "daemonset/overlay_internal.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"

#define SYSCTL_PATH_BYTES 96

static struct pl_vxlan wanted(const struct pl_overlay *o,
			      const struct pl_underlay *u, const uint8_t *mac)
{
	return (struct pl_vxlan){ .name = o->conf.device,
				  .vni = o->conf.vni,
				  .local = u->local,
				  .port = o->conf.port,
				  .link = u->link.index,
				  .mtu = o->mtu,
				  .mac = mac };
}

/* What can't be changed once the device is there. */
static const char *differs(const struct pl_vxlan *want,
			   const struct pl_vxlan *have,
			   const struct pl_link *link)
{
	if (have->vni != want->vni)
		return "vni";
	if (have->port != want->port)
		return "port";
	if (have->link != want->link)
		return "underlay";
	if (have->learning != want->learning)
		return "learning";
	if (!pl_addr_equal(&have->local, &want->local))
		return "local address";
	if (memcmp(link->mac, want->mac, 6))
		return "MAC";
	return NULL;
}

static int create(struct pl_overlay *o, const struct pl_vxlan *want,
		  struct pl_link *link, struct pl_vxlan *have,
		  struct pl_err *err)
{
	int rc = pl_nl_vxlan_add(&o->nl, want, err);

	if (rc == -EEXIST)
		pl_err_prefix(err, "another device uses vni %u on port %u; "
			      "remove it or set overlay.vni", want->vni,
			      want->port);
	if (rc < 0)
		return rc;
	pl_info("overlay %s: made, vni=%u port=%u mtu=%u", want->name,
		want->vni, want->port, want->mtu);
	return pl_nl_vxlan_get(&o->nl, want->name, link, have, err);
}

int pl_overlay_device(struct pl_overlay *o, const struct pl_underlay *u,
		      int *index, struct pl_err *err)
{
	struct pl_vxlan want, have;
	struct pl_link link;
	uint8_t mac[6];
	const char *why;
	int rc;

	pl_overlay_mac(o->node, mac);
	want = wanted(o, u, mac);
	rc = pl_nl_vxlan_get(&o->nl, want.name, &link, &have, err);
	if (rc == -EEXIST)
		pl_err_prefix(err, "remove it or set overlay.device");
	why = rc == 0 ? differs(&want, &have, &link) : NULL;
	if (why) {
		pl_info("overlay %s: made anew, another %s", want.name, why);
		rc = pl_nl_link_del(&o->nl, link.index, err);
		if (rc == 0)
			rc = -ENODEV;
	}
	if (rc == -ENODEV)
		rc = create(o, &want, &link, &have, err);
	if (rc < 0)
		return rc;
	*index = link.index;
	if (link.mtu == want.mtu && (link.flags & IFF_UP))
		return 0;
	return pl_nl_link_set(&o->nl, link.index, -1, want.mtu, 1, err);
}

/* --- switches of the network namespace --- */

static int sysctl_get(const char *path, char *value, size_t size,
		      struct pl_err *err)
{
	pl_auto_free char *text = NULL;
	int rc = pl_file_read(path, 64, &text, NULL, err);

	if (rc < 0)
		return rc;
	text[strcspn(text, "\n")] = '\0';
	snprintf(value, size, "%s", text);
	return 0;
}

static int sysctl_set(const char *path, const char *value, struct pl_err *err)
{
	char have[16];
	FILE *f;
	int rc = sysctl_get(path, have, sizeof(have), err);

	if (rc < 0 || strcmp(have, value) == 0)
		return rc;
	f = fopen(path, "we");
	if (!f || fputs(value, f) < 0 || fflush(f) < 0)
		rc = errno == EROFS ?
			     pl_err_set(err, EROFS, "%s has to be %s, and is "
					"read-only in this container; set it "
					"on the node (sysctl.d(5))", path,
					value) :
			     pl_err_sys(err, "cannot set %s to %s", path,
					value);
	if (f)
		fclose(f);
	if (rc == 0)
		pl_info("%s is now %s, was %s", path, value, have);
	return rc;
}

/*
 * A node that forwards IPv6 ignores router advertisements unless told not to,
 * and would lose its own default route.
 */
static int keep_ra(const char *link, struct pl_err *err)
{
	char path[SYSCTL_PATH_BYTES], value[16];
	int rc = pl_format(path, sizeof(path),
			   "/proc/sys/net/ipv6/conf/%s/accept_ra", link);

	if (rc < 0)
		return pl_err_set(err, -rc, "link %s", link);
	rc = sysctl_get(path, value, sizeof(value), err);
	if (rc < 0 || strcmp(value, "1"))
		return rc;
	return sysctl_set(path, "2", err);
}

int pl_overlay_forwarding(const struct pl_node *own, const char *underlay,
			  struct pl_err *err)
{
	bool v4 = false, v6 = false;
	int rc = 0;

	for (int i = 0; i < own->n_cidrs; i++) {
		v4 |= own->cidrs[i].addr.family == AF_INET;
		v6 |= own->cidrs[i].addr.family == AF_INET6;
	}
	if (v4)
		rc = sysctl_set("/proc/sys/net/ipv4/ip_forward", "1", err);
	if (rc == 0 && v6)
		rc = keep_ra(underlay, err);
	if (rc == 0 && v6)
		rc = sysctl_set("/proc/sys/net/ipv6/conf/all/forwarding", "1",
				err);
	return rc;
}
