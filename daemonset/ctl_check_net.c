/*
 * daemonset/ctl_check_net.c - whether whole packets reach the other nodes
 *
 * A UDP datagram to a port of the other node where nobody listens is refused
 * by that node's kernel, with an ICMP message that connect()ed sockets get as
 * ECONNREFUSED. So that is a measurement of real packets which needs no
 * privilege, and nothing on the other side. Kernels answer a few of them a
 * second only, so a try that was in vain is repeated.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/inet.h"
#include "common/json.h"
#include "common/util.h"
#include "daemonset/agent.h"
#include "daemonset/ctl_check.h"

#define TRIES 3
#define WAIT_MS 1100
#define PEERS_MAX 8
/* The port of nobody: "discard", which has been gone for decades. */
#define CLOSED_PORT 9
#define SMALL_BYTES 200
#define UDP_HEADER 8
#define OVERHEAD(family) ((family) == AF_INET6 ? 70u : 50u)

static unsigned int ip_header(const struct pl_addr *a)
{
	return a->family == AF_INET6 ? 40 : 20;
}

static socklen_t sockaddr_of(const struct pl_addr *a, uint16_t port,
			     struct sockaddr_storage *out)
{
	struct sockaddr_in *v4 = (void *)out;
	struct sockaddr_in6 *v6 = (void *)out;

	memset(out, 0, sizeof(*out));
	out->ss_family = a->family;
	if (a->family == AF_INET6) {
		v6->sin6_port = htons(port);
		memcpy(&v6->sin6_addr, a->bytes, sizeof(v6->sin6_addr));
		return sizeof(*v6);
	}
	v4->sin_port = htons(port);
	memcpy(&v4->sin_addr, a->bytes, sizeof(v4->sin_addr));
	return sizeof(*v4);
}

static int open_probe(const struct pl_addr *a, uint16_t port)
{
	const int v4 = IP_PMTUDISC_DO, v6 = IPV6_PMTUDISC_DO;
	struct sockaddr_storage ss;
	socklen_t len = sockaddr_of(a, port, &ss);
	pl_auto_fd fd = socket(a->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (a->family == AF_INET6 ?
		    setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &v6,
			       sizeof(v6)) :
		    setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &v4,
			       sizeof(v4)))
		return -errno;
	if (connect(fd, (struct sockaddr *)&ss, len) < 0)
		return -errno;
	return pl_take_fd(&fd);
}

static enum pl_probe meaning(int code)
{
	switch (code) {
	case ECONNREFUSED:
		return PL_PROBE_ARRIVED;
	case EMSGSIZE:
		return PL_PROBE_TOO_BIG;
	case EAGAIN:
		return PL_PROBE_LOST;
	default:
		return PL_PROBE_UNREACHABLE;
	}
}

static enum pl_probe try_once(int fd, const void *data, size_t len)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char buf[16];

	if (send(fd, data, len, 0) < 0)
		return meaning(errno);
	if (poll(&p, 1, WAIT_MS) <= 0)
		return PL_PROBE_LOST;
	/* Somebody listens there after all: it came, too. */
	if (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) >= 0)
		return PL_PROBE_ARRIVED;
	return meaning(errno);
}

enum pl_probe pl_probe_packet(const char *address, uint16_t port,
			      unsigned int bytes)
{
	enum pl_probe r = PL_PROBE_UNREACHABLE;
	pl_auto_free char *data = NULL;
	struct pl_addr a;
	unsigned int headers;

	if (pl_addr_parse(address, &a) < 0)
		return r;
	headers = ip_header(&a) + UDP_HEADER;
	data = calloc(1, bytes);

	pl_auto_fd fd = open_probe(&a, port);

	if (!data || fd < 0 || bytes <= headers)
		return r;
	for (int i = 0; i < TRIES; i++) {
		r = try_once(fd, data, bytes - headers);
		if (r != PL_PROBE_LOST)
			break;
	}
	return r;
}

/* --- the nodes ------------------------------------------------------------ */

struct path {
	const char *what;	/* "underlay", "overlay" */
	const char *node, *address;
	unsigned int bytes;
};

static void say(struct pl_doctor *d, const struct path *p, enum pl_finding f,
		const char *todo, const char *text)
{
	pl_doctor_say(d, p->what, f, todo, "packets of %u bytes to %s (%s): %s",
		      p->bytes, p->node, p->address, text);
}

static void measure(struct pl_doctor *d, const struct path *p)
{
	enum pl_probe r = pl_probe_packet(p->address, CLOSED_PORT, p->bytes);

	if (r == PL_PROBE_ARRIVED) {
		say(d, p, PL_FINDING_OK, "", "arrive");
		return;
	}
	if (r == PL_PROBE_TOO_BIG) {
		say(d, p, PL_FINDING_FAIL, "set overlay.mtu to what the "
		    "network between the nodes carries less 50 (70 for IPv6), "
		    "or raise the network's MTU", "are too big for the way");
		return;
	}
	/* Only the small ones coming through means a hole for big ones. */
	if (pl_probe_packet(p->address, CLOSED_PORT, SMALL_BYTES) ==
	    PL_PROBE_ARRIVED)
		say(d, p, PL_FINDING_FAIL, "the way swallows them without a "
		    "word: set overlay.mtu lower, or the MTU of the nodes' "
		    "interfaces to what the network carries",
		    "are lost, small ones arrive");
	else
		say(d, p, PL_FINDING_WARN, "is the node up, and are UDP port "
		    "8472 (or overlay.port), the carrier's TCP port and ICMP "
		    "let through between nodes?", "no answer");
}

/* The address that a node's overlay device has: the first of its range. */
static bool overlay_address(const cJSON *node, char buf[INET6_ADDRSTRLEN])
{
	const cJSON *c = cJSON_GetArrayItem(
		cJSON_GetObjectItemCaseSensitive(node, "podCIDRs"), 0);
	struct pl_prefix p;

	if (!cJSON_IsString(c) ||
	    pl_prefix_parse(c->valuestring, &p) < 0)
		return false;
	pl_addr_str(&p.addr, buf);
	return true;
}

static void one_node(struct pl_doctor *d, const cJSON *node, int64_t mtu)
{
	struct path p = { .what = "underlay" };
	char overlay[INET6_ADDRSTRLEN];
	struct pl_addr a;

	if (pl_json_str(node, "", "name", &p.node, NULL) <= 0 ||
	    pl_json_str(node, "", "address", &p.address, NULL) <= 0 ||
	    pl_addr_parse(p.address, &a) < 0)
		return;
	p.bytes = (unsigned int)mtu;
	if (d->conf->overlay.type == PL_OVERLAY_NONE) {
		measure(d, &p);
		return;
	}
	p.bytes += OVERHEAD(a.family);
	measure(d, &p);
	if (!overlay_address(node, overlay))
		return;
	p.what = "overlay";
	p.address = overlay;
	p.bytes = (unsigned int)mtu;
	measure(d, &p);
}

void pl_doctor_mtu(struct pl_doctor *d)
{
	const char *own = "", *name;
	const cJSON *n;
	int64_t mtu = 0;
	int left = PEERS_MAX, more = 0;

	if (!d->nodes || !d->status)
		return;
	pl_json_str(d->status, "", "name", &own, NULL);
	if (pl_json_int(d->status, "", "mtu", 1, 65535, &mtu, NULL) <= 0)
		return;
	cJSON_ArrayForEach(n, d->nodes) {
		name = "";
		pl_json_str(n, "", "name", &name, NULL);
		if (!strcmp(name, own))
			continue;
		if (left-- > 0)
			one_node(d, n, mtu);
		else
			more++;
	}
	if (more)
		pl_doctor_say(d, "underlay", PL_FINDING_OK, "",
			      "%d more nodes, not measured", more);
}
