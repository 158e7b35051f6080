/*
 * daemonset/op_counts.h - how the plugin's requests went, since the start
 */
#ifndef DAEMONSET_OP_COUNTS_H
#define DAEMONSET_OP_COUNTS_H

#include <stdint.h>

enum pl_op_kind { PL_OP_ADD, PL_OP_DEL, PL_OP_CHECK, PL_OP_GC, PL_OP_KINDS };

#define PL_OP_BUCKETS 8			/* the last one has no bound */
#define PL_OP_CODES 134			/* errno, 0: it went well */

struct pl_op_count {
	uint64_t ended[PL_OP_CODES];
	uint64_t buckets[PL_OP_BUCKETS];	/* each by itself */
	uint64_t ns;			/* all of them */
};

/* Upper bounds of all but the last, in microseconds. */
extern const uint32_t pl_op_bounds_us[PL_OP_BUCKETS - 1];

const char *pl_op_name(enum pl_op_kind kind);

/* name: of a request; others than those of the plugin do not count. */
void pl_op_count(struct pl_op_count counts[PL_OP_KINDS], const char *name,
		 int rc, uint64_t ns);

#endif
