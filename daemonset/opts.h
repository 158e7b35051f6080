/*
 * daemonset/opts.h - command line options by a table
 *
 * --name VALUE, --name=VALUE, and -c VALUE where an option has a letter. --help
 * is there without being in the table. Parsing stops at the first word that is
 * no option, or after "--".
 */
#ifndef DAEMONSET_OPTS_H
#define DAEMONSET_OPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/err.h"

struct pl_opt {
	const char *name;
	char letter;			/* 0: none */
	const char *arg;		/* name of its value; NULL: a flag */
	const char *help;
	/* The option was given; value is NULL for a flag. */
	int (*set)(void *conf, const char *value, struct pl_err *err);
};

/*
 * Returns the index of the first word that is no option; *help is set when
 * help was asked for (and parsing then ends). -EINVAL: unknown option, a value
 * is missing or one too many, or set failed.
 */
int pl_opts_parse(const struct pl_opt *opts, size_t n, int argc, char **argv,
		  void *conf, bool *help, struct pl_err *err);

#define PL_OPTS_HOST_BYTES 256

/* *node as it was given, else the host's name, in host. */
int pl_opts_node(const char **node, char host[PL_OPTS_HOST_BYTES],
		 struct pl_err *err);

/* One aligned line for each option. */
void pl_opts_print(FILE *f, const struct pl_opt *opts, size_t n);

#endif
