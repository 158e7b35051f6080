/*
 * ipam/indexfile.c - the index as blocks of a file: reading, checking, writing
 *
 * The format stands in index.c.
 */
#include "ipam/indexfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/util.h"

/* --- checksums and blocks --- */

static uint64_t sum_of(const void *data, size_t len, uint64_t seed)
{
	const uint8_t *p = data;
	uint64_t s = seed ^ IX_MAGIC;

	for (; len >= 8; len -= 8, p += 8) {
		uint64_t w;

		memcpy(&w, p, 8);
		s = (s ^ w) * 0x9e3779b97f4a7c15u;
		s ^= s >> 29;
	}
	return s;
}

static uint64_t block_sum(const struct pl_ix_block *b, uint32_t no)
{
	return sum_of(b, IX_BLOCK - 8, no + 1);
}

static uint64_t header_sum(const struct pl_ix_header *h)
{
	return sum_of(h, sizeof(*h) - 8, 0);
}

static uint64_t offset_of(uint32_t block)
{
	return (uint64_t)block * IX_BLOCK;
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

struct pl_ix_block *pl_ix_get(struct pl_index *ix, uint32_t no, bool write)
{
	struct pl_ix_cached *c;

	if (no < IX_HEADER_BLOCKS || no >= ix->h.n_blocks)
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
		if (!read_at(ix->fd, &c->b, IX_BLOCK, offset_of(no)) ||
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
		struct pl_ix_cached *c = ix->cache;

		ix->cache = c->next;
		free(c);
	}
}

/* --- the file --- */

static bool header_is_sound(const struct pl_ix_header *h)
{
	uint64_t n = IX_HEADER_BLOCKS;

	if (h->magic != IX_MAGIC || h->version != IX_VERSION ||
	    h->sum != header_sum(h))
		return false;
	if (h->n_table < IX_TABLE_MIN || h->n_table > IX_TABLE_MAX ||
	    (h->n_table & (h->n_table - 1)) ||
	    h->n_ranges > PL_INDEX_MAX_RANGES)
		return false;
	n += h->n_table;
	for (uint32_t i = 0; i < h->n_ranges; i++) {
		const struct pl_ix_range *r = &h->ranges[i];

		if (r->count == 0 || r->count > IX_RANGE_COUNT_MAX ||
		    r->first_block != n ||
		    (r->family != AF_INET && r->family != AF_INET6))
			return false;
		n += pl_ix_map_blocks(r->count);
	}
	return n == h->n_blocks;
}

static int read_header(int dir_fd, struct pl_ix_header *h, int *fd_out)
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
	struct pl_ix_header h;
	pl_auto_fd fd = -1;

	if (read_header(dir_fd, &h, &fd) < 0)
		return 0;
	for (uint32_t i = 0; i < h.n_ranges; i++) {
		ranges[i].start = pl_ix_start(&h.ranges[i]);
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

/* All blocks of the file with what the cache has changed, in one read. */
int pl_ix_load(struct pl_index *ix)
{
	struct pl_ix_block *image = malloc((size_t)ix->h.n_blocks * IX_BLOCK);

	if (!image)
		return -ENOMEM;
	if (!read_at(ix->fd, image, (size_t)ix->h.n_blocks * IX_BLOCK, 0)) {
		free(image);
		return -EBADMSG;
	}
	for (uint32_t i = IX_HEADER_BLOCKS; i < ix->h.n_blocks; i++) {
		if (image[i].sum == block_sum(&image[i], i))
			continue;
		free(image);
		return -EBADMSG;
	}
	for (struct pl_ix_cached *c = ix->cache; c; c = c->next)
		image[c->no] = c->b;
	free_cache(ix);
	ix->image = image;
	return 0;
}

static int store_image(struct pl_index *ix, int dir_fd)
{
	int rc;

	for (uint32_t i = IX_HEADER_BLOCKS; i < ix->h.n_blocks; i++)
		ix->image[i].sum = block_sum(&ix->image[i], i);
	memcpy(ix->image, &ix->h, sizeof(ix->h));
	unlinkat(dir_fd, PL_INDEX_TEMP, 0);

	pl_auto_fd fd = openat(dir_fd, PL_INDEX_TEMP,
			       O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	rc = write_at(fd, ix->image, (size_t)ix->h.n_blocks * IX_BLOCK, 0);
	if (rc == 0 && renameat(dir_fd, PL_INDEX_TEMP, dir_fd,
				PL_INDEX_FILE) < 0)
		rc = -errno;
	if (rc < 0)
		unlinkat(dir_fd, PL_INDEX_TEMP, 0);
	return rc;
}

static int store_blocks(struct pl_index *ix)
{
	for (struct pl_ix_cached *c = ix->cache; c; c = c->next) {
		int rc;

		if (!c->dirty)
			continue;
		c->b.sum = block_sum(&c->b, c->no);
		rc = write_at(ix->fd, &c->b, IX_BLOCK, offset_of(c->no));
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
