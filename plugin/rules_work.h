/*
 * plugin/rules_work.h - one piece of work on the rules of a namespace; between
 * the parts of rules.h
 *
 * From begin to end the namespace is locked, so what was read stays true.
 */
#ifndef PLUGIN_RULES_WORK_H
#define PLUGIN_RULES_WORK_H

#include <stdio.h>
#include <cjson/cJSON.h>

#include "common/nl.h"
#include "plugin/nft.h"
#include "plugin/rules.h"
#include "plugin/rules_tables.h"
#include "plugin/udp.h"

struct pl_rules_work {
	int lock;
	struct pl_nl nl;
	struct pl_nft *nft;		/* NULL: not needed yet */
	bool there[PL_RULES_TABLES];
	bool dormant[PL_RULES_TABLES];	/* switched off, by somebody else */
	cJSON *list[PL_RULES_TABLES];	/* NULL: not read */
	char *script;
	size_t script_bytes;
	FILE *out;			/* writes script */
	bool close_localnet;		/* before it runs */
	struct pl_udp udp;		/* to these ports is forgotten */
	bool done;			/* a script has been run */
};

/* Also after a failure pl_rules_end is to be called. */
int pl_rules_begin(struct pl_rules_work *w, struct pl_err *err);
void pl_rules_end(struct pl_rules_work *w);

/* See which tables there are, forget what was read, begin a new script. */
int pl_rules_look(struct pl_rules_work *w, struct pl_err *err);

/* Is there any table of ours? */
bool pl_rules_any(const struct pl_rules_work *w);

/* Read all tables of ours; wakes those that are dormant. */
int pl_rules_list(struct pl_rules_work *w, struct pl_err *err);

/* Run the script that was written to out, and end it. */
int pl_rules_run(struct pl_rules_work *w, struct pl_err *err);

/* Write what makes the table and the attachment's rules; not its elements. */
void pl_rules_write(FILE *out, const struct pl_rules *r, size_t table);

/*
 * Write what deletes all that the owners have, who are sorted. empty: a table
 * in which nobody else has anything goes, and what it guarded is no longer
 * open.
 */
int pl_rules_drop(struct pl_rules_work *w, const struct pl_rules_tags *owners,
		  bool empty, struct pl_err *err);

int pl_rules_tags_put(struct pl_rules_tags *t, const char *tag,
		      struct pl_err *err);
void pl_rules_tags_sort(struct pl_rules_tags *t);
/* Of a sorted list. */
bool pl_rules_tags_have(const struct pl_rules_tags *t, const char *tag);

#endif
