/*
 * common/exec.h - find and execute other programs, CNI plugins above all
 */
#ifndef COMMON_EXEC_H
#define COMMON_EXEC_H

#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"

/*
 * The first program of that name in folders with ":" between them, as PATH and
 * CNI_PATH have them (NULL: none); empty ones do not count. 0 or -ENOENT.
 */
int pl_exec_find(const char *folders, const char *name, char *path,
		 size_t size);

/*
 * Standard input for a program: a file in memory with this text, so that
 * neither side can wait for the other. Returns its descriptor or -errno.
 */
int pl_exec_input(const char *text, struct pl_err *err);

/*
 * Execute path with standard input and output, in a process group of its own: a
 * terminal's Ctrl-C is not for it. Signals that are blocked here are not
 * blocked there, SIGPIPE and SIGXFSZ not ignored. 0 or -errno.
 */
int pl_exec_spawn(const char *path, char **env, int in, int out, pid_t *pid);

#endif
