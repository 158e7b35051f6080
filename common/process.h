/*
 * common/process.h - what every program does first and last
 */
#ifndef COMMON_PROCESS_H
#define COMMON_PROCESS_H

#include "common/err.h"

/*
 * At the start of main. No file of ours becomes a standard one: where one of
 * the descriptors 0 to 2 is closed, there is now one that can be read only, so
 * that writing fails. A file that would grow beyond its limit (ulimit -f) is an
 * error of write(), and no signal.
 */
int pl_process_init(struct pl_err *err);

/* At the end of main: has all of standard output been written? */
int pl_stdout_end(struct pl_err *err);

#endif
