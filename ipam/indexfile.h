/*
 * ipam/indexfile.h - the index as blocks of a file
 *
 * Between index.c, which knows what the blocks mean, and indexfile.c, which
 * reads and writes them.
 */
#ifndef IPAM_INDEXFILE_H
#define IPAM_INDEXFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "ipam/index.h"

#define IX_MAGIC 0x78692d656e616c70u	/* "plane-ix" */
#define IX_VERSION 1
#define IX_BLOCK 512
#define IX_SLOTS 15
#define IX_WORDS 62
#define IX_HEADER_BLOCKS 8
#define IX_TABLE_MIN 32		/* blocks; a power of two, as all sizes are */
#define IX_TABLE_MAX (1u << 20)
#define IX_RANGE_COUNT_MAX (1u << 20)

struct pl_ix_slot {
	uint64_t hash;
	uint8_t addr[16];
	uint8_t family;		/* 0: empty */
	uint8_t pad[7];
};

struct pl_ix_block {
	union {
		struct pl_ix_slot slots[IX_SLOTS];
		uint64_t words[IX_WORDS];
		uint8_t bytes[IX_BLOCK - 16];
	};
	uint32_t n_slots;
	uint32_t spilled;
	uint64_t sum;
};
_Static_assert(sizeof(struct pl_ix_block) == IX_BLOCK, "blocks");

struct pl_ix_range {
	uint8_t start[16];
	uint32_t family;
	uint32_t count;
	uint32_t first_block;
	uint32_t pad;
};

struct pl_ix_header {
	uint64_t magic;
	uint32_t version;
	uint32_t n_blocks;	/* of the file */
	uint64_t dev, ino;
	int64_t mtime_sec;
	char boot[PL_INDEX_BOOT_BYTES];
	uint32_t n_table;	/* blocks of the table, after the header */
	uint32_t n_entries;
	uint32_t n_ranges;
	uint32_t pad;
	struct pl_ix_range ranges[PL_INDEX_MAX_RANGES];
	uint8_t reserve[IX_HEADER_BLOCKS * IX_BLOCK - 96 - 8 -
			PL_INDEX_MAX_RANGES * sizeof(struct pl_ix_range)];
	uint64_t sum;
};
_Static_assert(sizeof(struct pl_ix_header) == IX_HEADER_BLOCKS * IX_BLOCK,
	       "header of the index");

/* A block in memory. */
struct pl_ix_cached {
	struct pl_ix_cached *next;
	uint32_t no;
	bool dirty;
	struct pl_ix_block b;
};

struct pl_index {
	struct pl_ix_header h;
	int fd;			/* of the file; -1: all is in image */
	bool dirty;
	struct pl_ix_cached *cache;
	struct pl_ix_block *image;	/* the file's blocks, or NULL */
};

static inline struct pl_addr pl_ix_start(const struct pl_ix_range *r)
{
	struct pl_addr a = { .family = (uint8_t)r->family };

	memcpy(a.bytes, r->start, sizeof(a.bytes));
	return a;
}

/* The block for reading, or (write) for change; NULL when it is damaged. */
struct pl_ix_block *pl_ix_get(struct pl_index *ix, uint32_t no, bool write);

/* All blocks, in one read, into ix->image. */
int pl_ix_load(struct pl_index *ix);

/* Blocks that the map of a range of that many addresses takes. */
uint32_t pl_ix_map_blocks(uint32_t count);

#endif
