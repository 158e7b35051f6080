/*
 * daemonset/ctl_complete.h - podlanectl completion: for shells
 */
#ifndef DAEMONSET_CTL_COMPLETE_H
#define DAEMONSET_CTL_COMPLETE_H

#include "daemonset/opts.h"

/*
 * Print what makes the shell ("bash", "zsh", "fish") complete these. -EINVAL:
 * another one.
 */
int pl_ctl_complete(const char *shell, const char *const *commands,
		    size_t n_commands, const struct pl_opt *opts, size_t n_opts,
		    struct pl_err *err);

#endif
