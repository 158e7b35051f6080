/* common/err.c - one error object on the caller's stack */
#include "common/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int pl_err_set(struct pl_err *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return -code;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	err->code = code;
	return -code;
}

int pl_err_sys(struct pl_err *err, const char *fmt, ...)
{
	int code = errno;
	size_t len;
	va_list ap;

	if (!err)
		return -code;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	len = strlen(err->msg);
	snprintf(err->msg + len, sizeof(err->msg) - len, ": %s",
		 strerror(code));
	err->code = code;
	return -code;
}

void pl_err_prefix(struct pl_err *err, const char *fmt, ...)
{
	char old[PL_ERR_MSG_BYTES];
	size_t len;
	va_list ap;

	if (!err)
		return;
	memcpy(old, err->msg, sizeof(old));
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	len = strlen(err->msg);
	snprintf(err->msg + len, sizeof(err->msg) - len, ": %s", old);
}

void pl_err_clear(struct pl_err *err)
{
	if (!err)
		return;
	err->code = 0;
	err->msg[0] = '\0';
}
