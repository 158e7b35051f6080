/* bench/ps_stale.c - staleness: what an asynchronous gradient has missed */
#include "bench/ps_stale.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

#define LOG_ROOM 1024

int ps_stale_init(struct ps_stale *s, uint32_t workers, uint32_t chunks,
		  struct pl_err *err)
{
	*s = (struct ps_stale){ .chunks = chunks, .workers = workers };
	s->behind = calloc((size_t)workers * chunks, sizeof(*s->behind));
	s->version = calloc(workers, sizeof(*s->version));
	s->log_room = LOG_ROOM;
	s->log = calloc(s->log_room, sizeof(*s->log));
	if (!s->behind || !s->version || !s->log)
		return pl_err_set(err, ENOMEM, "out of memory");
	return 0;
}

void ps_stale_fini(struct ps_stale *s)
{
	free(s->behind);
	free(s->version);
	free(s->log);
	*s = (struct ps_stale){ .chunks = 0 };
}

void ps_stale_merge(struct ps_stale_sum *to, const struct ps_stale_sum *s)
{
	to->chunks += s->chunks;
	to->updates += s->updates;
	to->most = PL_MAX(to->most, s->most);
}

static uint32_t *behind(struct ps_stale *s, uint32_t rank, uint32_t chunk)
{
	return &s->behind[(size_t)rank * s->chunks + chunk];
}

void ps_stale_apply(struct ps_stale *s, uint32_t rank, uint32_t chunk,
		    bool counts)
{
	const uint32_t missed = *behind(s, rank, chunk);
	const struct ps_stale_sum one = { 1, missed, missed };

	if (counts)
		ps_stale_merge(&s->sum, &one);
	for (uint32_t i = 0; i < s->workers; i++)
		*behind(s, i, chunk) += i != rank;
}

void ps_stale_copied(struct ps_stale *s, uint32_t rank, uint32_t chunk)
{
	*behind(s, rank, chunk) = 0;
}

/* Those that all copies have. */
static void forget(struct ps_stale *s)
{
	uint64_t least = s->log_n;

	for (uint32_t i = 0; i < s->workers; i++)
		least = PL_MIN(least, s->version[i]);
	memmove(s->log, s->log + (least - s->log_first),
		(s->log_n - least) * sizeof(*s->log));
	s->log_first = least;
}

/* At least half of it is free then, which pays for the moving. */
static int make_room(struct ps_stale *s)
{
	void *more;

	forget(s);
	if (s->log_n - s->log_first <= s->log_room / 2)
		return 0;
	more = reallocarray(s->log, 2 * s->log_room, sizeof(*s->log));
	if (!more)
		return -ENOMEM;
	s->log = more;
	s->log_room *= 2;
	return 0;
}

int ps_stale_log(struct ps_stale *s, uint32_t rank, uint32_t chunk)
{
	if (s->log_n - s->log_first == s->log_room && make_room(s))
		return -ENOMEM;
	s->log[s->log_n++ - s->log_first] =
		(struct ps_stale_update){ rank, chunk };
	return 0;
}

int ps_stale_copied_all(struct ps_stale *s, uint32_t rank, uint64_t version)
{
	const struct ps_stale_update *u;

	if (version > s->log_n || version < s->version[rank])
		return -EPROTO;
	for (; s->version[rank] < version; s->version[rank]++) {
		u = &s->log[s->version[rank] - s->log_first];
		*behind(s, rank, u->chunk) -= u->rank != rank;
	}
	return 0;
}
