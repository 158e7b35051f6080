/*
 * plugin/delegate.h - execute another plugin, as a runtime does
 *
 * It gets our environment with its CNI_COMMAND, the configuration on standard
 * input, and our standard error. Its standard output is read to the end. When
 * we are killed it goes on; with the record's descriptor it holds the lock that
 * makes DEL wait until it is through.
 */
#ifndef PLUGIN_DELEGATE_H
#define PLUGIN_DELEGATE_H

#include <stddef.h>
#include <cjson/cJSON.h>

#include "common/err.h"

struct pl_delegate {
	const char *plugin;	/* a file name */
	const char *path;	/* CNI_PATH: folders with colons between */
	const char *command;
	const char *id, *ifname;	/* NULL: as in our environment */
	const cJSON *conf;
	int lock_fd;		/* it gets this, too; -1: none */
};

/*
 * *out: what it printed, NULL when that was nothing; the caller's to delete.
 * When the plugin itself fails, code and message are its own.
 */
int pl_delegate(const struct pl_delegate *d, cJSON **out, struct pl_err *err);

#endif
