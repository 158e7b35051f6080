/* plugin/port.c - a port of the node that leads into a pod */
#include "plugin/port.h"

#include <stdio.h>
#include <string.h>

#include "common/util.h"

static const struct {
	const char *name;
	uint8_t family;
	bool any_ip;
} maps[] = {
	{ "port4", AF_INET, true },
	{ "port6", AF_INET6, true },
	{ "hostport4", AF_INET, false },
	{ "hostport6", AF_INET6, false },
};

const char *pl_port_map(const struct pl_port *p)
{
	size_t i = 0;

	while (maps[i].family != p->ip.family || maps[i].any_ip != p->any_ip)
		i++;
	return maps[i].name;
}

const char *pl_port_key(const struct pl_port *p, char *buf)
{
	char ip[INET6_ADDRSTRLEN];

	if (p->any_ip)
		snprintf(buf, PL_PORT_STRLEN, "%d . %d", p->proto, p->number);
	else
		snprintf(buf, PL_PORT_STRLEN, "%s . %d . %d",
			 pl_addr_str(&p->ip, ip), p->proto, p->number);
	return buf;
}

bool pl_port_read(const char *map, const char *key, struct pl_port *p)
{
	char ip[INET6_ADDRSTRLEN] = "", text[PL_PORT_STRLEN];
	unsigned int proto, number;
	size_t i = 0;

	while (i < PL_ARRAY_SIZE(maps) && strcmp(maps[i].name, map))
		i++;
	if (i == PL_ARRAY_SIZE(maps))
		return false;
	*p = (struct pl_port){ .any_ip = maps[i].any_ip };
	if (p->any_ip ? sscanf(key, "%3u . %5u", &proto, &number) != 2 :
			sscanf(key, "%45s . %3u . %5u", ip, &proto,
			       &number) != 3 || pl_addr_parse(ip, &p->ip) < 0)
		return false;
	p->ip.family = maps[i].family;
	p->proto = (uint8_t)proto;
	p->number = (uint16_t)number;
	return !strcmp(pl_port_key(p, text), key);
}

const char *pl_port_str(const struct pl_port *p, char *buf)
{
	const char *proto = p->proto == IPPROTO_TCP ? "tcp" :
			    p->proto == IPPROTO_UDP ? "udp" : "sctp";
	char ip[INET6_ADDRSTRLEN] = "";

	if (!p->any_ip)
		pl_addr_str(&p->ip, ip);
	snprintf(buf, PL_PORT_STRLEN, "%d (%s)%s%s", p->number, proto,
		 *ip ? " of " : "", ip);
	return buf;
}
