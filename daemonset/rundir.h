/*
 * daemonset/rundir.h - the folder of one running agent: its lock and socket
 */
#ifndef DAEMONSET_RUNDIR_H
#define DAEMONSET_RUNDIR_H

#include "common/err.h"

/*
 * Make dir if need be and lock it for this process; *lock_fd holds the lock
 * until it is closed, or the process ends in whatever way. -EBUSY: another
 * agent has it; the message tells its process.
 */
int pl_rundir_lock(const char *dir, int *lock_fd, struct pl_err *err);

/*
 * Listen on DIR/agent.sock, for root only, non-blocking. A socket that a killed
 * agent left is replaced: the caller holds the lock.
 */
int pl_rundir_listen(const char *dir, int *fd, struct pl_err *err);
void pl_rundir_unlink(const char *dir);

#endif
