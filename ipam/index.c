/*
 * ipam/index.c - which addresses are taken, and by which attachment, in
 * constant time
 *
 * The file, in blocks of 512 bytes:
 *
 *   header   8 blocks: what the index is for (directory, boot), the ranges,
 *            where the parts are
 *   table    a hash table of (hash of the attachment, address). A block is a
 *            bucket of 15 slots; an entry that finds its bucket full goes into
 *            the next one, and the full one is marked as spilled. The table
 *            doubles before it is 2/3 full, so spills are rare.
 *   maps     for each range a tree of 64-bit words: a bit of the lowest level
 *            is an address, a bit of a higher level is a word below that is
 *            full. Four levels hold 2^20 addresses, so finding the next free
 *            one reads at most seven words.
 *
 * The header and each block carry a checksum that covers its own place, so a
 * zeroed, torn or misplaced block is noticed when it is read; the caller then
 * makes a new index out of the directory. Blocks are read when they are needed
 * and written back in place, all of them once at the end (pl_index_store).
 * Nothing here has to be atomic: the index counts only if the directory's
 * modification time is what the header says, and whoever changes the directory
 * sets that time as the last step (see store.c).
 *
 * A file is written whole before it is used, so updates in place need no space
 * of the file system.
 */
#include "ipam/index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "ipam/indexfile.h"

#define LEVELS_MAX 4

/* --- ranges --- */

/* A tree's shape: bits and first word of each level. */
struct shape {
	int levels;
	uint32_t bits[LEVELS_MAX];
	uint32_t first[LEVELS_MAX];
	uint32_t words;		/* in all */
};

static void shape_of(uint32_t count, struct shape *s)
{
	s->levels = 0;
	s->words = 0;
	for (;;) {
		uint32_t n = (count + 63) / 64;

		s->bits[s->levels] = count;
		s->first[s->levels++] = s->words;
		s->words += n;
		if (n == 1)
			return;
		count = n;
	}
}

uint32_t pl_ix_map_blocks(uint32_t count)
{
	struct shape s;

	shape_of(count, &s);
	return (s.words + IX_WORDS - 1) / IX_WORDS;
}

static uint64_t *get_word(struct pl_index *ix, unsigned int range,
			  uint32_t word, bool write)
{
	uint32_t no = ix->h.ranges[range].first_block + word / IX_WORDS;
	struct pl_ix_block *b = pl_ix_get(ix, no, write);

	return b ? &b->words[word % IX_WORDS] : NULL;
}

uint64_t pl_index_offset(const struct pl_addr *start, const struct pl_addr *a)
{
	int n = pl_addr_bits(a) / 8;
	uint64_t high = 0, low = 0;
	int borrow = 0;

	if (a->family != start->family || pl_addr_cmp(a, start) < 0)
		return UINT64_MAX;
	for (int i = n - 1; i >= 0; i--) {
		int d = a->bytes[i] - start->bytes[i] - borrow;
		int at = n - 1 - i;

		borrow = d < 0;
		if (at < 8)
			low |= (uint64_t)(uint8_t)d << (8 * at);
		else
			high |= (uint64_t)(uint8_t)d << (8 * (at - 8));
	}
	return high ? UINT64_MAX : low;
}

int pl_index_range_find(const struct pl_index *ix,
			const struct pl_index_range *range)
{
	for (uint32_t i = 0; i < ix->h.n_ranges; i++) {
		struct pl_addr start = pl_ix_start(&ix->h.ranges[i]);

		if (ix->h.ranges[i].count == range->count &&
		    pl_addr_equal(&start, &range->start))
			return (int)i;
	}
	return -ENOENT;
}

int pl_index_next_free(struct pl_index *ix, unsigned int range, uint32_t pos,
		       uint32_t *out)
{
	struct shape s;
	uint64_t *w, free_bits;
	int level = 0;

	shape_of(ix->h.ranges[range].count, &s);
	/* Up, until a word at or after pos has a free bit. */
	for (;;) {
		if (level == s.levels || pos >= s.bits[level])
			return 0;
		w = get_word(ix, range, s.first[level] + pos / 64, false);
		if (!w)
			return -EBADMSG;
		free_bits = ~*w & (~(uint64_t)0 << (pos % 64));
		if (free_bits)
			break;
		pos = pos / 64 + 1;
		level++;
	}
	/* And down to the first free bit below it. */
	for (;;) {
		pos = pos / 64 * 64 + (uint32_t)__builtin_ctzll(free_bits);
		if (pos >= s.bits[level])
			return -EBADMSG;
		if (level == 0)
			break;
		level--;
		w = get_word(ix, range, s.first[level] + pos, false);
		if (!w || *w == ~(uint64_t)0)
			return -EBADMSG;
		free_bits = ~*w;
		pos *= 64;
	}
	*out = pos;
	return 1;
}

/* Set or clear one address of a range, and the levels above it. */
static int map_change(struct pl_index *ix, unsigned int range, uint32_t pos,
		      bool taken)
{
	struct shape s;

	shape_of(ix->h.ranges[range].count, &s);
	for (int level = 0; level < s.levels; level++) {
		uint64_t bit = (uint64_t)1 << (pos % 64);
		uint64_t *w = get_word(ix, range, s.first[level] + pos / 64,
				       true);
		bool was_full;

		if (!w)
			return -EBADMSG;
		was_full = *w == ~(uint64_t)0;
		*w = taken ? *w | bit : *w & ~bit;
		if (was_full == (*w == ~(uint64_t)0))
			break;
		pos /= 64;
	}
	return 0;
}

static int maps_change(struct pl_index *ix, const struct pl_addr *addr,
		       bool taken)
{
	for (uint32_t i = 0; i < ix->h.n_ranges; i++) {
		struct pl_addr start = pl_ix_start(&ix->h.ranges[i]);
		uint64_t pos = pl_index_offset(&start, addr);

		if (pos < ix->h.ranges[i].count &&
		    map_change(ix, i, (uint32_t)pos, taken) < 0)
			return -EBADMSG;
	}
	return 0;
}

/* The bits past the end of each level count as taken. */
static void map_init(struct pl_index *ix, unsigned int range)
{
	struct shape s;

	shape_of(ix->h.ranges[range].count, &s);
	for (int level = 0; level < s.levels; level++) {
		uint32_t bits = s.bits[level];

		if (bits % 64)
			*get_word(ix, range, s.first[level] + bits / 64,
				  true) = ~(uint64_t)0 << (bits % 64);
	}
}

/* --- table --- */

uint64_t pl_index_hash(const char *container_id, const char *ifname)
{
	uint64_t h = 0xcbf29ce484222325u;
	const char *part[2] = { container_id, ifname };

	for (int i = 0; i < 2; i++) {
		const unsigned char *p = (const unsigned char *)part[i];

		do
			h = (h ^ *p) * 0x100000001b3u;
		while (*p++);
	}
	h ^= h >> 32;
	return h * 0x9e3779b97f4a7c15u;
}

static uint32_t bucket(const struct pl_index *ix, uint64_t hash, uint32_t step)
{
	uint32_t home = (uint32_t)(hash >> 32) & (ix->h.n_table - 1);

	return IX_HEADER_BLOCKS + ((home + step) & (ix->h.n_table - 1));
}

static int table_add(struct pl_index *ix, uint64_t hash,
		     const struct pl_addr *addr)
{
	for (uint32_t i = 0; i < ix->h.n_table; i++) {
		struct pl_ix_block *b = pl_ix_get(ix, bucket(ix, hash, i),
						  true);
		struct pl_ix_slot *s;

		if (!b || b->n_slots > IX_SLOTS)
			return -EBADMSG;
		if (b->n_slots == IX_SLOTS) {
			b->spilled = 1;
			continue;
		}
		s = &b->slots[b->n_slots++];
		*s = (struct pl_ix_slot){
			.hash = hash, .family = addr->family,
		};
		memcpy(s->addr, addr->bytes, sizeof(s->addr));
		ix->h.n_entries++;
		return 0;
	}
	return -EBADMSG;
}

static struct pl_addr slot_addr(const struct pl_ix_slot *s)
{
	struct pl_addr a = { .family = s->family };

	memcpy(a.bytes, s->addr, sizeof(a.bytes));
	return a;
}

static int table_del(struct pl_index *ix, uint64_t hash,
		     const struct pl_addr *addr)
{
	for (uint32_t i = 0; i < ix->h.n_table; i++) {
		struct pl_ix_block *b = pl_ix_get(ix, bucket(ix, hash, i),
						  true);

		if (!b || b->n_slots > IX_SLOTS)
			return -EBADMSG;
		for (uint32_t k = 0; k < b->n_slots; k++) {
			struct pl_addr a = slot_addr(&b->slots[k]);

			if (b->slots[k].hash != hash ||
			    !pl_addr_equal(&a, addr))
				continue;
			b->slots[k] = b->slots[--b->n_slots];
			ix->h.n_entries--;
			return 0;
		}
		if (!b->spilled)
			break;
	}
	return -EBADMSG;
}

int pl_index_find(struct pl_index *ix, uint64_t hash, struct pl_addr *addrs,
		  int max)
{
	int n = 0;

	for (uint32_t i = 0; i < ix->h.n_table; i++) {
		struct pl_ix_block *b = pl_ix_get(ix, bucket(ix, hash, i),
						  false);

		if (!b || b->n_slots > IX_SLOTS)
			return -EBADMSG;
		for (uint32_t k = 0; k < b->n_slots && n < max; k++)
			if (b->slots[k].hash == hash)
				addrs[n++] = slot_addr(&b->slots[k]);
		if (!b->spilled)
			break;
	}
	return n;
}

int pl_index_is_taken(struct pl_index *ix, const struct pl_addr *addr)
{
	for (uint32_t i = 0; i < ix->h.n_ranges; i++) {
		struct pl_addr start = pl_ix_start(&ix->h.ranges[i]);
		uint64_t pos = pl_index_offset(&start, addr);
		uint32_t at;
		int rc;

		if (pos >= ix->h.ranges[i].count)
			continue;
		rc = pl_index_next_free(ix, i, (uint32_t)pos, &at);
		if (rc < 0 || (rc == 1 && at == pos))
			return rc < 0 ? rc : 0;
	}
	return 1;
}

uint32_t pl_index_entries(const struct pl_index *ix)
{
	return ix->h.n_entries;
}

bool pl_index_is_dirty(const struct pl_index *ix)
{
	return ix->dirty;
}

/* --- making, growing --- */

/* A new image with the ranges of h and a table of n_table blocks. */
static int make_image(struct pl_ix_header *h, uint32_t n_table,
		      struct pl_index **out)
{
	struct pl_index *ix = calloc(1, sizeof(*ix));
	uint32_t n = IX_HEADER_BLOCKS + n_table;

	if (!ix)
		return -ENOMEM;
	ix->fd = -1;
	ix->dirty = true;
	ix->h = *h;
	ix->h.magic = IX_MAGIC;
	ix->h.version = IX_VERSION;
	ix->h.n_table = n_table;
	ix->h.n_entries = 0;
	for (uint32_t i = 0; i < h->n_ranges; i++) {
		ix->h.ranges[i].first_block = n;
		n += pl_ix_map_blocks(h->ranges[i].count);
	}
	ix->h.n_blocks = n;
	ix->image = calloc(n, IX_BLOCK);
	if (!ix->image) {
		free(ix);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < h->n_ranges; i++)
		map_init(ix, i);
	*out = ix;
	return 0;
}

int pl_index_create(const struct pl_index_range *ranges, unsigned int n,
		    struct pl_index **out)
{
	struct pl_ix_header h = { .n_ranges = n };

	for (unsigned int i = 0; i < n; i++) {
		h.ranges[i].family = ranges[i].start.family;
		h.ranges[i].count = ranges[i].count;
		memcpy(h.ranges[i].start, ranges[i].start.bytes, 16);
	}
	return make_image(&h, IX_TABLE_MIN, out);
}

/* Replace ix by one with a table of twice the size, without the directory. */
static int grow(struct pl_index *ix)
{
	struct pl_index *big = NULL;
	int rc = ix->image ? 0 : pl_ix_load(ix);

	if (rc == 0 && ix->h.n_table >= IX_TABLE_MAX)
		rc = -ENOSPC;
	if (rc == 0)
		rc = make_image(&ix->h, ix->h.n_table * 2, &big);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; rc == 0 && i < ix->h.n_table; i++) {
		struct pl_ix_block *b = &ix->image[IX_HEADER_BLOCKS + i];

		for (uint32_t k = 0; rc == 0 && k < b->n_slots; k++) {
			struct pl_addr a = slot_addr(&b->slots[k]);

			rc = table_add(big, b->slots[k].hash, &a);
			if (rc == 0)
				rc = maps_change(big, &a, true);
		}
	}
	if (rc < 0) {
		pl_index_destroy(big);
		return rc;
	}
	free(ix->image);
	pl_close_fd(&ix->fd);
	*ix = *big;
	free(big);
	return 0;
}

int pl_index_add(struct pl_index *ix, uint64_t hash, const struct pl_addr *addr)
{
	int rc = 0;

	if (ix->h.n_entries >= ix->h.n_table * IX_SLOTS / 3 * 2)
		rc = grow(ix);
	if (rc == 0)
		rc = table_add(ix, hash, addr);
	if (rc == 0)
		rc = maps_change(ix, addr, true);
	return rc;
}

int pl_index_del(struct pl_index *ix, uint64_t hash, const struct pl_addr *addr)
{
	int rc = table_del(ix, hash, addr);

	return rc < 0 ? rc : maps_change(ix, addr, false);
}
