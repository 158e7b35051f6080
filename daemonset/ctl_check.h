/*
 * daemonset/ctl_check.h - podlanectl check: what is wrong on this node, and
 * what to do about it
 */
#ifndef DAEMONSET_CTL_CHECK_H
#define DAEMONSET_CTL_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <cjson/cJSON.h>

#include "common/err.h"

struct pl_ctl_check {
	const char *run_dir, *data_dir;
	const char *config;	/* the agent's; NULL: the default, if there */
	bool json;
};

enum pl_finding { PL_FINDING_OK, PL_FINDING_WARN, PL_FINDING_FAIL };

struct pl_agent_conf;

struct pl_doctor {
	const struct pl_ctl_check *o;
	const struct pl_agent_conf *conf;
	cJSON *status, *nodes;	/* the agent's answers; NULL: no agent */
	cJSON *list;		/* of findings */
	int failures;
};

/* One line of the result. todo: what to do, "" when it is good. */
void pl_doctor_say(struct pl_doctor *d, const char *what, enum pl_finding f,
		   const char *todo, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* Prints the result. 1: something fails; -errno: it can't be looked at. */
int pl_ctl_check(const struct pl_ctl_check *o, struct pl_err *err);
/* The same, as a list; to be deleted. */
int pl_ctl_check_list(const struct pl_ctl_check *o, cJSON **list,
		      struct pl_err *err);

/* --- ctl_check_net.c ------------------------------------------------------ */

/* Whether whole packets reach the other nodes, below and through the overlay */
void pl_doctor_mtu(struct pl_doctor *d);

enum pl_probe {
	PL_PROBE_ARRIVED,	/* whole: the other side answered */
	PL_PROBE_LOST,		/* neither an answer nor an error */
	PL_PROBE_TOO_BIG,	/* somebody on the way said so */
	PL_PROBE_UNREACHABLE,
};
/*
 * Send a packet of so many bytes, IP header and all, which must not be
 * fragmented, to a UDP port where nobody listens: the refusal proves that it
 * came. Some tries, some seconds at most.
 */
enum pl_probe pl_probe_packet(const char *address, uint16_t port,
			      unsigned int bytes);

#endif
