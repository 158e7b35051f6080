/*
 * common/err.h - one error object on the caller's stack
 *
 * A function that can fail off the hot path takes a last argument
 * `struct pl_err *err`. The message is made once, where the cause is known, and
 * prefixed on the way up; only main() and request handlers print it. Nothing
 * here allocates and nothing has to be freed. Every function accepts a NULL
 * err and then only returns the code.
 */
#ifndef COMMON_ERR_H
#define COMMON_ERR_H

#include <stdarg.h>

/* The same definition stands in the public shm/podlane.h. */
#ifndef PL_ERR_DEFINED
#define PL_ERR_DEFINED
#define PL_ERR_MSG_BYTES 1024
struct pl_err {
	int code;			/* positive errno, 0: none */
	char msg[PL_ERR_MSG_BYTES];	/* one line, says what to do */
};
#endif

/* Set code (a positive errno) and message; returns -code. */
int pl_err_set(struct pl_err *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* As pl_err_set with the current errno, and ": strerror" appended. */
int pl_err_sys(struct pl_err *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Put "TEXT: " in front of the message that is there. */
void pl_err_prefix(struct pl_err *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

void pl_err_clear(struct pl_err *err);

#endif
