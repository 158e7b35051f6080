/*
 * plugin/rules_tables.h - our tables in nftables: what is in them for everybody
 * and how what is in them is read; between the parts of rules.h
 */
#ifndef PLUGIN_RULES_TABLES_H
#define PLUGIN_RULES_TABLES_H

#include <cjson/cJSON.h>

#include "plugin/rules.h"

struct pl_rules_def {
	const char *family, *name;
	int nfproto;
	/* Makes the table, or makes it right: may be run at any time. */
	const char *script;
};

#define PL_RULES_CHAINED "chained "	/* in comments */

extern const struct pl_rules_def pl_rules_defs[PL_RULES_TABLES];

enum pl_rules_kind {
	PL_RULES_ELEM,			/* of the map or set name */
	PL_RULES_CHAIN,			/* name */
	PL_RULES_RULE,			/* in the chain name */
};

/* One entry of a table. */
struct pl_rules_item {
	enum pl_rules_kind kind;
	const char *name;
	char key[80], data[80];		/* as in struct pl_rules_elem */
	/* Of an element, from its comment; "": it is none of ours. */
	char owner[PL_RULES_TAG_BYTES];
	char network[PL_RULES_TAG_BYTES];
	bool chained;
	const char *who;	/* the rest of the comment, for people */
};

/*
 * Each entry of a listed table, elements first. A callback that returns nonzero
 * ends the walk, and that is returned. Entries that no plugin of ours can have
 * made are left out.
 */
int pl_rules_each(const cJSON *list,
		  int (*fn)(const struct pl_rules_item *item, void *arg),
		  void *arg);

/* The elements of one set, as libnftables-json(5) has them; NULL: none. */
const cJSON *pl_rules_set(const cJSON *list, const char *name);

#endif
