/*
 * daemonset/ctl_table.h - lists of JSON objects as aligned tables
 */
#ifndef DAEMONSET_CTL_TABLE_H
#define DAEMONSET_CTL_TABLE_H

#include <stdio.h>

#include <cjson/cJSON.h>

enum pl_cell {
	PL_CELL_TEXT,		/* texts, flags, lists (joined by commas) */
	PL_CELL_NUMBER,		/* to the right */
	PL_CELL_BYTES,		/* the same, as 1.5M */
};

struct pl_column {
	const char *title;
	const char *key;	/* "pod.name": of an object within */
	enum pl_cell kind;
	const char *of;		/* of a number: another one, as 3/10; or NULL */
};

#define PL_CELL_MAX 128

/* What a cell shows; "-" for what is absent or empty. */
void pl_cell_format(const cJSON *row, const struct pl_column *c, char *buf,
		    size_t size);

/* A line of titles, then one line for each element of list. */
void pl_table_print(FILE *f, const cJSON *list, const struct pl_column *columns,
		    size_t n);

/* As JSON, and a newline. */
void pl_doc_print(FILE *f, const cJSON *doc);

#endif
