/*
 * bench/ps_child.h - roles as processes in pods, and waiting for all of them
 *
 * A child is this program again, in a pod's network namespace and a process
 * group of its own, so that a terminal's Ctrl-C reaches the comparison only.
 * It is killed when the comparison dies, whatever kills that.
 */
#ifndef BENCH_PS_CHILD_H
#define BENCH_PS_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

#define PS_CHILD_NAME 32
#define PS_CHILD_ERR 2048
#define PS_TICK_MS 50

/* A text that a descriptor delivers. */
struct ps_stream {
	int fd;				/* -1: at its end */
	char *text;			/* NUL terminated, NULL: nothing yet */
	size_t len;
};

struct ps_child {
	char name[PS_CHILD_NAME];	/* "worker 1" */
	pid_t pid;			/* 0: none */
	int pidfd;
	struct ps_stream report, err;
	bool ended;
	bool put_down;			/* killed by ps_children_wait */
	int status;			/* of waitpid */
	unsigned int order;		/* of the ends, from 1 */
};

/*
 * What is watched while children run: SIGINT, SIGTERM, SIGHUP and SIGQUIT are
 * blocked and arrive at signal_fd. tick (or NULL) is called every PS_TICK_MS
 * and says whether there is any use in going on.
 */
struct ps_watch {
	int signal_fd;
	bool (*tick)(void *arg);
	void *arg;
};

/*
 * Start this program in the namespace at netns. argv is NULL terminated, [0]
 * the program's name and [1] the command, and has two elements of room behind
 * its NULL: in the child "--report FD" is appended.
 */
int ps_child_start(struct ps_child *c, const char *name, const char *netns,
		   char **argv, struct pl_err *err);

/*
 * Wait until all n have ended. One that fails, or timeout_ms, or a signal makes
 * the others end within seconds: by themselves, or else killed. 0 when all of
 * them ended well; err tells which failed first and how. -EINTR: a signal;
 * -ECANCELED: tick said so.
 */
int ps_children_wait(struct ps_child *c, unsigned int n,
		     const struct ps_watch *watch, int timeout_ms,
		     struct pl_err *err);

/* Kill and reap what runs, free. Also for those never started (zeroed). */
void ps_children_end(struct ps_child *c, unsigned int n);

/* From now on signals are blocked and seen by what follows. */
int ps_watch_init(struct ps_watch *watch, struct pl_err *err);

/* A signal has come in; stays so. */
bool ps_watch_interrupted(const struct ps_watch *watch);

#endif
