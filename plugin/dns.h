/*
 * plugin/dns.h - the part "dns" of a result
 *
 * What the runtime asks for goes before what the configuration says, and that
 * before what the IPAM plugin says. The runtime's words are "servers",
 * "searches" and "options".
 */
#ifndef PLUGIN_DNS_H
#define PLUGIN_DNS_H

#include "plugin/conf.h"
#include "plugin/result.h"

/* Replace r's dns where conf has another. */
int pl_dns_choose(const struct pl_conf *conf, struct pl_result *r,
		  struct pl_err *err);

#endif
