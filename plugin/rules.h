/*
 * plugin/rules.h - what an attachment has in nftables
 *
 * Three tables of ours, each made by the first attachment that needs it and
 * deleted with the last one:
 *
 *   inet podlane_masq    ipMasq
 *   inet podlane_ports   portMappings
 *   bridge podlane_mac   macspoofchk
 *
 * Packets are matched by maps and sets, whose elements are the attachments'; so
 * the number of pods costs a packet nothing. The owner of an element stands in
 * its comment, which begins with the attachment's tag (the name that its
 * interface on the host has, a hash of all three parts of its name), followed
 * by the tag of its network, and by "chained" where it is behind another
 * plugin. What does not fit into an element is a chain of the attachment's own,
 * named by its tag; an element leads there. So anything that an attachment has
 * is found without its namespace, its configuration, its record and
 * prevResult. One attachment's part of all tables
 * is made in one transaction, and deleted in one. A lock that belongs to the
 * network namespace keeps plugins from each other's transactions; it ends with
 * the process that holds it.
 */
#ifndef PLUGIN_RULES_H
#define PLUGIN_RULES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/inet.h"
#include "plugin/record.h"

enum pl_rules_table {
	PL_RULES_MASQ,
	PL_RULES_PORTS,
	PL_RULES_MAC,
	PL_RULES_TABLES,
};

#define PL_RULES_TAG_BYTES 16

/* Of a map, or with data "" of a set. All of it is in nft's own words. */
struct pl_rules_elem {
	const char *set;
	char key[80], data[80];
};

/*
 * What one attachment is to have in one table: elements, and rules of a chain
 * that is named by its tag.
 */
struct pl_ruleset {
	struct pl_rules_elem *elems;
	char **rules;
	size_t n_elems, n_rules;
};

struct pl_rules {
	char tag[PL_RULES_TAG_BYTES];	/* of the attachment */
	bool chained;			/* it has no interface of our making */
	struct pl_addr local_to;	/* 127.0.0.1 leads there; family 0 */
	struct pl_ruleset in[PL_RULES_TABLES];
};

void pl_rules_init(struct pl_rules *r, const struct pl_attach *at,
		   bool chained);
void pl_rules_fini(struct pl_rules *r);
bool pl_ruleset_wanted(const struct pl_ruleset *s);
bool pl_rules_empty(const struct pl_rules *r);

/* data NULL: of a set. */
int pl_rules_elem(struct pl_rules *r, enum pl_rules_table table,
		  const char *set, const char *key, const char *data,
		  struct pl_err *err);
int pl_rules_rule(struct pl_rules *r, enum pl_rules_table table,
		  struct pl_err *err, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/*
 * When all of it is there: the same element twice is one, and one key with two
 * data is -EINVAL. Elements are sorted by set and key then.
 */
int pl_rules_settle(struct pl_rules *r, struct pl_err *err);

/* After that. NULL: none. */
const struct pl_rules_elem *pl_ruleset_find(const struct pl_ruleset *s,
					    const char *set, const char *key);

/*
 * Make them, all or none. What an attachment left that is gone is taken over: a
 * standalone one is when its interface on the host is, a chained one when DEL
 * or GC says so. A port of the node that another has is PL_CNI_DUPLICATE.
 */
int pl_rules_add(const struct pl_rules *r, const struct pl_attach *at,
		 struct pl_err *err);

/*
 * Nothing there is no error. ports: it may have some, so if their table is gone
 * the way for 127.0.0.1 that it guarded has to go, too.
 */
int pl_rules_del(const struct pl_attach *at, bool ports, struct pl_err *err);

/* Says what is missing: PL_CNI_CHECK_FAILED. */
int pl_rules_check(const struct pl_rules *r, struct pl_err *err);

/* A list of attachments, to be freed with free(tags). */
struct pl_rules_tags {
	char (*tags)[PL_RULES_TAG_BYTES];
	size_t n;
};

int pl_rules_tags_add(struct pl_rules_tags *t, const struct pl_attach *at,
		      struct pl_err *err);

/*
 * Delete what attachments of the network have that keep does not list. keep is
 * called, if there are rules at all, after they were read: whoever made some in
 * the meantime loses none.
 */
int pl_rules_gc(const char *network,
		int (*keep)(struct pl_rules_tags *t, void *arg,
			    struct pl_err *err),
		void *arg, struct pl_err *err);

#endif
