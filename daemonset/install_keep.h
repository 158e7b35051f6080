/*
 * daemonset/install_keep.h - the agent's hand on the configuration of the
 * network
 */
#ifndef DAEMONSET_INSTALL_KEEP_H
#define DAEMONSET_INSTALL_KEEP_H

#include "common/err.h"

struct pl_agent;
struct pl_keeper;

/*
 * Write the file of the section "cni" as soon as pods can be served, and keep
 * it as it should be. It stays when the agent ends.
 */
int pl_keeper_create(struct pl_agent *a, struct pl_keeper **out,
		     struct pl_err *err);
/* Accepts NULL. */
void pl_keeper_destroy(struct pl_keeper *k);
/* A file that sorts before ours, as it was seen last; "". Accepts NULL. */
const char *pl_keeper_shadow(const struct pl_keeper *k);
/* Something that the file depends on has changed. Accepts NULL. */
void pl_keeper_kick(struct pl_keeper *k);

#endif
