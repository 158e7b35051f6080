/* bench/ps_nic.c - the network devices that a result was measured over */
#include "bench/ps_nic.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "common/json.h"
#include "common/netns.h"
#include "common/util.h"
#include "bench/ps_outcome.h"

#define PROC_FILE_MAX (1u << 20)

static const struct {
	uint32_t cmd;
	const char *name;
} offloads[] = {
	{ ETHTOOL_GRXCSUM, "rx-csum" }, { ETHTOOL_GTXCSUM, "tx-csum" },
	{ ETHTOOL_GSG, "sg" }, { ETHTOOL_GTSO, "tso" },
	{ ETHTOOL_GGSO, "gso" }, { ETHTOOL_GGRO, "gro" },
};

static int ask(int fd, const char *name, void *what)
{
	struct ifreq r = { .ifr_data = what };

	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", name);
	return ioctl(fd, SIOCETHTOOL, &r);
}

/* The old request has the speed of all links up to now, in two halves. */
static uint32_t speed_of(int fd, const char *name)
{
	struct ethtool_cmd c = { .cmd = ETHTOOL_GSET };
	uint32_t mbit;

	if (ask(fd, name, &c) < 0)
		return 0;
	mbit = ethtool_cmd_speed(&c);
	return mbit == (uint32_t)SPEED_UNKNOWN || mbit == UINT16_MAX ? 0 :
									mbit;
}

static void read_offloads(int fd, const char *name, char *list, size_t size)
{
	list[0] = '\0';
	for (size_t i = 0; i < PL_ARRAY_SIZE(offloads); i++) {
		struct ethtool_value v = { .cmd = offloads[i].cmd };

		if (ask(fd, name, &v) == 0 && v.data)
			ps_outcome_list(list, size, offloads[i].name);
	}
}

int ps_nic_probe(const char *name, struct ps_nic *n, struct pl_err *err)
{
	struct ethtool_drvinfo d = { .cmd = ETHTOOL_GDRVINFO };
	struct ifreq r = { .ifr_mtu = 0 };
	pl_auto_fd fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memset(n, 0, sizeof(*n));
	if (fd < 0)
		return pl_err_sys(err, "cannot make a socket");
	if (pl_format(r.ifr_name, sizeof(r.ifr_name), "%s", name) < 0 ||
	    ioctl(fd, SIOCGIFMTU, &r) < 0)
		return pl_err_set(err, ENODEV, "no network device %s", name);
	pl_format(n->name, sizeof(n->name), "%s", name);
	n->mtu = (uint32_t)r.ifr_mtu;
	n->mbit_per_s = speed_of(fd, name);
	if (ask(fd, name, &d) == 0)
		snprintf(n->driver, sizeof(n->driver), "%.31s", d.driver);
	read_offloads(fd, name, n->offloads, sizeof(n->offloads));
	return 0;
}

int ps_nic_probe_in(const char *netns, const char *name, struct ps_nic *n,
		    struct pl_err *err)
{
	pl_auto_fd fd = -1;
	int home, rc = pl_netns_open(netns, &fd, err);

	if (rc == 0)
		rc = pl_netns_enter(fd, &home, err);
	if (rc < 0)
		return rc;
	rc = ps_nic_probe(name, n, err);
	pl_netns_leave(home);
	return rc;
}

static bool has_address(const struct ifaddrs *i, const char *addr)
{
	const struct sockaddr_in *in = (const void *)i->ifa_addr;
	const struct sockaddr_in6 *in6 = (const void *)i->ifa_addr;
	struct in6_addr want;
	int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;

	if (family != AF_INET && family != AF_INET6)
		return false;
	if (!addr)
		return i->ifa_flags & IFF_UP && !(i->ifa_flags & IFF_LOOPBACK);
	if (inet_pton(family, addr, &want) != 1)
		return false;
	return family == AF_INET ?
	       !memcmp(&in->sin_addr, &want, sizeof(in->sin_addr)) :
	       !memcmp(&in6->sin6_addr, &want, sizeof(want));
}

void ps_nic_of(const char *addr, struct ps_nic *n)
{
	struct ifaddrs *all = NULL, *i;

	memset(n, 0, sizeof(*n));
	if (getifaddrs(&all) < 0)
		return;
	for (i = all; i && !has_address(i, addr); i = i->ifa_next)
		;
	if (i)
		ps_nic_probe(i->ifa_name, n, NULL);
	freeifaddrs(all);
}

/* --- as JSON and text --- */

static const struct ps_nic none;

/* Members stand there all the time, so that rows of CSV agree. */
void ps_nic_add(cJSON *obj, const char *key, const struct ps_nic *n)
{
	cJSON *o = cJSON_AddObjectToObject(obj, key);

	n = n ? n : &none;
	pl_json_add_text(o, "name", n->name);
	pl_json_add_text(o, "driver", n->driver);
	if (n->mbit_per_s)
		cJSON_AddNumberToObject(o, "mbit_per_s", n->mbit_per_s);
	else
		cJSON_AddNullToObject(o, "mbit_per_s");
	if (n->mtu)
		cJSON_AddNumberToObject(o, "mtu", n->mtu);
	else
		cJSON_AddNullToObject(o, "mtu");
	pl_json_add_text(o, "offloads", n->offloads);
}

static int read_text(const cJSON *o, const char *key, char *buf, size_t size)
{
	const cJSON *v = cJSON_GetObjectItem(o, key);

	if (!cJSON_IsNull(v) && !cJSON_IsString(v))
		return -EPROTO;
	if (cJSON_IsString(v))
		snprintf(buf, size, "%s", v->valuestring);
	return 0;
}

static int read_number(const cJSON *o, const char *key, uint32_t *out)
{
	const cJSON *v = cJSON_GetObjectItem(o, key);

	if (cJSON_IsNull(v))
		return 0;
	if (!cJSON_IsNumber(v) || !(v->valuedouble >= 0) ||
	    v->valuedouble > UINT32_MAX)
		return -EPROTO;
	*out = (uint32_t)v->valuedouble;
	return 0;
}

int ps_nic_read(const cJSON *o, struct ps_nic *n)
{
	memset(n, 0, sizeof(*n));
	if (read_text(o, "name", n->name, sizeof(n->name)) < 0 ||
	    read_text(o, "driver", n->driver, sizeof(n->driver)) < 0 ||
	    read_number(o, "mbit_per_s", &n->mbit_per_s) < 0 ||
	    read_number(o, "mtu", &n->mtu) < 0 ||
	    read_text(o, "offloads", n->offloads, sizeof(n->offloads)) < 0)
		return -EPROTO;
	return 0;
}

void ps_nic_text(const struct ps_nic *n, char *buf, size_t size)
{
	char speed[32] = "speed unknown";

	if (n->mbit_per_s)
		snprintf(speed, sizeof(speed), "%" PRIu32 " Mbit/s",
			 n->mbit_per_s);
	snprintf(buf, size, "%s%s%s, %s, MTU %" PRIu32 ", offloads %s",
		 n->driver, n->driver[0] ? " " : "", n->name, speed, n->mtu,
		 n->offloads[0] ? n->offloads : "none");
}

/* --- counters --- */

/* "  eth0: BYTES PACKETS (6 more) BYTES ...", see proc_pid_net(5). */
int ps_nic_bytes(pid_t pid, const char *name, uint64_t *received,
		 uint64_t *sent)
{
	pl_auto_free char *text = NULL;
	char path[64], key[24];
	const char *at;

	pl_format(path, sizeof(path), "/proc/%d/net/dev", (int)pid);
	pl_format(key, sizeof(key), " %s:", name);
	if (pl_file_read(path, PROC_FILE_MAX, &text, NULL, NULL) < 0)
		return -ENODEV;
	at = strstr(text, key);
	if (!at || sscanf(at + strlen(key), "%" SCNu64 "%*u%*u%*u%*u%*u%*u%*u"
			  "%" SCNu64, received, sent) != 2)
		return -ENODEV;
	return 0;
}
