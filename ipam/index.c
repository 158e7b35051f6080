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
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/util.h"

#define MAGIC 0x78692d656e616c70u	/* "plane-ix" */
#define VERSION 1
#define BLOCK 512
#define SLOTS 15
#define WORDS 62
#define HEADER_BLOCKS 8
#define TABLE_MIN 32		/* blocks; a power of two, as all sizes are */
#define TABLE_MAX (1u << 20)
#define RANGE_COUNT_MAX (1u << 20)
#define LEVELS_MAX 4

struct slot {
	uint64_t hash;
	uint8_t addr[16];
	uint8_t family;		/* 0: empty */
	uint8_t pad[7];
};

struct block {
	union {
		struct slot slots[SLOTS];
		uint64_t words[WORDS];
		uint8_t bytes[BLOCK - 16];
	};
	uint32_t n_slots;
	uint32_t spilled;
	uint64_t sum;
};
_Static_assert(sizeof(struct block) == BLOCK, "blocks of the index");

struct stored_range {
	uint8_t start[16];
	uint32_t family;
	uint32_t count;
	uint32_t first_block;
	uint32_t pad;
};

struct header {
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
	struct stored_range ranges[PL_INDEX_MAX_RANGES];
	uint8_t reserve[HEADER_BLOCKS * BLOCK - 96 - 8 -
			PL_INDEX_MAX_RANGES * sizeof(struct stored_range)];
	uint64_t sum;
};
_Static_assert(sizeof(struct header) == HEADER_BLOCKS * BLOCK,
	       "header of the index");

/* A block in memory. */
struct cached {
	struct cached *next;
	uint32_t no;
	bool dirty;
	struct block b;
};

struct pl_index {
	struct header h;
	int fd;			/* of the file; -1: all is in image */
	bool dirty;
	struct cached *cache;
	struct block *image;	/* the file's blocks, or NULL */
};

/* --- checksums and blocks --- */

static uint64_t sum_of(const void *data, size_t len, uint64_t seed)
{
	const uint8_t *p = data;
	uint64_t s = seed ^ MAGIC;

	for (; len >= 8; len -= 8, p += 8) {
		uint64_t w;

		memcpy(&w, p, 8);
		s = (s ^ w) * 0x9e3779b97f4a7c15u;
		s ^= s >> 29;
	}
	return s;
}

static uint64_t block_sum(const struct block *b, uint32_t no)
{
	return sum_of(b, BLOCK - 8, no + 1);
}

static uint64_t header_sum(const struct header *h)
{
	return sum_of(h, sizeof(*h) - 8, 0);
}

static bool read_at(int fd, void *buf, size_t len, uint64_t at)
{
	uint8_t *p = buf;

	while (len) {
		ssize_t r = pread(fd, p, len, (off_t)at);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return false;
		p += r;
		at += (uint64_t)r;
		len -= (size_t)r;
	}
	return true;
}

static int write_at(int fd, const void *buf, size_t len, uint64_t at)
{
	const uint8_t *p = buf;

	while (len) {
		ssize_t r = pwrite(fd, p, len, (off_t)at);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		p += r;
		at += (uint64_t)r;
		len -= (size_t)r;
	}
	return 0;
}

/* The block for reading, or (write) for change; NULL when it is damaged. */
static struct block *get_block(struct pl_index *ix, uint32_t no, bool write)
{
	struct cached *c;

	if (no < HEADER_BLOCKS || no >= ix->h.n_blocks)
		return NULL;
	ix->dirty |= write;
	if (ix->image)
		return &ix->image[no];
	for (c = ix->cache; c && c->no != no; c = c->next)
		;
	if (!c) {
		c = malloc(sizeof(*c));
		if (!c)
			return NULL;
		if (!read_at(ix->fd, &c->b, BLOCK, (uint64_t)no * BLOCK) ||
		    c->b.sum != block_sum(&c->b, no)) {
			free(c);
			return NULL;
		}
		c->no = no;
		c->dirty = false;
		c->next = ix->cache;
		ix->cache = c;
	}
	c->dirty |= write;
	return &c->b;
}

static void free_cache(struct pl_index *ix)
{
	while (ix->cache) {
		struct cached *c = ix->cache;

		ix->cache = c->next;
		free(c);
	}
}

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

static uint32_t map_blocks(uint32_t count)
{
	struct shape s;

	shape_of(count, &s);
	return (s.words + WORDS - 1) / WORDS;
}

static uint64_t *get_word(struct pl_index *ix, unsigned int range,
			  uint32_t word, bool write)
{
	struct block *b = get_block(ix, ix->h.ranges[range].first_block +
				    word / WORDS, write);

	return b ? &b->words[word % WORDS] : NULL;
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

static struct pl_addr range_start(const struct stored_range *r)
{
	struct pl_addr a = { .family = (uint8_t)r->family };

	memcpy(a.bytes, r->start, sizeof(a.bytes));
	return a;
}

int pl_index_range_find(const struct pl_index *ix,
			const struct pl_index_range *range)
{
	for (uint32_t i = 0; i < ix->h.n_ranges; i++) {
		struct pl_addr start = range_start(&ix->h.ranges[i]);

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
		struct pl_addr start = range_start(&ix->h.ranges[i]);
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

	return HEADER_BLOCKS + ((home + step) & (ix->h.n_table - 1));
}

static int table_add(struct pl_index *ix, uint64_t hash,
		     const struct pl_addr *addr)
{
	for (uint32_t i = 0; i < ix->h.n_table; i++) {
		struct block *b = get_block(ix, bucket(ix, hash, i), true);
		struct slot *s;

		if (!b || b->n_slots > SLOTS)
			return -EBADMSG;
		if (b->n_slots == SLOTS) {
			b->spilled = 1;
			continue;
		}
		s = &b->slots[b->n_slots++];
		*s = (struct slot){ .hash = hash, .family = addr->family };
		memcpy(s->addr, addr->bytes, sizeof(s->addr));
		ix->h.n_entries++;
		return 0;
	}
	return -EBADMSG;
}

static struct pl_addr slot_addr(const struct slot *s)
{
	struct pl_addr a = { .family = s->family };

	memcpy(a.bytes, s->addr, sizeof(a.bytes));
	return a;
}

static int table_del(struct pl_index *ix, uint64_t hash,
		     const struct pl_addr *addr)
{
	for (uint32_t i = 0; i < ix->h.n_table; i++) {
		struct block *b = get_block(ix, bucket(ix, hash, i), true);

		if (!b || b->n_slots > SLOTS)
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
		struct block *b = get_block(ix, bucket(ix, hash, i), false);

		if (!b || b->n_slots > SLOTS)
			return -EBADMSG;
		for (uint32_t k = 0; k < b->n_slots && n < max; k++)
			if (b->slots[k].hash == hash)
				addrs[n++] = slot_addr(&b->slots[k]);
		if (!b->spilled)
			break;
	}
	return n;
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
static int make_image(struct header *h, uint32_t n_table, struct pl_index **out)
{
	struct pl_index *ix = calloc(1, sizeof(*ix));
	uint32_t n = HEADER_BLOCKS + n_table;

	if (!ix)
		return -ENOMEM;
	ix->fd = -1;
	ix->dirty = true;
	ix->h = *h;
	ix->h.magic = MAGIC;
	ix->h.version = VERSION;
	ix->h.n_table = n_table;
	ix->h.n_entries = 0;
	for (uint32_t i = 0; i < h->n_ranges; i++) {
		ix->h.ranges[i].first_block = n;
		n += map_blocks(h->ranges[i].count);
	}
	ix->h.n_blocks = n;
	ix->image = calloc(n, BLOCK);
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
	struct header h = { .n_ranges = n };

	for (unsigned int i = 0; i < n; i++) {
		h.ranges[i].family = ranges[i].start.family;
		h.ranges[i].count = ranges[i].count;
		memcpy(h.ranges[i].start, ranges[i].start.bytes, 16);
	}
	return make_image(&h, TABLE_MIN, out);
}

/* All blocks of the file with what the cache has changed, in one read. */
static int load_image(struct pl_index *ix)
{
	struct block *image = malloc((size_t)ix->h.n_blocks * BLOCK);

	if (!image)
		return -ENOMEM;
	if (!read_at(ix->fd, image, (size_t)ix->h.n_blocks * BLOCK, 0)) {
		free(image);
		return -EBADMSG;
	}
	for (uint32_t i = HEADER_BLOCKS; i < ix->h.n_blocks; i++) {
		if (image[i].sum == block_sum(&image[i], i))
			continue;
		free(image);
		return -EBADMSG;
	}
	for (struct cached *c = ix->cache; c; c = c->next)
		image[c->no] = c->b;
	free_cache(ix);
	ix->image = image;
	return 0;
}

/* Replace ix by one with a table of twice the size, without the directory. */
static int grow(struct pl_index *ix)
{
	struct pl_index *big;
	int rc = ix->image ? 0 : load_image(ix);

	if (rc == 0 && ix->h.n_table >= TABLE_MAX)
		rc = -ENOSPC;
	if (rc == 0)
		rc = make_image(&ix->h, ix->h.n_table * 2, &big);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; rc == 0 && i < ix->h.n_table; i++) {
		struct block *b = &ix->image[HEADER_BLOCKS + i];

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

	if (ix->h.n_entries >= ix->h.n_table * SLOTS / 3 * 2)
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

/* --- the file --- */

static bool header_is_sound(const struct header *h)
{
	uint64_t n = HEADER_BLOCKS;

	if (h->magic != MAGIC || h->version != VERSION ||
	    h->sum != header_sum(h))
		return false;
	if (h->n_table < TABLE_MIN || h->n_table > TABLE_MAX ||
	    (h->n_table & (h->n_table - 1)) ||
	    h->n_ranges > PL_INDEX_MAX_RANGES)
		return false;
	n += h->n_table;
	for (uint32_t i = 0; i < h->n_ranges; i++) {
		const struct stored_range *r = &h->ranges[i];

		if (r->count == 0 || r->count > RANGE_COUNT_MAX ||
		    r->first_block != n ||
		    (r->family != AF_INET && r->family != AF_INET6))
			return false;
		n += map_blocks(r->count);
	}
	return n == h->n_blocks;
}

static int read_header(int dir_fd, struct header *h, int *fd_out)
{
	pl_auto_fd fd = openat(dir_fd, PL_INDEX_FILE,
			       O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return -errno;
	if (!read_at(fd, h, sizeof(*h), 0) || !header_is_sound(h))
		return -EBADMSG;
	*fd_out = pl_take_fd(&fd);
	return 0;
}

int pl_index_open(int dir_fd, const struct pl_index_stamp *stamp,
		  struct pl_index **out)
{
	struct pl_index *ix = calloc(1, sizeof(*ix));
	int rc;

	if (!ix)
		return -ENOMEM;
	ix->fd = -1;
	rc = read_header(dir_fd, &ix->h, &ix->fd);
	if (rc == 0 && (ix->h.dev != stamp->dev || ix->h.ino != stamp->ino ||
			ix->h.mtime_sec != stamp->mtime_sec ||
			memcmp(ix->h.boot, stamp->boot, sizeof(ix->h.boot))))
		rc = -ESTALE;
	if (rc < 0) {
		pl_index_destroy(ix);
		return rc;
	}
	*out = ix;
	return 0;
}

unsigned int pl_index_stored_ranges(int dir_fd, struct pl_index_range *ranges)
{
	struct header h;
	pl_auto_fd fd = -1;

	if (read_header(dir_fd, &h, &fd) < 0)
		return 0;
	for (uint32_t i = 0; i < h.n_ranges; i++) {
		ranges[i].start = range_start(&h.ranges[i]);
		ranges[i].count = h.ranges[i].count;
	}
	return h.n_ranges;
}

void pl_index_destroy(struct pl_index *ix)
{
	if (!ix)
		return;
	free_cache(ix);
	free(ix->image);
	pl_close_fd(&ix->fd);
	free(ix);
}

static int store_image(struct pl_index *ix, int dir_fd)
{
	int rc;

	for (uint32_t i = HEADER_BLOCKS; i < ix->h.n_blocks; i++)
		ix->image[i].sum = block_sum(&ix->image[i], i);
	memcpy(ix->image, &ix->h, sizeof(ix->h));
	unlinkat(dir_fd, PL_INDEX_TEMP, 0);

	pl_auto_fd fd = openat(dir_fd, PL_INDEX_TEMP,
			       O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	rc = write_at(fd, ix->image, (size_t)ix->h.n_blocks * BLOCK, 0);
	if (rc == 0 && renameat(dir_fd, PL_INDEX_TEMP, dir_fd,
				PL_INDEX_FILE) < 0)
		rc = -errno;
	if (rc < 0)
		unlinkat(dir_fd, PL_INDEX_TEMP, 0);
	return rc;
}

static int store_blocks(struct pl_index *ix)
{
	for (struct cached *c = ix->cache; c; c = c->next) {
		int rc;

		if (!c->dirty)
			continue;
		c->b.sum = block_sum(&c->b, c->no);
		rc = write_at(ix->fd, &c->b, BLOCK, (uint64_t)c->no * BLOCK);
		if (rc < 0)
			return rc;
		c->dirty = false;
	}
	return write_at(ix->fd, &ix->h, sizeof(ix->h), 0);
}

int pl_index_store(struct pl_index *ix, int dir_fd,
		   const struct pl_index_stamp *stamp)
{
	int rc;

	ix->h.dev = stamp->dev;
	ix->h.ino = stamp->ino;
	ix->h.mtime_sec = stamp->mtime_sec;
	memcpy(ix->h.boot, stamp->boot, sizeof(ix->h.boot));
	ix->h.sum = header_sum(&ix->h);
	rc = ix->image ? store_image(ix, dir_fd) : store_blocks(ix);
	if (rc == 0)
		ix->dirty = false;
	return rc;
}
