/*
 * daemonset/ctl_report.h - podlanectl bugreport: what somebody else has to see
 */
#ifndef DAEMONSET_CTL_REPORT_H
#define DAEMONSET_CTL_REPORT_H

#include <stddef.h>

#include "common/err.h"
#include "daemonset/ctl_check.h"

/*
 * Write a tar archive to the file, "-" is standard output. No file that keeps a
 * secret is read, and what looks like one elsewhere is left out.
 */
int pl_ctl_report(const struct pl_ctl_check *o, const char *file,
		  struct pl_err *err);

/*
 * In place: values of members whose name tells of a secret, long hexadecimal
 * numbers, and PEM blocks.
 */
void pl_report_hide(char *text);

#endif
