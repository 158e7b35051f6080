/*
 * daemonset/ctl_ipam.h - podlanectl ipam: the reservations of a node's networks
 *
 * Works on the directories of podlane-ipam (and host-local), so it needs no
 * agent.
 */
#ifndef DAEMONSET_CTL_IPAM_H
#define DAEMONSET_CTL_IPAM_H

#include <stdbool.h>
#include <stdio.h>

#include "common/err.h"

struct pl_ctl_ipam {
	const char *data_dir;
	const char *network;	/* NULL: all in data_dir */
	bool json;
};

/*
 * words: what stands after "ipam". Prints its result. 1: a check found
 * something; -EINVAL: the words are wrong.
 */
int pl_ctl_ipam(const struct pl_ctl_ipam *o, int n_words, char **words,
		struct pl_err *err);

/* One line for each of its commands. */
void pl_ctl_ipam_help(FILE *f);

#endif
